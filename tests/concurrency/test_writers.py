"""Many writers and readers at once: no error, no deadlock, and every count exact afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.consistency import problems
from tests.support.memories import (
    Connection,
    get,
    recall,
    remember,
    remember_many,
    value,
)

WORDS = [
    "retry",
    "page",
    "deploy",
    "queue",
    "kafka",
    "login",
    "token",
    "schema",
    "index",
    "vacuum",
    "replica",
    "backup",
]
Work = Callable[[Connection, Random, int], None]


def run(db_dsn: str, writers: list[Work], seed: int) -> None:
    """Run every function on a connection of its own, all starting at once; errors fail the test."""
    start = threading.Barrier(len(writers))

    def one(number: int) -> None:
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            start.wait(timeout=30)
            writers[number](conn, Random(seed * 1000 + number), number)

    with ThreadPoolExecutor(len(writers)) as pool:
        for future in [pool.submit(one, number) for number in range(len(writers))]:
            future.result(timeout=300)


def text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(2, 6)))


def item(random: Random, refs: list[str], sessions: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"body": text(random)}
    if random.random() < 0.8:
        made["ref"] = random.choice(refs)
    if random.random() < 0.6:
        made["session_ref"] = random.choice(sessions)
    if random.random() < 0.5:
        made["source_ref"] = f"source:{random.randint(1, 5)}"
    return made


REFS = [f"ref-{n}" for n in range(12)]
SESSIONS = [f"session-{n}" for n in range(4)]


def test_eight_writers_on_the_same_refs_and_sessions_while_others_read(
    db: Connection, db_dsn: str
) -> None:
    done = threading.Event()
    left = [8]
    lock = threading.Lock()

    def write(conn: Connection, random: Random, number: int) -> None:
        try:
            for _ in range(60):
                if random.random() < 0.4:
                    remember(conn, "w", **item(random, REFS, SESSIONS))
                else:
                    items = [item(random, REFS, SESSIONS) for _ in range(random.randint(2, 6))]
                    remember_many(conn, "w", items, random.choice(["abort", "report"]))
        finally:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    done.set()

    def read(conn: Connection, random: Random, number: int) -> None:
        while not done.is_set():
            hits = recall(conn, "w", text(random), k=5)
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            get(conn, "w", ref=random.choice(REFS))
            # One statement, one snapshot: the ledger and the rows agree in the middle of it all.
            row = conn.execute(
                "select remem.count('w'), (select count(*) from remem.memory"
                " where superseded_at is null)"
            ).fetchone()
            assert row is not None
            assert row[0] == row[1]

    run(db_dsn, [write] * 8 + [read] * 2, seed=1)
    assert problems(db) == []
    live = db.execute(
        "select ref, count(*) from remem.memory where ref is not null and superseded_at is null"
        ' group by ref order by ref collate "C"'
    ).fetchall()
    assert live == [(ref, 1) for ref in sorted(REFS)]


@pytest.mark.parametrize("known", [False, True], ids=["new refs", "known refs"])
@pytest.mark.parametrize("size", [150, 1000], ids=["few", "more than the lock table may hold"])
def test_batches_that_name_the_same_refs_in_opposite_order_do_not_deadlock(
    db: Connection, db_dsn: str, known: bool, size: int
) -> None:
    refs = [f"r{n}" for n in range(size)]
    if known:
        remember_many(db, "w", [{"body": f"old {ref}", "ref": ref} for ref in refs])

    def write(conn: Connection, random: Random, number: int) -> None:
        order = refs if number % 2 else refs[::-1]
        remember_many(conn, "w", [{"body": f"{number} {ref}", "ref": ref} for ref in order])

    run(db_dsn, [write] * 2, seed=2)
    assert problems(db) == []
    versions = value(db, "select count(*) from remem.memory")
    assert versions == (3 if known else 2) * len(refs)


def test_batches_that_merge_into_the_same_texts_in_opposite_order_do_not_deadlock(
    db: Connection, db_dsn: str
) -> None:
    texts = [f"fact number {n}" for n in range(150)]
    remember_many(db, "w", [{"body": fact} for fact in texts])

    def write(conn: Connection, random: Random, number: int) -> None:
        order = texts if number % 2 else texts[::-1]
        items = [{"body": fact, "source_ref": f"source:{number}"} for fact in order]
        assert {ref.outcome for ref in remember_many(conn, "w", items)} == {"merged"}

    run(db_dsn, [write] * 4, seed=3)
    assert problems(db) == []
    sources = value(db, "select min(jsonb_array_length(provenance -> 'also')) from remem.memory")
    assert sources == 4


def test_batches_that_name_the_same_sessions_in_opposite_order_do_not_deadlock(
    db: Connection, db_dsn: str
) -> None:
    sessions = [f"s{n}" for n in range(100)]

    def write(conn: Connection, random: Random, number: int) -> None:
        order = sessions if number % 2 else sessions[::-1]
        remember_many(conn, "w", [{"body": f"{number} said so", "session_ref": s} for s in order])

    run(db_dsn, [write] * 4, seed=4)
    assert problems(db) == []
    turns = db.execute(
        "select array_agg(turn_no order by turn_no) from remem.memory group by session_no"
    ).fetchall()
    assert turns == [([1, 2, 3, 4],)] * len(sessions)


def test_staged_loads_of_more_than_a_chunk_do_not_deadlock(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "The workspace is there.")
    staged = threading.Barrier(2)

    def load(conn: Connection, random: Random, number: int) -> None:
        with conn.transaction():
            conn.execute("select remem.stage('w')")
            with conn.cursor().copy("copy pg_temp.remem_staged (item) from stdin") as copy:
                for n in range(700):
                    key, name = ("session_ref", n % 9) if n % 10 else ("ref", n)
                    copy.write_row([Jsonb({"body": f"{number} said {n}", key: f"{number}-{name}"})])
            staged.wait(timeout=60)
            conn.execute("select * from remem.remember_staged('w')")

    run(db_dsn, [load] * 2, seed=6)
    assert problems(db) == []
    assert value(db, "select count(*) from remem.memory") == 1401


def test_memories_that_move_between_sessions_do_not_deadlock(db: Connection, db_dsn: str) -> None:
    def write(conn: Connection, random: Random, number: int) -> None:
        for n in range(80):
            remember(
                conn,
                "w",
                f"{number} {n}",
                ref=random.choice("abc"),
                session_ref=random.choice("xyz"),
            )

    run(db_dsn, [write] * 4, seed=5)
    assert problems(db) == []


def test_one_ref_written_by_eight_at_once_has_one_current_version(
    db: Connection, db_dsn: str
) -> None:
    def write(conn: Connection, random: Random, number: int) -> None:
        for n in range(25):
            assert remember(conn, "w", f"value {number} {n}", ref="the one").outcome in (
                "created",
                "new_version",
            )

    run(db_dsn, [write] * 8, seed=6)
    assert problems(db) == []
    assert value(db, "select remem.count('w')") == 1
    assert value(db, "select count(*) from remem.memory") == 200


def test_a_writer_does_not_wait_for_the_open_transaction_of_one_with_other_refs(
    db: Connection, db_dsn: str
) -> None:
    remember(db, "w", "The workspace is there.")
    with psycopg.connect(db_dsn, autocommit=True) as other, db.transaction():
        remember_many(db, "w", [{"body": "mine", "ref": "a"}, {"body": "a fact"}])
        other.execute("set lock_timeout = '2s'")
        remember_many(other, "w", [{"body": "theirs", "ref": "b"}, {"body": "another fact"}])
    assert value(db, "select remem.count('w')") == 5


def test_one_text_written_by_eight_at_once_is_found_once(db: Connection, db_dsn: str) -> None:
    def write(conn: Connection, random: Random, number: int) -> None:
        remember(conn, "w", "The staging database is called heron.", source_ref=f"chat:{number}")

    run(db_dsn, [write] * 8, seed=7)
    assert problems(db) == []
    (hit,) = recall(db, "w", "what is the staging database called?")
    assert hit.body == "The staging database is called heron."


def test_the_first_memories_of_a_workspace_may_arrive_at_once(db: Connection, db_dsn: str) -> None:
    def write(conn: Connection, random: Random, number: int) -> None:
        remember(conn, "brand new", f"memory {number}", session_ref="s")

    run(db_dsn, [write] * 8, seed=8)
    assert value(db, "select remem.count('brand new')") == 8
    assert value(db, "select count(*) from remem.session") == 1
    assert problems(db) == []


def test_a_switch_of_the_space_and_writers_take_turns(db: Connection, db_dsn: str) -> None:
    """Whoever is first: no memory has a vector in any but the current space of its workspace."""
    spaces = [
        value(db, "select (remem.register_space(%s)).name", [descriptor])
        for descriptor in (
            f'{{"name": "m{n}", "backend": "test", "asset": "asset-{n}", "dimensions": 3}}'
            for n in (1, 2)
        )
    ]

    def write(conn: Connection, random: Random, number: int) -> None:
        for n in range(40):
            ref = remember_many(
                conn,
                f"w{n}",
                [{"body": f"{number} {n}", "embedding": [1, number, n], "space": spaces[0]}],
                "report",
            )[0]
            assert ref.outcome == "created" or (
                ref.error is not None and ref.error["code"] == "RM202"
            )

    def switch(conn: Connection, random: Random, number: int) -> None:
        for n in range(40):
            try:
                conn.execute("select remem.activate_space(%s, %s)", [spaces[number % 2], f"w{n}"])
            except psycopg.Error as error:
                assert error.sqlstate == "RM102", error

    run(db_dsn, [write, write, switch, switch], seed=9)
    assert problems(db) == []
    stray = 0
    for number in value(db, "select array_agg(space_no) from remem.embedding_space"):
        stray += value(
            db,
            f"select count(*) from remem.embedding_{number} e"
            " join remem.workspace w using (workspace) where w.space_no <> %s",
            [number],
        )
    assert stray == 0
