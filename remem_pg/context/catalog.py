"""Filling the catalog from the client, with vectors where the server cannot make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from remem_pg.context import calls as context_calls
from remem_pg.errors import DimensionMismatch, NoAccess, UnknownSpace
from remem_pg.spaces.policy import decide
from remem_pg.steps import Flow, Run, Session, Together, Work

BATCH = 32
"""Texts that are embedded at a time."""

MOST = 1000
"""Entries that one call lists."""

AFTER_PUT = 32
"""Entries without a vector that a put makes up for, the most important first."""


def put_topic(session: Session, fields: Mapping[str, Any]) -> Flow[UUID]:
    """A topic, and its vector."""
    topic_id: UUID = yield Run(context_calls.put_topic(session.workspace, fields))
    yield from _made_up_for(session)
    return topic_id


def put_provider(session: Session, fields: Mapping[str, Any]) -> Flow[None]:
    """A provider's descriptor, and its vector."""
    yield Run(context_calls.put_provider(session.workspace, fields))
    yield from _made_up_for(session)


def _made_up_for(session: Session) -> Flow[None]:
    """Vectors after a put. Without them the entry is there all the same, found by its words."""
    try:
        yield Together(_ignored(session))
    except (NoAccess, DimensionMismatch, UnknownSpace):
        return  # a writer that may not store vectors; a workspace that moved just now


def _ignored(session: Session) -> Flow[None]:
    yield from embed(session, AFTER_PUT)


def complete(session: Session, limit: int | None, stop: Callable[[], bool]) -> Flow[None]:
    """What a re-embedding, which makes one vector of each entry, leaves: those of the titles."""
    done, left = 1, MOST if limit is None else limit
    try:
        while done and left > 0 and not stop():
            done = yield from embed(session, min(left, MOST), stop)
            left -= done if limit is not None else 0
    except (NoAccess, DimensionMismatch, UnknownSpace):
        return  # as above; the next one to look for what is missing makes up for it


def embed(session: Session, limit: int, stop: Callable[[], bool] = lambda: False) -> Flow[int]:
    """Vectors for what has none in the workspace's space, and for titles beside their topics; how
    many were stored. ``stop`` is asked between batches.

    Only the model of that space can make them: with another one, or none, nothing is done. What
    changes meanwhile is left for the next time.
    """
    decision = yield from decide(session, writing=True)
    if decision.space is None:
        return 0
    call = context_calls.catalog_without_embedding(session.workspace, limit)
    entries: list[dict[str, Any]] = yield Run(call)
    stored = 0
    for start in range(0, len(entries), BATCH):
        if stop():
            break
        batch = entries[start : start + BATCH]
        batch += [title for entry in batch for title in _title(entry)]
        texts = [entry["text"] for entry in batch]
        vectors = yield Work(partial(session.embedder.embed, texts, query=False))
        for entry, vector in zip(batch, vectors or (), strict=False):
            if vector is not None:
                put = context_calls.put_catalog_embedding
                call_ = put(session.workspace, entry, vector, decision.space)
                done = yield Run(call_)
                stored += done and "of" not in entry
    return stored


def _title(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The title of a topic as an entry of its own, where the topic's text says more than that: its
    vector is kept beside the topic's."""
    title, _, more = entry["text"].partition("\n")
    if entry["kind"] != "topic" or not more:
        return []
    return [{"kind": "topic", "id": entry["id"], "text": title, "of": entry["text"]}]
