"""An unprivileged owner dumps, restores into an empty database and migrates (case C25)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import install
from tests.migration.catalog import installation
from tests.server import Server
from tests.support.dumps import Programs, answers, fill, rows

Connection = psycopg.Connection[Any]


@pytest.fixture
def filled(db: Connection) -> Connection:
    fill(db)
    return db


def catalog(conn: Connection) -> dict[str, Any]:
    """The installation; a restored constraint has other parentheses and says the same."""
    return {
        name: (re.sub(r"[()]", "", said[0]), *said[1:]) if name.startswith("constraint") else said
        for name, said in installation(conn).items()
    }


def test_a_dump_of_the_schema_restores_without_an_error_where_pgvector_is_loaded_first(
    filled: Connection, db_dsn: str, bare_database: str, programs: Programs, tmp_path: Path
) -> None:
    file = str(tmp_path / "remem.sql")
    dumped = programs("pg_dump", "--schema=remem", f"--file={file}", db_dsn)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    restored = programs(
        "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction",
        "--command=select '[1]'::public.vector", f"--file={file}", bare_database,
    )  # fmt: skip
    assert (restored.returncode, restored.stderr) == (0, "")
    with psycopg.connect(bare_database, autocommit=True) as conn:
        assert rows(conn) == rows(filled)
        assert answers(conn) == answers(filled)
        assert install.migrate(conn).applied == ()
        assert catalog(conn) == catalog(filled)
        assert rows(conn) == rows(filled)
        assert answers(conn) == answers(filled)


def test_a_dump_of_the_whole_database_is_repaired_by_migrate(
    filled: Connection, db_dsn: str, bare_database: str, programs: Programs, tmp_path: Path
) -> None:
    file = str(tmp_path / "whole.dump")
    dumped = programs("pg_dump", "--format=custom", f"--file={file}", db_dsn)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    restored = programs("pg_restore", f"--dbname={bare_database}", file)
    # What an ordinary role may not: comment on the extension, and name settings of hnsw before the
    # library is loaded. Everything else has to come through.
    failed = re.findall(r"Command was: (.*)", restored.stderr)
    with_settings = filled.execute(
        "select proname from pg_proc where pronamespace = 'remem'::regnamespace "
        "and proconfig::text like '%hnsw%'"
    ).fetchall()
    excused = ["COMMENT ON EXTENSION", *(f"FUNCTION remem.{name}(" for (name,) in with_settings)]
    assert [c for c in failed if not any(text in c for text in excused)] == []
    with psycopg.connect(bare_database, autocommit=True) as conn:
        assert install.migrate(conn).applied == ()
        assert catalog(conn) == catalog(filled)
        assert rows(conn) == rows(filled)
        assert answers(conn) == answers(filled)


def test_a_restored_database_goes_on_with_new_numbers(
    filled: Connection, db_dsn: str, bare_database: str, programs: Programs, tmp_path: Path
) -> None:
    file = str(tmp_path / "remem.sql")
    programs("pg_dump", "--schema=remem", f"--file={file}", db_dsn)
    programs("psql", "--quiet", f"--file={file}", bare_database)
    install.migrate(bare_database)
    with psycopg.connect(bare_database, autocommit=True) as conn:
        counted = conn.execute("select remem.count('acme')").fetchone()
        assert counted == filled.execute("select remem.count('acme')").fetchone()
        outcomes = [
            conn.execute(
                "select outcome from remem.remember('acme', %s, ref => %s)", given
            ).fetchone()
            for given in (
                ("We retry five times.", "retries"),
                ("We retry never.", "retries"),
                ("Something new.", None),
            )
        ]
        assert outcomes == [("unchanged",), ("new_version",), ("created",)]
        conn.execute("select remem.remember('acme', 'Back.', ref => 'b', session_ref => 'standup')")
        row = conn.execute("select turn_no from remem.get('acme', ref => 'b')").fetchone()
        assert row == (3,)


def test_grants_hold_after_a_restore_in_the_same_cluster(
    filled: Connection,
    db_dsn: str,
    bare_database: str,
    server: Server,
    programs: Programs,
    make_role: Callable[..., str],
    tmp_path: Path,
) -> None:
    role = make_role("reader")
    filled.execute("select remem.grant_access(%s, 'acme')", (role,))
    file = str(tmp_path / "remem.sql")
    programs("pg_dump", "--schema=remem", f"--file={file}", db_dsn)
    programs("psql", "--quiet", f"--file={file}", bare_database)
    install.migrate(bare_database)
    with psycopg.connect(bare_database) as conn:
        dbname = conn.info.dbname
    with psycopg.connect(server.dsn(role, dbname), autocommit=True) as reader:
        assert reader.execute("select remem.count('acme')").fetchone() == (6,)
        with pytest.raises(psycopg.Error) as refused:
            reader.execute("select remem.count('記憶')")
        assert refused.value.sqlstate == "RM301"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select * from remem.memory")
