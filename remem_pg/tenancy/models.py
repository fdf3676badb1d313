"""What the administration of workspaces returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from remem_pg.models import _Record

__all__ = ["Grant", "ReindexReport", "WorkspaceInfo"]

Level = Literal["read", "write", "worker", "admin"]


@dataclass(frozen=True, slots=True)
class WorkspaceInfo(_Record):
    """A workspace in a list.

    ``text_index`` is ``current``, ``mixed`` (some rows wait for ``reindex_text``) or ``outdated``
    (another version of the analysis made it).
    """

    workspace: str = ""
    language: str = ""
    space: str | None = None
    text_index: str = "current"
    memories: int = 0
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Grant(_Record):
    """A grant in a list: ``workspace`` None is all of them; ``holds`` is False when the role was
    dropped, renamed or made again since."""

    role: str = ""
    workspace: str | None = None
    level: str = "read"
    max_source_class: str | None = None
    holds: bool = True
    granted_at: datetime | None = None
    granted_by: str = ""


@dataclass(frozen=True, slots=True)
class ReindexReport(_Record):
    """How far the text analysis of a workspace is: ``progress`` from 0 to 1, ``reindexed`` the
    memories done by this call, ``run_id`` None when there was nothing to do."""

    done: bool = True
    reindexed: int = 0
    progress: float = 1.0
    language: str | None = None
    analyser: str | None = None
    run_id: UUID | None = None
