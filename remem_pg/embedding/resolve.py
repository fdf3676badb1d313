"""Which embedding model is used: one decision, with its reason and the way to a better one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.embedding.base import CallableEmbedding, EmbeddingModel
from remem_pg.embedding.hash import MODEL_ID, HashEmbedding
from remem_pg.embedding.model_store import cached_models, manifest, model_cache
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument

if TYPE_CHECKING:
    from remem_pg.embedding.onnx import OnnxEmbedding

BETTER = "For a neural model: pip install 'remem-pg[minilm]', or remem embeddings download."
NAMES = ("auto", "hash", "neural", "minilm", "none")


@dataclass(frozen=True)
class ResolvedEmbedding:
    """The chosen model (None: this client makes no vectors), why, and how to get a better one."""

    model: EmbeddingModel | None
    reason: str
    hint: str | None = None


def resolve_embedding(spec: Any = None) -> ResolvedEmbedding:
    """Choose the model for `spec`.

    `"hash"`, `"neural"` (any local model), `"minilm"`, `"none"`, the name of a model in the cache,
    the path of a model directory or file, the `http(s)://` address of an endpoint, a mapping of
    settings (see `configured.from_settings`), a model, or a callable with the attributes `id` and
    `dimensions` is taken as said: EmbeddingUnavailable when it cannot be had, InvalidArgument when
    it is none of these.  So is what REMEM_EMBEDDING says when `spec` is None or `"auto"`.  Without
    a word from anyone: the directory in REMEM_MODEL_PATH, the first usable one in the model cache,
    the installed MiniLM package, else the built-in hash, and whatever failed on the way is in the
    reason.  Nothing is downloaded.
    """
    if isinstance(spec, Mapping):
        from remem_pg.embedding.configured import from_settings

        return from_settings(spec)
    if isinstance(spec, os.PathLike):
        return _directory(Path(spec))
    if spec is None or spec == "auto":
        said = os.environ.get("REMEM_EMBEDDING") or "auto"
        return _automatic() if said == "auto" else _named(said)
    if isinstance(spec, str):
        return _named(spec)
    return _object(spec)


def _named(spec: str) -> ResolvedEmbedding:
    if spec == "none":
        return ResolvedEmbedding(None, "no embedding was asked for")
    if spec == "hash":
        return _hash("the built-in hash was asked for", None)
    if spec == "minilm":
        from remem_pg.embedding.onnx import MINILM_HINT, packaged_minilm

        model = packaged_minilm()
        if model is None:
            raise EmbeddingUnavailable("the MiniLM package is not installed", hint=MINILM_HINT)
        return _loaded(model, "the installed MiniLM package")
    if spec == "neural":
        return neural()
    if spec.startswith(("http://", "https://")):
        from remem_pg.embedding.http import HttpEmbedding

        endpoint = HttpEmbedding(spec)
        return ResolvedEmbedding(endpoint, f"the endpoint {endpoint.place}")
    if spec in [directory.name for directory in cached_models()]:
        return _directory(model_cache() / spec)
    path = Path(spec).expanduser()
    if os.sep in spec or path.exists():
        return _directory(path)
    raise InvalidArgument(
        f"unknown embedding {spec!r}",
        detail={"argument": "embedding", "value": spec, "valid": list(NAMES)},
        hint=f"one of {', '.join(NAMES)}, the path of a model directory, or https://...",
    )


def neural() -> ResolvedEmbedding:
    """A local neural model, found as without a word from anyone. Raises EmbeddingUnavailable, with
    what failed on the way, where that comes to the hash."""
    found = _automatic()
    if found.model is None or found.model.id == MODEL_ID:
        raise EmbeddingUnavailable(f"no neural model: {found.reason}", hint=found.hint)
    return found


def _automatic() -> ResolvedEmbedding:
    configured = os.environ.get("REMEM_MODEL_PATH")
    if configured:
        try:
            return _directory(Path(configured))
        except EmbeddingUnavailable as error:
            return _hash(f"REMEM_MODEL_PATH failed ({error.message})", error.hint)
    missing = missing_runtime()
    cached = cached_models()
    if missing:
        if cached:
            from remem_pg.embedding.onnx_network import ONNX_HINT

            reason = f"the models in {model_cache()} need {' and '.join(missing)}"
            return _hash(reason, f"Install them: {ONNX_HINT}.")
        return _hash("no neural model is installed", BETTER)
    from remem_pg.embedding.onnx import packaged_minilm

    failed: list[str] = []
    candidates: list[Callable[[], ResolvedEmbedding]] = [
        lambda directory=directory: _directory(directory)  # type: ignore[misc]
        for directory in cached
    ]
    packaged = packaged_minilm()
    if packaged is not None:
        candidates.append(lambda: _loaded(packaged, "the installed MiniLM package"))
    for candidate in candidates:
        try:
            found = candidate()
        except EmbeddingUnavailable as error:
            failed.append(error.message)
        else:
            return ResolvedEmbedding(found.model, "; ".join([found.reason, *failed]), None)
    if failed:
        return _hash("; ".join(failed), "Remove or repair that model.")
    return _hash("no neural model is installed", BETTER)


def _directory(path: Path) -> ResolvedEmbedding:
    from remem_pg.embedding.onnx import OnnxEmbedding

    said = manifest(path.expanduser()).get("thresholds", {})
    known = {key: said.get(key) for key in ("cosine_floor", "cosine_full")}
    return _loaded(OnnxEmbedding(path, **known), f"the model in {path}")


def _loaded(model: OnnxEmbedding, reason: str) -> ResolvedEmbedding:
    # Loaded now: a broken model is found while there is still a choice.
    model.load()
    return ResolvedEmbedding(model, reason)


def _hash(reason: str, hint: str | None) -> ResolvedEmbedding:
    return ResolvedEmbedding(HashEmbedding(), reason, hint)


def missing_runtime() -> list[str]:
    """The libraries that a local neural model needs and that are not installed."""
    return [name for name in ("onnxruntime", "tokenizers") if not _installed(name)]


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _object(spec: Any) -> ResolvedEmbedding:
    identified = not isinstance(spec, type) and hasattr(spec, "id")
    if identified and callable(getattr(spec, "embed", None)) and hasattr(spec, "dimensions"):
        return ResolvedEmbedding(spec, "the model that was passed in")
    if identified and callable(spec) and hasattr(spec, "dimensions"):
        return ResolvedEmbedding(CallableEmbedding(spec), "the function that was passed in")
    raise InvalidArgument(
        f"{type(spec).__name__} is not an embedding model",
        detail={"argument": "embedding", "value": type(spec).__name__},
        hint="a model has id, dimensions and embed(texts); a function has the first two",
    )
