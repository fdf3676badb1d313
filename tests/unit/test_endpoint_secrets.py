"""A key, and what is secret in an address, stand in no error and in no log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from remem_pg.embedding.http import HttpEmbedding
from remem_pg.errors import EmbeddingUnavailable
from remem_pg.rerank.http import HttpReranker
from tests.support.web import Handler, Request, serving

KEY = "sk-4711-hidden"
Ask = Callable[[str], Any]


def embed(url: str) -> Any:
    return HttpEmbedding(url, "m", dimensions=3, attempts=1).embed(["x"])


def rerank(url: str) -> Any:
    return HttpReranker(url).rerank("q", ["a"])


def repeats(handler: Handler, request: Request) -> None:
    """Refuses, and says whom: the header, the address."""
    said = f"who is {request.headers.get('Authorization')} at {request.path}?"
    handler.send_json(401, {"error": {"message": said}})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("REMEM_EMBEDDING_KEY", "REMEM_RERANK_KEY"):
        monkeypatch.setenv(name, KEY)


def said_by(ask: Ask, url: str, caplog: pytest.LogCaptureFixture) -> str:
    """Everything that a reader of errors and logs sees of a refused call."""
    with caplog.at_level(logging.INFO), pytest.raises(EmbeddingUnavailable) as refused:
        ask(url)
    return "".join(traceback.format_exception(refused.value)) + caplog.text


@pytest.mark.parametrize("ask", [embed, rerank])
def test_an_endpoint_that_repeats_the_key_does_not_get_it_into_the_error(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(repeats) as web:
        said = said_by(ask, f"{web.url}/v1", caplog)
        assert web.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "401" in said
    assert KEY not in said


@pytest.mark.parametrize("ask", [embed, rerank])
def test_user_and_query_of_an_address_are_in_no_error_and_no_log(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(repeats) as web:
        url = web.url.replace("//", "//ann:p%40ss-hidden@") + "/v1?api-key=query-hidden"
        said = said_by(ask, url, caplog)
        assert "query-hidden" in web.requests[0].path
    assert "/v1" in caplog.text, "the request is logged, without what is secret"
    for secret in ("hidden", "p@ss", "YW5uO"):
        assert secret not in said


@pytest.mark.parametrize("ask", [embed, rerank])
@pytest.mark.parametrize("key", [f"{KEY}\u2026", f"{KEY}\n{KEY}", f"{KEY}\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_quoted(
    ask: Ask, key: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"REMEM_EMBEDDING_KEY": key, "REMEM_RERANK_KEY": key}
    monkeypatch.setattr("os.environ", environment)
    with serving(repeats) as web:
        said = said_by(ask, f"{web.url}/v1", caplog)
        assert web.requests == []
    assert "_KEY" in said
    assert "hidden" not in said


@pytest.mark.parametrize("ask", [embed, rerank])
def test_a_key_out_of_a_file_may_end_in_a_newline(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("REMEM_EMBEDDING_KEY", "REMEM_RERANK_KEY"):
        monkeypatch.setenv(name, f"{KEY}\n")
    with serving(repeats) as web:
        said_by(ask, f"{web.url}/v1", caplog)
        assert web.requests[0].headers["Authorization"] == f"Bearer {KEY}"
