"""Workspaces of an unlikely shape: one session, two words, one attribute; analysed or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import inspected
from tests.support.memories import Connection, recall, value
from tests.support.plans import looked_at, most_compared, plans

ROWS = 3000
WORDS = {"0": "worda", "1": "wordb"}


def fill(db: Connection) -> None:
    """3,000 turns of one session that have two words and say one thing of one subject."""
    for start in range(0, ROWS, 1000):
        items = [
            {
                "body": "worda wordb " + " ".join(WORDS[digit] for digit in f"{n:012b}"),
                "session_ref": "s",
                "subject": "Ann Miller",
                "attribute": "home city",
            }
            for n in range(start, start + 1000)
        ]
        db.execute("select count(*) from remem.remember_many('w', %s)", [Jsonb(items)])
    for workspace, subjects in (("subjects", ROWS // 2), ("decided", 20)):
        items = [
            {"body": f"port {n}", "subject": f"service {n % subjects}", "attribute": "port"}
            for n in range(2 * subjects)
        ]
        items[:0] = [{"body": f"host {n}", "subject": "a", "attribute": "host"} for n in range(200)]
        db.execute("select count(*) from remem.remember_many(%s, %s)", [workspace, Jsonb(items)])
    db.execute(
        """
        insert into remem.relation (workspace, src_no, dst_no, kind)
        select a.workspace, a.memory_no, b.memory_no, 'not_conflict'
        from remem.memory a join remem.memory b on b.workspace = a.workspace
          and b.attribute = a.attribute and b.memory_no between a.memory_no - 40 and a.memory_no - 1
        where a.workspace = 'decided'
        """
    )


@pytest.fixture(scope="module")
def fresh(server: Server) -> Iterator[Connection]:
    with inspected(server, fill) as su:
        yield su


@pytest.fixture(scope="module", params=["never analysed", "analysed"])
def alike(fresh: Connection, request: pytest.FixtureRequest) -> Connection:
    """The one database, first as it was filled: a scope of a module has its tests in this order."""
    if request.param == "analysed":
        fresh.execute("analyze")
    return fresh


def test_the_turns_around_a_find_are_looked_up(alike: Connection) -> None:
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert len(recall(alike, "w", "worda wordb", k=100)) == 100
    assert looked_at(seen, "memory") < 3 * ROWS


def test_a_word_that_no_memory_holds_reads_nothing(alike: Connection) -> None:
    query = "worda " + " ".join(f"unheard{n}" for n in range(100))
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert recall(alike, "w", query)
    # One word is in most memories: its list is read a few times over.
    assert looked_at(seen, "posting") < 8 * ROWS


def test_conflicts_are_pairs_of_the_newest_only(alike: Connection) -> None:
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert value(alike, "select count(*) from remem.conflicts('w', 1000)") == 1000
    assert most_compared(seen) <= 200 * 200


def test_conflicts_of_many_subjects_are_no_work_of_pairs(alike: Connection) -> None:
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert value(alike, "select count(*) from remem.conflicts('subjects', 10)") == 10
    assert most_compared(seen) <= 200 * 200


def test_what_was_decided_is_looked_up_for_each_pair(alike: Connection) -> None:
    with plans(alike, log_analyze="on", log_timing="off") as seen:
        assert value(alike, "select count(*) from remem.conflicts('decided', 10)") == 10
    # Each is decided with the forty before it: these pairs are looked up until ten are left.
    assert looked_at(seen, "relation") <= 200 * 40
