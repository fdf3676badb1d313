"""The second look through the client: when it runs, what it changes, and that it never harms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from remem_pg import AsyncRemem, InvalidArgument, RecallResult, Remem, UnknownOption

BODIES = [
    "We retry a failed charge three times, then page.",
    "A retry of a deployment needs a new build number.",
    "Retry storms took the queue down in March.",
    "Ana wrote the retry handler over a weekend.",
    "The dashboard counts every retry by service.",
]


@pytest.fixture
def filled(db_dsn: str) -> str:
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        client.remember_many({"ref": f"m{n}", "body": body} for n, body in enumerate(BODIES))
    return db_dsn


@pytest.fixture
def opened(filled: str) -> Iterator[Callable[..., Remem]]:
    clients: list[Remem] = []

    def open_with(reranker: Any, **options: Any) -> Remem:
        clients.append(
            Remem(filled, workspace="acme", embedding=None, reranker=reranker, **options)
        )
        return clients[-1]

    yield open_with
    for client in clients:
        client.close()


class Favourite:
    """Prefers the texts with one word; keeps what it was asked."""

    name = "favourite"

    def __init__(self, word: str = "weekend") -> None:
        self.word = word
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        return [float(self.word in text) for text in texts]


def refs(result: RecallResult) -> list[str | None]:
    return [hit.ref for hit in result]


@pytest.mark.covers("MN10")
def test_nothing_is_reranked_unless_a_reranker_is_configured(opened: Callable[..., Remem]) -> None:
    mem = opened(None)
    result = mem.recall("retry")
    assert (result.trace, result.degraded) == ({}, ())
    assert all("rerank" not in hit.signals for hit in result)
    with pytest.raises(InvalidArgument, match="no reranker"):
        mem.recall("retry", rerank="always")


@pytest.mark.covers("MN10", "ME29")
def test_a_reranker_orders_the_best_hits_and_the_trace_says_so(
    opened: Callable[..., Remem],
) -> None:
    reranker = Favourite()
    mem = opened(reranker, rerank_gate="always")
    plain = mem.recall("retry", rerank=False)
    result = mem.recall("retry")
    assert result[0].ref == "m3"
    assert (result[0].rank, result[0].signals["rerank"]) == (1, 1.0)
    assert set(refs(result)) == set(refs(plain))
    assert [hit.rank for hit in result] == [1, 2, 3, 4, 5]
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)
    assert sorted(reranker.asked[0][1]) == sorted(BODIES)
    assert reranker.asked[0][0] == "retry"
    done = result.trace["rerank"]
    assert (done["rerank"], done["reason"], done["state"]) == (True, "always", "completed")
    assert (done["backend"], done["reranked"]) == ("favourite", 5)
    assert result.degraded == plain.degraded
    assert len(reranker.asked) == 1


@pytest.mark.covers("ME29")
def test_the_reranked_come_before_the_rest(opened: Callable[..., Remem]) -> None:
    reranker = Favourite("no such word")
    mem = opened(reranker, rerank_gate="always", rerank_pool=2)
    plain = mem.recall("retry", rerank=False)
    last = plain[1].body
    reranker.word = last
    result = mem.recall("retry")
    assert reranker.asked[-1][1] == [plain[0].body, last]
    assert refs(result) == [plain[1].ref, plain[0].ref, *refs(plain)[2:]]
    assert [hit.rank for hit in result] == [1, 2, 3, 4, 5]
    scores = [hit.score for hit in result]
    assert scores == sorted(scores, reverse=True)


def test_the_pool_is_wider_than_what_is_asked_for(opened: Callable[..., Remem]) -> None:
    result = opened(Favourite(), rerank_gate="always").recall("retry", k=1)
    assert refs(result) == ["m3"]
    reranker = Favourite()
    opened(reranker, rerank_gate="always").recall("retry", k=1, rerank_pool=3)
    assert len(reranker.asked[0][1]) == 3


@pytest.mark.covers("MN10")
def test_a_function_is_a_reranker(opened: Callable[..., Remem]) -> None:
    def longest(query: str, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    result = opened(longest, rerank_gate="always").recall("retry")
    assert refs(result)[0] == f"m{BODIES.index(max(BODIES, key=len))}"
    assert result.trace["rerank"]["backend"] == "longest"


def boom(query: str, texts: Sequence[str]) -> list[float]:
    raise RuntimeError("the model is gone")


def slow(query: str, texts: Sequence[str]) -> list[float]:
    time.sleep(5)
    return [0.0] * len(texts)


def too_few(query: str, texts: Sequence[str]) -> list[float]:
    return [1.0]


def not_a_number(query: str, texts: Sequence[str]) -> list[float]:
    return [float("nan")] * len(texts)


class Impatient:
    """A reranker that says how long it may take."""

    timeout = 0.2
    rerank = staticmethod(slow)


@pytest.mark.covers("MN10")
@pytest.mark.parametrize(
    "reranker",
    [boom, Impatient(), too_few, not_a_number, "./no-such-model", "http://127.0.0.1:9/", "late"],
    ids=["raises", "hangs", "too few", "nan", "no model", "no server", "no token vectors"],
)
def test_a_reranker_that_fails_keeps_the_order_and_is_named(
    opened: Callable[..., Remem], reranker: Any
) -> None:
    mem = opened(reranker, rerank_gate="always")
    plain = mem.recall("retry", rerank=False)
    started = time.monotonic()
    result = mem.recall("retry")
    assert time.monotonic() - started < 4
    assert refs(result) == refs(plain)
    # (a memory grows older between two recalls)
    assert [h.score for h in result] == pytest.approx([h.score for h in plain], rel=1e-4)
    assert result.degraded == ("rerank_failed", *plain.degraded)
    assert result.trace["rerank"]["state"] == "failed"
    assert result.trace["rerank"]["error"]


@pytest.mark.covers("MN11")
def test_the_gate_skips_a_tight_cluster_and_says_why(opened: Callable[..., Remem]) -> None:
    reranker = Favourite()
    mem = opened(reranker)
    mem.workspace("twins").remember_many(
        {"ref": f"t{n}", "body": f"The zebra of pen {n} sleeps."} for n in "abcde"
    )
    result = mem.workspace("twins").recall("zebra")
    decision = result.trace["rerank"]
    assert (decision["rerank"], decision["state"], decision["source"]) == (
        False,
        "skipped",
        "server",
    )
    assert decision["reason"]
    assert decision["contradictions"] == 0
    assert reranker.asked == []
    assert len(mem.workspace("twins").recall("zebra", rerank="always")) == 5
    assert len(reranker.asked) == 1


@pytest.mark.covers("MN11")
def test_a_contradiction_opens_the_gate(opened: Callable[..., Remem]) -> None:
    reranker = Favourite()
    mem = opened(reranker).workspace("said")
    mem.remember("The zebra limit is 3.", subject="zebra", attribute="limit")
    mem.remember("The zebra limit is 5.", subject="zebra", attribute="limit")
    decision = mem.recall("zebra limit").trace["rerank"]
    assert (decision["rerank"], decision["contradictions"]) == (True, 1)
    assert len(reranker.asked) == 1


def test_the_same_second_look_in_the_explained_recall(opened: Callable[..., Remem]) -> None:
    mem = opened(Favourite(), rerank_gate="always")
    document = mem.recall_explain("retry", k=2)
    result = mem.recall("retry", k=2)
    assert [hit["ref"] for hit in document["hits"]] == refs(result)
    assert [hit["rank"] for hit in document["hits"]] == [1, 2]
    assert document["hits"][0]["signals"]["rerank"] == 1.0
    assert document["rerank"]["state"] == "completed"
    assert document["arms"]
    assert result.trace["arms"].keys() == document["arms"].keys()


def test_hits_are_the_same_records_with_and_without_a_reranker(
    opened: Callable[..., Remem],
) -> None:
    mem = opened(lambda query, texts: [0.0] * len(texts), rerank_gate="always")
    mem.remember(
        "Retry of the oncall rota.", kind="episodic", session_ref="s", occurred_at="2024-03-01T10Z"
    )
    plain = {hit.memory_id: hit for hit in mem.recall("retry", rerank=False)}
    for hit in mem.recall("retry"):
        same = plain[hit.memory_id]
        assert (hit.occurred_at, hit.kind, hit.session_ref, hit.arms, hit.body) == (
            same.occurred_at,
            same.kind,
            same.session_ref,
            same.arms,
            same.body,
        )
        assert hit.relevance == pytest.approx(same.relevance)


def test_options_are_checked_with_a_reranker_as_without(opened: Callable[..., Remem]) -> None:
    mem = opened(Favourite())
    with pytest.raises(UnknownOption):
        mem.recall("retry", frobnicate=1)
    with pytest.raises(InvalidArgument, match="rerank_gate"):
        mem.recall("retry", rerank="sometimes")
    assert mem.workspace("nobody").recall("retry").degraded == ("unknown_workspace",)


@pytest.mark.covers("MN10")
def test_late_interaction_over_the_clients_own_model(db_dsn: str) -> None:
    with Remem(
        db_dsn, workspace="acme", embedding="minilm", reranker="late", rerank_gate="always"
    ) as mem:
        mem.remember_many({"ref": f"m{n}", "body": body} for n, body in enumerate(BODIES))
        result = mem.recall("Who wrote the handler for retries?")
        assert result[0].ref == "m3"
        assert result.degraded == ()
        assert all(-1 <= hit.signals["rerank"] <= 1.001 for hit in result)
        assert result.trace["rerank"]["backend"] == "late"
        assert result.space == mem.current_space().fingerprint


async def test_the_async_client_reranks_alike(filled: str) -> None:
    async with AsyncRemem(
        filled, workspace="acme", embedding=None, reranker=Favourite(), rerank_gate="always"
    ) as mem:
        result = await mem.recall("retry", k=2)
        assert result[0].ref == "m3"
        assert result.trace["rerank"]["state"] == "completed"
        assert (await mem.workspace("acme").recall("retry"))[0].ref == "m3"
