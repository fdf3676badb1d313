"""A database with topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from remem_pg import Remem

Connection = psycopg.Connection[Any]


@pytest.fixture
def planning(db: Connection, db_dsn: str) -> str:
    """The DSN of a fresh database."""
    return db_dsn


@pytest.fixture
def filled(planning: str, db: Connection) -> str:
    """Topics and memories of the workspace acme, and a secret of another one."""
    topic = "select remem.put_topic(%s, %s, aliases => %s, summary => %s, providers => %s)"
    for title, aliases, summary, providers in (
        ("Retry policy", ["charge retries"], "How failed charges are tried again", []),
        ("Office lunches", [], "Where and when people eat", ["notes"]),
        ("Phoenix budget", [], "What the project may cost", []),
    ):
        db.execute(topic, ["acme", title, aliases, summary, providers])
    with Remem(planning, workspace="acme", embedding=None) as mem:
        mem.remember_many(
            [
                {
                    "ref": "three",
                    "body": "We retry a failed charge three times, then page.",
                    "kind": "decision",
                    "title": "Charge retries",
                    "source_class": "user_stated",
                },
                {"ref": "coffee", "body": "Ana prefers oat milk.", "kind": "preference"},
                {
                    "ref": "budget",
                    "body": "The Phoenix budget is five million.",
                    "scope": "project",
                    "scope_ref": "phoenix",
                },
                {
                    "ref": "flaky",
                    "body": "We fixed the flaky test of the importer.",
                    "kind": "episodic",
                },
            ]
        )
        mem.workspace("rival").remember("The rival's retry policy for charges is secret.")
    return planning


@pytest.fixture
def opened(filled: str) -> Iterator[Callable[..., Remem]]:
    """`opened(**options)`: a client of acme, closed at the end."""
    clients: list[Remem] = []

    def open_with(**options: Any) -> Remem:
        clients.append(Remem(filled, workspace="acme", **{"embedding": "hash", **options}))
        return clients[-1]

    yield open_with
    for client in clients:
        client.close()
