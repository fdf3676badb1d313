"""What the catalog of topics and the routes of questions look like to a caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from remem_pg.models import _Record

__all__ = ["Route", "Topic"]


@dataclass(frozen=True, slots=True)
class Topic(_Record):
    """A topic of the catalog, merged from its sources.

    ``sources`` says who contributed (``memory``: derived from memories), ``derived`` that nobody
    else did, ``embedded`` that it has a vector in the workspace's current space. ``importance``
    lies between 0 and 1; ``freshness`` is current, stale or unknown.
    """

    topic_id: UUID
    title: str = ""
    aliases: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    summary: str | None = None
    importance: float = 0.5
    unresolved: bool = False
    providers: list[str] = field(default_factory=list)
    scope: str = "global"
    scope_ref: str | None = None
    parent: str | None = None
    freshness: str = "current"
    sources: list[str] = field(default_factory=list)
    derived: bool = False
    embedded: bool = False
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Route(_Record):
    """How a question is answered: the ``arms`` that search, the kind whose pinned and important
    memories are tried first (``pool``, then ``fallback_pools``), how far links are followed
    (``graph_depth`` 0 or 1), and weights over the defaults.

    ``kind`` is what the question was taken for (None: nothing in particular), ``route`` the row
    that holds for it (``general`` where the kind has none).
    """

    route: str = "general"
    kind: str | None = None
    arms: list[str] = field(default_factory=list)
    pool: str | None = None
    fallback_pools: list[str] = field(default_factory=list)
    graph_depth: int = 1
    weights: dict[str, Any] = field(default_factory=dict)
