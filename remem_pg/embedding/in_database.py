"""A model inside a server process: what the functions of `remem install-plpython` call."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from remem_pg.embedding.base import fingerprint
from remem_pg.embedding.onnx import OnnxEmbedding
from remem_pg.errors import EmbeddingUnavailable

REMEMBERED = 64
"""Questions whose vectors are kept: the parts of one recall may each ask for the same one."""
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class DatabaseModel:
    """The model that `OnnxEmbedding(**arguments)` is, computing on the calling thread alone.

    Raises EmbeddingUnavailable when it cannot be had, or when its files are no longer those of the
    space `identity`: vectors of two models never meet.
    """

    def __init__(self, arguments: Mapping[str, Any], identity: str) -> None:
        os.environ.update(dict.fromkeys(SINGLE, "1"), TOKENIZERS_PARALLELISM="false")
        with _signals_blocked():
            self._model = OnnxEmbedding(**arguments, threads=1)
            found = fingerprint(self._model.descriptor)
        if found != identity:
            raise EmbeddingUnavailable(
                "the files of the model have changed since it was installed",
                hint="as a superuser: remem install-plpython",
            )
        self._one = lru_cache(maxsize=REMEMBERED)(self._embed_one)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, as it is, without a prompt."""
        if len(texts) == 1:
            return [self._one(texts[0])]
        vectors: list[list[float]] = self._model.embed(texts).tolist()
        return vectors

    def _embed_one(self, text: str) -> list[float]:
        vector: list[float] = self._model.embed([text])[0].tolist()
        return vector


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Threads that a library starts within it take no signals: a server's handlers are written
    for its one thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
