"""One context call while it runs: what is asked, with which settings, and its trace so far."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from remem_pg.context.provider import Provider, Stuck
from remem_pg.context.result import Trace
from remem_pg.context.scope import Scope
from remem_pg.context.settings import ContextSettings
from remem_pg.context.snapshots import Snapshots
from remem_pg.steps import (
    Ask,
    Flow,
    Handshake,
    InTransaction,
    Job,
    Session,
    Settle,
    Settled,
    Together,
    Work,
    after_handshake,
)

T = TypeVar("T")

logger = logging.getLogger("remem_pg")


@dataclass(slots=True)
class Kept:
    """What a client keeps between context calls; shared by its siblings."""

    settings: ContextSettings = field(default_factory=ContextSettings)
    snapshots: Snapshots = field(default_factory=Snapshots)
    stuck: Stuck = field(default_factory=Stuck)


@dataclass(slots=True)
class Asked:
    """One context call: what is asked, by whom, with which settings, and its trace so far."""

    session: Session
    handshake: Handshake
    kept: Kept
    settings: ContextSettings
    scope: Scope
    prompt: str
    trace: Trace
    providers: dict[str, Provider]
    filter: str | None = None
    """The jsonpath predicate that memories have to pass beside the scope."""

    @property
    def key(self) -> Any:
        """The context that a catalog snapshot belongs to."""
        return self.scope, self.settings.catalog_budget

    def database(self, flow: Flow[T], milliseconds: float) -> Job:
        """A job on the client's connections: after the handshake, and in a savepoint where a
        failure would end a transaction of the caller's."""
        return Job(_guarded(self.handshake, flow), milliseconds / 1000, database=True)


def _guarded(handshake: Handshake, flow: Flow[T]) -> Flow[T]:
    checked = after_handshake(handshake, flow)
    if (yield InTransaction()):
        found: T = yield Together(checked)
        return found
    return (yield from checked)


class Stopwatch:
    """Enters the milliseconds of a step in the trace."""

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace, self._name = trace, name

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = (time.monotonic() - self._started) * 1000
        self._trace.timings[self._name] = self._trace.timings.get(self._name, 0.0) + spent


def alone(job: Job) -> Flow[Settled]:
    """What became of one job, which has its time and no longer."""
    settled = yield Settle({"": job})
    outcome: Settled = settled[""]
    return outcome


def work(function: Callable[[], Any]) -> Flow[Any]:
    """Our own blocking work as a flow."""
    return (yield Work(function))


def ask(function: Callable[[], Any]) -> Flow[Any]:
    """A function of the caller's as a flow."""
    return (yield Ask(function))


def name_of(outcome: Settled) -> str:
    """What a diagnostic says of a failure: never its message, which may quote the prompt."""
    return type(outcome.error).__name__ if outcome.error is not None else outcome.status
