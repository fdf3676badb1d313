"""forget, forget_where, unforget: hidden at once everywhere, and back whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.support.caching import cached
from tests.support.consistency import problems
from tests.support.lifecycle import change, history, rows
from tests.support.memories import (
    Connection,
    explain,
    get,
    recall,
    refused,
    remember,
    remember_many,
    value,
)

NOTHING = "00000000-0000-4000-8000-000000000001"


def found(conn: Connection, query: str, **options: Any) -> list[str]:
    return [hit.ref for hit in recall(conn, "w", query, **options)]


def test_a_forgotten_memory_is_out_of_every_reader(filled: Connection) -> None:
    row = get(filled, "w", ref="retries")
    reply = change(filled, "forget", "w", ref="retries", reason="asked to")
    assert (reply.memory_id, reply.ref, reply.outcome) == (row.memory_id, "retries", "forgotten")
    assert "retries" not in found(filled, "how often do we retry?")
    assert get(filled, "w", ref="retries") is None
    assert "retries" not in [m.ref for m in rows(filled, "list", "w")]
    assert value(filled, "select remem.count('w')") == 2
    assert problems(filled) == []


@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only", "simple"])
@pytest.mark.parametrize("shard_by", [None, "kind"])
def test_no_mode_of_recall_finds_it(filled: Connection, mode: str, shard_by: str | None) -> None:
    change(filled, "forget", "w", ref="retries")
    for query in ("We retry three times, then page.", '"three times"', "what did we decide?"):
        assert "retries" not in found(filled, query, mode=mode, shard_by=shard_by, kind="decision")


@pytest.mark.parametrize("arm", ["vector", "lexical", "pointer", "phrase", "attribute"])
def test_no_arm_finds_it(team: Connection, arm: str) -> None:
    questions = {"attribute": "what is Mei's city?", "phrase": '"freeze deploys"'}
    target = {"attribute": "tz", "phrase": "t1"}.get(arm, "err")
    query = questions.get(arm, "ERR_4071 of the build machine")
    options = {"arms": [arm], "graph": "never"}
    before = explain(team, "acme", query, **options)
    assert target in [hit["ref"] for hit in before["hits"]]
    change(team, "forget", "acme", ref=target)
    after = explain(team, "acme", query, **options)
    assert target not in [hit["ref"] for hit in after["hits"]]
    assert after["degraded"] == []


def test_a_hop_does_not_lead_to_it(filled: Connection) -> None:
    src, dst = (get(filled, "w", ref=r).memory_id for r in ("retries", "coffee"))
    filled.execute("select remem.relate('w', %s, %s, 'part_of')", [src, dst])
    hops = {"graph": "always", "k": 1, "mode": "lexical", "min_relevance": 0}
    change(filled, "forget", "w", ref="coffee")
    hits = recall(filled, "w", "retry page", **{**hops, "k": 8})
    assert [hit.ref for hit in hits if hit.expanded_from] == []
    change(filled, "unforget", "w", ref="coffee")
    hits = recall(filled, "w", "retry page", **{**hops, "k": 8})
    assert [hit.ref for hit in hits if hit.expanded_from] == ["coffee"]


def test_a_pinned_memory_leaves_the_pool_of_its_kind(filled: Connection) -> None:
    remember(filled, "w", "We never deploy on Fridays.", ref="p", kind="decision", pinned=True)
    change(filled, "forget", "w", ref="p")
    assert "p" not in found(filled, "what did we decide about zebras?", kind="decision")


def test_it_is_no_duplicate_of_a_hit(db: Connection) -> None:
    for session in ("a", "b"):
        remember(db, "w", "The heron is grey.", ref=session, session_ref=session)
    (hit,) = recall(db, "w", "what colour is the heron?")
    assert len(hit.duplicates) == 1
    other = hit.duplicates[0]["ref"]
    change(db, "forget", "w", ref=other)
    (hit,) = recall(db, "w", "what colour is the heron?")
    assert (hit.ref != other, hit.duplicates) == (True, None)


def test_a_kept_answer_ends(filled: Connection, other: Connection) -> None:
    first = cached(filled)
    change(other, "forget", "w", ref="retries")
    after = cached(filled, token=first["token"])
    assert after["tier"] == "cold"
    assert "retries" not in [hit["ref"] for hit in after["hits"]]


def test_its_topic_is_gone_from_the_catalog_and_comes_back_with_it(db: Connection) -> None:
    remember(db, "w", "Kafka it is.", ref="q", topic_key="message queue")
    titles = "select coalesce(array_agg(title), '{}') from remem.list_topics('w')"
    assert value(db, titles) == ["message queue"]
    change(db, "forget", "w", ref="q")
    assert value(db, titles) == []
    assert value(db, "select count(*) from remem.topic_token") == 0
    change(db, "unforget", "w", ref="q")
    assert value(db, titles) == ["message queue"]
    assert problems(db) == []


def test_a_topic_goes_over_to_another_memory_of_it(db: Connection) -> None:
    remember(db, "w", "Kafka it is.", ref="q", topic_key="message queue", unresolved=True)
    remember(db, "w", "RabbitMQ was the other one.", ref="r", topic_key="message queue")
    change(db, "forget", "w", ref="q")
    topics = rows(db, "list_topics", "w")
    assert [(t.title, t.unresolved) for t in topics] == [("message queue", False)]


def test_every_version_before_it_is_forgotten_with_it(db: Connection) -> None:
    remember(db, "w", "The door code is 1111.", ref="door")
    remember(db, "w", "The door code is 2222.", ref="door")
    moment = value(db, "select clock_timestamp()::text")
    change(db, "forget", "w", ref="door")
    assert recall(db, "w", "door code", as_of=_iso(moment)) == []
    states = [v.state for v in history(db, "w", ref="door")]
    assert states == ["forgotten", "forgotten"]
    assert problems(db) == []


def test_a_former_version_can_be_forgotten_alone(db: Connection) -> None:
    old = remember(db, "w", "The door code is 1111.", ref="door")
    remember(db, "w", "The door code is 2222.", ref="door")
    assert change(db, "forget", "w", memory_id=old.memory_id).outcome == "forgotten_version"
    assert found(db, "door code") == ["door"]
    assert [v.state for v in history(db, "w", ref="door")] == ["forgotten", "current"]
    assert problems(db) == []


def test_forgetting_twice_is_said(filled: Connection) -> None:
    memory_id = get(filled, "w", ref="retries").memory_id
    assert change(filled, "forget", "w", memory_id=memory_id).outcome == "forgotten"
    assert change(filled, "forget", "w", memory_id=memory_id).outcome == "unchanged"


@pytest.mark.parametrize("function", ["forget", "unforget", "purge", "pin", "resolve", "reinforce"])
@pytest.mark.parametrize("key", [{"ref": "none"}, {"memory_id": NOTHING}])
def test_what_is_not_there_is_refused(
    filled: Connection, function: str, key: dict[str, str]
) -> None:
    with refused("RM101", argument=next(iter(key))):
        change(filled, function, "w", **key)


@pytest.mark.parametrize("key", [{}, {"ref": "retries", "memory_id": NOTHING}])
def test_either_an_id_or_a_ref_is_given(filled: Connection, key: dict[str, str]) -> None:
    for function in ("forget", "unforget", "purge", "pin", "history"):
        with refused("RM001"):
            rows(filled, function, "w", **key)


def test_an_id_of_another_workspace_is_unknown(filled: Connection) -> None:
    there = remember(filled, "elsewhere", "Not yours.")
    for function in ("forget", "purge", "pin"):
        with refused("RM101"):
            change(filled, function, "w", memory_id=there.memory_id)


def test_a_reason_has_a_limit(filled: Connection) -> None:
    with refused("RM003", argument="reason"):
        change(filled, "forget", "w", ref="retries", reason="x" * 2001)


# -- who still sees it


def test_who_may_write_finds_it_in_list_and_history(filled: Connection) -> None:
    change(filled, "forget", "w", ref="retries", reason="asked to")
    (listed,) = rows(filled, "list", "w", state="forgotten")
    assert (listed.ref, listed.body[:8]) == ("retries", "We retry")
    assert listed.forgotten_at is not None
    (version,) = history(filled, "w", ref="retries")
    assert (version.state, version.how, version.reason) == ("forgotten", "forgotten", "asked to")
    assert version.body is not None
    assert len(rows(filled, "list", "w", state="all")) == 3


def test_who_may_only_read_learns_that_it_was_and_not_what_it_said(
    filled: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    memory_id = get(filled, "w", ref="retries").memory_id
    change(filled, "forget", "w", ref="retries", reason="asked to")
    role = make_role("reader")
    filled.execute("select remem.grant_access(%s, 'w', 'read')", [role])
    reader = connect(role)
    (version,) = history(reader, "w", ref="retries")
    assert (version.state, version.body, version.title, version.reason) == (
        "forgotten",
        None,
        None,
        None,
    )
    assert get(reader, "w", memory_id=memory_id) is None
    for state in ("forgotten", "all"):
        with refused("RM301"):
            rows(reader, "list", "w", state=state)
    assert rows(reader, "list", "w", state="superseded") == []


def test_an_unknown_state_is_refused(filled: Connection) -> None:
    with refused("RM001", argument="state"):
        rows(filled, "list", "w", state="gone")


# -- unforget


def test_unforget_brings_it_back_whole(filled: Connection) -> None:
    question = "how often do we retry?"
    before = explain(filled, "w", question)["hits"]
    change(filled, "forget", "w", ref="retries")
    assert change(filled, "unforget", "w", ref="retries").outcome == "unforgotten"
    assert explain(filled, "w", question)["hits"] == before
    assert get(filled, "w", ref="retries").forgotten_at is None
    assert problems(filled) == []


def test_turns_and_their_session_come_back(db: Connection) -> None:
    for n in range(3):
        remember(db, "w", f"turn {n}", ref=f"t{n}", session_ref="s")
    change(db, "forget", "w", ref="t1")
    assert problems(db) == []
    assert value(db, "select turns from remem.session") == 2
    change(db, "unforget", "w", ref="t1")
    assert value(db, "select turns from remem.session") == 3
    assert problems(db) == []
    remember(db, "w", "another", session_ref="s")
    assert value(db, "select max(turn_no) from remem.memory") == 4


def test_a_ref_that_was_written_anew_is_a_conflict(filled: Connection) -> None:
    old = get(filled, "w", ref="retries").memory_id
    change(filled, "forget", "w", ref="retries")
    assert remember(filled, "w", "We never retry.", ref="retries").outcome == "created"
    reply = change(filled, "unforget", "w", memory_id=old)
    assert (reply.outcome, reply.error and reply.error["code"]) == ("conflict", "RM102")
    assert problems(filled) == []


def test_what_was_forgotten_before_stays_forgotten(db: Connection) -> None:
    first = remember(db, "w", "one", ref="r")
    remember(db, "w", "two", ref="r")
    change(db, "forget", "w", memory_id=first.memory_id)
    change(db, "forget", "w", ref="r")
    change(db, "unforget", "w", ref="r")
    assert [v.state for v in history(db, "w", ref="r")] == ["forgotten", "current"]
    assert problems(db) == []


def test_unforgetting_what_is_there_changes_nothing(filled: Connection) -> None:
    assert change(filled, "unforget", "w", ref="retries").outcome == "unchanged"


def test_links_are_there_again(filled: Connection) -> None:
    src, dst = (get(filled, "w", ref=r).memory_id for r in ("retries", "deploys"))
    filled.execute("select remem.relate('w', %s, %s)", [src, dst])
    change(filled, "forget", "w", ref="retries")
    change(filled, "unforget", "w", ref="retries")
    assert value(filled, "select count(*) from remem.relation") == 1


def test_a_memory_of_another_analysis_is_analysed_anew(filled: Connection) -> None:
    change(filled, "forget", "w", ref="retries")
    filled.execute("update remem.workspace set language = 'german', analyser_no = 2")
    filled.execute("update remem.memory set analyser_no = 2 where forgotten_at is null")
    change(filled, "unforget", "w", ref="retries")
    number = value(filled, "select analyser_no from remem.memory where ref = 'retries'")
    assert number == 2


# -- what an old export brings


def test_the_same_said_again_does_not_bring_it_back(filled: Connection) -> None:
    item = {"body": "We retry three times, then page.", "ref": "retries", "kind": "decision"}
    change(filled, "forget", "w", ref="retries")
    (reply,) = remember_many(filled, "w", [item])
    assert reply.outcome == "forgotten"
    assert get(filled, "w", ref="retries") is None
    (reply,) = remember_many(filled, "w", [{**item, "on_conflict": "rewrite"}])
    assert reply.outcome == "created"
    assert problems(filled) == []


def test_the_same_without_a_ref_does_not_bring_it_back(db: Connection) -> None:
    said = remember(db, "w", "The heron is grey.")
    change(db, "forget", "w", memory_id=said.memory_id)
    again = remember(db, "w", "The heron is grey.")
    assert (again.outcome, again.memory_id) == ("forgotten", said.memory_id)
    assert remember(db, "w", "The heron is white.").outcome == "created"
    assert remember(db, "w", "The heron is grey.", on_conflict="rewrite").outcome == "created"
    assert remember(db, "w", "The heron is grey.").outcome == "merged"


def test_the_same_turn_does_not_come_back_and_the_same_words_later_do(db: Connection) -> None:
    said = remember(db, "w", "Yes.", session_ref="s", turn_no=3)
    change(db, "forget", "w", memory_id=said.memory_id)
    assert remember(db, "w", "Yes.", session_ref="s", turn_no=3).outcome == "forgotten"
    assert remember(db, "w", "Yes.", session_ref="s", turn_no=4).outcome == "created"
    assert remember(db, "w", "Yes.", session_ref="s").outcome == "created"


def test_another_text_under_the_ref_is_a_new_memory(filled: Connection) -> None:
    change(filled, "forget", "w", ref="retries")
    assert remember(filled, "w", "We retry five times.", ref="retries").outcome == "created"
    assert found(filled, "how often do we retry?")[0] == "retries"


# -- forget_where


def test_a_preview_says_what_would_go_and_changes_nothing(filled: Connection) -> None:
    (report,) = rows(filled, "forget_where", "w", filter='$.kind == "decision"')
    assert (report.preview, report.memories, report.versions) == (True, 1, 1)
    assert [m["ref"] for m in report.sample] == ["retries"]
    assert value(filled, "select remem.count('w')") == 3


def test_what_the_preview_showed_goes_with_former_versions(filled: Connection) -> None:
    remember(filled, "w", "We retry four times.", ref="retries", kind="decision")
    given = {"filter": '$.kind == "decision"', "reason": "cleaning up"}
    (report,) = rows(filled, "forget_where", "w", preview=False, expected=1, **given)
    assert (report.preview, report.memories, report.versions) == (False, 1, 2)
    assert value(filled, "select remem.count('w')") == 2
    assert {v.reason for v in history(filled, "w", ref="retries")} == {"cleaning up"}
    assert problems(filled) == []


def test_more_than_expected_is_refused(filled: Connection) -> None:
    with refused("RM102", argument="expected", got=3):
        rows(filled, "forget_where", "w", filter="1 == 1", preview=False, expected=2)
    assert value(filled, "select remem.count('w')") == 3


@pytest.mark.parametrize("filter", [None, "$.kind ==", "strict $.kind"])
def test_a_filter_is_needed(filled: Connection, filter: str | None) -> None:
    with refused("RM001", argument="filter"):
        rows(filled, "forget_where", "w", filter=filter, preview=False)


def test_a_filter_of_one_workspace_leaves_the_others(filled: Connection) -> None:
    remember(filled, "elsewhere", "Mine.")
    (report,) = rows(filled, "forget_where", "w", filter="1 == 1", preview=False)
    assert report.memories == 3
    assert value(filled, "select remem.count('elsewhere')") == 1
    assert value(filled, "select remem.count('w')") == 0


def test_many_thousand_go_in_seconds(db: Connection) -> None:
    for batch in range(10):
        items = [
            {"body": f"Fact {batch}.{n} of {uuid4().hex[:6]}", "session_ref": f"s{n % 50}"}
            for n in range(500)
        ]
        remember_many(db, "w", items)
    remember(db, "w", "The one that stays.", kind="decision")
    db.execute("analyze remem.memory; analyze remem.posting")
    started = time.perf_counter()
    (report,) = rows(db, "forget_where", "w", filter='$.kind == "semantic"', preview=False)
    elapsed = time.perf_counter() - started
    assert report.memories == 5000
    assert elapsed < 15, elapsed  # about one second on two quiet cores
    assert value(db, "select count(*) from remem.posting") < 20
    assert [hit.body for hit in recall(db, "w", "fact that stays")] == ["The one that stays."]


def test_a_forgetting_that_is_rolled_back_forgets_nothing(filled: Connection) -> None:
    with filled.transaction(force_rollback=True):
        change(filled, "forget", "w", ref="retries")
    assert "retries" in found(filled, "how often do we retry?")
    assert problems(filled) == []


def test_forgetting_is_no_reading(filled: Connection) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), filled.transaction():
        filled.execute("set transaction read only")
        change(filled, "forget", "w", ref="retries")


def _iso(text: str) -> str:
    """Postgres prints a zone of whole hours without minutes; the option takes that."""
    return text.replace(" ", "T")
