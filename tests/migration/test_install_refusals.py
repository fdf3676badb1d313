"""What migrate refuses, with the next step, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from remem_pg import Remem, install
from remem_pg.errors import Conflict, DatabaseNewer, InvalidArgument, NoAccess
from tests.conftest import Psql
from tests.migration.catalog import database
from tests.server import OWNER, Server

Connection = psycopg.Connection[Any]
MakeDatabase = Callable[..., str]


def from_the_future(db: Connection) -> None:
    db.execute(
        "insert into remem.schema_migration (version, name, sha256) values (999, '0999_far', 'x')"
    )
    db.execute("update remem.setting set value = '99.1.0' where name = 'version'")


def test_a_newer_database_is_refused_with_the_version_that_made_it(db: Connection) -> None:
    from_the_future(db)
    before = database(db)
    with pytest.raises(DatabaseNewer) as refused:
        install.migrate(db)
    assert refused.value.detail["got"] == "0999_far"
    assert "99.1.0" in str(refused.value)
    assert "upgrade this package" in str(refused.value)
    assert database(db) == before


def test_a_newer_version_without_a_newer_migration_is_refused_too(db: Connection) -> None:
    """Its functions are newer: running the older ones over them would be a silent downgrade."""
    db.execute("update remem.setting set value = '99.1.0' where name = 'version'")
    before = database(db)
    with pytest.raises(DatabaseNewer) as refused:
        install.migrate(db)
    assert refused.value.detail == {"got": "99.1.0", "expected": install.VERSION}
    assert database(db) == before


def test_an_older_version_is_upgraded(db: Connection) -> None:
    db.execute("update remem.setting set value = '0.0.9' where name = 'version'")
    assert install.migrate(db).previous_version == "0.0.9"
    assert install.installed_version(db) == install.VERSION


def test_a_client_works_on_a_newer_database_whose_compatibility_it_knows(
    db: Connection, db_dsn: str
) -> None:
    from_the_future(db)
    with Remem(db_dsn, workspace="w", embedding=None) as mem:
        mem.remember("The vault opens at nine.")
        assert mem.recall("when does the vault open?")[0].body == "The vault opens at nine."
    assert db.execute("select remem.count('w')").fetchone() == (1,)


def test_a_client_refuses_a_database_whose_compatibility_is_beyond_it(
    db: Connection, db_dsn: str
) -> None:
    db.execute(
        "update remem.setting set value = %s where name = 'compatibility'",
        (str(install.COMPATIBILITY + 1),),
    )
    with pytest.raises(DatabaseNewer), Remem(db_dsn, workspace="w", embedding=None) as mem:
        mem.recall("anything")
    # SQL needs no client.
    assert db.execute("select count(*) from remem.recall('w', 'anything')").fetchone() == (0,)


def test_a_migration_that_was_edited_after_it_ran_is_refused(db: Connection) -> None:
    script = install.migrations()[0]
    db.execute(
        "update remem.schema_migration set sha256 = 'of another text' where version = %s",
        (script.version,),
    )
    before = database(db)
    with pytest.raises(Conflict) as refused:
        install.migrate(db)
    assert refused.value.detail["migration"] == script.name
    assert refused.value.detail["got"] == script.sha256
    assert database(db) == before


# -- who may ---------------------------------------------------------------------------------------


def test_a_role_that_does_not_own_the_schema_cannot_upgrade_it(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    before = database(db)
    stranger = connect(make_role("stranger"))
    with pytest.raises(NoAccess) as refused:
        install.migrate(stranger)
    assert refused.value.code == "RM301"
    assert "owner" in str(refused.value)
    assert database(db) == before


def test_an_administrator_by_grant_cannot_upgrade_or_uninstall(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    role = make_role("admin")
    db.execute("select remem.grant_access(%s, null, 'admin')", (role,))
    before = database(db)
    admin = connect(role)
    for attempt in (
        lambda: install.migrate(admin),
        lambda: install.contents(admin),
        lambda: install.uninstall(admin, confirm=True),
    ):
        with pytest.raises(NoAccess):
            attempt()
    assert database(db) == before


def test_a_superuser_upgrades_as_the_owner_and_not_as_itself(
    db: Connection, su: Connection
) -> None:
    """Functions that a superuser created would run with a superuser's rights."""
    before = database(db)
    assert OWNER in (install.plan(su).problem or "")
    with pytest.raises(NoAccess) as refused:
        install.migrate(su)
    assert "set role to it" in str(refused.value)
    assert database(db) == before
    su.execute(sql.SQL("set role {}").format(sql.Identifier(OWNER)))
    install.migrate(su)
    owners = db.execute(
        "select distinct proowner::regrole::text from pg_proc "
        "where pronamespace = 'remem'::regnamespace"
    ).fetchall()
    assert owners == [(OWNER,)]


def test_a_member_of_the_owner_upgrades_after_set_role(
    db: Connection,
    su: Connection,
    make_role: Callable[..., str],
    connect: Callable[[str], Connection],
) -> None:
    role = make_role("deputy")
    su.execute(sql.SQL("grant {} to {}").format(sql.Identifier(OWNER), sql.Identifier(role)))
    deputy = connect(role)
    with pytest.raises(NoAccess):
        install.migrate(deputy)
    deputy.execute(sql.SQL("set role {}").format(sql.Identifier(OWNER)))
    assert install.migrate(deputy).applied == ()


def test_the_script_for_psql_refuses_another_role_too(
    db: Connection, server: Server, database: str, psql: Psql
) -> None:
    done = psql(
        server.superuser_dsn(database),
        "--quiet", "-f", "-",
        stdin=install.render_sql("public"),
        check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "Only the owner of the schema remem may upgrade it" in done.stderr


def test_a_role_that_may_not_create_a_schema_is_told_so(
    bare: Connection, server: Server, make_role: Callable[..., str]
) -> None:
    role = make_role("app")
    before = database(bare)
    with pytest.raises(NoAccess) as refused:
        install.migrate(server.dsn(role, bare.info.dbname))
    assert role in str(refused.value)
    assert "grant create on database" in str(refused.value)
    assert database(bare) == before


def test_a_schema_made_for_the_role_is_enough(
    bare: Connection, server: Server, make_role: Callable[..., str]
) -> None:
    role = make_role("app")
    with psycopg.connect(server.superuser_dsn(bare.info.dbname), autocommit=True) as su:
        su.execute(sql.SQL("create schema remem authorization {}").format(sql.Identifier(role)))
    dsn = server.dsn(role, bare.info.dbname)
    assert install.migrate(dsn).previous_version is None
    with Remem(dsn, workspace="w", embedding=None) as mem:
        assert mem.remember("x").outcome == "created"


def test_an_owner_with_a_strange_name_installs_and_upgrades(
    bare: Connection, server: Server
) -> None:
    role = server.new_role('Dr. "No" O\'Neil; --')
    try:
        with psycopg.connect(server.superuser_dsn(bare.info.dbname), autocommit=True) as su:
            su.execute(
                sql.SQL("grant create on database {} to {}").format(
                    sql.Identifier(bare.info.dbname), sql.Identifier(role)
                )
            )
        dsn = server.dsn(role, bare.info.dbname)
        install.migrate(dsn)
        assert install.migrate(dsn).applied == ()
        install.uninstall(dsn, confirm=True)
    finally:
        server.drop_role(role)


# -- encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_a_database_that_is_not_utf8_is_refused_by_name(
    make_database: MakeDatabase, server: Server, encoding: str
) -> None:
    name = make_database(encoding=encoding)
    with pytest.raises(InvalidArgument) as refused:
        install.migrate(server.owner_dsn(name))
    assert refused.value.detail == {"argument": "server_encoding", "value": encoding}
    assert "UTF8" in str(refused.value)


def test_a_caller_whose_connection_decodes_nothing_is_told_the_same(
    make_database: MakeDatabase, server: Server
) -> None:
    name = make_database(encoding="SQL_ASCII")
    with psycopg.connect(server.owner_dsn(name), client_encoding="sql_ascii") as conn:
        with pytest.raises(InvalidArgument) as refused:
            install.migrate(conn)
        assert refused.value.detail["value"] == "SQL_ASCII"
        assert install.plan(conn).database == name


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_the_script_for_psql_refuses_a_database_that_is_not_utf8(
    make_database: MakeDatabase, server: Server, psql: Psql, encoding: str
) -> None:
    name = make_database(encoding=encoding)
    done = psql(
        server.owner_dsn(name), "--quiet", "-f", "-", stdin=install.render_sql(), check=False
    )
    assert done.returncode == 3
    assert "encoding UTF8" in done.stderr
    with psycopg.connect(server.owner_dsn(name), client_encoding="utf8") as conn:
        assert conn.execute("select to_regnamespace('remem') is null").fetchone() == (True,)
