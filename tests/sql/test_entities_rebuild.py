"""Names and postings are built anew in batches, beside writers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.consistency import problems
from tests.support.entities import item, pointer
from tests.support.memories import Connection, get, posted, refused, remember, remember_many, value


def rebuild(db: Connection, what: str, limit: int = 7) -> list[int]:
    """Rebuild in batches to the end; how many each batch did."""
    counts, after = [], None
    while True:
        row = db.execute(
            f'select memory_id, count from remem.rebuild_{what}(%s, %s, "limit" => %s)',
            ["w", after, limit],
        ).fetchone()
        assert row is not None
        after = row[0]
        if after is None:
            assert row[1] == 0
            return counts
        counts.append(row[1])


@pytest.mark.covers("ME16")
@pytest.mark.parametrize("what", ["entities", "postings"])
def test_a_rebuild_in_batches_leaves_what_the_writers_wrote(db: Connection, what: str) -> None:
    random = Random(7)
    remember_many(db, "w", [item(random) | {"ref": f"r{n}"} for n in range(30)])
    remember_many(db, "w", [item(random) | {"ref": f"r{n}", "session_ref": "s"} for n in range(5)])
    remember(db, "v", "we met Bob")
    tables = ["memory_entity", "entity_alias", "posting", "posting_past", "session"]

    def contents() -> list[Any]:
        return [
            db.execute(f"select * from remem.{t} order by {t}::text").fetchall() for t in tables
        ]

    before = contents()
    assert rebuild(db, what) == [7, 7, 7, 7, 2]
    assert contents() == before
    db.execute("delete from remem.memory_entity where workspace = 'w'")
    db.execute("delete from remem.entity_alias where workspace = 'w'")
    db.execute(
        "delete from remem.posting where workspace_key = remem._workspace_key('w')"
        " and memory_no % 2 = 0"
    )
    rebuild(db, "entities", 1000)
    rebuild(db, "postings", 1000)
    assert contents() == before
    assert problems(db) == []


@pytest.mark.covers("ME16")
def test_a_rebuild_analyses_anew_and_counts_follow(db: Connection) -> None:
    remember(db, "w", "the runners were running", session_ref="s")
    remember(db, "w", "the walkers were walking")
    db.execute("update remem.workspace set language = 'simple', analyser_no = 2")
    assert rebuild(db, "postings") == [2]
    assert posted(db) == {"the", "runners", "were", "running", "walkers", "walking"}
    assert value(db, "select array_agg(distinct analyser_no) from remem.memory") == [2]
    assert problems(db) == []


@pytest.mark.parametrize("what", ["entities", "postings"])
def test_a_rebuild_refuses_what_it_cannot_use_and_voids_caches(db: Connection, what: str) -> None:
    made = remember(db, "w", "we met Bob")
    call = f'select * from remem.rebuild_{what}(%s, %s, "limit" => %s)'
    for limit in (None, 0, 10001):
        with refused("RM001", argument="limit"):
            db.execute(call, ["w", None, limit])
    with refused("RM101", argument="after"):
        db.execute(call, ["w", "00000000-0000-4000-8000-000000000009", 5])
    with refused("RM101", argument="after"):
        db.execute(call, ["v", made.memory_id, 5])
    assert db.execute(call, ["nowhere", None, 5]).fetchone() == (None, 0)
    snapshot = value(db, "select pg_current_snapshot()::text")
    assert db.execute(call, ["w", None, 5]).fetchone() == (made.memory_id, 1)
    assert value(
        db,
        "select bool_or(not pg_visible_in_snapshot(changed_xid, %s::pg_snapshot))"
        " from remem.memory",
        [snapshot],
    )


@pytest.mark.covers("ME6")
def test_a_bulk_load_may_leave_the_vectors_for_later(db: Connection) -> None:
    descriptor = {
        "name": "tiny",
        "backend": "callable",
        "asset": "test",
        "dimensions": 3,
        "pooling": "none",
        "normalization": "none",
        "dtype": "float32",
    }
    db.execute("select remem.register_space(%s)", [Jsonb(descriptor)])
    db.execute("select remem.create_workspace('w')")
    db.execute("select remem.activate_space('tiny', 'w')")
    refs = remember_many(db, "w", [{"body": f"we met Bob, {n}"} for n in range(3)])
    number = value(db, "select space_no from remem.embedding_space where name = 'tiny'")
    assert value(db, f"select count(*) from remem.embedding_{number}") == 0
    assert get(db, "w", memory_id=refs[0].memory_id).body == "we met Bob, 0"
    assert len(pointer(db, "where is Bob?")) == 3
    remember_many(db, "w", [{"body": "we met Bob, 1", "embedding": [1, 0, 0]}])
    assert value(db, f"select count(*) from remem.embedding_{number}") == 1
    assert problems(db) == []
