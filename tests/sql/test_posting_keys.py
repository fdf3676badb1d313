"""Postings are found by numbers of workspaces and words; equal numbers do no harm."""

from __future__ import annotations

import pytest

from tests.support.consistency import problems
from tests.support.lifecycle import change
from tests.support.memories import Connection, get, posted, recall, refused, remember, value


def test_a_workspace_whose_number_is_anothers_is_refused(db: Connection) -> None:
    remember(db, "a", "The heron stands in the pond.")
    db.execute("update remem.workspace set workspace_key = remem._workspace_key('b')")
    with refused("RM102", argument="workspace", got="b"):
        remember(db, "b", "The heron flies.")
    with refused("RM102", argument="workspace", got="b"):
        db.execute("select remem.create_workspace('b')")
    assert value(db, "select array_agg(workspace) from remem.workspace") == ["a"]
    assert value(db, "select count(*) from remem.memory") == 1


def test_every_workspace_has_its_own_number_and_postings(db: Connection) -> None:
    names = ["w", "W", "w ", "w/1", "ｗ", "記憶", "x" * 200]
    for name in names:
        remember(db, name, f"The heron of {name[:3]} stands in the pond.")
    assert value(db, "select count(distinct workspace_key) from remem.workspace") == len(names)
    assert value(
        db, "select bool_and(workspace_key = remem._workspace_key(workspace)) from remem.workspace"
    )
    found = db.execute(
        "select count(*) from remem.posting where word = remem._word('heron')"
        " group by workspace_key"
    ).fetchall()
    assert found == [(1,)] * len(names)


@pytest.mark.parametrize("after", ["forget", "rebuild", "purge", "reindex"])
def test_two_words_of_one_number_are_one_posting(db: Connection, after: str) -> None:
    """As if hashing had given them the same, which nobody will see by chance."""
    db.execute(
        "create or replace function remem._word(lexeme text) returns bigint"
        " language sql immutable parallel safe"
        """ return hashtextextended(left(lexeme, 3) collate "C", 0)"""
    )
    db.execute("select remem.create_workspace('w', 'simple')")
    remember(db, "w", "herons herald heroes", ref="r")
    remember(db, "w", "ducks dive", ref="other")
    assert value(db, "select count(*) from remem.posting") == 3
    if after == "forget":
        memory_id = get(db, "w", ref="r").memory_id
        change(db, "forget", "w", ref="r")
        assert value(db, "select count(*) from remem.posting_past") == 1
        change(db, "unforget", "w", memory_id=memory_id)
    elif after == "rebuild":
        db.execute("select remem.rebuild_postings('w')")
    elif after == "purge":
        change(db, "purge", "w", ref="r")
        assert value(db, "select count(*) from remem.posting") == 2
        remember(db, "w", "herons herald heroes", ref="again")
    else:
        change(db, "forget", "w", ref="r")
        db.execute("select remem.set_language('w', 'german')")
        db.execute("select remem.reindex_text('w')")
        assert value(db, "select count(*) from remem.posting_past") == 1
        return
    assert value(db, "select count(*) from remem.posting") == 3
    assert next(hit.ref for hit in recall(db, "w", "heroes")) in ("r", "again")


def test_the_index_holds_the_words_of_the_memories(db: Connection) -> None:
    remember(db, "w", "Ducks dive in the pond.")
    assert posted(db) == {"duck", "dive", "pond"}
    assert problems(db) == []
