"""The image of docker/Dockerfile as a caller in plain SQL meets it; run by docker/try-image.sh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import Server

Connection = psycopg.Connection[Any]


@pytest.fixture
def remem(server: Server) -> Iterator[Connection]:
    """The role that owns the schema, in the database that the first start made."""
    with psycopg.connect(server.dsn("remem", "remem"), autocommit=True) as conn:
        yield conn


def test_the_first_start_installs_remem_for_an_ordinary_role(remem: Connection) -> None:
    row = remem.execute(
        "select rolsuper, (remem.version() ->> 'version') is not null from pg_roles "
        "where rolname = current_user"
    ).fetchone()
    assert row == (False, True)


def test_recall_in_plain_sql_finds_by_meaning(remem: Connection) -> None:
    for body in (
        "The physician prescribed antibiotics for the infection.",
        "Our cat sleeps on the warm windowsill every afternoon.",
    ):
        remem.execute("select remem.remember('acme', %s)", (body,))
    rows = remem.execute(
        "select body, degraded from remem.recall('acme', %s)",
        ("which medicine was recommended by a doctor?",),
    ).fetchall()
    assert rows[0] == ("The physician prescribed antibiotics for the infection.", [])


def test_only_a_superuser_could_change_the_model(remem: Connection) -> None:
    row = remem.execute("select cardinality(remem.embed('x'))").fetchone()
    assert row == (384,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        remem.execute("drop function remem_plpython.embed(text[])")
