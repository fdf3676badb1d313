"""A model arrives whole or not at all, whatever its source does."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from remem_pg.embedding import download_lock, known_models, model_store
from remem_pg.embedding.download import Downloaded, download
from remem_pg.embedding.known_models import BGE_SMALL
from remem_pg.embedding.transfer import Patience
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument
from tests.support.models import (
    TOKENIZER,
    WEIGHTS,
    bring,
    cut_at,
    hub,
    no_network_variables,
    pinned,
    place,
    sha256,
)
from tests.support.web import Files, Handler, Request, Web, serving


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_network_variables(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def paths(web: Web) -> list[str]:
    return [request.path for request in web.requests]


# -- what goes well -----------------------------------------------------------------------------


@pytest.mark.covers("RE28", "RE29")
def test_a_model_is_announced_fetched_checked_and_cached() -> None:
    said: list[str] = []
    asked_before: list[int] = []

    def say(line: str) -> None:
        said.append(line)
        asked_before.append(len(web.requests))

    with serving(Files(hub())) as web:
        done = bring(web, say=say)
        assert asked_before == [0]
        again = bring(web, say=say)
        assert len(web.requests) == 2
    (line,) = said
    size = (len(WEIGHTS) + len(TOKENIZER)) / 1e6
    assert f"{size:.1f} MB, licence MIT, from 127.0.0.1" in line
    assert str(place()) in line
    assert done.path == place()
    assert (place() / "model.onnx").read_bytes() == WEIGHTS
    assert (done.checked, done.fetched) == ("pinned", len(WEIGHTS) + len(TOKENIZER))
    assert (again.checked, again.fetched) == ("pinned", 0)
    assert model_store.record("tiny")["status"] == "completed"
    assert model_store.cached_models() == [place()]
    assert not list(model_store.partial("tiny").parent.iterdir())


@pytest.mark.covers("RE5", "RE9")
def test_the_built_in_model_is_pinned_whole_and_brings_its_own_pooling() -> None:
    assert known_models.KNOWN == {"bge-small-en-v1.5": BGE_SMALL}
    assert all(len(part.sha256 or "") == 64 and part.size for part in BGE_SMALL.parts)
    assert all(len(part.revision) == 40 for part in BGE_SMALL.parts)
    assert {"tokenizer.json", "1_Pooling/config.json"} <= {part.path for part in BGE_SMALL.parts}
    assert BGE_SMALL.megabytes is not None
    assert 30 < BGE_SMALL.megabytes < 40
    # the pooling file is small enough to be known by heart: the first token
    pooling = {
        "word_embedding_dimension": 384,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    (part,) = [part for part in BGE_SMALL.parts if part.path == "1_Pooling/config.json"]
    assert sha256(json.dumps(pooling, indent=2).encode()) == part.sha256


def test_progress_is_told_file_by_file() -> None:
    seen: list[tuple[str, int, int | None]] = []
    with serving(Files(hub())) as web:
        bring(web, progress=lambda name, done, total: seen.append((name, done, total)))
    assert seen[-1] == ("tokenizer.json", len(TOKENIZER), len(TOKENIZER))
    weights = [done for name, done, _ in seen if name == "model.onnx"]
    assert weights == sorted(weights)
    assert weights[-1] == len(WEIGHTS)


def test_one_directory_may_stand_in_for_a_hub() -> None:
    files = {f"mirror/{path.rsplit('/', 1)[1]}": content for path, content in hub().items()}
    with serving(Files(files)) as web:
        done = bring(web, source=None, url=f"{web.url}/mirror/")
        assert paths(web) == ["/mirror/model.onnx", "/mirror/tokenizer.json"]
    assert done.checked == "pinned"


def test_a_mirror_may_be_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Files(hub())) as web:
        monkeypatch.setenv("REMEM_MODEL_SOURCE", web.url)
        assert bring(web, source=None).source.startswith("127.0.0.1:")


# -- what breaks off ----------------------------------------------------------------------------


def test_a_file_that_breaks_off_is_gone_on_with_where_it_stopped() -> None:
    with serving(Files(hub(), cut_at(200_000, 2), etag='"v1"')) as web:
        bring(web)
        ranges = [request.headers.get("Range") for request in web.requests]
    assert ranges == [None, "bytes=200000-", "bytes=400000-", None]
    assert [r.headers.get("If-Range") for r in web.requests] == [None, '"v1"', '"v1"', None]
    assert (place() / "model.onnx").read_bytes() == WEIGHTS


def test_what_has_arrived_is_kept_for_the_next_call() -> None:
    cut = cut_at(300_000, 1)

    def then_gone(handler: Handler, request: Request, content: bytes) -> bool:
        if not cut(handler, request, content):
            handler.hang_up()
        return True

    with serving(Files(hub(), then_gone, etag='"v1"')) as web:
        with pytest.raises(EmbeddingUnavailable) as caught:
            bring(web, patience=Patience(attempts=1, pause=0.01))
        assert not place().exists()
        assert (model_store.partial("tiny") / "model.onnx.part").stat().st_size == 300_000
        web.respond = Files(hub(), etag='"v1"')
        web.requests.clear()
        bring(web)
        assert [r.headers.get("Range") for r in web.requests] == ["bytes=300000-", None]
    assert caught.value.code == "RM501"
    assert caught.value.detail["reason"] in ("truncated", "broken")
    assert model_store.digest(place() / "model.onnx") == sha256(WEIGHTS)


def test_another_version_of_the_source_is_begun_anew() -> None:
    other = bytes(reversed(WEIGHTS))
    before = Files(hub(), cut_at(200_000, 1), etag='"v1"')
    after = Files(hub(**{"model.onnx": other}), etag='"v2"')

    def changing(handler: Handler, request: Request) -> None:
        (after if "Range" in request.headers else before)(handler, request)

    with serving(changing) as web:
        bring(web, known=pinned(**{"model.onnx": other}))
        assert web.requests[1].headers["If-Range"] == '"v1"'
    assert (place() / "model.onnx").read_bytes() == other


def test_a_source_without_ranges_is_begun_anew() -> None:
    files = Files(hub(), cut_at(200_000, 1))

    def no_ranges(handler: Handler, request: Request) -> None:
        request.headers = {k: v for k, v in request.headers.items() if "ange" not in k}
        files(handler, request)

    with serving(no_ranges) as web:
        bring(web)
    assert (place() / "model.onnx").read_bytes() == WEIGHTS


def test_a_source_that_always_breaks_off_at_the_same_place_comes_to_an_end() -> None:
    with serving(Files(hub(), cut_at(100_000, 10_000, ranges=False))) as web:
        with pytest.raises(EmbeddingUnavailable) as caught:
            bring(web)
        assert len(web.requests) == 4
    assert caught.value.detail["reason"] == "truncated"
    assert not place().exists()


def test_a_source_that_is_busy_is_asked_again_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("remem_pg.embedding.transfer.time.sleep", slept.append)
    busy = iter([(429, {"Retry-After": "9"}), (503, {"Retry-After": "600"}), (500, {})])

    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        code = next(busy, None)
        if code is not None:
            handler.send(code[0], b"", code[1])
        return code is not None

    with serving(Files(hub(), trick)) as web:
        bring(web, patience=Patience(attempts=5))
    assert slept[:2] == [9.0, 60.0]
    assert len(slept) == 3


# -- what lies on disk --------------------------------------------------------------------------


def test_a_damaged_file_is_fetched_again_and_only_that_one() -> None:
    with serving(Files(hub())) as web:
        bring(web)
        (place() / "tokenizer.json").write_bytes(b"{}")
        assert model_store.broken_files(place()) == ["tokenizer.json"]
        web.requests.clear()
        bring(web)
        assert paths(web) == ["/team/tiny/resolve/v1/tokenizer.json"]
    assert model_store.broken_files(place()) == []


def test_two_downloads_at_once_fetch_every_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        arrived.set()
        go_on.wait(30)
        return False

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "waiting" in line:
            go_on.set()

    with serving(Files(hub(), trick)) as web:
        results: list[Downloaded] = []
        first = threading.Thread(target=lambda: results.append(bring(web)))
        first.start()
        assert arrived.wait(30)
        results.append(bring(web, say=say))
        first.join()
        assert len(web.requests) == 2
    assert "Another process downloads tiny" in said[1]
    assert sorted(done.fetched for done in results)[0] == 0


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        download_lock.only_one("tiny", print),
        pytest.raises(EmbeddingUnavailable, match="too long") as caught,
        download_lock.only_one("tiny", print, seconds=0.1),
    ):
        raise AssertionError("both hold it")
    assert caught.value.detail["reason"] == "locked"


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with serving(Files(hub())) as web, pytest.raises(EmbeddingUnavailable) as caught:
        bring(web)
    assert caught.value.detail["reason"] == "disk"
    assert "XDG_CACHE_HOME" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["../evil", ".hidden", "a/b", "", "x" * 200])
def test_a_name_that_would_leave_the_cache_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        download(name, url="http://127.0.0.1:1")


def test_an_unknown_model_and_a_source_that_is_none_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="unknown model") as caught:
        download("gpt")
    assert "bge-small-en-v1.5" in str(caught.value.hint)
    with pytest.raises(InvalidArgument, match="http"):
        download(source="/models")
