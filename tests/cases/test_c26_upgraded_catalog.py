"""C26: an upgraded database and a fresh one are the same, as pg_dump sees them. (The checks prove
that docs/schema.sql is what a fresh one is.)"""

from __future__ import annotations

import gzip
from pathlib import Path

import psycopg
import pytest

from remem_pg import install
from tests.server import Server
from tests.support.dumps import fitting_programs

LANDED = sorted((Path(__file__).parents[1] / "migration" / "landed").glob("*.sql.gz"))


def dump(server: Server, dsn: str) -> str:
    done = fitting_programs(server)("pg_dump", "--schema=remem", "--schema-only", "--no-owner", dsn)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bodies(text: str) -> list[str]:
    """The lines of a dump that are not of this run."""
    return [line for line in text.splitlines() if not line.startswith(("\\", "-- Dumped"))]


@pytest.mark.parametrize("landed", LANDED, ids=lambda path: path.name)
def test_a_dump_of_an_upgraded_database_is_that_of_a_fresh_one(
    server: Server, bare_database: str, db_dsn: str, landed: Path
) -> None:
    with psycopg.connect(bare_database, autocommit=True) as conn:
        conn.execute(gzip.decompress(landed.read_bytes()))
        before = bodies(dump(server, bare_database))
        report = install.migrate(conn)
    assert report.previous_version == landed.name.removesuffix(".sql.gz")
    upgraded, fresh = bodies(dump(server, bare_database)), bodies(dump(server, db_dsn))
    assert upgraded == fresh
    assert before != fresh or not report.applied
