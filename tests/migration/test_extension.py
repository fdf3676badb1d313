"""CREATE EXTENSION remem: the same as an installation without it, dumped and restored whole."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import install
from remem_pg.errors import Conflict
from scripts.extension import build, landed
from tests.migration.catalog import installation
from tests.server import Server
from tests.support.dumps import Programs, answers, fill, rows
from tests.support.extension import files, searched

Connection = psycopg.Connection[Any]
LANDED = sorted((Path(__file__).parent / "landed").glob("*.sql.gz"))


@pytest.fixture(scope="module")
def target(server: Server) -> Iterator[Path]:
    with files(server) as where:
        yield where


@pytest.fixture
def make_empty(server: Server, target: Path) -> Iterator[Callable[[], str]]:
    """`make_empty()`: the name of a database with pgvector, where the extension is found."""
    made = []

    def make() -> str:
        made.append(server.new_database(install=False))
        searched(server, made[-1], target)
        return made[-1]

    yield make
    for name in made:
        server.drop_database(name)


@pytest.fixture
def empty(server: Server, make_empty: Callable[[], str]) -> Iterator[Connection]:
    with psycopg.connect(server.owner_dsn(make_empty()), autocommit=True) as conn:
        yield conn


@pytest.fixture
def extended(empty: Connection) -> Connection:
    """The owner's connection to a database where that owner created the extension."""
    empty.execute("create extension remem")
    return empty


def test_an_ordinary_role_creates_it_and_has_what_migrate_installs(
    extended: Connection, db: Connection
) -> None:
    fresh, made = installation(db), installation(extended)
    made.pop("extension remem")
    assert made.keys() == fresh.keys()
    assert {name for name in fresh if fresh[name] != made[name]} == set()


def test_every_object_belongs_to_the_extension_and_every_table_to_its_dump(
    extended: Connection,
) -> None:
    loose = extended.execute(
        """
        select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'S', 'v')
          and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass
            and d.objid = c.oid and d.deptype = 'e')
        union all
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'remem'::regnamespace
          and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass
            and d.objid = p.oid and d.deptype = 'e')
        """
    ).fetchall()
    assert loose == []
    left_out = extended.execute(
        """
        select c.relname::text from pg_class c
        where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'S')
          and c.oid <> all (select unnest(extconfig) from pg_extension where extname = 'remem')
        """
    ).fetchall()
    assert left_out == []


def test_dropping_it_drops_everything_and_it_can_be_created_again(extended: Connection) -> None:
    extended.execute("select remem.remember('w', 'Gone with the extension.')")
    extended.execute("drop extension remem")
    assert extended.execute(
        "select count(*) from pg_class where relnamespace = 'remem'::regnamespace"
    ).fetchone() == (0,)
    extended.execute("create extension remem")
    extended.execute("select remem.remember('w', 'Here again.')")
    assert extended.execute("select body from remem.recall('w', 'here')").fetchone() == (
        "Here again.",
    )


def test_uninstall_drops_it_too(extended: Connection) -> None:
    assert install.uninstall(extended, confirm=True) == {"workspaces": 0, "memories": 0}
    assert extended.execute(
        "select count(*) from pg_extension where extname = 'remem'"
    ).fetchone() == (0,)
    assert installation(extended) == {}


# -- migrate on an extension, and the extension on what migrate installed --------------------------


def test_migrate_leaves_an_extension_of_this_version_alone(extended: Connection) -> None:
    before = installation(extended)
    plan = install.plan(extended)
    assert (plan.extension, plan.problem) == (True, None)
    assert install.migrate(extended).applied == ()
    assert installation(extended) == before


def test_migrate_refuses_another_version_of_the_extension_and_says_what_to_run(
    extended: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remem_pg.installing.obstacles.VERSION", "9.0.0")
    before = installation(extended)
    with pytest.raises(Conflict) as refused:
        install.migrate(extended)
    assert "as an extension" in str(refused.value)
    assert "alter extension remem update" in str(refused.value.hint)
    assert installation(extended) == before


def test_the_extension_refuses_a_database_where_migrate_installed(
    empty: Connection, make_empty: Callable[[], str]
) -> None:
    install.migrate(empty)
    before = installation(empty)
    with pytest.raises(psycopg.Error) as refused:
        empty.execute("create extension remem")
    assert refused.value.sqlstate == "RM102"
    assert "remem migrate" in (refused.value.diag.message_hint or "")
    assert installation(empty) == before


def test_a_role_that_does_not_own_the_schema_is_refused(
    empty: Connection, server: Server, make_role: Callable[..., str]
) -> None:
    empty.execute("create schema remem")
    with (
        psycopg.connect(server.superuser_dsn(empty.info.dbname), autocommit=True) as su,
        pytest.raises(psycopg.Error) as refused,
    ):
        su.execute("create extension remem")
    assert refused.value.sqlstate == "RM301"


def test_without_pgvector_it_names_what_is_missing(empty: Connection, server: Server) -> None:
    with psycopg.connect(server.superuser_dsn(empty.info.dbname), autocommit=True) as su:
        su.execute("drop extension vector")
    with pytest.raises(psycopg.Error, match="vector"):
        empty.execute("create extension remem")


# -- dump and restore ------------------------------------------------------------------------------


def configure(conn: Connection) -> None:
    """Changes rows that the installation brought, so that a restore has to bring them back."""
    conn.execute("select remem.configure('tenant_mode', 'strict')")
    conn.execute("select remem.configure('tenant_mode', 'shared')")
    conn.execute("select remem.put_source_class('imported', 0.33::real, '9 days')")
    conn.execute("select remem.activate_space('n', 'acme', allow_missing => 1000)")
    conn.execute("update remem.source_class set trust = 0.44 where name = 'llm_generated'")
    conn.execute("delete from remem.source_class where name = 'imported'")


def kept(conn: Connection) -> dict[str, list[Any]]:
    """Every row but the ledger's, which says when this extension was created."""
    return {name: found for name, found in rows(conn).items() if name != "remem.schema_migration"}


@pytest.fixture
def full(extended: Connection) -> Connection:
    fill(extended)
    configure(extended)
    return extended


@pytest.mark.parametrize("form", ["custom", "plain", "directory"])
def test_a_dump_of_the_database_brings_back_every_row_and_every_answer(
    full: Connection,
    server: Server,
    make_empty: Callable[[], str],
    programs: Programs,
    tmp_path: Path,
    form: str,
) -> None:
    file, dsn, name = str(tmp_path / "dump"), server.owner_dsn(full.info.dbname), make_empty()
    dumped = programs("pg_dump", f"--format={form}", f"--file={file}", dsn)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    if form == "plain":
        restored = programs(
            "psql", "--no-psqlrc", "--quiet", f"--file={file}", server.owner_dsn(name)
        )
    else:
        restored = programs("pg_restore", f"--dbname={server.owner_dsn(name)}", file)
    # An ordinary role may not comment on an extension of the superuser's; all else comes through.
    errors = [line for line in restored.stderr.splitlines() if "ERROR" in line]
    assert [e for e in errors if "must be owner of extension vector" not in e] == []
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        assert kept(conn) == kept(full)
        assert answers(conn) == answers(full)
        assert install.migrate(conn).applied == ()
        assert installation(conn).keys() == installation(full).keys()
        conn.execute("select remem.remember('acme', 'Written after the restore.', ref => 'after')")
        assert conn.execute("select body from remem.get('acme', ref => 'after')").fetchone() == (
            "Written after the restore.",
        )


def test_a_dump_without_the_rows_leaves_an_extension_that_is_created_anew(
    full: Connection,
    server: Server,
    make_empty: Callable[[], str],
    programs: Programs,
    tmp_path: Path,
) -> None:
    file, name = str(tmp_path / "dump"), make_empty()
    programs("pg_dump", "--schema-only", f"--file={file}", server.owner_dsn(full.info.dbname))
    programs("psql", "--no-psqlrc", "--quiet", f"--file={file}", server.owner_dsn(name))
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("select remem.remember('w', 'Too early.')")
        assert refused.value.sqlstate == "RM202"
        assert "install again" in (refused.value.diag.message_hint or "")
        conn.execute("drop extension remem")
        conn.execute("drop schema remem cascade")
        conn.execute("create extension remem")
        conn.execute("select remem.remember('w', 'A new start.')")
        assert conn.execute("select count(*) from remem.source_class").fetchone() != (0,)


# -- upgrades --------------------------------------------------------------------------------------


@pytest.fixture(params=LANDED, ids=lambda path: path.name)
def older(request: pytest.FixtureRequest, empty: Connection, target: Path) -> Iterator[Connection]:
    """A database with a landed version, as that version's extension would have installed it."""
    version = request.param.name.removesuffix(".sql.gz")
    text = gzip.decompress(request.param.read_bytes()).decode()
    text = re.sub(r"^(begin|commit)\b.*;$", "", text, flags=re.MULTILINE)
    file = target / f"remem--{version}.sql"
    file.write_text(text)
    empty.execute(f"create extension remem version '{version}'".encode())
    yield empty
    file.unlink()


def test_an_update_brings_a_landed_version_to_what_a_fresh_extension_is(
    older: Connection, make_empty: Callable[[], str], server: Server
) -> None:
    older.execute("select remem.remember('acme', 'We retry three times, then page.', ref => 'r')")
    older.execute("select remem.remember('acme', 'We retry five times, then page.', ref => 'r')")
    with pytest.raises(Conflict):
        install.migrate(older)
    older.execute("alter extension remem update")
    with psycopg.connect(server.owner_dsn(make_empty()), autocommit=True) as fresh:
        fresh.execute("create extension remem")
        expected, found = installation(fresh), installation(older)
        assert found.keys() == expected.keys()
        assert {name for name in expected if expected[name] != found[name]} == set()
        config = "select array(select unnest(extconfig)::regclass::text order by 1), extversion "
        config += "from pg_extension where extname = 'remem'"
        assert older.execute(config).fetchone() == fresh.execute(config).fetchone()
    assert install.migrate(older).applied == ()
    hits = older.execute("select body from remem.recall('acme', 'how often do we retry?')")
    assert hits.fetchall() == [("We retry five times, then page.",)]


# -- what is built ---------------------------------------------------------------------------------


def test_the_upgrades_start_at_every_landed_version() -> None:
    assert landed() == [path.name.removesuffix(".sql.gz") for path in LANDED]


def test_building_twice_writes_the_same_files_and_leaves_no_older_one(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in build(tmp_path)}
    (tmp_path / "remem--0.0.1--0.0.2.sql").touch()
    assert {path.name: path.read_bytes() for path in build(tmp_path)} == first
    assert {path.name for path in tmp_path.iterdir()} == set(first)


def test_its_makefile_copies_it_to_where_the_server_looks(tmp_path: Path) -> None:
    build(tmp_path / "built")
    config = tmp_path / "pg_config"
    config.write_text(f"#!/bin/sh\necho {tmp_path}/share\n")
    config.chmod(0o755)
    make = ["make", "-C", str(tmp_path / "built"), f"PG_CONFIG={config}"]
    subprocess.run([*make, "install"], check=True, capture_output=True)
    there = {path.name for path in (tmp_path / "share" / "extension").iterdir()}
    assert there == {path.name for path in (tmp_path / "built").iterdir()} - {"Makefile"}
    subprocess.run([*make, "uninstall"], check=True, capture_output=True)
    assert list((tmp_path / "share" / "extension").iterdir()) == []
