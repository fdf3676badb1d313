"""C4: ten calls in one session, then ten through a server-side prepared statement."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, remember_many

CALL = "select memory_id from remem.recall('w', %s, null, 8)"
SHORTEST = 0.002
"""Seconds; a call of less is measured in the noise of a busy machine."""
QUESTION = "how often is the queue drained?"
OTHERS = {
    "recall with a filter": "select memory_id from remem.recall('w', %s,"
    """ options => '{"filter": "$.metadata.n == 7 || $.metadata.n == 8"}')""",
    "recall with a broad filter": "select memory_id from remem.recall('w', %s,"
    """ options => '{"kinds": ["semantic"]}')""",
    "recall as of": "select memory_id from remem.recall('w', %s,"
    """ options => '{"as_of": "2100-01-01T00:00:00Z"}')""",
    "every arm": "select memory_id from remem.recall('w', %s, options =>"
    """ '{"arms": ["vector", "lexical", "phrase", "attribute", "pointer"], "graph": "always"}')""",
    "many at once": "select memory_id from remem.recall_many('w', jsonb_build_array(%s::text))",
    "get": "select memory_id from remem.get('w', ref => 'r' || length(%s))",
    "list": "select memory_id from remem.list('w', '$.metadata.n == ' || length(%s))",
    "count": "select remem.count('w', '$.metadata.n < ' || length(%s))",
    "history": "select memory_id from remem.history('w', ref => 'r' || length(%s))",
    "plan": "select remem.plan('w', %s) -> 'shouldRetrieve'",
    "new version": "select (remem.remember('w', %s || clock_timestamp(), ref => 'rewritten')).ref",
}


def fill(db: Connection) -> None:
    for start in range(0, 3000, 1000):
        remember_many(
            db,
            "w",
            [
                {
                    "body": f"queue {n} is drained by worker {n % 50}",
                    "ref": f"r{n}",
                    "metadata": {"n": n},
                }
                for n in range(start, start + 1000)
            ],
        )
    db.execute("vacuum analyze")


@pytest.fixture(scope="module")
def name(server: Server) -> Iterator[str]:
    with filled(server, fill) as made:
        yield made


@pytest.fixture
def queues(server: Server, name: str) -> Iterator[Connection]:
    with owner(server, name) as conn:
        yield conn


def times(db: Connection, prepare: bool, call: str = CALL) -> tuple[list[float], list[object]]:
    """Seconds of ten calls, each the best of five, and what they returned."""
    took, found = [], []
    for _ in range(10):
        best = float("inf")
        for _ in range(5):
            start = perf_counter()
            rows = db.execute(call, [QUESTION], prepare=prepare).fetchall()  # type: ignore[arg-type]
            best = min(best, perf_counter() - start)
        took.append(best)
        found.append(rows)
    return took, found


def test_no_later_call_is_an_order_of_magnitude_slower_than_the_first_ones(
    queues: Connection,
) -> None:
    plain, found = times(queues, prepare=False)
    prepared, again = times(queues, prepare=True)
    assert found + again == [found[0]] * 20
    assert len(found[0]) == 8  # type: ignore[arg-type]
    usual = median(plain[:5])
    assert max(plain + prepared) < 10 * max(usual, SHORTEST)


@pytest.mark.parametrize("call", OTHERS)
def test_nor_is_one_of_another_kind(queues: Connection, call: str) -> None:
    plain, found = times(queues, False, OTHERS[call])
    prepared, again = times(queues, True, OTHERS[call])
    assert found[0]
    assert found + again == [found[0]] * 20
    assert max(plain + prepared) < 10 * max(median(plain[:5]), SHORTEST)


def test_a_plan_for_all_values_serves_as_well(queues: Connection) -> None:
    """What a pooled session ends with, from its first call on."""
    plain, found = times(queues, prepare=True)
    queues.execute("set plan_cache_mode = force_generic_plan")
    forced, again = times(queues, prepare=True)
    assert again == found
    assert max(forced) < 10 * max(median(plain[:5]), SHORTEST)
