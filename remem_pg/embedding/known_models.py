"""The models that a download knows by name: their files, sizes and checksums."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "bge-small-en-v1.5"


@dataclass(frozen=True)
class Part:
    """A file of a model. Without a checksum, that of the first download counts from then on.

    ``instead`` are other places to look when the source does not have ``path``.
    """

    path: str
    repository: str = ""
    revision: str = "main"
    size: int | None = None
    sha256: str | None = None
    optional: bool = False
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownModel:
    """A model with its files; ``megabytes`` is what is announced, None when nobody knows."""

    name: str
    parts: tuple[Part, ...]
    licence: str = ""

    @property
    def megabytes(self) -> float | None:
        sizes = [part.size for part in self.parts]
        return None if None in sizes else sum(size or 0 for size in sizes) / 1e6


_ONNX = ("Xenova/bge-small-en-v1.5", "ea104dacec62c0de699686887e3f920caeb4f3e3")
_OWN = ("BAAI/bge-small-en-v1.5", "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a")
BGE_SMALL = KnownModel(
    DEFAULT,
    # The authors' repository has no int8 weights, the one with them no pooling file.
    (
        Part(
            "onnx/model_quantized.onnx",
            *_ONNX,
            size=34_014_426,
            sha256="6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
        ),
        Part(
            "tokenizer.json",
            *_ONNX,
            size=711_396,
            sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        ),
        Part(
            "config.json",
            *_ONNX,
            size=683,
            sha256="fa73f90bf92c8cace1fbcb709626306f2bdbc9ea3e5b5f94b440df9b6aa56350",
        ),
        Part(
            "1_Pooling/config.json",
            *_OWN,
            size=190,
            sha256="d1caf60c96f5fba2157c0c26b76d80818fad6cf0b8eb5e73ec372ff9818eba5c",
        ),
        Part(
            "modules.json",
            *_OWN,
            size=349,
            sha256="84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        ),
        Part(
            "sentence_bert_config.json",
            *_OWN,
            size=52,
            sha256="84e39fda68ccbff05bfa723ae9c0e70e23e2ec373b76e0f8c6e71af72a693cbf",
        ),
    ),
    "MIT",
)
KNOWN = {BGE_SMALL.name: BGE_SMALL}

ANY = (
    Part(
        "model.onnx",
        instead=("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "onnx/model.onnx"),
    ),
    Part("tokenizer.json"),
    Part("config.json", optional=True),
    Part("1_Pooling/config.json", optional=True),
    Part("modules.json", optional=True),
    Part("sentence_bert_config.json", optional=True),
    Part("config_sentence_transformers.json", optional=True),
)
"""The files of any sentence-transformer, as they lie in one directory."""
