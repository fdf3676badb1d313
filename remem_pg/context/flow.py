"""A whole context call, once for both clients: whatever fails, the best smaller answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from remem_pg.context.asked import (
    Asked,
    Kept,
    Stopwatch,
    alone,
    ask,
    name_of,
)
from remem_pg.context.conflicts import grouped
from remem_pg.context.filling import Budgets
from remem_pg.context.meter import Meter
from remem_pg.context.planning import make_plan, stage2
from remem_pg.context.provider import by_id
from remem_pg.context.ranking import Ranked
from remem_pg.context.result import ContextResult, Trace
from remem_pg.context.scope import Scope
from remem_pg.context.searching import gathered
from remem_pg.context.synthesis import (
    SynthesisRequest,
    Written,
    write,
    written_by,
)
from remem_pg.recall.restrict import as_filter
from remem_pg.steps import (
    Flow,
    Handshake,
    Job,
    Session,
)

T = TypeVar("T")

logger = logging.getLogger("remem_pg")


def opened(
    session: Session,
    handshake: Handshake,
    kept: Kept,
    prompt: str,
    scope: Scope,
    options: Mapping[str, Any],
    where: str | None = None,
) -> Asked:
    """A call with its trace begun; no I/O. Raises UnknownOption and InvalidArgument."""
    settings = kept.settings.changed(options)
    providers, again = by_id(settings.providers)
    trace = Trace(prompt, session.workspace, datetime.now(UTC), scope.session)
    for name in again:
        trace.note(f"providers.duplicate_id: {name}")
    filter = as_filter(None, where)
    return Asked(session, handshake, kept, settings, scope, prompt, trace, providers, filter)


def planned(asked: Asked) -> Flow[Trace]:
    """Only the plan: nothing is searched. The trace holds it, and what went wrong."""
    yield from make_plan(asked)
    return asked.trace


def context(asked: Asked) -> Flow[ContextResult]:
    """Plan, search, rank and write. Never raises for what a model, a provider, a function of the
    caller's or the database does: the text is smaller and ``trace.diagnostics`` says why."""
    trace, meter = asked.trace, Meter(asked.settings.tokenizer)
    ranked: list[Ranked] = []
    written = Written()
    try:
        vectors = yield from make_plan(asked)
        yield from stage2(asked)
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
    outcome = yield from alone(Job(ask(call), settings.synthesis_timeout_ms / 1000))
    if outcome.status == "ok":
        try:
            return written_by(outcome.value, settings.recall_budget, meter)
        except OverflowError:
            trace.note("synthesis strategy failed: over budget")
        except TypeError:
            trace.note("synthesis strategy failed: no text")
    else:
        trace.note(f"synthesis strategy failed: {name_of(outcome)}")
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
