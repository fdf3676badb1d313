"""doctor and maintain of both clients."""

from __future__ import annotations

import pytest

from remem_pg import AsyncRemem, CheckRow, InvalidArgument, Remem
from tests.support.memories import Connection, remember


def test_doctor_is_about_the_workspace_or_about_everything(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "We retry three times.")
    with Remem(db_dsn, workspace="w", embedding=None) as memory:
        rows = {row.check_name: row for row in memory.doctor()}
        assert "embeddings:hash" in rows and "size" not in rows
        assert isinstance(rows["postgres"], CheckRow)
        assert "size" in {row.check_name for row in memory.doctor(everything=True)}
    with Remem(db_dsn, workspace="w", embedding=None, tenant=True) as confined:
        assert {row.check_name for row in confined.doctor()} == set(rows)


def test_maintain_says_what_it_did(db: Connection, db_dsn: str) -> None:
    with Remem(db_dsn, workspace="w", embedding=None) as memory:
        rows = memory.maintain(budget=5)
        assert [row.task for row in rows][:2] == ["claims", "runs"]
        assert {row.state for row in rows} == {"done"}
        with pytest.raises(InvalidArgument):
            memory.maintain(budget=0)


async def test_the_asynchronous_client_does_the_same(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "We retry three times.")
    async with AsyncRemem(db_dsn, workspace="w", embedding=None) as memory:
        assert {row.status for row in await memory.doctor()} == {"ok"}
        assert len(await memory.doctor(everything=True)) > len(await memory.doctor())
        assert {row.state for row in await memory.maintain()} == {"done"}
