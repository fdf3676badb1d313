"""Thresholds of an unmeasured model: on its own scale of what unrelated texts have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem_pg.embedding import managed, model_store
from remem_pg.embedding.base import descriptor_of
from remem_pg.embedding.calibrate import thresholds
from remem_pg.embedding.download import download
from remem_pg.embedding.onnx import packaged_minilm
from remem_pg.embedding.resolve import resolve_embedding
from tests.support.models import HURRY, minilm_files, no_network_variables
from tests.support.web import Files, serving


class Raised:
    """MiniLM with one more dimension, the same for every text: all cosines move up."""

    id = "raised"
    dimensions = 385

    def __init__(self, shared: float) -> None:
        self.shared = shared
        self.inner = packaged_minilm()

    def embed(self, texts: Sequence[str]) -> Any:
        assert self.inner is not None
        rows = self.inner.embed(texts)
        return np.hstack([rows, np.full((len(texts), 1), self.shared, dtype="f4")])


def test_the_measured_model_gets_its_own_thresholds() -> None:
    model = packaged_minilm()
    assert model is not None
    described = descriptor_of(model)
    for name, value in thresholds(model).items():
        assert value == pytest.approx(described[name], abs=0.01)


def test_a_model_that_calls_everything_similar_gets_higher_ones() -> None:
    plain, raised = thresholds(Raised(0.0)), thresholds(Raised(1.0))
    # half of the squared length is shared: cosines become (1 + c) / 2
    for name in ("cosine_floor", "cosine_full"):
        assert raised[name] == pytest.approx((1 + plain[name]) / 2, abs=0.01)


def test_a_downloaded_model_keeps_its_thresholds_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_network_variables(monkeypatch)
    monkeypatch.delenv("REMEM_EMBEDDING", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serving(Files(minilm_files())) as web:
        done = download("mine", url=web.url, patience=HURRY, check=managed.try_model)
    kept = model_store.manifest(done.path)["thresholds"]
    assert kept["cosine_floor"] == pytest.approx(0.2, abs=0.01)
    for spec in ("neural", done.path):
        model = resolve_embedding(spec).model
        assert model is not None
        assert descriptor_of(model)["cosine_floor"] == kept["cosine_floor"]
