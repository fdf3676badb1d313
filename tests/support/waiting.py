"""Waiting for what comes to pass elsewhere: in another thread, process or session."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE = 0.02


def until(
    condition: Callable[[], object], seconds: float = 30, why: str = "it did not come to pass"
) -> None:
    """Returns as soon as the condition holds; fails with ``why`` when the time is up."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, why
        time.sleep(PAUSE)
