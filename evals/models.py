"""The embedding model of an evaluation, with a clock and a memory for questions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from remem_pg.embedding.base import EmbeddingModel
from remem_pg.embedding.resolve import resolve_embedding


class ModelUnavailable(RuntimeError):
    """The chosen model cannot be had; the message says why and what to do."""


class ClockedModel:
    """A model that is another model, and says how long each question took it.

    Single texts are questions: each is embedded once and remembered, so that every mode of an
    evaluation asks with the same vector. ``milliseconds`` has one entry per embedded question,
    ``spent`` the total of all calls in seconds. Everything else is the other model's.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self._questions: dict[str, Any] = {}
        self.milliseconds: list[float] = []
        self.spent = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def id(self) -> str:
        return self._model.id

    @property
    def dimensions(self) -> int:
        return self._model.dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        """``(len(texts), dimensions)`` float32, as of the other model."""
        single = texts[0] if len(texts) == 1 else None
        if single is not None and single in self._questions:
            return self._questions[single]
        started = time.perf_counter()
        vectors = self._model.embed(texts)
        took = time.perf_counter() - started
        self.spent += took
        if single is not None:
            self._questions[single] = vectors
            self.milliseconds.append(took * 1000)
        return vectors


def open_model(spec: str) -> ClockedModel:
    """The model ``spec`` names (auto, hash, minilm, or a model directory), ready to be timed.

    Raises ModelUnavailable: an evaluation never measures another model than the one asked for.
    """
    found = resolve_embedding(spec)
    if found.model is None:
        raise ModelUnavailable(" ".join(part for part in (found.reason, found.hint) if part))
    return ClockedModel(found.model)
