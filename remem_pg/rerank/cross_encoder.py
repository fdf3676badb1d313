"""A local cross-encoder in ONNX form: question and text go through the model as one pair."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.embedding.model_files import ModelFiles
from remem_pg.embedding.onnx_network import load_session, load_tokenizer, model_feed
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_TOKENS = 2048
"""Tokens of one run, padding included: pairs are longer than the texts of an embedding."""


class CrossEncoder:
    """A directory with ``model.onnx`` (or ``onnx/model*.onnx``) and ``tokenizer.json``.

    The score is the model's logit, or with two classes the second's lead over the first. Pairs
    are cut at ``max_length`` tokens, the longer part first. Its score replaces the fused one.
    Nothing is read before the first use. Safe to use from several threads.
    """

    name = "cross-encoder"
    weight: float | None = None

    def __init__(
        self, path: str | Path, *, max_length: int = 512, threads: int | None = None
    ) -> None:
        if max_length < 8:
            raise InvalidArgument(detail={"argument": "max_length", "value": max_length})
        self._path = Path(path)
        self._max_length = max_length
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any, dict[str, str], str, int] | None = None

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One logit a text. Raises EmbeddingUnavailable when the model cannot be used."""
        session, tokenizer, inputs, output, pad = self._load()
        pairs = tokenizer.encode_batch([(query, text) for text in texts])
        result = [0.0] * len(texts)
        for batch in _runs([len(pair.ids) for pair in pairs]):
            chosen = [pairs[index] for index in batch]
            feed, _ = model_feed(
                [pair.ids for pair in chosen], [pair.type_ids for pair in chosen], pad, inputs
            )
            try:
                (raw,) = session.run([output], feed)
            except Exception as error:  # onnxruntime's errors have no base class of their own
                raise _unusable(self._path, error) from error
            for index, score in zip(batch, self._scores(raw, len(batch)), strict=True):
                result[index] = float(score)
        return result

    def _scores(self, raw: Any, count: int) -> NDArray[np.float32]:
        import numpy as np

        logits = np.asarray(raw, dtype=np.float32).reshape(count, -1)
        if logits.shape[1] > 2:
            raise _unusable(self._path, f"it gives {logits.shape[1]} values a pair, not 1 or 2")
        scores: NDArray[np.float32] = logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)
        return scores

    def _load(self) -> tuple[Any, Any, dict[str, str], str, int]:
        with self._lock:
            if self._loaded is None:
                files = ModelFiles.find(self._path, None, "cls")
                session = load_session(files.model, self._threads)
                tokenizer = load_tokenizer(files.tokenizer)
                pad = files.pad_token(tokenizer.padding)
                tokenizer.enable_truncation(min(self._max_length, files.max_length))
                tokenizer.no_padding()
                inputs = {item.name: item.type for item in session.get_inputs()}
                outputs = [item.name for item in session.get_outputs()]
                output = "logits" if "logits" in outputs else outputs[0]
                self._loaded = (session, tokenizer, inputs, output, pad)
            return self._loaded


def _runs(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of the pairs, short ones first, in runs of at most BATCH_TOKENS tokens."""
    runs: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if runs and (len(runs[-1]) + 1) * lengths[index] <= BATCH_TOKENS:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _unusable(path: Path, why: object) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        f"the cross-encoder {path} cannot be used: {why}", detail={"file": str(path)}
    )
