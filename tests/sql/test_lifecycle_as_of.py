"""as_of: what was known at a moment, out of live and past rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lifecycle import change
from tests.support.memories import (
    Connection,
    explain,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)


def now(conn: Connection) -> str:
    moment = value(conn, "select clock_timestamp()")
    return str(moment.astimezone(UTC).isoformat())


def known(conn: Connection, query: str, at: str, **options: Any) -> list[str]:
    return [hit.body for hit in recall(conn, "w", query, as_of=at, **options)]


@pytest.fixture
def times(db: Connection) -> dict[str, str]:
    """The moments between the changes of one memory."""
    at = {"before": now(db)}
    first = remember(db, "w", "The queue is RabbitMQ.", ref="queue", kind="decision")
    at["first"] = now(db)
    change(db, "correct", "w", body="The queue is Kafka.", ref="queue", reason="decided anew")
    at["second"] = now(db)
    new = remember(db, "w", "The queue is gone, we use the database.", ref="database")
    old = value(db, "select memory_id from remem.get('w', ref => 'queue')")
    at["third"] = now(db)
    change(db, "supersede", "w", old=old, new=new.memory_id)
    at["last"] = now(db)
    assert first.memory_id
    return at


EXPECTED = {
    "before": set(),
    "first": {"The queue is RabbitMQ."},
    "second": {"The queue is Kafka."},
    "third": {"The queue is Kafka.", "The queue is gone, we use the database."},
    "last": {"The queue is gone, we use the database."},
}


@pytest.mark.covers("MN34")
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only", "simple"])
def test_each_moment_has_its_own_answer(db: Connection, times: dict[str, str], mode: str) -> None:
    for name, expected in EXPECTED.items():
        assert set(known(db, "which queue?", times[name], mode=mode)) == expected, name


def test_now_is_what_recall_says(db: Connection, times: dict[str, str]) -> None:
    assert set(known(db, "which queue?", now(db))) == {
        h.body for h in recall(db, "w", "which queue?")
    }


def test_a_filter_holds_in_the_past(db: Connection, times: dict[str, str]) -> None:
    assert known(db, "which queue?", times["first"], filter='$.kind == "decision"') == [
        "The queue is RabbitMQ."
    ]
    for options in (
        {"kinds": ["task"]},
        {"filter": '$.ref == "x"'},
        {"shard_by": "kind", "kinds": ["task"]},
    ):
        assert known(db, "which queue?", times["first"], **options) == []


def test_an_excluded_word_holds_in_the_past(db: Connection, times: dict[str, str]) -> None:
    assert known(db, "which queue? -rabbitmq", times["first"]) == []


def test_what_was_forgotten_since_was_never_known(db: Connection, times: dict[str, str]) -> None:
    change(db, "forget", "w", ref="database")
    for name in EXPECTED:
        assert known(db, "which queue?", times[name]) == []


def test_validity_is_that_of_the_moment(db: Connection) -> None:
    start = datetime.now(UTC) + timedelta(days=10)
    remember(
        db, "w", "The office is in Porto.", valid_from=start, valid_to=start + timedelta(days=1)
    )
    for days, there in ((0, False), (10.5, True), (11.5, False)):
        at = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        assert bool(known(db, "where is the office?", at)) is there
    boundary = start.isoformat()
    assert known(db, "where is the office?", boundary)
    assert not known(db, "where is the office?", (start + timedelta(days=1)).isoformat())


def test_old_vectors_of_a_callers_space_are_compared(db: Connection) -> None:
    open_space(db)
    remember(db, "w", "up", ref="r", embedding=[1, 0])
    at = now(db)
    remember(db, "w", "down", ref="r", embedding=[0, 1])
    hits = recall(db, "w", "x", embedding=[1, 0], mode="vector", as_of=at)
    assert [(h.body, round(h.signals["cosine"], 2)) for h in hits] == [("up", 1)]


def test_a_hit_of_the_past_has_both_scores(db: Connection, times: dict[str, str]) -> None:
    (hit,) = recall(db, "w", "which queue is RabbitMQ?", as_of=times["first"])
    assert hit.signals["bm25"] > 0
    assert hit.signals["cosine"] > 0
    assert set(hit.arms) == {"vector", "lexical"}
    assert hit.relevance > 0.5


def test_many_past_rows_do_not_hide_a_live_one(db: Connection) -> None:
    remember(db, "w", "The heron is grey.", ref="heron")
    at = now(db)
    for batch in range(4):
        items = [{"body": f"The heron is grey, {batch} {n}.", "ref": f"r{n}"} for n in range(60)]
        remember_many(db, "w", items)
    assert known(db, "what colour is the heron?", at) == ["The heron is grey."]
    assert len(known(db, "what colour is the heron?", now(db), k=80)) == 61


@pytest.mark.parametrize(
    "wrong",
    ["yesterday", "2026-03-01", "2026-03-01T09:30:00", "2026-13-01T09:30:00Z", "", 17, True, ["x"],
     "infinity", "now", "2026-03-01 09:30:00 Europe/Berlin"],
)  # fmt: skip
def test_only_a_time_with_its_zone_is_a_moment(filled: Connection, wrong: Any) -> None:
    with refused("RM001", argument="as_of"):
        recall(filled, "w", "retry", as_of=wrong)


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Tokyo"])
def test_the_session_s_time_zone_changes_nothing(
    db: Connection, times: dict[str, str], zone: str
) -> None:
    db.execute(f"set timezone = '{zone}'".encode())
    assert known(db, "which queue?", times["first"]) == ["The queue is RabbitMQ."]


def test_it_reads_only_and_is_not_degraded(db: Connection, times: dict[str, str]) -> None:
    with db.transaction(), warnings(db) as seen:
        db.execute("set transaction read only")
        assert known(db, "which queue?", times["first"]) == ["The queue is RabbitMQ."]
    assert seen == []


def test_the_trace_shows_the_arms_that_know_the_past(db: Connection, times: dict[str, str]) -> None:
    trace = explain(db, "w", 'which "queue is" it? s-1', as_of=times["first"], kind="decision")
    assert set(trace["arms"]) == {"vector", "lexical"}
    assert trace["graph"]["ran"] is False
    assert trace["pool"]["note"] == "none"


def test_the_cache_stands_aside(db: Connection, times: dict[str, str]) -> None:
    query = (
        "select remem.recall_cached('w', 'queue', options => jsonb_build_object('as_of', %s::text))"
    )
    for _ in range(2):
        answer = value(db, query, [times["first"]])
        assert answer["cache"] == {"state": "skipped", "reason": "as_of"}
        assert [h["body"] for h in answer["hits"]] == ["The queue is RabbitMQ."]


def test_arms_on_their_own_connections_say_the_same(db: Connection, times: dict[str, str]) -> None:
    options = f'{{"as_of": "{times["second"]}"}}'
    arms = [
        value(db, "select remem.recall_arm('w', 'queue', %s, options => %s)", [arm, options])
        for arm in ("vector", "lexical")
    ]
    hits = db.execute(
        "select body from remem.recall_from('w', 'queue', %s::jsonb, options => %s)",
        [json.dumps(arms), options],
    ).fetchall()
    assert [h[0] for h in hits] == known(db, "queue", times["second"])
