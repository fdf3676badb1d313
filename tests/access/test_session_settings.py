"""No function changes a setting of its caller, and none depends on one (cases C24, C28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.access.doors import BODY, WORKSPACE, Door, doors, furnish, work
from tests.server import Server

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


# -- the caller's search_path and pgvector's schema ------------------------------------------------


@pytest.fixture
def elsewhere(server: Server) -> Iterator[Callable[[str], Connection]]:
    """`elsewhere(schema)`: the owner's connection to a database with pgvector in that schema."""
    from remem_pg.install import migrate

    made: list[tuple[str, Connection]] = []

    def make(schema: str) -> Connection:
        name = server.new_database(install=False)
        with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
            su.execute("drop extension vector")
            su.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
            su.execute(sql.SQL("create extension vector schema {}").format(sql.Identifier(schema)))
            su.execute(sql.SQL("grant usage on schema {} to public").format(sql.Identifier(schema)))
        migrate(server.owner_dsn(name))
        conn = psycopg.connect(server.owner_dsn(name), autocommit=True)
        made.append((name, conn))
        furnish(conn)
        return conn

    yield make
    for name, conn in made:
        conn.close()
        server.drop_database(name)


PATHS = ["", "pg_temp", "pg_catalog", "nowhere", "pg_temp, public, pg_catalog", "remem"]


@pytest.mark.parametrize("path", PATHS)
def test_every_function_works_whatever_the_callers_search_path(
    furnished: Connection, path: str
) -> None:
    furnished.execute("select set_config('search_path', %s, false)", (path,))
    for door in doors(furnished):
        with furnished.transaction(force_rollback=True):
            door.call(furnished, door.working())
    best = furnished.execute("select body from remem.recall(%s, 'retry')", (WORKSPACE,)).fetchone()
    assert best == (BODY,)


@pytest.mark.parametrize("schema", ["ext", "My Ext", 'a"b', "vector"])
def test_every_function_works_with_pgvector_in_another_schema(
    elsewhere: Callable[[str], Connection], schema: str
) -> None:
    conn = elsewhere(schema)
    conn.execute("set search_path = ''")
    for door in doors(conn):
        work(door, conn)
    hits = conn.execute(
        "select body, arms from remem.recall(%s, 'how often do we retry?')", (WORKSPACE,)
    ).fetchall()
    assert hits[0][0] == BODY
    assert "vector" in hits[0][1]


def test_an_operator_of_the_callers_does_not_stand_in_for_pgvectors(
    furnished: Connection, su: Connection, make_role: Callable[..., str], connect: Any
) -> None:
    """Somebody who may create in public puts a `<=>`, a sum and an equality there."""
    role = make_role("reader")
    furnished.execute("select remem.grant_access(%s, %s)", (role, WORKSPACE))
    before = furnished.execute(
        "select body, score from remem.recall(%s, 'retry')", (WORKSPACE,)
    ).fetchall()
    su.execute("create schema evil")
    su.execute(
        "create function evil.zero(public.halfvec, public.halfvec) returns float8 "
        "language sql immutable as 'select 0::float8'"
    )
    su.execute(
        "create operator evil.<=> (function = evil.zero, leftarg = public.halfvec, "
        "rightarg = public.halfvec)"
    )
    su.execute(
        "create function evil.no(text, text) returns boolean language sql immutable "
        "as 'select false'"
    )
    su.execute("create operator evil.= (function = evil.no, leftarg = text, rightarg = text)")
    su.execute("create function evil.coalesce_text(text) returns text language sql as 'select $1'")
    su.execute("grant usage on schema evil to public")
    reader = connect(role)
    reader.execute("set search_path = evil, pg_catalog, public")
    after = reader.execute(
        "select body, score from remem.recall(%s, 'retry')", (WORKSPACE,)
    ).fetchall()
    assert after == before


# -- the caller's other settings -------------------------------------------------------------------

STRANGE = {
    "bytea_output": "escape",
    "client_min_messages": "error",
    "datestyle": "SQL, DMY",
    "default_text_search_config": "pg_catalog.russian",
    "default_transaction_isolation": "serializable",
    "enable_indexscan": "off",
    "enable_seqscan": "off",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "intervalstyle": "sql_standard",
    "jit_above_cost": "0",
    "plan_cache_mode": "force_generic_plan",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "timezone": "Asia/Kolkata",
    "transform_null_equals": "on",
    "work_mem": "64kB",
    "xmloption": "document",
}
ITEMS = [
    {
        "body": f"Retry number {n} waits {n * n} seconds; the weight is {n / 7}.",
        "ref": f"r{n}",
        "importance": 1 / (n + 2),
        "confidence": 0.123456789,
        "session_ref": "s" if n % 2 else None,
        "occurred_at": f"2026-03-0{n + 1}T09:30:00Z",
        "tags": ["a", "b"],
        "metadata": {"n": n / 3},
    }
    for n in range(6)
]


def written_and_read(conn: Connection) -> dict[str, Any]:
    """What a workspace gives back after the same writes, as the tables hold it."""
    given = [{k: v for k, v in item.items() if v is not None} for item in ITEMS]
    conn.execute("select remem.remember_many('w', %s)", (Jsonb(given),))
    conn.execute(
        "select remem.remember('w', 'Said alone.', importance => %s::real, occurred_at => %s, "
        "embedding => %s::real[])",
        (1 / 3, "2026-03-01T09:30:00Z", [1 / (n + 3) for n in range(384)]),
    )
    hits = conn.execute(
        "select ref, body, score, relevance, signals, occurred_at at time zone 'UTC' "
        "from remem.recall('w', 'which retry waits nine seconds?')"
    ).fetchall()
    kept = conn.execute(
        """
        select m.body, m.importance, m.confidence, m.attrs - 'created_at',
          m.attrs ->> 'created_at' ~ '^[0-9]{4}(-[0-9]{2}){2}T[0-9:.]*[+]00:00$',
          encode(m.content_hash, 'hex'),
          encode(m.fingerprint, 'hex'), m.lexemes, m.occurred_at at time zone 'UTC'
        from remem.memory m order by m.memory_no
        """
    ).fetchall()
    vectors = conn.execute("select embedding::text from remem.embedding_1 order by memory_no")
    return {"hits": hits, "kept": kept, "vectors": vectors.fetchall()}


@pytest.fixture
def plain(server: Server) -> Iterator[dict[str, Any]]:
    name = server.new_database()
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        yield written_and_read(conn)
    server.drop_database(name)


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_stored_and_recalled_does_not_depend_on_a_setting_of_the_callers(
    db: Connection, plain: dict[str, Any], name: str
) -> None:
    def reset() -> None:
        # Floats on the wire follow extra_float_digits: what was stored is read under the default.
        db.execute(
            "select set_config(%s, (select reset_val from pg_settings where name = %s), false)",
            (name, name),
        )

    db.execute("select set_config(%s, %s, false)", (name, STRANGE[name]))
    strange = written_and_read(db)
    reset()
    if name == "extra_float_digits":
        strange = written_and_read(db)
        refs = db.execute("select count(*) from remem.memory").fetchone()
        assert refs == (len(ITEMS) + 1,), "a setting made the same content another version"
    assert strange == plain
