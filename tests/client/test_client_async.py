"""AsyncRemem: the same surface as Remem, on a real server."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from remem_pg import (
    AsyncRemem,
    InvalidArgument,
    NotInstalled,
    Remem,
    ServerUnavailable,
    TenantNotSet,
    TextRefused,
)
from remem_pg.database import wire


@pytest.fixture
async def mem(db_dsn: str) -> AsyncIterator[AsyncRemem]:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None) as client:
        yield client


def surface(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") or name == "__init__"
    }


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    sync, twin = surface(Remem), surface(AsyncRemem)
    assert sync.keys() == twin.keys()
    assert len(sync) > 15
    for name, member in sync.items():
        if isinstance(member, property):
            assert isinstance(twin[name], property)
            continue
        ours = inspect.signature(member).parameters
        theirs = inspect.signature(twin[name]).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ], name


def test_every_method_that_does_io_is_awaited_and_every_method_is_explained() -> None:
    for name, member in surface(AsyncRemem).items():
        if name in ("__init__", "workspace", "workspace_name"):
            continue
        assert inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member), name
    for cls in (Remem, AsyncRemem):
        for name, member in surface(cls).items():
            assert name == "__init__" or inspect.getdoc(member), name


async def test_remember_and_recall(mem: AsyncRemem) -> None:
    written = await mem.remember("We retry three times, then page.", ref="retries")
    assert written.outcome == "created"
    result = await mem.recall("how often do we retry?")
    assert result[0].ref == "retries"
    assert result.degraded == ()
    memory = await mem.get(ref="retries")
    assert memory is not None
    assert memory.memory_id == written.memory_id
    trace = await mem.recall_explain("how often do we retry?")
    assert trace["hits"][0]["ref"] == "retries"


async def test_reports_aborts_and_pages(mem: AsyncRemem) -> None:
    items: list[Any] = [{"body": f"note {n}", "ref": str(n)} for n in range(9)]
    refs = await mem.remember_many([*items, {"body": "x\0"}], "report", batch_size=4)
    assert [ref.outcome for ref in refs] == ["created"] * 9 + ["refused"]
    other = mem.workspace("beta")
    with pytest.raises(InvalidArgument, match="item 10"):
        await other.remember_many([*items, {"body": "x", "kind": "no"}], batch_size=4)
    assert await other.count() == 0
    assert [memory.ref async for memory in mem.iterate(page=4)] == [
        memory.ref for memory in await mem.list(limit=50)
    ]
    assert await mem.count() == 9


async def test_many_tasks_share_one_client(mem: AsyncRemem) -> None:
    await asyncio.gather(*(mem.remember(f"note {n}") for n in range(32)))
    results = await asyncio.gather(*(mem.recall("note", k=3) for _ in range(32)))
    assert {len(result) for result in results} == {3}


async def test_degraded_states_arrive_also_with_an_empty_result(mem: AsyncRemem) -> None:
    result = await mem.workspace("nobody").recall("x")
    assert (len(result), result.degraded) == (0, ("unknown_workspace",))


async def test_errors_are_the_same(mem: AsyncRemem, bare_database: str) -> None:
    with pytest.raises(TextRefused):
        await mem.recall("a\0")
    with pytest.raises(InvalidArgument):
        await mem.recall("a", k=-1)
    unreachable = AsyncRemem("host=/nowhere dbname=x", workspace="a", embedding=None)
    with pytest.raises(ServerUnavailable):
        await unreachable.count()
    async with AsyncRemem(bare_database, workspace="a", embedding=None) as client:
        with pytest.raises(NotInstalled):
            await client.count()
        await client.migrate()
        assert await client.count() == 0


async def test_a_source_of_the_sync_client_is_refused_and_the_other_way_round(
    db_dsn: str,
) -> None:
    with pytest.raises(InvalidArgument, match="AsyncRemem"):
        AsyncRemem(ConnectionPool(db_dsn, open=False), workspace="a")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="AsyncRemem"):
        Remem(AsyncConnectionPool(db_dsn, open=False), workspace="a")  # type: ignore[arg-type]


async def test_the_callers_connection_and_pool(db_dsn: str, mem: AsyncRemem) -> None:
    async with await psycopg.AsyncConnection.connect(db_dsn) as conn:
        inside = AsyncRemem(conn, workspace="acme", embedding=None)
        await inside.remember("not yet")
        await inside.remember_many([{"body": f"nor {n}"} for n in range(5)], batch_size=2)
        assert await mem.count() == 0
        await conn.rollback()
        await inside.remember("now")
        await conn.commit()
        assert await mem.count() == 1
        await inside.close()
        assert not conn.closed
    async with AsyncConnectionPool(db_dsn, min_size=1, max_size=2, open=False) as pool:
        async with AsyncRemem(pool, workspace="acme", embedding=None) as client:
            assert await client.count() == 1
        assert not pool.closed


async def test_two_tasks_may_share_the_callers_connection(db_dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(db_dsn, autocommit=True) as conn:
        client = AsyncRemem(conn, workspace="acme", embedding=None)
        await client.remember("We retry three times.")
        questions = ["retry", "the of and"] * 10
        results = await asyncio.gather(*map(client.recall, questions))
    for question, result in zip(questions, results, strict=True):
        assert ("no_lexemes" in result.degraded) == (question != "retry")


async def test_dead_connections_are_replaced_and_reads_sent_again(
    db_dsn: str,
    su: psycopg.Connection[Any],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kill() -> None:
        su.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = %s and pid <> pg_backend_pid()",
            (database,),
        )

    kwargs = {"autocommit": True}
    async with AsyncConnectionPool(
        db_dsn, min_size=1, max_size=1, kwargs=kwargs, open=False
    ) as pool:
        client = AsyncRemem(pool, workspace="acme", embedding=None)
        await client.remember("one")
        kill()
        assert (await client.remember("two")).outcome == "created"
        monkeypatch.setattr(wire, "is_alive", lambda pgconn: True)
        kill()
        assert await client.count() == 2
        kill()
        with pytest.raises(ServerUnavailable):
            await client.remember("three")
        assert await client.count() == 2


async def test_strict_mode(db_dsn: str, mem: AsyncRemem) -> None:
    await mem.remember("We retry three times.")
    await mem.configure("tenant_mode", "strict")
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None, tenant=False) as never:
        with pytest.raises(TenantNotSet):
            await never.count()
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None, tenant=True) as strict:
        assert (await strict.recall("retry"))[0].rank == 1
        refs = await strict.remember_many([{"body": f"n {n}"} for n in range(5)], batch_size=2)
        assert len(refs) == 5
    async with await psycopg.AsyncConnection.connect(db_dsn) as conn:
        await conn.execute("select set_config('remem.workspace', 'mine', true)")
        await AsyncRemem(conn, workspace="acme", embedding=None, tenant=True).count()
        cursor = await conn.execute("select current_setting('remem.workspace')")
        assert await cursor.fetchone() == ("mine",)


async def test_a_model_does_not_run_in_the_event_loops_thread(db_dsn: str) -> None:
    threads: set[int] = set()

    class Watching:
        id = "watching"
        dimensions = 4

        def embed(self, texts: Sequence[str]) -> Any:
            threads.add(threading.get_ident())
            return np.ones((len(texts), 4), dtype="f4")

    async with AsyncRemem(db_dsn, workspace="watched", embedding=Watching()) as client:
        await client.remember("x")
        assert "vector" in (await client.recall("x"))[0].arms
    assert threads
    assert threading.get_ident() not in threads
