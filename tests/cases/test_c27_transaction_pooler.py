"""C27: through a pooler in transaction mode there is no prepared statement error, and no setting is
left behind for whoever gets the server connection next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from remem_pg import AsyncRemem, Remem, TenantNotSet, install
from tests.server import OWNER, Server
from tests.support.pooler import AVAILABLE, SIZE, pooler

Connection = psycopg.Connection[Any]

STATE = """
    select jsonb_object_agg(name, setting)
      || jsonb_build_object('role', current_setting('role'),
        'tenant', coalesce(nullif(current_setting('remem.workspace', true), ''), 'none'),
        'prepared', (select count(*) from pg_prepared_statements),
        'temporary', (select count(*) from pg_class where relnamespace = pg_my_temp_schema()),
        'advisory', (select count(*) from pg_locks
          where locktype = 'advisory' and pid = pg_backend_pid()))
    from pg_settings
"""


@pytest.fixture(params=AVAILABLE)
def through(request: pytest.FixtureRequest, server: Server, db_dsn: str) -> Iterator[str]:
    """The DSN of the owner's database through a pooler."""
    with pooler(request.param, db_dsn, OWNER) as directory:
        yield make_conninfo(db_dsn, host=directory, port=6432)


def states(dsn: str) -> dict[int, Any]:
    """What each of the pooler's server connections has in it, by its process id."""
    found: dict[int, Any] = {}
    connections = [
        psycopg.connect(dsn, autocommit=True, prepare_threshold=None) for _ in range(SIZE)
    ]
    try:
        for conn in connections:  # all at once, so that each has another server connection
            conn.execute("begin")
            conn.execute("select '[1]'::public.vector")  # which declares settings of its own
            conn.execute("do 'begin end'")
        for conn in connections:
            row = conn.execute("select pg_backend_pid()").fetchone()
            state = conn.execute(STATE).fetchone()
            assert row is not None and state is not None
            found[row[0]] = state[0]
        for conn in connections:
            conn.execute("commit")
    finally:
        for conn in connections:
            conn.close()
    assert len(found) == SIZE
    return found


def test_the_pooler_really_shares_its_connections(through: str) -> None:
    """Else the other tests of this file would show nothing."""
    pids = set()
    with psycopg.connect(through, autocommit=True, prepare_threshold=None) as held:
        held.execute("begin")
        for _ in range(3):
            with psycopg.connect(through, autocommit=True, prepare_threshold=None) as conn:
                pids.add(conn.execute("select pg_backend_pid()").fetchone())
        pids.add(held.execute("select pg_backend_pid()").fetchone())
        held.execute("commit")
    assert len(pids) == SIZE
    with psycopg.connect(through, autocommit=True, prepare_threshold=None) as conn:
        conn.execute("set extra_float_digits = 0")
    leaked = [state["extra_float_digits"] for state in states(through).values()]
    assert "0" in leaked, "a setting of the session should stay with the server connection"


def use(mem: Remem, rounds: int = 8) -> None:
    """More rounds than it takes until psycopg or plpgsql would prepare."""
    name = mem.workspace_name
    for number in range(rounds):
        mem.remember(f"Workspace {name} says {number}.", ref=f"r{number}", session_ref="s")
        mem.remember_many([{"body": f"Batch {number} of {name}."}, {"body": f"Two {number}."}])
        assert all(name in hit.body or "Two" in hit.body for hit in mem.recall("what says it?"))
        assert mem.get(ref=f"r{number}") is not None
        assert mem.recall_explain("batch")["hits"]
        mem.context("what did the workspace say?")
    assert mem.count() == rounds * 3


@pytest.mark.parametrize("options", [{}, {"cache": True, "log": True}, {"tenant": True}])
def test_clients_that_share_a_pooler_get_their_own_and_leave_nothing_behind(
    through: str, options: dict[str, Any]
) -> None:
    before = states(through)
    clients = [
        Remem(through, workspace=f"w{number}", embedding="hash", **options) for number in range(4)
    ]
    with ThreadPoolExecutor(len(clients)) as threads:
        for done in [threads.submit(use, client) for client in clients]:
            done.result(timeout=120)
    for client in clients:
        client.close()
    assert states(through) == before


def test_async_clients_with_parallel_arms_leave_nothing_behind(through: str) -> None:
    before = states(through)

    async def use_async(name: str) -> None:
        async with AsyncRemem(through, workspace=name, embedding="hash", tenant=True) as mem:
            for number in range(8):
                await mem.remember(f"Workspace {name} says {number}.", ref=f"r{number}")
                hits = await mem.recall("what says it?", parallel=True)
                assert hits
                assert all(name in hit.body for hit in hits)

    async def both() -> None:
        await asyncio.gather(use_async("a1"), use_async("b2"))

    asyncio.run(both())
    assert states(through) == before


@pytest.mark.parametrize("tenant", [None, True])
def test_strict_mode_works_through_a_pooler(
    through: str, db: Connection, tenant: bool | None
) -> None:
    db.execute("select remem.configure('tenant_mode', 'strict')")
    with Remem(through, workspace="mine", embedding="hash", tenant=tenant) as mem:
        for number in range(8):
            mem.remember(f"Number {number}.", ref=str(number))
            assert mem.recall("number")
        # The setting ended with its call: who does not make it is refused, on any connection.
        with Remem(through, workspace="mine", embedding="hash", tenant=False) as without:
            for _ in range(2 * SIZE):
                with pytest.raises(TenantNotSet):
                    without.recall("number")


def test_jobs_and_migrations_run_through_a_pooler(through: str) -> None:
    before = states(through)
    assert install.migrate(through).applied == ()
    with Remem(through, workspace="w", embedding="hash") as mem:
        use(mem)
        mem.forget(ref="r0")
        mem.reembed()
        mem.purge(ref="r1")
    assert states(through) == before


def test_a_transaction_of_the_callers_own_is_one_through_a_pooler(through: str) -> None:
    before = states(through)
    with psycopg.connect(through, prepare_threshold=None) as conn:
        mem = Remem(conn, workspace="w", embedding="hash", tenant=True)
        for number in range(8):
            mem.remember(f"Number {number}.", ref=str(number))
        assert mem.count() == 8
        conn.rollback()
        assert mem.count() == 0
        conn.rollback()
    assert states(through) == before
