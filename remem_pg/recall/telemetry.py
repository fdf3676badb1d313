"""One OpenTelemetry span per recall: tier, milliseconds by stage, counts, states. Never a text.

Without the extra ``otel`` there is no span and no error. The application configures the tracer
provider; this module only asks for a tracer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from remem_pg.models import RecallResult
from remem_pg.steps import Flow
from remem_pg.version import __version__

T = TypeVar("T")

SPAN = "remem.recall"

logger = logging.getLogger("remem_pg")


def observed(workspace: str, k: int, flow: Flow[T]) -> Flow[T]:
    """The flow of one recall, and a span over the whole of it: model, server and second look."""
    span = _start(workspace, k)
    if span is None:
        return (yield from flow)
    try:
        result = yield from flow
        _describe(span, result)
        return result
    except BaseException as error:
        # the class alone: a message may quote what was asked
        describe(span, {"error.type": getattr(error, "code", None) or type(error).__name__})
        raise
    finally:
        span.end()


def _start(workspace: str, k: Any) -> Any:
    span = start(SPAN, workspace)
    if span is not None:
        describe(span, {"remem.k": k if isinstance(k, int) else None})
    return span


def start(name: str, workspace: str) -> Any:
    """A span that its caller ends; None without the extra ``otel``."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    span = trace.get_tracer("remem_pg", __version__).start_span(name, kind=trace.SpanKind.CLIENT)
    describe(span, {"remem.workspace": workspace})
    return span


def attributes(result: Any) -> dict[str, Any]:
    """What a span says about a recall: numbers, and words out of closed lists."""
    if not isinstance(result, RecallResult):
        return {}
    trace = result.trace
    found: dict[str, Any] = {
        "remem.tier": trace.get("tier"),
        "remem.returned": len(result),
        "remem.degraded": list(result.degraded),
    }
    for stage, elapsed in _mapping(trace.get("timings")).items():
        if isinstance(elapsed, int | float) and not isinstance(elapsed, bool):
            found[f"remem.stage.{stage}_ms"] = float(elapsed)
    for arm, state in _mapping(trace.get("arms")).items():
        for name in ("state", "found"):
            value = _mapping(state).get(name)
            if isinstance(value, str | int):
                found[f"remem.arm.{arm}.{name}"] = value
    rerank = _mapping(trace.get("rerank"))
    for name in ("state", "reranked", "elapsed_ms"):
        found[f"remem.rerank.{name}"] = rerank.get(name)
    return {name: value for name, value in found.items() if value is not None}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _describe(span: Any, result: Any) -> None:
    describe(span, attributes(result))


def describe(span: Any, values: Mapping[str, Any]) -> None:
    """Sets what is known of the values."""
    try:
        for name, value in values.items():
            if value is not None:
                span.set_attribute(name, value)
    except Exception as error:  # the application's tracer: no span is worth an answer
        logger.debug("span not written: %r", error)
