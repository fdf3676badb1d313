"""An upgrade while programs read and write: nobody gets an error, readers hardly wait."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from remem_pg import install
from tests.migration.test_install_upgrade import LANDED
from tests.server import Server
from tests.support.memories import Connection

# 0012 writes the postings anew, which is the longest that any upgrade has taken so far.
BEFORE = [path for path in LANDED if path.name < "0.6"]
MEMORIES, WORDS = 3000, 60


@pytest.fixture
def filled(server: Server, bare_database: str) -> Iterator[Connection]:
    with psycopg.connect(bare_database, autocommit=True) as bare:
        fill(bare)
        # Sooner than the writing of the postings ends, as in a database that is larger.
        with psycopg.connect(server.superuser_dsn(bare.info.dbname), autocommit=True) as su:
            name = sql.Identifier(bare.info.dbname)
            su.execute(sql.SQL("alter database {} set deadlock_timeout = '50ms'").format(name))
        yield bare


def fill(bare: Connection) -> None:
    bare.execute(gzip.decompress(BEFORE[-1].read_bytes()))
    for start in range(0, MEMORIES, 1000):
        bodies = [
            " ".join(f"w{(n * 7 + i * i) % 5000}" for i in range(WORDS))
            for n in range(start, start + 1000)
        ]
        bare.execute(
            "select count(*) from remem.remember_many('w', %s)",
            [Jsonb([{"body": b} for b in bodies])],
        )


def test_writers_wait_for_an_upgrade_and_readers_go_on(
    filled: Connection, bare_database: str
) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []
    took: dict[str, list[float]] = {"read": [], "write": []}

    def use(kind: str) -> None:
        try:
            with psycopg.connect(bare_database, autocommit=True) as conn:
                conn.execute("set client_min_messages = error")
                n = 0
                while not stop.is_set():
                    started = time.perf_counter()
                    if kind == "read":
                        conn.execute("select ref from remem.recall('w', 'w7 w11')").fetchall()
                    else:
                        said = f"{n} by {threading.get_ident()}"
                        conn.execute("select remem.remember('w', %s)", [said])
                    took[kind].append(time.perf_counter() - started)
                    n += 1
        except BaseException as error:  # told to the test, which is on another thread
            errors.append(error)

    users = [threading.Thread(target=use, args=(kind,)) for kind in ("read", "write", "write")]
    for user in users:
        user.start()
    try:
        time.sleep(0.2)
        started = time.perf_counter()
        install.migrate(bare_database)
        upgraded = time.perf_counter() - started
        time.sleep(0.2)
    finally:
        stop.set()
        for user in users:
            user.join(30)
    assert errors == []
    assert len(took["write"]) > 10
    # Writers waited, which shows that the two met; no reader waited for the whole of it.
    assert max(took["write"]) > 0.5 * upgraded > 0.1
    assert max(took["read"]) < upgraded
    written = filled.execute("select remem.count('w')").fetchone()
    assert written == (MEMORIES + len(took["write"]),)
