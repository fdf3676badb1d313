"""The pure builders of the calls that change, forget and erase memories, and of their history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from remem_pg import checks
from remem_pg.calls import Call, Reply, build, optional_text
from remem_pg.models import (
    ConflictCandidate,
    DropReport,
    ForgetReport,
    MemoryRef,
    MemoryVersion,
)
from remem_pg.vector import Vector

Arguments = dict[str, tuple[str, Any]]


def _ref(reply: Reply) -> MemoryRef:
    return MemoryRef.from_row(reply.rows[0])


def _workspace(workspace: str) -> Arguments:
    return {"workspace": ("text", checks.text(workspace, "workspace"))}


def _named(workspace: str, memory_id: UUID | str | None, ref: str | None) -> Arguments:
    """A memory by its id or by the caller's ref; the server refuses both and neither."""
    given = None if memory_id is None else checks.identifier(memory_id, "memory_id")
    return _workspace(workspace) | {
        "memory_id": ("uuid", given),
        "ref": ("text", optional_text(ref, "ref")),
    }


def simple(
    function: str, workspace: str, memory_id: UUID | str | None, ref: str | None
) -> Call[MemoryRef]:
    """unforget, purge, pin, unpin, resolve: nothing but the memory is named."""
    return build(function, _named(workspace, memory_id, ref), _ref)


def forget(
    workspace: str, memory_id: UUID | str | None, ref: str | None, reason: str | None
) -> Call[MemoryRef]:
    """Hides a memory and every version before it."""
    arguments = _named(workspace, memory_id, ref)
    return build("forget", arguments | {"reason": ("text", optional_text(reason, "reason"))}, _ref)


def forget_where(
    workspace: str, filter: str | None, preview: bool, reason: str | None, expected: int | None
) -> Call[ForgetReport]:
    """Hides every current memory that passes a filter, or says which those are."""
    arguments = _workspace(workspace) | {
        "filter": ("text", checks.text(filter, "filter")),
        "preview": ("boolean", checks.boolean(preview, "preview")),
        "reason": ("text", optional_text(reason, "reason")),
        "expected": ("bigint", None if expected is None else checks.integer(expected, "expected")),
    }
    return build("forget_where", arguments, lambda reply: ForgetReport.from_row(reply.rows[0]))


def purge_forgotten(workspace: str, before: datetime | str | None, limit: int) -> Call[int]:
    """Erases a batch of forgotten memories; says how many."""
    arguments = _workspace(workspace) | {
        "before": ("timestamptz", None if before is None else checks.instant(before, "before")),
        "limit": ("integer", checks.integer(limit, "limit")),
    }
    return build("purge_forgotten", arguments, lambda reply: int(reply.value()))


def drop_workspace(workspace: str, limit: int) -> Call[DropReport]:
    """Deletes a batch of a workspace's rows."""
    arguments = _workspace(workspace) | {"limit": ("integer", checks.integer(limit, "limit"))}
    return build("drop_workspace", arguments, lambda reply: DropReport.from_row(reply.rows[0]))


def supersede(
    workspace: str, old: UUID | str, new: UUID | str, reason: str | None
) -> Call[MemoryRef]:
    """One current memory takes the place of another."""
    arguments = _workspace(workspace) | {
        "old": ("uuid", checks.identifier(old, "old")),
        "new": ("uuid", checks.identifier(new, "new")),
        "reason": ("text", optional_text(reason, "reason")),
    }
    return build("supersede", arguments, _ref)


def correct(
    workspace: str,
    body: str,
    memory_id: UUID | str | None,
    ref: str | None,
    reason: str | None,
    changes: Mapping[str, Any],
    embedding: Vector | None,
    space: str | None,
) -> Call[MemoryRef]:
    """A new version that says something else; a None among ``changes`` takes a field away."""
    arguments = _named(workspace, memory_id, ref) | {
        "body": ("text", checks.text(body, "body")),
        "reason": ("text", optional_text(reason, "reason")),
        "changes": ("jsonb", checks.document(changes, "changes")),
        "embedding": ("real[]", embedding),
        "space": ("text", optional_text(space, "space")),
    }
    return build("correct", arguments, _ref)


def set_importance(
    workspace: str, importance: float, memory_id: UUID | str | None, ref: str | None
) -> Call[MemoryRef]:
    """Another importance, 0 to 1."""
    arguments = _named(workspace, memory_id, ref)
    number = checks.real(importance, "importance")
    return build("set_importance", arguments | {"importance": ("real", number)}, _ref)


def set_freshness(
    workspace: str, freshness: str, memory_id: UUID | str | None, ref: str | None
) -> Call[MemoryRef]:
    """Another label: current, stale or unknown."""
    arguments = _named(workspace, memory_id, ref)
    label = checks.text(freshness, "freshness")
    return build("set_freshness", arguments | {"freshness": ("text", label)}, _ref)


def reinforce(
    workspace: str, memory_id: UUID | str | None, ref: str | None, strength: float
) -> Call[MemoryRef]:
    """More confidence in what was found true again."""
    arguments = _named(workspace, memory_id, ref)
    number = checks.real(strength, "strength")
    return build("reinforce", arguments | {"strength": ("real", number)}, _ref)


def history(
    workspace: str, memory_id: UUID | str | None, ref: str | None
) -> Call[list[MemoryVersion]]:
    """Every version of a memory, the first one first."""
    return build(
        "history",
        _named(workspace, memory_id, ref),
        lambda reply: [MemoryVersion.from_row(row) for row in reply.rows],
        read=True,
    )


def conflicts(workspace: str, limit: int) -> Call[list[ConflictCandidate]]:
    """Pairs of current memories that may contradict each other."""
    return build(
        "conflicts",
        _workspace(workspace) | {"limit": ("integer", checks.integer(limit, "limit"))},
        lambda reply: [ConflictCandidate.from_row(row) for row in reply.rows],
        read=True,
    )
