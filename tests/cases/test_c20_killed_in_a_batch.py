"""C20: killed in the middle of a batch: the next run resumes, embeds nothing twice needlessly, and
loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remem_pg import Remem
from tests.support.consistency import problems
from tests.support.jobs import Shares, coverage, current, stored
from tests.support.memories import Connection, value

ROOT = Path(__file__).parents[2]
ROWS, BATCH = 40, 10
# Embeds whole batches until so many texts are done, then dies while a batch is claimed: before the
# model has answered, or after it has and before the vectors are stored.
PROGRAM = """
import os, signal, sys
from remem_pg import Remem
from tests.support.jobs import Shares

dsn, batches, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]

class Dies(Shares):
    def embed(self, texts):
        if self.calls == batches and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        vectors = super().embed(texts)
        if self.calls == batches + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return vectors

with Remem(dsn, workspace="w", embedding=Dies("new", 1)) as memory:
    memory.reembed(batch_size=10)
"""


class Counts(Shares):
    """Remembers every text it embedded."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.seen += texts
        return super().embed(texts)


@pytest.mark.covers("RE4", "RE18", "RE31")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("batches", [0, 2])
def test_the_next_run_embeds_what_is_left_and_only_that(
    db: Connection, su: Connection, db_dsn: str, when: str, batches: int
) -> None:
    with Remem(db_dsn, workspace="w", embedding=Shares("old", 0)) as old:
        old.remember_many([{"body": f"memory {n}", "ref": f"r{n}"} for n in range(ROWS)])
        child = subprocess.run(
            [sys.executable, "-c", PROGRAM, db_dsn, str(batches), when],
            cwd=ROOT,
            env=os.environ,
            timeout=60,
            check=False,
        )
        assert child.returncode == -signal.SIGKILL
        assert current(db) == "old"
        done = set(stored(su, "new"))
        assert len(done) == batches * BATCH
        assert len(stored(su, "old")) == ROWS
        old.remember("memory 1, changed meanwhile", ref="r1")
        # What the dead one held comes back when its lease is over, not before.
        su.execute("update remem.embedding_claim set due_at = now() where state = 'claimed'")
        su.execute("update remem.job_run set lease_until = now() where state = 'started'")
        model = Counts("new", 1)
        with Remem(db_dsn, workspace="w", embedding=model) as new:
            assert new.reembed(batch_size=BATCH).activated
        assert len(model.seen) == len(set(model.seen))
        assert not done & set(model.seen)
        assert len(stored(su, "new")) == ROWS == value(db, "select remem.count('w')")
        assert [(c.space, c.pending, c.set_aside) for c in coverage(db)] == [("new", 0, 0)]
        assert problems(su) == []
