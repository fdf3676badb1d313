"""The provider that is always there: the workspace's memories, by recall, and its latest events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from remem_pg import calls, context_calls, recall_flow
from remem_pg.context.record import Record, Reference
from remem_pg.context.scope import Scope
from remem_pg.models import Hit, Memory, RecallResult
from remem_pg.steps import Flow, InTransaction, Run, Session, Together

EVENT_SCORE = 0.4
"""The score of an event that is here because it is among the latest. It halves with each place."""

CONFLICTING = ("contradicts", "conflicts_with")
AGREEING = ("not_conflict", "compatible")


def search(
    session: Session, query: str, scope: Scope, limit: int, min_relevance: float, vectors: bool
) -> Flow[list[Record]]:
    """What ``recall`` finds within the scope. ``vectors`` False: by words alone, because the model
    has failed on this prompt already."""
    options: dict[str, Any] = {"filter": scope.filter(), "min_relevance": min_relevance}
    records = yield from _recalled(session, query, limit, options, vectors)
    links = yield from _links(session, [UUID(record.id) for record in records])
    return with_links(records, links)


def events(
    session: Session, query: str, scope: Scope, limit: int, min_relevance: float, vectors: bool
) -> Flow[list[Record]]:
    """The episodic plane: events that answer, then the latest ones."""
    options: dict[str, Any] = {
        "filter": scope.filter(),
        "kinds": ["episodic"],
        "min_relevance": min_relevance,
    }
    if scope.session is not None:
        options["session_ref"] = scope.session
    records = yield from _recalled(session, query, limit, options, vectors)
    latest_of = f'$.kind == "episodic" && {scope.filter()}'
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
    call = context_calls.links_between(session.workspace, memory_ids)

    def read() -> Flow[list[dict[str, Any]]]:
        links: list[dict[str, Any]] = yield Run(call)
        return links

    try:
        if (yield InTransaction()):
            found = yield Together(read())
        else:
            found = yield Run(call)
    except Exception:  # the search is worth more than its links
        return []
    return list(found)
