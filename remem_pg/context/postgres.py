"""The provider that is always there: the workspace's memories, by recall, and its latest events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from remem_pg import calls
from remem_pg.context import calls as context_calls
from remem_pg.context.plan import Answer, Topic
from remem_pg.context.provider import POSTGRES
from remem_pg.context.record import Record, Reference
from remem_pg.context.scope import Scope
from remem_pg.models import Hit, Memory, RecallResult
from remem_pg.recall import flow as recall_flow
from remem_pg.steps import Flow, InTransaction, Run, Session, Together

EVENT_SCORE = 0.4
"""The score of an event that is here because it is among the latest. It halves with each place."""

NEAR_BEST = 0.7
"""Share of the best hit's relevance below which another one is left out: beside an answer, what is
only somewhat about the prompt is not wanted."""

UNSURE = 1.4
"""How much more relevance is asked of a hit where the topics hang on a single word, which the hit
may share by chance too."""

CONFLICTING = ("contradicts", "conflicts_with")
AGREEING = ("not_conflict", "compatible")


def search(
    session: Session,
    query: str,
    scope: Scope,
    limit: int,
    min_relevance: float,
    vectors: bool,
    topics: Sequence[Topic] = (),
    answers: Sequence[Answer] = (),
    judged: bool = False,
    filter: str | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Flow[list[Record]]:
    """What ``recall`` finds within the scope, then the memories that the plan found to answer, and
    what is remembered of the topics that are surely meant. ``vectors`` False: by words alone,
    because the model has failed on this prompt already. ``judged``: the plan has looked at the
    memories, and no other hit answers; the one word of "run the tests" is all of its weight, and
    proves nothing. ``note`` is told what is missing."""
    if topics and not any(topic.sure for topic in topics):
        min_relevance = min(1.0, UNSURE * min_relevance)
    seen = {"scopes": scope.owners(), "filter": filter}
    options = {**seen, "min_relevance": min_relevance}
    records = yield from _recalled(session, query, limit, options, vectors)
    if judged:
        chosen = {str(answer.id) for answer in answers}
        records = [record for record in records if record.id in chosen]
    if filter is None:  # the plan has not seen it: then only what recall found as well
        records = merged(records, (yield from _answering(session, answers)), limit)
    records = merged(records, (yield from _of_topics(session, seen, limit, topics, note)), limit)
    links = yield from _links(session, [UUID(record.id) for record in records])
    return with_links(records, links)


def _answering(session: Session, answers: Sequence[Answer]) -> Flow[list[Record]]:
    """The memories that the plan found to answer, as far as they are still current. Whether they
    are in scope is checked with all other records."""
    scores = {str(answer.id): answer.score for answer in answers}
    return (yield from _current(session, scores))


def _current(session: Session, scores: Mapping[str, float]) -> Flow[list[Record]]:
    """The live ones of some memories, best first."""
    if not scores:
        return []
    memories = yield Run(context_calls.get_many(session.workspace, list(map(UUID, scores))))
    live = [m for m in memories if not m.superseded_at and not m.forgotten_at]
    records = [record_of(memory, scores[str(memory.memory_id)]) for memory in live]
    return sorted(records, key=lambda record: -record.score)


def _of_topics(
    session: Session,
    seen: Mapping[str, Any],
    limit: int,
    topics: Sequence[Topic],
    note: Callable[[str], None],
) -> Flow[list[Record]]:
    """The memories of the topics that are surely meant: as relevant as they are to their topic, as
    far as the topic is to the prompt. Without them the hits still stand."""
    own = [topic for topic in topics if topic.sure and topic.id and POSTGRES in topic.providers]
    certain = {str(topic.id): topic.score for topic in own}
    if not certain:
        return []
    call = context_calls.topic_memories(session.workspace, list(map(UUID, certain)), limit, seen)
    scores: dict[str, float] = {}
    for found in (yield from _if_there(call, [], partial(_missing, note, "topic_memories"))):
        score = float(found["relevance"]) * certain[str(found["topic_id"])]
        name = str(found["memory_id"])
        scores[name] = max(scores.get(name, 0.0), score)
    return (yield from _current(session, scores))


def _missing(note: Callable[[str], None], what: str, error: Exception) -> None:
    """Names what failed, and its error by class alone."""
    note(f"{what} failed: {type(error).__name__}")


def merged(hits: Sequence[Record], more: Sequence[Record], limit: int) -> list[Record]:
    """Both, each memory once with its better score. A hit gives what recall knows besides."""
    found = {record.id: record for record in hits}
    for record in more:
        known = found.get(record.id)
        if known is None:
            found[record.id] = record
        elif record.score > known.score:
            found[record.id] = replace(known, score=record.score)
    return sorted(found.values(), key=lambda record: -record.score)[:limit]


def events(
    session: Session,
    query: str,
    scope: Scope,
    limit: int,
    min_relevance: float,
    vectors: bool,
    filter: str | None = None,
) -> Flow[list[Record]]:
    """The episodic plane: events that answer, then the latest ones."""
    options: dict[str, Any] = {
        "scopes": scope.owners(),
        "filter": filter,
        "kinds": ["episodic"],
        "min_relevance": min_relevance,
    }
    if scope.session is not None:
        options["session_ref"] = scope.session
    records = yield from _recalled(session, query, limit, options, vectors)
    latest_of = f'$.kind == "episodic" && {scope.filter()}' + (f" && {filter}" if filter else "")
    latest = yield Run(calls.list_memories(session.workspace, latest_of, None, limit))
    known = {record.id for record in records}
    for place, memory in enumerate(latest):
        if str(memory.memory_id) not in known:
            records.append(record_of(memory, EVENT_SCORE * 0.5**place))
    return records[:limit]


def _recalled(
    session: Session, query: str, limit: int, options: Mapping[str, Any], vectors: bool
) -> Flow[list[Record]]:
    """The hits of a recall, with what their memories say besides."""
    if not vectors:
        options = {**options, "mode": "lexical"}
    hits: RecallResult = yield from recall_flow.recall(
        session, calls.recall, query, limit, None, options
    )
    ids = [hit.memory_id for hit in hits]
    memories = yield Run(context_calls.get_many(session.workspace, ids))
    return list(records_of(hits, memories))


def records_of(hits: Sequence[Hit], memories: Iterable[Memory]) -> Iterable[Record]:
    """The hits that are still current, in order. The best one's relevance, which is absolute, sets
    the level; how the others compare with it is what recall found: its order stays."""
    by_id = {memory.memory_id: memory for memory in memories}
    level = max((hit.relevance for hit in hits), default=0.0)
    best = max((hit.score for hit in hits), default=0.0)
    for hit in hits:
        memory = by_id.get(hit.memory_id)
        if memory is None or memory.superseded_at or memory.forgotten_at:
            continue
        if hit.relevance < NEAR_BEST * level:
            continue
        share = max(0.0, hit.score) / best if best > 0 else 1.0
        copies = tuple(_copies(hit.duplicates))
        record = record_of(memory, level * share)
        yield replace(record, freshness=hit.freshness or record.freshness, duplicates=copies)


def record_of(memory: Memory, score: float) -> Record:
    """A memory as a record."""
    return Record(
        id=str(memory.memory_id),
        body=memory.body,
        score=score,
        title=memory.title or memory.topic_key,
        kind=memory.kind,
        scope=memory.scope,
        scope_ref=memory.scope_ref,
        source=memory.source_ref or memory.ref,
        source_class=memory.source_class,
        importance=memory.importance,
        confidence=memory.confidence,
        freshness=memory.freshness or "unknown",
        updated_at=memory.occurred_at or memory.updated_at or memory.created_at,
        subject=memory.subject,
        attribute=memory.attribute,
    )


def with_links(records: Sequence[Record], links: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The records with what contradicts and what agrees with each of them."""
    conflicts: dict[str, list[str]] = {}
    agrees: dict[str, list[str]] = {}
    for link in links:
        kind = link.get("kind")
        side = conflicts if kind in CONFLICTING else agrees if kind in AGREEING else None
        if side is not None:
            side.setdefault(str(link.get("src")), []).append(str(link.get("dst")))
    return [
        replace(
            record,
            conflicts_with=tuple(conflicts.get(record.id, ())),
            agrees_with=tuple(agrees.get(record.id, ())),
        )
        for record in records
    ]


def _copies(duplicates: Any) -> Iterable[Reference]:
    """The copies that recall collapsed into a hit."""
    if not isinstance(duplicates, Sequence) or isinstance(duplicates, str):
        return
    for copy in duplicates:
        if isinstance(copy, Mapping) and copy.get("memory_id"):
            source = copy.get("source_ref") or copy.get("ref")
            yield Reference("", str(copy["memory_id"]), None if source is None else str(source))


def _links(session: Session, memory_ids: Sequence[UUID]) -> Flow[list[dict[str, Any]]]:
    """Links among the hits. Without them the results still stand: a database of an older version
    does not tell them."""
    if len(memory_ids) < 2:
        return []
    return list(
        (yield from _if_there(context_calls.links_between(session.workspace, memory_ids), []))
    )


def _if_there(
    call: calls.Call[Any], default: Any, failed: Callable[[Exception], None] | None = None
) -> Flow[Any]:
    """The answer of a call that a database of an older version may not know, or the default;
    ``failed`` is told why."""

    def read() -> Flow[Any]:
        return (yield Run(call))

    try:
        if (yield InTransaction()):
            return (yield Together(read()))
        return (yield Run(call))
    except Exception as error:  # the search is worth more than what this adds
        if failed is not None:
            failed(error)
        return default
