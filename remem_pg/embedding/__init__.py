"""Embedding models: the protocol, the built-in hash, local ONNX models, and how one is chosen.

Importing this package imports neither numpy nor onnxruntime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remem_pg.embedding.base import (
        AsyncEmbeddingModel,
        EmbeddingModel,
        checked,
        descriptor_of,
        fingerprint,
    )
    from remem_pg.embedding.hash import HashEmbedding
    from remem_pg.embedding.http import HttpEmbedding
    from remem_pg.embedding.onnx import OnnxEmbedding, packaged_minilm
    from remem_pg.embedding.resolve import ResolvedEmbedding, resolve_embedding

__all__ = [
    "AsyncEmbeddingModel",
    "EmbeddingModel",
    "HashEmbedding",
    "HttpEmbedding",
    "OnnxEmbedding",
    "ResolvedEmbedding",
    "checked",
    "descriptor_of",
    "fingerprint",
    "packaged_minilm",
    "resolve_embedding",
]

_HOME = {
    "AsyncEmbeddingModel": "base",
    "EmbeddingModel": "base",
    "HashEmbedding": "hash",
    "HttpEmbedding": "http",
    "OnnxEmbedding": "onnx",
    "ResolvedEmbedding": "resolve",
    "checked": "base",
    "descriptor_of": "base",
    "fingerprint": "base",
    "packaged_minilm": "onnx",
    "resolve_embedding": "resolve",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
