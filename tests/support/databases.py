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
def owner(server: Server, name: str) -> Iterator[Connection]:
    """The owner's connection, in autocommit."""
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        yield conn
