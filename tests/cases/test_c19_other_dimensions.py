"""C19: a model of other dimensions: planned, built beside, activated; recall answers throughout."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from remem_pg import Remem
from remem_pg.spaces import policy as embedding_policy
from remem_pg.spaces import reembed as reembed_flow
from tests.support.consistency import problems
from tests.support.jobs import Shares, claim, complete, coverage, current, state, stored
from tests.support.memories import Connection, bodies, recall, refused, value

ROWS = 60


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed_flow, "GRACE", 0.1)
    monkeypatch.setattr(embedding_policy, "MISMATCH_SECONDS", 0.05)


def fill(dsn: str, model: Shares) -> None:
    with Remem(dsn, workspace="w", embedding=model) as mem:
        mem.remember_many([{"body": f"memory {n}", "ref": f"r{n}"} for n in range(ROWS)])


@pytest.mark.parametrize(("before", "after"), [(8, 32), (32, 8), (64, 16), (2, 64)])
def test_the_new_space_is_built_beside_the_old_one_and_nothing_is_wiped(
    db: Connection, su: Connection, db_dsn: str, before: int, after: int
) -> None:
    old, new = Shares("old", 0, before), Shares("new", 1, after)
    fill(db_dsn, old)
    kept = stored(su, "old")
    stop, errors, asked = threading.Event(), [], [0]

    def ask() -> None:
        try:
            with Remem(db_dsn, workspace="w", embedding=old) as mem:
                while not stop.is_set():
                    found = mem.recall("memory 7", 5)
                    assert len(found) == 5
                    assert not [s for s in found.degraded if "failed" in s]
                    asked[0] += 1
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with Remem(db_dsn, workspace="w", embedding=new) as mem:
            half = mem.reembed(batch_size=10, limit=30)
            assert not half.activated
            assert current(db) == "old"
            assert stored(su, "old") == kept, "the old vectors serve until the switch"
            assert [(c.space, c.embedded) for c in coverage(db)] == [("old", ROWS), ("new", 30)]
            done = mem.reembed(batch_size=10)
            assert done.activated
    finally:
        stop.set()
        thread.join()
    assert errors == []
    assert asked[0] > 0
    assert current(db) == "new"
    assert state(db, "old") is None
    assert {len(vector) for vector in stored(su, "new").values()} == {after}
    assert value(db, "select count(*) from remem.memory") == ROWS
    assert problems(su) == []


def test_vectors_of_the_other_dimension_are_refused_with_both_numbers(db: Connection) -> None:
    descriptor = '{"name": "t", "backend": "t", "asset": "t", "dimensions": 3}'
    db.execute("select remem.register_space(%s)", [descriptor])
    db.execute("select remem.remember('w', 'x')")
    db.execute("select remem.start_reembed('w', 't')")
    jobs = claim(db)
    with refused("RM201", expected=3):
        complete(db, jobs, [1.0, 0.0, 0.0, 0.0])
    with refused("RM201", expected=384, got=3):
        db.execute("select remem.remember('w', 'y', embedding => array[1, 0, 0]::real[])")
    assert current(db) == "hash"


def test_a_move_that_was_given_up_leaves_the_old_space_as_it_was(
    db: Connection, su: Connection, db_dsn: str
) -> None:
    fill(db_dsn, Shares("old", 0, 8))
    kept = stored(su, "old")
    with Remem(db_dsn, workspace="w", embedding=Shares("new", 1, 24)) as mem:
        mem.reembed(limit=20, batch_size=10)
        assert value(db, "select remem.cancel_reembed('w')")
    assert current(db) == "old"
    assert stored(su, "old") == kept
    hits: list[Any] = recall(db, "w", "memory 7")
    assert "memory 7" in bodies(hits)
    assert problems(su) == []
