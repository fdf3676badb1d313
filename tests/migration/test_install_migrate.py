"""migrate: once, twice, by psql, on a caller's connection, and back out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, namedtuple_row

from remem_pg import install
from remem_pg.errors import InvalidArgument, NotInstalled
from tests.conftest import Psql
from tests.migration.catalog import database, installation
from tests.server import Server

Connection = psycopg.Connection[Any]
MakeDatabase = Callable[..., str]
ALL = tuple(script.name for script in install.migrations())


@pytest.fixture
def expected(db: Connection) -> dict[str, tuple[Any, ...]]:
    """What every installation with pgvector in public consists of."""
    return installation(db)


def test_a_first_migration_installs_everything_and_says_what(
    bare: Connection, expected: dict[str, Any]
) -> None:
    report = install.migrate(bare)
    assert (report.version, report.previous_version) == (install.VERSION, None)
    assert report.applied == ALL
    assert report.notices == ()
    assert installation(bare) == expected


def test_migrating_twice_changes_nothing(db: Connection, expected: dict[str, Any]) -> None:
    db.execute("select remem.remember('w', 'Kept.', ref => 'r')")
    report = install.migrate(db)
    assert (report.applied, report.previous_version) == ((), install.VERSION)
    assert installation(db) == expected
    assert db.execute("select body from remem.get('w', ref => 'r')").fetchone() == ("Kept.",)


def test_migrating_again_keeps_what_an_administrator_configured(db: Connection) -> None:
    db.execute("select remem.configure('tenant_mode', 'strict')")
    db.execute("select remem.grant_access('pg_monitor', 'w', 'write', 'imported')")
    db.execute(
        'select remem.register_space(\'{"name": "n", "backend": "b", "asset": "a", '
        '"dimensions": 2}\')'
    )
    db.execute("select remem.activate_space('n')")
    query = """
      select (select jsonb_object_agg(name, value) from remem.setting),
        (select jsonb_agg(to_jsonb(g)) from remem.access_grant g),
        (select jsonb_agg(to_jsonb(s) order by s.space_no) from remem.embedding_space s)
    """
    before = db.execute(query).fetchone()
    install.migrate(db)
    assert db.execute(query).fetchone() == before


def test_migrating_puts_back_a_function_that_somebody_changed(
    db: Connection, expected: dict[str, Any]
) -> None:
    db.execute(
        "create or replace function remem._levels(demand text) returns text[] language sql "
        "as $$ select array['read'] $$"
    )
    db.execute("comment on function remem._levels(text) is 'changed'")
    assert installation(db) != expected
    install.migrate(db)
    assert installation(db) == expected


def test_the_rendered_script_run_by_psql_installs_the_same(
    bare_database: str, bare: Connection, psql: Psql, expected: dict[str, Any]
) -> None:
    psql(bare_database, "--quiet", "-f", "-", stdin=install.render_sql("public"))
    assert installation(bare) == expected
    assert install.migrate(bare).applied == ()
    assert installation(bare) == expected


def test_the_rendered_script_finds_pgvector_in_the_schema_it_is_told(
    make_database: MakeDatabase, server: Server, psql: Psql
) -> None:
    name = make_database("My Ext")
    psql(server.owner_dsn(name), "--quiet", "-f", "-", stdin=install.render_sql("My Ext"))
    other = make_database("My Ext")
    install.migrate(server.owner_dsn(other))
    with (
        psycopg.connect(server.owner_dsn(name)) as by_psql,
        psycopg.connect(server.owner_dsn(other)) as by_client,
    ):
        assert installation(by_psql) == installation(by_client)


def test_the_rendered_script_leaves_out_what_ran_already(
    db_dsn: str, db: Connection, psql: Psql, expected: dict[str, Any]
) -> None:
    applied = frozenset(script.version for script in install.migrations())
    script = install.render_sql("public", applied)
    assert "create table" not in script.split("-- 05_error.sql")[0]
    psql(db_dsn, "--quiet", "-f", "-", stdin=script)
    assert installation(db) == expected


def test_the_rendered_script_does_not_install_half(
    bare_database: str, bare: Connection, psql: Psql
) -> None:
    before = database(bare)
    script = install.render_sql("public").replace("\ncommit;\n", "\nselect 1/0;\ncommit;\n")
    done = psql(bare_database, "--quiet", "-f", "-", stdin=script, check=False)
    assert "division by zero" in done.stderr
    assert database(bare) == before


def test_rendering_twice_gives_the_same_script() -> None:
    assert install.render_sql("public") == install.render_sql("public")


def load_libraries(conn: Connection) -> None:
    """Load what declares settings of its own when it is first used."""
    conn.execute("select '[1]'::public.vector")
    conn.execute("do $$ begin end $$")


SURROUNDINGS = {
    "an empty search_path": {"search_path": ""},
    "a path that hides pg_catalog": {"search_path": "evil, public, pg_catalog"},
    "backslashes that escape": {
        "standard_conforming_strings": "off",
        "escape_string_warning": "off",
    },
    "a serializable default": {"default_transaction_isolation": "serializable"},
    "a read-only default": {"default_transaction_read_only": "on"},
    "bodies unchecked": {"check_function_bodies": "off"},
    "all identifiers quoted": {"quote_all_identifiers": "on"},
    "another time zone and style": {"timezone": "Asia/Kolkata", "datestyle": "SQL, DMY"},
    "nulls that equal nulls": {"transform_null_equals": "on"},
}


@pytest.mark.parametrize("case", SURROUNDINGS)
def test_the_settings_of_the_session_do_not_change_what_is_installed(
    bare_database: str, bare: Connection, expected: dict[str, Any], case: str
) -> None:
    if "evil" in str(SURROUNDINGS[case]):
        bare.execute("create schema evil")
        bare.execute("create domain evil.text as int")
        bare.execute(
            "create function evil.now() returns timestamptz language sql "
            "as 'select null::timestamptz'"
        )
        bare.execute(
            "create function evil.format(text) returns text language sql as $$ select 'x' $$"
        )
    with psycopg.connect(bare_database, autocommit=True) as conn:
        load_libraries(conn)
        for name, value in SURROUNDINGS[case].items():
            conn.execute("select pg_catalog.set_config(%s, %s, false)", (name, value))
        everything = "select name, setting from pg_catalog.pg_settings"
        before = dict(conn.execute(everything).fetchall())
        install.migrate(conn)
        assert dict(conn.execute(everything).fetchall()) == before
    assert installation(bare) == expected


# -- on a caller's connection ----------------------------------------------------------------------


def test_an_own_transaction_is_committed_on_an_idle_connection(
    bare_database: str, bare: Connection
) -> None:
    with psycopg.connect(bare_database) as conn:
        install.migrate(conn)
        assert conn.info.transaction_status == TransactionStatus.IDLE
        assert not conn.autocommit
        conn.rollback()
    assert install.plan(bare).pending == ()


def test_within_a_callers_transaction_the_caller_decides(
    bare_database: str, bare: Connection
) -> None:
    before = database(bare)
    with psycopg.connect(bare_database) as conn:
        conn.execute("create table public.mine (n int)")
        install.migrate(conn)
        assert conn.info.transaction_status == TransactionStatus.INTRANS
        assert installation(conn)
        conn.rollback()
    assert database(bare) == before
    with psycopg.connect(bare_database) as conn:
        conn.execute("create table public.mine (n int)")
        install.migrate(conn)
        conn.commit()
    assert install.plan(bare).pending == ()


def test_a_failure_within_a_callers_transaction_leaves_the_transaction_usable(
    db: Connection, db_dsn: str
) -> None:
    db.execute("update remem.schema_migration set sha256 = 'edited'")
    with psycopg.connect(db_dsn) as conn:
        conn.execute("create table remem.mine (n int)")
        with pytest.raises(Exception, match="edited"):
            install.migrate(conn)
        conn.execute("drop table remem.mine")
        assert conn.info.transaction_status == TransactionStatus.INTRANS
        conn.rollback()


@pytest.mark.parametrize("nested", [False, True])
def test_no_setting_and_no_lock_and_no_handler_is_left_behind(
    bare_database: str, nested: bool
) -> None:
    with psycopg.connect(bare_database) as conn:
        load_libraries(conn)
        conn.execute("set search_path = pg_temp, public")
        conn.execute("set lock_timeout = '7s'")
        conn.commit()
        if nested:
            conn.execute("select 1")
        before = conn.execute("select name, setting from pg_settings order by 1").fetchall()
        if not nested:
            conn.rollback()
        install.migrate(conn)
        after = conn.execute("select name, setting from pg_settings order by 1").fetchall()
        assert after == before
        conn.commit()
        held = conn.execute(
            "select from pg_locks where locktype = 'advisory' and pid = %s",
            (conn.info.backend_pid,),
        ).fetchall()
        assert held == []
        assert conn._notice_handlers == []


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row])
def test_any_row_factory_of_the_callers_will_do(bare_database: str, factory: Any) -> None:
    with psycopg.connect(bare_database, row_factory=factory) as conn:
        assert install.plan(conn).pending == ALL
        assert install.migrate(conn).applied == ALL
        assert install.migrate(conn).applied == ()
        assert install.contents(conn) == {"workspaces": 0, "memories": 0}
        install.uninstall(conn, confirm=True)


def test_a_connection_with_client_side_binding_will_do(bare_database: str) -> None:
    with psycopg.connect(bare_database, cursor_factory=psycopg.ClientCursor) as conn:
        assert install.migrate(conn).applied == ALL


# -- all or nothing --------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation whose last file fails."""
    from remem_pg.installing import scripts

    real = scripts.functions()
    bad = ("98_bad.sql", "create table remem.half (n int); select 1/0;")
    monkeypatch.setattr(scripts, "functions", lambda: (*real, bad))
    yield


@pytest.mark.usefixtures("failing")
def test_a_failing_file_leaves_an_empty_database_empty(bare: Connection) -> None:
    before = database(bare)
    with pytest.raises(psycopg.errors.DivisionByZero):
        install.migrate(bare)
    assert database(bare) == before


@pytest.mark.usefixtures("failing")
def test_a_failing_file_leaves_an_installation_as_it_was(
    db: Connection, expected: dict[str, Any]
) -> None:
    before = database(db)
    with pytest.raises(psycopg.errors.DivisionByZero):
        install.migrate(db)
    assert database(db) == before
    assert installation(db) == expected


def test_a_pending_migration_runs_once_and_is_entered_in_the_ledger(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from remem_pg.installing import obstacles, scripts

    step = scripts.Script(900, "0900_more", "create table remem.more (n int);")
    steps = (*scripts.migrations(), step)
    for module in (scripts, install, obstacles):
        monkeypatch.setattr(module, "migrations", lambda: steps)
    assert install.plan(db).pending == ("0900_more",)
    assert install.migrate(db).applied == ("0900_more",)
    assert install.migrate(db).applied == ()
    row = db.execute(
        "select name, sha256, applied_by from remem.schema_migration where version = 900"
    ).fetchone()
    assert row == ("0900_more", step.sha256, "remem_owner")


# -- back out --------------------------------------------------------------------------------------


def test_uninstalling_asks_to_be_confirmed(db: Connection, expected: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        install.uninstall(db)
    assert refused.value.detail == {"argument": "confirm"}
    assert installation(db) == expected


def test_uninstalling_leaves_nothing_but_pgvector(
    make_database: MakeDatabase, server: Server
) -> None:
    dsn = server.owner_dsn(make_database())
    with psycopg.connect(dsn, autocommit=True) as conn:
        before = database(conn)
        install.migrate(conn)
        conn.execute("select remem.remember('a', 'x'), remem.remember('b', 'y')")
        conn.execute(
            'select remem.register_space(\'{"name": "n", "backend": "b", "asset": "a", '
            '"dimensions": 2}\')'
        )
        assert install.contents(conn) == {"workspaces": 2, "memories": 2}
        assert install.uninstall(conn, confirm=True) == {"workspaces": 2, "memories": 2}
        assert database(conn) == before
        assert conn.execute("select '[1,2]'::public.vector::text").fetchone() == ("[1,2]",)


def test_after_uninstalling_it_can_be_installed_again(
    db: Connection, expected: dict[str, Any]
) -> None:
    install.uninstall(db, confirm=True)
    assert install.migrate(db).applied == ALL
    assert installation(db) == expected


def test_there_is_nothing_to_uninstall_in_an_empty_database(bare: Connection) -> None:
    for attempt in (lambda: install.uninstall(bare, confirm=True), lambda: install.contents(bare)):
        with pytest.raises(NotInstalled):
            attempt()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_locale_of_the_database_does_not_matter(
    make_database: MakeDatabase, server: Server, expected: dict[str, Any], locale: str
) -> None:
    dsn = server.owner_dsn(make_database(locale=locale))
    install.migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert installation(conn) == expected
        conn.execute("select remem.remember('w', 'Über den Ärger in der KÜCHE.')")
        row = conn.execute("select body from remem.recall('w', 'küche ärger')").fetchone()
        assert row == ("Über den Ärger in der KÜCHE.",)
