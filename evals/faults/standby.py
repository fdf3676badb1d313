"""A hot standby answers; the primary dies and the standby takes over."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg.conninfo import make_conninfo

from evals.faults.ledger import WORKSPACE, Outcome, note_error, writing
from evals.faults.servers import Cluster, Place, discard, until
from remem_pg import AsyncRemem, ReadOnly, Remem

QUESTIONS = (
    "which entry of the ledger?",
    "wordt0x1",
    '"the ledger says"',
    "what was written yesterday?",
)


def failover(place: Place, rounds: int) -> Outcome:
    """Recalls on the standby while the primary is written to; then the primary is killed, the
    standby promoted, and the client, whose DSN names both, goes on writing there."""
    outcome = Outcome("hot standby", "recall on a standby; kill -9 of the primary, promotion")
    with place.cluster("primary") as primary:
        standby = primary.copy(place.directory / "standby")
        try:
            standby.start()
            wait_for_standby(primary)
            hosts = f"{primary.socket_directory},{standby.socket_directory}"
            both = make_conninfo(
                primary.dsn, host=hosts, port="5432,5432", target_session_attrs="read-write"
            )
            with writing(both, outcome, lambda: standby.dsn) as writers:
                for _ in range(rounds):
                    outcome.expect(writers.wait_for(5), "replication stops the writers")
                    _recalls_while_written(standby, outcome)
                primary.kill()
                outcome.expect(writers.wait_for_failure(), "the writers did not notice")
                standby.control("promote")
                outcome.expect(writers.wait_for(10), "the writers did not go on")
            outcome.expect(outcome.failed_calls > 0, "no call failed: the fault was not one")
        finally:
            discard(standby)
    return outcome


def reading(place: Place, rounds: int) -> Outcome:
    """Everything that reads, on a standby that has caught up: the same answers as on the primary.
    What was acknowledged is counted on the standby."""
    outcome = Outcome("reading on a standby", "the primary's answers; writes refused with a remedy")
    with place.cluster("first") as primary:
        standby = primary.copy(place.directory / "second")

        def read_at() -> str:
            outcome.expect(caught_up(primary, standby), "the standby does not catch up")
            return standby.dsn

        try:
            standby.start()
            wait_for_standby(primary)
            with writing(primary.dsn, outcome, read_at):
                pass
            for _ in range(rounds):
                _same_answers(primary, standby, outcome)
            asyncio.run(_reads_async(standby, outcome))
        finally:
            discard(standby)
    return outcome


def caught_up(primary: Cluster, standby: Cluster) -> bool:
    """Waits until the standby shows what the primary has; False when that takes too long."""
    with (
        psycopg.connect(primary.admin_dsn, autocommit=True) as there,
        psycopg.connect(standby.admin_dsn, autocommit=True) as here,
    ):
        row = there.execute("select pg_current_wal_flush_lsn()").fetchone()
        replayed = "select pg_last_wal_replay_lsn() >= %s"
        return until(lambda: here.execute(replayed, row).fetchone() == (True,), 20)


def wait_for_standby(primary: Cluster) -> None:
    """From when a commit waits until the standby has it."""
    with psycopg.connect(primary.admin_dsn, autocommit=True) as admin:
        admin.execute("alter system set synchronous_standby_names = 'standby'")
        admin.execute("select pg_reload_conf()")
        state = "select sync_state from pg_stat_replication where application_name = 'standby'"
        if not until(lambda: admin.execute(state).fetchone() == ("sync",), 20):
            raise OSError("the standby does not stream from the primary")


def _recalls_while_written(standby: Cluster, outcome: Outcome) -> None:
    with Remem(standby.dsn, workspace=WORKSPACE, embedding="hash") as client:
        for question in QUESTIONS:
            try:
                found = client.recall(question)
            except Exception as error:
                note_error(outcome, error)
                outcome.problems.append(f"recall on the standby: {error}")
            else:
                outcome.expect(not found.degraded, f"degraded: {found.degraded}")


def _same_answers(primary: Cluster, standby: Cluster, outcome: Outcome) -> None:
    with (
        Remem(primary.dsn, workspace=WORKSPACE, embedding="hash") as there,
        Remem(standby.dsn, workspace=WORKSPACE, embedding="hash") as here,
        Remem(standby.dsn, workspace=WORKSPACE, embedding="hash", cache=True, log=True) as cached,
    ):
        for question in QUESTIONS:
            expected = [(h.ref, h.score, h.relevance) for h in there.recall(question)]
            outcome.expect(bool(expected), f"nothing is found for {question!r}")
            for client in (here, cached, cached):
                found = client.recall(question)
                got = [(h.ref, h.score, h.relevance) for h in found]
                outcome.expect(got == expected, f"another answer to {question!r}")
                outcome.expect(not found.degraded, f"degraded: {found.degraded}")
            trace = cached.recall(question).trace
            for what in ("cache", "log"):
                said = trace.get(what)
                outcome.expect(
                    said == {"state": "skipped", "reason": "read_only"}, f"{what}: {said}"
                )
            outcome.facts["cache and log"] = "skipped, and said so"
        outcome.expect(bool(here.recall_explain(QUESTIONS[0])["hits"]), "explain says nothing")
        outcome.expect(here.get(ref="t0-1") is not None, "get finds nothing")
        planned = [client.plan(QUESTIONS[0]).should_retrieve for client in (here, there)]
        outcome.expect(planned[0] == planned[1], "another plan")
        try:
            here.remember("Written on a standby.")
        except ReadOnly as error:
            outcome.facts["a write on the standby"] = str(error)
        except Exception as error:
            outcome.problems.append(f"a write on the standby: {type(error).__name__}: {error}")
        else:
            outcome.problems.append("a standby took a write")


async def _reads_async(standby: Cluster, outcome: Outcome) -> None:
    async with AsyncRemem(standby.dsn, workspace=WORKSPACE, embedding="hash") as client:
        for parallel in (False, True):
            found = await client.recall(QUESTIONS[0], parallel=parallel)
            outcome.expect(bool(found) and not found.degraded, f"async, parallel={parallel}")
