"""What doctor and maintain say."""

from __future__ import annotations

from dataclasses import dataclass

from remem_pg.models import _Record

__all__ = ["CheckRow", "MaintainRow"]


@dataclass(frozen=True, slots=True)
class CheckRow(_Record):
    """One finding: ``status`` is ok, warning or error.

    ``remedy`` can be pasted: into psql where it ends with a semicolon, otherwise into a shell.
    """

    check_name: str = ""
    status: str = "ok"
    detail: str = ""
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class MaintainRow(_Record):
    """One task of ``remem.maintain``.

    ``state`` is done, partial (call again), busy (another session maintains), or due (``command``
    is to be run by a client). A client that ran a command says ``done``, or ``failed``.
    """

    task: str = ""
    state: str = "done"
    rows: int = 0
    detail: str = ""
    command: str | None = None
