"""Each fault once: `make faults` repeats them."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from evals.faults import clock, crashes, disk, network
from evals.faults.ledger import WORKSPACE, Outcome, body_of, writing
from evals.faults.run import faults_here, page
from evals.faults.servers import Cluster, Place
from remem_pg import AsyncRemem, Remem, ServerUnavailable
from remem_pg.database import wire
from tests.support.faults import passed


def test_killing_the_server_loses_nothing_and_the_client_goes_on(where: Place) -> None:
    outcome = passed(crashes.killed(where, 1))
    assert set(outcome.errors) == {"ServerUnavailable"}


def test_killing_one_session_ends_the_others_and_loses_nothing(where: Place) -> None:
    outcome = passed(crashes.backend_killed(where, 1))
    assert set(outcome.errors) == {"ServerUnavailable"}


def test_a_restart_is_survived_by_every_kind_of_pool(where: Place) -> None:
    passed(crashes.restarted(where, 1))


def test_a_cut_connection_loses_no_write_doubles_none_and_repeats_a_read(where: Place) -> None:
    outcome = passed(network.cut(where, 1))
    assert set(outcome.errors) == {"ServerUnavailable"}
    assert outcome.facts["unnoticed reads"] == 3


def test_a_full_disk_is_said_and_writing_goes_on_when_there_is_room(where: Place) -> None:
    outcome = passed(disk.everything(where, 1))
    assert set(outcome.errors) <= {"ServerExhausted", "ServerUnavailable"}


def test_a_full_disk_under_the_tables_fails_calls_and_not_the_server(where: Place) -> None:
    if disk.may_mount(where.directory):
        outcome = passed(disk.tables(where, 1))
        assert set(outcome.errors) == {"ServerExhausted"}
    else:
        assert "disk-tables" not in faults_here(where)


def test_a_moved_clock_changes_no_answer_and_loses_no_vector(where: Place) -> None:
    outcome = passed(clock.moved(where, 1))
    assert outcome.facts["versions kept"] == 4
    assert outcome.errors == {}


# -- the count itself ------------------------------------------------------------------------------


def test_what_is_lost_or_changed_after_it_was_acknowledged_is_counted(db_dsn: str) -> None:
    outcome = Outcome("none", "rows are taken away behind the client's back")

    def damage() -> str:
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            conn.execute(
                "select remem.purge('faults', ref => r) from unnest('{t0-1,t1-1}'::text[]) r"
            )
        with Remem(db_dsn, workspace=WORKSPACE, embedding=None) as client:
            client.remember("Something else.", ref="t2-1")
        return db_dsn

    with writing(db_dsn, outcome, damage):
        pass
    assert (outcome.lost, outcome.acknowledged - outcome.found) == (3, 3)
    assert not outcome.passed
    document = {"outcomes": [{"name": "none", **outcome.as_dict()}], "left_out": []}
    assert "failed: none" in page(document)


def test_half_a_batch_is_counted(db_dsn: str) -> None:
    outcome = Outcome("none", "one of a batch is taken away")

    def damage() -> str:
        with Remem(db_dsn, workspace=WORKSPACE, embedding=None) as client:
            client.remember(body_of("t0-4-0"), ref="t0-4-0")
            client.forget(ref="t0-4-0")
        return db_dsn

    with writing(db_dsn, outcome, damage):
        pass
    assert outcome.halves == 1
    assert not outcome.passed


# -- a long outage ---------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that wait a twentieth of the usual time for a connection."""
    monkeypatch.setattr("remem_pg.database.wire.POOL_TIMEOUT", 0.5)
    monkeypatch.setitem(wire.POOL_SETTINGS, "reconnect_timeout", 0.25)


@pytest.mark.usefixtures("impatient")
def test_the_first_call_after_a_long_outage_works(where: Place) -> None:
    """A pool that had tried for a while would wait as long again before it tries once more."""
    with where.cluster("outage") as cluster:
        with Remem(cluster.dsn, workspace=WORKSPACE, embedding="hash") as mem:
            mem.remember("Written before.", ref="before")
            cluster.kill()
            down = time.monotonic() + 4
            while time.monotonic() < down:
                with pytest.raises(ServerUnavailable):
                    mem.count()
            cluster.start()
            assert mem.count() == 1
        asyncio.run(outage_async(cluster))


async def outage_async(cluster: Cluster) -> None:
    async with AsyncRemem(cluster.dsn, workspace=WORKSPACE, embedding="hash") as mem:
        assert await mem.count() == 1
        await asyncio.to_thread(cluster.kill)
        down = time.monotonic() + 4
        while time.monotonic() < down:
            with pytest.raises(ServerUnavailable):
                await mem.count()
        await asyncio.to_thread(cluster.start)
        assert await mem.count() == 1
