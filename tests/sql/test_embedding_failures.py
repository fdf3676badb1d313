"""What becomes of a claimed batch that failed: another try later, alone, or none."""

from __future__ import annotations

import uuid

import pytest

from tests.support.jobs import (
    claim,
    complete,
    coverage,
    due,
    expire,
    fail,
    finish,
    register,
    run,
    start,
)
from tests.support.memories import Connection, refused, remember_many, value

EXPIRED = "0.1 second"


def test_a_failure_waits_longer_each_time_and_is_then_set_aside_and_listed(
    moving: Connection,
) -> None:
    complete(moving, claim(moving, 9))
    waits = []
    for _ in range(4):
        (job,) = claim(moving)
        assert fail(moving, job) == 1
        assert claim(moving) == []
        waits.append(
            round(
                value(
                    moving,
                    "select extract(epoch from due_at - clock_timestamp())"
                    " from remem.embedding_claim",
                )
            )
        )
        due(moving)
    assert waits == sorted(waits)
    assert 25 <= waits[0] <= 31
    assert waits[3] > 20 * waits[0]
    (job,) = claim(moving)
    assert job.failures == 4
    fail(moving, job)
    due(moving)
    assert claim(moving) == []
    listed = moving.execute(
        "select space, kind, id, state, failures, last_error, due_at"
        " from remem.embedding_problems('w')"
    ).fetchall()
    assert listed == [("new", "memory", job.id, "set_aside", 5, "TimeoutError", None)]
    assert coverage(moving)[1].set_aside == 1
    assert not finish(moving)  # one in ten is too many
    assert value(moving, "select remem.retry_embeddings('w')") == 1
    assert complete(moving, claim(moving)) == ["stored"]
    assert finish(moving)


def test_one_poisoned_row_in_a_hundred_does_not_hold_a_workspace_back(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(100)])
    register(db)
    start(db)
    complete(db, claim(db, 99))
    for _ in range(5):
        fail(db, claim(db)[0])
        due(db)
    assert finish(db)
    (found,) = coverage(db)
    assert (found.space, found.embedded, found.pending, found.set_aside) == ("new", 99, 0, 1)


def test_some_of_a_batch_may_fail(moving: Connection) -> None:
    jobs = claim(moving)
    assert fail(moving, jobs[0], items=[2, 3, 99]) == 2
    assert complete(moving, jobs)[:4] == ["stored", "lost", "lost", "stored"]
    found = run(moving, jobs[0].run_id)
    assert (found["state"], found["claimed"], found["embedded"], found["failed"]) == (
        "completed",
        10,
        8,
        2,
    )
    assert found["error"] == "TimeoutError"


def test_a_run_in_which_nothing_succeeded_failed(moving: Connection) -> None:
    jobs = claim(moving, 2)
    assert run(moving, jobs[0].run_id)["state"] == "started"
    assert fail(moving, jobs[0]) == 2
    assert run(moving, jobs[0].run_id)["state"] == "failed"


def test_batches_of_one_run_are_counted_together(moving: Connection) -> None:
    run_id = uuid.uuid4()
    for n in (4, 3, 3):
        jobs = claim(moving, n, run_id=run_id)
        assert {job.run_id for job in jobs} == {run_id}
        complete(moving, jobs)
    found = run(moving, run_id)
    assert (found["state"], found["claimed"], found["embedded"]) == ("completed", 10, 10)


def test_a_worker_that_stops_gives_back_what_it_holds(moving: Connection) -> None:
    run_id = uuid.uuid4()
    claim(moving, 3, run_id=run_id)
    claim(moving, 3, run_id=run_id)
    other = claim(moving, 2)
    assert value(moving, "select remem.release_claims('w', run_id => %s)", [run_id]) == 6
    assert value(moving, "select remem.release_claims('w', run_id => %s)", [run_id]) == 0
    assert len(claim(moving, 100)) == 8  # and the two that nobody had taken
    assert value(moving, "select remem.release_claims('w', claim_id => %s)", [other[0].claim_id])
    assert value(moving, "select max(failures) from remem.embedding_claim") == 0
    with refused("RM001"):
        moving.execute("select remem.release_claims('w')")


def test_a_text_that_kills_its_workers_is_tried_alone_and_set_aside(moving: Connection) -> None:
    sizes = []
    while jobs := claim(moving):
        sizes.append(len(jobs))
        if len(jobs) == 1 and jobs[0].text != "memory 5":
            complete(moving, jobs)
        expire(moving)
    assert sizes[:3] == [10, 10, 10]
    assert set(sizes[3:]) == {1}
    assert len(sizes) < 25
    assert moving.execute(
        "select state, abandoned, last_error from remem.embedding_problems('w')"
    ).fetchall() == [("set_aside", 10, "abandoned")]
    assert coverage(moving)[1].embedded == 9


@pytest.mark.parametrize(
    ("error", "after"), [("", None), (None, None), ("E", "-1 second"), ("E", "2 days")]
)
def test_a_failure_without_a_reason_is_refused(
    moving: Connection, error: str | None, after: str | None
) -> None:
    (job,) = claim(moving, 1)
    with refused("RM001"):
        fail(moving, job, error, after=after)  # type: ignore[arg-type]
