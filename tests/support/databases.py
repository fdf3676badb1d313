"""A database that several tests of a file read, filled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from tests.server import Server
from tests.support.memories import Connection


@contextmanager
def fresh(server: Server, template: str | None = None) -> Iterator[str]:
    """The name of a fresh database, or of a copy of one that nobody is connected to."""
    name = server.new_database(template=template)
    try:
        yield name
    finally:
        server.drop_database(name)


@contextmanager
def filled(server: Server, fill: Callable[[Connection], None]) -> Iterator[str]:
    """The name of a fresh database after `fill` ran in it as the owner."""
    with fresh(server) as name:
        with owner(server, name) as conn:
            fill(conn)
        yield name


@contextmanager
def inspected(server: Server, fill: Callable[[Connection], None]) -> Iterator[Connection]:
    """A superuser's connection to a fresh database after `fill` ran in it, to see plans with."""
    with (
        filled(server, fill) as name,
        psycopg.connect(server.superuser_dsn(name), autocommit=True) as su,
    ):
        yield su


@contextmanager
def owner(server: Server, name: str) -> Iterator[Connection]:
    """The owner's connection, in autocommit."""
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        yield conn


@contextmanager
def indexes_last(db: Connection, *tables: str) -> Iterator[None]:
    """Without the indexes beside the keys while the block fills the tables; built after it."""
    later = db.execute(
        """
        select c.oid::regclass::text, pg_get_indexdef(c.oid)
        from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid in (select ('remem.' || t)::regclass from unnest(%s::text[]) t)
          and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
        """,
        [list(tables)],
    ).fetchall()
    for name, _ in later:
        db.execute(f"drop index {name}".encode())
    yield
    db.execute("set maintenance_work_mem = '256MB'")
    for name, definition in later:
        # Half the time to build; what a scan costs does not depend on it.
        quick = " with (ef_construction = 32)" if name.endswith("hnsw_idx") else ""
        db.execute((definition + quick).encode())
    db.execute("reset maintenance_work_mem")
