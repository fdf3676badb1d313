"""C21: while rows wait for their vectors, every result says so; when none does, none says it."""

from __future__ import annotations

import pytest

from remem_pg import Remem
from tests.support.jobs import Shares, coverage
from tests.support.memories import Connection, value

ROWS = 20


def explained(db: Connection, model: Shares) -> list[str]:
    vector = [float(x) for x in model.embed(["memory 3"])[0]]
    return list(
        value(
            db, "select remem.recall_explain('w', 'memory 3', %s::real[]) -> 'degraded'", [vector]
        )
    )


@pytest.mark.covers("RE23")
@pytest.mark.parametrize("share", [1, ROWS // 2, ROWS - 1])
def test_a_result_says_that_rows_wait_for_vectors(db: Connection, db_dsn: str, share: int) -> None:
    model = Shares("m")
    with Remem(db_dsn, workspace="w", embedding=model) as mem:
        mem.remember_many([{"body": f"memory {n}"} for n in range(ROWS - share)])
        assert mem.recall("memory 3").degraded == ()
        with Remem(db_dsn, workspace="w", embedding=None) as wordless:
            wordless.remember_many([{"body": f"late memory {n}"} for n in range(share)])
        found = mem.recall("late memory 0")
        assert "stale_rows" in found.degraded
        assert "late memory 0" in [hit.body for hit in found], "found by its words all the same"
        assert "stale_rows" in explained(db, model)
        assert [c.pending for c in coverage(db)] == [share]
        mem.reembed()
        assert mem.recall("late memory 0").degraded == ()
        assert explained(db, model) == []


@pytest.mark.covers("RE23", "RE30")
def test_during_a_move_results_say_so_until_it_is_over(db: Connection, db_dsn: str) -> None:
    old, new = Shares("old", 0), Shares("new", 1)
    with (
        Remem(db_dsn, workspace="w", embedding=old) as before,
        Remem(db_dsn, workspace="w", embedding=new) as after,
    ):
        before.remember_many([{"body": f"memory {n}"} for n in range(ROWS)])
        after.reembed(batch_size=5, limit=ROWS // 2)
        assert "stale_rows" in before.recall("memory 3").degraded
        assert "stale_rows" in after.recall("memory 3").degraded
        checks = dict(db.execute("select check_name, status from remem.doctor('w')").fetchall())
        assert checks["embeddings:new"] == "warning"
        assert after.reembed().activated
        assert after.recall("memory 3").degraded == ()
