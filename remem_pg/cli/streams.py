"""The standard streams of the process, which may break or be closed."""

from __future__ import annotations

import os
from typing import TextIO


def silence(stream: TextIO) -> None:
    """Point a stream at the null device, so that the interpreter's last flush is quiet."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
