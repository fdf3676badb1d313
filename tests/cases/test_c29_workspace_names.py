"""C29: workspaces with look-alike names do not meet, in reading, changing, dropping or jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import Server
from tests.support.consistency import problems
from tests.support.databases import filled, owner
from tests.support.memories import (
    Connection,
    bodies,
    get,
    recall,
    refused,
    remember,
    value,
)

NAMES = [
    "a", "ab", "a_b", "a%", "A", "a/b", "a b", " a", "a ", "á", "a\u0301", "A%",
    "123e4567-e89b-12d3-a456-426614174000", "字" * 66, "字" * 65, "'", '"', "\\", "$.workspace",
    "x" * 200, "x" * 199, "null", "*",
]  # fmt: skip


@pytest.fixture(scope="module")
def tenants_name(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def tenants(server: Server, tenants_name: str) -> Iterator[Connection]:
    with owner(server, tenants_name) as conn:
        yield conn


def fill(db: Connection) -> None:
    for number, name in enumerate(NAMES):
        remember(db, name, f"The secret of tenant x{number}x.", ref="r", session_ref="s")


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_workspace_sees_its_own_memories_only(tenants: Connection, number: int) -> None:
    name, own = NAMES[number], [f"The secret of tenant x{number}x."]
    for mode in ("auto", "lexical", "vector", "retrieval_only"):
        assert bodies(recall(tenants, name, "secret of the tenant", k=100, mode=mode)) == own
        filtered = recall(
            tenants, name, "secret of the tenant", k=100, mode=mode, kinds=["semantic"]
        )
        assert bodies(filtered) == own
    assert get(tenants, name, ref="r").body == own[0]
    assert value(tenants, "select remem.count(%s)", [name]) == 1
    assert value(tenants, "select remem.count(%s, 'exists($.kind)')", [name]) == 1
    listed = tenants.execute("select body from remem.list(%s)", [name]).fetchall()
    assert listed == [(own[0],)]


@pytest.mark.parametrize(
    "name", ["", "x" * 201, "字" * 67, "a\tb", "a\nb", "a\x1fb", "a\x7fb", "a\u0085b", None]
)
@pytest.mark.parametrize(
    "call",
    [
        "select remem.remember(%s, 'x')",
        "select remem.remember_many(%s, '[]')",
        "select * from remem.recall(%s, 'x')",
        "select remem.recall_explain(%s, 'x')",
        "select * from remem.get(%s, ref => 'x')",
        "select * from remem.list(%s)",
        "select remem.count(%s)",
        "select remem.create_workspace(%s)",
    ],
)
def test_a_name_that_is_empty_too_long_or_unprintable_is_refused_by_name(
    file_db: Connection, name: str | None, call: str
) -> None:
    with refused("RM001", argument="workspace"):
        file_db.execute(call, [name])
    assert value(file_db, "select count(*) from remem.workspace") == 0


def left(db: Connection) -> dict[str, list[str]]:
    """Per workspace the bodies that recall finds."""
    return {
        name: bodies(recall(db, name, "secret of the tenant", k=100, mode="lexical"))
        for name in NAMES
    }


CHANGES = {
    "forget": "select remem.forget(%s, ref => 'r')",
    "purge": "select remem.purge(%s, ref => 'r')",
    "forget_where": "select remem.forget_where(%s, '1 == 1', preview => false)",
    "drop_workspace": "select remem.drop_workspace(%s)",
    "correct": "select remem.correct(%s, 'Something else.', ref => 'r')",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_one_leaves_all_others_as_they_were(db: Connection, change: str) -> None:
    fill(db)
    before = left(db)
    for victim in ("a", "a%", "字" * 66, "null"):
        db.execute(CHANGES[change].encode(), [victim])
        before[victim] = []
        assert left(db) == before
    assert problems(db) == []


def test_a_language_of_one_is_nobody_elses(db: Connection) -> None:
    fill(db)
    db.execute("select remem.set_language('a%', 'german')")
    db.execute("select remem.reindex_text('a%')")
    rows = db.execute("select workspace, language, text_index from remem.list_workspaces()")
    found = {name: (language, state) for name, language, state in rows.fetchall()}
    assert found == {name: ("german" if name == "a%" else "english", "current") for name in NAMES}


def test_a_grant_and_the_tenant_setting_open_that_one_name(
    db: Connection, make_role: Any, connect: Any
) -> None:
    fill(db)
    role = make_role("reader")
    reader = connect(role)
    for name in NAMES:
        db.execute("select remem.grant_access(%s, %s, 'read')", [role, name])
        opened = []
        for other in NAMES:
            try:
                reader.execute("select remem.count(%s)", [other])
                opened.append(other)
            except psycopg.Error as error:
                assert error.sqlstate == "RM301"
        assert opened == [name]
        db.execute("select remem.revoke_access(%s, %s)", [role, name])
        db.execute("select set_config('remem.workspace', %s, false)", [name])
        assert [value(db, "select remem.count(%s)", [name])] == [1]
        for other in NAMES:
            if other != name:
                with refused("RM301"):
                    db.execute("select remem.count(%s)", [other])
        db.execute("select set_config('remem.workspace', '', false)")
