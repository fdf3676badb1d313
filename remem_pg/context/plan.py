"""The plan: whether to search, where, for what; as the server gives it, or a planner of the
caller's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from remem_pg.context.provider import POSTGRES
from remem_pg.context.scope import Scope

STAGES = ("none", "deterministic", "semantic", "memory", "continuity")
MOST_REQUESTS = 16
AMBIGUOUS = (0.30, 0.60)
"""A confidence in this range is neither a yes nor a no: where the stage-2 planner is asked."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the prompt was recognised to be about."""

    title: str
    score: float
    id: str | None = None
    sure: bool = False
    """Whether it is meant beyond a shared word, so that its memories may be shown though they do
    not answer the prompt by themselves."""
    providers: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "score": self.score}


@dataclass(frozen=True, slots=True)
class Answer:
    """A memory that answers the prompt by itself, as the plan found it."""

    id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class Request:
    """One search to make."""

    provider: str
    query: str
    reason: str
    limit: int

    def document(self) -> dict[str, Any]:
        return {
            "providerId": self.provider,
            "query": self.query,
            "reason": self.reason,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``remem.plan`` decided. ``confidence`` says how sure it is that these topics are meant,
    never that something is true. ``catalog`` is there whatever was decided."""

    should_retrieve: bool = False
    confidence: float = 0.0
    topics: tuple[Topic, ...] = ()
    matches: tuple[Topic, ...] = ()
    """What the words of the prompt point at, qualified or not."""
    memories: tuple[Answer, ...] = ()
    """Memories that led to the plan, where no topic is surely meant."""
    requests: tuple[Request, ...] = ()
    stage: str = "none"
    signals: Any = None
    catalog: str = ""
    catalog_shown: int = 0
    catalog_omitted: int = 0
    catalog_ms: float = 0.0
    """How long the server took for the catalog; a part of the planning."""
    semantic_attempted: bool = False
    degraded: tuple[str, ...] = ()

    @property
    def catalog_entries(self) -> int:
        """How many topics and providers there are, shown or not."""
        return self.catalog_shown + self.catalog_omitted

    @property
    def continuity(self) -> bool:
        """Whether the prompt goes on with something earlier."""
        signals = self.signals if isinstance(self.signals, Mapping) else {}
        return self.stage == "continuity" or bool(signals.get("continuity"))

    @property
    def judged(self) -> bool:
        """Whether the memories were looked at, because no topic is surely meant."""
        signals = self.signals if isinstance(self.signals, Mapping) else {}
        looked = signals.get("memories")
        return (
            isinstance(looked, Mapping)
            and looked.get("attempted") is True
            and not any(topic.sure for topic in self.topics)
        )

    @property
    def ambiguous(self) -> bool:
        """Whether stages 0 and 1 left it open: a confidence in the middle, or no known topic."""
        low, high = AMBIGUOUS
        return low <= self.confidence < high or (self.stage == "continuity" and not self.topics)


@dataclass(frozen=True, slots=True)
class PlannerRequest:
    """What a stage-2 planner is given: the prompt (bounded), the scope, the decision so far with
    its catalog, and the ids of the providers that may be asked."""

    prompt: str
    scope: Scope
    plan: Plan
    providers: tuple[str, ...] = ()


PlannerHook = Callable[[PlannerRequest], Any]
"""A function, also a coroutine function, that answers with a plan: a dictionary as ``remem.plan``
gives it (``shouldRetrieve``, ``confidence``, ``topics``, ``requests``), a ``Plan``, or None to keep
the decision. It cannot widen the scope, and asks only providers that are there."""


def read(document: Any, max_results: int) -> Plan:
    """The plan of a JSON document. Raises ValueError for one that is none."""
    if not isinstance(document, Mapping) or not isinstance(document.get("shouldRetrieve"), bool):
        raise ValueError("a plan says whether to retrieve")
    stage = document.get("stage") or "none"
    catalog = document.get("catalog")
    catalog = catalog if isinstance(catalog, Mapping) else {}
    trace = document.get("trace")
    trace = trace if isinstance(trace, Mapping) else {}
    timings = trace.get("timings")
    spent = timings.get("catalog") if isinstance(timings, Mapping) else None
    return Plan(
        should_retrieve=document["shouldRetrieve"],
        confidence=_share(document.get("confidence")),
        topics=tuple(map(_topic, _members(document.get("topics")))),
        matches=tuple(map(_topic, _members(trace.get("catalogMatches")))),
        memories=tuple(map(_answer, _members(document.get("memories")))),
        requests=_requests(document.get("requests"), max_results),
        stage=stage if stage in STAGES else "none",
        signals=document.get("signals"),
        catalog=str(catalog.get("text") or ""),
        catalog_shown=_count(catalog.get("entries")),
        catalog_omitted=_count(catalog.get("omitted")),
        catalog_ms=float(spent) if isinstance(spent, int | float) else 0.0,
        semantic_attempted=bool(trace.get("semanticAttempted")),
        degraded=tuple(map(str, _members(document.get("degraded")))),
    )


def replanned(before: Plan, answer: Any, providers: Sequence[str], max_results: int) -> Plan:
    """The plan after a stage-2 planner's answer. Raises ValueError for one that is no plan."""
    if answer is None:
        return before
    given = answer if isinstance(answer, Plan) else read(answer, max_results)
    known = tuple(request for request in given.requests if request.provider in providers)
    if given.should_retrieve and not known:
        raise ValueError("a plan to retrieve asks a provider that is there")
    return replace(
        before,
        should_retrieve=given.should_retrieve,
        confidence=_share(given.confidence),
        topics=given.topics,
        memories=given.memories,
        requests=known if given.should_retrieve else (),
    )


def _requests(value: Any, max_results: int) -> tuple[Request, ...]:
    """One request a provider, the first; limits within bounds."""
    found: dict[str, Request] = {}
    for member in _members(value):
        if not isinstance(member, Mapping) or not isinstance(member.get("query"), str):
            raise ValueError("a request has a query")
        name = str(member.get("providerId") or POSTGRES)
        limit = member.get("limit")
        limit = limit if isinstance(limit, int) and not isinstance(limit, bool) else max_results
        reason = str(member.get("reason") or "")
        request = Request(name, member["query"], reason, min(max_results, max(1, limit)))
        found.setdefault(name, request)
    return tuple(found.values())[:MOST_REQUESTS]


def _topic(value: Any) -> Topic:
    if isinstance(value, str):
        return Topic(value, 0.0)
    if not isinstance(value, Mapping):
        raise ValueError("a topic has a title")
    identity = value.get("id")
    title = str(value.get("title") or "")
    identity = None if identity is None else str(identity)
    providers = tuple(map(str, _members(value.get("providers"))))
    return Topic(title, _share(value.get("score")), identity, value.get("sure") is True, providers)


def _answer(value: Any) -> Answer:
    if not isinstance(value, Mapping):
        raise ValueError("a memory has an id")
    return Answer(UUID(str(value.get("id"))), _share(value.get("score")))


def _members(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValueError("expected a list")
    return value


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return min(1.0, max(0.0, float(value)))


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    return len(value) if isinstance(value, Sequence) and not isinstance(value, str) else 0
