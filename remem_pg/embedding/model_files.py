"""The files of a sentence-transformer model: which is which, and what they say about the model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from remem_pg.errors import EmbeddingUnavailable, InvalidArgument

POOLINGS = ("mean", "cls", "max")
_POOLING_KEYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_MODELS = ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx")


@dataclass(frozen=True)
class ModelFiles:
    """A model on disk.  `pooling_forced` says that the caller chose the pooling."""

    root: Path
    model: Path
    tokenizer: Path
    pooling: str
    pooling_forced: bool

    @classmethod
    def find(cls, path: Path, tokenizer: Path | None, pooling: str | None) -> ModelFiles:
        """Look at a directory or a model file.  Raises EmbeddingUnavailable when a part is missing
        or says that the model does something that is not supported."""
        if pooling is not None and pooling not in POOLINGS:
            raise InvalidArgument(
                f"pooling {pooling!r} is none of {', '.join(POOLINGS)}",
                detail={"argument": "pooling", "value": pooling, "valid": list(POOLINGS)},
            )
        path = path.expanduser()
        model = path if path.is_file() else _model_in(path)
        root = model.parent.parent if model.parent.name == "onnx" else model.parent
        if tokenizer is None:
            found = [p for p in (root, model.parent) if (p / "tokenizer.json").is_file()]
            if not found:
                raise _missing(f"no tokenizer.json in {root}")
            tokenizer = found[0] / "tokenizer.json"
        if not tokenizer.is_file():
            raise _missing(f"there is no file {tokenizer}")
        _check_modules(root)
        said = pooling or _pooling_of(root)
        return cls(root, model, tokenizer, said, pooling is not None)

    @property
    def name(self) -> str:
        """The directory's name: what people call the model."""
        return self.root.resolve().name.lower()

    @property
    def parts(self) -> tuple[Path, ...]:
        """Every file whose content decides the vectors: the model, its external data, tokenizer."""
        data = (f"{self.model.name}_data", f"{self.model.name}.data", f"{self.model.stem}.data")
        beside = [self.model.with_name(name) for name in dict.fromkeys(data)]
        return (self.model, *(path for path in beside if path.is_file()), self.tokenizer)

    @property
    def max_length(self) -> int:
        """Tokens the model can take, as far as its files say."""
        said = [
            _json(self.root / "sentence_bert_config.json").get("max_seq_length"),
            _json(self.root / "config.json").get("max_position_embeddings"),
        ]
        return min((n for n in said if isinstance(n, int) and n > 0), default=512)

    def prompt(self, role: str) -> str:
        """The prompt for "query" or "document" in `config_sentence_transformers.json`, or ''."""
        prompts = _json(self.root / "config_sentence_transformers.json").get("prompts") or {}
        names = {"query": ("query",), "document": ("document", "passage")}[role]
        found = [prompts[name] for name in names if isinstance(prompts.get(name), str)]
        if found and found[0] and _pooling_config(self.root).get("include_prompt") is False:
            raise _missing(f"{self.root} leaves its prompts out of the pooling: not supported")
        return found[0] if found else ""

    def pad_token(self, padding: dict[str, Any] | None) -> int:
        """The number of the padding token; it is masked, so that a wrong one does no harm."""
        number = (padding or {}).get("pad_id", _json(self.root / "config.json").get("pad_token_id"))
        return number if isinstance(number, int) else 0


def asset_hash(parts: tuple[Path, ...]) -> str:
    """`sha256:` and the hash of the files' contents; computed again only when a file changes."""
    stats = [path.stat() for path in parts]
    return _hash(parts, tuple((s.st_mtime_ns, s.st_size) for s in stats))


@lru_cache(maxsize=16)
def _hash(parts: tuple[Path, ...], _state: tuple[tuple[int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path in parts:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _model_in(directory: Path) -> Path:
    if not directory.is_dir():
        raise _missing(f"there is no model directory or file {directory}")
    for name in _MODELS:
        if (directory / name).is_file():
            return directory / name
    others = sorted((directory / "onnx").glob("model*.onnx"))
    if others:
        return others[0]
    raise _missing(f"no model.onnx in {directory}")


def _check_modules(root: Path) -> None:
    """Refuse a model with layers that its ONNX file usually lacks (Dense)."""
    modules = _json(root / "modules.json", [])
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise _missing(f"{root} has layers that are not supported: {', '.join(unknown)}")


def _pooling_config(root: Path) -> dict[str, Any]:
    said: dict[str, Any] = _json(root / "1_Pooling" / "config.json")
    return said


def _pooling_of(root: Path) -> str:
    """The pooling that the model's own file names; mean without a file."""
    config = _pooling_config(root)
    chosen = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    names = [_POOLING_KEYS.get(key, key) for key in chosen]
    if isinstance(config.get("pooling_mode"), str):
        names = [config["pooling_mode"]]
    if not names:
        return "mean"
    if len(names) > 1 or names[0] not in POOLINGS:
        raise _missing(f"{root} pools by {', '.join(names)}: not supported")
    return names[0]


def _json(path: Path, default: Any = None) -> Any:
    if not path.is_file():
        return {} if default is None else default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _missing(f"{path} is not JSON: {error}") from error


def _missing(what: str) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        what,
        hint="a model directory has model.onnx (or onnx/model.onnx) and tokenizer.json",
    )
