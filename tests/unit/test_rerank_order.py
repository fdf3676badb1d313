"""The gate before a reranker, and the order that its scores make; no database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remem_pg.models import Hit
from remem_pg.rerank.flow import in_order, text_of
from remem_pg.rerank.gate import decide
from remem_pg.rerank.rerankers import (
    checked_scores,
)


def hit(number: int, score: float, body: str = "", **fields: Any) -> Hit:
    return Hit(
        rank=number,
        memory_id=UUID(int=number),
        body=body or f"memory {number}",
        score=score,
        **fields,
    )


# the gate


@pytest.mark.covers("MN11")
def test_a_tight_cluster_without_contradiction_is_not_looked_at_again() -> None:
    tight = [hit(n, 1.5 - n / 100) for n in range(1, 7)]
    skipped = decide("cluster", tight, "auto")
    assert (skipped.rerank, skipped.contradictions, skipped.source) == (False, 0, "client")
    assert skipped.spread == pytest.approx(0.04)
    assert "cluster" in skipped.reason
    wide = [hit(1, 1.5), hit(2, 0.4)]
    assert decide("cluster", wide, "auto").rerank is True
    assert decide("always", tight, "auto").rerank is True


@pytest.mark.covers("MN11")
def test_a_contradiction_at_the_top_is_always_looked_at() -> None:
    hits = [
        hit(1, 1.5, "Three times.", title="Retries", relevance=0.99),
        hit(2, 1.49, "Five times.", title="Retries"),
    ]
    for gate in ("cluster", "top"):
        decision = decide(gate, hits, "auto")
        assert (decision.rerank, decision.contradictions) == (True, 1)
        assert "contradict" in decision.reason


@pytest.mark.covers("MN11")
def test_the_servers_count_stands_above_the_clients() -> None:
    hits = [hit(1, 1.5), hit(2, 0.1)]
    said = {"rerank": False, "reason": "they cluster", "spread": 0.01, "contradictions": 0}
    decision = decide("cluster", hits, "auto", said)
    assert (decision.rerank, decision.reason, decision.spread) == (False, "they cluster", 0.01)
    assert decision.source == "server"
    said = {"rerank": True, "spread": None, "contradictions": 2}
    assert decide("top", [hit(1, 1, relevance=1.0), hit(2, 1)], "auto", said).rerank is True
    assert decide("cluster", hits, "auto", {}).source == "client"


@pytest.mark.covers("MN11")
def test_the_top_gate_asks_how_sure_the_first_hit_is() -> None:
    for relevance, rerank in ((0.93, False), (0.91, True)):
        hits = [hit(1, 2, relevance=relevance), hit(2, 1)]
        assert decide("top", hits, "auto").rerank is rerank


def test_nothing_is_reranked_where_nothing_is_ranked() -> None:
    assert decide("always", [hit(1, 1), hit(2, 0.1)], "retrieval_only").rerank is False
    assert decide("always", [hit(1, 1)], "auto").rerank is False
    assert decide("always", [], "auto").rerank is False


# the order afterwards


@pytest.mark.covers("ME29")
def test_a_rerank_score_replaces_the_fused_one() -> None:
    hits = [hit(1, 2.0), hit(2, 1.0), hit(3, 0.5, signals={"vector": 0.3})]
    found = in_order(hits, [-4, 9, 2.5], None)
    assert [h.memory_id.int for h in found] == [2, 3, 1]
    assert [h.score for h in found] == pytest.approx([2.0, 1.25, 0.5])
    assert found[1].signals == {"vector": 0.3, "rerank": 2.5}


def test_a_weight_mixes_the_rerank_score_with_the_fused_one() -> None:
    hits = [hit(1, 2.0), hit(2, 1.0), hit(3, 0.8)]
    assert [h.memory_id.int for h in in_order(hits, [0.1, 0.2, 0.6], 2.0)] == [3, 1, 2]
    assert [h.memory_id.int for h in in_order(hits, [0.1, 0.2, 0.6], 0.1)] == [1, 2, 3]
    # only where a score lies among the others counts: the range of the model's cosines does not
    for shift in (0, 7):
        again = in_order(hits, [shift + 10, shift + 20, shift + 60], 2.0)
        assert [h.memory_id.int for h in again] == [3, 1, 2]
        assert [again[0].score, again[-1].score] == [2.0, 0.8]


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(-5, 5)), min_size=1, max_size=20),
    st.sampled_from([None, 0.0, 2.0]),
)
def test_scores_still_fall_and_stay_in_their_range(
    pairs: list[tuple[float, float]], weight: float | None
) -> None:
    fused = sorted((score for score, _ in pairs), reverse=True)
    hits = [hit(number, score) for number, score in enumerate(fused, 1)]
    found = in_order(hits, [score for _, score in pairs], weight)
    scores = [h.score for h in found]
    assert scores == sorted(scores, reverse=True)
    assert {h.memory_id for h in found} == {h.memory_id for h in hits}
    assert min(scores) >= fused[-1] - 1e-9
    assert max(scores) <= fused[0] + 1e-9


def test_equal_scores_keep_the_order() -> None:
    hits = [hit(number, 1 / number) for number in range(1, 6)]
    assert [h.memory_id.int for h in in_order(hits, [0.5] * 5, None)] == [1, 2, 3, 4, 5]


def test_a_reranker_reads_title_and_body() -> None:
    assert text_of(hit(1, 1, "Three times.", title="Retries")) == "Retries\nThree times."
    assert text_of(hit(1, 1, "Retries: three.", title="Retries")) == "Retries: three."


@pytest.mark.parametrize(
    "scores", [[1.0], [1.0, float("nan")], [1.0, "x"], [1.0, 2.0, 3.0], [None, None]]
)
def test_scores_that_cannot_order_are_refused(scores: list[Any]) -> None:
    with pytest.raises(ValueError):
        checked_scores(scores, 2)


def test_a_hit_that_was_not_looked_at_counts_as_the_average() -> None:
    hits = [hit(number, 1 - number / 100) for number in (1, 2, 3)]
    found = in_order(hits, [None, 4, 0], None)
    assert [h.memory_id.int for h in found] == [2, 1, 3]
    assert [h.signals.get("rerank") for h in found] == [4, None, 0]
