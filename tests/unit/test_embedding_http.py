"""Embeddings from an endpoint: what is asked, what is accepted of its answers, what is retried."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem_pg.embedding import http, http_client
from remem_pg.embedding.base import EmbeddingModel, descriptor_of, fingerprint
from remem_pg.embedding.http import HttpEmbedding
from remem_pg.embedding.http_client import wait_seconds
from remem_pg.errors import (
    DimensionMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
    RememError,
    TextRefused,
    VectorRefused,
)
from tests.support.web import Handler, Request, Web, serving

Respond = Callable[[Handler, Request], None]


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def rows(texts: Sequence[str]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector(text)} for i, text in enumerate(texts)]}


def good(handler: Handler, request: Request) -> None:
    handler.send_json(200, rows(request.json["input"]))


class Endpoint:
    """A server that answers by a list of scripts, the last one for ever."""

    def __init__(self, *scripts: Respond) -> None:
        self.scripts = list(scripts)
        self.lock = threading.Lock()

    def __call__(self, handler: Handler, request: Request) -> None:
        with self.lock:
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        script(handler, request)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy"),
        *("all_proxy", "no_proxy", "REMEM_EMBEDDING_KEY", http.MODEL, http.DIMENSIONS),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The pauses between tries, which pass at once."""
    found: list[float] = []

    def pass_at_once(seconds: float, until: float) -> bool:
        found.append(seconds)
        return time.monotonic() + seconds < until

    monkeypatch.setattr(http, "sleep_within", pass_at_once)
    yield found


def status(code: int, headers: dict[str, str] | None = None, said: Any = None) -> Respond:
    return lambda handler, request: handler.send_json(
        code, {"error": {"message": said or "no"}}, headers
    )


def test_texts_become_rows_of_length_one_in_their_order() -> None:
    def backwards(handler: Handler, request: Request) -> None:
        document = rows(request.json["input"])
        handler.send_json(200, {"data": document["data"][::-1]})

    with serving(backwards) as web:
        model = HttpEmbedding(f"{web.url}/v1", "m", dimensions=3)
        assert isinstance(model, EmbeddingModel)
        result = model.embed(["a", "abc", "ab"])
    expected = np.array([vector("a"), vector("abc"), vector("ab")])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-6)
    assert web.requests[0].path == "/v1/embeddings"
    assert web.requests[0].json == {"input": ["a", "abc", "ab"], "model": "m"}


def test_many_texts_are_asked_for_in_batches_bounded_in_number_and_bytes() -> None:
    with serving(good) as web:
        model = HttpEmbedding(web.url, dimensions=3, batch_size=4)
        texts = ["x" * n for n in range(1, 11)]
        assert model.embed(texts).shape == (10, 3)
        assert [len(r.json["input"]) for r in web.requests] == [4, 4, 2]
        web.requests.clear()
        model.embed(["y" * 150_000, "z" * 150_000])
        assert [len(r.json["input"]) for r in web.requests] == [1, 1]
        web.requests.clear()
        assert model.embed([]).shape == (0, 3)
        assert web.requests == []


def test_dimensions_are_learned_once_from_the_endpoint_unless_they_are_said() -> None:
    with serving(good) as web:
        model = HttpEmbedding(web.url, "m")
        assert web.requests == []
        assert (model.dimensions, model.dimensions) == (3, 3)
        assert len(web.requests) == 1
        said = HttpEmbedding(web.url, "m", dimensions=3)
        assert descriptor_of(said)["dimensions"] == 3
        assert len(web.requests) == 1
        shortened = HttpEmbedding(web.url, "m", dimensions=3, shorten=True)
        shortened.embed(["a"])
        assert web.requests[-1].json["dimensions"] == 3


def test_the_environment_may_name_model_and_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(http.MODEL, "from-outside")
    monkeypatch.setenv(http.DIMENSIONS, "3")
    model = HttpEmbedding("http://h/v1")
    assert (model.name, model.dimensions) == ("from-outside", 3)
    monkeypatch.setenv(http.DIMENSIONS, "three")
    with pytest.raises(InvalidArgument):
        HttpEmbedding("http://h/v1")


def test_the_key_is_read_at_each_call_and_never_sent_on_by_a_redirect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(good) as other:
        elsewhere = Endpoint(
            good, lambda h, r: h.send(307, b"", {"Location": f"{other.url}/embeddings"})
        )
        with serving(elsewhere) as web:
            model = HttpEmbedding(web.url, dimensions=3, key_variable="MY_KEY")
            monkeypatch.setenv("MY_KEY", "secret-1")
            model.embed(["a"])
            assert web.requests[-1].headers["Authorization"] == "Bearer secret-1"
            monkeypatch.delenv("MY_KEY")
            with pytest.raises(EmbeddingUnavailable, match="answered 307") as caught:
                model.embed(["a"])
            assert "Authorization" not in web.requests[-1].headers
            assert "redirects are not followed" in str(caught.value)
        assert other.requests == []


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass_is_tried_again(code: int, waits: list[float]) -> None:
    with serving(Endpoint(status(code), status(code), good)) as web:
        assert HttpEmbedding(web.url, dimensions=3).embed(["a"]).shape == (1, 3)
        assert len(web.requests) == 3
    assert len(waits) == 2
    assert 0.3 < waits[0] < waits[1] < 2


def test_the_endpoint_says_when_to_come_back(waits: list[float]) -> None:
    with serving(Endpoint(status(429, {"Retry-After": "7"}), good)) as web:
        HttpEmbedding(web.url, dimensions=3).embed(["a"])
    assert waits == [7.0]


def test_a_wait_beyond_the_callers_patience_is_an_error_at_once(waits: list[float]) -> None:
    with serving(status(503, {"Retry-After": "3600"})) as web:
        with pytest.raises(EmbeddingUnavailable, match="answered 503"):
            HttpEmbedding(web.url, dimensions=3).embed(["a"])
        assert len(web.requests) == 1


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert wait_seconds(1, later, now) == 90
    assert wait_seconds(1, "12", now) == 12
    assert wait_seconds(1, format_datetime(now - timedelta(1), usegmt=True), now) == 0
    assert 0.3 < wait_seconds(1, "soon", now) < 0.7
    assert wait_seconds(30, None, now) <= 10


@pytest.mark.parametrize(
    ("code", "hint"), [(401, "REMEM_EMBEDDING_KEY"), (404, "model's name"), (418, "own log")]
)
def test_a_refusal_is_final_and_says_what_to_do(code: int, hint: str, waits: list[float]) -> None:
    with serving(status(code, said="because  of\nthis")) as web:
        with pytest.raises(EmbeddingUnavailable, match=f"answered {code}: because of this") as got:
            HttpEmbedding(web.url, dimensions=3).embed(["a", "b"])
        assert len(web.requests) == 1
    assert got.value.code == "RM501"
    assert hint in str(got.value.hint)
    assert got.value.item_no is None


def test_a_refused_text_is_named_and_a_batch_that_is_too_large_is_halved() -> None:
    def picky(handler: Handler, request: Request) -> None:
        texts = request.json["input"]
        if len(texts) > 3:
            handler.send_json(413, {"detail": "too many"})
        elif "bad" in texts:
            handler.send_json(400, {"error": "empty input"})
        else:
            handler.send_json(200, rows(texts))

    with serving(picky) as web:
        model = HttpEmbedding(web.url, dimensions=3, batch_size=5)
        assert model.embed([f"t{n}" for n in range(10)]).shape == (10, 3)
        with pytest.raises(EmbeddingUnavailable, match="empty input") as caught:
            model.embed(["a", "b", "c", "d", "e", "f", "bad", "h"])
    assert caught.value.item_no == 7


def answered(document: Any) -> Respond:
    return lambda handler, request: handler.send_json(200, document)


ONE = {"index": 0, "embedding": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("document", "error", "item", "says"),
    [
        ({"data": [ONE, {"index": 1, "embedding": [1.0]}]}, DimensionMismatch, 2, "1 dimensions"),
        ({"data": [ONE, {"index": 1, "embedding": [0, 0, 0]}]}, VectorRefused, 2, "all zero"),
        ({"data": [ONE, {"index": 1, "embedding": [1e999, 0, 0]}]}, VectorRefused, 2, "NaN"),
        ({"data": [ONE]}, EmbeddingUnavailable, 2, "1 vectors for 2 texts"),
        ({"data": [ONE, ONE]}, EmbeddingUnavailable, None, "index is wrong: 0"),
        ({"data": [ONE, {"index": 5, "embedding": [1]}]}, EmbeddingUnavailable, None, "wrong: 5"),
        ({"data": [ONE, {"index": 1}]}, EmbeddingUnavailable, 2, "no list `embedding`"),
        (
            {"data": [ONE, {"index": 1, "embedding": ["x"]}]},
            EmbeddingUnavailable,
            2,
            "else than numbers",
        ),
        ({"vectors": []}, EmbeddingUnavailable, None, "no list `data`"),
        (["no"], EmbeddingUnavailable, None, "no list `data`"),
    ],
)
def test_an_answer_that_cannot_be_stored_is_refused_with_its_item(
    document: Any, error: type[RememError], item: int | None, says: str
) -> None:
    with serving(answered(document)) as web, pytest.raises(error, match=says) as caught:
        HttpEmbedding(web.url, dimensions=3).embed(["one", "two"])
    assert type(caught.value) is error
    assert caught.value.item_no == item


def test_an_answer_without_indexes_is_taken_in_its_order() -> None:
    document = {"data": [{"embedding": [1, 0, 0]}, {"embedding": [0, 2, 0]}]}
    with serving(answered(document)) as web:
        result = HttpEmbedding(web.url, dimensions=3).embed(["one", "two"])
    assert result.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_something_else_than_json_is_named() -> None:
    with (
        serving(lambda h, r: h.send(200, b"<html>")) as web,
        pytest.raises(EmbeddingUnavailable, match="something else than JSON"),
    ):
        HttpEmbedding(web.url, dimensions=3).embed(["a"])


def test_a_broken_connection_is_tried_again_and_then_named(waits: list[float]) -> None:
    def cut(handler: Handler, request: Request) -> None:
        handler.begin(200, {"Content-Length": "1000"})
        handler.wfile.write(b'{"data"')
        handler.hang_up()

    with serving(Endpoint(cut, good)) as web:
        assert HttpEmbedding(web.url, dimensions=3).embed(["a"]).shape == (1, 3)
    with serving(cut) as web:
        with pytest.raises(EmbeddingUnavailable, match="did not answer") as caught:
            HttpEmbedding(web.url, dimensions=3, attempts=2).embed(["a"])
        assert len(web.requests) == 2
    assert caught.value.detail["reason"] == "broken"


def test_nobody_there_is_named_without_user_and_password(waits: list[float]) -> None:
    with serving(good) as web:
        port = web.server_address[1]
    with pytest.raises(EmbeddingUnavailable) as caught:
        HttpEmbedding(f"http://user:hunter2@127.0.0.1:{port}/v1?k=v", dimensions=3).embed(["a"])
    assert caught.value.detail["reason"] == "connect"
    assert f"127.0.0.1:{port}/v1/embeddings" in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(caught.value.detail)
    assert "k=v" not in str(caught.value)


@pytest.fixture
def silent() -> Iterator[Web]:
    """An endpoint that takes the request and says nothing until the test ends."""
    end = threading.Event()
    with serving(lambda handler, request: end.wait(30) and None) as web:
        yield web
        end.set()


def test_silence_ends_with_the_timeout(silent: Web) -> None:
    with pytest.raises(EmbeddingUnavailable) as caught:
        HttpEmbedding(silent.url, dimensions=3, timeout=0.2, attempts=1).embed(["a"])
    assert caught.value.detail["reason"] == "timeout"


def test_an_answer_that_trickles_ends_with_the_callers_patience() -> None:
    end = threading.Event()

    def trickle(handler: Handler, request: Request) -> None:
        handler.begin(200, {"Content-Length": "100000"})
        while not end.wait(0.02):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    with serving(trickle) as web, pytest.raises(EmbeddingUnavailable) as caught:
        HttpEmbedding(web.url, dimensions=3, patience=0.3, attempts=1).embed(["a"])
    end.set()
    assert caught.value.detail["reason"] == "timeout"


def test_somebody_who_waits_waits_less_than_a_job(
    silent: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LIVE_SECONDS", 0.2)
    started = time.monotonic()
    with pytest.raises(EmbeddingUnavailable):
        HttpEmbedding(silent.url, dimensions=3).embed_live(["a"])
    assert time.monotonic() - started < 5


def test_the_space_is_the_models_and_not_the_addresss() -> None:
    def space(*args: Any, **more: Any) -> str:
        return fingerprint(descriptor_of(HttpEmbedding(*args, dimensions=3, **more)))

    here = space("http://a/v1", "m")
    assert here == space("https://b:8080/other/embeddings?x=1", "m")
    assert here != space("http://a/v1", "n")
    assert here != space("http://a/v1", "m", revision="2")
    assert here != space("http://a/v1", "m", query_prompt="query: ")
    assert space("http://a/v1") != space("http://b/v1")
    described = descriptor_of(HttpEmbedding("http://u:p@a/v1?k=v", dimensions=3))
    assert (described["backend"], described["asset"]) == ("http", "a/v1/embeddings")


@pytest.mark.parametrize("url", ["ftp://h/x", "localhost:8080", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        HttpEmbedding(url)


def test_texts_that_cannot_be_sent_are_refused_before_anything_is(waits: list[float]) -> None:
    with serving(good) as web:
        model = HttpEmbedding(web.url, dimensions=3)
        with pytest.raises(TextRefused) as caught:
            model.embed(["a", "\ud800"])
        assert caught.value.item_no == 2
        with pytest.raises(InvalidArgument):
            model.embed("a")
        assert web.requests == []


def test_without_httpx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)  # type: ignore[arg-type]
    with pytest.raises(EmbeddingUnavailable) as caught:
        http_client.httpx_library()
    assert "pip install 'remem-pg[http]'" in str(caught.value)


@pytest.mark.covers("RE10")
def test_making_the_model_imports_nothing_and_connects_nowhere() -> None:
    program = (
        "import sys; from remem_pg.embedding import HttpEmbedding;"
        "m = HttpEmbedding('https://nowhere.invalid/v1', 'm', dimensions=3); m.descriptor;"
        "print({'numpy', 'httpx', 'onnxruntime', 'ssl'} & set(sys.modules) - {'ssl'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "set()"
