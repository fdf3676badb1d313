"""What remem takes and returns: frozen dataclasses with the columns of the SQL composites.

A column that a newer server adds is ignored, one that an older server lacks is its default, so a
client runs on every database of its compatibility number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypedDict, overload
from uuid import UUID

if TYPE_CHECKING:
    from numpy import ndarray

    from remem_pg.errors import RememError

    Vector = Sequence[float] | ndarray[Any, Any]

__all__ = [
    "ConflictCandidate",
    "DropReport",
    "ForgetReport",
    "Hit",
    "Memory",
    "MemoryInput",
    "MemoryRef",
    "MemoryVersion",
    "RecallResult",
    "SpaceInfo",
    "Version",
]


class MemoryFields(TypedDict, total=False):
    """What can be said about a memory besides its body; the arguments of ``remem.remember``."""

    ref: str | None
    kind: str | None
    title: str | None
    summary: str | None
    tags: Sequence[str] | None
    aliases: Sequence[str] | None
    scope: str | None
    scope_ref: str | None
    topic_key: str | None
    subject: str | None
    attribute: str | None
    source_class: str | None
    source_ref: str | None
    importance: float | None
    confidence: float | None
    pinned: bool | None
    unresolved: bool | None
    session_ref: str | None
    turn_no: int | None
    speaker: str | None
    occurred_at: datetime | str | None
    valid_from: datetime | str | None
    valid_to: datetime | str | None
    entities: Sequence[str] | None
    metadata: Mapping[str, Any] | None
    embedding: Vector | None
    on_conflict: Literal["new_version", "error", "rewrite"] | None
    space: str | None


class MemoryInput(MemoryFields, total=False):
    """One item of ``remember_many``: the body and any of the other fields."""

    body: str


@dataclass(frozen=True, slots=True)
class _Record:
    """A row of a composite type, built by column name."""

    _columns: ClassVar[dict[type, frozenset[str]]] = {}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The record of one row; unknown columns are left out, a null is the field's default."""
        known = _Record._columns.get(cls)
        if known is None:
            known = _Record._columns[cls] = frozenset(f.name for f in fields(cls))
        return cls(**{n: value for n, value in row.items() if n in known and value is not None})


@dataclass(frozen=True, slots=True)
class MemoryRef(_Record):
    """What became of one memory.

    ``outcome`` of a write is created, unchanged, merged, new_version or refused, or forgotten,
    superseded, purged: what was is not written again by saying it again. Of a change it is
    forgotten, forgotten_version, unforgotten, corrected, superseded, purged, updated, unchanged or
    conflict (another change came first). ``item_no`` counts from 1 in ``remember_many``; ``error``
    (code, message, detail, hint) is set when it was refused or is a conflict.
    """

    memory_id: UUID | None = None
    ref: str | None = None
    outcome: str = "created"
    item_no: int | None = None
    error: dict[str, Any] | None = None

    @property
    def refused(self) -> bool:
        """True when nothing was stored."""
        return self.outcome == "refused"

    def exception(self) -> RememError | None:
        """The refusal as an exception of the error tree, or None."""
        if self.error is None:
            return None
        from remem_pg.errors import from_code

        return from_code(
            self.error.get("code", ""),
            detail=self.error.get("detail"),
            hint=self.error.get("hint"),
            item_no=self.item_no,
        )


REFUSALS_KEPT = 1000
"""How many refusals a report keeps; more are counted, so that memory stays bounded."""


@dataclass(slots=True)
class BulkReport:
    """What became of many memories: ``outcomes`` by name, and the first refusals."""

    items: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    refused: list[MemoryRef] = field(default_factory=list)
    refused_count: int = 0

    def add(self, refs: Iterable[MemoryRef]) -> None:
        """Counts the results of a batch."""
        for ref in refs:
            self.items += 1
            if ref.refused:
                self.refused_count += 1
                if len(self.refused) < REFUSALS_KEPT:
                    self.refused.append(ref)
            else:
                self.outcomes[ref.outcome] = self.outcomes.get(ref.outcome, 0) + 1


@dataclass(frozen=True, slots=True)
class Memory(_Record):
    """A stored memory, whole. All times are aware."""

    memory_id: UUID
    workspace: str
    body: str
    ref: str | None = None
    kind: str = "semantic"
    scope: str = "global"
    scope_ref: str | None = None
    title: str | None = None
    summary: str | None = None
    aliases: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    topic_key: str | None = None
    subject: str | None = None
    attribute: str | None = None
    source_class: str | None = None
    source_ref: str | None = None
    provenance: Any = None
    importance: float | None = None
    confidence: float | None = None
    pinned: bool = False
    unresolved: bool = False
    session_ref: str | None = None
    turn_no: int | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    superseded_at: datetime | None = None
    superseded_by: UUID | None = None
    forgotten_at: datetime | None = None
    freshness: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


# Signals that say little by themselves; ``Hit.why`` leaves them out.
_UNTOLD = frozenset({"base", "distance_score", "length", "neighbour2", "trust", "worth"})


@dataclass(frozen=True, slots=True)
class Hit(_Record):
    """One recalled memory.

    ``score`` orders the hits of one query and is relative to it; ``relevance`` (0..1) is absolute
    and what a gate should read. ``signals`` holds one number per signal that counted.
    """

    rank: int
    memory_id: UUID
    body: str
    score: float = 0.0
    relevance: float = 0.0
    ref: str | None = None
    kind: str = "semantic"
    title: str | None = None
    signals: dict[str, Any] = field(default_factory=dict)
    arms: list[str] = field(default_factory=list)
    source_class: str | None = None
    source_ref: str | None = None
    session_ref: str | None = None
    occurred_at: datetime | None = None
    freshness: str | None = None
    duplicates: Any = None
    expanded_from: UUID | None = None
    degraded: list[str] | None = None
    scope: str | None = None
    scope_ref: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The hit of a ``recall_explain`` document: ids and times come as text there."""
        row = dict(document)
        for name in ("memory_id", "expanded_from"):
            if isinstance(row.get(name), str):
                row[name] = UUID(row[name])
        if isinstance(row.get("occurred_at"), str):
            row["occurred_at"] = datetime.fromisoformat(row["occurred_at"])
        return cls.from_row(row)

    @property
    def why(self) -> str:
        """Why this hit is here, in a few words: the arms that found it, then the telling signals.

        What every hit has in some measure (its length, its trust, ...) is left to ``signals``.
        """
        found = " + ".join(self.arms) if self.arms else "context"
        numbers = [
            f"{name} {value:.2f}"
            for name, value in self.signals.items()
            if isinstance(value, int | float)
            and not isinstance(value, bool)
            and value
            and name not in _UNTOLD
        ]
        text = f"{found}: {', '.join(numbers)}" if numbers else found
        if self.expanded_from is not None:
            text += ", linked from another hit"
        if self.duplicates:
            text += f", same text {len(self.duplicates)} more times"
        return text


class RecallResult(Sequence[Hit]):
    """The hits of one recall in rank order, and what was degraded while finding them.

    ``degraded`` names every weakness of this answer (empty when there was none): an empty result
    with an empty ``degraded`` means that nothing matched. ``space`` is the fingerprint of the
    embedding space the query was embedded in by this client, or None. ``trace`` says what the
    client's own stages did (keys ``rerank``, ``before_route``, ``after_route``, ``expansion``,
    those that ran), and with a reranker it holds the server's document as well.
    """

    __slots__ = ("_hits", "degraded", "query", "space", "trace")

    def __init__(
        self,
        hits: Iterable[Hit],
        degraded: Iterable[str] = (),
        space: str | None = None,
        query: str | None = None,
        trace: Mapping[str, Any] | None = None,
    ) -> None:
        self._hits = tuple(hits)
        self.degraded: tuple[str, ...] = tuple(dict.fromkeys(degraded))
        self.space = space
        self.query = query
        self.trace: dict[str, Any] = dict(trace or {})

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self._hits[index]

    def __len__(self) -> int:
        return len(self._hits)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RecallResult):
            return (self._hits, self.degraded) == (other._hits, other.degraded)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # hits hold dictionaries

    def __repr__(self) -> str:
        degraded = f", degraded: {', '.join(self.degraded)}" if self.degraded else ""
        head = f"<RecallResult {len(self)} hit{'' if len(self) == 1 else 's'}{degraded}>"
        lines = [
            f"{hit.rank:>3}. {hit.score:.3f}  {_short(hit.title or hit.body, 70)}  [{hit.why}]"
            for hit in self._hits[:10]
        ]
        if len(self) > 10:
            lines.append(f"     ... {len(self) - 10} more")
        return "\n".join([head, *lines])


@dataclass(frozen=True, slots=True)
class MemoryVersion(_Record):
    """One version of a memory; ``state`` is current, superseded, forgotten or purged.

    ``how`` says what ended it (new_version, corrected, superseded, forgotten, purged; None for the
    current one), ``reason`` why, ``ended_by`` by which role. A forgotten version has its text for
    those who may write, a purged one has none.
    """

    memory_id: UUID
    version: int = 1
    ref: str | None = None
    state: str = "current"
    kind: str | None = None
    title: str | None = None
    body: str | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    how: str | None = None
    reason: str | None = None
    ended_by: str | None = None
    replaced_by: UUID | None = None


@dataclass(frozen=True, slots=True)
class ForgetReport(_Record):
    """What ``forget_where`` forgot or, as a preview, would: current memories, all their versions,
    and the newest twenty of them (memory_id, ref, kind, text)."""

    preview: bool = True
    memories: int = 0
    versions: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DropReport(_Record):
    """What ``drop_workspace`` deleted; ``remaining`` counts the rows that tables still have, no
    further than a batch."""

    done: bool = False
    deleted: int = 0
    remaining: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConflictCandidate(_Record):
    """Two current memories that say different things of one attribute of one subject."""

    memory_id: UUID
    other_id: UUID
    subject: str | None = None
    attribute: str | None = None
    ref: str | None = None
    body: str | None = None
    other_ref: str | None = None
    other_body: str | None = None
    linked: str | None = None


@dataclass(frozen=True, slots=True)
class SpaceInfo(_Record):
    """An embedding space: which model made vectors that may be compared with each other."""

    name: str
    fingerprint: str
    dimensions: int
    space_no: int | None = None
    backend: str | None = None
    state: str | None = None
    descriptor: dict[str, Any] = field(default_factory=dict)
    cosine_floor: float | None = None
    cosine_full: float | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """What is installed in the database; ``details`` holds everything the server said."""

    version: str
    compatibility: int
    details: dict[str, Any] = field(default_factory=dict)


def _short(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"
