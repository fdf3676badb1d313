"""correct, supersede, history, and the small changes: pin, resolve, importance, freshness."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.consistency import problems
from tests.support.lifecycle import change, history, rows
from tests.support.memories import (
    EVERY_FIELD,
    Connection,
    get,
    open_space,
    recall,
    refused,
    remember,
    value,
)


def test_a_correction_is_a_new_version_and_the_old_one_is_kept(filled: Connection) -> None:
    old = get(filled, "w", ref="retries").memory_id
    reply = change(
        filled, "correct", "w", body="We retry four times.", ref="retries", reason="typo"
    )
    assert (reply.outcome, reply.ref, reply.memory_id == old) == ("corrected", "retries", False)
    assert get(filled, "w", ref="retries").body == "We retry four times."
    first, second = history(filled, "w", memory_id=old)
    assert (first.version, first.state, first.how, first.reason) == (
        1,
        "superseded",
        "corrected",
        "typo",
    )
    assert (first.replaced_by, first.ended_by) == (reply.memory_id, filled.info.user)
    assert (second.version, second.state, second.memory_id) == (2, "current", reply.memory_id)
    assert recall(filled, "w", "how often do we retry?")[0].body == second.body
    assert problems(filled) == []


def test_everything_that_is_not_named_is_taken_over(db: Connection) -> None:
    remember(db, "w", "Three.", **EVERY_FIELD, entities=["Ana"])
    before = get(db, "w", ref="r-1")
    change(db, "correct", "w", body="Four.", ref="r-1", changes={"title": "Tries", "summary": None})
    after = get(db, "w", ref="r-1")
    same = set(after._fields) - {
        "memory_id",
        "body",
        "title",
        "summary",
        "created_at",
        "updated_at",
    }
    assert {f: getattr(after, f) for f in same} == {f: getattr(before, f) for f in same}
    assert (after.body, after.title, after.summary) == ("Four.", "Tries", None)
    assert value(db, "select entities from remem.memory where body = 'Four.'") == ["Ana"]
    assert problems(db) == []


def test_a_memory_without_a_ref_is_corrected_by_its_id(db: Connection) -> None:
    old = remember(db, "w", "The heron is grey.")
    new = change(db, "correct", "w", body="The heron is white.", memory_id=old.memory_id)
    assert new.outcome == "corrected"
    assert [h.body for h in recall(db, "w", "colour of the heron")] == ["The heron is white."]
    again = change(db, "correct", "w", body="The heron is black.", memory_id=new.memory_id)
    assert [v.memory_id for v in history(db, "w", memory_id=new.memory_id)] == [
        old.memory_id,
        new.memory_id,
        again.memory_id,
    ]
    assert problems(db) == []


def test_a_corrected_turn_stays_in_its_place(db: Connection) -> None:
    for n in range(1, 4):
        remember(db, "w", f"turn {n}", ref=f"t{n}", session_ref="s")
    change(db, "correct", "w", body="turn two", ref="t2")
    row = get(db, "w", ref="t2")
    assert (row.session_ref, row.turn_no) == ("s", 2)
    assert value(db, "select last_turn from remem.session") == 3
    assert problems(db) == []


def test_the_same_again_is_no_correction(filled: Connection) -> None:
    body = get(filled, "w", ref="retries").body
    assert change(filled, "correct", "w", body=body, ref="retries").outcome == "unchanged"
    changes: dict[str, Any] = {"kind": "decision"}
    reply = change(filled, "correct", "w", body=body, ref="retries", changes=changes)
    assert reply.outcome == "unchanged"
    assert len(history(filled, "w", ref="retries")) == 1


def test_what_is_no_longer_current_is_a_conflict(filled: Connection) -> None:
    old = get(filled, "w", ref="retries").memory_id
    remember(filled, "w", "We retry twice.", ref="retries")
    reply = change(filled, "correct", "w", body="Never.", memory_id=old)
    assert reply.outcome == "conflict"
    assert reply.error is not None
    assert reply.error["detail"]["state"] == "superseded"
    change(filled, "forget", "w", ref="deploys")
    forgotten = rows(filled, "list", "w", state="forgotten")[0].memory_id
    reply = change(filled, "correct", "w", body="Never.", memory_id=forgotten)
    assert reply.error is not None
    assert reply.error["detail"]["state"] == "forgotten"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ref": "x"}, "RM002"),
        ({"session_ref": "x"}, "RM002"),
        ({"colour": "x"}, "RM002"),
        ({"importance": 2}, "RM001"),
        ({"importance": "much"}, "RM001"),
        ({"scope": "project"}, "RM001"),
    ],
)
def test_wrong_changes_are_refused(filled: Connection, changes: dict[str, Any], code: str) -> None:
    with refused(code):
        change(filled, "correct", "w", body="x", ref="retries", changes=changes)
    assert len(history(filled, "w", ref="retries")) == 1


@pytest.mark.parametrize("body", [None, "", " \n"])
def test_a_correction_needs_a_text(filled: Connection, body: str | None) -> None:
    with refused("RM001", argument="body"):
        change(filled, "correct", "w", body=body, ref="retries")


def test_a_vector_of_the_workspace_s_space_comes_with_the_text(db: Connection) -> None:
    open_space(db)
    remember(db, "w", "up", ref="r", embedding=[1, 0])
    change(db, "correct", "w", body="down", ref="r", embedding=[0.0, 1.0], space="t")
    (hit,) = recall(db, "w", "x", embedding=[0, 1], mode="vector")
    assert (hit.body, round(hit.signals["cosine"], 2)) == ("down", 1)
    with refused("RM201"):
        change(db, "correct", "w", body="y", ref="r", embedding=[0.0, 1.0, 0.0])
    with refused("RM202"):
        change(db, "correct", "w", body="y", ref="r", embedding=[0.0, 1.0], space="hash")
    assert problems(db) == []


def test_what_was_wrong_is_not_said_again_under_its_ref(filled: Connection) -> None:
    change(filled, "correct", "w", body="We retry four times.", ref="retries")
    said = {"ref": "retries", "kind": "decision"}
    again = remember(filled, "w", "We retry three times, then page.", **said)
    assert again.outcome == "superseded"
    assert get(filled, "w", ref="retries").body == "We retry four times."
    body = "We retry three times, then page."
    knowingly = remember(filled, "w", body, **said, on_conflict="rewrite")
    assert knowingly.outcome == "new_version"
    assert problems(filled) == []


def test_what_remember_changed_may_change_back(db: Connection) -> None:
    for body in ("Tuesday", "Wednesday", "Tuesday"):
        assert remember(db, "w", body, ref="day").outcome in ("created", "new_version")
    assert get(db, "w", ref="day").body == "Tuesday"
    assert {v.how for v in history(db, "w", ref="day")} == {"new_version", None}


# -- supersede


@pytest.fixture
def two(db: Connection) -> tuple[Any, Any]:
    old = remember(db, "w", "Deploys happen on Mondays.", ref="old", topic_key="deploys")
    new = remember(db, "w", "Deploys happen on Tuesdays.", ref="new")
    return old.memory_id, new.memory_id


@pytest.mark.covers("RP58")
def test_a_superseded_memory_leaves_recall_and_stays_in_history(
    db: Connection, two: tuple[Any, Any]
) -> None:
    old, new = two
    reply = change(db, "supersede", "w", old=old, new=new, reason="moved")
    assert (reply.outcome, reply.memory_id) == ("superseded", old)
    for arms in (["vector"], ["lexical"], ["pointer"], ["vector", "lexical"]):
        assert old not in [
            h.memory_id for h in recall(db, "w", "when do deploys happen?", arms=arms)
        ]
    versions = history(db, "w", ref="new")
    assert [(v.memory_id, v.how, v.reason) for v in versions] == [
        (old, "superseded", "moved"),
        (new, None, None),
    ]
    assert history(db, "w", ref="old") == versions
    assert get(db, "w", ref="old") is None
    assert get(db, "w", memory_id=old).superseded_by == new
    assert problems(db) == []


def test_superseding_again_says_what_is(db: Connection, two: tuple[Any, Any]) -> None:
    old, new = two
    third = remember(db, "w", "Deploys happen on Fridays.").memory_id
    assert change(db, "supersede", "w", old=old, new=new).outcome == "superseded"
    assert change(db, "supersede", "w", old=old, new=new).outcome == "unchanged"
    reply = change(db, "supersede", "w", old=old, new=third)
    assert reply.outcome == "conflict"
    assert reply.error is not None
    assert reply.error["detail"]["replaced_by"] == str(new)
    assert change(db, "supersede", "w", old=new, new=old).outcome == "conflict"
    with refused("RM001", argument="new"):
        change(db, "supersede", "w", old=new, new=new)
    assert problems(db) == []


def test_several_may_be_superseded_by_one(db: Connection, two: tuple[Any, Any]) -> None:
    old, new = two
    other = remember(db, "w", "Deploys happen on Sundays.").memory_id
    change(db, "supersede", "w", old=old, new=new)
    change(db, "supersede", "w", old=other, new=new)
    assert {v.memory_id for v in history(db, "w", ref="new")} == {old, other, new}
    change(db, "forget", "w", ref="new")
    assert recall(db, "w", "when do deploys happen?") == []
    assert problems(db) == []


def test_an_old_export_does_not_say_it_again(db: Connection, two: tuple[Any, Any]) -> None:
    change(db, "supersede", "w", old=two[0], new=two[1])
    again = remember(db, "w", "Deploys happen on Mondays.", ref="old", topic_key="deploys")
    assert (again.outcome, again.memory_id) == ("superseded", two[0])
    assert remember(db, "w", "Deploys happen at noon.", ref="old").outcome == "created"


# -- small changes


def topics(db: Connection) -> dict[str, Any]:
    return {t.title: t for t in rows(db, "list_topics", "w")}


def test_a_pin_makes_important_and_a_topic(db: Connection) -> None:
    remember(db, "w", "Never on Fridays.", ref="r", title="Deploy days", kind="decision")
    assert topics(db) == {}
    assert change(db, "pin", "w", ref="r").outcome == "updated"
    assert get(db, "w", ref="r").pinned
    assert value(db, "select remem.count('w', '$.important == true && $.pinned == true')") == 1
    assert round(topics(db)["Deploy days"].importance, 3) == 0.8
    assert change(db, "pin", "w", ref="r").outcome == "unchanged"
    assert change(db, "unpin", "w", ref="r").outcome == "updated"
    assert value(db, "select remem.count('w', '$.important == true')") == 0
    assert topics(db) == {}
    assert problems(db) == []


def test_resolved_work_is_offered_no_more(db: Connection) -> None:
    remember(db, "w", "Half done.", ref="a", topic_key="tests", unresolved=True)
    remember(db, "w", "More of it.", ref="b", topic_key="tests", importance=0.9)
    assert topics(db)["tests"].unresolved
    assert change(db, "resolve", "w", ref="a").outcome == "updated"
    assert not get(db, "w", ref="a").unresolved
    assert not topics(db)["tests"].unresolved
    assert change(db, "resolve", "w", ref="b").outcome == "unchanged"
    assert problems(db) == []


def test_importance_is_set_and_checked(db: Connection) -> None:
    remember(db, "w", "x", ref="r", metadata={"kept": None})
    assert change(db, "set_importance", "w", importance=0.9, ref="r").outcome == "updated"
    assert value(db, "select remem.count('w', '$.important == true && $.importance > 0.85')") == 1
    assert get(db, "w", ref="r").metadata == {"kept": None}
    for wrong in (-0.1, 1.1, float("nan"), None):
        with refused("RM001", argument="importance"):
            change(db, "set_importance", "w", importance=wrong, ref="r")
    assert problems(db) == []


def test_reinforcing_raises_confidence_towards_one(db: Connection) -> None:
    remember(db, "w", "x", ref="r")
    change(db, "set_freshness", "w", freshness="stale", ref="r")
    for expected in (0.75, 0.875):
        assert change(db, "reinforce", "w", ref="r").outcome == "updated"
        assert get(db, "w", ref="r").confidence == expected
    row = get(db, "w", ref="r")
    assert (row.freshness, row.provenance["reinforced"]["count"]) == ("current", 2)
    assert problems(db) == []


@pytest.mark.covers("RP58")
def test_a_stale_memory_says_so_and_its_topic_weighs_half(db: Connection) -> None:
    remember(db, "w", "Kafka is our queue.", ref="r", topic_key="queue", importance=0.6)
    weight = value(db, "select weight from remem.topic")
    assert change(db, "set_freshness", "w", freshness="stale", ref="r").outcome == "updated"
    (hit,) = recall(db, "w", "which queue?")
    assert hit.freshness == "stale"
    assert topics(db)["queue"].freshness == "stale"
    assert value(db, "select weight from remem.topic") == pytest.approx(weight / 2)
    remember(db, "w", "RabbitMQ is our queue.", topic_key="queue", importance=0.1)
    assert topics(db)["queue"].freshness == "current"
    with refused("RM001", argument="freshness"):
        change(db, "set_freshness", "w", freshness="superseded", ref="r")


@pytest.mark.parametrize("function", ["pin", "unpin", "resolve", "reinforce"])
def test_a_change_of_what_is_not_current_is_a_conflict(db: Connection, function: str) -> None:
    old = remember(db, "w", "one", ref="r")
    remember(db, "w", "two", ref="r")
    assert change(db, function, "w", memory_id=old.memory_id).outcome == "conflict"


def test_a_memory_ends_with_its_time(db: Connection) -> None:
    remember(db, "w", "The offer is open.", ref="r")
    ended = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    change(db, "correct", "w", body="The offer is open.", ref="r", changes={"valid_to": ended})
    assert recall(db, "w", "is the offer open?") == []
    assert get(db, "w", ref="r").valid_to is not None
    assert [h.body for h in recall(db, "w", "offer", as_of="2019-12-31T00:00:00Z")] == []
    assert problems(db) == []


# -- conflicts


def test_conflicting_statements_are_shown_and_left_alone(db: Connection) -> None:
    said = {"subject": "Mei", "attribute": "city"}
    first = remember(db, "w", "Mei lives in Lisbon.", ref="a", **said)
    second = remember(db, "w", "Mei lives in Porto.", ref="b", **said)
    remember(db, "w", "Mei lives in Faro.", scope="user", scope_ref="u", **said)
    remember(db, "w", "Ana lives in Faro.", subject="Ana", attribute="city")
    (pair,) = rows(db, "conflicts", "w")
    assert (pair.ref, pair.other_ref, pair.subject, pair.linked) == ("b", "a", "Mei", None)
    relate = "select remem.relate('w', %s, %s, %s)"
    db.execute(relate, [first.memory_id, second.memory_id, "contradicts"])
    assert [p.linked for p in rows(db, "conflicts", "w")] == ["contradicts"]
    db.execute(relate, [second.memory_id, first.memory_id, "not_conflict"])
    assert rows(db, "conflicts", "w") == []
    db.execute("select remem.unrelate('w', %s, %s)", [second.memory_id, first.memory_id])
    change(db, "supersede", "w", old=first.memory_id, new=second.memory_id)
    assert rows(db, "conflicts", "w") == []
