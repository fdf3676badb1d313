"""What the methods of a client stand on: a session, and the ways to carry a flow out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from remem_pg.calls import Call
    from remem_pg.steps import Flow, Session

T = TypeVar("T")


class Carries(ABC):
    """The synchronous client, as its groups of methods know it."""

    _session: Session

    @abstractmethod
    def _do(self, flow: Flow[T]) -> T:
        """Carries a flow out, after the handshake with the database."""

    @abstractmethod
    def _drive(self, flow: Flow[T]) -> T:
        """Carries a flow out that greets the database by itself."""

    @abstractmethod
    def _call(self, call: Call[T]) -> T:
        """One call, after the handshake."""


class AsyncCarries(ABC):
    """The asynchronous client, as its groups of methods know it."""

    _session: Session

    @abstractmethod
    async def _do(self, flow: Flow[T]) -> T:
        """Carries a flow out, after the handshake with the database."""

    @abstractmethod
    async def _drive(self, flow: Flow[T]) -> T:
        """Carries a flow out that greets the database by itself."""

    @abstractmethod
    async def _call(self, call: Call[T]) -> T:
        """One call, after the handshake."""
