"""Everybody at once: writers, readers, re-embedders, who corrects, who forgets, other languages.

REMEM_MIXED_SECONDS makes it longer; `python -m evals mixed` runs it for a minute.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from evals import mixed
from tests.support.memories import Connection

SECONDS = float(os.environ.get("REMEM_MIXED_SECONDS", "6"))


def quiet(line: str) -> None:
    """Progress is for people."""


def test_everybody_at_once_leaves_everything_consistent(db_dsn: str) -> None:
    document = mixed.run(db_dsn, SECONDS, quiet)
    left = {n: document[n] for n in ("errors", "stuck", "deadlocks", "problems", "stale_answers")}
    assert left == {"errors": [], "stuck": [], "deadlocks": 0, "problems": [], "stale_answers": []}
    assert mixed.is_clean(document)
    done = {name.split(":")[0].split(",")[0] for name in document["operations"]}
    assert {"remember", "remember_many", "recall", "correct", "forget", "reembed"} <= done
    assert "reindex_text" in done


def test_what_ends_a_thread_is_an_error_of_the_run(
    db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(stage: Any) -> None:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(mixed, "ROLES", {"breaker": (1, breaks)})
    document = mixed.run(db_dsn, 30, quiet)
    assert document["seconds"] < 30
    assert document["errors"] == ["breaker: ValueError: broken on purpose"]
    assert not mixed.is_clean(document)


@pytest.mark.parametrize(
    "damage",
    [
        "delete from remem.posting where ctid = (select min(ctid) from remem.posting)",
        "delete from remem.memory where ctid = (select min(ctid) from remem.memory)",
        "update remem.workspace set reindexed_to = 0",
        "insert into remem.relation (workspace, src_no, dst_no, kind)"
        " values ('mixed-a', 1, 99999, 'related')",
    ],
)
def test_the_run_says_what_is_inconsistent(
    db: Connection, db_dsn: str, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    done = threading.Event()

    def harm(stage: Any) -> None:
        db.execute(damage.encode())
        done.set()
        stage.stop.set()

    monkeypatch.setattr(mixed, "ROLES", {"vandal": (1, harm)})
    monkeypatch.setattr(mixed, "_settle", lambda dsn, wanted: done.wait(30))
    document = mixed.run(db_dsn, 30, quiet)
    assert document["errors"] == []
    assert document["problems"]
    assert not mixed.is_clean(document)
