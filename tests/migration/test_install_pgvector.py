"""pgvector: missing, old, in any schema, created where the role may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from remem_pg import install
from remem_pg.errors import PgvectorMissing
from remem_pg.installing import scripts
from tests.migration.catalog import database, installation
from tests.server import Server

Connection = psycopg.Connection[Any]
MakeDatabase = Callable[..., str]


def test_without_pgvector_an_unprivileged_role_is_told_who_must_run_what(
    make_database: MakeDatabase, server: Server
) -> None:
    name = make_database(None)
    with pytest.raises(PgvectorMissing) as refused:
        install.migrate(server.owner_dsn(name))
    assert refused.value.code == "RM902"
    assert f"As a superuser in database {name}" in str(refused.value)
    assert "create extension vector" in str(refused.value)


def test_without_pgvector_nothing_is_installed(make_database: MakeDatabase, server: Server) -> None:
    name = make_database(None)
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        before = database(su)
        with pytest.raises(PgvectorMissing):
            install.migrate(server.owner_dsn(name))
        assert database(su) == before


def test_after_the_administrator_ran_what_the_hint_says_the_owner_installs(
    make_database: MakeDatabase, server: Server
) -> None:
    name = make_database(None)
    with pytest.raises(PgvectorMissing) as refused:
        install.migrate(server.owner_dsn(name))
    command = str(refused.value.hint).split("once: ")[1]
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute(command.encode())
    assert install.migrate(server.owner_dsn(name)).previous_version is None


def test_a_superuser_gets_pgvector_created(make_database: MakeDatabase, server: Server) -> None:
    name = make_database(None)
    report = install.migrate(server.superuser_dsn(name))
    assert report.pgvector_schema == "public"
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        row = su.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
        assert row == (report.pgvector_version,)
        assert su.execute("select outcome from remem.remember('w', 'x')").fetchone() == ("created",)


def test_pgvector_that_a_failed_installation_created_is_gone_again(
    make_database: MakeDatabase, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make_database(None)
    monkeypatch.setattr(
        scripts, "functions", lambda: (("00_guard.sql", "select 1;"), ("98_bad.sql", "select 1/0;"))
    )
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        before = database(su)
        with pytest.raises(psycopg.Error):
            install.migrate(su)
        assert database(su) == before


def test_an_old_pgvector_is_refused_with_the_version_that_is_needed(
    make_database: MakeDatabase, server: Server
) -> None:
    name = make_database()
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    with pytest.raises(PgvectorMissing) as refused:
        install.migrate(server.owner_dsn(name))
    assert "0.7.4" in str(refused.value)
    assert "alter extension vector update" in str(refused.value)


@pytest.mark.parametrize("schema", ["extensions", "My Ext", 'quo"te', "select", "日本", "ext;--"])
def test_pgvector_is_found_in_any_schema(
    make_database: MakeDatabase, server: Server, schema: str
) -> None:
    dsn = server.owner_dsn(make_database(schema))
    report = install.migrate(dsn)
    assert report.pgvector_schema == schema
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=") as conn:
        conn.execute("select remem.remember('w', 'The vault opens at nine.')")
        hits = conn.execute("select arms from remem.recall('w', 'when does the vault open?')")
        assert hits.fetchone() == (["vector", "lexical"],)
        installed = installation(conn)
        assert install.migrate(conn).applied == ()
        assert installation(conn) == installed


def test_an_upgrade_after_pgvector_moved_to_another_schema_follows_it(
    make_database: MakeDatabase, server: Server
) -> None:
    name = make_database()
    install.migrate(server.owner_dsn(name))
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute("create schema moved")
        su.execute("grant usage on schema moved to public")
        su.execute("alter extension vector set schema moved")
    assert install.migrate(server.owner_dsn(name)).pgvector_schema == "moved"
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        conn.execute("select remem.remember('w', 'The vault opens at nine.')")
        hits = conn.execute("select arms from remem.recall('w', 'when does the vault open?')")
        assert hits.fetchone() == (["vector", "lexical"],)
