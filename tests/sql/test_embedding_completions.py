"""What becomes of a claimed batch whose vectors came."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.jobs import (
    claim,
    complete,
    coverage,
    expire,
    finish,
    run,
)
from tests.support.memories import Connection, refused, remember, value
from tests.support.planner import put_topic

EXPIRED = "0.1 second"


@pytest.mark.covers("RE19")
def test_a_text_that_changed_while_it_was_claimed_gets_no_vector_of_its_old_self(
    moving: Connection,
) -> None:
    jobs = claim(moving, 2)
    remember(moving, "w", "memory 0, corrected", ref="r0")
    assert complete(moving, jobs) == ["changed", "stored"]
    texts = [job.text for job in claim(moving, 100)]
    assert "memory 0, corrected" in texts
    assert "memory 0" not in texts


def test_a_source_that_is_being_written_counts_as_changed_and_is_not_waited_for(
    moving: Connection, db_dsn: str
) -> None:
    jobs = claim(moving, 2)
    with psycopg.connect(db_dsn) as writer:
        remember(writer, "w", "memory 0, corrected", ref="r0")
        moving.execute("set lock_timeout = '2s'")
        assert complete(moving, jobs) == ["changed", "stored"]
        writer.rollback()
    assert claim(moving, 1)[0].text == "memory 0"


def test_a_topic_that_changed_while_it_was_claimed_comes_back(moving: Connection) -> None:
    complete(moving, claim(moving))
    put_topic(moving, "w", "Retries", summary="before")
    jobs = claim(moving)
    put_topic(moving, "w", "Retries", summary="after")
    assert complete(moving, jobs) == ["changed"]
    (again,) = claim(moving)
    assert again.text == "Retries\nafter"
    assert complete(moving, [again]) == ["stored"]


@pytest.mark.covers("RE20")
def test_a_claim_whose_lease_ended_belongs_to_the_next_worker(moving: Connection) -> None:
    first = claim(moving, 4)
    expire(moving)
    second = claim(moving, 4)
    assert {job.id for job in first} == {job.id for job in second}
    assert complete(moving, first) == ["lost"] * 4
    assert complete(moving, second) == ["stored"] * 4
    found = run(moving, first[0].run_id)
    assert (found["state"], found["over"], found["error"]) == ("failed", True, "interrupted")
    assert found["meta"] == {"recovery": "interrupted run"}
    assert run(moving, second[0].run_id)["state"] == "completed"


def test_a_late_worker_whose_claim_nobody_took_may_still_store(moving: Connection) -> None:
    jobs = claim(moving, 2)
    expire(moving)
    assert complete(moving, jobs) == ["stored", "stored"]


def test_claims_are_lost_to_strangers_and_to_repetition(moving: Connection) -> None:
    jobs = claim(moving, 2)
    stolen = [job._replace(claim_id=uuid.uuid4()) for job in jobs]
    assert complete(moving, stolen) == ["lost", "lost"]
    invented = [jobs[0]._replace(item_no=77)]
    assert complete(moving, invented) == ["lost"]
    assert complete(moving, jobs) == ["stored", "stored"]
    assert complete(moving, jobs) == ["lost", "lost"]
    assert problems(moving) == []


def test_vectors_that_no_space_can_hold_are_refused_one_by_one(moving: Connection) -> None:
    jobs = claim(moving, 5)
    nan, inf = float("nan"), float("inf")
    outcomes = complete(
        moving, jobs, [1, 0, 0], [nan, 0, 0], [0, inf, 0], [0, 0, 0], [1e-30, 1e30, 3e38]
    )
    assert outcomes == ["stored", "refused", "refused", "empty", "stored"]
    found = coverage(moving)[1]
    assert (found.embedded, found.waiting, found.empty, found.pending) == (2, 2, 1, 7)
    norms = moving.execute(
        "select round(vector_norm(embedding::vector)::numeric, 2) from remem.embedding_2"
    ).fetchall()
    assert norms == [(1,), (1,)]


def test_an_empty_text_is_not_asked_for_again_and_holds_nothing_up(moving: Connection) -> None:
    jobs = claim(moving)
    complete(moving, jobs, *[[0, 0, 0]] * 2, *[[1, 0, 0]] * 8)
    assert claim(moving) == []
    assert finish(moving)
    assert coverage(moving)[0].pending == 0
    with psycopg.connect(moving.info.dsn, autocommit=True):
        hits = moving.execute(
            "select degraded from remem.recall('w', 'memory 1', array[1,0,0]::real[])"
        ).fetchall()
    assert hits[0] == ([],)


@pytest.mark.parametrize(
    "arguments",
    [
        (None, [1], [1.0, 0.0, 0.0]),
        ("00000000-0000-4000-8000-000000000001", None, [1.0]),
        ("00000000-0000-4000-8000-000000000001", [1], None),
        ("00000000-0000-4000-8000-000000000001", [1, 1], [1.0] * 6),
        ("00000000-0000-4000-8000-000000000001", [1, None], [1.0] * 6),
        ("00000000-0000-4000-8000-000000000001", [[1, 2], [3, 4]], [1.0] * 12),
        ("00000000-0000-4000-8000-000000000001", list(range(1001)), [1.0]),
    ],
    ids=["no claim", "no items", "no vectors", "twice", "null", "nested", "too many"],
)
def test_a_completion_that_says_nothing_is_refused(
    moving: Connection, arguments: tuple[Any, ...]
) -> None:
    with refused("RM001"):
        moving.execute(
            "select remem.complete_embeddings('w', %s::uuid, %s::int[], %s::real[])", arguments
        )


def test_vectors_may_come_as_rows_of_one_array(moving: Connection) -> None:
    jobs = claim(moving, 2)
    found = moving.execute(
        "select outcome from remem.complete_embeddings('w', %s, '{1,2}', '{{1,0,0},{0,1,0}}')",
        [jobs[0].claim_id],
    ).fetchall()
    assert found == [("stored",), ("stored",)]
    assert value(moving, "select count(distinct embedding::text) from remem.embedding_2") == 2
