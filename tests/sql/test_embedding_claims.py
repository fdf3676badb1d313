"""Claims: bounded batches that belong to one worker, what they cost and who may have them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.jobs import (
    claim,
    complete,
    coverage,
    drain,
    due,
    fail,
    finish,
    register,
    start,
)
from tests.support.memories import Connection, refused, remember, remember_many, value
from tests.support.planner import put_provider, put_topic
from tests.support.plans import nodes, plans

EXPIRED = "0.1 second"


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
    # Claims know one vector of each entry: that of the title stays listed.
    listed = moving.execute("select text from remem.catalog_without_embedding('w')").fetchall()
    assert listed == [("Retries",)]


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
