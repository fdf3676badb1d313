"""The requests of a plan carried out: all at once, each with its time, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from remem_pg.context import postgres
from remem_pg.context.plan import Request
from remem_pg.context.provider import POSTGRES, Provider, searching
from remem_pg.context.ranking import Ranked, deduplicated, ranked
from remem_pg.context.record import Record, accepted
from remem_pg.context.result import ProviderRun
from remem_pg.steps import Ask, Flow, Job, Settle, Settled

if TYPE_CHECKING:
    from remem_pg.context.asked import Asked

EVENTS = "postgres:episodic"
"""The episodic plane in the trace; its results are Postgres's."""


def gathered(asked: Asked, vectors: bool) -> Flow[list[Ranked]]:
    """The ranked results of all providers of the plan, each once. What failed is in the trace."""
    trace, settings = asked.trace, asked.settings
    jobs: dict[str, Job] = {}
    limits: dict[str, int] = {}
    for request in trace.plan.requests:
        if asked.filter is not None and request.provider != POSTGRES:
            trace.note(f"provider {request.provider} was not asked: it cannot judge where")
            continue
        limits[request.provider] = request.limit
        if request.provider == POSTGRES:
            search = partial(
                postgres.search,
                topics=trace.plan.topics,
                answers=trace.plan.memories,
                judged=trace.plan.judged and trace.planner != "used",
                note=trace.note,
            )
            jobs[POSTGRES] = _postgres(asked, request, search, vectors)
            if settings.episodic and trace.plan.continuity:
                limits[EVENTS] = request.limit
                jobs[EVENTS] = _postgres(asked, request, postgres.events, vectors)
        elif request.provider in asked.providers:
            jobs[request.provider] = _external(asked, asked.providers[request.provider], request)
        else:
            trace.providers.append(ProviderRun(request.provider, "failed", 0.0, error="unknown"))
            trace.note(f"provider {request.provider} failed: unknown")
    settled: dict[str, Settled] = yield Settle(jobs)
    records: list[Record] = []
    for name, outcome in settled.items():
        records += _records(asked, name, outcome, limits[name])
    if trace.invalid:
        trace.note(f"{trace.invalid} invalid or out-of-scope result(s) omitted")
    planes = [settled[name].status for name in (POSTGRES, EVENTS) if name in settled]
    if len(planes) == 2 and planes.count("ok") == 1:
        trace.note("one retrieval plane failed; available results retained")
    found = deduplicated(ranked(records, trace.plan.confidence, datetime.now(UTC)))
    trace.deduplicated = len(found)
    return found


def _postgres(
    asked: Asked, request: Request, search: Callable[..., Flow[list[Record]]], vectors: bool
) -> Job:
    settings = asked.settings
    flow = search(
        asked.session,
        request.query,
        asked.scope,
        request.limit,
        settings.min_relevance,
        vectors,
        filter=asked.filter,
    )
    return asked.database(flow, settings.provider_timeout_ms)


def _external(asked: Asked, provider: Provider, request: Request) -> Job:
    limit = _own(provider, "timeout_ms", asked.settings.provider_timeout_ms, 60_000)
    stuck = asked.kept.stuck
    seconds = limit / 1000
    search = searching(provider, request.query, asked.scope, request.limit, stuck, seconds)
    return Job(_ask(search), seconds)


def _ask(search: Callable[[], Any]) -> Flow[list[Any]]:
    found: list[Any] = yield Ask(search)
    return found


def _own(provider: Provider, name: str, default: float, most: float) -> float:
    value = getattr(provider, name, None)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return min(most, float(value))
    return default


def _records(asked: Asked, name: str, outcome: Settled, limit: int) -> Iterable[Record]:
    """What a provider gave, without what is malformed or out of scope; its state in the trace."""
    trace = asked.trace
    error = type(outcome.error).__name__ if outcome.error is not None else None
    raw = list(outcome.value) if outcome.status == "ok" else []
    trace.providers.append(ProviderRun(name, outcome.status, outcome.milliseconds, len(raw), error))
    if outcome.status != "ok":
        said = f"provider {name} {outcome.status}"
        trace.note(f"{said}: {error}" if error else said)
    provider = POSTGRES if name == EVENTS else name
    own = asked.providers.get(name)
    most = asked.settings.body_limit
    if own is not None:
        most = int(_own(own, "body_limit", most, 50_000))
    found = [accepted(each, provider, asked.scope, most) for each in raw]
    trace.raw += len(raw)
    trace.invalid += found.count(None)
    return [record for record in found if record is not None]
