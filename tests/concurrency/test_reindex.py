"""Analysing memories anew while others write, forget and recall; and a job that is killed."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import psycopg
import pytest

from tests.concurrency.test_writers import REFS, SESSIONS, item, run, text
from tests.support.consistency import problems
from tests.support.lifecycle import change
from tests.support.memories import Connection, bodies, recall, remember, remember_many, value


def reindex(conn: Connection, budget: str = "20 milliseconds") -> dict[str, Any]:
    return dict(value(conn, "select to_jsonb(remem.reindex_text('w', %s::interval))", [budget]))


def fill(db: Connection, count: int = 600) -> None:
    remember_many(
        db,
        "w",
        [
            {"body": f"Rechnung {n} wurde bezahlt", "ref": f"n{n}", "session_ref": f"s{n % 5}"}
            for n in range(count)
        ],
    )


@pytest.mark.parametrize("seed", range(2))
def test_jobs_writers_and_changes_of_language_at_once(
    db: Connection, db_dsn: str, seed: int
) -> None:
    remember_many(db, "w", [{"body": f"start {ref}", "ref": ref} for ref in REFS])
    fill(db, 300)
    done = threading.Event()
    left = [5]
    lock = threading.Lock()

    def leave() -> None:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                done.set()

    def write(conn: Connection, random: Random, number: int) -> None:
        try:
            for _ in range(60):
                move = random.random()
                ref = random.choice(REFS)
                try:
                    if move < 0.4:
                        items = [item(random, REFS, SESSIONS) for _ in range(4)]
                        remember_many(conn, "w", items, "report")
                    elif move < 0.6:
                        change(conn, "correct", "w", ref=ref, body=text(random))
                    elif move < 0.8:
                        change(conn, "forget", "w", ref=ref)
                    elif move < 0.95:
                        change(conn, "unforget", "w", ref=ref)
                    else:
                        change(conn, "forget", "w", ref=f"n{random.randrange(300)}")
                except psycopg.Error as error:
                    if error.sqlstate != "RM101":  # gone meanwhile
                        raise
        finally:
            leave()

    def turn(conn: Connection, random: Random, number: int) -> None:
        try:
            for language in ("german", "french", "english", "german", "simple", "german"):
                value(conn, "select remem.set_language('w', %s)", [language])
                for _ in range(6):
                    reindex(conn)
        finally:
            leave()

    def job(conn: Connection, random: Random, number: int) -> None:
        while not done.is_set():
            if reindex(conn)["done"]:
                done.wait(0.02)

    def read(conn: Connection, random: Random, number: int) -> None:
        while not done.is_set():
            hits = recall(conn, "w", text(random) + " Rechnung", k=5)
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))

    run(db_dsn, [write] * 4 + [turn] + [job] * 2 + [read] * 2, seed)
    while not reindex(db)["done"]:
        pass
    assert value(db, "select text_index from remem.list_workspaces()") == "current"
    assert value(db, "select language from remem.list_workspaces()") == "german"
    assert problems(db) == []


def test_writers_and_readers_do_not_wait_for_a_call_that_is_under_way(
    db: Connection, db_dsn: str
) -> None:
    fill(db, 50)
    db.execute("select remem.set_language('w', 'german')")
    with psycopg.connect(db_dsn) as job:
        assert reindex(job)["reindexed"] == 50
        # Nothing is committed yet: whoever waited would run into the timeout.
        db.execute("set lock_timeout = '5s'")
        remember(db, "w", "Noch eine Rechnung.")
        assert remember(db, "w", "Im neuen Gespräch.", session_ref="other").outcome == "created"
        assert "Noch eine Rechnung." in bodies(recall(db, "w", "Rechnungen", mode="lexical", k=100))
        job.commit()
    assert problems(db) == []


def test_a_job_passes_over_what_a_writer_holds_and_takes_it_later(
    db: Connection, db_dsn: str
) -> None:
    remember_many(db, "w", [{"body": f"Rechnung {n}", "ref": f"n{n}"} for n in range(5)])
    db.execute("select remem.set_language('w', 'german')")
    with psycopg.connect(db_dsn) as writer:
        change(writer, "pin", "w", ref="n2")
        report = reindex(db)
        assert (report["done"], report["reindexed"]) == (False, 4)
        assert reindex(db)["reindexed"] == 0
        writer.commit()
    report = reindex(db)
    assert (report["done"], report["reindexed"]) == (True, 1)
    assert problems(db) == []


def test_a_job_that_is_killed_in_the_middle_goes_on_where_it_was(
    db: Connection, db_dsn: str, su: Connection
) -> None:
    fill(db)
    db.execute("select remem.set_language('w', 'german')")
    first = reindex(db, "1 millisecond")
    assert not first["done"]
    victim = psycopg.connect(db_dsn)
    reindex(victim, "1 millisecond")  # not committed
    su.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        victim.execute("select 1")
    row = su.execute("select reindexed_to is not null from remem.workspace").fetchone()
    assert row == (True,)
    done = first["reindexed"]
    while True:
        report = reindex(db)
        done += report["reindexed"]
        if report["done"]:
            break
    assert done == 600, "what the killed call had not committed is done once more, nothing else"
    assert report["run_id"] == first["run_id"]
    assert problems(db) == []
    runs = db.execute("select state, embedded from remem.embedding_runs('w')").fetchall()
    assert runs == [("completed", 600)]


def test_a_change_of_language_waits_for_writers_of_the_old_one(db: Connection, db_dsn: str) -> None:
    """A row that a writer had not committed yet would otherwise stay of the old language."""
    fill(db, 5)
    with psycopg.connect(db_dsn) as writer:
        remember(writer, "w", "Die späte Rechnung.")
        changed: list[Any] = []

        def turn() -> None:
            with psycopg.connect(db_dsn, autocommit=True) as conn:
                changed.append(value(conn, "select remem.set_language('w', 'german')"))

        thread = threading.Thread(target=turn)
        thread.start()
        while not value(db, "select exists (select from pg_locks where not granted)"):
            pass
        writer.commit()
        thread.join(timeout=30)
    assert changed == [True]
    assert reindex(db, "5 seconds")["reindexed"] == 6
    assert problems(db) == []
