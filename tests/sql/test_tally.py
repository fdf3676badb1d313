"""The ledger of counts: exact after every kind of write, folded, and never in anybody's way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.server import OWNER
from tests.support.consistency import problems
from tests.support.memories import (
    Connection,
    refused,
    remember,
    remember_many,
    value,
)

TINY = '{"name": "tiny", "backend": "test", "asset": "tiny-2", "dimensions": 2}'


def random_item(random: Random, with_vector: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"body": " ".join(random.choices("abcdefg", k=random.randint(1, 3)))}
    if random.random() < 0.5:
        item["ref"] = f"r{random.randint(1, 6)}"
    if random.random() < 0.4:
        item["session_ref"] = f"s{random.randint(1, 3)}"
    if random.random() < 0.2:
        item["kind"] = random.choice(["decision", "task", "poem"])
    if random.random() < 0.1:
        item["on_conflict"] = "error"
    if with_vector and random.random() < 0.6:
        item["embedding"] = [random.uniform(-1, 1), random.choice([0.5, 1.0])]
    return item


@pytest.mark.parametrize("seed", range(6))
def test_counts_equal_the_rows_after_random_operations(db: Connection, seed: int) -> None:
    random = Random(seed)
    with_vector = seed % 2 == 1
    if with_vector:
        db.execute("select remem.register_space(%s)", [TINY])
        db.execute("select remem.activate_space('tiny')")
    for step in range(40):
        workspace = random.choice(["w", "v"])
        items = [random_item(random, with_vector) for _ in range(random.randint(1, 8))]
        with db.transaction(force_rollback=random.random() < 0.2):
            remember_many(db, workspace, items, "report")
        if step % 10 == 9:
            assert problems(db) == []
    for workspace in ("w", "v"):
        counted = value(db, "select remem.count(%s)", [workspace])
        rows = value(
            db,
            "select count(*) from remem.memory where workspace = %s and superseded_at is null",
            [workspace],
        )
        assert counted == rows


def test_the_ledger_is_folded_and_stays_short(db: Connection) -> None:
    for number in range(150):
        remember(db, "w", f"memory {number}")
    assert value(db, "select count(*) from remem.tally where workspace = 'w'") <= 2 * 66
    assert value(db, "select remem.count('w')") == 150
    assert problems(db) == []


def test_folding_does_not_wait_for_an_open_writer(
    db: Connection, db_dsn: str, connect: Any
) -> None:
    for number in range(70):
        remember(db, "w", f"memory {number}")
    other = connect(OWNER)
    with other.transaction():
        remember(other, "w", "open")
        db.execute("set lock_timeout = '2s'")
        for number in range(70, 80):
            remember(db, "w", f"memory {number}")
        assert value(db, "select remem.count('w')") == 80
        assert value(other, "select remem.count('w')") == 81
    assert value(db, "select remem.count('w')") == 81
    assert problems(db) == []


def test_a_refused_batch_changes_no_count(db: Connection) -> None:
    remember(db, "w", "one")
    with refused("RM001"):
        remember_many(db, "w", [{"body": "two"}, {"body": ""}])
    assert value(db, "select remem.count('w')") == 1


def test_saying_the_same_again_changes_no_count(db: Connection) -> None:
    for _ in range(3):
        remember(db, "w", "one", ref="r")
        remember(db, "w", "two")
    assert value(db, "select remem.count('w')") == 2
    assert value(db, "select count(*) from remem.tally where rows_delta = 0") == 0
    assert problems(db) == []
