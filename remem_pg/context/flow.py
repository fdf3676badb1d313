"""A whole context call, written once for both clients: whatever fails, the best smaller answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from remem_pg import calls
from remem_pg.context import plan as plans
from remem_pg.context.conflicts import grouped
from remem_pg.context.meter import Meter
from remem_pg.context.plan import Plan, PlannerRequest
from remem_pg.context.prompt import QUERY_CHARACTERS
from remem_pg.context.provider import POSTGRES, Provider, Stuck, by_id
from remem_pg.context.ranking import Ranked
from remem_pg.context.result import ContextResult, Trace
from remem_pg.context.scope import Scope
from remem_pg.context.searching import gathered
from remem_pg.context.settings import ContextSettings
from remem_pg.context.snapshots import Snapshot, Snapshots
from remem_pg.context.synthesis import (
    Budgets,
    SynthesisRequest,
    Written,
    catalog_bytes,
    write,
    written_by,
)
from remem_pg.embedding_policy import decide, forget_space
from remem_pg.errors import DimensionMismatch, NoAccess, TenantNotSet, UnknownSpace
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
    run,
)

T = TypeVar("T")

logger = logging.getLogger("remem_pg")


SEMANTIC = (
    "space_mismatch",
    "dimension_mismatch",
    "vector_refused",
    "no_embedding",
    "semantic_failed",
    "unknown_space",
)
"""What a plan says of its stage 1 when it was left out."""


@dataclass(slots=True)
class Memory:
    """What a client keeps between context calls; shared by its siblings."""

    settings: ContextSettings = field(default_factory=ContextSettings)
    snapshots: Snapshots = field(default_factory=Snapshots)
    stuck: Stuck = field(default_factory=Stuck)


@dataclass(slots=True)
class Asked:
    """One context call: what is asked, by whom, with which settings, and its trace so far."""

    session: Session
    handshake: Handshake
    kept: Memory
    settings: ContextSettings
    scope: Scope
    prompt: str
    trace: Trace
    providers: dict[str, Provider]

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


def opened(
    session: Session,
    handshake: Handshake,
    kept: Memory,
    prompt: str,
    scope: Scope,
    options: Mapping[str, Any],
) -> Asked:
    """A call with its trace begun; no I/O. Raises UnknownOption and InvalidArgument."""
    settings = kept.settings.changed(options)
    providers, again = by_id(settings.providers)
    trace = Trace(prompt, session.workspace, datetime.now(UTC), scope.session)
    for name in again:
        trace.note(f"providers.duplicate_id: {name}")
    return Asked(session, handshake, kept, settings, scope, prompt, trace, providers)


def planned(asked: Asked) -> Flow[Trace]:
    """Only the plan: nothing is searched. The trace holds it, and what went wrong."""
    yield from _plan(asked)
    return asked.trace


def context(asked: Asked) -> Flow[ContextResult]:
    """Plan, search, rank and write. Never raises for what a model, a provider, a function of the
    caller's or the database does: the text is smaller and ``trace.diagnostics`` says why."""
    trace, meter = asked.trace, Meter(asked.settings.tokenizer)
    ranked: list[Ranked] = []
    written = Written()
    try:
        vectors = yield from _plan(asked)
        yield from _stage2(asked)
        with Stopwatch(trace, "recall"):
            if trace.plan.should_retrieve:
                ranked = yield from gathered(asked, vectors)
        with Stopwatch(trace, "synthesis"):
            written = yield from _written(asked, ranked, meter)
    except Exception as error:  # the host goes on, with the catalog at least
        trace.note(f"orchestration failed: {type(error).__name__}")
        logger.warning("context failed: %s", type(error).__name__)
        written = _catalog_alone(asked, meter)
    if meter.failure:
        trace.note(f"tokenizer failed: {meter.failure}")
    trace.unit = meter.unit
    trace.selected, trace.omitted = len(written.selected), written.omitted
    trace.catalog_cost, trace.recall_cost = written.catalog_cost, written.recall_cost
    trace.provider_costs = written.provider_costs
    trace.total_bytes = len(written.text.encode())
    return ContextResult(written.text, trace, written.selected)


class Stopwatch:
    """Enters the milliseconds of a step in the trace."""

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace, self._name = trace, name

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = (time.monotonic() - self._started) * 1000
        self._trace.timings[self._name] = self._trace.timings.get(self._name, 0.0) + spent


# planning


def _plan(asked: Asked) -> Flow[bool]:
    """The plan, in the trace. Answers whether the model can still be asked for vectors."""
    trace, settings, session = asked.trace, asked.settings, asked.session
    vector, space, vectors = None, None, True
    with Stopwatch(trace, "embedding"):
        if settings.semantic:
            vector, space, vectors = yield from _embedded(asked)
    with Stopwatch(trace, "planning"):
        for attempt in (0, 1):
            options = _options(asked, space if vector is not None else None)
            call = calls.plan(session.workspace, asked.prompt, vector, options)
            job = asked.database(run(call), settings.plan_timeout_ms)
            outcome = yield from _alone(job)
            moved = isinstance(outcome.error, DimensionMismatch | UnknownSpace)
            if not moved or vector is None:
                break
            # the workspace is in another space by now: without the vector this once
            yield from forget_space(session, attempt)
            vector = None
            trace.note(f"semantic recognition failed: {_name(outcome)}")
        found = None
        if outcome.status == "ok":
            try:
                found = plans.read(outcome.value, settings.max_results)
            except (TypeError, ValueError):
                trace.note("plan failed: malformed")
        else:
            trace.note(f"plan failed: {_name(outcome)}")
        if found is None:
            _fall_back(asked, outcome)
        else:
            _keep(asked, found)
    return vectors


def _options(asked: Asked, space: str | None) -> dict[str, Any]:
    """The options of ``remem.plan``; what has its default there is not sent."""
    settings, default = asked.settings, ContextSettings()
    names = (
        "minimum_confidence",
        "max_topics",
        "semantic",
        "semantic_minimum_similarity",
        "deterministic_high_confidence",
        "catalog_limit",
    )
    options = {
        name: getattr(settings, name)
        for name in names
        if getattr(settings, name) != getattr(default, name)
    }
    options["catalog_bytes"] = catalog_bytes(settings)
    options["providers"] = [POSTGRES, *asked.providers]
    if settings.max_results != default.max_results:
        options["limit"] = settings.max_results
    if asked.scope.owners():
        options["context"] = asked.scope.owners()
    if space is not None:
        options["space"] = space
    return options


def _keep(asked: Asked, found: Plan) -> None:
    """The plan in the trace, with what it says was missing; its catalog for a moment without
    one."""
    trace = asked.trace
    trace.plan = found
    for code in found.degraded:
        head, _, name = code.partition(":")
        if head == "provider_unavailable":
            trace.note(f"provider {name} failed: unavailable")
        elif code in SEMANTIC:
            trace.note(f"semantic recognition failed: {code}")
    if found.catalog and not any(code.startswith("provider_") for code in found.degraded):
        kept = Snapshot(found.catalog, found.catalog_shown, found.catalog_omitted)
        asked.kept.snapshots.put(asked.key, kept)


def _embedded(asked: Asked) -> Flow[tuple[Any, str | None, bool]]:
    """The prompt's vector with its space, and whether the model works. Without one stage 0 decides
    alone."""
    session, settings, trace = asked.session, asked.settings, asked.trace
    job = asked.database(decide(session, writing=False), settings.plan_timeout_ms)
    decided = yield from _alone(job)
    if decided.status != "ok":
        trace.note(f"semantic recognition failed: {_name(decided)}")
        return None, None, True
    if decided.value.space is None:
        return None, None, True  # the plan names what it misses
    text = asked.prompt[:QUERY_CHARACTERS]
    embed = partial(session.embedder.embed_query, session.workspace, text)
    outcome = yield from _alone(Job(_work(embed), settings.embed_timeout_ms / 1000))
    if outcome.status == "ok" and outcome.value is not None:
        return outcome.value[0], decided.value.space, True
    why = _name(outcome) if outcome.status != "ok" else "no_embedding"
    trace.note(f"semantic recognition failed: {why}")
    return None, None, False


def _fall_back(asked: Asked, outcome: Settled) -> None:
    """Without a plan nothing is searched; the catalog of a moment ago is still good, unless it is
    access that is missing."""
    if isinstance(outcome.error, NoAccess | TenantNotSet):
        return
    kept = asked.kept.snapshots.get(asked.key)
    if kept is not None:
        asked.trace.catalog_cached = True
        asked.trace.plan = Plan(
            catalog=kept.text, catalog_shown=kept.shown, catalog_omitted=kept.omitted
        )


def _stage2(asked: Asked) -> Flow[None]:
    """The caller's planner, where stages 0 and 1 leave it open; else, or if it fails, their
    plan."""
    trace, settings = asked.trace, asked.settings
    if settings.planner is None:
        return
    trace.planner = "not_asked"
    if not trace.plan.ambiguous:
        return
    known = (POSTGRES, *asked.providers)
    request = PlannerRequest(asked.prompt, asked.scope, trace.plan, known)
    job = Job(_ask(partial(settings.planner, request)), settings.planner_timeout_ms / 1000)
    with Stopwatch(trace, "planner"):
        outcome = yield from _alone(job)
    if outcome.status == "ok":
        try:
            after = plans.replanned(trace.plan, outcome.value, known, settings.max_results)
        except (TypeError, ValueError) as error:
            outcome = replace(outcome, status="failed", error=error)
        else:
            trace.planner = "kept" if after is trace.plan else "used"
            trace.plan = after
            return
    trace.planner = outcome.status
    trace.note(f"planner failed: {_name(outcome)}")


# writing


def _written(asked: Asked, ranked: Sequence[Ranked], meter: Meter) -> Flow[Written]:
    settings = asked.settings
    recalled = None
    if settings.synthesizer is not None and ranked:
        recalled = yield from _by_caller(asked, ranked, meter)
    return _write(asked, ranked, meter, recalled)


def _by_caller(asked: Asked, ranked: Sequence[Ranked], meter: Meter) -> Flow[str | None]:
    """The text of the caller's synthesiser; None when it fails in any way."""
    settings, trace = asked.settings, asked.trace
    assert settings.synthesizer is not None
    side_by_side = tuple(item for group in grouped(ranked) for item in group)
    request = SynthesisRequest(side_by_side, settings.recall_budget, meter.unit, meter)
    call = partial(settings.synthesizer, request)
    outcome = yield from _alone(Job(_ask(call), settings.synthesis_timeout_ms / 1000))
    if outcome.status == "ok":
        try:
            return written_by(outcome.value, settings.recall_budget, meter)
        except OverflowError:
            trace.note("synthesis strategy failed: over budget")
        except TypeError:
            trace.note("synthesis strategy failed: no text")
    else:
        trace.note(f"synthesis strategy failed: {_name(outcome)}")
    return None


def _write(
    asked: Asked, ranked: Sequence[Ranked], meter: Meter, recalled: str | None = None
) -> Written:
    settings, plan = asked.settings, asked.trace.plan
    budgets = Budgets(settings.catalog_budget, settings.recall_budget, settings.provider_budget)
    measure = partial(write, plan.catalog, plan.catalog_omitted, ranked, budgets, meter)
    unit = meter.unit
    written = measure(recalled=recalled)
    # a tokenizer that failed half-way: what was measured by it is not in bytes
    return written if meter.unit == unit else measure()


def _catalog_alone(asked: Asked, meter: Meter) -> Written:
    try:
        return _write(asked, (), meter)
    except Exception:  # nothing is better than an error in the host
        return Written()


# small steps


def _alone(job: Job) -> Flow[Settled]:
    settled = yield Settle({"": job})
    outcome: Settled = settled[""]
    return outcome


def _work(function: Callable[[], Any]) -> Flow[Any]:
    return (yield Work(function))


def _ask(function: Callable[[], Any]) -> Flow[Any]:
    return (yield Ask(function))


def _name(outcome: Settled) -> str:
    """What a diagnostic says of a failure: never its message, which may quote the prompt."""
    return type(outcome.error).__name__ if outcome.error is not None else outcome.status
