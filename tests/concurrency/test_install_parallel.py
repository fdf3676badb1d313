"""Many installers at once: all succeed, one installs (case C23)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import install
from tests.migration.catalog import installation
from tests.server import Server
from tests.support.waiting import until

Connection = psycopg.Connection[Any]
ROOT = Path(__file__).resolve().parents[2]
ALL = tuple(script.name for script in install.migrations())


def waiting(conn: Connection) -> int:
    """How many sessions wait for the installers' lock in this database."""
    row = conn.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and not granted "
        "and database = (select oid from pg_database where datname = current_database())"
    ).fetchone()
    assert row is not None
    return int(row[0])


def wait_for(conn: Connection, sessions: int) -> None:
    """Return when so many installers wait, so that they really start at once."""
    until(lambda: waiting(conn) >= sessions, 60, f"fewer than {sessions} installers arrived")


@pytest.fixture
def gate(bare_database: str) -> Any:
    """A session that holds the installers' lock until the test lets go."""
    with psycopg.connect(bare_database, autocommit=True) as conn:
        conn.execute("select pg_advisory_lock(%s)", (install.INSTALL_LOCK,))
        yield conn


def let_go(gate: Connection) -> None:
    gate.execute("select pg_advisory_unlock(%s)", (install.INSTALL_LOCK,))


def reports(
    gate: Connection, dsn: str, n: int, work: Callable[[str], Any] = install.migrate
) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        started = [pool.submit(work, dsn) for _ in range(n)]
        wait_for(gate, n)
        let_go(gate)
        return [one.result(timeout=120) for one in started]


@pytest.mark.parametrize("n", [8, 20])
def test_many_installers_of_an_empty_database_all_succeed_and_one_installs(
    gate: Connection, bare_database: str, db: Connection, n: int
) -> None:
    applied = [report.applied for report in reports(gate, bare_database, n)]
    assert sorted(applied) == [()] * (n - 1) + [ALL]
    assert installation(gate) == installation(db)


def test_many_installers_of_an_installed_database_all_succeed(
    gate: Connection, bare_database: str
) -> None:
    let_go(gate)
    install.migrate(bare_database)
    before = installation(gate)
    gate.execute("select pg_advisory_lock(%s)", (install.INSTALL_LOCK,))
    assert [report.applied for report in reports(gate, bare_database, 8)] == [()] * 8
    assert installation(gate) == before


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_installers_whose_role_defaults_to_a_strict_isolation_all_succeed(
    gate: Connection, bare_database: str, isolation: str
) -> None:
    escaped = isolation.replace(" ", "\\ ")
    options = f"-c default_transaction_isolation={escaped}"
    dsn = psycopg.conninfo.make_conninfo(bare_database, options=options)
    applied = [report.applied for report in reports(gate, dsn, 8)]
    assert sorted(applied) == [()] * 7 + [ALL]


def test_installers_that_also_create_pgvector_all_succeed(server: Server) -> None:
    name = server.new_database(install=False)
    dsn = server.superuser_dsn(name)
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("drop extension vector")
            conn.execute("select pg_advisory_lock(%s)", (install.INSTALL_LOCK,))
            assert sorted(r.applied for r in reports(conn, dsn, 8)) == [()] * 7 + [ALL]
    finally:
        server.drop_database(name)


def test_eight_processes_that_install_at_once_all_succeed(
    gate: Connection, bare_database: str, db: Connection
) -> None:
    program = (
        "import sys; from remem_pg import install; print(*install.migrate(sys.argv[1]).applied)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, bare_database],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    wait_for(gate, len(started))
    let_go(gate)
    said = [(*one.communicate(timeout=120), one.returncode) for one in started]
    assert [error for _, error, _ in said if error] == []
    assert sorted(out.split() for out, _, _ in said) == [[]] * 7 + [list(ALL)]
    assert installation(gate) == installation(db)


def test_an_installer_that_dies_in_the_middle_leaves_the_next_one_an_empty_database(
    gate: Connection, bare_database: str, db: Connection
) -> None:
    let_go(gate)
    with psycopg.connect(bare_database) as conn:
        conn.execute("select 1")  # begins the transaction that ends with its connection
        install.migrate(conn)
        conn.close()
    assert installation(gate) == {}
    assert install.migrate(bare_database).applied == ALL
    assert installation(gate) == installation(db)


def test_one_uninstalls_while_others_install_and_all_end_in_one_state(
    gate: Connection, bare_database: str, db: Connection
) -> None:
    let_go(gate)
    install.migrate(bare_database)
    gate.execute("select pg_advisory_lock(%s)", (install.INSTALL_LOCK,))
    with ThreadPoolExecutor(8) as pool:
        out = pool.submit(install.uninstall, bare_database, confirm=True)
        back = [pool.submit(install.migrate, bare_database) for _ in range(6)]
        wait_for(gate, 7)
        let_go(gate)
        assert out.result(timeout=120) == {"workspaces": 0, "memories": 0}
        for one in back:
            one.result(timeout=120)
    left = installation(gate)
    assert left in ({}, installation(db))


def test_an_upgrade_waits_for_nobody_who_only_reads(db: Connection, db_dsn: str) -> None:
    db.execute("select remem.remember('w', 'The vault opens at nine.')")
    with psycopg.connect(db_dsn) as reading:
        reading.execute("select * from remem.recall('w', 'when does the vault open?')").fetchall()
        dsn = psycopg.conninfo.make_conninfo(db_dsn, options="-c lock_timeout=5s")
        assert install.migrate(dsn).applied == ()
        hits = reading.execute("select body from remem.recall('w', 'vault')").fetchall()
        assert hits == [("The vault opens at nine.",)]
