"""The client's side of embedding: one model, found lazily, that never stops a call.

The model is resolved at the first call that needs a vector. Whatever goes wrong then or later
(no model, a failing model, vectors of the wrong shape) is logged once, and the answer is computed
without a vector and says so.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from remem_pg import checks
from remem_pg.embedding.awaiting import awaited
from remem_pg.embedding.cache import EmbeddingCache, key
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument, UnknownOption
from remem_pg.vector import Vector

if TYPE_CHECKING:
    from remem_pg.embedding.base import EmbeddingModel

logger = logging.getLogger("remem_pg")

AGAIN_SECONDS = 30.0
"""How long a model that could not be had is not asked for again: an endpoint may come back."""

HASH_BACKEND = "remem-local-hash"
"""The backend of the built-in space: there the server embeds what arrives without a vector."""


class Embedder:
    """A model chosen by ``spec`` (see ``embedding.resolve``), shared by sibling clients."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.explicit = spec is not None
        if isinstance(spec, str) and spec == "auto":
            self.explicit = os.environ.get("REMEM_EMBEDDING", "auto") not in ("", "auto")
        """Whether the caller chose the model, so that an empty workspace may be moved to it."""
        self.descriptor: dict[str, Any] = {}
        self.fingerprint: str | None = None
        self.reason = ""
        self._model: EmbeddingModel | None = None
        self._resolved = False
        self.again_at: float | None = None
        """The moment (monotonic) from when a model that could not be had is tried again."""
        self.late = False
        """Whether somebody who waited for the model to be loaded gave up."""
        self._lock = threading.Lock()
        self._logged: set[str] = set()
        self.cache: EmbeddingCache[list[Vector | None]] = EmbeddingCache()

    def prepare(self) -> str | None:
        """The fingerprint of the model's space, or None without a model.

        Raises InvalidArgument for a spec that is no model at all; a model that cannot be had is
        logged, and asked for again after half a minute.
        """
        with self._lock:
            if not self.ready:
                self.again_at = None
                self._resolve()
                self._resolved = True
        return self.fingerprint

    @property
    def ready(self) -> bool:
        """Whether ``prepare`` answers at once: the model is loaded, or is not to be had now."""
        due = self.again_at is not None and time.monotonic() >= self.again_at
        return self._resolved and not due

    @property
    def loading(self) -> bool:
        """Whether somebody is loading the model just now."""
        return self._lock.locked()

    def model(self) -> EmbeddingModel | None:
        """The model itself, found now if need be; None without one."""
        self.prepare()
        return self._model

    def _resolve(self) -> None:
        if self.spec is None:
            self.reason = "embedding=None"
            return
        try:
            from remem_pg.embedding.base import descriptor_of, fingerprint
            from remem_pg.embedding.resolve import resolve_embedding

            found = resolve_embedding(self.spec)
            self.reason = " ".join(part for part in (found.reason, found.hint) if part)
            if found.model is None:
                self.log_once("unresolved", "no embedding model: %s", self.reason)
                return
            self.descriptor = dict(descriptor_of(found.model))
            self.fingerprint = fingerprint(self.descriptor)
            self._model = found.model
        except (InvalidArgument, UnknownOption):
            raise
        except Exception as exc:  # a model is somebody else's code: recall works without it
            self.again_at = time.monotonic() + AGAIN_SECONDS
            self.reason = f"{type(exc).__name__}: {exc}"
            self.log_once("unresolved", "no embedding model: %s", self.reason)
            return
        logger.info("embedding with %s: %s", self.descriptor.get("name"), self.reason)

    def embed_query(self, workspace: str, query: str) -> list[Vector | None] | None:
        """As ``embed`` for one question; asked again within the hour, it costs nothing."""
        at = key(workspace, self.fingerprint or "", query)
        return self.cache.get(at, lambda: self.embed([query], query=True))

    def embed(self, texts: Sequence[str], *, query: bool) -> list[Vector | None] | None:
        """One vector per text (None for a text without any feature), or None when it failed.

        ``query`` tells questions from documents, for models that prefix them differently.
        """
        if self._model is None:
            return None
        try:
            role = "query_prompt" if query else "document_prompt"
            vectors = self._embedded(texts, role, live=True)
        except Exception as exc:  # as above: fail open, named in the result
            # the class alone: a message may quote what was embedded
            why = type(exc).__name__
            self.log_once("failed", "embedding failed, continuing without vectors: %s", why)
            return None
        return [None if vector.is_zero() else vector for vector in vectors]

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, of zeros for a text without any feature; raises what goes wrong."""
        return self._embedded(texts, "document_prompt")

    def _embedded(self, texts: Sequence[str], role: str, *, live: bool = False) -> list[Vector]:
        model = self.model()
        if model is None:
            raise EmbeddingUnavailable(self.reason or None)
        prompt = self.descriptor.get(role) or ""
        embed = model.embed
        if live:  # a model behind a network waits longer for a job than for a caller
            embed = getattr(model, "embed_live", embed)
        rows = awaited(embed([prompt + text for text in texts]))
        vectors = [checks.vector(row, "embedding") for row in rows]
        dimensions = int(self.descriptor["dimensions"])
        if len(vectors) != len(texts) or any(len(v) != dimensions for v in vectors):
            shapes = sorted({len(v) for v in vectors})
            raise ValueError(
                f"expected {len(texts)} vectors of {dimensions}, got {len(vectors)} of {shapes}"
            )
        return vectors

    def log_once(self, key: str, message: str, *args: Any) -> None:
        """One warning per client for each kind of trouble."""
        if key not in self._logged:
            self._logged.add(key)
            logger.warning(message, *args)


def document_text(item: Mapping[str, Any]) -> str:
    """The text of a memory that is embedded: the same as ``remem._document_text`` in SQL."""
    body = item["body"]
    if item.get("speaker"):
        body = f"{item['speaker']}: {body}"
    parts = [
        item.get("title"),
        item.get("summary"),
        body,
        " ".join(item.get("aliases") or ()),
        " ".join(item.get("tags") or ()),
    ]
    return unicodedata.normalize("NFC", "\n".join(part for part in parts if part))
