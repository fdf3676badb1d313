"""Rerankers: late interaction, a local cross-encoder, an endpoint; no database."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers

from remem_pg.embedding.onnx import packaged_minilm
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument
from remem_pg.recall.stages import open_stages
from remem_pg.rerank.cross_encoder import CrossEncoder
from remem_pg.rerank.http import HttpReranker, scores_of
from remem_pg.rerank.rerankers import (
    CallableReranker,
    LateInteraction,
    Reranker,
    TokenCache,
    max_sims,
    resolve_reranker,
)
from remem_pg.spaces.embedder import Embedder


class Tokens:
    """A model whose tokens are one-hot words; counts the texts it is asked for."""

    words = ("red", "green", "blue", "round", "square")

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def token_vectors(self, texts: Sequence[str]) -> list[Any]:
        self.asked.append(list(texts))
        eye = np.eye(len(self.words), dtype=np.float32)
        return [eye[[self.words.index(word) for word in text.split()]] for text in texts]


# late interaction


@pytest.mark.covers("MN10")
def test_late_interaction_is_the_share_of_the_questions_words_that_a_text_has() -> None:
    scores = LateInteraction(Tokens()).rerank("red round", ["blue red", "round red", "round"])
    assert scores == pytest.approx([0.5, 1.0, 0.5])


@pytest.mark.covers("MN10")
def test_a_word_that_every_text_has_counts_less() -> None:
    texts = ["red round", "red square", "red blue", "round"]
    scores = LateInteraction(Tokens()).rerank("red round", texts)
    assert scores[0] == pytest.approx(1)
    assert scores[3] > 0.5 > scores[1]
    assert scores[3] == pytest.approx(math.log(5 / 2.5) / math.log(5 / 2.5 * 5 / 3.5))


def test_max_sim_is_each_tokens_best_cosine() -> None:
    question = np.array([[1, 0]], dtype=np.float32)
    text = np.array([[0, 1], [0.8, 0.6]], dtype=np.float32)
    scores = max_sims(question, [text, text[:1], -question])
    assert scores == pytest.approx([0.8, 0.0, -1.0])


def test_token_vectors_of_memories_are_computed_once() -> None:
    model = Tokens()
    late = LateInteraction(model)
    late.rerank("red", ["green", "blue"])
    again = late.rerank("blue", ["blue", "square", "blue"])
    assert again == pytest.approx([1, 0, 1])
    assert model.asked == [["red", "green", "blue"], ["blue", "square"]]
    assert late.rerank("red", []) == []


@pytest.mark.covers("MN10")
def test_a_call_reads_few_texts_that_it_does_not_know_and_says_which() -> None:
    model = Tokens()
    late = LateInteraction(model, fresh_texts=2)
    texts = ["green", "red", "red round", "square"]
    assert late.rerank("red", texts) == [pytest.approx(0), pytest.approx(1), None, None]
    assert late.rerank("red", texts) == pytest.approx([0, 1, 1, 0])
    assert model.asked == [["red", "green", "red"], ["red", "red round", "square"]]
    everything = LateInteraction(Tokens(), fresh_texts=None)
    assert None not in everything.rerank("red", texts * 10)
    with pytest.raises(InvalidArgument, match="fresh_texts"):
        LateInteraction(model, fresh_texts=0)


def test_the_token_cache_is_bounded_in_bytes_and_drops_the_least_recently_used() -> None:
    rows = np.ones((4, 8), dtype=np.float32)  # 64 bytes in half precision
    cache = TokenCache(150)
    for name in (b"a", b"b"):
        cache.put(name, rows)
    assert cache.get(b"a") is not None
    cache.put(b"c", rows)
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None
    assert cache.size == 128
    cache.put(b"huge", np.ones((40, 8), dtype=np.float32))
    assert (cache.get(b"huge"), cache.size) == (None, 128)
    cache.put(b"c", rows)
    assert cache.size == 128


def test_late_interaction_needs_token_vectors_and_says_so() -> None:
    for model in (None, SimpleNamespace(embed=None), lambda: None):
        with pytest.raises(EmbeddingUnavailable, match="token vectors"):
            LateInteraction(model).rerank("q", ["t"])


def test_late_interaction_of_the_packaged_model_prefers_the_answer() -> None:
    model = packaged_minilm()
    assert model is not None, "the tests need the extra minilm"
    texts = ["Ana prefers oat milk.", "We deploy on Tuesdays before noon.", "Build 41 failed."]
    scores = LateInteraction(model).rerank("When do deployments happen?", texts)
    assert scores.index(max(scores)) == 1
    assert all(-1 <= score <= 1.001 for score in scores)
    rows = model.token_vectors(["Ana", texts[1]])
    assert [row.ndim for row in rows] == [2, 2]
    assert rows[0].shape[1] == model.dimensions
    assert len(rows[1]) > len(rows[0]) == 1  # one word, without marks of start and end
    assert len(model.token_vectors([""])[0]) > 0
    lengths = np.linalg.norm(np.concatenate(rows), axis=1)
    assert lengths == pytest.approx(np.ones(len(lengths)), abs=1e-5)
    # the same numbers alone and beside a longer text: padding counts for nothing
    assert model.token_vectors(["Ana"])[0] == pytest.approx(rows[0], abs=0.05)


# a local cross-encoder


class PairSession:
    """Scores a pair by how many tokens of its second part the first part has."""

    outputs = ("logits",)
    columns = 1

    def __init__(self, path: str, options: Any, providers: list[str]) -> None:
        self.path = path

    def get_inputs(self) -> list[Any]:
        names = ("input_ids", "attention_mask", "token_type_ids")
        return [SimpleNamespace(name=name, type="tensor(int64)") for name in names]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name=name, shape=["n", self.columns]) for name in self.outputs]

    def run(self, names: list[str], feed: dict[str, Any]) -> list[Any]:
        found = []
        for ids, mask, types in zip(*feed.values(), strict=True):
            first = {i for i, m, t in zip(ids, mask, types, strict=True) if m and t == 0}
            found.append(sum(i in first for i, m, t in zip(ids, mask, types, strict=True) if m * t))
        logits = np.array(found, dtype=np.float32)[:, None]
        return [np.concatenate([np.zeros((len(found), self.columns - 1)), logits], axis=1)]


@pytest.fixture
def cross(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, type[PairSession]]:
    """A cross-encoder's directory, read by a fake onnxruntime; the class may be changed."""
    session = type("Session", (PairSession,), {})
    runtime = SimpleNamespace(InferenceSession=session, SessionOptions=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)  # type: ignore[arg-type]
    words = {word: number for number, word in enumerate(("[PAD]", *Tokens.words))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[PAD]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(b"weights")
    return tmp_path, session


@pytest.mark.covers("MN10")
@pytest.mark.parametrize("columns", [1, 2])
def test_a_cross_encoder_reads_question_and_text_as_one_pair(
    cross: tuple[Path, type[PairSession]], columns: int
) -> None:
    path, session = cross
    session.columns = columns
    texts = ["blue square", "round red red", "red", "green"]
    assert CrossEncoder(path).rerank("red round", texts) == [0, 3, 1, 0]


def test_a_cross_encoder_cuts_long_pairs_and_runs_them_in_any_number(
    cross: tuple[Path, type[PairSession]],
) -> None:
    texts = ["red " * count for count in (900, 1, 700, 3)] * 10
    scores = CrossEncoder(cross[0], max_length=100).rerank("red", texts)
    assert scores == [99, 1, 99, 3] * 10


def test_a_model_that_is_no_cross_encoder_is_refused(
    cross: tuple[Path, type[PairSession]],
) -> None:
    path, session = cross
    session.columns = 7
    with pytest.raises(EmbeddingUnavailable, match="7 values a pair"):
        CrossEncoder(path).rerank("red", ["red"])
    with pytest.raises(EmbeddingUnavailable, match="no model directory"):
        CrossEncoder(path / "nothing").rerank("red", ["red"])
    with pytest.raises(InvalidArgument):
        CrossEncoder(path, max_length=2)


# an endpoint


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[Any], Callable[[int, Any], None]]]:
    """A local rerank server: its address, what it was sent, and what it answers next."""
    sent: list[Any] = []
    answer: dict[str, Any] = {"status": 200, "body": None}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            sent.append((body, self.headers.get("authorization")))
            reply = answer["body"]
            if reply is None:
                rows = [
                    {"index": index, "relevance_score": len(text) / 100}
                    for index, text in enumerate(body["documents"])
                ]
                reply = {"results": rows[::-1]}
            if reply == "silence":
                time.sleep(1)
            self.send_response(answer["status"])
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    def says(status: int, body: Any) -> None:
        answer.update(status=status, body=body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/rerank", sent, says
    server.shutdown()
    server.server_close()


@pytest.mark.covers("MN10")
def test_an_endpoint_is_asked_in_the_common_form(
    endpoint: tuple[str, list[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, sent, _ = endpoint
    assert HttpReranker(url).rerank("q", ["aaaa", "b"]) == [0.04, 0.01]
    monkeypatch.setenv("REMEM_RERANK_KEY", "secret")
    reranker = HttpReranker(url, model="small")
    reranker.rerank("q", ["x"])
    assert sent == [
        ({"query": "q", "documents": ["aaaa", "b"], "top_n": 2}, None),
        ({"query": "q", "documents": ["x"], "top_n": 1, "model": "small"}, "Bearer secret"),
    ]
    assert "secret" not in repr(vars(reranker))


@pytest.mark.parametrize("status", [302, 401, 500])
def test_an_endpoint_that_refuses_is_an_error_and_is_not_followed(
    endpoint: tuple[str, list[Any], Any], status: int
) -> None:
    url, sent, says = endpoint
    says(status, {})
    with pytest.raises(EmbeddingUnavailable, match=str(status)):
        HttpReranker(url).rerank("q", ["a"])
    assert len(sent) == 1


def test_a_silent_endpoint_times_out(endpoint: tuple[str, list[Any], Any]) -> None:
    import httpx

    url, _, says = endpoint
    says(200, "silence")
    with pytest.raises(httpx.TimeoutException):
        HttpReranker(url, timeout=0.1).rerank("q", ["a"])


def test_answers_in_other_common_forms_are_understood_and_incomplete_ones_refused() -> None:
    assert scores_of({"data": [{"index": 0, "relevance_score": 1}]}, 1) == [1]
    assert scores_of([{"index": 1, "score": 2}, {"index": 0, "score": 3}], 2) == [3, 2]
    for document in ({}, [], {"results": [{"index": 0}]}, {"results": None}, "no", [[1]]):
        with pytest.raises(EmbeddingUnavailable, match="each of 1 documents"):
            scores_of(document, 1)


# which reranker is meant


def test_a_reranker_is_named_by_word_path_address_object_or_function() -> None:
    embedder = Embedder(None)
    assert resolve_reranker(None, embedder) is None
    assert isinstance(resolve_reranker("late", embedder), LateInteraction)
    assert isinstance(resolve_reranker("http://localhost/rerank", embedder), HttpReranker)
    assert isinstance(resolve_reranker("./model", embedder), CrossEncoder)
    assert isinstance(resolve_reranker(Path("model"), embedder), CrossEncoder)
    own = LateInteraction(Tokens())
    assert resolve_reranker(own, embedder) is own
    function = resolve_reranker(lambda query, texts: [1.0] * len(texts), embedder)
    assert isinstance(function, CallableReranker)
    assert isinstance(function, Reranker)
    for wrong in ("lat", 3, CrossEncoder):
        with pytest.raises(InvalidArgument, match="unknown reranker"):
            resolve_reranker(wrong, embedder)


def test_arguments_of_the_client_are_checked_at_once() -> None:
    def opened(pool: int = 50, gate: str = "cluster", expander: Any = None) -> Any:
        return open_stages(Embedder(None), None, pool, gate, None, expander)

    assert opened().reranker is None
    for wrong in ({"pool": 0}, {"pool": 201}, {"gate": "sometimes"}, {"expander": 3}):
        with pytest.raises(InvalidArgument):
            opened(**wrong)
