"""C24: pgvector in another schema, and a caller with an empty search_path: everything works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from remem_pg import AsyncRemem, Remem, install
from tests.server import Server

SCHEMAS = ["extensions", 'My "Ext"', "remem vector"]


@pytest.fixture(params=SCHEMAS)
def elsewhere(request: pytest.FixtureRequest, server: Server) -> Iterator[str]:
    """The owner's DSN of a database with pgvector in another schema, the search_path empty."""
    name = server.new_database(install=False)
    schema = sql.Identifier(request.param)
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute("drop extension vector")
        su.execute(sql.SQL("create schema {}").format(schema))
        su.execute(sql.SQL("create extension vector schema {}").format(schema))
        su.execute(sql.SQL("grant usage on schema {} to public").format(schema))
    yield make_conninfo(server.owner_dsn(name), options="-c search_path=")
    server.drop_database(name)


def test_install_write_recall_and_jobs(elsewhere: str) -> None:
    assert install.migrate(elsewhere).pgvector_schema in SCHEMAS
    with Remem(elsewhere, workspace="w", embedding="hash") as mem:
        for number in (3, 5):
            mem.remember(f"We retry {number} times, then page.", ref="retries")
        hit = mem.recall("how often do we retry?")[0]
        assert hit.body == "We retry 5 times, then page."
        assert "vector" in hit.arms
        for mode in ("lexical", "vector"):
            assert mem.recall("how often do we retry?", mode=mode)[0].ref == "retries"
        mem.forget(ref="retries")
        mem.unforget(ref="retries")
        mem.reembed()
        assert mem.context("how often do we retry?") is not None
        assert install.migrate(elsewhere).applied == ()
        assert mem.recall("how often do we retry?")[0].ref == "retries"


def test_the_async_client_with_its_arms_side_by_side(elsewhere: str) -> None:
    install.migrate(elsewhere)

    async def use() -> list[str]:
        async with AsyncRemem(elsewhere, workspace="w", embedding="hash") as mem:
            await mem.remember("The vault opens at nine.")
            return [h.body for h in await mem.recall("when does the vault open?", parallel=True)]

    assert asyncio.run(use()) == ["The vault opens at nine."]


@pytest.mark.parametrize("elsewhere", SCHEMAS[:1], indirect=True)
def test_a_large_workspace_uses_the_index(elsewhere: str) -> None:
    """The HNSW index and its operator are found there too."""
    install.migrate(elsewhere)
    with psycopg.connect(elsewhere, autocommit=True) as conn:
        conn.execute(
            "select remem.remember_many('w', (select jsonb_agg(jsonb_build_object("
            "'body', 'Entry ' || n || ' of group ' || n % 50)) from generate_series(1, 2500) n))"
        )
        conn.execute("analyze")
        row = conn.execute(
            "select remem.recall_explain('w', 'entry of group 7') #>> '{arms,vector,state}'"
        ).fetchone()
        assert row == ("completed",)
