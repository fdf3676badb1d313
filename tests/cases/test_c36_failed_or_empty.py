"""C36: a recall that failed is distinguishable from one that found nothing."""

from __future__ import annotations

import pytest

from tests.support.lifecycle import change
from tests.support.memories import Connection, explain, recall, remember, value, warnings


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
