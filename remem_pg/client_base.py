"""What the methods of a client stand on: a session, and the ways to carry a flow out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from remem_pg import steps

if TYPE_CHECKING:
    from remem_pg.calls import Call

T = TypeVar("T")


class Carries(ABC):
    """The synchronous client, as its groups of methods know it."""

    _session: steps.Session
    _handshake: steps.Handshake

    @abstractmethod
    def _drive(self, flow: steps.Flow[T]) -> T:
        """Carries a flow out that greets the database by itself."""

    def _do(self, flow: steps.Flow[T]) -> T:
        return self._drive(steps.after_handshake(self._handshake, flow))

    def _call(self, call: Call[T]) -> T:
        return self._do(steps.run(call))


class AsyncCarries(ABC):
    """The asynchronous client, as its groups of methods know it."""

    _session: steps.Session
    _handshake: steps.Handshake

    @abstractmethod
    async def _drive(self, flow: steps.Flow[T]) -> T:
        """Carries a flow out that greets the database by itself."""

    async def _do(self, flow: steps.Flow[T]) -> T:
        return await self._drive(steps.after_handshake(self._handshake, flow))

    async def _call(self, call: Call[T]) -> T:
        return await self._do(steps.run(call))
