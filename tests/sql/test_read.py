"""get, list and count: reading memories without searching."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.rows import namedtuple_row

from tests.support.memories import (
    Connection,
    bodies,
    get,
    refused,
    remember,
    remember_many,
    value,
)


def listed(db: Connection, workspace: str = "w", **arguments: Any) -> list[Any]:
    names = {"limit": '"limit"', "filter": "filter", "after": "after"}
    parts = "".join(f", {names[name]} => %s" for name in arguments)
    with db.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(f"select * from remem.list(%s{parts})", [workspace, *arguments.values()])
        return cursor.fetchall()


def count(db: Connection, filter: str | None = None, workspace: str = "w") -> int:
    return int(value(db, "select remem.count(%s, %s)", [workspace, filter]))


@pytest.fixture
def team(db: Connection) -> Connection:
    """Six memories of several kinds in workspace w, two in another."""
    remember_many(
        db,
        "w",
        [
            {"body": "a", "kind": "decision", "tags": ["ops", "db"], "importance": 0.9},
            {"body": "b", "kind": "task", "unresolved": True, "metadata": {"team": "core"}},
            {"body": "c", "kind": "task", "session_ref": "s", "speaker": "Ana"},
            {"body": "d", "scope": "project", "scope_ref": "billing", "pinned": True},
            {"body": "e", "occurred_at": "2026-03-01T10:00:00Z", "metadata": {"n": 41}},
            {"body": "f", "topic_key": "retries", "subject": "worker", "attribute": "limit"},
        ],
    )
    remember_many(db, "other", [{"body": "x", "kind": "task"}, {"body": "y"}])
    return db


def test_get_needs_an_id_or_a_ref_and_not_both(db: Connection) -> None:
    for arguments in ([None, None], [uuid4(), "r"]):
        with refused("RM001", argument="memory_id, ref"):
            db.execute("select * from remem.get('w', %s, %s)", arguments)


def test_get_of_an_unknown_workspace_ref_or_id_is_no_row(db: Connection) -> None:
    remember(db, "w", "x", ref="r")
    assert get(db, "nowhere", ref="r") is None
    assert get(db, "w", ref="R") is None
    assert get(db, "w", memory_id=uuid4()) is None


def test_get_does_not_cross_workspaces(db: Connection) -> None:
    ref = remember(db, "w", "x")
    assert get(db, "v", memory_id=ref.memory_id) is None


def test_list_is_newest_first(db: Connection) -> None:
    for body in "abc":
        remember(db, "w", body)
    assert bodies(listed(db)) == ["c", "b", "a"]


def test_list_shows_the_current_versions_only(db: Connection) -> None:
    remember(db, "w", "old", ref="r")
    remember(db, "w", "new", ref="r")
    assert bodies(listed(db)) == ["new"]


def test_list_returns_what_get_returns(team: Connection) -> None:
    for memory in listed(team):
        assert get(team, "w", memory_id=memory.memory_id) == memory


def test_pages_of_a_list_have_every_memory_once(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"{n:03d}"} for n in range(25)])
    seen: list[str] = []
    after: UUID | None = None
    while page := listed(db, after=after, limit=7):
        seen += bodies(page)
        after = page[-1].memory_id
    assert seen == [f"{n:03d}" for n in reversed(range(25))]


def test_a_page_can_start_after_a_memory_that_was_superseded_meanwhile(db: Connection) -> None:
    remember(db, "w", "a")
    old = remember(db, "w", "b", ref="b")
    remember(db, "w", "b2", ref="b")
    assert bodies(listed(db, after=old.memory_id)) == ["a"]


def test_a_list_after_an_unknown_memory_is_refused(db: Connection) -> None:
    foreign = remember(db, "v", "x").memory_id
    for unknown in (uuid4(), foreign):
        with refused("RM101", argument="after"):
            listed(db, after=unknown)


@pytest.mark.parametrize("limit", [0, -1, 1001, None])
def test_a_limit_outside_its_bounds_is_refused(db: Connection, limit: int | None) -> None:
    with refused("RM001", argument="limit", limit=1000):
        listed(db, limit=limit)


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ('$.kind == "task"', "bc"),
        ('$.kind == "task" || $.kind == "decision"', "abc"),
        ('$.tags[*] == "db"', "a"),
        ("$.importance > 0.8", "a"),
        ("$.unresolved == true", "b"),
        ('$.metadata.team == "core"', "b"),
        ("$.metadata.n >= 41 && $.metadata.n < 42", "e"),
        ('$.session_ref == "s" && $.speaker == "Ana"', "c"),
        ("$.turn_no == 1", "c"),
        ('$.scope == "project" && $.scope_ref == "billing"', "d"),
        ("$.pinned == true", "d"),
        ('$.occurred_at >= "2026-03-01"', "e"),
        ('$.subject == "worker" && $.attribute == "limit"', "f"),
        ('$.topic_key starts with "ret"', "f"),
        ('$.source_class == "unspecified" && !($.kind == "task")', "adef"),
        ("exists($.metadata)", "be"),
        ('$.metadata ? (@.team == "core")', "b"),
        ('$ ? (@.kind == "task" && @.unresolved == true)', "b"),
        ('$.tags[*] ? (@ like_regex "^o")', "a"),
        ('$.metadata.team == "nobody"', ""),
        ("true", "abcdef"),
        ('$.workspace == "other"', ""),
    ],
)
def test_a_filter_lists_and_counts_what_it_says(team: Connection, filter: str, found: str) -> None:
    assert sorted(bodies(listed(team, filter=filter))) == list(found)
    assert count(team, filter) == len(found)


@pytest.mark.parametrize(
    "filter",
    [
        "",
        "kind = 'task'",
        "$.kind ==",
        '$.kind like_regex "("',
        "$.kind == $unknown",
        "$.kind ? (@ == $unknown)",
        '$.occurred_at.datetime() < "2026-03-02".datetime()',
        'strict $.kind == "task"',
        "(" * 20000,
        "'; drop table remem.memory; --",
    ],
    ids=lambda text: text[:30],
)
def test_a_filter_that_cannot_be_used_is_refused(team: Connection, filter: str) -> None:
    with refused("RM001", argument="filter") as refusal:
        listed(team, filter=filter)
    assert refusal.detail["problem"]
    with refused("RM001", argument="filter"):
        count(team, filter)


def test_a_variable_in_a_string_is_only_text(db: Connection) -> None:
    remember(db, "w", "x", metadata={"price": '$"five"', "note": "a$"})
    assert count(db, r'$.metadata.price == "$\"five\""') == 1
    assert count(db, '$.metadata.note == "a$"') == 1


def test_count_without_a_filter_counts_current_memories(team: Connection) -> None:
    assert count(team) == 6
    assert count(team, workspace="other") == 2
    remember(team, "w", "g", ref="g")
    remember(team, "w", "h", ref="g")
    assert count(team) == 7
    assert count(team, "true") == 7


def test_an_unknown_workspace_has_nothing(db: Connection) -> None:
    assert count(db, workspace="nowhere") == 0
    assert count(db, "true", workspace="nowhere") == 0
    assert listed(db, "nowhere") == []


def test_reading_works_in_a_read_only_transaction(team: Connection) -> None:
    with team.transaction():
        team.execute("set transaction read only")
        assert count(team) == 6
        assert len(listed(team, filter='$.kind == "task"')) == 2
        assert get(team, "w", memory_id=listed(team)[0].memory_id) is not None


@pytest.mark.parametrize("workspace", ["", None, "a\x01b"])
def test_reading_refuses_a_name_that_no_workspace_can_have(
    db: Connection, workspace: str | None
) -> None:
    for call in ("get(%s, null, 'r')", "list(%s)", "count(%s)"):
        with refused("RM001", argument="workspace"):
            db.execute(f"select * from remem.{call}", [workspace])
