"""The server's clock is moved, there and back, while it is written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from evals.faults.ledger import WORKSPACE, Outcome, writing
from evals.faults.servers import Cluster, Place
from remem_pg import Remem

HOUR = 3600
SPACE = (
    '{"name": "clock", "backend": "callable", "asset": "clock", "dimensions": 2, '
    '"pooling": "", "normalization": "", "dtype": "float32"}'
)


def moved(place: Place, rounds: int) -> Outcome:
    """An hour back, two hours on and back again under writers; versions, cache and claims."""
    outcome = Outcome("clock moved", "an hour back, three on, and back; versions, cache, claims")
    with _clock(place, outcome) as (cluster, move):
        with writing(cluster.dsn, outcome) as writers:
            for _ in range(rounds):
                for seconds in (-HOUR, 3 * HOUR, -2 * HOUR):
                    move(seconds)
                    outcome.expect(writers.wait_for(5), "the writers stopped")
            outcome.expect(writers.failures == 0, "a call failed because the clock moved")
        _versions(cluster, move, outcome)
        _cache(cluster, move, outcome)
        _claims(cluster, move, outcome)
    return outcome


@contextmanager
def _clock(place: Place, outcome: Outcome) -> Iterator[tuple[Cluster, Any]]:
    """A server and what moves its clock by so many seconds."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    file = place.directory / "clock"
    if libraries:
        outcome.facts["by"] = "libfaketime in the server"
        file.write_text("+0\n")
        file.chmod(0o644)
        environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        offset = 0

        def move(seconds: int) -> None:
            nonlocal offset
            offset += seconds
            # Renamed and not written in place: nobody reads half of it.
            fresh = file.with_suffix(".new")
            fresh.write_text(f"{offset:+d}\n")
            fresh.chmod(0o644)
            fresh.rename(file)

        with place.cluster("clock-server", environment=environment) as cluster:
            yield cluster, move
        return
    # The same seen from the data: everything that was stored lies so much nearer to the past.
    outcome.facts["by"] = "every stored time (libfaketime is not installed)"
    with place.cluster("clock-server") as cluster:
        yield cluster, lambda seconds: _shift(cluster.dsn, -seconds)


def _shift(dsn: str, seconds: int) -> None:
    with psycopg.connect(dsn) as conn:
        columns = conn.execute(
            "select c.relname, array_agg(a.attname::text) from pg_class c "
            "join pg_attribute a on a.attrelid = c.oid "
            "where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r' and a.attnum > 0 "
            "and a.atttypid = 'timestamptz'::regtype and not a.attisdropped "
            "group by c.relname order by c.relname"
        ).fetchall()
        for table, names in columns:
            moves = sql.SQL(", ").join(
                sql.SQL("{0} = {0} + make_interval(secs => {1})").format(
                    sql.Identifier(name), seconds
                )
                for name in names
            )
            conn.execute(sql.SQL("update remem.{} set {}").format(sql.Identifier(table), moves))
        # A memory's fields stand in its filter document, too.
        conn.execute(
            "update remem.memory set attrs = jsonb_set(attrs, '{created_at}', to_jsonb(created_at))"
        )


def _versions(cluster: Cluster, move: Any, outcome: Outcome) -> None:
    """The last one written is the current one, whatever the clock said when."""
    with Remem(cluster.dsn, workspace="versions", embedding="hash") as client:
        texts = [f"The limit is {number} requests." for number in (10, 20, 30, 40)]
        for text, seconds in zip(texts, (0, -HOUR, 2 * HOUR, -HOUR), strict=True):
            move(seconds)
            client.remember(text, ref="limit")
            current = client.get(ref="limit")
            outcome.expect(current is not None and current.body == text, f"not current: {text}")
            found = [hit.body for hit in client.recall("what is the limit of requests?")]
            outcome.expect(found == [text], f"recalled: {found} instead of {text}")
        current = client.get(ref="limit")
        assert current is not None
        told = [version.body for version in client.history(current.memory_id)]
        outcome.expect(set(told) == set(texts), f"the history is {told}")
        outcome.facts["versions kept"] = len(told)


def _cache(cluster: Cluster, move: Any, outcome: Outcome) -> None:
    """A stored answer is neither served after a change nor kept for ever."""
    with Remem(cluster.dsn, workspace="cached", embedding="hash", cache=True) as client:
        for seconds in (0, -HOUR, 2 * HOUR, -HOUR):
            move(seconds)
            number = abs(seconds) + len(client.recall("how many rooms are there?"))
            client.remember(f"There are {number} rooms.", ref="rooms")
            for _ in range(2):
                found = [hit.body for hit in client.recall("how many rooms are there?")]
                outcome.expect(found == [f"There are {number} rooms."], f"stale: {found}")


def _claims(cluster: Cluster, move: Any, outcome: Outcome) -> None:
    """A lease that a clock ended early costs work and no vector: the late one is told so."""
    with (
        Remem(cluster.dsn, workspace=WORKSPACE, embedding="hash") as client,
        psycopg.connect(cluster.dsn, autocommit=True) as conn,
    ):
        total = client.count()
        conn.execute("select remem.register_space(%s)", (SPACE,))
        conn.execute("select remem.start_reembed(%s, 'clock')", (WORKSPACE,))
        first = _claim(conn)
        move(2 * HOUR)
        second = _claim(conn)
        outcome.expect(bool(first) and len(second) == len(first), "the lease did not end")
        late = _complete(conn, first)
        outcome.expect(set(late) == {"lost"}, f"the late worker was told {set(late)}")
        stored = _complete(conn, second).count("stored")
        move(-2 * HOUR)
        while batch := _claim(conn):
            stored += _complete(conn, batch).count("stored")
        outcome.expect(stored == total, f"{stored} of {total} texts have their vector")
        outcome.facts["vectors stored"] = stored


def _claim(conn: psycopg.Connection[Any]) -> list[tuple[Any, int]]:
    return conn.execute(
        "select claim_id, item_no from remem.claim_embeddings(%s, 'clock', 100)", (WORKSPACE,)
    ).fetchall()


def _complete(conn: psycopg.Connection[Any], batch: list[tuple[Any, int]]) -> list[str]:
    rows = conn.execute(
        "select outcome from remem.complete_embeddings(%s, %s, %s::int[], %s::real[])",
        (WORKSPACE, batch[0][0], [no for _, no in batch], [1.0, 0.5] * len(batch)),
    ).fetchall()
    return [outcome for (outcome,) in rows]
