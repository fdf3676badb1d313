"""The last good catalog of each context, for a moment in which none can be had."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

SECONDS = 30.0
"""How long a catalog may be shown again. No longer: nobody asks meanwhile whether access still
is."""

MOST = 10


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A catalog as it was."""

    text: str
    shown: int
    omitted: int


class Snapshots:
    """At most ten catalogs, each for thirty seconds. Safe to use from several threads."""

    def __init__(
        self,
        seconds: float = SECONDS,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, Snapshot]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, key: Hashable, snapshot: Snapshot) -> None:
        with self._lock:
            self._kept[key] = (self._clock() + self._seconds, snapshot)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def get(self, key: Hashable) -> Snapshot | None:
        with self._lock:
            until, snapshot = self._kept.get(key, (0.0, None))
            if snapshot is not None and self._clock() >= until:
                del self._kept[key]
                return None
            return snapshot

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._kept.clear()
