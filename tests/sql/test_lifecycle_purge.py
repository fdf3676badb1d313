"""purge, purge_forgotten and drop_workspace: what is erased is found nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.consistency import problems
from tests.support.lifecycle import about, change, history, holding, rows
from tests.support.memories import (
    Connection,
    get,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
)

SECRET = "zyzzyva"


def fill_every_place(db: Connection) -> int:
    """Two versions of one memory whose text lies wherever a text can lie, live and past."""
    said: dict[str, Any] = {
        "ref": "r",
        "title": f"{SECRET} title",
        "summary": f"{SECRET} summary",
        "tags": [f"{SECRET}tag"],
        "aliases": [f"{SECRET} alias"],
        "topic_key": f"{SECRET} topic",
        "subject": f"{SECRET} subject",
        "attribute": f"{SECRET} attribute",
        "speaker": f"{SECRET} speaker",
        "session_ref": f"{SECRET} session",
        "source_ref": f"{SECRET} source",
        "entities": [f"{SECRET} entity"],
        "pinned": True,
        "metadata": {SECRET: SECRET},
    }
    remember(db, "w", f"{SECRET} one", **said)
    remember(db, "w", f"{SECRET} two", **said)
    other = remember(db, "w", "An innocent bystander.", ref="other")
    row = get(db, "w", ref="r")
    for src, dst in ((row.memory_id, other.memory_id), (other.memory_id, row.memory_id)):
        db.execute("select remem.relate('w', %s, %s)", [src, dst])
    asked = Jsonb({"session_ref": f"{SECRET} session"})
    db.execute("select remem.recall_cached('w', %s, options => %s)", [SECRET, asked])
    db.execute(  # as count_words does where a word is in many memories
        "insert into remem.frequent_word"
        " select distinct workspace_key, word, 201 from remem.posting"
    )
    open_space(db, "second", 3)
    value(
        db,
        "with n as (insert into remem.embedding_2 (workspace, memory_no, embedding)"
        " select workspace, memory_no, '[1,2,3]' from remem.memory where superseded_at is null"
        " returning 1) select count(*) from n",
    )
    db.execute("select remem._add_tally('w', 2, 2)")
    return int(value(db, "select min(memory_no) from remem.memory"))


@pytest.mark.parametrize("forgotten", [False, True])
def test_nothing_of_a_purged_memory_is_left_but_id_and_ref(db: Connection, forgotten: bool) -> None:
    first = fill_every_place(db)
    ids = [v.memory_id for v in history(db, "w", ref="r")]
    assert len(holding(db, SECRET)) >= 8
    if forgotten:
        change(db, "forget", "w", ref="r", reason=f"about {SECRET}")
    reply = change(db, "purge", "w", ref="r")
    assert (reply.outcome, reply.memory_id, reply.ref) == ("purged", ids[1], "r")
    assert holding(db, SECRET) == []
    for number in (first, first + 1):
        assert about(db, number) == ["remem.tombstone.memory_no"]
    assert value(db, "select count(*) from remem.query_cache") == 0
    kept = "select count(*) from remem.frequent_word where word = remem._word(%s)"
    assert [value(db, kept, [word]) for word in ("innoc", SECRET.lower())] == [1, 0]
    assert problems(db) == []
    assert [h.ref for h in recall(db, "w", f"{SECRET} bystander")] == ["other"]
    assert [(v.memory_id, v.state, v.body, v.ref) for v in history(db, "w", ref="r")] == [
        (memory_id, "purged", None, "r") for memory_id in ids
    ]
    assert change(db, "purge", "w", ref="r").outcome == "unchanged"
    assert change(db, "purge", "w", memory_id=ids[0]).outcome == "unchanged"


def test_a_purged_ref_is_written_again_only_knowingly(db: Connection) -> None:
    said = remember(db, "w", "The door code is 1111.", ref="door")
    change(db, "purge", "w", ref="door")
    for body in ("The door code is 1111.", "The door code is 2222."):
        reply = remember(db, "w", body, ref="door")
        assert (reply.outcome, reply.memory_id) == ("purged", said.memory_id)
    assert value(db, "select remem.count('w')") == 0
    body = "The door is open."
    assert remember(db, "w", body, ref="door", on_conflict="rewrite").outcome == "created"
    assert remember(db, "w", "The door is shut.", ref="door").outcome == "new_version"
    assert [v.state for v in history(db, "w", ref="door")] == ["purged", "superseded", "current"]
    assert problems(db) == []


def test_a_report_of_a_batch_says_which_were_purged(db: Connection) -> None:
    remember(db, "w", "one", ref="a")
    change(db, "purge", "w", ref="a")
    items = [{"body": "one", "ref": "a"}, {"body": "two", "ref": "b"}]
    for mode in ("report", "abort"):
        outcomes = [r.outcome for r in remember_many(db, "w", items, mode)]
        assert outcomes == ["purged", "created" if mode == "report" else "unchanged"]


def test_a_former_version_can_be_purged_alone(db: Connection) -> None:
    old = remember(db, "w", "The code is zyzzyva.", ref="r")
    remember(db, "w", "The code is changed.", ref="r")
    change(db, "purge", "w", memory_id=old.memory_id)
    assert holding(db, SECRET) == []
    assert [v.state for v in history(db, "w", ref="r")] == ["purged", "current"]
    assert remember(db, "w", "The code is new.", ref="r").outcome == "new_version"
    assert problems(db) == []


def test_turns_around_a_purged_one_stay(db: Connection) -> None:
    for n in range(3):
        remember(db, "w", f"turn {n}", ref=f"t{n}", session_ref="s")
    change(db, "purge", "w", ref="t1")
    assert value(db, "select turns from remem.session") == 2
    assert problems(db) == []


def test_a_topic_goes_over_to_who_else_stands_for_it(db: Connection) -> None:
    remember(db, "w", "Kafka.", ref="a", topic_key="queue")
    remember(db, "w", "RabbitMQ.", ref="b", topic_key="queue")
    change(db, "purge", "w", ref="a")
    assert [t.title for t in rows(db, "list_topics", "w")] == ["queue"]
    change(db, "purge", "w", ref="b")
    assert rows(db, "list_topics", "w") == []
    assert value(db, "select count(*) from remem.topic") == 0


def test_what_a_caller_put_into_the_catalog_stays(db: Connection) -> None:
    db.execute("select remem.put_topic('w', 'Queue', summary => 'what we use')")
    remember(db, "w", "Kafka.", ref="a", topic_key="queue")
    change(db, "purge", "w", ref="a")
    (topic,) = rows(db, "list_topics", "w")
    assert (topic.title, topic.sources) == ("Queue", [""])


def test_forgotten_ones_are_purged_in_batches(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"fact {n}", "ref": f"r{n}"} for n in range(7)])
    rows(db, "forget_where", "w", filter='$.ref != "r0"', preview=False)
    assert value(db, "select remem.purge_forgotten('w', before => '2020-01-01Z')") == 0
    assert [value(db, "select remem.purge_forgotten('w', \"limit\" => 4)") for _ in "abc"] == [
        4,
        2,
        0,
    ]
    assert value(db, "select count(*) from remem.memory") == 1
    assert value(db, "select count(*) from remem.tombstone") == 6
    assert problems(db) == []


# -- drop_workspace


def left(db: Connection, workspace: str) -> dict[str, int]:
    """Rows of a workspace in each table that knows workspaces, counted apart from the function."""
    counts = {}
    for name, keyed in db.execute(
        "select c.relname, bool_and(a.attname = 'workspace_key') from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r'"
        " and a.attname in ('workspace', 'workspace_key') and c.relname <> 'access_grant'"
        " group by c.relname"
    ).fetchall():
        owned = "workspace_key = remem._workspace_key(%s)" if keyed else "workspace = %s"
        query = f"select count(*) from remem.{name} where {owned}"
        count = value(db, query, [workspace])
        if count:
            counts[name] = count
    return counts


def test_a_dropped_workspace_leaves_nothing_and_says_so(db: Connection) -> None:
    fill_every_place(db)
    db.execute("select remem.put_provider('w', 'notes')")
    db.execute("select remem.put_route('general', '{lexical}', 'w')")
    change(db, "forget", "w", ref="other")
    remember(db, "elsewhere", f"{SECRET} of another tenant", ref="r")
    before = left(db, "elsewhere")
    (report,) = rows(db, "drop_workspace", "w")
    assert (report.done, report.remaining) == (True, {})
    assert report.deleted > 50
    assert left(db, "w") == {}
    assert left(db, "elsewhere") == before
    assert problems(db) == []
    (again,) = rows(db, "drop_workspace", "w")
    assert (again.done, again.deleted) == (True, 0)


def test_a_large_one_goes_in_batches_and_is_unknown_from_the_first(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"fact number {n}"} for n in range(40)])
    (report,) = rows(db, "drop_workspace", "w", limit=30)
    assert (report.done, report.deleted) == (False, 30)
    assert report.remaining == left(db, "w")
    assert recall(db, "w", "fact number") == []
    calls = 1
    while not report.done:
        (report,) = rows(db, "drop_workspace", "w", limit=30)
        calls += 1
    assert calls > 4
    assert left(db, "w") == {}


def test_what_remains_is_counted_no_further_than_a_batch(db: Connection) -> None:
    items = [{"body": " ".join(f"w{n}x{m}" for m in range(50))} for n in range(25)]
    remember_many(db, "w", items)
    assert left(db, "w")["posting"] > 1200
    (report,) = rows(db, "drop_workspace", "w", limit=1)
    assert report.remaining["posting"] == 1000
    assert report.remaining["memory"] == 25
    (report,) = rows(db, "drop_workspace", "w", limit=1100)
    assert report.remaining["posting"] <= 1100
    assert report.done is False


def test_the_name_can_be_used_again(db: Connection) -> None:
    remember(db, "w", "before", ref="r")
    change(db, "forget", "w", ref="r")
    rows(db, "drop_workspace", "w")
    assert remember(db, "w", "before", ref="r").outcome == "created"
    assert problems(db) == []


@pytest.mark.parametrize("limit", [0, -1, None])
def test_a_batch_has_a_row(db: Connection, limit: int | None) -> None:
    with refused("RM001", argument="limit"):
        rows(db, "drop_workspace", "w", limit=limit)


def test_what_was_kept_by_a_client_is_void_after_a_purge_of_the_past(db: Connection) -> None:
    old = remember(db, "w", "one", ref="r")
    remember(db, "w", "two", ref="r")
    answer = value(db, "select remem.recall_cached('w', 'two')")
    change(db, "purge", "w", memory_id=old.memory_id)
    options = Jsonb({"token": answer["token"]})
    after = value(db, "select remem.recall_cached('w', 'two', options => %s)", [options])
    assert after.get("unchanged") is None
