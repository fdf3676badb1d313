"""Metrics and tables on values small enough to check by hand."""

from __future__ import annotations

import json
import math

import pytest

from evals.metrics import (
    Outcome,
    by_category,
    percentile,
    recall_at,
    reciprocal_rank,
    summarise,
)
from evals.report import category_table, mode_table, print_json, score, table


def outcome(evidence: str, ranks: str, category: str = "1", ms: float = 1.0) -> Outcome:
    """``ranks`` is one word a rank; letters of a word are refs that share the rank."""
    return Outcome(category, frozenset(evidence), tuple(set(word) for word in ranks.split()), ms)


def test_recall_counts_the_share_of_evidence_among_the_first_ranks() -> None:
    asked = outcome("ab", "x a y b")
    assert [recall_at(asked, k) for k in (1, 2, 3, 4, 9)] == [0, 0.5, 0.5, 1, 1]


def test_references_that_share_a_rank_count_at_that_rank() -> None:
    asked = outcome("ab", "x ab")
    assert recall_at(asked, 2) == 1
    assert reciprocal_rank(asked) == 0.5


def test_a_question_without_its_evidence_scores_nothing() -> None:
    asked = outcome("a", "x y")
    assert reciprocal_rank(asked) == 0
    assert recall_at(asked, 2) == 0
    assert recall_at(outcome("a", ""), 10) == 0


def test_the_summary_averages_over_questions() -> None:
    row = summarise([outcome("a", "a", ms=2), outcome("ab", "x a", ms=4)])
    assert row["R@1"] == 0.5
    assert row["R@5"] == 0.75
    assert row["hit@1"] == 0.5
    assert row["hit@5"] == 1
    assert row["MRR"] == 0.75
    assert row["questions"] == 2
    assert row["p50_ms"] == 3


def test_an_empty_summary_has_no_quality_and_no_latency() -> None:
    row = summarise([])
    assert row["R@10"] == 0
    assert math.isnan(row["p50_ms"])


def test_percentiles_are_linear_between_neighbours() -> None:
    assert percentile([4, 1, 3, 2], 0.5) == 2.5
    assert percentile([4, 1, 3, 2], 1) == 4
    assert percentile([7], 0.95) == 7


def test_categories_are_apart_and_in_order() -> None:
    found = by_category([outcome("a", "x", "4"), outcome("a", "a", "2"), outcome("a", "a", "4")])
    assert list(found) == ["2", "4"]
    assert found["4"]["R@10"] == 0.5
    assert found["4"]["questions"] == 2


@pytest.mark.parametrize(("value", "text"), [(0.6464, ".646"), (1.0, "1.000"), (0.0, ".000")])
def test_scores_are_printed_with_three_decimals(value: float, text: str) -> None:
    assert score(value) == text


def test_a_table_is_padded_markdown() -> None:
    assert table(["mode", "n"], [["lexical", "1"], ["v", "10"]]).splitlines() == [
        "| mode    |  n |",
        "| ------- | -: |",
        "| lexical |  1 |",
        "| v       | 10 |",
    ]


def test_the_reports_have_a_row_a_mode_and_a_row_a_category() -> None:
    outcomes = [outcome("a", "a", "1"), outcome("b", "x b", "3")]
    results = {"fused": {**summarise(outcomes), "by_category": by_category(outcomes)}}
    assert mode_table(results).splitlines()[2].startswith("| fused | .500 | 1.000 |")
    assert [line.split("|")[2].strip() for line in category_table(results).splitlines()[2:]] == [
        "1",
        "3",
    ]


def test_the_json_document_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"fused": {"R@10": 0.5}, "model": "modèle"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"fused": {"R@10": 0.5}, "model": "modèle"}
    assert "modèle" in printed
