"""Workspaces of an unlikely shape: one session, one vocabulary, one attribute; analysed or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import inspected
from tests.support.memories import Connection, recall, value
from tests.support.plans import looked_at, nodes, plans

ROWS = 3000
WORDS = [f"word{letter}" for letter in "abcdefghijkl"]


def fill(db: Connection) -> None:
    """3,000 turns of one session that share twelve words and say one thing of one subject."""
    for start in range(0, ROWS, 1000):
        items = [
            {
                "body": " ".join(WORDS[(n * k + k * k) % 12] for k in range(1, 9)) + f" {n}",
                "session_ref": "s",
                "subject": "Ann Miller",
                "attribute": "home city",
            }
            for n in range(start, start + 1000)
        ]
        db.execute("select count(*) from remem.remember_many('w', %s)", [Jsonb(items)])


@pytest.fixture(scope="module")
def alike(server: Server) -> Iterator[Connection]:
    with inspected(server, fill) as su:
        yield su


@pytest.mark.parametrize("analysed", [False, True])
def test_the_turns_around_a_find_are_looked_up(alike: Connection, analysed: bool) -> None:
    if analysed:
        alike.execute("analyze")
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert len(recall(alike, "w", "worda wordb", k=100)) == 100
    assert looked_at(seen, "memory") < 3 * ROWS


@pytest.mark.parametrize("analysed", [False, True])
def test_a_word_that_no_memory_holds_reads_nothing(alike: Connection, analysed: bool) -> None:
    if analysed:
        alike.execute("analyze")
    query = "worda " + " ".join(f"unheard{n}" for n in range(100))
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert recall(alike, "w", query)
    # One word is in most memories: its list is read a few times over.
    assert looked_at(seen, "posting") < 8 * ROWS


def test_conflicts_are_pairs_of_the_newest_only(alike: Connection) -> None:
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert value(alike, "select count(*) from remem.conflicts('w', 1000)") == 1000
    removed = max(
        node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
        for entry in seen
        for node in nodes(entry["Plan"])
    )
    assert removed <= 200 * 200
