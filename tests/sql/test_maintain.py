"""remem.maintain: what it prunes, sums up and recovers, within its budget and in nobody's way."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.support.jobs import claim, complete, expire
from tests.support.memories import Connection, refused, remember, value
from tests.support.operations import checks, flush, log, maintained, vectors

# Where the first day begins that is not summed up: a day is finished an hour after its end.
DAY = "date_trunc('day', (now() - interval '1 hour') at time zone 'UTC') at time zone 'UTC'"


def days(conn: Connection, workspace: str = "w") -> list[tuple[object, ...]]:
    return conn.execute(
        f"select ({DAY})::date - day, tier, recalls, empty, degraded, failed, p50_ms, max_ms"
        " from remem.recall_day where workspace = %s order by day desc, tier",
        [workspace],
    ).fetchall()


def logged(conn: Connection, workspace: str = "w") -> int:
    return int(
        value(conn, "select count(*) from remem.recall_log where workspace = %s", [workspace])
    )


@pytest.fixture
def used(db: Connection) -> Connection:
    """A workspace that was asked today, yesterday and long ago."""
    db.execute("set time zone 'UTC'")
    remember(db, "w", "We retry three times.")
    log(db, "w", "now()")
    for ms in (10.0, 20.0, 60.0):
        log(db, "w", f"{DAY} - interval '12 hours'", ms=ms)
    log(db, "w", f"{DAY} - interval '12 hours'", tier="hot", ms=1.0, returned=0)
    log(
        db,
        "w",
        f"{DAY} - interval '40 days' + interval '1 minute'",
        degraded="{no_embedding}",
        arms='{"lexical": {"state": "failed"}}',
    )
    return db


def test_without_anything_to_do_it_says_so(db: Connection) -> None:
    rows = db.execute("select task, state, rows, command from remem.maintain()").fetchall()
    tasks = ("claims", "runs", "cache", "words", "recall_day", "recall_log")
    assert rows == [(task, "done", 0, None) for task in tasks]


# -- the log -------------------------------------------------------------------------------------


def test_finished_days_are_summed_up_and_old_rows_are_deleted(used: Connection) -> None:
    found = maintained(used)
    assert (found["recall_day"], found["recall_log"]) == (("done", 3), ("done", 1))
    assert days(used) == [
        (1, "cold", 3, 0, 0, 0, 20.0, 60.0),
        (1, "hot", 1, 1, 0, 0, 1.0, 1.0),
        (40, "cold", 1, 0, 1, 1, 5.0, 5.0),
    ]
    assert logged(used) == 5
    again = maintained(used)
    assert (again["recall_day"], again["recall_log"]) == (("done", 0), ("done", 0))


def test_how_long_the_log_is_kept_is_a_setting(used: Connection) -> None:
    used.execute("select remem.configure('recall_log_days', '60')")
    assert maintained(used)["recall_log"] == ("done", 0)
    used.execute("select remem.configure('recall_log_days', '10')")
    assert maintained(used)["recall_log"] == ("done", 1)
    assert len(days(used)) == 3


@pytest.mark.parametrize("text", ["0", "-1", "forever", "36501", "99999999999", "", "1.5", None])
def test_an_impossible_retention_is_refused(db: Connection, text: str | None) -> None:
    with refused("RM001"):
        db.execute("select remem.configure('recall_log_days', %s)", [text])
    assert value(db, "select remem._recall_log_days()") == 30


def test_a_day_is_summed_up_only_when_nobody_can_add_to_it(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    log(db, "w", "now() - interval '1 minute'")
    assert maintained(db)["recall_day"] == ("done", 0)


def test_the_log_of_a_workspace_that_is_no_more_is_pruned_too(db: Connection) -> None:
    log(db, "never was", "now() - interval '40 days'")
    log(db, "never was", "now() - interval '20 days'")
    found = maintained(db)
    assert (found["recall_day"], found["recall_log"]) == (("done", 0), ("done", 1))
    assert logged(db, "never was") == 1


@pytest.mark.parametrize("total", ["1e400", "-1e400", "1e-400", "3"])
def test_whatever_number_a_client_logs_as_its_time_can_be_summed_up(
    db: Connection, total: str
) -> None:
    remember(db, "w", "We retry three times.")
    db.execute(
        "select remem.log_recall('w', 'cold', 8, 1, timings => %s::jsonb)",
        [f'{{"total": {total}}}'],
    )
    checks(db)
    db.execute("select * from remem.recall_latency")
    db.execute("update remem.recall_log set at = at - interval '3 days'")
    assert maintained(db)["recall_day"] == ("done", 1)
    assert 0 <= float(str(days(db)[0][6])) <= 1e9


def test_dropping_a_workspace_takes_its_days_along(used: Connection) -> None:
    maintained(used)
    used.execute("select remem.drop_workspace('w')")
    assert days(used) == []


# -- jobs and cache --------------------------------------------------------------------------------


@pytest.mark.covers("RE20")
def test_abandoned_claims_are_freed_and_their_run_is_ended(moving: Connection) -> None:
    jobs = claim(moving, 4)
    assert maintained(moving)["claims"] == ("done", 0)  # somebody works on them
    expire(moving)
    found = maintained(moving)
    assert (found["claims"], found["runs"]) == (("done", 4), ("done", 1))
    rows = moving.execute(
        "select distinct state, abandoned, last_error, claim_id from remem.embedding_claim"
    ).fetchall()
    assert rows == [("waiting", 1, "abandoned", None)]
    assert value(moving, "select state from remem.embedding_runs('w')") == "failed"
    assert complete(moving, jobs) == ["lost"] * 4
    assert len(claim(moving, 20)) == 10


def test_a_text_that_was_abandoned_ten_times_is_set_aside(moving: Connection) -> None:
    claim(moving, 2)
    moving.execute("update remem.embedding_claim set abandoned = 7 + item_no")
    expire(moving)
    assert maintained(moving)["claims"] == ("done", 2)
    states = moving.execute("select abandoned, state from remem.embedding_claim order by 1")
    assert states.fetchall() == [(9, "waiting"), (10, "set_aside")]


def test_expired_answers_are_deleted_and_others_stay(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    for query in ("retry", "three", "times"):
        db.execute("select remem.recall_cached('w', %s)", [query])
    db.execute(
        "update remem.query_cache set made_at = now() - interval '6 minutes'"
        " where ctid in (select ctid from remem.query_cache limit 2)"
    )
    assert maintained(db)["cache"] == ("done", 2)
    assert value(db, "select count(*) from remem.query_cache") == 1


def test_old_runs_are_deleted_but_for_the_latest(moving: Connection) -> None:
    moving.execute(
        "insert into remem.job_run (workspace, run_id, kind, state, space_no, started_at)"
        " select 'w', gen_random_uuid(), 'embedding-reembed', s, 1,"
        " now() - make_interval(days => d)"
        " from unnest(array['completed', 'failed', 'started']) s, generate_series(1, 200) d"
    )
    assert maintained(moving)["runs"] == ("done", 2 * 111)
    oldest = "select max(now()::date - started_at::date) from remem.job_run where state = %s"
    assert value(moving, oldest, ["completed"]) in (89, 90)
    moving.execute("update remem.job_run set started_at = started_at - interval '1 year'")
    maintained(moving)
    assert value(moving, "select count(*) from remem.job_run where state = 'failed'") == 20


# -- what only a client can do ---------------------------------------------------------------------


def test_it_reports_what_no_function_can_run(db: Connection, su: Connection) -> None:
    vectors(db, "w", 2000)
    su.execute(
        "update pg_index set indisvalid = false"
        " where indexrelid::regclass::text"
        " in ('remem.memory_attrs_idx', 'remem.embedding_1_hnsw_idx')"
    )
    flush(db)
    rows = db.execute(
        "select task, state, command from remem.maintain() where command <> ''"
    ).fetchall()
    assert rows == [
        ("vacuum", "due", "vacuum (analyze) remem.embedding_1;"),
        ("reindex", "due", "reindex index concurrently remem.memory_attrs_idx;"),
        ("reindex", "due", "reindex index concurrently remem.embedding_1_hnsw_idx;"),
    ]
    for _, _, command in rows:
        db.execute(command.encode())
    flush(db)
    assert value(db, "select count(*) from remem.maintain() where command <> ''") == 0


# -- bounded, and in nobody's way ------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["0", "-1 second", "2 days", None])
def test_an_impossible_budget_is_refused(db: Connection, budget: str | None) -> None:
    with refused("RM001", argument="budget"):
        db.execute("select remem.maintain(%s::interval)", [budget])


def test_it_ends_when_the_budget_does_and_goes_on_the_next_time(db: Connection) -> None:
    for name in ("a", "b", "c"):
        remember(db, name, "We retry three times.")
    db.execute(
        "insert into remem.recall_log (workspace, at, tier, caller, k, returned, query_hash)"
        " select w, now() - interval '1 hour' - make_interval(days => d), 'cold', 'x', 8, 1, ''"
        " from unnest(array['a', 'b', 'c']) w, generate_series(1, 400) d"
    )
    first = maintained(db, "1 microsecond")
    assert {state for state, _ in first.values()} == {"partial"}
    assert value(db, "select count(*) from remem.recall_log") == 1200
    assert checks(db)["upkeep"].status == "warning"
    for _ in range(200):
        state, _ = maintained(db, "100 milliseconds")["recall_log"]
        if state == "done":
            break
    assert (
        value(db, "select count(*) from remem.recall_log where at < now() - interval '30 days'")
        == 0
    )
    assert value(db, "select count(*) from remem.recall_day") == 1200
    assert checks(db)["upkeep"].status == "ok"


def test_two_at_once_do_not_wait_for_each_other(
    used: Connection, connect: Callable[[str], Connection]
) -> None:
    other = connect(used.info.user)
    other.execute("set statement_timeout = '20s'")
    with used.transaction():
        assert maintained(used)["recall_log"] == ("done", 1)
        assert maintained(other) == {"maintain": ("busy", 0)}
    assert maintained(other)["recall_log"] == ("done", 0)


def test_it_waits_for_nobody(moving: Connection, connect: Callable[[str], Connection]) -> None:
    """A writer that holds a claim, an answer, a row of the log and the workspace itself."""
    claim(moving, 2)
    expire(moving)
    moving.execute("select remem.recall_cached('w', 'memory')")
    moving.execute("update remem.query_cache set made_at = now() - interval '1 hour'")
    log(moving, "w", "now() - interval '40 days'")
    other = connect(moving.info.user)
    other.execute("set statement_timeout = '20s'")
    with moving.transaction():
        for table in ("embedding_claim", "job_run", "query_cache", "recall_log", "workspace"):
            moving.execute(f"select from remem.{table} for update".encode())
        assert set(maintained(other).values()) == {("done", 0)}
    assert [n for _, n in maintained(other).values()] == [2, 1, 1, 0, 1, 1]


def test_recall_goes_on_while_it_runs(
    used: Connection, connect: Callable[[str], Connection]
) -> None:
    other = connect(used.info.user)
    other.execute("set statement_timeout = '20s'")
    with used.transaction():
        maintained(used)
        assert other.execute("select body from remem.recall('w', 'retry')").fetchall()
        other.execute("select remem.recall_cached('w', 'retry')")
        remember(other, "w", "Then we page.")


def test_its_runs_are_kept_in_number(db: Connection) -> None:
    for _ in range(103):
        db.execute("select remem.maintain()")
    assert value(db, "select count(*) from remem.maintenance_run") in (100, 101)
    assert checks(db)["upkeep"].detail.startswith("remem.maintain last ran at 20")


def test_recall_itself_does_no_upkeep(used: Connection) -> None:
    used.execute("select remem.recall_cached('w', 'retry')")
    used.execute("select from remem.recall('w', 'retry')")
    assert (logged(used), days(used)) == (7, [])
    assert value(used, "select count(*) from remem.maintenance_run") == 0


def test_a_failed_upkeep_leaves_nothing_half_done(
    used: Connection, connect: Callable[[str], Connection]
) -> None:
    """Cancelled in the middle: what it had done is undone, and the next one does all of it."""
    other = connect(used.info.user)
    started = threading.Event()

    def cancelled() -> None:
        with pytest.raises(psycopg.errors.QueryCanceled), other.transaction():
            other.execute("select remem.maintain()")
            started.set()
            other.execute("select pg_sleep(60)")

    thread = threading.Thread(target=cancelled)
    thread.start()
    assert started.wait(30)
    while thread.is_alive():
        other.cancel()
        thread.join(0.05)
    assert (logged(used), days(used)) == (6, [])
    assert maintained(used)["recall_log"] == ("done", 1)


def test_it_renews_the_statistics_of_large_workspaces(db: Connection) -> None:
    for workspace, memories in (("large", 6000), ("small", 4000)):
        db.execute("select remem.create_workspace(%s)", [workspace])
        db.execute(
            "insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)"
            " select remem._workspace_key(%s), remem._word('heron'), n, 9, 1"
            " from generate_series(1, 300) n",
            [workspace],
        )
        db.execute(
            "insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)"
            " values (%s, 0, %s, 9)",
            [workspace, memories],
        )
    assert maintained(db)["words"] == ("done", 1)
    kept = db.execute(
        "select w.workspace, f.word = remem._word('heron'), f.memories"
        " from remem.frequent_word f join remem.workspace w using (workspace_key)"
    ).fetchall()
    assert kept == [("large", True, 300)]
    assert maintained(db)["words"] == ("done", 0)
