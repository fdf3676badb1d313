"""The server dies, or is restarted, under writers and under pools."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psutil  # type: ignore[import-untyped]
from psycopg_pool import ConnectionPool

from evals.faults.ledger import WORKSPACE, Outcome, note_error, writing
from evals.faults.servers import Place
from remem_pg import AsyncRemem, Remem


def killed(place: Place, rounds: int) -> Outcome:
    """Every process of the server, ``rounds`` times."""
    outcome = Outcome("kill -9", "every process of the server, during writes")
    chance = random.Random(7)
    with place.cluster("killed") as cluster:
        with writing(cluster.dsn, outcome) as writers:
            for _ in range(rounds):
                writers.wait_for(chance.randrange(5, 40))
                before = writers.failures
                cluster.kill()
                writers.wait_for_failure(10, before)
                cluster.start()
                outcome.expect(writers.wait_for(10), "the writers did not go on")
        outcome.facts["kills"] = rounds
        _expect_failures(outcome)
    return outcome


def backend_killed(place: Place, rounds: int) -> Outcome:
    """One session's process: Postgres then ends all sessions and recovers by itself."""
    outcome = Outcome("kill -9 of one session", "Postgres ends all sessions and recovers")
    with place.cluster("backend") as cluster, writing(cluster.dsn, outcome) as writers:
        for _ in range(rounds):
            sessions = [p for p in cluster.processes()[1:] if _is_session(p)]
            sessions[0].kill()
            outcome.expect(writers.wait_for(20), "the writers did not go on")
    outcome.facts["kills"] = rounds
    _expect_failures(outcome)
    return outcome


def _is_session(process: psutil.Process) -> bool:
    try:
        return "remem remem" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def restarted(place: Place, rounds: int) -> Outcome:
    """A restart in order under this client's own pool, the caller's pool and an async client."""
    outcome = Outcome("restart", "in order, under a client's own pool, a given pool, async")
    with place.cluster("restarted") as cluster:
        given = ConnectionPool(
            cluster.dsn, min_size=2, max_size=4, kwargs={"autocommit": True}, open=True
        )
        with given, Remem(given, workspace=WORKSPACE, embedding="hash") as other:
            other.count()
            with writing(cluster.dsn, outcome) as writers:
                for _ in range(rounds):
                    cluster.restart()
                    # Nobody tells a pool: the connections it holds are dead, and the call works.
                    try:
                        other.remember("Kept through a restart.", ref="given-pool")
                        outcome.expect(bool(other.recall("restart")), "a given pool finds nothing")
                    except Exception as error:
                        outcome.problems.append(f"a given pool: {type(error).__name__}: {error}")
                        note_error(outcome, error)
                    outcome.expect(writers.wait_for(10), "the writers did not go on")
            asyncio.run(_restarted_async(cluster, outcome))
    outcome.facts["restarts"] = rounds + 1
    return outcome


async def _restarted_async(cluster: Any, outcome: Outcome) -> None:
    async with AsyncRemem(cluster.dsn, workspace=WORKSPACE, embedding="hash") as client:
        await client.remember("Written before the restart.", ref="async-before")
        await asyncio.to_thread(cluster.restart)
        try:
            await client.remember("Written after the restart.", ref="async-after")
            found = await client.get(ref="async-before")
        except Exception as error:
            outcome.problems.append(f"async: {type(error).__name__}: {error}")
        else:
            outcome.expect(found is not None, "async: what was written before is gone")


def _expect_failures(outcome: Outcome) -> None:
    outcome.expect(outcome.failed_calls > 0, "no call failed: the fault was not one")
