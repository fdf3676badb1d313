"""An embedding that is described by settings, as a configuration file would have them.

Whatever does not fit is an error: settings of another shape that quietly meant the hash would give
a whole installation the wrong vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remem_pg.embedding.resolve import ResolvedEmbedding, resolve_embedding
from remem_pg.errors import InvalidArgument, UnknownOption

BACKENDS = ("auto", "hash", "neural", "minilm", "none", "onnx", "http")
_ONNX = {
    "model_path": str,
    "pooling": str,
    "max_length": int,
    "query_prompt": str,
    "document_prompt": str,
    "threads": int,
    "cosine_floor": (int, float),
    "cosine_full": (int, float),
}
_HTTP = {
    "url": str,
    "model": str,
    "dimensions": int,
    "shorten": bool,
    "revision": str,
    "query_prompt": str,
    "document_prompt": str,
    "key_variable": str,
    "batch_size": int,
    "timeout": (int, float),
    "patience": (int, float),
}
_KEYS: dict[str, dict[str, Any]] = {"onnx": _ONNX, "http": _HTTP}


def from_settings(settings: Mapping[str, Any]) -> ResolvedEmbedding:
    """The embedding of ``{"backend": ..., ...}``.

    ``backend`` is one of ``BACKENDS``; without one, ``model_path`` means ``onnx`` and ``url``
    means ``http``. ``onnx`` takes ``model_path`` and the arguments of ``OnnxEmbedding``, ``http``
    those of ``HttpEmbedding``, the others nothing. Raises UnknownOption for any other key,
    InvalidArgument for a value of another type, EmbeddingUnavailable for a model that cannot be
    had.
    """
    backend = settings.get("backend")
    if backend is None:
        backend = next(
            (name for key, name in (("model_path", "onnx"), ("url", "http")) if key in settings),
            None,
        )
    if backend not in BACKENDS:
        raise InvalidArgument(
            f"unknown embedding backend {backend!r}",
            detail={"argument": "backend", "value": backend, "valid": list(BACKENDS)},
            hint=f"backend is one of {', '.join(BACKENDS)}",
        )
    known = _KEYS.get(backend, {})
    rest = {key: value for key, value in settings.items() if key != "backend" and value is not None}
    for key, value in rest.items():
        if key not in known:
            raise UnknownOption(
                detail={"option": key, "valid": ["backend", *known]},
                hint=f"with the backend {backend}: {', '.join(['backend', *known])}",
            )
        if not isinstance(value, known[key]) or (
            isinstance(value, bool) and known[key] is not bool
        ):
            raise InvalidArgument(
                f"{key} of the embedding is no {known[key]}",
                detail={"argument": key, "value": value},
            )
    if backend not in _KEYS:
        return resolve_embedding(backend)
    return _http(rest) if backend == "http" else _onnx(rest)


def _http(rest: dict[str, Any]) -> ResolvedEmbedding:
    from remem_pg.embedding.http import HttpEmbedding

    if "url" not in rest:
        raise InvalidArgument("the backend http needs a url", detail={"argument": "url"})
    endpoint = HttpEmbedding(**rest)
    return ResolvedEmbedding(endpoint, f"the endpoint {endpoint.place}")


def _onnx(rest: dict[str, Any]) -> ResolvedEmbedding:
    from remem_pg.embedding.onnx import OnnxEmbedding

    if "model_path" not in rest:
        raise InvalidArgument(
            "the backend onnx needs a model_path", detail={"argument": "model_path"}
        )
    path = rest.pop("model_path")
    model = OnnxEmbedding(path, **rest)
    model.load()
    return ResolvedEmbedding(model, f"the model in {path}")
