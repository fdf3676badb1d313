"""What stands around a hit: its conversation, its speaker, its copies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories import (
    Connection,
    bodies,
    get,
    recall,
    remember,
    remember_many,
)


@pytest.fixture
def conversation(db: Connection) -> Connection:
    """One conversation of nine turns, of which the fifth is about a pelican, and another."""
    turns = [
        "Good morning to you.", "Did you sleep well?", "Very well, thanks.",
        "Look at that bird over there!", "That is a pelican.", "It has a fish.",
        "Lovely.", "Shall we go inside?", "Yes, let us go.",
    ]  # fmt: skip
    remember_many(
        db,
        "w",
        [
            {"body": body, "session_ref": "beach", "speaker": "Ana" if n % 2 else "Ben"}
            for n, body in enumerate(turns)
        ],
    )
    remember_many(
        db, "w", [{"body": f"Office chat {n}.", "session_ref": "office"} for n in range(9)]
    )
    return db


def test_the_two_turns_before_and_after_a_hit_join_it(conversation: Connection) -> None:
    hits = recall(conversation, "w", "pelican", k=20, mode="lexical")
    assert hits[0].body == "That is a pelican."
    assert set(bodies(hits[1:])) == {
        "Very well, thanks.", "Look at that bird over there!", "It has a fish.", "Lovely.",
    }  # fmt: skip
    assert {tuple(hit.arms) for hit in hits[1:]} == {("neighbour",)}
    assert all(hit.relevance == 0 for hit in hits[1:])


def test_the_nearer_turns_rank_before_the_farther(conversation: Connection) -> None:
    hits = recall(conversation, "w", "pelican", k=20, mode="lexical")
    assert set(bodies(hits[1:3])) == {"Look at that bird over there!", "It has a fish."}
    assert hits[1].signals["neighbour"] > 0


def test_neighbours_come_from_the_same_session_only(db: Connection) -> None:
    for n in range(5):
        remember(db, "w", f"Turn {n} of a.", session_ref="a")
        remember(db, "w", "That is a pelican." if n == 2 else f"Turn {n} of b.", session_ref="b")
    hits = recall(db, "w", "pelican", k=20, mode="lexical")
    assert len(hits) == 5
    assert {hit.session_ref for hit in hits} == {"b"}


def test_a_memory_outside_a_conversation_has_no_neighbours(db: Connection) -> None:
    for body in ("Before.", "That is a pelican.", "After."):
        remember(db, "w", body)
    assert bodies(recall(db, "w", "pelican", mode="lexical")) == ["That is a pelican."]


def test_neighbours_pass_the_filter_too(conversation: Connection) -> None:
    hits = recall(conversation, "w", "pelican", k=20, mode="lexical", filter='$.speaker == "Ben"')
    assert hits[0].body == "That is a pelican."
    assert len(hits) == 3
    assert all(get(conversation, "w", memory_id=hit.memory_id).speaker == "Ben" for hit in hits)


def test_a_gate_on_relevance_stops_neighbours(conversation: Connection) -> None:
    hits = recall(conversation, "w", "pelican", mode="lexical", min_relevance=0.5)
    assert bodies(hits) == ["That is a pelican."]


def test_a_hit_gains_from_a_neighbour_that_matches(db: Connection) -> None:
    remember_many(
        db,
        "w",
        [
            {"body": "pelican one", "session_ref": "a"},
            {"body": "pelican two", "session_ref": "b"},
            {"body": "we saw a pelican at noon", "session_ref": "b"},
        ],
    )
    hits = recall(db, "w", "pelican", mode="lexical")
    assert hits[0].body == "pelican two"
    without = recall(
        db, "w", "pelican", mode="lexical",
        weights={"neighbour": 0, "neighbour2": 0, "session": 0},
    )  # fmt: skip
    assert without[0].score == without[1].score


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("what does Ana drink?", "Ana"),
        ("what does BEN drink?", "Ben"),
        ("Ben's drink", "Ben"),
        ("what would ana, of all, drink?", "Ana"),
    ],
)
def test_the_speaker_that_a_question_names_gains(db: Connection, question: str, first: str) -> None:
    for n, speaker in enumerate(["Ana", "Ben"] * 3):
        remember(db, "w", f"I drink tea number {n}.", session_ref=f"s{n}", speaker=speaker)
    hits = recall(db, "w", question)
    assert {get(db, "w", memory_id=hit.memory_id).speaker for hit in hits[:3]} == {first}
    assert [hit.signals.get("speaker") for hit in hits] == [1, 1, 1, None, None, None]


def test_a_question_that_names_two_speakers_prefers_neither(db: Connection) -> None:
    for speaker in ("Ana", "Ben"):
        remember(db, "w", "I drink tea.", session_ref=speaker, speaker=speaker)
    hits = recall(db, "w", "do Ana and Ben drink tea?")
    assert [hit.signals.get("speaker") for hit in hits] == [None, None]


def test_a_name_inside_a_longer_word_names_nobody(db: Connection) -> None:
    remember(db, "w", "I eat fruit.", session_ref="s", speaker="Ana")
    (hit,) = recall(db, "w", "who eats a banana fruit?")
    assert "speaker" not in hit.signals


@pytest.mark.covers("RP36")
def test_equal_texts_come_back_once_with_every_reference(db: Connection) -> None:
    said: list[dict[str, Any]] = [
        {"body": "The office moved.", "ref": "a", "source_ref": "mail:1"},
        {"body": "the office MOVED.", "source_ref": "chat:2"},
        {"body": "The  office moved.", "session_ref": "s", "source_ref": "call:3"},
        {"body": "The office moved.", "kind": "decision"},
    ]
    refs = remember_many(db, "w", said)
    (hit,) = recall(db, "w", "office moved")
    others = {entry["memory_id"]: entry for entry in hit.duplicates}
    assert {str(hit.memory_id), *others} == {str(ref.memory_id) for ref in refs}
    sources = {hit.source_ref, *(entry.get("source_ref") for entry in others.values())}
    assert sources == {"mail:1", "chat:2", "call:3", None}
    assert {"a", "s"} <= {
        hit.ref, hit.session_ref,
        *(entry.get("ref") for entry in others.values()),
        *(entry.get("session_ref") for entry in others.values()),
    }  # fmt: skip


def test_a_text_without_copies_has_none(db: Connection) -> None:
    remember(db, "w", "The office moved.")
    (hit,) = recall(db, "w", "office")
    assert hit.duplicates is None


@pytest.mark.covers("RP36", "RP38")
def test_texts_that_differ_in_a_number_are_not_copies(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"build {n} failed"} for n in (41, 42, 4.2, -41)])
    assert len(recall(db, "w", "which build failed?")) == 4


def test_the_same_words_of_two_speakers_are_not_copies(db: Connection) -> None:
    for speaker in ("Ana", "Ben"):
        remember(db, "w", "I agree.", session_ref="s", speaker=speaker)
    assert len(recall(db, "w", "agree")) == 2


def test_copies_do_not_take_the_place_of_other_hits(db: Connection) -> None:
    remember_many(
        db, "w", [{"body": "The office moved.", "session_ref": f"s{n}"} for n in range(30)]
    )
    remember_many(db, "w", [{"body": f"The office has room {n}."} for n in range(7)])
    hits = recall(db, "w", "office moved", k=8)
    assert len(hits) == 8
    assert hits[0].body == "The office moved."
    assert len(hits[0].duplicates) == 29


@pytest.mark.covers("RP36")
def test_copies_by_the_hundred_do_not_take_the_place_of_other_hits(db: Connection) -> None:
    remember_many(
        db, "w", [{"body": "The office moved.", "session_ref": f"s{n}"} for n in range(300)]
    )
    remember_many(db, "w", [{"body": f"The office has room {n}."} for n in range(7)])
    hits = recall(db, "w", "office moved", k=8)
    assert len(hits) == 8
    assert hits[0].body == "The office moved."
