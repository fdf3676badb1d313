"""A logger that is quiet while its complaints are what an evaluation provokes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hushed(name: str, level: int = logging.CRITICAL) -> Iterator[None]:
    """Leave out what logger ``name`` says below ``level``, until the end of the block (or of the
    function that this decorates)."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
