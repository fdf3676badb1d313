"""A log line and, for a client that logs, a span for each context call: counts, times and states
out of closed lists. Never a prompt, a body, a title or a message of an error."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from remem_pg.recall import telemetry
from remem_pg.steps import Flow

if TYPE_CHECKING:
    from remem_pg.context.asked import Asked
    from remem_pg.context.result import Trace

T = TypeVar("T")

SPAN = "remem.context"

logger = logging.getLogger("remem_pg")


def observed(asked: Asked, flow: Flow[T]) -> Flow[T]:
    """The flow, and what is said of it afterwards."""
    span = telemetry.start(SPAN, asked.session.workspace) if asked.session.tiers.log else None
    try:
        result = yield from flow
        told = attributes(asked.trace)
        logger.debug("context %s", told)
        if span is not None:
            telemetry.describe(span, told)
        return result
    finally:
        if span is not None:
            span.end()


def attributes(trace: Trace) -> dict[str, Any]:
    """What is said of a call outside of its result."""
    plan = trace.plan
    told: dict[str, Any] = {
        "remem.context.stage": trace.stage,
        "remem.context.retrieve": plan.should_retrieve,
        "remem.context.topics": len(plan.topics),
        "remem.context.planner": trace.planner,
        "remem.context.raw": trace.raw,
        "remem.context.invalid": trace.invalid,
        "remem.context.deduplicated": trace.deduplicated,
        "remem.context.selected": trace.selected,
        "remem.context.omitted": trace.omitted,
        "remem.context.bytes": trace.total_bytes,
        "remem.context.diagnostics": len(trace.diagnostics),
    }
    for status in ("ok", "failed", "timed_out"):
        told[f"remem.context.providers.{status}"] = sum(
            run.status == status for run in trace.providers
        )
    for name, spent in trace.timings.items():
        told[f"remem.context.{name}_ms"] = round(spent, 1)
    return told
