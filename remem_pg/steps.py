"""The steps a flow yields, and what a client knows between flows.

A flow is a generator: it yields steps (run this call, do this blocking work, run this inside one
transaction), is sent their results, and returns the method's result. It does no I/O itself. The
sync and the async client differ only in how they carry a step out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from remem_pg import calls, checks
from remem_pg.calls import Call
from remem_pg.errors import DatabaseNewer
from remem_pg.recall.result_cache import Tiers
from remem_pg.recall.stages import Stages
from remem_pg.spaces.embedder import Embedder
from remem_pg.tenancy import calls as admin_calls
from remem_pg.version import COMPATIBILITY

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """Send a call; answered with what its ``parse`` made of the reply."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Work:
    """Do blocking work that is not the database's (a model); answered with its result."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Together:
    """Run a flow inside one transaction (a savepoint inside the caller's own)."""

    flow: Flow[Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """Send ``blocks`` to a ``COPY ... FROM STDIN``, inside a ``Together``; answered with None."""

    sql: str
    blocks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class CopyOut:
    """Give each row of a call's one column to ``sink`` as it arrives, inside a ``Together``."""

    call: Call[Any]
    sink: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Ask whether a failed call would leave an aborted transaction behind."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Send calls at once, each on a connection of its own; answered with a dictionary of what came
    back, or with None where there is only one connection.

    A call whose connection broke is answered with its error. What is not there after ``seconds``
    (None: no limit) is given up and missing, but for the call of the name ``mandatory``.
    """

    calls: Mapping[str, Call[Any]]
    mandatory: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Call somebody else's function, which may answer with an awaitable; answered with the
    result."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A flow with a time of its own. ``database`` says that it uses the client's connections."""

    flow: Flow[Any]
    seconds: float
    database: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a job: ``status`` is ok (``value``), failed (``error``) or timed_out."""

    status: str
    milliseconds: float
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Do jobs at the same time; answered with a dictionary of what became of each. No job is waited
    for beyond its time, except those that use a connection of the caller's: it would be in use
    while the caller goes on."""

    jobs: Mapping[str, Job]


Step = Run | Work | Together | Copy | CopyOut | InTransaction | SideBySide | Ask | Settle
Flow = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether this client embeds for its workspace, in which space, and what to say if not.

    ``until``: the moment (monotonic) from when it is to be made again; None: never.
    """

    space: str | None = None
    degraded: tuple[str, ...] = ()
    until: float | None = None


@dataclass(slots=True)
class Handshake:
    """Whether the database was found to be one this client can talk to, whether it is in strict
    mode, and the fingerprint of the model in it, if any; shared by siblings."""

    done: bool = False
    strict: bool = False
    server_model: str | None = None


@dataclass(slots=True)
class Session:
    """What one client knows: workspace and model, the decision made for the two, its stages."""

    workspace: str
    embedder: Embedder
    tenant: bool | None = None
    decision: Decision | None = None
    stages: Stages = field(default_factory=Stages)
    tiers: Tiers = field(default_factory=Tiers)
    stages_items: bool = True
    """False once the database or the role turned out to have no staging tables."""
    handshake: Handshake = field(default_factory=Handshake)

    def narrowed(self, call: Call[T]) -> tuple[Call[T], str | None]:
        """The call as it is sent, and the tenant setting it makes (None: none).

        Told to (``tenant``), or because the database is in strict mode; then a setting that is
        there already is left alone.
        """
        if not (self.handshake.strict if self.tenant is None else self.tenant):
            return call, None
        narrowed = calls.in_tenant(call, self.workspace, keep=self.tenant is None)
        return narrowed, None if narrowed is call else self.workspace

    def learns_strict(self) -> bool:
        """After a refusal for want of the setting: whether from now on calls will make it."""
        if self.tenant is not None or self.handshake.strict:
            return False
        self.handshake.strict = True
        return True

    def sibling(self, workspace: str) -> Session:
        """The session of another workspace with the same model."""
        return Session(
            checks.text(workspace, "workspace"),
            self.embedder,
            self.tenant,
            stages=self.stages,
            tiers=self.tiers,
            handshake=self.handshake,
        )


def after_handshake(handshake: Handshake, flow: Flow[T]) -> Flow[T]:
    """The flow, and before the first one a look at the database's compatibility number."""
    if not handshake.done:
        found = yield Run(admin_calls.version())
        if found.compatibility > COMPATIBILITY:
            raise DatabaseNewer(
                detail={"got": found.compatibility, "expected": COMPATIBILITY},
                hint=f"pip install --upgrade remem-pg (the database has {found.version})",
            )
        handshake.strict = found.details.get("tenant_mode") == "strict"
        handshake.server_model = (found.details.get("server_model") or {}).get("fingerprint")
        handshake.done = True
    return (yield from flow)


def run(call: Call[T]) -> Flow[T]:
    """The flow of a method that is one call and nothing else."""
    result: T = yield Run(call)
    return result


def carry(flow: Flow[T], perform: Callable[[Step], Any]) -> T:
    """Carries a flow out. ``perform`` answers a step; what it raises is raised in the flow."""
    try:
        step = next(flow)
        while True:
            try:
                answer = perform(step)
            except Exception as exc:
                step = flow.throw(exc)
            else:
                step = flow.send(answer)
    except StopIteration as done:
        return cast(T, done.value)
    finally:
        flow.close()


async def carry_async(flow: Flow[T], perform: Callable[[Step], Awaitable[Any]]) -> T:
    """The same where steps are awaited."""
    try:
        step = next(flow)
        while True:
            try:
                answer = await perform(step)
            except Exception as exc:
                step = flow.throw(exc)
            else:
                step = flow.send(answer)
    except StopIteration as done:
        return cast(T, done.value)
    finally:
        flow.close()
