"""No function changes a setting of its caller, and none depends on one (cases C24, C28)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKSPACE, Door, doors, work

Connection = psycopg.Connection[Any]


def settings(conn: Connection) -> dict[str, Any]:
    """Every setting of the session, and whatever else a call could leave behind in it."""
    found = dict(conn.execute("select name, setting from pg_settings").fetchall())
    row = conn.execute(
        """
        select current_user::text, session_user::text, current_setting('role'),
          current_setting('search_path'), current_setting('remem.workspace', true),
          array(select name from pg_prepared_statements where name !~ '^_pg3_' order by 1),
          array(select relname::text from pg_class where relnamespace = pg_my_temp_schema()
            and relname !~ '^remem_staged')  -- what stage is for; it ends with the transaction
        """
    ).fetchone()
    assert row is not None
    return found | {f"session {n}": value for n, value in enumerate(row)}


def loaded(conn: Connection) -> Connection:
    """The session after pgvector was loaded, which declares settings of its own."""
    conn.execute("select '[1]'::public.vector")
    return conn


def test_all_settings_are_equal_before_and_after_every_public_function(
    furnished: Connection,
) -> None:
    loaded(furnished)
    for door in doors(furnished):
        before = settings(furnished)
        work(door, furnished)
        assert settings(furnished) == before, door.name
        locks = furnished.execute(
            "select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        ).fetchall()
        assert locks == [], door.name


def test_all_settings_are_equal_before_and_after_a_function_within_a_transaction(
    furnished: Connection,
) -> None:
    loaded(furnished)
    for door in doors(furnished):
        with furnished.transaction(force_rollback=True):
            before = settings(furnished)
            door.call(furnished, door.working())
            assert settings(furnished) == before, door.name


def test_all_settings_are_equal_after_a_function_was_refused(furnished: Connection) -> None:
    loaded(furnished)
    for door in doors(furnished):
        for values in (door.nulls(), door.plausible()):
            before = settings(furnished)
            try:
                with furnished.transaction(force_rollback=True):
                    door.call(furnished, values)
            except psycopg.Error:
                pass
            assert settings(furnished) == before, door.name


def test_a_first_call_in_a_session_adds_nothing_but_the_settings_pgvector_declares(
    furnished: Connection, db_dsn: str
) -> None:
    query = "select * from remem.recall(%s, 'how often do we retry?')"
    with psycopg.connect(db_dsn, autocommit=True) as fresh:
        before = settings(fresh)
        assert fresh.execute(query, (WORKSPACE,)).fetchall()
        after = settings(fresh)
        defaults = dict(
            fresh.execute(
                "select name, boot_val from pg_settings where name ~ '^(hnsw|ivfflat|plpgsql)[.]'"
            )
        )
    added = {name: value for name, value in after.items() if name not in before}
    assert {name: after[name] for name in before} == before
    assert added == defaults


def test_a_setting_of_the_callers_is_still_the_callers_after_recall(furnished: Connection) -> None:
    loaded(furnished)
    theirs = {
        "hnsw.ef_search": "17",
        "hnsw.iterative_scan": "relaxed_order",
        "enable_sort": "on",
        "enable_seqscan": "off",
        "plan_cache_mode": "force_custom_plan",
        "jit": "on",
        "timezone": "Asia/Kolkata",
        "search_path": "pg_temp",
        "remem.workspace": WORKSPACE,
    }
    for name, value in theirs.items():
        furnished.execute("select set_config(%s, %s, false)", (name, value))
    for door in doors(furnished):
        if door.name != "create_workspace":  # in another workspace than the setting's
            work(door, furnished)
    left = {
        name: furnished.execute("select current_setting(%s)", (name,)).fetchone() for name in theirs
    }
    assert left == {name: (value,) for name, value in theirs.items()}


# -- reading only ----------------------------------------------------------------------------------


# What these look for is not there.
NOTHING = {"conflicts", "list_grants"}


def readers(conn: Connection) -> list[Door]:
    names = {"count", "current_space", "get", "hash_embed", "list", "recall", "recall_explain"}
    names |= {"embed", "embed_many"}
    names |= {"recall_many", "recall_arm", "recall_from", "recall_from_explain"}
    names |= {"render", "route_of", "version", "plan", "list_topics", "list_providers"}
    names |= {"conflicts", "history", "links_between", "export"}
    names |= {"list_continuity_phrases", "list_generic_words", "catalog_without_embedding"}
    names |= {"links_between", "topic_memories"}
    names |= {"links_between"}
    names |= {"embedding_backlog", "embedding_work", "list_spaces", "space_index", "doctor"}
    names |= {"list_grants", "list_workspaces"}
    found = [door for door in doors(conn) if door.name in names]
    assert len(found) == len(names)
    return found


def test_every_reading_function_works_in_a_read_only_transaction(furnished: Connection) -> None:
    for door in readers(furnished):
        with furnished.transaction():
            furnished.execute("set transaction read only")
            assert door.call(furnished, door.working()) or door.name in NOTHING, door.name


def test_reading_functions_work_in_a_fresh_session_that_may_only_read(
    furnished: Connection, db_dsn: str
) -> None:
    for door in readers(furnished):
        options = "-c default_transaction_read_only=on"
        with psycopg.connect(db_dsn, autocommit=True, options=options) as fresh:
            for _ in range(2):
                assert door.call(fresh, door.working()) or door.name in NOTHING, door.name


def test_every_writing_function_says_so_in_a_read_only_transaction(furnished: Connection) -> None:
    # These leave the log and the cache out where nothing can be written, or find nothing to erase.
    reading = {door.name for door in readers(furnished)} | {"log_recall", "recall_cached"}
    reading |= {"purge_forgotten", "reindex_text"}
    # And these find no space in building, no run and no problem.
    reading |= {
        "build_space_index",
        "count_words",
        "finish_reembed",
        "embedding_problems",
        "embedding_runs",
    }
    said = {}
    for door in doors(furnished):
        if door.name in reading:
            continue
        with pytest.raises(psycopg.Error) as refused, furnished.transaction():
            furnished.execute("set transaction read only")
            door.call(furnished, door.working())
        said[door.name] = refused.value.sqlstate
    # 25006 = read_only_sql_transaction; what finds nothing to change may come through.
    assert said == dict.fromkeys(said, "25006")


def test_reading_takes_no_lock_that_a_writer_would_wait_for(
    furnished: Connection, db_dsn: str
) -> None:
    with psycopg.connect(db_dsn) as reading:
        for door in readers(reading):
            door.call(reading, door.working())
        modes = {
            mode
            for (mode,) in reading.execute(
                "select mode from pg_locks where pid = pg_backend_pid() "
                "and locktype <> 'virtualxid'"
            )
        }
        assert modes == {"AccessShareLock"}
        assert reading.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)
