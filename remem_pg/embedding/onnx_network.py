"""A loaded ONNX sentence encoder: token numbers in, vectors of length 1 out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.embedding.model_files import ModelFiles
from remem_pg.errors import EmbeddingUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ONNX_HINT = "pip install 'remem-pg[onnx]'"


class Network:
    """The session and the tokenizer of one model; safe to use from several threads."""

    def __init__(self, files: ModelFiles, max_length: int, threads: int | None) -> None:
        self._files = files
        self.max_length = min(max_length, files.max_length)
        self._session = load_session(files.model, threads)
        self._tokenizer = load_tokenizer(files.tokenizer)
        self._tokenizer.enable_truncation(self.max_length)
        self._tokenizer.no_padding()  # the file may ask for a fixed length; batches pad themselves
        self._pad = files.pad_token(self._tokenizer.padding)
        self._inputs = {item.name: item.type for item in self._session.get_inputs()}
        unknown = self._inputs.keys() - {
            "input_ids",
            "attention_mask",
            "token_type_ids",
            "position_ids",
        }
        if unknown or "input_ids" not in self._inputs:
            raise _broken(files.model, f"it is no sentence encoder: it takes {sorted(unknown)}")
        self._token_output = self._choose_token_output()
        self._output, self.pooling = self._choose_output()
        self.dimensions: int = self.run([self.tokens(["a"])[0]]).shape[1]

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of each text, cut at `max_length`."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """Places among `tokens` that are of the text itself, not marks of its start and end; all
        places where a text has nothing else."""
        found = []
        for encoding in self._tokenizer.encode_batch(list(texts)):
            marks = encoding.special_tokens_mask
            places = [place for place, mark in enumerate(marks) if not mark]
            found.append(places or list(range(len(marks))))
        return found

    def run(self, batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """One run of the model; `(len(batch), dimensions)`, each row of length 1."""
        raw, mask = self._forward(batch, self._output)
        return _scaled(pool(raw, mask, self.pooling))

    def run_tokens(self, batch: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """One run of the model without pooling; per text `(its tokens, d)`, rows of length 1."""
        if self._token_output is None:
            raise _broken(self._files.model, "it has pooled its tokens already")
        raw, _ = self._forward(batch, self._token_output)
        return [_scaled(row[: len(tokens)]) for row, tokens in zip(raw, batch, strict=True)]

    def _forward(
        self, batch: Sequence[Sequence[int]], output: str
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """An output of the model for padded texts, and the mask `(len(batch), width)` of them."""
        import numpy as np

        feed, mask = model_feed(batch, None, self._pad, self._inputs)
        try:
            (raw,) = self._session.run([output], feed)
        except Exception as error:  # as above
            raise _broken(self._files.model, error) from error
        return np.asarray(raw, dtype=np.float32), mask

    def _outputs(self) -> dict[str, int]:
        return {item.name: len(item.shape or ()) for item in self._session.get_outputs()}

    def _choose_token_output(self) -> str | None:
        outputs = self._outputs()
        per_token = [name for name, rank in outputs.items() if rank == 3]
        named = ("last_hidden_state", "token_embeddings", *per_token)
        return next((name for name in named if name in outputs), None)

    def _choose_output(self) -> tuple[str, str]:
        """The output to read, and how to pool it ("model" when the model has pooled already)."""
        outputs = self._outputs()
        per_text = [name for name, rank in outputs.items() if rank == 2]
        if "sentence_embedding" in outputs and not self._files.pooling_forced:
            return "sentence_embedding", "model"
        if self._token_output is not None:
            return self._token_output, self._files.pooling
        if per_text and not self._files.pooling_forced:
            return per_text[0], "model"
        raise _broken(self._files.model, f"no output to pool among {sorted(outputs)}")


def load_session(model: Path, threads: int | None) -> Any:
    """An onnxruntime session on the CPU. Raises EmbeddingUnavailable."""
    ort, _ = _runtime()
    options = ort.SessionOptions()
    # Without these two a batch of long texts keeps 400 MB for ever, at the same speed.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no base class of their own
        raise _broken(model, error) from error


def load_tokenizer(file: Path) -> Any:
    """A tokenizer as its file says. Raises EmbeddingUnavailable."""
    _, tokenizers = _runtime()
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more precise
        raise _broken(file, error) from error


def model_feed(
    ids: Sequence[Sequence[int]],
    type_ids: Sequence[Sequence[int]] | None,
    pad: int,
    inputs: Mapping[str, str],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """What a session is fed for texts of token numbers, padded to the longest, in the types of
    its `inputs`; and the mask `(len(ids), width)`, 1 where a token is. Without `type_ids` all
    tokens are of type 0."""
    import numpy as np

    width = max(len(row) for row in ids)
    numbers = np.full((len(ids), width), pad, dtype=np.int64)
    mask = np.zeros_like(numbers)
    types = np.zeros_like(numbers)
    for index, row in enumerate(ids):
        numbers[index, : len(row)] = row
        mask[index, : len(row)] = 1
        if type_ids is not None:
            types[index, : len(row)] = type_ids[index]
    values = {
        "input_ids": numbers,
        "attention_mask": mask,
        "token_type_ids": types,
        "position_ids": np.broadcast_to(np.arange(width), numbers.shape),
    }
    feed = {
        name: values[name].astype(np.int32 if "int32" in kind else np.int64, copy=False)
        for name, kind in inputs.items()
    }
    return feed, mask


def _scaled(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows at length 1; zeros stay zeros."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def pool(hidden: NDArray[np.float32], mask: NDArray[np.int64], how: str) -> NDArray[np.float32]:
    """Pool token vectors `(n, tokens, d)` under a mask `(n, tokens)` to `(n, d)`.

    As sentence-transformers does: the mean, the maximum, or the first token (CLS).
    """
    import numpy as np

    if how == "model":
        return hidden
    if how == "cls":
        return hidden[:, 0]
    weights = mask[..., None].astype(np.float32)
    if how == "max":
        pooled = np.where(weights > 0, hidden, -np.inf).max(axis=1)
    else:
        pooled = (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    result: NDArray[np.float32] = pooled.astype(np.float32)
    return result


def _runtime() -> tuple[Any, Any]:
    try:
        import onnxruntime
        import tokenizers
    except ImportError as error:
        raise EmbeddingUnavailable(
            f"an ONNX model needs onnxruntime and tokenizers: {error}", hint=ONNX_HINT
        ) from error
    return onnxruntime, tokenizers


def _broken(file: Path, why: object) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        f"the embedding model {file} cannot be used: {why}",
        detail={"file": str(file)},
        hint="a model directory has model.onnx (or onnx/model.onnx) and tokenizer.json",
    )
