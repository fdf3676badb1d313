"""The model of a managed installation: neural, downloaded if need be, else the hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from remem_pg.embedding import model_store
from remem_pg.embedding.resolve import (
    ResolvedEmbedding,
    missing_runtime,
    neural,
    resolve_embedding,
)
from remem_pg.errors import EmbeddingUnavailable

RUNTIME_HINT = "pip install 'remem-pg[neural]'"


@dataclass(frozen=True)
class Managed:
    """What a managed installation embeds with, and why it is not neural (None: it is)."""

    found: ResolvedEmbedding
    failure: EmbeddingUnavailable | None = None


def managed(
    *,
    source: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[str, int, int | None], None] | None = None,
    may_download: bool = True,
) -> Managed:
    """A neural model: the configured path, the cache, the installed package, else a download.

    A path that was configured (REMEM_MODEL_PATH) is the only one looked at, and no network with it.
    Raises EmbeddingUnavailable for such a path that cannot be used; anything else that goes wrong
    ends with the hash and is in ``failure``.
    """
    configured = os.environ.get("REMEM_MODEL_PATH")
    if configured:
        return Managed(resolve_embedding(Path(configured)))
    try:
        return Managed(neural())
    except EmbeddingUnavailable as error:
        failure = error
    missing = missing_runtime()
    if missing:
        failure = EmbeddingUnavailable(
            f"a neural model needs {' and '.join(missing)}",
            detail={"reason": "runtime"},
            hint=RUNTIME_HINT,
        )
    elif may_download:
        try:
            from remem_pg.embedding.download import download

            download(source=source, say=say, progress=progress, check=try_model)
            return Managed(neural())
        except EmbeddingUnavailable as error:
            failure = error
    return Managed(resolve_embedding("hash"), failure)


def try_model(directory: Path) -> dict[str, float]:
    """Loads a model and has it embed a few texts, where the libraries are there: what does not work
    is not kept. Its relevance thresholds, to be kept beside it. Raises EmbeddingUnavailable."""
    if missing_runtime():
        return {}
    from remem_pg.embedding.calibrate import thresholds
    from remem_pg.embedding.onnx import OnnxEmbedding

    return thresholds(OnnxEmbedding(directory))


def report() -> dict[str, object]:
    """What ``model_store.status`` says, and which libraries a neural model lacks here: for a
    doctor. Loads nothing and asks no network."""
    return model_store.status() | {"missing_libraries": missing_runtime()}
