"""The vectors of questions that were asked before: least recently used, by workspace and model.

A question is known by the SHA-256 of its text, so no text is kept. Concurrent callers that miss
share one computation; a failed one is not remembered.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

V = TypeVar("V")

ENTRIES = 10_000
SECONDS = 3600.0

Key = tuple[str, str, bytes]


def key(workspace: str, model: str, text: str) -> Key:
    """The key of a text under a model's fingerprint."""
    return (workspace, model, hashlib.sha256(text.encode()).digest())


class EmbeddingCache(Generic[V]):
    """At most ``entries`` values, each for ``seconds``. Thread-safe; no lock is held while one is
    computed."""

    def __init__(
        self,
        entries: int = ENTRIES,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, V]] = OrderedDict()
        self._computing: dict[Key, Future[V | None]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, at: Key, compute: Callable[[], V | None]) -> V | None:
        """The value, computed if need be. None is a failure: every waiter gets it, the next
        caller tries again. What ``compute`` raises reaches all of them as well."""
        with self._lock:
            found = self._kept.get(at)
            if found is not None and self._clock() - found[0] < self._seconds:
                self._kept.move_to_end(at)
                return found[1]
            running = self._computing.get(at)
            mine: Future[V | None] | None = None
            if running is None:
                mine = running = self._computing[at] = Future()
        if mine is None:
            return running.result()
        try:
            value = compute()
        except BaseException as error:
            self._end(at, mine)
            # An interrupt is for the thread that was interrupted; the others lost their answer.
            mine.set_exception(error if isinstance(error, Exception) else RuntimeError("abandoned"))
            raise
        with self._lock:
            if value is not None and self._computing.get(at) is mine:
                self._kept[at] = (self._clock(), value)
                self._kept.move_to_end(at)
                while len(self._kept) > self._entries:
                    self._kept.popitem(last=False)
        self._end(at, mine)
        mine.set_result(value)
        return value

    def _end(self, at: Key, mine: Future[V | None]) -> None:
        with self._lock:
            if self._computing.get(at) is mine:
                del self._computing[at]

    def invalidate(self, workspace: str) -> None:
        """Forgets a workspace's values, also those that are being computed."""
        with self._lock:
            for at in [k for k in self._kept if k[0] == workspace]:
                del self._kept[at]
            for at in [k for k in self._computing if k[0] == workspace]:
                del self._computing[at]
