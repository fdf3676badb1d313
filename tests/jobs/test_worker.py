"""Workers: processes that look for work, share it, stop when told, and may die at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remem_pg import EmbeddingUnavailable, NoAccess, Remem, Worker
from tests.support.consistency import problems
from tests.support.jobs import Shares, coverage, current, drain, register, start, stored
from tests.support.memories import Connection, remember, remember_many, value
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from remem_pg import Remem, Worker
from tests.support.jobs import Shares
with Remem(sys.argv[1], workspace="w", embedding=Shares("new", 1)) as memory:
    worker = Worker(memory, poll=0.1, batch_size=5, lease=0.4)
    print("ready", flush=True)
    worker.run()
"""


def begin(new: Remem) -> None:
    """Starts the move to the new model and embeds one text."""
    new.reembed(limit=1, batch_size=1)


def as_stored(model: Shares, text: str) -> Any:
    vector = model.embed([text])[0]
    return pytest.approx(list(vector / (vector @ vector) ** 0.5), abs=1e-3)


@pytest.fixture
def spawn(db_dsn: str) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a worker process, which is killed at the end if it still lives."""
    children: list[subprocess.Popen[str]] = []

    def start_one() -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, db_dsn], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield start_one
    for child in children:
        child.kill()
        child.wait()


def test_a_worker_finishes_what_was_begun_and_nothing_else(
    old: Remem, new: Remem, db: Connection
) -> None:
    assert Worker(new).run(once=True).claimed == 0  # nobody asked for the new space
    assert current(db) == "old"
    begin(new)
    report = Worker(new, batch_size=4).run(once=True)
    assert (report.reembedded, report.activated, report.errors) == (29, ["w"], {})
    assert current(db) == "new"
    assert problems(db) == []


def test_a_worker_embeds_what_arrives_without_a_vector(
    old: Remem, db: Connection, db_dsn: str
) -> None:
    worker = Worker(old, poll=0.1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        remember(db, "w", "written by a program without a model")
        assert [c.pending for c in coverage(db)] == [1]
        until(lambda: [c.pending for c in coverage(db)] == [0])
    finally:
        worker.stop()
        thread.join(10)
    assert not thread.is_alive()
    assert "written by a program without a model" in stored(db, "old")


def test_a_worker_for_all_works_where_its_role_may(
    old: Remem, db: Connection, make_role: Any, server: Any, database: str
) -> None:
    for name in ("u", "v"):
        db.execute("select remem.activate_space('old', %s)", [name])
        remember(db, name, f"in {name}")
    role = make_role()
    for name in ("u", "w"):
        db.execute("select remem.grant_access(%s, %s, 'worker')", [role, name])
    remember(db, "w", "in w")
    with Remem(server.dsn(role, database), workspace="w", embedding=Shares("old", 0)) as memory:
        heard: list[str] = []
        report = Worker(memory, everything=True, heard=lambda name, result: heard.append(name)).run(
            once=True
        )
    assert (report.reembedded, sorted(heard)) == (2, ["u", "w"])
    assert [c.pending for c in coverage(db, "v")] == [1]


def test_a_worker_without_a_grant_or_a_model_says_so_at_once(
    old: Remem, make_role: Any, server: Any, database: str, db_dsn: str
) -> None:
    dsn = server.dsn(make_role(), database)
    with (
        Remem(dsn, workspace="w", embedding=Shares("old", 0)) as memory,
        pytest.raises(NoAccess),
    ):
        Worker(memory).run()
    with (
        Remem(db_dsn, workspace="w", embedding=None) as memory,
        pytest.raises(EmbeddingUnavailable),
    ):
        Worker(memory).run()


@pytest.mark.covers("RE20")
def test_a_failing_model_is_waited_for_and_does_not_end_the_worker(
    old: Remem, db: Connection, db_dsn: str
) -> None:
    model = Shares("old", 0)
    model.bad = {"memory"}
    remember(db, "w", "memory without a vector")
    with Remem(db_dsn, workspace="w", embedding=model) as memory:
        worker = Worker(memory, poll=0.1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            until(lambda: worker.report.errors.get("EmbeddingUnavailable", 0) > 1)
            model.bad = set()
            until(lambda: [c.pending for c in coverage(db)] == [0])
        finally:
            worker.stop()
            thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_cleanly_on_a_signal_and_holds_nothing(
    db: Connection, db_dsn: str, sign: signal.Signals
) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(5)])
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from remem_pg.cli import main; main()",
            *("worker", "--dsn", db_dsn, "-w", "w", "--embedding", "hash", "--poll", "0.1"),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert "started" in child.stderr.readline()
    child.send_signal(sign)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, "Traceback" in err) == (0, False)
    assert "embedded in" in out
    assert value(db, "select count(*) from remem.embedding_claim where state = 'claimed'") == 0


@pytest.mark.covers("RE18", "RE20", "RE31")
def test_workers_killed_at_random_leave_one_true_vector_for_each_memory(
    old: Remem, new: Remem, su: Connection, db_dsn: str, spawn: Any
) -> None:
    old.remember_many([{"body": f"more {n}", "ref": f"m{n}"} for n in range(150)])
    begin(new)
    randoms = random.Random(5)
    for turn in range(20):
        child = spawn()
        time.sleep(randoms.uniform(0.01, 0.25))
        old.remember(f"more {turn}, while it worked", ref=f"m{turn}")
        child.send_signal(signal.SIGKILL)
        child.wait()
    # until the leases of the dead have ended, also of one that died after the switch
    held = "select count(*) from remem.embedding_claim where state = 'claimed'"
    until(
        lambda: (
            Worker(new, poll=0.1, lease=0.4).run(once=True).claimed == 0
            and current(su) == "new"
            and value(su, held) == 0
        )
    )
    model, vectors = Shares("new", 1), stored(su, "new")
    live = value(su, "select remem.count('w')")
    assert len(vectors) == live
    for text, vector in vectors.items():
        assert vector == as_stored(model, text)
    states = {row[0] for row in su.execute("select state from remem.embedding_runs('w', 1000)")}
    assert "started" not in states
    assert problems(su) == []


@pytest.mark.parametrize("wrong", [{"poll": 0}, {"poll": float("nan")}, {"lease": 1e9}], ids=str)
def test_a_worker_with_impossible_times_is_refused(old: Remem, wrong: dict[str, float]) -> None:
    from remem_pg import InvalidArgument

    with pytest.raises(InvalidArgument):
        Worker(old, **wrong)  # type: ignore[arg-type]


def test_plain_sql_is_enough(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(3)])
    register(db)
    start(db)
    assert drain(db) == 3
    assert value(db, "select (remem.finish_reembed('w')).activated")
