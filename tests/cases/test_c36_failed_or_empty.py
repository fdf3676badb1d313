"""C36: a recall that failed is distinguishable from one that found nothing."""

from __future__ import annotations

import pytest

from remem_pg import InvalidArgument, Remem
from remem_pg.errors import ServerUnavailable
from tests.support.lifecycle import change
from tests.support.memories import (
    Connection,
    explain,
    recall,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)


def test_an_empty_answer_without_a_warning_means_that_nothing_matched(db: Connection) -> None:
    remember(db, "w", "The heron is grey.", ref="r")
    change(db, "forget", "w", ref="r")
    with warnings(db) as seen:
        assert recall(db, "w", "heron") == []
    assert seen == []


@pytest.mark.parametrize(
    ("table", "state"),
    [("posting", "arm_failed:lexical"), ("embedding_1", "arm_failed:vector")],
)
@pytest.mark.parametrize("past", [False, True])
def test_a_broken_arm_is_named_with_or_without_hits(
    db: Connection, su: Connection, table: str, state: str, past: bool
) -> None:
    remember(db, "w", "The heron is grey.")
    moment = value(db, "select to_json(clock_timestamp()) #>> '{}'")
    options = {"as_of": moment} if past else {}
    su.execute(f"alter table remem.{table} rename to elsewhere".encode())
    for query in ("heron", "zebra"):
        with warnings(db) as seen:
            recall(db, "w", query, **options)
        assert [code for code, _ in seen] == ["RM501"]
        assert state in seen[0][1]
        assert state in explain(db, "w", query, **options)["degraded"]


def test_a_workspace_that_was_dropped_is_said_to_be_unknown(db: Connection) -> None:
    remember(db, "w", "The heron is grey.")
    db.execute("select remem.drop_workspace('w')")
    with warnings(db) as seen:
        assert recall(db, "w", "heron") == []
    assert seen == [("RM501", ["unknown_workspace"])]


def test_a_client_raises_for_a_failure_and_returns_nothing_for_nothing(
    db: Connection, db_dsn: str, su: Connection
) -> None:
    remember(db, "acme", "The heron is grey.", ref="r")
    change(db, "forget", "acme", ref="r")
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        empty = mem.recall("heron")
        assert (list(empty), empty.degraded) == ([], ())
        with pytest.raises(InvalidArgument):
            mem.recall("heron", where="colour = 'red'")
        with pytest.raises(InvalidArgument):
            mem.recall("heron", filter="$.kind ==")
        su.execute("alter table remem.embedding_1 rename to elsewhere")
        assert "arm_failed:vector" in mem.recall("heron").degraded
    unreachable = "host=/nowhere dbname=none connect_timeout=1"
    with (
        Remem(unreachable, workspace="acme", embedding=None) as mem,
        pytest.raises(ServerUnavailable),
    ):
        mem.recall("heron")


def test_a_filter_that_fails_on_a_row_is_an_error_and_no_empty_answer(db: Connection) -> None:
    """However the row is met: among the first, beyond those that are resolved, beside a find."""
    filter = '$.kind == "task" || $.occurred_at.datetime() < "2026-03-02".datetime()'
    items: list[dict[str, object]] = [
        {"body": f"heron task {n}", "kind": "task"} for n in range(5100)
    ]
    remember_many(db, "w", items)
    assert len(recall(db, "w", "heron", filter=filter)) == 8
    turns = [
        {"body": "zebra", "kind": "task", "session_ref": "s"},
        {"body": "gnu", "occurred_at": "2026-03-01T00:00:00Z", "session_ref": "s"},
    ]
    remember_many(db, "w", turns)
    for mode in ("lexical", "auto"):
        with refused("RM001", argument="filter"):
            recall(db, "w", "zebra", filter=filter, mode=mode)
