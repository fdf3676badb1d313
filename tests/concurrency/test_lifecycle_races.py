"""Changes of the same memories at once: one wins, the other learns it, nothing deadlocks."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random
from typing import Any

import psycopg
import pytest

from tests.concurrency.test_writers import REFS, SESSIONS, item, run, text
from tests.support.consistency import problems
from tests.support.lifecycle import change, history, rows
from tests.support.memories import Connection, get, recall, remember, remember_many, value


@pytest.mark.parametrize("seed", range(2))
def test_one_of_eight_that_supersede_a_memory_wins_and_the_others_learn_it(
    db: Connection, db_dsn: str, seed: int
) -> None:
    old = remember(db, "w", "The old one.").memory_id
    new = [remember(db, "w", f"Number {n}.").memory_id for n in range(8)]
    said: list[Any] = []

    def supersede(conn: Connection, random: Random, number: int) -> None:
        said.append(change(conn, "supersede", "w", old=old, new=new[number]))

    run(db_dsn, [supersede] * 8, seed)
    assert Counter(reply.outcome for reply in said) == {"superseded": 1, "conflict": 7}
    winner = get(db, "w", memory_id=old).superseded_by
    told = {reply.error["detail"]["replaced_by"] for reply in said if reply.error}
    assert told == {str(winner)}
    assert problems(db) == []


@pytest.mark.parametrize("key", ["memory_id", "ref"])
def test_of_eight_corrections_none_is_lost_unsaid(db: Connection, db_dsn: str, key: str) -> None:
    first = remember(db, "w", "Version zero.", ref="r")
    given = {key: getattr(first, key)}
    said: list[Any] = []

    def correct(conn: Connection, random: Random, number: int) -> None:
        said.append(change(conn, "correct", "w", body=f"Version of {number}.", **given))

    run(db_dsn, [correct] * 8, seed=1)
    outcomes = Counter(reply.outcome for reply in said)
    assert set(outcomes) <= {"corrected", "conflict"}
    assert outcomes["corrected"] >= 1
    assert key == "ref" or outcomes["corrected"] == 1
    assert len(history(db, "w", ref="r")) == 1 + outcomes["corrected"]
    assert problems(db) == []


def test_two_that_supersede_each_other_do_not_deadlock(db: Connection, db_dsn: str) -> None:
    pairs = [
        (remember(db, "w", f"left {n}").memory_id, remember(db, "w", f"right {n}").memory_id)
        for n in range(30)
    ]
    said: list[Any] = []

    def supersede(conn: Connection, random: Random, number: int) -> None:
        for pair in pairs:
            old, new = pair if number % 2 else pair[::-1]
            said.append(change(conn, "supersede", "w", old=old, new=new).outcome)

    run(db_dsn, [supersede] * 2, seed=2)
    assert Counter(said) == {"superseded": 30, "conflict": 30}
    assert problems(db) == []


def test_forgetting_while_others_write_new_versions(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "start", ref="r")

    def write(conn: Connection, random: Random, number: int) -> None:
        for n in range(25):
            remember(conn, "w", f"value {number} {n}", ref="r", on_conflict="rewrite")

    def forget(conn: Connection, random: Random, number: int) -> None:
        for _ in range(25):
            try:
                reply = change(conn, "forget", "w", ref="r")
                assert reply.outcome in ("forgotten", "unchanged", "conflict"), reply
            except psycopg.Error as error:
                assert error.sqlstate == "RM101"

    run(db_dsn, [write, write, forget, forget], seed=3)
    assert problems(db) == []


def test_bulk_forgetting_and_writers_of_the_same_rows_do_not_deadlock(
    db: Connection, db_dsn: str
) -> None:
    refs = [f"r{n}" for n in range(500)]
    items = [{"body": f"old {r}", "ref": r, "session_ref": f"s{r[-1]}"} for r in refs]
    remember_many(db, "w", items)

    def write(conn: Connection, random: Random, number: int) -> None:
        for order in (refs, refs[::-1]):
            remember_many(conn, "w", [{"body": f"{number} {r}", "ref": r} for r in order])

    def forget(conn: Connection, random: Random, number: int) -> None:
        for _ in range(3):
            rows(conn, "forget_where", "w", filter="1 == 1", preview=False)

    run(db_dsn, [write, write, forget, forget], seed=4)
    assert problems(db) == []


@pytest.mark.parametrize("seed", range(3))
def test_everything_at_once(db: Connection, db_dsn: str, seed: int) -> None:
    """8 writers of every kind on the same few refs and sessions, and readers beside them."""
    remember_many(db, "w", [{"body": f"start {ref}", "ref": ref} for ref in REFS])
    done = threading.Event()
    left = [8]
    lock = threading.Lock()
    outcomes: Counter[str] = Counter()

    def one(conn: Connection, random: Random) -> str:
        move = random.choices(
            ["remember", "correct", "supersede", "forget", "unforget", "purge", "pin", "relate",
             "forget_where", "resolve", "topic"],
            [8, 4, 3, 4, 4, 1, 2, 2, 1, 1, 1],
        )[0]  # fmt: skip
        ref = random.choice(REFS)
        if move == "remember":
            items = [item(random, REFS, SESSIONS) for _ in range(random.randint(1, 4))]
            made: dict[str, Any] = {"on_conflict": "rewrite", "topic_key": random.choice(REFS)}
            return remember_many(conn, "w", [i | made for i in items])[0].outcome
        if move == "correct":
            return change(conn, "correct", "w", body=text(random), ref=ref).outcome
        if move in ("supersede", "relate"):
            pair = [get(conn, "w", ref=r) for r in random.sample(REFS, 2)]
            if None in pair:
                return "nobody"
            ids = [row.memory_id for row in pair]
            if move == "supersede":
                return change(conn, "supersede", "w", old=ids[0], new=ids[1]).outcome
            conn.execute("select remem.relate('w', %s, %s)", ids)
            return "related"
        if move == "forget_where":
            rows(conn, "forget_where", "w", filter=f'$.ref == "{ref}"', preview=False)
            return "forgotten"
        if move == "topic":
            conn.execute("select remem.put_topic('w', %s, source => 'test')", [ref])
            return "topic"
        return change(conn, move, "w", ref=ref).outcome

    def write(conn: Connection, random: Random, number: int) -> None:
        try:
            for _ in range(40):
                try:
                    outcome = one(conn, random)
                except psycopg.Error as error:
                    if error.sqlstate != "RM101":  # gone meanwhile
                        raise
                    outcome = "RM101"
                with lock:
                    outcomes[outcome] += 1
        finally:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    done.set()

    def read(conn: Connection, random: Random, number: int) -> None:
        while not done.is_set():
            hits = recall(conn, "w", text(random), k=5)
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            history(conn, "w", ref=random.choice(REFS))

    run(db_dsn, [write] * 8 + [read] * 2, seed)
    assert problems(db) == []
    assert {"corrected", "superseded", "forgotten", "unforgotten", "purged"} <= set(outcomes)
    assert value(db, "select count(*) from remem.tally where rows_delta is null") == 0


def test_a_purge_waits_for_a_writer_and_sees_what_it_left(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "zyzzyva one", ref="r")
    purged: list[Any] = []
    with psycopg.connect(db_dsn, autocommit=True) as writer, psycopg.connect(db_dsn) as purger:
        with writer.transaction():
            remember(writer, "w", "zyzzyva two", ref="r")
            thread = threading.Thread(
                target=lambda: purged.append(change(purger, "purge", "w", ref="r"))
            )
            thread.start()
            while not value(db, "select exists (select from pg_locks where not granted)"):
                pass
        thread.join(timeout=30)
        purger.commit()
    assert purged[0].outcome == "purged"
    assert value(db, "select count(*) from remem.memory") == 0
    assert problems(db) == []
