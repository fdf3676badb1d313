"""C23: eight and then twenty that initialise the same database at once all succeed, and what each
of them writes right after is there."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from remem_pg import Remem
from scripts.generated import ROOT
from tests.migration.catalog import installation
from tests.support.memories import Connection


def test_twenty_programs_that_install_at_their_start_all_go_on_to_write(
    bare_database: str, db: Connection
) -> None:
    n = 20
    together = threading.Barrier(n)

    def program(number: int) -> str:
        with Remem(bare_database, workspace="w", embedding="hash") as mem:
            together.wait(60)
            mem.migrate()
            mem.remember(f"Program number {number} was here.", ref=f"p{number}")
            return mem.recall(f"was program number {number} here?", k=n)[0].body

    with ThreadPoolExecutor(n) as pool:
        said = list(pool.map(program, range(n)))
    assert said == [f"Program number {number} was here." for number in range(n)]
    with psycopg.connect(bare_database, autocommit=True) as conn:
        assert conn.execute("select remem.count('w')").fetchone() == (n,)
        assert installation(conn) == installation(db)


def test_eight_times_remem_init_at_once(bare_database: str, db: Connection) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", "from remem_pg.cli import main; main()",
             "--dsn", bare_database, "--embedding", "hash", "init", "--json"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    said = [(one.communicate(timeout=180)[1], one.returncode) for one in started]
    assert [code for _, code in said] == [0] * 8, said
    with psycopg.connect(bare_database, autocommit=True) as conn:
        assert installation(conn) == installation(db)
