"""The order of results, what counts as the same, and what is shown as a conflict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remem_pg.context.conflicts import grouped
from remem_pg.context.ranking import Ranked, deduplicated, rank, ranked
from remem_pg.context.record import FRESHNESS, Record, Reference, accepted
from remem_pg.context.scope import Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def record(id: str, body: str | None = None, provider: str = "a", **fields: Any) -> Record:
    raw = {"id": id, "body": body or f"body of {id}", **fields}
    found = accepted(raw, provider, Scope("acme", project="p", session="s", user="u"), 1000)
    assert found is not None
    return found


def order(*records: Record, confidence: float = 0.5) -> list[str]:
    return [item.record.id for item in ranked(records, confidence, NOW)]


@pytest.mark.covers("RP33")
def test_the_rank_is_the_sum_of_its_signals() -> None:
    item = rank(
        record(
            "1",
            score=0.5,
            importance=1,
            confidence=0.25,
            scope="project",
            scope_ref="p",
            freshness="current",
            updated_at=NOW - timedelta(days=30),
        ),
        0.9,
        NOW,
    )
    assert item.signals == pytest.approx(
        {
            "score": 0.33,
            "plan": 0.108,
            "importance": 0.08,
            "confidence": 0.01,
            "scope": 0.04,
            "freshness": 0.05,
            "recency": 0.04,
        }
    )
    assert item.rank == pytest.approx(sum(item.signals.values()))


@pytest.mark.covers("RP33")
def test_each_signal_alone_decides_between_equals() -> None:
    assert order(record("1", score=0.4), record("2", score=0.5)) == ["2", "1"]
    assert order(record("1", importance=0.1), record("2", importance=0.9)) == ["2", "1"]
    assert order(record("1", confidence=0.1), record("2", confidence=0.9)) == ["2", "1"]
    scoped = [
        record("global"),
        record("project", scope="project", scope_ref="p"),
        record("session", scope="session", scope_ref="s"),
    ]
    assert order(*scoped) == ["session", "project", "global"]
    assert order(*(record(name, freshness=name) for name in sorted(FRESHNESS))) == [
        "current",
        "unknown",
        "stale",
        "superseded",
    ]
    ages = {"month": 20, "year": 200, "old": 2000}
    dated = [record(k, updated_at=NOW - timedelta(days=v)) for k, v in sorted(ages.items())]
    assert order(*dated) == ["month", "year", "old"]


def test_a_time_to_come_is_not_recent_and_ties_have_one_order() -> None:
    assert rank(record("1", updated_at=NOW + timedelta(days=1)), 0, NOW).signals["recency"] == 0
    assert order(record("b"), record("a"), record("c")) == ["a", "b", "c"]


@pytest.mark.covers("RP34")
@given(
    score=st.floats(0, 1),
    importance=st.floats(0, 1),
    confidence=st.floats(0, 1),
    plan=st.floats(0, 1),
    freshness=st.sampled_from(FRESHNESS),
)
def test_no_other_signal_makes_an_irrelevant_record_a_likely_one(
    score: float, importance: float, confidence: float, plan: float, freshness: str
) -> None:
    fields = {"importance": importance, "confidence": confidence, "freshness": freshness}
    irrelevant = rank(record("1", score=0, updated_at=NOW, **fields), plan, NOW)
    assert irrelevant.rank <= 0.38 + 1e-9
    item = rank(record("1", score=score, **fields), plan, NOW)
    assert 0 <= item.rank <= 0.99


@pytest.mark.covers("RP35")
def test_the_same_row_twice_is_one_result() -> None:
    found = deduplicated(ranked([record("1", "a", score=0.2), record("1", "b", score=0.9)], 0, NOW))
    assert [(item.record.body, item.record.duplicates) for item in found] == [("b", ())]


@pytest.mark.covers("RP36", "RP37")
def test_equal_texts_are_one_result_that_keeps_every_source() -> None:
    records = [
        record("1", "We retry three times.", provider="postgres", score=0.9),
        record("x", "we  retry three TIMES.", provider="notes", score=0.5, source="retries.md"),
        record("y", "We retry three times.", provider="wiki", score=0.4),
        record("z", "We retry four times.", provider="wiki", score=0.4),
    ]
    found = deduplicated(ranked(records, 0, NOW))
    assert [item.record.id for item in found] == ["1", "z"]
    assert found[0].record.duplicates == (
        Reference("notes", "x", "retries.md"),
        Reference("wiki", "y"),
    )


@pytest.mark.covers("RP35", "RP36")
def test_the_same_id_of_another_provider_is_another_result() -> None:
    found = deduplicated(
        ranked([record("1", provider="a"), record("1", "c", provider="b")], 0, NOW)
    )
    assert len(found) == 2


@pytest.mark.covers("RP36")
def test_a_fingerprint_counts_only_within_its_provider() -> None:
    records = [
        record("1", "one", provider="a", fingerprint="f"),
        record("2", "two", provider="a", fingerprint="f"),
        record("3", "three", provider="b", fingerprint="f"),
    ]
    found = deduplicated(ranked(records, 0, NOW))
    assert [item.record.id for item in found] == ["1", "3"]


@pytest.mark.covers("RP37")
def test_sources_of_sources_are_kept_once_and_bounded() -> None:
    copies = [{"id": str(n)} for n in range(30)]
    records = [
        record("1", "same", provider="a", score=1, duplicates=copies),
        record("2", "same", provider="b", duplicates=[{"id": "7", "source": "s"}]),
    ]
    (item,) = deduplicated(ranked(records, 0, NOW))
    names = [(copy.provider, copy.id) for copy in item.record.duplicates]
    assert len(names) == len(set(names)) == 20


def groups(*records: Record) -> list[list[str]]:
    items = [Ranked(each, 0.5, {}) for each in records]
    return [[item.record.id for item in group] for group in grouped(items)]


@pytest.mark.covers("RP44")
def test_the_same_fact_in_other_words_is_a_conflict_across_providers() -> None:
    fact = {"subject": "Retries", "attribute": "count"}
    assert groups(
        record("1", "three", **fact),
        record("2", "something else"),
        record("3", "five", provider="b", subject="retries", attribute=" COUNT "),
    ) == [["1", "3"], ["2"]]
    assert groups(record("1", "three", **fact), record("2", "Three", provider="b", **fact)) == [
        ["1"],
        ["2"],
    ]
    assert groups(record("1", subject="retries"), record("2", subject="retries")) == [["1"], ["2"]]


@pytest.mark.covers("RP44")
def test_linked_contradictions_are_a_conflict_and_agreement_is_none() -> None:
    fact = {"subject": "retries", "attribute": "count"}
    assert groups(record("1", conflicts_with=["2"]), record("2"), record("3")) == [
        ["1", "2"],
        ["3"],
    ]
    assert groups(record("1", agrees_with=["2"], **fact), record("2", **fact)) == [["1"], ["2"]]
    assert groups(record("1", conflicts_with=["2"]), record("2", provider="b")) == [["1"], ["2"]]


@pytest.mark.covers("RP44")
def test_a_conflict_holds_through_a_third_and_through_a_merged_copy() -> None:
    assert groups(
        record("1", conflicts_with=["3"]),
        record("2"),
        record("3"),
        record("4", conflicts_with=["3"]),
    ) == [["1", "3", "4"], ["2"]]
    merged = record("2", duplicates=[{"id": "9"}])
    assert groups(record("1", conflicts_with=["9"]), merged) == [["1", "2"]]
