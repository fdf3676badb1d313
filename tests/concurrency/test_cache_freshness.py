"""Random writes and recalls on several connections: no cached answer is ever stale.

Two ways to look. One thread drives several connections with open transactions in an order made by
chance, so that after each cached answer a fresh one can be had before anything else happens; and
real threads race, where an answer has to lie between what was certainly committed before it was
asked for and what had at most been begun when it arrived.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest

from tests.support.memories import Connection, remember, value

QUESTIONS = ["retry page deploy", "which queue is used?", "login token of ana", "schema index"]
WORDS = [
    "retry",
    "page",
    "deploy",
    "queue",
    "kafka",
    "login",
    "token",
    "schema",
    "index",
    "vacuum",
    "ana",
]
CONNECTIONS = 4


def cached(conn: Connection, query: str, token: str | None = None) -> dict[str, Any]:
    options = json.dumps({"cache": "exact", "token": token})
    return dict(value(conn, "select remem.recall_cached('w', %s, null, 8, %s)", [query, options]))


def fresh(conn: Connection, query: str) -> list[tuple[str, str]]:
    return content(value(conn, "select remem.recall_explain('w', %s)", [query]))


def content(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(hit["memory_id"], hit["body"]) for hit in answer["hits"]]


class Driver:
    """Several connections in one thread, each perhaps inside a transaction and a savepoint."""

    def __init__(self, connections: list[Connection], random: Random) -> None:
        self.random = random
        self.connections = connections
        self.open: dict[int, list[str]] = {n: [] for n in range(len(connections))}
        self.kept: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        self.tiers: list[str] = []
        self.written = 0

    def step(self) -> None:
        n = self.random.randrange(len(self.connections))
        conn, savepoints = self.connections[n], self.open[n]
        in_transaction = conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        move = self.random.choices(
            ["write", "recall", "begin", "savepoint", "undo", "end"], [4, 10, 2, 1, 1, 3]
        )[0]
        if move == "write":
            self.write(n, conn)
        elif move == "recall":
            self.recall(conn)
        elif move == "begin" and not in_transaction:
            conn.execute("begin")
        elif move == "savepoint" and in_transaction and len(savepoints) < 3:
            savepoints.append(f"s{len(savepoints)}")
            conn.execute(f"savepoint {savepoints[-1]}".encode())
        elif move == "undo" and savepoints:
            conn.execute(f"rollback to {savepoints.pop()}".encode())
        elif move == "end" and in_transaction:
            conn.execute(self.random.choice([b"commit", b"commit", b"rollback"]))
            savepoints.clear()

    def write(self, n: int, conn: Connection) -> None:
        """Refs and texts are a connection's own, so that nobody waits for a lock of another."""
        self.written += 1
        text = " ".join(self.random.choices(WORDS, k=4))
        kind = self.random.randrange(4)
        if kind == 0:
            remember(conn, "w", f"{text}, said {n}.{self.written}")
        elif kind == 1:
            remember(conn, "w", f"{text} {n}.{self.written}", ref=f"r{n}.{self.written % 3}")
        elif kind == 2:
            remember(conn, "elsewhere", f"{text}, said {n}.{self.written}")
        else:  # the same text again, from another source
            remember(conn, "w", f"always the same of {n}", source_ref=f"{self.written}")

    def recall(self, conn: Connection) -> None:
        query = self.random.choice(QUESTIONS)
        token, old = self.kept.get(query, (None, []))
        answer = cached(conn, query, token if self.random.random() < 0.5 else None)
        expected = fresh(conn, query)
        self.tiers.append("kept" if "unchanged" in answer else answer["tier"])
        assert (old if "unchanged" in answer else content(answer)) == expected, answer["cache"]
        assert answer["degraded"] == []
        if answer["token"] and "unchanged" not in answer:
            self.kept[query] = (answer["token"], content(answer))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.covers("MN1")
def test_no_order_of_transactions_makes_an_answer_stale(
    db: Connection, connect: Callable[[str], Connection], seed: int
) -> None:
    for workspace in ("w", "elsewhere"):
        remember(db, workspace, "The queue is kafka.")
    opened = [connect(db.info.user) for _ in range(CONNECTIONS)]
    for conn in opened:
        conn.execute("set lock_timeout = '5s'")
    driver = Driver(opened, Random(seed))
    for _ in range(120):
        driver.step()
    # The test is worth something only if the cache did work.
    assert {"cold", "hot", "kept"} <= set(driver.tiers)


@pytest.mark.covers("MN1")
def test_racing_writers_and_readers_see_no_old_answer(db: Connection, db_dsn: str) -> None:
    writers, rounds = 2, 40
    committed = [0] * writers  # the version that certainly was there
    begun = [0] * writers  # the version that can have been there
    done = threading.Event()
    tiers: set[str] = set()

    def body(n: int, version: int) -> str:
        return f"Register {'alpha' if n == 0 else 'omega'} holds the number {version}."

    for n in range(writers):
        remember(db, "w", body(n, 0), ref=f"register{n}")

    def write(n: int) -> None:
        random = Random(n)
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            for version in range(1, rounds + 1):
                begun[n] = version
                with conn.transaction():
                    remember(conn, "w", body(n, version), ref=f"register{n}")
                    done.wait(random.random() * 0.03)  # others look while this is not committed
                committed[n] = version
                done.wait(random.random() * 0.05)

    def read(n: int) -> None:
        kept: dict[str, Any] = {}
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            while not done.is_set():
                before = list(committed)
                query = ("register numbers", "which register holds the number?")[n % 2]
                answer = cached(conn, query, kept.get("token"))
                after = list(begun)
                tiers.add("kept" if "unchanged" in answer else answer["tier"])
                answer = kept if "unchanged" in answer else answer
                kept = answer if answer["token"] else {}
                found = {hit["ref"]: hit["body"] for hit in answer["hits"]}
                for w in range(writers):
                    version = int(found[f"register{w}"].rstrip(".").rsplit(" ", 1)[1])
                    assert before[w] <= version <= after[w], (w, before, version, after)

    with ThreadPoolExecutor(writers + 3) as pool:
        readers = [pool.submit(read, n) for n in range(3)]
        try:
            for future in [pool.submit(write, n) for n in range(writers)]:
                future.result(timeout=120)
        finally:
            done.set()
        for future in readers:
            future.result(timeout=30)
    assert {"cold", "hot"} <= tiers
    for query in ("register numbers", "which register holds the number?"):
        for _ in range(2):
            assert content(cached(db, query)) == fresh(db, query)
