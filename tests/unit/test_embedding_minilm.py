"""The packaged MiniLM, for real."""

from __future__ import annotations

import numpy as np
import pytest

from remem_pg.embedding.base import EmbeddingModel, checked
from remem_pg.embedding.onnx import OnnxEmbedding, packaged_minilm


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedding:
    model = packaged_minilm()
    assert model is not None, "install the extra `minilm`"
    return model


@pytest.mark.covers("RP17", "RE6")
def test_minilm_is_a_model_of_384_dimensions(minilm: OnnxEmbedding) -> None:
    assert isinstance(minilm, EmbeddingModel)
    assert minilm.dimensions == 384
    assert minilm.id.startswith("minilm@")
    assert {
        key: minilm.descriptor[key]
        for key in ("name", "backend", "pooling", "normalization", "cosine_floor", "cosine_full")
    } == {
        "name": "minilm",
        "backend": "onnx",
        "pooling": "mean",
        "normalization": "l2",
        "cosine_floor": 0.2,
        "cosine_full": 0.7,
    }


def test_minilm_vectors_are_usable_and_know_what_belongs_together(minilm: OnnxEmbedding) -> None:
    texts = [
        "How often do we retry a failed job?",
        "We repeat the task three times before paging someone.",
        "The cafeteria serves soup on Mondays.",
        "",
        "日本語 🙂 " * 400,
    ]
    vectors = checked(minilm, texts)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    near, far = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert near > far + 0.2


def test_minilm_gives_a_text_the_same_vector_alone_and_in_a_batch(minilm: OnnxEmbedding) -> None:
    """Measured: no difference at all.  Its weights are int8 and its activations float32; a model
    that quantises activations per batch would differ by far more than this tolerance."""
    words = ["we", "retry", "three", "times", "then", "page", "whoever", "knows", "the", "queue"]
    texts = [" ".join(words[: 1 + i % 10] * (1 + i % 7)) for i in range(40)]
    together = minilm.embed(texts)
    alone = np.vstack([minilm.embed([text]) for text in texts])
    assert np.abs(together - alone).max() <= 1e-5
