"""Re-embedding after a recall: seldom, beside the program, and never seen to fail."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from remem_pg import AsyncRemem, InvalidArgument, Remem
from tests.support.jobs import Shares, coverage, current
from tests.support.memories import Connection, remember, remember_many
from tests.support.waiting import until


class Slow(Shares):
    """Blocks documents until it is let go."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.go = threading.Event()
        self.blocked = threading.Event()

    def embed(self, texts: Any) -> Any:
        if any("without" in text for text in texts):
            self.blocked.set()
            assert self.go.wait(20)
        return super().embed(texts)


def ended(client: Remem) -> None:
    """Returns when what a recall began in a thread, if it did, has ended."""
    until(lambda: not client._after_recall._threads)


def pending(db: Connection, workspace: str = "w") -> int:
    return coverage(db, workspace)[-1].pending


@pytest.mark.covers("RE15", "RE23")
def test_a_recall_lets_a_batch_be_embedded(old: Remem, db: Connection, db_dsn: str) -> None:
    remember_many(db, "w", [{"body": f"without {n}"} for n in range(70)])
    with Remem(db_dsn, workspace="w", embedding=Shares("old", 0), reembed_cooldown=300) as client:
        assert "stale_rows" in client.recall("memory 3").degraded
        until(lambda: pending(db) == 6)  # one batch of 64, no more
        client.recall("memory 3")
        ended(client)
    assert pending(db) == 6


@pytest.mark.covers("RE19")
def test_a_recall_does_not_wait_for_it(old: Remem, db: Connection, db_dsn: str) -> None:
    remember(db, "w", "without")
    model = Slow("old", 0)
    client = Remem(db_dsn, workspace="w", embedding=model, reembed_cooldown=300)
    try:
        assert client.recall("memory 3")
        assert model.blocked.wait(20)
        assert client.recall("memory 4")  # while the model holds the batch
        assert pending(db) == 1
    finally:
        model.go.set()
        client.close()
    assert pending(db) == 0


@pytest.mark.covers("RE16")
def test_the_cooldown_is_each_workspaces_own(old: Remem, db: Connection, db_dsn: str) -> None:
    db.execute("select remem.activate_space('old', 'v')")
    for name in ("w", "v"):
        remember(db, name, "without a vector")
    with Remem(db_dsn, workspace="w", embedding=Shares("old", 0), reembed_cooldown=300) as client:
        client.recall("memory")
        client.workspace("v").recall("memory")
        until(lambda: pending(db) == pending(db, "v") == 0)
        remember(db, "w", "without another vector")
        client.recall("memory")
        ended(client)
        assert pending(db) == 1
    with Remem(db_dsn, workspace="w", embedding=Shares("old", 0), reembed_cooldown=0) as client:
        client.recall("memory")
        until(lambda: pending(db) == 0)


def test_it_is_off_unless_asked_for(old: Remem, db: Connection) -> None:
    remember(db, "w", "without")
    old.recall("memory")
    ended(old)
    assert pending(db) == 1


@pytest.mark.covers("RE2", "RE19", "RE31")
def test_whatever_goes_wrong_the_recall_answers(
    old: Remem, db: Connection, db_dsn: str, make_role: Any, server: Any, database: str
) -> None:
    remember(db, "w", "without")
    failing = Shares("old", 0)
    failing.bad = {"without"}
    role = make_role()
    db.execute("select remem.grant_access(%s, 'w', 'read')", [role])
    for dsn, model in (
        (db_dsn, failing),
        (server.dsn(role, database), Shares("old", 0)),  # may not work
        (db_dsn, Shares("another", 1)),  # not the workspace's model
        (db_dsn, None),
    ):
        with Remem(dsn, workspace="w", embedding=model, reembed_cooldown=0) as client:
            for _ in range(3):
                assert client.recall("memory 3")
    assert current(db) == "old"
    assert [c.state for c in coverage(db)] == ["active"]


@pytest.mark.covers("RE1", "RE4")
def test_a_workspace_of_the_built_in_hash_is_moved_to_the_clients_model(
    db: Connection, db_dsn: str
) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(10)])
    with Remem(db_dsn, workspace="w", embedding=Shares("new", 1), reembed_cooldown=0) as client:
        client.recall("memory")
        until(lambda: current(db) == "new")
    # and no other model moves it from there
    with Remem(db_dsn, workspace="w", embedding=Shares("third", 0), reembed_cooldown=0) as client:
        client.recall("memory")
        ended(client)
    assert current(db) == "new"


def test_a_connection_of_the_callers_own_is_left_alone(old: Remem, db: Connection) -> None:
    remember(db, "w", "without")
    with psycopg.connect(db.info.dsn, autocommit=True) as conn:
        client = Remem(conn, workspace="w", embedding=Shares("old", 0), reembed_cooldown=0)
        assert client.recall("memory")
        ended(client)
    assert pending(db) == 1


def test_the_async_client_does_it_in_a_task(old: Remem, db: Connection, db_dsn: str) -> None:
    remember(db, "w", "without")

    async def go() -> None:
        model = Shares("old", 0)
        async with AsyncRemem(
            db_dsn, workspace="w", embedding=model, reembed_cooldown=300
        ) as client:
            assert await client.recall("memory")
            for _ in range(200):
                if (await client.embedding_backlog())[0].pending == 0:
                    break
                await asyncio.sleep(0.05)

    asyncio.run(go())
    assert pending(db) == 0


@pytest.mark.parametrize("wrong", [-1, float("nan"), "soon"], ids=str)
def test_an_impossible_cooldown_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        Remem("postgresql://nowhere", workspace="w", reembed_cooldown=wrong)
