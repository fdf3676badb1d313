"""Conversations: who comes after whom, and what the session counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.support.consistency import problems
from tests.support.memories import Connection, get, posted, remember, remember_many, value


def turns(db: Connection, session: str = "s", workspace: str = "w") -> list[tuple[int, str]]:
    """Turn number and body of the session's current memories."""
    return db.execute(
        "select m.turn_no, m.body from remem.memory m"
        " join remem.session s using (workspace, session_no)"
        " where m.workspace = %s and s.session_ref = %s and m.superseded_at is null"
        " order by m.turn_no, m.memory_no",
        [workspace, session],
    ).fetchall()


def session(db: Connection, ref: str = "s") -> Any:
    return db.execute(
        "select turns, last_turn, doc_len, first_at, last_at from remem.session"
        " where session_ref = %s",
        [ref],
    ).fetchone()


def test_turns_are_numbered_from_one_in_the_order_they_are_said(db: Connection) -> None:
    for body in ("hello", "good morning", "how are you"):
        remember(db, "w", body, session_ref="s")
    assert turns(db) == [(1, "hello"), (2, "good morning"), (3, "how are you")]


def test_turns_of_a_batch_are_numbered_in_its_order(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"turn {n}", "session_ref": "s"} for n in range(30)])
    remember_many(db, "w", [{"body": f"turn {n}", "session_ref": "s"} for n in range(30, 40)])
    assert turns(db) == [(n + 1, f"turn {n}") for n in range(40)]


def test_the_same_words_said_twice_are_two_turns(db: Connection) -> None:
    refs = remember_many(db, "w", [{"body": b, "session_ref": "s"} for b in ("yes", "no", "yes")])
    assert [ref.outcome for ref in refs] == ["created"] * 3
    remember(db, "w", "yes", session_ref="s")
    assert turns(db) == [(1, "yes"), (2, "no"), (3, "yes"), (4, "yes")]


def test_the_sessions_of_one_batch_count_by_themselves(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"turn {n}", "session_ref": "ab"[n % 2]} for n in range(6)])
    assert turns(db, "a") == [(1, "turn 0"), (2, "turn 2"), (3, "turn 4")]
    assert turns(db, "b") == [(1, "turn 1"), (2, "turn 3"), (3, "turn 5")]


def test_a_session_of_the_same_name_in_another_workspace_is_another(db: Connection) -> None:
    remember(db, "w", "here", session_ref="s")
    remember(db, "v", "there", session_ref="s")
    assert turns(db) == [(1, "here")]
    assert turns(db, workspace="v") == [(1, "there")]


def test_a_given_turn_number_is_kept_and_the_next_one_follows_it(db: Connection) -> None:
    remember(db, "w", "late", session_ref="s", turn_no=7)
    remember(db, "w", "later", session_ref="s")
    remember(db, "w", "early", session_ref="s", turn_no=2)
    remember(db, "w", "last", session_ref="s")
    assert turns(db) == [(2, "early"), (7, "late"), (8, "later"), (9, "last")]


def test_given_and_missing_turn_numbers_mix_in_a_batch(db: Connection) -> None:
    items: list[dict[str, Any]] = [
        {"body": "a"},
        {"body": "b", "turn_no": 5},
        {"body": "c"},
        {"body": "d", "turn_no": 3},
        {"body": "e"},
    ]
    remember_many(db, "w", [{**item, "session_ref": "s"} for item in items])
    assert turns(db) == [(1, "a"), (3, "d"), (5, "b"), (6, "c"), (7, "e")]


def test_a_memory_that_is_said_again_takes_no_turn(db: Connection) -> None:
    remember(db, "w", "one", session_ref="s", ref="1")
    assert remember(db, "w", "one", session_ref="s", ref="1").outcome == "unchanged"
    remember(db, "w", "two", session_ref="s")
    assert turns(db) == [(1, "one"), (2, "two")]


def test_a_new_version_of_a_turn_stays_in_its_place(db: Connection) -> None:
    remember_many(
        db, "w", [{"body": f"turn {n}", "session_ref": "s", "ref": f"{n}"} for n in range(1, 5)]
    )
    corrected = remember(db, "w", "turn 2, corrected", session_ref="s", ref="2")
    assert corrected.outcome == "new_version"
    assert turns(db) == [(1, "turn 1"), (2, "turn 2, corrected"), (3, "turn 3"), (4, "turn 4")]


def test_a_ref_said_twice_in_a_batch_keeps_the_order_of_the_conversation(db: Connection) -> None:
    items = [("a", "first"), ("b", "second"), ("a", "first, corrected"), ("c", "third")]
    remember_many(db, "w", [{"ref": ref, "body": body, "session_ref": "s"} for ref, body in items])
    assert turns(db) == [(1, "first, corrected"), (2, "second"), (3, "third")]


def test_a_turn_number_can_be_filtered_and_read_back(db: Connection) -> None:
    refs = remember_many(db, "w", [{"body": b, "session_ref": "s"} for b in ("one", "two")])
    assert get(db, "w", memory_id=refs[1].memory_id).turn_no == 2
    assert value(db, "select remem.count('w', '$.turn_no == 2')") == 1


def test_a_session_counts_its_turns_and_their_words(db: Connection) -> None:
    remember(db, "w", "three short words", session_ref="s")
    remember(db, "w", "two more", session_ref="s")
    assert session(db)[:3] == (2, 2, value(db, "select sum(doc_len) from remem.memory"))


def test_a_session_knows_when_it_began_and_ended(db: Connection) -> None:
    times = [datetime(2026, 3, day, tzinfo=UTC) for day in (2, 1, 3)]
    for number, time in enumerate(times):
        remember(db, "w", f"turn {number}", session_ref="s", occurred_at=time)
    remember(db, "w", "some time", session_ref="s")
    assert session(db)[3:] == (times[1], times[2])


def test_a_superseded_turn_is_not_counted(db: Connection) -> None:
    remember(db, "w", "a long first version of it", session_ref="s", ref="1")
    remember(db, "w", "shorter", session_ref="s", ref="1")
    assert session(db)[0] == 1
    assert problems(db) == []


def test_a_memory_that_moves_to_another_session_is_counted_there(db: Connection) -> None:
    remember(db, "w", "here", session_ref="a", ref="1")
    remember(db, "w", "here", session_ref="b", ref="1")
    remember(db, "w", "here", ref="1")
    assert (session(db, "a")[0], session(db, "b")[0]) == (0, 0)
    assert problems(db) == []


def test_the_speaker_is_part_of_what_is_searched(db: Connection) -> None:
    remember(db, "w", "I prefer tea.", session_ref="s", speaker="Wilhelmina")
    assert "wilhelmina" in posted(db)
    assert problems(db) == []
