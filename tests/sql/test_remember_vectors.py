"""Vectors given with memories: checked, scaled, stored in the right space, filled in later."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.consistency import problems
from tests.support.memories import (
    Connection,
    bodies,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
)

DESCRIPTOR = '{"name": "tiny", "backend": "test", "asset": "tiny-3", "dimensions": 3}'


@pytest.fixture
def tiny(db: Connection) -> int:
    """A space of three dimensions, the default of new workspaces; its number."""
    number = value(db, "select (remem.register_space(%s)).space_no", [DESCRIPTOR])
    db.execute("select remem.activate_space('tiny')")
    return int(number)


def vector_of(db: Connection, space_no: int, memory_id: object) -> list[float] | None:
    row = db.execute(
        f"select e.embedding::real[] from remem.embedding_{space_no} e"
        " join remem.memory m using (workspace, memory_no) where m.memory_id = %s",
        [memory_id],
    ).fetchone()
    return None if row is None else list(row[0])


def test_a_given_vector_is_stored_with_length_one(db: Connection, tiny: int) -> None:
    ref = remember(db, "w", "x", embedding=[3, 0, 4])
    assert vector_of(db, tiny, ref.memory_id) == pytest.approx([0.6, 0, 0.8], abs=1e-3)


@pytest.mark.parametrize("scale", [1e-38, 1e-12, 1e-7, 1.0, 65504.0, 1e6, 1e38])
def test_the_length_of_a_vector_does_not_matter(db: Connection, tiny: int, scale: float) -> None:
    ref = remember(db, "w", "x", embedding=[0.6 * scale, -0.8 * scale, 0])
    assert vector_of(db, tiny, ref.memory_id) == pytest.approx([0.6, -0.8, 0], abs=1e-3)


@pytest.mark.parametrize("dimensions", [0, 1, 2, 4, 384, 5000])
def test_a_vector_of_another_dimension_is_refused_with_both_dimensions(
    db: Connection, tiny: int, dimensions: int
) -> None:
    with refused("RM201", item=1, space="tiny", expected=3, got=dimensions):
        remember(db, "w", "x", embedding=[1.0] * dimensions)
    with refused("RM201", item=2, space="tiny", expected=3, got=dimensions):
        remember_many(db, "w", [{"body": "y"}, {"body": "x", "embedding": [1.0] * dimensions}])
    assert value(db, "select count(*) from remem.memory") == 0


def test_a_matrix_is_refused(db: Connection, tiny: int) -> None:
    with refused("RM201", item=1):
        db.execute("select remem.remember('w', 'x', embedding => '{{1,2,3}}')")
    with refused("RM201", item=1):
        remember_many(db, "w", [{"body": "x", "embedding": [[1, 2, 3]]}])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_component_that_is_no_finite_number_is_refused(
    db: Connection, tiny: int, bad: float | None
) -> None:
    with refused("RM203", item=1, problem="not finite"):
        remember(db, "w", "x", embedding=[1.0, bad, 0.0])


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", None])
def test_a_component_in_json_that_is_no_finite_number_is_refused(
    db: Connection, tiny: int, bad: str | None
) -> None:
    with refused("RM203", item=2, problem="not finite"):
        remember_many(db, "w", [{"body": "y"}, {"body": "x", "embedding": [1, bad, 0]}])


@pytest.mark.parametrize("zero", [[0, 0, 0], [0.0, -0.0, 0.0]])
def test_a_zero_vector_is_refused(db: Connection, tiny: int, zero: list[float]) -> None:
    with refused("RM203", item=1, problem="zero vector"):
        remember(db, "w", "x", embedding=zero)


def test_a_vector_of_another_named_space_is_refused(db: Connection, tiny: int) -> None:
    with refused("RM202", item=1, space="hash", expected="tiny"):
        remember(db, "w", "x", embedding=[1, 0, 0], space="hash")


def test_a_vector_of_an_unknown_space_is_refused(db: Connection, tiny: int) -> None:
    with refused("RM202", item=1, space="no such model"):
        remember(db, "w", "x", embedding=[1, 0, 0], space="no such model")


def test_a_space_may_be_named_by_its_name_or_its_fingerprint(db: Connection, tiny: int) -> None:
    fingerprint = value(
        db, "select fingerprint from remem.embedding_space where space_no = %s", [tiny]
    )
    for number, space in enumerate(["tiny", fingerprint]):
        ref = remember(db, "w", f"x {number}", embedding=[1, 0, 0], space=space)
        assert vector_of(db, tiny, ref.memory_id) is not None


def test_a_space_without_a_vector_says_nothing(db: Connection, tiny: int) -> None:
    assert remember(db, "w", "x", space="some other model").outcome == "created"


def test_in_the_hash_space_a_memory_gets_its_vector_from_the_server(db: Connection) -> None:
    ref = remember(db, "w", "retries of the queue", title="Retries", tags=["ops"])
    expected = value(db, "select remem.hash_embed(E'Retries\\nretries of the queue\\nops')")
    assert vector_of(db, 1, ref.memory_id) == pytest.approx(expected, abs=1e-3)


def test_in_the_hash_space_a_given_vector_wins(db: Connection) -> None:
    ref = remember(db, "w", "retries", embedding=[1.0] + [0.0] * 383, space="hash")
    assert vector_of(db, 1, ref.memory_id) == [1.0] + [0.0] * 383


def test_a_text_without_features_has_no_vector_but_is_stored(db: Connection) -> None:
    ref = remember(db, "w", "?!")
    assert ref.outcome == "created"
    assert vector_of(db, 1, ref.memory_id) is None
    assert problems(db) == []


def test_in_another_space_a_memory_waits_for_its_vector(db: Connection, tiny: int) -> None:
    ref = remember(db, "w", "retries of the queue")
    assert ref.outcome == "created"
    assert vector_of(db, tiny, ref.memory_id) is None
    assert value(db, "select count(*) from remem.embedding_1") == 0
    assert bodies(recall(db, "w", "queue", mode="lexical")) == ["retries of the queue"]


@pytest.mark.parametrize("said", [{"ref": "r"}, {}], ids=["unchanged", "merged"])
def test_saying_it_again_with_a_vector_fills_it_in(
    db: Connection, tiny: int, said: dict[str, Any]
) -> None:
    first = remember(db, "w", "retries of the queue", **said)
    again = remember(db, "w", "retries of the queue", embedding=[0, 1, 0], **said)
    assert again.outcome == ("unchanged" if said else "merged")
    assert again.memory_id == first.memory_id
    assert vector_of(db, tiny, first.memory_id) == [0, 1, 0]
    assert problems(db) == []


def test_a_vector_that_is_there_is_not_replaced_by_saying_the_same_again(
    db: Connection, tiny: int
) -> None:
    first = remember(db, "w", "retries", ref="r", embedding=[0, 1, 0])
    again = remember(db, "w", "retries", ref="r", embedding=[1, 0, 0])
    assert again.outcome == "unchanged"
    assert vector_of(db, tiny, first.memory_id) == [0, 1, 0]
    assert problems(db) == []


def test_a_new_version_has_its_own_vector_and_the_old_one_moves_to_the_past(
    db: Connection, tiny: int
) -> None:
    first = remember(db, "w", "retries", ref="r", embedding=[0, 1, 0])
    second = remember(db, "w", "no retries", ref="r", embedding=[1, 0, 0])
    assert vector_of(db, tiny, first.memory_id) is None
    assert vector_of(db, tiny, second.memory_id) == [1, 0, 0]
    past = value(db, f"select array_agg(embedding::real[]) from remem.embedding_{tiny}_past")
    assert past == [[0, 1, 0]]
    assert problems(db) == []


def test_the_vectors_of_a_batch_belong_to_their_items(db: Connection, tiny: int) -> None:
    vectors = [[1.0, 0, 0], None, [0, 1.0, 0], [0, 0, 1.0]]
    items: list[dict[str, Any]] = [
        {"body": f"item {n}", **({} if v is None else {"embedding": v})}
        for n, v in enumerate(vectors)
    ]
    refs = remember_many(db, "w", items)
    assert [vector_of(db, tiny, ref.memory_id) for ref in refs] == vectors


def test_the_largest_indexable_dimension_works(db: Connection) -> None:
    open_space(db, "big", 4000)
    remember(db, "w", "x", embedding=[1.0] * 4000)
    (hit,) = recall(db, "w", "other", embedding=[2.0] * 4000, mode="vector")
    assert hit.signals["cosine"] == pytest.approx(1, abs=1e-3)
