"""The life of a memory after it was written: the methods of both clients.

What is said about each is in ``docs/lifecycle.md``. Every change answers with an outcome, also one
that lost against another; only what is not there at all is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

from remem_pg import calls, checks
from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.errors import DimensionMismatch, UnknownSpace
from remem_pg.models import (
    ConflictCandidate,
    DropReport,
    ForgetReport,
    Memory,
    MemoryRef,
    MemoryVersion,
)
from remem_pg.recall import restrict
from remem_pg.spaces.policy import decide, forget_space, with_vectors
from remem_pg.steps import Flow, Run, Session, run
from remem_pg.writing import lifecycle_calls

if TYPE_CHECKING:
    from remem_pg.models import Vector

T = TypeVar("T")
Key = UUID | str | None
Versions = list[MemoryVersion]
Candidates = list[ConflictCandidate]

BATCH = 20_000
"""Rows that one statement of ``drop_workspace`` deletes."""


def corrected(
    session: Session,
    body: str,
    memory_id: Key,
    ref: str | None,
    reason: str | None,
    embedding: Any,
    space: str | None,
    changes: Mapping[str, Any],
) -> Flow[MemoryRef]:
    """A correction, with a vector of the whole new text when this client embeds here."""
    vector = None if embedding is None else checks.vector(embedding, "embedding")
    for attempt in (0, 1):
        made, made_in, target, by_ref = vector, space, memory_id, ref
        if vector is None and (yield from decide(session, writing=True)).space is not None:
            old = yield Run(calls.get(session.workspace, memory_id, ref))
            if old is not None:
                # By the id: another version that comes meanwhile has another text to embed.
                target, by_ref = old.memory_id, None
                (ready,) = yield from with_vectors(session, [_told(old, body, changes)])
                made, made_in = ready.get("embedding"), ready.get("space")
        call = lifecycle_calls.correct(
            session.workspace, body, target, by_ref, reason, changes, made, made_in
        )
        try:
            reply: MemoryRef = yield Run(call)
            return reply
        except (DimensionMismatch, UnknownSpace):
            if vector is not None or not (yield from forget_space(session, attempt)):
                raise
    raise AssertionError("unreachable: the second attempt returns or raises")


def _told(old: Memory, body: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the new version that are embedded."""
    names = ("title", "summary", "speaker", "aliases", "tags")
    kept = {name: changes.get(name, getattr(old, name)) for name in names}
    return {"body": checks.text(body, "body")} | {n: v for n, v in kept.items() if v}


def dropped(session: Session) -> Flow[DropReport]:
    """Everything of the workspace, in statements of ``BATCH`` rows."""
    deleted = 0
    while True:
        report = yield Run(lifecycle_calls.drop_workspace(session.workspace, BATCH))
        deleted += report.deleted
        if report.done:
            session.decision = None
            return DropReport(True, deleted)


def purged(session: Session, before: datetime | str | None) -> Flow[int]:
    """Every forgotten memory, in batches."""
    total = 0
    while batch := (yield Run(lifecycle_calls.purge_forgotten(session.workspace, before, 1000))):
        total += batch
    return total


class LifecycleMethods(Carries):
    """The methods of ``Remem``."""

    def forget(
        self, memory_id: Key = None, ref: str | None = None, reason: str | None = None
    ) -> MemoryRef:
        """Hides a memory (by its id, or the current one of a ref) with every version before it,
        from every recall at once. ``history`` and ``list(state="forgotten")`` still know it for
        those who may write; ``unforget`` brings it back, ``purge`` erases it."""
        return self._do(
            run(lifecycle_calls.forget(self._session.workspace, memory_id, ref, reason))
        )

    def forget_where(
        self,
        filter: str | None = None,
        preview: bool = True,
        *,
        where: str | None = None,
        reason: str | None = None,
        expected: int | None = None,
    ) -> ForgetReport:
        """Hides every current memory that passes a jsonpath, or ``where``, a condition in SQL as
        in ``recall``. A preview (the default) changes nothing and says what would go; ``expected``,
        its number, refuses when more match by then."""
        filter = restrict.as_filter(filter, where)
        return self._do(
            run(
                lifecycle_calls.forget_where(
                    self._session.workspace, filter, preview, reason, expected
                )
            )
        )

    def unforget(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Brings back a forgotten memory and the versions that were forgotten with it."""
        return self._do(
            run(lifecycle_calls.simple("unforget", self._session.workspace, memory_id, ref))
        )

    def purge(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Erases a memory and every version before it; id and ref stay as a tombstone. There is
        no way back. For administrators of the workspace."""
        return self._do(
            run(lifecycle_calls.simple("purge", self._session.workspace, memory_id, ref))
        )

    def purge_forgotten(self, before: datetime | str | None = None) -> int:
        """Erases what is forgotten (before an aware time, or all of it); answers how many."""
        return self._do(purged(self._session, before))

    def drop_workspace(self) -> DropReport:
        """Deletes this workspace whole, batch by batch; ``remaining`` is empty then. For
        administrators of the workspace."""
        return self._do(dropped(self._session))

    def correct(
        self,
        body: str,
        memory_id: Key = None,
        ref: str | None = None,
        *,
        reason: str | None = None,
        embedding: Vector | None = None,
        space: str | None = None,
        **changes: Any,
    ) -> MemoryRef:
        """Replaces what a current memory says by a new version; the former one stays in
        ``history`` and ``as_of``. ``changes``: other fields of ``remember`` (None takes one away);
        everything else is taken over."""
        return self._do(
            corrected(self._session, body, memory_id, ref, reason, embedding, space, changes)
        )

    def supersede(self, old: UUID | str, new: UUID | str, reason: str | None = None) -> MemoryRef:
        """Says that the memory ``new`` takes the place of ``old``; of two at once one wins, and the
        other's outcome is conflict."""
        return self._do(run(lifecycle_calls.supersede(self._session.workspace, old, new, reason)))

    def pin(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Pins a current memory."""
        return self._do(run(lifecycle_calls.simple("pin", self._session.workspace, memory_id, ref)))

    def unpin(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Takes the pin away."""
        return self._do(
            run(lifecycle_calls.simple("unpin", self._session.workspace, memory_id, ref))
        )

    def resolve(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Says that unresolved work is done."""
        return self._do(
            run(lifecycle_calls.simple("resolve", self._session.workspace, memory_id, ref))
        )

    def reinforce(
        self, memory_id: Key = None, ref: str | None = None, strength: float = 0.5
    ) -> MemoryRef:
        """Says that a memory was found true again: more confidence, and no longer stale."""
        return self._do(
            run(lifecycle_calls.reinforce(self._session.workspace, memory_id, ref, strength))
        )

    def set_importance(
        self, importance: float, memory_id: Key = None, ref: str | None = None
    ) -> MemoryRef:
        """Sets the importance (0 to 1) of a current memory."""
        return self._do(
            run(lifecycle_calls.set_importance(self._session.workspace, importance, memory_id, ref))
        )

    def set_freshness(
        self,
        freshness: Literal["current", "stale", "unknown"],
        memory_id: Key = None,
        ref: str | None = None,
    ) -> MemoryRef:
        """Labels a current memory; the label comes with every hit."""
        return self._do(
            run(lifecycle_calls.set_freshness(self._session.workspace, freshness, memory_id, ref))
        )

    def history(self, memory_id: Key = None, ref: str | None = None) -> Versions:
        """Every version of a memory, the first one first: what replaced what, when, how and why."""
        return self._do(run(lifecycle_calls.history(self._session.workspace, memory_id, ref)))

    def conflicts(self, limit: int = 50) -> Candidates:
        """Pairs of current memories that say different things of one attribute of one subject;
        nothing is decided here."""
        return self._do(run(lifecycle_calls.conflicts(self._session.workspace, limit)))


class AsyncLifecycleMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def forget(
        self, memory_id: Key = None, ref: str | None = None, reason: str | None = None
    ) -> MemoryRef:
        """Hides a memory (by its id, or the current one of a ref) with every version before it,
        from every recall at once. ``history`` and ``list(state="forgotten")`` still know it for
        those who may write; ``unforget`` brings it back, ``purge`` erases it."""
        return await self._do(
            run(lifecycle_calls.forget(self._session.workspace, memory_id, ref, reason))
        )

    async def forget_where(
        self,
        filter: str | None = None,
        preview: bool = True,
        *,
        where: str | None = None,
        reason: str | None = None,
        expected: int | None = None,
    ) -> ForgetReport:
        """Hides every current memory that passes a jsonpath, or ``where``, a condition in SQL as
        in ``recall``. A preview (the default) changes nothing and says what would go; ``expected``,
        its number, refuses when more match by then."""
        filter = restrict.as_filter(filter, where)
        return await self._do(
            run(
                lifecycle_calls.forget_where(
                    self._session.workspace, filter, preview, reason, expected
                )
            )
        )

    async def unforget(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Brings back a forgotten memory and the versions that were forgotten with it."""
        return await self._do(
            run(lifecycle_calls.simple("unforget", self._session.workspace, memory_id, ref))
        )

    async def purge(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Erases a memory and every version before it; id and ref stay as a tombstone. There is
        no way back. For administrators of the workspace."""
        return await self._do(
            run(lifecycle_calls.simple("purge", self._session.workspace, memory_id, ref))
        )

    async def purge_forgotten(self, before: datetime | str | None = None) -> int:
        """Erases what is forgotten (before an aware time, or all of it); answers how many."""
        return await self._do(purged(self._session, before))

    async def drop_workspace(self) -> DropReport:
        """Deletes this workspace whole, batch by batch; ``remaining`` is empty then. For
        administrators of the workspace."""
        return await self._do(dropped(self._session))

    async def correct(
        self,
        body: str,
        memory_id: Key = None,
        ref: str | None = None,
        *,
        reason: str | None = None,
        embedding: Vector | None = None,
        space: str | None = None,
        **changes: Any,
    ) -> MemoryRef:
        """Replaces what a current memory says by a new version; the former one stays in
        ``history`` and ``as_of``. ``changes``: other fields of ``remember`` (None takes one away);
        everything else is taken over."""
        return await self._do(
            corrected(self._session, body, memory_id, ref, reason, embedding, space, changes)
        )

    async def supersede(
        self, old: UUID | str, new: UUID | str, reason: str | None = None
    ) -> MemoryRef:
        """Says that the memory ``new`` takes the place of ``old``; of two at once one wins, and the
        other's outcome is conflict."""
        return await self._do(
            run(lifecycle_calls.supersede(self._session.workspace, old, new, reason))
        )

    async def pin(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Pins a current memory."""
        return await self._do(
            run(lifecycle_calls.simple("pin", self._session.workspace, memory_id, ref))
        )

    async def unpin(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Takes the pin away."""
        return await self._do(
            run(lifecycle_calls.simple("unpin", self._session.workspace, memory_id, ref))
        )

    async def resolve(self, memory_id: Key = None, ref: str | None = None) -> MemoryRef:
        """Says that unresolved work is done."""
        return await self._do(
            run(lifecycle_calls.simple("resolve", self._session.workspace, memory_id, ref))
        )

    async def reinforce(
        self, memory_id: Key = None, ref: str | None = None, strength: float = 0.5
    ) -> MemoryRef:
        """Says that a memory was found true again: more confidence, and no longer stale."""
        return await self._do(
            run(lifecycle_calls.reinforce(self._session.workspace, memory_id, ref, strength))
        )

    async def set_importance(
        self, importance: float, memory_id: Key = None, ref: str | None = None
    ) -> MemoryRef:
        """Sets the importance (0 to 1) of a current memory."""
        return await self._do(
            run(lifecycle_calls.set_importance(self._session.workspace, importance, memory_id, ref))
        )

    async def set_freshness(
        self,
        freshness: Literal["current", "stale", "unknown"],
        memory_id: Key = None,
        ref: str | None = None,
    ) -> MemoryRef:
        """Labels a current memory; the label comes with every hit."""
        return await self._do(
            run(lifecycle_calls.set_freshness(self._session.workspace, freshness, memory_id, ref))
        )

    async def history(self, memory_id: Key = None, ref: str | None = None) -> Versions:
        """Every version of a memory, the first one first: what replaced what, when, how and why."""
        return await self._do(run(lifecycle_calls.history(self._session.workspace, memory_id, ref)))

    async def conflicts(self, limit: int = 50) -> Candidates:
        """Pairs of current memories that say different things of one attribute of one subject;
        nothing is decided here."""
        return await self._do(run(lifecycle_calls.conflicts(self._session.workspace, limit)))
