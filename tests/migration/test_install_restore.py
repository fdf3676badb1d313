"""An unprivileged owner dumps, restores into an empty database and migrates (case C25)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import install
from remem_pg.errors import EmbeddedUnavailable
from remem_pg.pg_programs import find_binaries
from tests.migration.catalog import installation
from tests.server import Server

Connection = psycopg.Connection[Any]

QUESTIONS = [
    "how often do we retry?",
    "what did Ana say about the deployment?",
    "who is called Turing",
    "納期はいつですか",
    "ERR_4071",
]


class Programs:
    """pg_dump, pg_restore and psql of one release, not older than the server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._directory / program), *args],
            env={**os.environ, "PGOPTIONS": ""},
            check=False,
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="session")
def programs(server: Server) -> Programs:
    with psycopg.connect(server.superuser_dsn()) as conn:
        needed = conn.info.server_version // 10000
    places = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/pg_dump")]
    with contextlib.suppress(EmbeddedUnavailable):
        places.append(find_binaries())
    if found := shutil.which("pg_dump"):
        places.append(Path(found).parent)
    fitting = {}
    for place in places:
        said = subprocess.run([str(place / "pg_dump"), "--version"], capture_output=True, text=True)
        major = int(re.findall(r"\d+", said.stdout)[0])
        if major >= needed:
            fitting.setdefault(major, place)
    assert fitting, f"no pg_dump of release {needed} or later"
    return Programs(fitting[min(fitting)])


def fill(conn: Connection) -> None:
    """Two workspaces with a conversation, versions, vectors and postings of the past."""
    for name in ("acme", "記憶"):
        items = [
            ("We retry three times, then page.", "retries", None, None),
            ("The office cat is called Turing.", None, None, None),
            ("The deployment is on Tuesday.", None, "standup", "Ana"),
            ("Then I will be away.", None, "standup", "Ben"),
            ("納期は金曜日です。", None, None, None),
            ("The log says ERR_4071.", None, None, None),
        ]
        for body, ref, session, speaker in items:
            conn.execute(
                "select remem.remember(%s, %s, ref => %s, session_ref => %s, speaker => %s, "
                "tags => '{a,b}', metadata => '{\"n\": 1}')",
                (name, body, ref, session, speaker),
            )
        conn.execute("select remem.remember(%s, 'We retry five times.', ref => 'retries')", (name,))
    conn.execute(
        'select remem.register_space(\'{"name": "n", "backend": "b", "asset": "a", '
        '"dimensions": 2}\')'
    )
    conn.execute("select remem.configure('tenant_mode', 'shared')")


def rows(conn: Connection) -> dict[str, list[Any]]:
    """Everything in every table."""
    names = [
        name
        for (name,) in conn.execute(
            "select c.oid::regclass::text from pg_class c "
            "where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r'"
        ).fetchall()
    ]
    # A migration renews when these were said; what they say is compared.
    dated = "- 'updated_at'" if "remem.setting" in names else ""
    return {
        name: conn.execute(
            f"select to_jsonb(t) {dated} as r from {name} t order by 1".encode()
        ).fetchall()
        for name in names
    }


def answers(conn: Connection) -> list[Any]:
    return [
        conn.execute(
            "select to_jsonb(r) from remem.recall(%s, %s) r", (workspace, question)
        ).fetchall()
        for workspace in ("acme", "記憶")
        for question in QUESTIONS
    ]


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
