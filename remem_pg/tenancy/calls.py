"""The pure builders of the calls that administer: spaces, workspaces, grants, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remem_pg import checks
from remem_pg.calls import Call, Reply, build, optional_text
from remem_pg.models import SpaceInfo, Version
from remem_pg.tenancy.models import Grant, ReindexReport, WorkspaceInfo


def _nothing(reply: Reply) -> None:
    return None


def _space(reply: Reply) -> SpaceInfo:
    return SpaceInfo.from_row(reply.rows[0])


# spaces


def register_space(descriptor: Mapping[str, Any]) -> Call[SpaceInfo]:
    """Makes an embedding space known; the same fingerprint is the same space."""
    document = checks.document(descriptor, "descriptor")
    return build("register_space", {"descriptor": ("jsonb", document)}, _space)


def activate_space(space: str, workspace: str | None) -> Call[SpaceInfo]:
    """Points a workspace (None: new workspaces) at a space by name or fingerprint."""
    return build(
        "activate_space",
        {
            "space": ("text", checks.text(space, "space")),
            "workspace": ("text", optional_text(workspace, "workspace")),
        },
        _space,
    )


def drop_space(space: str, workspace: str | None) -> Call[str]:
    """Drops a space, or clears away what one workspace left in it; says what became of it."""
    return build(
        "drop_space",
        {
            "space": ("text", checks.text(space, "space")),
            "workspace": ("text", optional_text(workspace, "workspace")),
        },
        lambda reply: str(reply.value()),
    )


def current_space(workspace: str | None) -> Call[SpaceInfo]:
    """The space a workspace uses (None or not created yet: the default)."""
    return build(
        "current_space",
        {"workspace": ("text", optional_text(workspace, "workspace"))},
        _space,
        read=True,
    )


# administration


def create_workspace(workspace: str, language: str) -> Call[bool]:
    """A workspace with its language; says whether it is new."""
    return build(
        "create_workspace",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "language": ("text", checks.text(language, "language")),
        },
        lambda reply: bool(reply.value()),
    )


def list_workspaces(after: str | None, limit: int) -> Call[list[WorkspaceInfo]]:
    """A page of the workspaces that the role may see, by name."""
    return build(
        "list_workspaces",
        {
            "after": ("text", optional_text(after, "after")),
            "limit": ("integer", checks.integer(limit, "limit")),
        },
        lambda reply: [WorkspaceInfo.from_row(row) for row in reply.rows],
        read=True,
    )


def list_grants(role: str | None, workspace: str | None) -> Call[list[Grant]]:
    """Who may do what."""
    return build(
        "list_grants",
        {
            "role": ("text", optional_text(role, "role")),
            "workspace": ("text", optional_text(workspace, "workspace")),
        },
        lambda reply: [Grant.from_row(row) for row in reply.rows],
        read=True,
    )


def set_language(workspace: str, language: str) -> Call[bool]:
    """Sets the language of a workspace; says whether that changed anything."""
    return build(
        "set_language",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "language": ("text", checks.text(language, "language")),
        },
        lambda reply: bool(reply.value()),
    )


def reindex_text(workspace: str, budget: float) -> Call[ReindexReport]:
    """Analyses memories anew for about ``budget`` seconds."""
    return build(
        "reindex_text",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "budget": ("interval", f"{budget:.3f} seconds"),
        },
        lambda reply: ReindexReport.from_row(reply.rows[0]),
    )


def grant_access(
    role: str, workspace: str | None, level: str, max_source_class: str | None
) -> Call[None]:
    """Lets a role read, write, work or administer one workspace or (None) all."""
    return build(
        "grant_access",
        {
            "role": ("text", checks.text(role, "role")),
            "workspace": ("text", optional_text(workspace, "workspace")),
            "level": ("text", checks.text(level, "level")),
            "max_source_class": ("text", optional_text(max_source_class, "max_source_class")),
        },
        _nothing,
    )


def revoke_access(role: str, workspace: str | None) -> Call[bool]:
    """Takes a grant back; says whether there was one."""
    return build(
        "revoke_access",
        {
            "role": ("text", checks.text(role, "role")),
            "workspace": ("text", optional_text(workspace, "workspace")),
        },
        lambda reply: bool(reply.value()),
    )


def configure(name: str, value: str) -> Call[None]:
    """Changes a database-wide setting."""
    return build(
        "configure",
        {
            "name": ("text", checks.text(name, "name")),
            "value": ("text", checks.text(value, "value")),
        },
        _nothing,
    )


def version() -> Call[Version]:
    """What is installed in the database."""

    def parse(reply: Reply) -> Version:
        said: dict[str, Any] = reply.value()
        return Version(said["version"], int(said["compatibility"]), said)

    return build("version", {}, parse, read=True)
