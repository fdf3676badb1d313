"""An embedding described by settings: taken as meant, or refused; never the hash by mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remem_pg.embedding import managed, model_store, resolve
from remem_pg.embedding.base import descriptor_of
from remem_pg.embedding.http import HttpEmbedding
from remem_pg.embedding.onnx import OnnxEmbedding
from remem_pg.embedding.resolve import resolve_embedding
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument, RememError, UnknownOption
from tests.support.models import minilm_files, no_network_variables

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_network_variables(monkeypatch)
    for name in ("REMEM_EMBEDDING", "REMEM_MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem_pg.embedding.onnx.packaged_minilm", lambda: None)


def write_model(path: Path) -> Path:
    for name, content in minilm_files().items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


@pytest.mark.covers("RE13")
def test_the_backend_is_a_setting_and_so_is_the_path_of_its_model(tmp_path: Path) -> None:
    hashed = resolve_embedding({"backend": "hash"}).model
    assert hashed is not None and hashed.id == "remem-local-hash-v1"
    assert resolve_embedding({"backend": "none"}).model is None
    neural = resolve_embedding({"backend": "neural"}).model
    assert isinstance(neural, OnnxEmbedding)
    path = str(write_model(tmp_path / "mine"))
    for settings in ({"model_path": path}, {"backend": "onnx", "model_path": path}):
        found = resolve_embedding({**settings, "max_length": 64, "pooling": None}).model
        assert isinstance(found, OnnxEmbedding)
        assert found.descriptor["asset"].endswith("@tokens-64")
    endpoint = resolve_embedding({"url": "https://h/v1", "model": "m", "dimensions": 3}).model
    assert isinstance(endpoint, HttpEmbedding)
    assert endpoint.descriptor["name"] == "m"


@pytest.mark.covers("RE13")
@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({}, InvalidArgument, "backend None"),
        ({"embedding": {"backend": "neural"}}, InvalidArgument, "backend None"),
        ({"backend": {"neural": True}}, InvalidArgument, "neural"),
        ({"backend": "Neural"}, InvalidArgument, "Neural"),
        ({"Backend": "neural"}, InvalidArgument, "backend None"),
        ({"backend": "neural", "modelPath": "/m"}, UnknownOption, "modelPath"),
        ({"backend": "hash", "model_path": "/m"}, UnknownOption, "model_path"),
        ({"backend": "onnx"}, InvalidArgument, "needs a model_path"),
        ({"backend": "http", "model": "m"}, InvalidArgument, "needs a url"),
        ({"url": "https://h/v1", "dimensions": "384"}, InvalidArgument, "dimensions"),
        ({"url": "https://h/v1", "dimensions": True}, InvalidArgument, "dimensions"),
    ],
)
def test_settings_of_another_shape_are_refused(
    settings: dict[str, Any], error: type[RememError], says: str
) -> None:
    with pytest.raises(error, match=says):
        resolve_embedding(settings)


@pytest.mark.parametrize("word", ["Hash", "hash ", "neurral", "onnx", "true", "{}"])
def test_a_word_that_is_no_embedding_is_refused_and_not_the_hash(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMEM_EMBEDDING", word)
    with pytest.raises(InvalidArgument, match="unknown embedding"):
        resolve_embedding()


def test_neural_is_any_local_model_and_an_error_without_one(
    no_package: None, tmp_path: Path
) -> None:
    with pytest.raises(EmbeddingUnavailable, match="no neural model") as caught:
        resolve_embedding("neural")
    assert "remem embeddings download" in str(caught.value.hint)
    write_model(model_store.model_cache() / "my-model")
    for spec in ("neural", "my-model"):
        model = resolve_embedding(spec).model
        assert model is not None
        assert descriptor_of(model)["name"] == "my-model"


def test_an_address_is_an_endpoint_and_nothing_is_asked_of_it_yet() -> None:
    found = resolve_embedding("https://nowhere.invalid/v1")
    assert isinstance(found.model, HttpEmbedding)
    assert found.reason == "the endpoint nowhere.invalid/v1/embeddings"


def test_what_is_half_downloaded_is_no_model(no_package: None) -> None:
    write_model(model_store.partial("half"))
    (model_store.model_cache() / ".locks").mkdir()
    assert model_store.cached_models() == []
    with pytest.raises(EmbeddingUnavailable):
        resolve_embedding("neural")


def test_what_a_doctor_asks_is_answered_from_disk() -> None:
    assert managed.report() == {
        "cache": str(model_store.model_cache()),
        "models": [],
        "weights_present": False,
        "last_download": None,
        "retry": None,
        "missing_libraries": [],
    }
    own = write_model(model_store.model_cache() / "own")
    (own.parent / ".records").mkdir()
    (own.parent / ".records" / "bad.json").write_text("{")
    (model,) = model_store.status()["models"]
    assert (model["name"], model["checked"], model["complete"]) == ("own", None, True)
    model_store.write_json(own / model_store.MANIFEST, {"files": {"model.onnx": {"size": 1}}})
    assert model_store.status()["weights_present"] is False


def test_a_managed_installation_takes_what_is_there_before_it_downloads() -> None:
    said: list[str] = []
    found = managed.managed(say=said.append)
    assert found.failure is None
    assert found.found.model is not None
    assert descriptor_of(found.found.model)["name"] == "minilm"
    assert said == []


@pytest.mark.covers("RE11", "RE27")
def test_a_managed_installation_without_a_model_has_the_hash_and_says_why(
    no_package: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMEM_MODEL_SOURCE", "http://127.0.0.1:1")
    monkeypatch.setattr("remem_pg.embedding.transfer.time.sleep", lambda seconds: None)
    said: list[str] = []
    found = managed.managed(say=said.append)
    assert found.found.model is not None
    assert found.found.model.id == "remem-local-hash-v1"
    assert found.failure is not None
    assert found.failure.detail["reason"] == "connect"
    assert said[0].startswith("Downloading bge-small-en-v1.5, 34.7 MB, licence MIT")
    assert model_store.status()["last_download"]["error"]["reason"] == "connect"


def test_a_managed_installation_without_the_runtime_downloads_nothing(
    no_package: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "_installed", lambda name: False)
    said: list[str] = []
    found = managed.managed(say=said.append)
    assert found.failure is not None
    assert "onnxruntime and tokenizers" in found.failure.message
    assert "remem-pg[neural]" in str(found.failure.hint)
    assert said == []


@pytest.mark.covers("RE26")
def test_a_configured_path_that_fails_is_an_error_and_never_a_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REMEM_MODEL_PATH", str(tmp_path / "gone"))
    with pytest.raises(EmbeddingUnavailable, match="gone"):
        managed.managed(say=lambda line: pytest.fail(line))


WATCH = """
import json, os, sys
seen = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.__new__", "socket.bind"):
        seen.append(event)
sys.addaudithook(watch)
from remem_pg.spaces.embedder import Embedder
from remem_pg.embedding.base import descriptor_of
embedder = Embedder(json.loads(os.environ["SPEC"]))
embedder.prepare()
vectors = embedder.embed(["a red car", "an automobile"], query=False)
loaded = sorted({"onnxruntime", "tokenizers", "httpx", "filelock", "ssl"} & set(sys.modules))
print(json.dumps([embedder.descriptor["name"], len(vectors), seen, loaded]))
"""


def watched(spec: Any, **environment: str) -> Any:
    """Name, vectors, what was asked of the network and what was loaded, in a fresh process."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", WATCH],
        cwd=ROOT,
        env={**os.environ, "SPEC": json.dumps(spec), **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


@pytest.mark.covers("RE26", "RE10")
@pytest.mark.parametrize("how", ["path", "environment", "settings", "cache"])
def test_a_local_model_opens_no_socket(how: str, tmp_path: Path) -> None:
    place = tmp_path / "cache/remem/models/mine" if how == "cache" else tmp_path / "mine"
    path = str(write_model(place))
    spec: Any = {"path": path, "settings": {"model_path": path}}.get(how, "auto")
    environment = {"REMEM_MODEL_PATH": path} if how == "environment" else {}
    name, count, seen, loaded = watched(spec, **environment)
    assert (name, count, seen) == ("mine", 2, [])
    assert "onnxruntime" in loaded
    assert "httpx" not in loaded


@pytest.mark.covers("RE1", "RE10")
def test_the_hash_loads_no_runtime_no_http_library_and_opens_no_socket() -> None:
    assert watched("hash")[:3] == ["hash", 2, []]
    assert not {"onnxruntime", "tokenizers", "httpx", "filelock"} & set(watched("hash")[3])
