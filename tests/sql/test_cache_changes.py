"""recall_cached: everything that makes a kept answer unusable, and what that costs to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKING, doors, furnish
from tests.support.caching import QUESTION, cached, hits, tier, write_new
from tests.support.memories import Connection, explain, remember, remember_many, value


def write_version(conn: Connection) -> None:
    remember(conn, "w", "We never retry.", ref="retries", kind="decision")


def write_merge(conn: Connection) -> None:
    remember(conn, "w", "A wall clock.", source_ref="a")
    cached(conn, cache="exact")
    remember(conn, "w", "A wall clock.", source_ref="b")


def write_in_a_subtransaction(conn: Connection) -> None:
    with conn.transaction(), conn.transaction():
        write_new(conn)


def write_vector(conn: Connection) -> None:
    conn.execute("delete from remem.embedding_1 where workspace = 'w' and memory_no = 1")
    conn.execute("insert into remem.query_cache select * from remem.query_cache")
    remember(conn, "w", "We retry three times, then page.", ref="retries", kind="decision")


def mark(conn: Connection) -> None:
    conn.execute("select remem._touch('w')")


def change_space(conn: Connection) -> None:
    conn.execute("update remem.embedding_space set vector_weight = 0.9 where space_no = 1")


def change_language(conn: Connection) -> None:
    conn.execute("update remem.workspace set language = 'german' where workspace = 'w'")


def change_source_class(conn: Connection) -> None:
    conn.execute("update remem.source_class set trust = 0.1 where name = 'unspecified'")


def change_route(conn: Connection) -> None:
    conn.execute("update remem.route set keywords = '{often}' where kind = 'task'")


def change_own_route(conn: Connection) -> None:
    conn.execute("insert into remem.route (workspace, kind, arms) values ('w', 'task', '{vector}')")


def change_setting(conn: Connection) -> None:
    conn.execute("insert into remem.setting (name, value) values ('any', 'value')")


CHANGES = [
    write_new, write_version, write_merge, write_in_a_subtransaction, write_vector, mark,
    change_space, change_language, change_source_class, change_route, change_own_route,
    change_setting,
]  # fmt: skip


@pytest.mark.covers("MN1")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_ends_every_answer(
    filled: Connection, other: Connection, change: Callable[[Connection], None]
) -> None:
    first = cached(filled)
    assert tier(filled) == "hot"
    change(other)
    after = cached(filled, token=first["token"])
    assert after["tier"] == "cold"
    assert hits(after) == hits(explain(filled, "w", QUESTION))


def test_a_change_elsewhere_ends_nothing(filled: Connection) -> None:
    cached(filled)
    remember(filled, "elsewhere", "We retry five times.")
    filled.execute("insert into remem.route (workspace, kind, arms) values ('x', 'task', '{}')")
    assert tier(filled) == "hot"


def test_a_write_that_is_rolled_back_ends_nothing(filled: Connection, other: Connection) -> None:
    cached(filled)
    with other.transaction(force_rollback=True):
        write_new(other)
    assert tier(filled) == "hot"


def merge(conn: Connection) -> None:
    """Changes a row of memory and no count."""
    remember(conn, "w", "Ana prefers oat milk.", kind="preference", source_ref="another")


@pytest.mark.parametrize(
    "change", [write_new, write_version, merge, mark], ids=lambda change: change.__name__
)
@pytest.mark.parametrize("later_first", [False, True])
def test_a_write_that_was_running_when_the_answer_was_made_ends_it_once_it_commits(
    filled: Connection,
    other: Connection,
    connect: Callable[[str], Connection],
    change: Callable[[Connection], None],
    later_first: bool,
) -> None:
    with other.transaction():
        change(other)
        if later_first:  # so that the number of the running one is not the newest
            remember(connect(filled.info.user), "w", "Unrelated and later.")
        cold = cached(filled)
        assert (cold["tier"], tier(filled)) == ("cold", "hot")
        assert cached(filled, token=cold["token"])["unchanged"]
    after = cached(filled, token=cold["token"])
    assert after["tier"] == "cold"
    assert hits(after) == hits(explain(filled, "w", QUESTION))


def test_an_answer_ends_when_a_memory_starts_or_ends(filled: Connection) -> None:
    now = datetime.now(UTC)
    remember(filled, "w", "Until soon.", valid_to=now + timedelta(minutes=2))
    remember(filled, "w", "From sooner.", valid_from=now + timedelta(minutes=1))
    cached(filled)
    expires = value(filled, "select expires_at from remem.query_cache")
    assert expires == now + timedelta(minutes=1)
    filled.execute("update remem.query_cache set expires_at = now()")
    assert tier(filled) == "cold"


@pytest.mark.covers("MN1")
def test_an_answer_lives_five_minutes_at_most(filled: Connection) -> None:
    cached(filled)
    lives = value(filled, "select expires_at - made_at from remem.query_cache")
    assert timedelta(0) < lives <= timedelta(minutes=5)


def test_an_answer_of_a_later_moment_is_not_for_a_transaction_that_began_before(
    filled: Connection, other: Connection
) -> None:
    with filled.transaction():
        filled.execute("select now()")
        cached(other)
        assert tier(filled, log=False) == "cold"
    assert tier(filled) == "hot"


def test_an_entry_of_another_server_is_not_used(filled: Connection) -> None:
    cached(filled)
    filled.execute(
        "update remem.query_cache set snapshot = '900000000000:900000000000:'::pg_snapshot"
    )
    assert tier(filled) == "cold"


def test_numbers_from_a_dump_of_another_server_do_not_keep_the_cache_from_working(
    filled: Connection,
) -> None:
    filled.execute("update remem.memory set changed_xid = '900000000000'")
    cached(filled)
    assert tier(filled) == "hot"


def test_every_function_that_changes_what_recall_reads_ends_an_answer(db: Connection) -> None:
    """Also those of later: a function that forgets to mark the workspace is found here."""
    furnish(db)
    read_by_recall = [
        name
        for (name,) in db.execute(
            "select relname from pg_class where relnamespace = 'remem'::regnamespace "
            "and relkind = 'r' and relname not in ('recall_log', 'query_cache', 'access_grant', "
            "'schema_migration', 'job_run', 'embedding_claim', 'tombstone', "
            "'maintenance_run', 'recall_day') "
            # What the planner reads, whose answers are not kept.
            "and relname !~ '^(topic|provider|plan_setting|continuity|generic)' order by 1"
        ).fetchall()
    ]

    def contents() -> dict[str, str | None]:
        return {
            name: value(db, f"select md5(string_agg(t::text, ',')) from remem.{name} t")
            for name in read_by_recall
            if value(db, "select to_regclass(%s) is not null", [f"remem.{name}"])
        }

    seen = 0
    for door in doors(db):
        with db.transaction(force_rollback=True):
            snapshot = value(db, "select pg_current_snapshot()::text")
            before, config = contents(), value(db, "select remem._cache_config('acme')")
            db.execute("select")
            door.call(db, WORKING[door.name])
            after = contents()
            changed = sorted(k for k, v in before.items() if after.get(k) != v)
            here = [
                name
                for name in changed
                if not _only_elsewhere(db, name, before, WORKING[door.name])
            ]
            # the own transaction is in no snapshot of before: its rows count as changed
            xid = value(db, "select pg_current_xact_id_if_assigned()::text")
            if not here:
                continue
            seen += 1
            still = value(
                db,
                """select not exists (select from remem.memory where workspace = 'acme'
                     and changed_xid = %(xid)s::xid8)
                   and not exists (select from remem.tally where workspace = 'acme'
                     and changed_xid = %(xid)s::xid8)""",
                {"xid": xid},
            )
            same = config == value(db, "select remem._cache_config('acme')")
            assert snapshot
            assert not (still and same), (door.name, here)
    assert seen >= 3


def _only_elsewhere(
    conn: Connection, table: str, before: dict[str, str | None], arguments: dict[str, Any]
) -> bool:
    """Whether a change is about another workspace or a space that no workspace uses."""
    if arguments.get("workspace", "acme") != "acme":
        return True
    return table == "embedding_space" or (
        before.get(table) is None and table.startswith("embedding")
    )


@contextmanager
def plans(conn: Connection) -> Iterator[list[str]]:
    """The plans of every statement in the block, also of those inside functions."""
    seen: list[str] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        seen.append(diag.message_primary or "")

    conn.execute("load 'auto_explain'")
    for name, setting in (
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_nested_statements", "on"),
        ("auto_explain.log_analyze", "on"),
        ("client_min_messages", "log"),
    ):
        conn.execute("select set_config(%s, %s, false)", [name, setting])
    conn.add_notice_handler(note)
    try:
        yield seen
    finally:
        conn.remove_notice_handler(note)


@pytest.mark.parametrize("analysed", [False, True])
def test_validity_is_read_from_the_index_whatever_the_statistics_say(
    filled: Connection, su: Connection, analysed: bool
) -> None:
    remember_many(filled, "w", [{"body": f"Fact number {n}."} for n in range(2000)])
    if analysed:
        su.execute("analyze remem.memory")
    with plans(su) as seen:
        snapshot = value(filled, "select pg_current_snapshot()::text")
        value(su, "select remem._unchanged_since('w', %s::pg_snapshot)", [snapshot])
        lower, upper, _ = snapshot.split(":")
        running = f"{lower}:{int(upper) + 0}:" if lower == upper else snapshot
        value(su, "select remem._unchanged_since('w', %s::pg_snapshot)", [running])
    about_memory = [p for p in seen if "memory" in p and "Scan" in p]
    assert about_memory
    for plan in about_memory:
        assert "memory_changed_xid_idx" in plan, plan
        assert "Seq Scan on memory" not in plan
