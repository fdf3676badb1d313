"""A source that lies, stalls or refuses leaves no model behind, and its error says what it did."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from remem_pg.embedding import model_store
from remem_pg.embedding.download import Downloaded, download
from remem_pg.embedding.transfer import Patience
from remem_pg.errors import EmbeddingUnavailable
from tests.support.models import (
    HURRY,
    TOKENIZER,
    WEIGHTS,
    bring,
    cut_at,
    hub,
    no_network_variables,
    place,
    sha256,
)
from tests.support.web import Files, Handler, Request, Web, serving


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_network_variables(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# -- what lies ----------------------------------------------------------------------------------


def refused(web: Web, reason: str, **more: Any) -> EmbeddingUnavailable:
    """The error of a download that must not leave a model behind, and is remembered."""
    with pytest.raises(EmbeddingUnavailable) as caught:
        bring(web, **more)
    assert caught.value.detail["reason"] == reason
    assert not place().exists()
    assert model_store.cached_models() == []
    last = model_store.status()["last_download"]
    assert last["status"] == "failed"
    assert last["error"]["reason"] == reason
    assert last["error"]["message"] == caught.value.message
    assert model_store.status()["retry"] == "remem embeddings download"
    return caught.value


def test_other_content_is_refused_and_not_kept() -> None:
    wrong = bytes(len(WEIGHTS))
    with serving(Files(hub(**{"model.onnx": wrong}))) as web:
        error = refused(web, "checksum")
        assert error.detail["got"] == sha256(wrong)
        assert error.detail["expected"] == sha256(WEIGHTS)
        assert not list(model_store.partial("tiny").glob("model.onnx*"))
        web.respond = Files(hub())
        bring(web)
    assert model_store.status()["retry"] is None


@pytest.mark.parametrize("length", [10, 10_000_000])
def test_a_length_that_is_not_the_files_is_refused_before_it_is_read(length: int) -> None:
    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        handler.begin(200, {"Content-Length": str(length)})
        handler.wfile.write(content[:length])
        handler.hang_up()
        return True

    with serving(Files(hub(), trick)) as web:
        error = refused(web, "size")
        assert len(web.requests) == 1
    assert (error.detail["got"], error.detail["expected"]) == (length, len(WEIGHTS))


def test_a_source_that_never_ends_is_left() -> None:
    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        handler.begin(200, {"Transfer-Encoding": "chunked"})
        piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        for _ in range(1000):
            handler.wfile.write(piece)
        return True

    with serving(Files(hub(), trick)) as web:
        refused(web, "size")


def test_a_part_of_another_place_is_not_taken() -> None:
    lied = [False]

    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        if "Range" not in request.headers or lied[0]:
            return first(handler, request, content)
        lied[0] = True
        handler.send(206, content[:10], {"Content-Range": f"bytes 0-9/{len(content)}"})
        return True

    first = cut_at(200_000, 1)
    with serving(Files(hub(), trick, etag='"v1"')) as web:
        bring(web)
    assert (place() / "model.onnx").read_bytes() == WEIGHTS


def test_a_slow_source_is_left_and_gone_on_with_later() -> None:
    end = threading.Event()

    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        handler.begin(200, {"Content-Length": str(len(content)), "ETag": '"v1"'})
        while not end.wait(0.01):
            handler.wfile.write(b"\x00")
            handler.wfile.flush()
        return True

    with serving(Files(hub(), trick)) as web:
        slow = Patience(silence=5, slow=1e6, slow_seconds=0.1, attempts=1, pause=0.01)
        refused(web, "timeout", patience=slow)
        end.set()


def test_a_silent_source_is_left() -> None:
    end = threading.Event()
    with serving(Files(hub(), lambda h, r, c: end.wait(30))) as web:
        refused(web, "timeout", patience=Patience(silence=0.1, attempts=1, pause=0.01))
        end.set()


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_named_with_its_status(code: int) -> None:
    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        handler.send(code, b"no")
        return True

    with serving(Files(hub(), trick)) as web:
        assert refused(web, "http").detail["status"] == (404 if code == 410 else code)


def test_nobody_there_is_named_with_the_offline_way() -> None:
    with serving(Files(hub())) as web:
        pass
    error = refused(web, "connect")
    assert "REMEM_MODEL_PATH" in str(error.hint)


def test_a_redirect_to_another_host_is_followed() -> None:
    with serving(Files(hub())) as cdn:
        send_on = lambda h, r: h.send(302, b"", {"Location": cdn.url + r.path})  # noqa: E731
        with serving(send_on) as web:
            assert bring(web).checked == "pinned"


# -- checksums that nobody has pinned -----------------------------------------------------------


def directory(**changes: bytes) -> dict[str, bytes]:
    return {"model.onnx": WEIGHTS, "tokenizer.json": TOKENIZER, "config.json": b"{}"} | changes


def bring_unknown(web: Web, **more: Any) -> Downloaded:
    return download("mine", url=web.url, patience=HURRY, **more)


def test_the_first_download_counts_from_then_on() -> None:
    said: list[str] = []
    with serving(Files(directory())) as web:
        first = bring_unknown(web, say=said.append)
        assert first.checked == "first_use"
        assert "of unknown size" in said[0]
        assert [path.name for path in sorted(first.path.iterdir())] == [
            "config.json",
            "model.onnx",
            "remem-model.json",
            "tokenizer.json",
        ]
        _remove(first.path)
        assert bring_unknown(web).checked == "recorded"
        _remove(first.path)
        web.respond = Files(directory(**{"tokenizer.json": b"{}"}))
        with pytest.raises(EmbeddingUnavailable, match="not the file of the first") as caught:
            bring_unknown(web)
        assert caught.value.detail["file"] == "tokenizer.json"
        assert "--trust-new" in str(caught.value.hint)
        assert not first.path.exists()
        assert bring_unknown(web, trust_new=True).checked == "first_use"
        _remove(first.path)
        assert bring_unknown(web).checked == "recorded"


def _remove(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def test_weights_are_looked_for_where_they_usually_lie() -> None:
    files = directory()
    files["onnx/model_int8.onnx"] = files.pop("model.onnx")
    with serving(Files(files)) as web:
        done = bring_unknown(web)
    assert (done.path / "onnx" / "model_int8.onnx").read_bytes() == WEIGHTS


def test_a_length_that_nobody_knows_is_no_download() -> None:
    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        handler.begin(200, {"Connection": "close"})
        handler.wfile.write(content[:10])
        handler.hang_up()
        return True

    with serving(Files(directory(), trick)) as web, pytest.raises(EmbeddingUnavailable) as caught:
        bring_unknown(web)
    assert caught.value.detail["reason"] == "size"


def test_a_model_that_does_not_load_takes_no_place_and_is_not_remembered() -> None:
    def refuse(path: Path) -> None:
        assert (path / "model.onnx").read_bytes() == WEIGHTS
        raise EmbeddingUnavailable("it is no model")

    with serving(Files(directory())) as web:
        with pytest.raises(EmbeddingUnavailable, match="it is no model"):
            bring_unknown(web, check=refuse)
        assert model_store.cached_models() == []
        assert model_store.record("mine")["files"] == {}
