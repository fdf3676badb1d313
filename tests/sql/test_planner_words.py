"""Continuity phrases and generic words: rows per language, for a workspace or for all."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection, refused
from tests.support.planner import call, plan, put_topic, titles

W = "w"


def heard(conn: Connection, prompt: str, workspace: str = W) -> list[str]:
    return list(plan(conn, workspace, prompt)["signals"]["continuity"])


@pytest.mark.covers("RP5")
def test_the_documented_phrases_are_there_in_english_and_others_beside(db: Connection) -> None:
    rows = call(db, "list_continuity_phrases", workspace=W)
    english = {row[2] for row in rows if row[1] == "english"}
    assert english == {
        "last time", "we decided", "remember", "continue", "again", "we agreed", "resume",
        "pick up where", "the thing we",
    }  # fmt: skip
    assert {row[1] for row in rows} >= {"english", "german", "french", "spanish"}
    assert {row[0] for row in rows} == {None}


def test_every_phrase_that_ships_is_in_the_form_that_it_is_compared_in(db: Connection) -> None:
    for table, column in (("continuity_phrase", "phrase"), ("generic_word", "word")):
        wrong = db.execute(
            f"select {column} from remem.{table} where {column} <> "
            f"btrim(remem._phrase_words(remem._fold({column})))".encode()
        ).fetchall()
        assert wrong == []


def test_a_workspace_has_phrases_of_its_own(db: Connection) -> None:
    put = {"language": "english", "phrase": "  Where were WE?"}
    call(db, "put_continuity_phrase", workspace=W, **put)
    call(db, "put_continuity_phrase", workspace=W, **put)
    assert heard(db, "so, where were we") == ["where were we"]
    assert heard(db, "so, where were we", "other") == []
    assert call(db, "drop_continuity_phrase", workspace=W, **put) == [(True,)]
    assert call(db, "drop_continuity_phrase", workspace=W, **put) == [(False,)]
    assert heard(db, "so, where were we") == []


def test_phrases_of_all_workspaces_can_be_changed(db: Connection) -> None:
    call(db, "put_continuity_phrase", workspace=None, language="italian", phrase="l'altra volta")
    assert heard(db, "come l\u2019altra volta") == ["l altra volta"]
    call(db, "drop_continuity_phrase", workspace=None, language="english", phrase="again")
    assert heard(db, "again") == []


@pytest.mark.covers("RP6")
def test_a_word_declared_generic_no_longer_qualifies(db: Connection) -> None:
    put_topic(db, W, "Team lunch", aliases=["team"])
    put_topic(db, "other", "Team lunch")
    assert titles(plan(db, W, "the team", semantic=False)) == ["Team lunch"]
    call(db, "put_generic_word", workspace=W, language="english", word="Team")
    assert plan(db, W, "the team")["stage"] == "none"
    # One of one distinctive word now, and still one of two elsewhere.
    assert plan(db, W, "lunch", semantic=False)["confidence"] == 0.76
    assert plan(db, "other", "lunch", semantic=False)["confidence"] == 0.38
    assert titles(plan(db, W, "team lunch", semantic=False)) == ["Team lunch"]
    drop = {"workspace": W, "language": "english", "word": "team"}
    assert call(db, "drop_generic_word", **drop) == [(True,)]
    assert titles(plan(db, W, "the team", semantic=False)) == ["Team lunch"]


@pytest.mark.covers("RP6")
def test_a_word_generic_everywhere(db: Connection) -> None:
    put_topic(db, W, "Lunch menu")
    put_topic(db, "other", "Lunch room")
    call(db, "put_generic_word", workspace=None, language="english", word="lunch")
    assert plan(db, W, "lunch")["stage"] == plan(db, "other", "lunch")["stage"] == "none"
    call(db, "drop_generic_word", workspace=None, language="english", word="project")
    put_topic(db, W, "Project Atlas")
    assert plan(db, W, "atlas", semantic=False)["confidence"] == 0.38


def test_generic_words_of_scripts_without_spaces(db: Connection) -> None:
    put_topic(db, W, "\u652f\u4ed8\u9879\u76ee")
    call(db, "put_generic_word", workspace=W, language="chinese", word="\u9879\u76ee")
    assert plan(db, W, "\u8fd9\u4e2a\u9879\u76ee", semantic=False)["confidence"] == 0
    assert plan(db, W, "\u652f\u4ed8", semantic=False)["confidence"] == 0.38


@pytest.mark.covers("RP6")
def test_the_four_routing_words_are_generic(db: Connection) -> None:
    words = {row[2] for row in call(db, "list_generic_words", workspace=W)}
    assert {"project", "service", "work", "migration"} <= words


@pytest.mark.parametrize(
    ("code", "function", "argument", "given"),
    [
        ("RM001", "put_continuity_phrase", "phrase", {"phrase": "?!"}),
        ("RM003", "put_continuity_phrase", "phrase", {"phrase": "x" * 301}),
        ("RM001", "put_generic_word", "word", {"word": "two words"}),
        ("RM001", "put_generic_word", "word", {"word": None}),
        ("RM001", "put_generic_word", "language", {"word": "x", "language": ""}),
    ],
)
def test_what_cannot_be_a_word_is_refused_by_name(
    db: Connection, code: str, function: str, argument: str, given: dict[str, str | None]
) -> None:
    with refused(code, argument=argument):
        call(db, function, **{"workspace": W, "language": "english", **given})
