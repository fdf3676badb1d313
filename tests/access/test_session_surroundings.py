"""Every function works, and says the same, whatever surrounds it: search_path, schemas, settings
(cases C24, C28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.access.doors import BODY, WORKSPACE, doors, furnish, work
from tests.server import Server

Connection = psycopg.Connection[Any]


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


def test_every_function_works_in_a_fresh_session_with_backslashes_in_strings(
    furnished: Connection, db_dsn: str
) -> None:
    """Bodies are compiled in the session that calls them, under its settings."""
    body = "Sessions last less; \\s and \\d are classes."
    furnished.execute("select remem.remember(%s, %s, ref => 'classes')", (WORKSPACE, body))
    query = "select body, score, signals from remem.recall('acme', 'how long do sessions last?')"
    expected = furnished.execute(query).fetchall()
    options = "-c standard_conforming_strings=off -c escape_string_warning=off"
    with psycopg.connect(db_dsn, autocommit=True, options=options) as fresh:
        assert fresh.execute(query).fetchall() == expected
        for door in doors(fresh):
            with fresh.transaction(force_rollback=True):
                door.call(fresh, door.working())


def test_a_limit_on_what_gin_finds_hides_no_row(db: Connection) -> None:
    db.execute(
        "select remem.remember_many('w', (select jsonb_agg(jsonb_build_object("
        "'body', 'Note ' || n, 'tags', array['x', 't' || n % 2])) from generate_series(1, 6000) n))"
    )
    db.execute("vacuum analyze remem.memory")  # into the index itself
    db.execute("set gin_fuzzy_search_limit = 10")
    assert db.execute("select remem.count('w', '$.tags[*] == \"t1\"')").fetchone() == (3000,)
