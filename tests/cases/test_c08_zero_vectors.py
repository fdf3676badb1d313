"""C8: zero vectors, NaN and infinity, in a row and in a query: never a NaN score."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests.support.memories import (
    Connection,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
)


@pytest.fixture
def tiny(db: Connection) -> Connection:
    open_space(db, "tiny", 4)
    return db


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(4))
def test_a_row_with_a_component_that_is_no_number_is_refused_with_its_item(
    tiny: Connection, bad: float, place: int
) -> None:
    vector = [1.0, 2.0, 3.0, 4.0]
    vector[place] = bad
    with refused("RM203", item=1):
        remember(tiny, "w", "x", embedding=vector)
    assert value(tiny, "select count(*) from remem.memory") == 0


def test_a_zero_row_in_a_batch_is_refused_with_its_item_and_the_others_are_kept(
    tiny: Connection,
) -> None:
    items = [
        {"body": "good", "embedding": [1, 0, 0, 0]},
        {"body": "zero", "embedding": [0, 0, 0, 0]},
        {"body": "minus zero", "embedding": [-0.0, 0, 0, 0]},
        {"body": "good too", "embedding": [0, 1, 0, 0]},
    ]
    refs = remember_many(tiny, "w", items, "report")
    assert [ref.outcome for ref in refs] == ["created", "refused", "refused", "created"]
    codes = [(r.error["code"], r.error["detail"]["item"]) for r in refs if r.error]
    assert codes == [("RM203", 2), ("RM203", 3)]


@pytest.mark.parametrize("query", [[0.0] * 4, [-0.0] * 4])
def test_a_zero_query_never_gives_a_score_that_is_no_number(
    tiny: Connection, query: list[float]
) -> None:
    for n in range(10):
        remember(tiny, "w", f"memory {n}", embedding=[n + 1, 1, 0, 0])
    hits = recall(tiny, "w", "memory 3", embedding=query)
    assert hits[0].body == "memory 3"
    for hit in hits:
        assert hit.degraded == ["zero_vector"]
        assert math.isfinite(hit.score)
        assert math.isfinite(hit.relevance)


def test_no_vector_of_any_size_gives_a_score_that_is_no_number(tiny: Connection) -> None:
    random = Random(8)

    def vector() -> list[float]:
        scale = 10.0 ** random.uniform(-37, 37)
        return [random.uniform(-1, 1) * scale for _ in range(4)]

    remember_many(tiny, "w", [{"body": f"memory {n}", "embedding": vector()} for n in range(60)])
    for _ in range(40):
        for hit in recall(tiny, "w", "memory 3", embedding=vector(), k=60):
            assert 0 <= hit.score <= 1
            assert 0 <= hit.relevance <= 1
            assert -1.001 <= hit.signals["cosine"] <= 1.001
