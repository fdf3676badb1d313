"""The pure builders of the calls that fill embedding spaces and switch between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from remem_pg import checks
from remem_pg.calls import Call, Reply, build, optional_text
from remem_pg.spaces.models import Coverage, EmbeddingJob, SpaceStatus
from remem_pg.vector import Vector


def _workspace(workspace: str) -> tuple[str, str]:
    return ("text", checks.text(workspace, "workspace"))


def _coverage(reply: Reply) -> Coverage | None:
    row = reply.rows[0] if reply.rows else {}
    return Coverage.from_row(row) if row.get("space") is not None else None


def start_reembed(workspace: str, space: str) -> Call[Coverage | None]:
    """Begins the move to a registered space; harmless when it has begun."""
    arguments = {"workspace": _workspace(workspace), "space": ("text", checks.text(space, "space"))}
    return build("start_reembed", arguments, _coverage)


def cancel_reembed(workspace: str) -> Call[bool]:
    """Ends a move before its switch."""
    return build("cancel_reembed", {"workspace": _workspace(workspace)}, lambda r: bool(r.value()))


def finish_reembed(workspace: str, nearly: bool) -> Call[Coverage | None]:
    """Switches to the space in building, if it is complete."""
    arguments = {"workspace": _workspace(workspace), "nearly": ("boolean", nearly)}
    return build("finish_reembed", arguments, _coverage)


def embedding_backlog(workspace: str, space: str | None = None) -> Call[list[Coverage]]:
    """What is covered and what is not, in the current space and in the one in building."""
    arguments = {
        "workspace": _workspace(workspace),
        "space": ("text", optional_text(space, "space")),
    }
    return build(
        "embedding_backlog", arguments, lambda r: [Coverage.from_row(x) for x in r.rows], read=True
    )


def embedding_work(space: str) -> Call[list[str]]:
    """The workspaces that have something to do in a space."""
    return build(
        "embedding_work",
        {"space": ("text", space)},
        lambda reply: [str(next(iter(row.values()))) for row in reply.rows],
        read=True,
    )


def claim_embeddings(
    workspace: str, space: str, limit: int, lease: float, run_id: UUID
) -> Call[list[EmbeddingJob]]:
    """A batch of texts; ``lease`` in seconds."""
    return build(
        "claim_embeddings",
        {
            "workspace": _workspace(workspace),
            "space": ("text", space),
            "limit": ("integer", limit),
            "lease": ("interval", f"{lease:.3f} seconds"),
            "run_id": ("uuid", run_id),
        },
        lambda reply: [EmbeddingJob.from_row(row) for row in reply.rows],
    )


def complete_embeddings(
    workspace: str, claim_id: UUID, item_nos: Sequence[int], vector: Vector
) -> Call[dict[int, str]]:
    """The vectors of a batch, one after the other in ``vector``; outcomes by item."""
    return build(
        "complete_embeddings",
        {
            "workspace": _workspace(workspace),
            "claim_id": ("uuid", claim_id),
            "item_nos": ("integer[]", list(item_nos)),
            "embeddings": ("real[]", vector),
        },
        lambda reply: {row["item_no"]: row["outcome"] for row in reply.rows},
    )


def fail_embeddings(
    workspace: str, claim_id: UUID, error: str, item_nos: Sequence[int]
) -> Call[int]:
    """Counts a failure of some texts of a batch."""
    return build(
        "fail_embeddings",
        {
            "workspace": _workspace(workspace),
            "claim_id": ("uuid", claim_id),
            "error": ("text", error),
            "item_nos": ("integer[]", list(item_nos)),
        },
        lambda reply: int(reply.value()),
    )


def release_claims(workspace: str, run_id: UUID) -> Call[int]:
    """Gives back what a run still holds."""
    arguments = {"workspace": _workspace(workspace), "run_id": ("uuid", run_id)}
    return build("release_claims", arguments, lambda reply: int(reply.value()))


def drop_space(space: str, workspace: str | None) -> Call[str]:
    """Clears away what a workspace left in a space, and the space when nobody uses it."""
    arguments = {
        "space": ("text", checks.text(space, "space")),
        "workspace": ("text", optional_text(workspace, "workspace")),
    }
    return build("drop_space", arguments, lambda reply: str(reply.value()))


def list_spaces(workspace: str | None) -> Call[list[SpaceStatus]]:
    """Every space with its state, rows and sizes."""
    arguments = {"workspace": ("text", optional_text(workspace, "workspace"))}
    return build(
        "list_spaces", arguments, lambda r: [SpaceStatus.from_row(x) for x in r.rows], read=True
    )


def space_index(workspace: str) -> Call[dict[str, Any]]:
    """The index of the space in building, and the commands that build it."""
    return build(
        "space_index",
        {"workspace": _workspace(workspace)},
        lambda reply: dict(reply.value()),
        read=True,
    )


def build_space_index(workspace: str) -> Call[str]:
    """Builds it in one statement, which holds up those who supersede."""
    return build(
        "build_space_index", {"workspace": _workspace(workspace)}, lambda reply: str(reply.value())
    )


def command(sql: str) -> Call[None]:
    """One of the commands of ``space_index``; outside a transaction, by the owner."""
    return Call(sql, {}, lambda reply: None, function="space_index")
