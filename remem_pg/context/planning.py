"""Whether to search: the server's plan with the prompt's vector, then the caller's planner."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from remem_pg.context import calls as context_calls
from remem_pg.context import plan as plans
from remem_pg.context.asked import (
    Asked,
    Stopwatch,
    alone,
    ask,
    name_of,
    work,
)
from remem_pg.context.fence import catalog_bytes
from remem_pg.context.plan import Plan, PlannerRequest
from remem_pg.context.prompt import QUERY_CHARACTERS
from remem_pg.context.provider import POSTGRES
from remem_pg.context.settings import ContextSettings
from remem_pg.context.snapshots import Snapshot
from remem_pg.errors import (
    DimensionMismatch,
    NoAccess,
    ServerUnavailable,
    TenantNotSet,
    UnknownSpace,
)
from remem_pg.spaces.policy import decide
from remem_pg.steps import (
    Flow,
    Job,
    Settled,
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


LOAD_SECONDS = 30.0
"""How long a model may take to be loaded, which counts for no other time."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """What the model made of the prompt: its vector, of which space; whether the model can be asked
    again; and the failure of a database that need not be asked either."""

    vector: Any = None
    space: str | None = None
    works: bool = True
    unreachable: Settled | None = None


def make_plan(asked: Asked) -> Flow[bool]:
    """The plan, in the trace. Answers whether the model can still be asked for vectors."""
    trace, prompted = asked.trace, Prompted()
    with Stopwatch(trace, "embedding"):
        if asked.settings.semantic:
            prompted = yield from _embedded(asked)
    with Stopwatch(trace, "planning"):
        outcome = prompted.unreachable
        if outcome is None:
            outcome = yield from _planned(asked, prompted)
        found = None
        if outcome.status == "ok":
            try:
                found = plans.read(outcome.value, asked.settings.max_results)
            except (TypeError, ValueError):
                trace.note("plan failed: malformed")
        else:
            trace.note(f"plan failed: {name_of(outcome)}")
        if found is None:
            _fall_back(asked, outcome)
        else:
            _keep(asked, found)
    return prompted.works


def _planned(asked: Asked, prompted: Prompted) -> Flow[Settled]:
    """What the server says; without the vector when the workspace is in another space by now."""
    session, vector, space = asked.session, prompted.vector, prompted.space
    while True:
        call = context_calls.plan(
            session.workspace,
            asked.prompt,
            vector,
            _options(asked, space if vector is not None else None),
        )
        job = asked.database(run(call), asked.settings.plan_timeout_ms)
        outcome = yield from alone(job)
        if vector is None or not isinstance(outcome.error, DimensionMismatch | UnknownSpace):
            return outcome
        session.decision, vector = None, None
        asked.trace.note(f"semantic recognition failed: {name_of(outcome)}")


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
            if code == "space_mismatch":
                asked.session.decision = None  # the next call looks which space it is
            trace.note(f"semantic recognition failed: {code}")
        elif code == "stale_topics":
            trace.note("semantic recognition incomplete: stale_topics")
    if found.catalog and not any(code.startswith("provider_") for code in found.degraded):
        kept = Snapshot(found.catalog, found.catalog_shown, found.catalog_omitted)
        asked.kept.snapshots.put(asked.key, kept)


def _embedded(asked: Asked) -> Flow[Prompted]:
    """The prompt's vector. Without one, words alone decide."""
    session, settings, trace = asked.session, asked.settings, asked.trace
    if not (yield from _loaded(asked)):
        return Prompted(works=False)
    job = asked.database(decide(session, writing=False), settings.plan_timeout_ms)
    decided = yield from alone(job)
    if decided.status == "timed_out" or isinstance(decided.error, ServerUnavailable):
        return Prompted(works=False, unreachable=decided)
    if decided.status != "ok":
        trace.note(f"semantic recognition failed: {name_of(decided)}")
        return Prompted(works=False)
    if decided.value.space is None:
        return Prompted()  # the plan names what it misses
    text = asked.prompt[:QUERY_CHARACTERS]
    embed = partial(session.embedder.embed_query, session.workspace, text)
    outcome = yield from alone(Job(work(embed), settings.embed_timeout_ms / 1000))
    if outcome.status == "ok" and outcome.value is not None:
        return Prompted(outcome.value[0], decided.value.space)
    why = name_of(outcome) if outcome.status != "ok" else "no_embedding"
    trace.note(f"semantic recognition failed: {why}")
    return Prompted(works=False)


def _loaded(asked: Asked) -> Flow[bool]:
    """Whether the model is there, loaded now if need be: the time for the plan is for a process
    that goes on, and its first call would pay for the loading."""
    embedder = asked.session.embedder
    if embedder.ready:
        return True
    status = "timed_out"
    if not (embedder.late and embedder.loading):  # one that hangs is waited for once
        outcome = yield from alone(Job(work(embedder.prepare), LOAD_SECONDS))
        embedder.late = outcome.status == "timed_out"
        if outcome.status == "ok":
            return True
        status = name_of(outcome)
    asked.trace.note(f"semantic recognition failed: {status}")
    return False


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


def stage2(asked: Asked) -> Flow[None]:
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
    job = Job(ask(partial(settings.planner, request)), settings.planner_timeout_ms / 1000)
    with Stopwatch(trace, "planner"):
        outcome = yield from alone(job)
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
    trace.note(f"planner failed: {name_of(outcome)}")
