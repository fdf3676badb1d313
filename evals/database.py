"""The database an evaluation runs in: a given one, or an embedded server that lives for the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from remem_pg.install import migrate
from remem_pg.postmaster import Postmaster

OWNER = "remem_owner"
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "max_wal_size": "4GB"}


@contextmanager
def temporary_database(settings: dict[str, str] | None = None) -> Iterator[str]:
    """DSN of a fresh database with remem installed by an ordinary role, gone at the end.

    Raises remem_pg.ServerUnavailable when no embedded server can be started.
    """
    directory = Path(tempfile.mkdtemp(prefix="remem-evals-"))
    directory.chmod(0o711)  # as root the server runs as another user, which has to pass
    server = Postmaster(directory / "server", settings=_SETTINGS | (settings or {}), durable=False)
    try:
        server.acquire()
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as conn:
                conn.execute(f"create role {OWNER} login")
                conn.execute(f"create database evals owner {OWNER}")
            with psycopg.connect(server.dsn(dbname="evals"), autocommit=True) as conn:
                conn.execute("create extension vector schema public")
            dsn = server.dsn(OWNER, "evals")
            migrate(dsn)
            yield dsn
        finally:
            server.release()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """``dsn`` with remem installed or upgraded in it; without one, a temporary database."""
    if dsn is None:
        with temporary_database() as fresh:
            yield fresh
    else:
        migrate(dsn)
        yield dsn
