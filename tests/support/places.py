"""Where the tests keep their databases: in memory if there is room, which saves most of the time
that a fresh database takes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # Linux; elsewhere the usual temporary directory is taken
ROOM = 4 * 2**30
"""What has to be free there, in bytes; a run with two workers fills about a third of it."""


def parents() -> list[Path]:
    """The directories that `new_directory` chooses from, best first; TMPDIR leaves no choice."""
    usual = Path(tempfile.gettempdir())
    return [usual] if os.environ.get("TMPDIR") else [MEMORY, usual]


def new_directory(prefix: str) -> Path:
    """A new directory that other accounts may pass: as root, a server runs as another user."""
    parent = next((place for place in parents() if _suits(place)), None)
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    directory.chmod(0o711)
    return directory


def _suits(place: Path) -> bool:
    """Whether it is there, has the room, and lets programs run from it."""
    try:
        return (
            os.access(place, os.W_OK | os.X_OK)
            and shutil.disk_usage(place).free >= ROOM
            and not os.statvfs(place).f_flag & os.ST_NOEXEC
        )
    except OSError:
        return False
