"""What a role, a database or the environment sets for a session: the DateStyle and the encoding."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from remem_pg import AsyncRemem, InvalidArgument, Remem
from remem_pg.database import wire
from remem_pg.operating import doctor

STYLES = ["German", "SQL, DMY", "Postgres, MDY"]


def read_times(client: Remem) -> None:
    """Writes and reads everything that has a time."""
    ref = client.remember("We retry three times.", ref="r", occurred_at="2026-02-01T10:00:00Z")
    client.remember("We retry four times.", ref="r", on_conflict="new_version")
    found = client.get(memory_id=ref.memory_id)
    assert found is not None
    assert found.occurred_at == datetime(2026, 2, 1, 10, tzinfo=UTC)
    assert client.recall("retry")[0].ref == "r"
    assert len(client.history(ref="r")) == 2


@pytest.mark.parametrize("style", STYLES)
def test_the_date_style_of_a_role_does_not_matter(
    db_dsn: str, su: psycopg.Connection[Any], database: str, style: str
) -> None:
    su.execute(f"alter database \"{database}\" set datestyle = '{style}'")
    with Remem(db_dsn, workspace="acme", embedding="hash") as client:
        read_times(client)


def test_the_date_style_of_the_callers_connection_does_not_matter_and_stays(db_dsn: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True, options="-c datestyle=German") as conn:
        read_times(Remem(conn, workspace="acme", embedding="hash"))
        assert conn.execute("show datestyle").fetchone() == ("German, DMY",)


def test_the_date_style_does_not_matter_to_the_async_client(db_dsn: str) -> None:
    async def times() -> datetime | None:
        dsn = psycopg.conninfo.make_conninfo(db_dsn, options="-c datestyle=German")
        async with AsyncRemem(dsn, workspace="acme", embedding="hash") as client:
            await client.remember("Once.", ref="r", occurred_at="2026-02-01T10:00:00Z")
            found = await client.get(ref="r")
            assert found is not None
            return found.occurred_at

    assert asyncio.run(times()) == datetime(2026, 2, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("style", ["ISO", "German"])
def test_a_time_without_end_is_the_last_moment_in_every_style(db_dsn: str, style: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True, options=f"-c datestyle={style}") as conn:
        with psycopg.Cursor(conn) as cursor:
            wire.adapt(cursor.adapters)
            statement = "select timestamptz 'infinity', timestamptz '-infinity'"
            row = cursor.execute(statement, binary=wire.is_binary(conn)).fetchone()
        assert row is not None
        assert [moment.replace(tzinfo=None) for moment in row] == [datetime.max, datetime.min]


# the encoding


def test_the_encoding_of_role_environment_or_dsn_does_not_matter(
    db_dsn: str, su: psycopg.Connection[Any], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    su.execute(f"alter database \"{database}\" set client_encoding = 'SQL_ASCII'")
    with Remem(db_dsn, workspace="acme", embedding="hash") as client:
        client.remember("Café 日本", ref="r")
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    for dsn in (db_dsn, psycopg.conninfo.make_conninfo(db_dsn, client_encoding="LATIN1")):
        with Remem(dsn, workspace="acme", embedding="hash") as client:
            found = client.get(ref="r")
            assert found is not None
            assert found.body == "Café 日本"


def test_the_async_clients_own_connections_have_the_encoding_of_its_texts(
    db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")

    async def body() -> str:
        async with AsyncRemem(db_dsn, workspace="acme", embedding="hash") as client:
            await client.remember("Café 日本", ref="r")
            return (await client.recall("café"))[0].body

    assert asyncio.run(body()) == "Café 日本"


def test_a_connection_that_gives_bytes_for_texts_is_refused_at_first_use(db_dsn: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True, client_encoding="SQL_ASCII") as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        for call in (client.count, lambda: client.remember("x")):
            with pytest.raises(InvalidArgument, match="client_encoding SQL_ASCII"):
                call()
        conn.execute("set client_encoding = 'UTF8'")
        assert client.count() == 0

    async def refused() -> None:
        async with await psycopg.AsyncConnection.connect(
            db_dsn, autocommit=True, client_encoding="SQL_ASCII"
        ) as conn:
            with pytest.raises(InvalidArgument, match="client_encoding SQL_ASCII"):
                await AsyncRemem(conn, workspace="acme", embedding=None).count()

    asyncio.run(refused())


def test_doctor_reads_texts_whatever_the_encoding_of_the_environment(
    db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    report = doctor.examine(db_dsn, "here", "acme", "hash")
    assert report.reached
    assert {(type(row.status), type(row.detail)) for row in report.rows} == {(str, str)}
    assert not [row for row in report.rows if "b'" in row.detail]
