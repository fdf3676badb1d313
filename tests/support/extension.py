"""The extension's files where the run's server finds them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from scripts.extension import build
from tests.server import Server
from tests.support.places import new_directory


@contextmanager
def files(server: Server) -> Iterator[Path]:
    """The directory where the built extension lies, one that the server searches for extensions.

    From Postgres 18 on a server can be told of any directory; before, they go where it looks.
    """
    with psycopg.connect(server.superuser_dsn(), autocommit=True) as conn:
        new = conn.info.server_version >= 180000
        row = conn.execute("select setting from pg_config where name = 'SHAREDIR'").fetchone()
    assert row is not None
    built = new_directory("remem-extension-")
    try:
        target = (built if new else Path(str(row[0]))) / "extension"
        assert new or os.access(target, os.W_OK), f"{target} of the server cannot be written"
        for path in build(built / "built"):
            target.mkdir(mode=0o755, exist_ok=True)
            shutil.copy(path, target / path.name).chmod(0o644)
        yield target
        if not new:
            for path in [target / "remem.control", *target.glob("remem--*.sql")]:
                path.unlink()
    finally:
        shutil.rmtree(built)


def searched(server: Server, database: str, target: Path) -> None:
    """Lets the sessions of a database find the files in ``target``."""
    with psycopg.connect(server.superuser_dsn(), autocommit=True) as conn:
        if conn.info.server_version >= 180000:
            conn.execute(
                sql.SQL("alter database {} set extension_control_path = {}").format(
                    sql.Identifier(database), f"$system:{target.parent}"
                )
            )
