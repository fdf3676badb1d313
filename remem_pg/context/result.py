"""The answer of a context call: the text, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from remem_pg.context.plan import Plan, Request, Topic
from remem_pg.context.ranking import Ranked


@dataclass(frozen=True, slots=True)
class ProviderRun:
    """What became of one provider: ``status`` is ok, failed or timed_out; ``error`` a class
    name."""

    provider_id: str
    status: str
    duration_ms: float
    result_count: int = 0
    error: str | None = None

    def document(self) -> dict[str, Any]:
        return {
            "providerId": self.provider_id,
            "status": self.status,
            "durationMs": round(self.duration_ms, 1),
            "resultCount": self.result_count,
            "error": self.error,
        }


@dataclass(slots=True)
class Trace:
    """How a context came about. ``prompt`` is for its caller; no log and no span holds it.

    ``planner`` says what the stage-2 planner did: ``none`` (there is none), ``not_asked``,
    ``used``, ``kept`` (it left the decision), ``failed`` or ``timed_out``. ``costs`` are in
    ``unit``.
    """

    prompt: str = field(repr=False)
    workspace: str
    timestamp: datetime
    session: str | None = None
    plan: Plan = field(default_factory=Plan, repr=False)
    planner: str = "none"
    catalog_cached: bool = False
    providers: list[ProviderRun] = field(default_factory=list)
    raw: int = 0
    invalid: int = 0
    deduplicated: int = 0
    selected: int = 0
    omitted: int = 0
    unit: str = "bytes"
    catalog_cost: int = 0
    recall_cost: int = 0
    provider_costs: dict[str, int] = field(default_factory=dict)
    total_bytes: int = 0
    timings: dict[str, float] = field(default_factory=dict)
    diagnostics: list[str] = field(default_factory=list)

    @property
    def stage(self) -> str:
        """The stage that decided: none, deterministic, semantic, memory or continuity."""
        return self.plan.stage

    @property
    def should_retrieve(self) -> bool:
        """Whether the prompt needs memories."""
        return self.plan.should_retrieve

    @property
    def confidence(self) -> float:
        """How sure the plan is of its topics, 0 to 1; it says nothing about what is found."""
        return self.plan.confidence

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that the prompt was recognised to be about, best first."""
        return self.plan.topics

    @property
    def requests(self) -> tuple[Request, ...]:
        """Who is asked, for what and why."""
        return self.plan.requests

    def note(self, diagnostic: str) -> None:
        """Names a failure, once."""
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def document(self) -> dict[str, Any]:
        """The trace as JSON, with every name that the pipeline's documents use."""
        plan = self.plan
        return {
            "sessionId": self.session,
            "workspace": self.workspace,
            "prompt": self.prompt,
            "timestamp": self.timestamp.isoformat(),
            "recognitionStage": self.stage,
            "semanticAttempted": plan.semantic_attempted,
            "planner": self.planner,
            "shouldRetrieve": plan.should_retrieve,
            "confidence": plan.confidence,
            "catalogEntries": plan.catalog_entries,
            "catalogMatches": [topic.document() for topic in plan.matches],
            "catalogCached": self.catalog_cached,
            "topics": [topic.title for topic in plan.topics],
            "signals": plan.signals,
            "requests": [request.document() for request in plan.requests],
            "providers": [run.document() for run in self.providers],
            "rawResults": self.raw,
            "invalidResults": self.invalid,
            "deduplicatedResults": self.deduplicated,
            "selectedResults": self.selected,
            "omittedResults": self.omitted,
            "unit": self.unit,
            "catalogTokens": self.catalog_cost,
            "recallTokens": self.recall_cost,
            "providerTokens": dict(self.provider_costs),
            "totalBytes": self.total_bytes,
            "timings": {
                "catalog": round(plan.catalog_ms, 1),
                **{name: round(spent, 1) for name, spent in self.timings.items()},
            },
            "totalDurationMs": round(sum(self.timings.values()), 1),
            "diagnostics": list(self.diagnostics),
            "degraded": list(plan.degraded),
        }


@dataclass(frozen=True, slots=True)
class ContextResult:
    """What to put before a model call. ``str(result)`` is the text, '' when there is nothing to
    say; ``results`` are what it quotes, best first."""

    text: str
    trace: Trace
    results: tuple[Ranked, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def retrieved(self) -> bool:
        """Whether anything was recalled, and not only the catalog shown."""
        return bool(self.results)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """What was missing, in words; empty when nothing was."""
        return tuple(self.trace.diagnostics)

    def document(self) -> dict[str, Any]:
        """Text, results and trace as JSON."""
        return {
            "text": self.text,
            "results": [_result(item) for item in self.results],
            "trace": self.trace.document(),
        }


def _result(item: Ranked) -> dict[str, Any]:
    record = item.record
    return {
        "providerId": record.provider,
        "id": record.id,
        "title": record.title,
        "kind": record.kind,
        "scope": record.scope,
        "freshness": record.freshness,
        "source": record.source,
        "rank": round(item.rank, 4),
        "signals": {name: round(value, 4) for name, value in item.signals.items()},
        "duplicateSources": [reference.document() for reference in record.duplicates],
        "body": record.body,
    }
