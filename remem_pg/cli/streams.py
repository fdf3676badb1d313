"""The standard streams of the process, which may break or be closed."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def open_closed() -> None:
    """Make the null device of each standard stream that the process was started without."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def silence(stream: TextIO) -> None:
    """Point a stream at the null device, so that the interpreter's last flush is quiet."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
