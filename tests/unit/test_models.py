"""The result objects: built by column name, readable, immutable."""

from __future__ import annotations

import dataclasses
from uuid import uuid4

import pytest

from remem_pg.errors import TextRefused
from remem_pg.models import Hit, Memory, MemoryRef, RecallResult, SpaceInfo


def hit(rank: int = 1, **columns: object) -> Hit:
    return Hit.from_row({"rank": rank, "memory_id": uuid4(), "body": f"body {rank}", **columns})


def test_a_column_of_a_newer_server_is_ignored_and_a_missing_one_is_its_default() -> None:
    memory = Memory.from_row(
        {"memory_id": uuid4(), "workspace": "acme", "body": "x", "invented_later": 1}
    )
    assert (memory.kind, memory.tags, memory.metadata, memory.pinned) == ("semantic", [], {}, False)


def test_a_null_list_or_document_is_empty() -> None:
    memory = Memory.from_row(
        {"memory_id": uuid4(), "workspace": "a", "body": "x", "tags": None, "metadata": None}
    )
    assert (memory.tags, memory.metadata) == ([], {})


@pytest.mark.parametrize("cls", [Hit, Memory, MemoryRef, SpaceInfo])
def test_records_are_frozen_and_slotted(cls: type) -> None:
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(cls)


def test_why_names_arms_and_signals() -> None:
    found = hit(
        arms=["vector", "lexical"], signals={"cosine": 0.7149, "lexical": 0.5, "session": 0}
    )
    assert found.why == "vector + lexical: cosine 0.71, lexical 0.50"


def test_why_leaves_out_what_every_hit_has() -> None:
    found = hit(arms=["vector"], signals={"cosine": 0.5, "length": 0.9, "trust": 0.7, "worth": 1})
    assert found.why == "vector: cosine 0.50"


def test_why_names_duplicates_and_the_hit_it_was_linked_from() -> None:
    found = hit(duplicates=[{"ref": "a"}, {"ref": "b"}], expanded_from=uuid4())
    assert found.why == "context, linked from another hit, same text 2 more times"


def test_a_recall_result_is_a_sequence() -> None:
    hits = [hit(1), hit(2), hit(3)]
    result = RecallResult(hits, space="f")
    assert (len(result), result[0], list(result[1:]), hits[2] in result) == (
        3,
        hits[0],
        hits[1:],
        True,
    )
    assert result == RecallResult(hits)
    assert result != hits


def test_degraded_keeps_the_first_order_and_names_each_state_once() -> None:
    result = RecallResult([], ["no_embedding", "stale_rows", "no_embedding"])
    assert result.degraded == ("no_embedding", "stale_rows")
    assert not result


def test_the_repr_shows_scores_reasons_and_degraded_states() -> None:
    result = RecallResult(
        [hit(1, title="Retries\nand pages", score=0.91, arms=["lexical"])], ["no_embedding"]
    )
    assert repr(result).splitlines() == [
        "<RecallResult 1 hit, degraded: no_embedding>",
        "  1. 0.910  Retries and pages  [lexical]",
    ]


def test_the_repr_of_many_hits_is_short() -> None:
    text = repr(RecallResult([hit(i, body="word " * 100) for i in range(1, 31)]))
    assert len(text.splitlines()) == 12
    assert text.endswith("20 more")
    assert max(map(len, text.splitlines())) < 110


def test_a_refused_reference_gives_the_exception() -> None:
    ref = MemoryRef.from_row(
        {
            "outcome": "refused",
            "item_no": 4,
            "error": {"code": "RM003", "detail": {"argument": "body", "problem": "NUL"}},
        }
    )
    error = ref.exception()
    assert ref.refused
    assert isinstance(error, TextRefused)
    assert str(error) == "RM003 text of body refused: NUL (item 4)"
    assert dataclasses.replace(ref, error=None, outcome="created").exception() is None
