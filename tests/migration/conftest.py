"""Databases to install into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.server import OWNER, Server
from tests.support.dumps import Programs, fitting_programs

Connection = psycopg.Connection[Any]


@pytest.fixture
def make_database(server: Server) -> Iterator[Callable[..., str]]:
    """`make_database(vector_schema="public", encoding="UTF8", locale=None)`: an empty database.

    It belongs to the unprivileged owner; pgvector is in the schema named, or absent (None).
    """
    made: list[str] = []

    def make(
        vector_schema: str | None = "public", encoding: str = "UTF8", locale: str | None = None
    ) -> str:
        name = server.new_database(install=False)
        made.append(name)
        if (encoding, locale) != ("UTF8", None):
            server.drop_database(name)
            with psycopg.connect(server.superuser_dsn(), autocommit=True) as admin:
                admin.execute(
                    sql.SQL(
                        "create database {} template template0 owner {} encoding {} "
                        "locale_provider libc locale {}"
                    ).format(sql.Identifier(name), sql.Identifier(OWNER), encoding, locale or "C")
                )
        with psycopg.connect(
            server.superuser_dsn(name), autocommit=True, client_encoding="utf8"
        ) as su:
            su.execute("drop extension if exists vector")
            if vector_schema is not None:
                schema = sql.Identifier(vector_schema)
                su.execute(sql.SQL("create schema if not exists {}").format(schema))
                su.execute(sql.SQL("create extension vector schema {}").format(schema))
                su.execute(sql.SQL("grant usage on schema {} to public").format(schema))
        return name

    yield make
    for name in made:
        server.drop_database(name)


@pytest.fixture
def bare(bare_database: str) -> Iterator[Connection]:
    """The owner's connection to a database that has pgvector and nothing else, in autocommit."""
    with psycopg.connect(bare_database, autocommit=True) as conn:
        yield conn


@pytest.fixture(scope="session")
def programs(server: Server) -> Programs:
    """`programs("pg_dump", ...)`: a program of the server's release or a later one."""
    return fitting_programs(server)
