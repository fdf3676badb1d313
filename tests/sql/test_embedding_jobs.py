"""Claims: bounded batches that belong to one worker, and what becomes of them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.jobs import (
    Job,
    claim,
    complete,
    coverage,
    drain,
    finish,
    register,
    start,
)
from tests.support.memories import Connection, refused, remember, remember_many, value
from tests.support.planner import put_provider, put_topic
from tests.support.plans import nodes, plans

EXPIRED = "0.1 second"


@pytest.fixture
def moving(db: Connection) -> Connection:
    """Ten memories on their way to a space of three dimensions."""
    remember_many(db, "w", [{"body": f"memory {n}", "ref": f"r{n}"} for n in range(10)])
    register(db)
    start(db)
    return db


def expire(conn: Connection) -> None:
    """As if the leases of all claims had ended."""
    conn.execute(
        "update remem.embedding_claim set due_at = now() - interval '1 minute'"
        " where state = 'claimed'"
    )
    conn.execute("update remem.job_run set lease_until = now() - interval '1 minute'")


def due(conn: Connection) -> None:
    """As if the time of all that waits had come."""
    conn.execute("update remem.embedding_claim set due_at = now() where state = 'waiting'")


def run(conn: Connection, run_id: uuid.UUID) -> dict[str, Any]:
    row = conn.execute(
        "select state, claimed, embedded, failed, last_error, completed_at is not null, metadata"
        " from remem.embedding_runs('w') where run_id = %s",
        [run_id],
    ).fetchone()
    assert row is not None
    return dict(
        zip(("state", "claimed", "embedded", "failed", "error", "over", "meta"), row, strict=True)
    )


# -- claiming -------------------------------------------------------------------------------------


@pytest.mark.covers("RE17", "RE18")
def test_a_claim_takes_a_bounded_batch_of_the_oldest_with_text_and_identity(
    moving: Connection,
) -> None:
    jobs = claim(moving, 3)
    assert [(job.kind, job.text, job.item_no) for job in jobs] == [
        ("memory", f"memory {n}", n + 1) for n in range(3)
    ]
    assert len({job.claim_id for job in jobs}) == 1
    for job in jobs:
        found = moving.execute(
            "select encode(sha256(convert_to(%s, 'UTF8')), 'hex'), (m.r).body"
            " from (select remem.get('w', %s::uuid) as r) m",
            [job.text, job.id],
        ).fetchone()
        assert found == (job.content_hash, job.text)
    assert [job.text for job in claim(moving, 100)] == [f"memory {n}" for n in range(3, 10)]
    assert claim(moving) == []


def test_workers_that_claim_at_once_get_different_rows_and_wait_for_nobody(
    moving: Connection, db_dsn: str
) -> None:
    with psycopg.connect(db_dsn) as first, psycopg.connect(db_dsn) as second:
        second.execute("set lock_timeout = '2s'")
        one, two = claim(first, 4), claim(second, 4)  # both transactions are open
        assert {job.id for job in one}.isdisjoint(job.id for job in two)
        assert (len(one), len(two)) == (4, 4)
        first.rollback()
        second.commit()
    assert len(claim(moving)) == 6  # what was rolled back is there again


@pytest.mark.covers("RE13")
def test_many_workers_embed_everything_once(db: Connection, db_dsn: str) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(200)])
    register(db)
    start(db)
    seen: list[str] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with psycopg.connect(db_dsn, autocommit=True) as conn:
                while jobs := claim(conn, 7):
                    outcomes = complete(conn, jobs)
                    assert set(outcomes) <= {"stored", "changed"}  # changed: held by a claimer
                    seen.extend(
                        job.id for job, said in zip(jobs, outcomes, strict=True) if said == "stored"
                    )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(seen) == len(set(seen)) == 200 - drain(db)
    assert finish(db)
    assert problems(db) == []


def test_a_row_that_a_writer_holds_is_passed_over_and_found_later(
    moving: Connection, db_dsn: str
) -> None:
    with psycopg.connect(db_dsn) as writer:
        remember(writer, "w", "memory 4, corrected", ref="r4")
        jobs = claim(moving, 100)
        assert len(jobs) == 9
        complete(moving, jobs)
        writer.commit()
    assert [job.text for job in claim(moving)] == ["memory 4, corrected"]


def test_a_row_with_a_lower_number_that_commits_later_is_found(
    moving: Connection, db_dsn: str
) -> None:
    with psycopg.connect(db_dsn) as slow:
        remember(slow, "w", "written first, committed last")
        remember(moving, "w", "written last, committed first")
        assert drain(moving) == 11
        slow.commit()
    assert [job.text for job in claim(moving)] == ["written first, committed last"]


def test_topics_and_providers_are_embedded_too(moving: Connection) -> None:
    put_topic(moving, "w", "Retries", summary="How often")
    put_provider(moving, "w", "notes", name="Team notes")
    assert coverage(moving)[1].total == 12
    drain_memories = claim(moving, 100)
    complete(moving, drain_memories)
    assert not finish(moving)
    jobs = claim(moving)
    assert [(job.kind, job.text) for job in jobs] == [
        ("topic", "Retries\nHow often"),
        ("provider", "Team notes"),
    ]
    assert complete(moving, jobs) == ["stored", "stored"]
    assert claim(moving) == []
    assert finish(moving)
    assert value(moving, "select count(*) from remem.catalog_without_embedding('w')") == 0


def test_a_claim_without_a_move_fills_the_current_space(db: Connection) -> None:
    register(db)
    db.execute("select remem.activate_space('new')")
    remember(db, "w", "has a vector", embedding=[1, 0, 0])
    remember(db, "w", "has none")
    (job,) = claim(db)
    assert job.text == "has none"
    assert complete(db, [job]) == ["stored"]
    assert claim(db) == []
    assert claim(db, workspace="a workspace that does not exist") == []


def test_a_batch_of_long_texts_is_bounded_in_bytes(db: Connection) -> None:
    register(db)
    db.execute("select remem.activate_space('new')")
    for n in range(12):
        remember(db, "w", f"{n} " + "word " * 180_000)
    sizes = []
    while jobs := claim(db, 100):
        sizes.append(len(jobs))
        complete(db, jobs)
    assert sum(sizes) == 12
    assert max(sizes) <= 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"n": 1001},
        {"n": None},
        {"lease": "0 seconds"},
        {"lease": "-1 hour"},
        {"lease": "2 days"},
    ],
    ids=str,
)
def test_a_claim_without_bounds_is_refused(moving: Connection, wrong: dict[str, Any]) -> None:
    with refused("RM001", argument="lease" if "lease" in wrong else "limit"):
        claim(moving, **wrong)


# -- completing -----------------------------------------------------------------------------------


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


# -- failing --------------------------------------------------------------------------------------


def fail(conn: Connection, job: Job, error: str = "TimeoutError", **more: Any) -> int:
    return int(
        value(
            conn,
            "select remem.fail_embeddings('w', %s, %s, %s, retry_after => %s::interval)",
            [job.claim_id, error, more.get("items"), more.get("after")],
        )
    )


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


# -- what it costs, and who may -------------------------------------------------------------------


@pytest.mark.parametrize("analysed", [True, False])
def test_jobs_read_memories_by_their_key_whatever_the_statistics_say(
    moving: Connection, su: Connection, analysed: bool
) -> None:
    su.execute("alter table remem.memory set (autovacuum_enabled = off)")
    su.execute(
        "insert into remem.memory (workspace, kind, scope, body, source_class, attrs, fingerprint,"
        " content_hash, doc_len, lexemes, analyser_no)"
        " select 'w', 'semantic', 'global', 'raw ' || n,"
        " 'unspecified', '{}', sha256(n::text::bytea), sha256(n::text::bytea), 2, '{}', 1"
        " from generate_series(1, 4000) n"
    )
    su.execute("insert into remem.tally values ('w', 0, 4000, 8000)")
    if analysed:
        su.execute("analyze")
    with plans(su) as seen:
        for _ in range(7):  # the sixth call may take a plan that is kept
            complete(su, claim(su, 5))
        coverage(su)
    read = {
        (node["Node Type"], node.get("Index Name"))
        for entry in seen
        for node in nodes(entry["Plan"])
        if node.get("Relation Name") == "memory"
    }
    assert read == {("Index Scan", "memory_pkey")}


def test_the_cursor_keeps_a_claim_from_walking_over_finished_rows(
    moving: Connection, su: Connection
) -> None:
    complete(moving, claim(moving, 6))
    with plans(su, log_analyze="on") as seen:
        claim(su, 2)
    read = [
        node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        for entry in seen
        if "order by m.memory_no limit" in entry["Query Text"]
        for node in nodes(entry["Plan"])
        if node.get("Relation Name") == "memory"
    ]
    assert read
    assert max(read) <= 3


def test_a_worker_embeds_and_does_not_write_or_administer(
    moving: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    role = make_role()
    moving.execute("select remem.grant_access(%s, 'w', 'worker')", [role])
    worker = connect(role)
    assert drain(worker) == 10
    assert finish(worker)
    assert value(worker, "select remem.drop_space('hash', 'w')") == "emptied"
    for forbidden in (
        "select remem.remember('w', 'x')",
        "select remem.start_reembed('w', 'hash')",
        "select remem.cancel_reembed('w')",
        "select remem.activate_space('hash', 'w')",
        "select remem.drop_space('new')",
        "select remem.claim_embeddings('v')",
        "select * from remem.embedding_claim",
    ):
        with pytest.raises(psycopg.Error) as error:
            worker.execute(forbidden)  # type: ignore[arg-type]
        assert error.value.sqlstate in ("RM301", "42501"), forbidden


def test_a_claim_of_one_workspace_opens_nothing_in_another(
    moving: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    remember(moving, "v", "a secret")
    role = make_role()
    moving.execute("select remem.grant_access(%s, 'v', 'worker')", [role])
    jobs = claim(moving, 2)
    stranger = connect(role)
    assert complete(stranger, jobs, workspace="v") == ["lost", "lost"]
    assert (
        value(stranger, "select remem.release_claims('v', claim_id => %s)", [jobs[0].claim_id]) == 0
    )
    assert complete(moving, jobs) == ["stored", "stored"]


def test_the_workspaces_with_work_are_those_that_the_caller_may_work_in(
    moving: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    remember(moving, "v", "complete")
    remember(moving, "u", "moving too")
    start(moving, "u")

    def work(conn: Connection, space: str | None = None) -> list[str]:
        return [row[0] for row in conn.execute("select remem.embedding_work(%s)", [space])]

    assert work(moving) == work(moving, "new") == ["u", "w"]
    role = make_role()
    moving.execute("select remem.grant_access(%s, 'u', 'worker')", [role])
    worker = connect(role)
    assert work(worker) == ["u"]
    worker.execute("set remem.workspace = 'w'")
    assert work(worker) == []
    drain(moving)
    finish(moving)
    drain(moving, "u")
    finish(moving, "u")
    assert work(moving) == []
    with refused("RM202"):
        work(moving, "unheard of")


def test_what_is_purged_leaves_no_claim_and_what_is_brought_back_is_found(
    moving: Connection,
) -> None:
    jobs = claim(moving, 4)
    fail(moving, jobs[0])
    moving.execute("select remem.purge('w', ref => 'r0')")
    moving.execute("select remem.forget('w', ref => 'r1')")
    assert value(moving, "select count(*) from remem.embedding_claim where source = '1'") == 0
    due(moving)
    assert drain(moving) == 8
    moving.execute("select remem.unforget('w', ref => 'r1')")
    assert [job.text for job in claim(moving)] == ["memory 1"]
    moving.execute("select remem.drop_workspace('w')")
    for table in ("embedding_claim", "embedding_cursor", "job_run"):
        assert value(moving, f"select count(*) from remem.{table}") == 0
