"""Recall through the server's cache and log, and the answers that this process keeps of it.

A kept answer is sent along as a token: the server says in the same round trip whether it still
holds, and sends a new answer if not. So nothing stale is ever served, an answer that holds is
neither computed nor transferred again, and a recall is never more than one round trip.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from remem_pg import calls
from remem_pg.calls import Call, Reply
from remem_pg.models import Hit, RecallResult
from remem_pg.vector import Vector

ENTRIES = 5_000
SECONDS = 60.0


class ResultCache:
    """At most ``entries`` documents of ``recall_cached``, each for ``seconds``. Thread-safe."""

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
        self._kept: OrderedDict[bytes, tuple[float, dict[str, Any]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> dict[str, Any] | None:
        """A kept document; not to be changed, and not to be served before the server agreed."""
        with self._lock:
            found = self._kept.get(key)
            if found is None or self._clock() - found[0] >= self._seconds:
                self._kept.pop(key, None)
                return None
            self._kept.move_to_end(key)
            return found[1]

    def put(self, key: bytes, document: dict[str, Any]) -> None:
        """Keeps a document that came with a token."""
        with self._lock:
            self._kept[key] = (self._clock(), document)
            self._kept.move_to_end(key)
            while len(self._kept) > self._entries:
                self._kept.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Tiers:
    """How a client recalls: through the cache or not, with a row in the log or not."""

    cache: ResultCache | None = None
    log: bool = False

    @property
    def on(self) -> bool:
        """Whether a recall goes through ``recall_cached``."""
        return self.log or self.cache is not None

    def call(
        self, workspace: str, query: str, vector: Vector | None, k: int, options: Mapping[str, Any]
    ) -> Call[dict[str, Any]]:
        """``remem.recall_cached``, answered with a document like that of ``recall_explain``."""
        cache = self.cache
        key = b"" if cache is None else _key(workspace, query, vector, k, options)
        kept = None if cache is None else cache.get(key)
        sent = dict(options)
        sent["cache"] = "off" if cache is None else "auto"
        sent["log"] = self.log
        if kept is not None:
            sent["token"] = kept["token"]

        def parse(reply: Reply) -> dict[str, Any]:
            document = dict(reply.value())
            document["degraded"] = list(dict.fromkeys(document.get("degraded") or ()))
            if document.pop("unchanged", False) and kept is not None:
                document.pop("returned", None)
                more = document.pop("degraded")
                served = copy.deepcopy(kept) | document
                served["degraded"] = list(dict.fromkeys([*kept["degraded"], *more]))
                return served
            if cache is not None and document.get("token"):
                cache.put(key, copy.deepcopy(document))
            return document

        return calls.recall_cached(workspace, query, vector, k, sent, parse)


def as_result(document: dict[str, Any], space: str | None, query: str) -> RecallResult:
    """The document as the result of ``recall``; its trace is all but the hits."""
    rows = document.pop("hits", None) or ()
    hits = [Hit.from_document(row) for row in rows]
    return RecallResult(hits, document["degraded"], space, query, document)


def _key(
    workspace: str, query: str, vector: Vector | None, k: int, options: Mapping[str, Any]
) -> bytes:
    parts = json.dumps([workspace, query, k, dict(options)], sort_keys=True, default=str)
    digest = hashlib.sha256(parts.encode(errors="surrogatepass"))
    digest.update(b"" if vector is None else vector.as_binary())
    return digest.digest()
