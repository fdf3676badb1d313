"""C4: ten calls in one session, then ten through a server-side prepared statement."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from tests.support.memories import Connection, remember_many

CALL = "select memory_id from remem.recall('w', %s, null, 8)"


def times(db: Connection, prepare: bool) -> tuple[list[float], list[object]]:
    """Seconds of ten calls, each the best of three, and what they returned."""
    took, found = [], []
    for _ in range(10):
        best = float("inf")
        for _ in range(3):
            start = perf_counter()
            rows = db.execute(CALL, ["how often is the queue drained?"], prepare=prepare).fetchall()
            best = min(best, perf_counter() - start)
        took.append(best)
        found.append(rows)
    return took, found


def test_no_later_call_is_an_order_of_magnitude_slower_than_the_first_ones(
    db: Connection,
) -> None:
    for start in range(0, 3000, 1000):
        remember_many(
            db,
            "w",
            [
                {"body": f"queue {n} is drained by worker {n % 50}"}
                for n in range(start, start + 1000)
            ],
        )
    db.execute("vacuum analyze")
    plain, found = times(db, prepare=False)
    prepared, again = times(db, prepare=True)
    assert found + again == [found[0]] * 20
    assert len(found[0]) == 8  # type: ignore[arg-type]
    usual = median(plain[:5])
    assert max(plain + prepared) < 10 * usual
