"""plan() looks and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from remem_pg import install
from remem_pg.errors import NoAccess, ServerUnavailable
from tests.migration.catalog import database
from tests.server import OWNER, Server

Connection = psycopg.Connection[Any]
ALL = tuple(script.name for script in install.migrations())


def test_a_plan_of_an_empty_database_names_what_would_be_done(bare_database: str) -> None:
    found = install.plan(bare_database)
    assert found.pending == ALL
    assert found.installed_version is None
    assert found.pgvector_schema == "public"
    assert (found.creates_pgvector, found.problem, found.hint) == (False, None, None)
    assert found.role == OWNER
    assert found.server_version[:2].isdigit()


def test_a_plan_of_an_installed_database_has_nothing_pending(db_dsn: str) -> None:
    found = install.plan(db_dsn)
    assert (found.pending, found.installed_version) == ((), install.VERSION)


@pytest.mark.parametrize("vector_schema", ["public", None])
def test_a_plan_of_an_empty_database_changes_nothing(
    make_database: Callable[..., str], server: Server, vector_schema: str | None
) -> None:
    name = make_database(vector_schema)
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        before = database(su)
        install.plan(server.owner_dsn(name))
        install.plan(server.superuser_dsn(name))
        assert database(su) == before


def test_a_plan_of_an_installed_database_changes_nothing(db: Connection) -> None:
    before = database(db)
    install.plan(db)
    assert database(db) == before


def test_a_plan_takes_no_lock_and_no_transaction_number(bare_database: str) -> None:
    with psycopg.connect(bare_database) as conn:
        install.plan(conn)
        held = conn.execute(
            "select mode from pg_locks where pid = pg_backend_pid() "
            "and (locktype = 'advisory' or mode not in ('AccessShareLock', 'ExclusiveLock'))"
        ).fetchall()
        assert held == []
        assert conn.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_a_plan_works_where_nothing_may_be_written(bare_database: str) -> None:
    options = "-c default_transaction_read_only=on"
    with psycopg.connect(bare_database, autocommit=True, options=options) as conn:
        assert install.plan(conn).pending == ALL


def test_a_plan_without_pgvector_tells_an_unprivileged_role_who_must_run_what(
    make_database: Callable[..., str], server: Server
) -> None:
    name = make_database(None)
    found = install.plan(server.owner_dsn(name))
    assert found.pgvector_schema is None
    assert not found.creates_pgvector
    assert name in (found.problem or "")
    assert "superuser" in (found.hint or "")
    assert "create extension vector" in (found.hint or "")


def test_a_plan_without_pgvector_tells_a_superuser_that_it_would_be_created(
    make_database: Callable[..., str], server: Server
) -> None:
    found = install.plan(server.superuser_dsn(make_database(None)))
    assert (found.creates_pgvector, found.problem) == (True, None)


def test_a_plan_of_a_database_that_is_not_utf8_says_so(
    make_database: Callable[..., str], server: Server
) -> None:
    found = install.plan(server.owner_dsn(make_database(encoding="LATIN1")))
    assert "LATIN1" in (found.problem or "")
    assert "UTF8" in (found.hint or "")


def test_a_plan_by_a_role_that_may_not_see_the_ledger_is_refused_as_no_access(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    stranger = connect(make_role("stranger"))
    with pytest.raises(NoAccess):
        install.plan(stranger)


def test_a_plan_of_a_newer_database_says_so(db: Connection) -> None:
    db.execute(
        "insert into remem.schema_migration (version, name, sha256) values (999, '0999_far', 'x')"
    )
    found = install.plan(db)
    assert "0999_far" in (found.problem or "")
    assert "upgrade" in (found.hint or "")


def test_a_plan_of_a_server_that_is_not_there_is_refused_as_unavailable() -> None:
    with pytest.raises(ServerUnavailable):
        install.plan("host=/nowhere-at-all dbname=x connect_timeout=2")
