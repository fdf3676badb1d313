"""Query vectors: refused, scaled, or left out with a word; and every degraded state by name."""

from __future__ import annotations

import math

import pytest

from tests.support.memories import (
    Connection,
    bodies,
    explain,
    open_space,
    recall,
    refused,
    remember,
    value,
    warnings,
)


def fill_tiny(db: Connection) -> Connection:
    """Workspace w in a space of two dimensions, with three memories."""
    open_space(db, "tiny", 2)
    remember(db, "w", "The queue retries.", ref="a", embedding=[1, 0])
    remember(db, "w", "The garden has trees.", ref="b", embedding=[0.6, 0.8])
    remember(db, "w", "The office moved.", ref="c", embedding=[0, 1])
    return db


@pytest.fixture
def tiny(db: Connection) -> Connection:
    return fill_tiny(db)


@pytest.fixture(scope="module")
def file_tiny(file_db: Connection) -> Connection:
    return fill_tiny(file_db)


@pytest.mark.parametrize("dimensions", [0, 1, 3, 384, 20000])
@pytest.mark.parametrize("options", [{}, {"space": "tiny"}, {"mode": "vector"}], ids=str)
def test_a_query_vector_of_another_dimension_is_refused_with_both(
    file_tiny: Connection, dimensions: int, options: dict[str, str]
) -> None:
    with refused("RM201", space="tiny", expected=2, got=dimensions) as refusal:
        recall(file_tiny, "w", "queue", embedding=[1.0] * dimensions, **options)
    assert "item" not in refusal.detail


def test_a_query_matrix_is_refused(file_tiny: Connection) -> None:
    with refused("RM201", space="tiny"):
        file_tiny.execute("select * from remem.recall('w', 'queue', '{{1},{0}}')")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_query_vector_that_is_not_finite_is_refused(
    file_tiny: Connection, bad: float | None
) -> None:
    with refused("RM203", problem="not finite"):
        recall(file_tiny, "w", "queue", embedding=[1.0, bad])


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-12, 1e-6, 1, 65504, 70000, 1e6, 1e38])
def test_the_length_of_a_query_vector_does_not_matter(file_tiny: Connection, scale: float) -> None:
    expected = recall(file_tiny, "w", "queue", embedding=[1, 0])
    hits = recall(file_tiny, "w", "queue", embedding=[scale, 0])
    assert hits == expected


@pytest.mark.parametrize("zero", [[0, 0], [0.0, -0.0]], ids=str)
def test_a_zero_query_vector_leaves_the_lexical_arm_and_says_so(
    file_tiny: Connection, zero: list[float]
) -> None:
    with warnings(file_tiny) as seen:
        hits = recall(file_tiny, "w", "queue", embedding=zero)
    assert seen == [("RM501", ["zero_vector"])]
    assert bodies(hits) == ["The queue retries."]
    assert not any(math.isnan(hit.score) for hit in hits)
    assert hits[0].degraded == ["zero_vector"]


@pytest.mark.covers("MN19")
def test_without_a_query_vector_the_lexical_arm_answers_and_says_so(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen:
        hits = recall(file_tiny, "w", "queue")
    assert seen == [("RM501", ["no_embedding"])]
    assert bodies(hits) == ["The queue retries."]
    assert explain(file_tiny, "w", "queue")["degraded"] == ["no_embedding"]


def test_the_vector_mode_without_a_vector_finds_nothing_and_says_why(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen:
        assert recall(file_tiny, "w", "queue", mode="vector") == []
    assert seen == [("RM501", ["no_embedding"])]


@pytest.mark.parametrize("space", ["hash", "no such space", ""])
def test_a_query_vector_of_another_space_is_left_out_and_says_so(
    file_tiny: Connection, space: str
) -> None:
    with warnings(file_tiny) as seen:
        hits = recall(file_tiny, "w", "queue", embedding=[0, 1], space=space)
    assert [code for code, _ in seen] == ["RM501"]
    assert "space_mismatch" in seen[0][1]
    assert bodies(hits) == ["The queue retries."]


def test_a_vector_of_another_space_may_have_any_dimension(file_tiny: Connection) -> None:
    hits = recall(file_tiny, "w", "queue", embedding=[1.0] * 384, space="hash")
    assert bodies(hits) == ["The queue retries."]


def test_in_the_hash_space_a_foreign_vector_is_replaced_by_the_server_s_own(
    db: Connection,
) -> None:
    remember(db, "w", "The queue retries.")
    with warnings(db) as seen:
        (hit,) = recall(db, "w", "queue", embedding=[1.0] * 512, space="another model")
    assert seen == [("RM501", ["space_mismatch"])]
    assert hit.arms == ["vector", "lexical"]


def test_in_the_hash_space_a_query_without_features_has_no_vector(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    for query in ("", "?!", "the", "😀", " \n"):
        with warnings(db) as seen:
            assert recall(db, "w", query) == []
        assert seen == [("RM501", ["zero_vector", "no_lexemes"])]


def test_a_memory_without_features_does_not_degrade_every_later_recall(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    remember(db, "w", "👍", session_ref="s")
    with warnings(db) as seen:
        assert bodies(recall(db, "w", "queue")) == ["The queue retries."]
    assert seen == []


def test_a_query_of_stop_words_only_has_no_lexemes_and_says_so(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen:
        hits = recall(file_tiny, "w", "what is it that you are", embedding=[1, 0])
    assert seen == [("RM501", ["no_lexemes"])]
    assert [hit.ref for hit in hits] == ["a", "b", "c"]
    assert {tuple(hit.arms) for hit in hits} == {("vector",)}


def test_memories_without_a_vector_are_found_lexically_and_flagged(tiny: Connection) -> None:
    remember(tiny, "w", "The queue is long.", ref="stale")
    with warnings(tiny) as seen:
        hits = recall(tiny, "w", "queue", embedding=[0, 1])
    assert seen == [("RM501", ["stale_rows"])]
    assert "stale" in [hit.ref for hit in hits]
    with warnings(tiny) as seen:
        recall(tiny, "w", "queue", mode="lexical")
    assert seen == []  # the lexical arm misses nothing


def test_postings_of_another_analyser_are_flagged(tiny: Connection) -> None:
    tiny.execute("update remem.workspace set analyser = 'english/0/pg9'")
    with warnings(tiny) as seen:
        recall(tiny, "w", "queue", embedding=[1, 0])
    assert seen == [("RM501", ["analyser_mix"])]


def test_several_states_make_one_warning(tiny: Connection) -> None:
    remember(tiny, "w", "The queue is long.")
    with warnings(tiny) as seen:
        recall(tiny, "w", "the", embedding=[1.0], space="other")
    assert len(seen) == 1
    assert set(seen[0][1]) == {"space_mismatch", "no_embedding", "stale_rows", "no_lexemes"}


def test_a_call_that_is_not_degraded_warns_of_nothing(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen:
        recall(file_tiny, "w", "queue", embedding=[1, 0], space="tiny")
        explain(file_tiny, "w", "queue", embedding=[1, 0])
    assert seen == []


def test_recall_explain_carries_the_state_and_does_not_warn(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen:
        explained = explain(file_tiny, "w", "the", embedding=[0, 0])
    assert explained["degraded"] == ["zero_vector", "no_lexemes"]
    assert explained["hits"] == []
    assert seen == []


def test_hits_come_in_the_order_of_their_cosine(file_tiny: Connection) -> None:
    hits = recall(file_tiny, "w", "?", embedding=[1, 0], mode="vector")
    assert [hit.ref for hit in hits] == ["a", "b", "c"]
    cosines = [hit.signals["cosine"] for hit in hits]
    assert cosines == pytest.approx([1, 0.6, 0], abs=1e-3)


@pytest.mark.covers("ME25")
def test_both_scores_are_known_for_the_hits_of_either_arm(file_tiny: Connection) -> None:
    hits = {hit.ref: hit.signals for hit in recall(file_tiny, "w", "office", embedding=[1, 0])}
    assert hits["c"]["cosine"] == 0
    assert hits["c"]["bm25"] > 0
    assert hits["a"]["bm25"] == 0


def test_the_warning_is_raised_in_a_read_only_transaction_too(file_tiny: Connection) -> None:
    with warnings(file_tiny) as seen, file_tiny.transaction():
        file_tiny.execute("set transaction read only")
        recall(file_tiny, "w", "queue")
    assert seen == [("RM501", ["no_embedding"])]


def test_a_degraded_hit_says_so_itself(file_tiny: Connection) -> None:
    (row,) = file_tiny.execute("select degraded from remem.recall('w', 'queue')").fetchall()
    assert row == (["no_embedding"],)
    assert value(file_tiny, "select count(*) from remem.recall('w', 'queue')") == 1
