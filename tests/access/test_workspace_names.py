"""Names of workspaces that resemble each other, and names that are refused (case C29)."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.access.doors import doors

Connection = psycopg.Connection[Any]

CJK = "記憶の作業場所" * 9 + "記憶の" + "ab"
# Every one is a prefix, a pattern, a path, a spelling or a quotation of another.
NAMES = [
    "a",
    "ab",
    "a_b",
    "a%",
    "A",
    "a/b",
    "a/",
    "/a",
    "../a",
    "a.b",
    "a*",
    "a ",
    " a",
    "a'",
    'a"',
    "a\\",
    "a\\_b",
    "a$1",
    "a;--",
    "á",
    "a\u0301",  # the same to the eye, other bytes
    "ａ",
    "9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
    "9c5b94b135ad49bbb1188e8fc24abf80",
    CJK,
    CJK[:-1] + "c",
    "{}",
    "null",
    "\U0001f9e0",
]


def secret(number: int) -> str:
    return f"The vault opens with number {number}."


@pytest.fixture
def crowded(db: Connection) -> Connection:
    """One memory in each workspace, under the same ref, with nearly the same words."""
    for number, name in enumerate(NAMES):
        written = db.execute(
            "select outcome from remem.remember(%s, %s, ref => 'vault', tags => %s)",
            (name, secret(number), ["a", "%"]),
        )
        assert written.fetchone() == ("created",), name
    return db


def column(conn: Connection, query: str, *values: Any) -> list[Any]:
    return [row[0] for row in conn.execute(query.encode(), values).fetchall()]


def test_the_names_are_as_long_as_they_may_be_and_all_different() -> None:
    assert len(CJK.encode()) == 200
    assert len(set(NAMES)) == len(NAMES)


def test_reading_by_ref_finds_the_memory_of_that_workspace_only(crowded: Connection) -> None:
    for number, name in enumerate(NAMES):
        found = crowded.execute(
            "select workspace, body from remem.get(%s, ref => 'vault')", (name,)
        ).fetchall()
        assert found == [(name, secret(number))]


def test_listing_and_counting_see_one_memory_each(crowded: Connection) -> None:
    for number, name in enumerate(NAMES):
        assert column(crowded, "select body from remem.list(%s)", name) == [secret(number)]
        assert column(crowded, "select remem.count(%s)", name) == [1]
        assert column(crowded, "select remem.count(%s, '$.kind == \"semantic\"')", name) == [1]


@pytest.mark.parametrize(
    "options", ["{}", '{"filter": "$.kind == \\"semantic\\""}', '{"mode": "vector"}']
)
def test_recall_finds_the_memory_of_that_workspace_only(crowded: Connection, options: str) -> None:
    for number, name in enumerate(NAMES):
        hits = column(
            crowded,
            "select body from remem.recall(%s, 'which number opens the vault?', options => %s)",
            name,
            options,
        )
        assert hits == [secret(number)], name


def test_recall_explain_tells_of_one_memory_and_one_vector(crowded: Connection) -> None:
    for name in NAMES:
        (told,) = column(crowded, "select remem.recall_explain(%s, 'vault')", name)
        assert (told["memories"], told["vectors"], len(told["hits"])) == (1, 1, 1), name


def test_the_id_of_one_workspace_is_unknown_in_every_other(crowded: Connection) -> None:
    ids = {n: column(crowded, "select memory_id from remem.list(%s)", n)[0] for n in NAMES}
    for name in NAMES[:8]:
        for owner, memory_id in ids.items():
            found = column(crowded, "select ref from remem.get(%s, %s)", name, memory_id)
            assert found == (["vault"] if owner == name else [])


def test_a_new_version_in_one_workspace_leaves_the_others_alone(crowded: Connection) -> None:
    written = column(crowded, "select outcome from remem.remember('a', 'Changed.', ref => 'vault')")
    assert written == ["new_version"]
    for number, name in enumerate(NAMES[1:], 1):
        found = column(crowded, "select body from remem.get(%s, ref => 'vault')", name)
        assert found == [secret(number)]


def test_an_equal_text_in_another_workspace_is_no_duplicate(crowded: Connection) -> None:
    for name in ("a", "ab", "A"):
        first = column(crowded, "select outcome from remem.remember(%s, 'Equal text.')", name)
        again = column(crowded, "select outcome from remem.remember(%s, 'Equal text.')", name)
        assert (first, again) == (["created"], ["merged"])


def test_a_session_of_the_same_name_is_another_conversation(crowded: Connection) -> None:
    for name in ("a", "ab", "A"):
        for _ in range(2):
            crowded.execute(
                "select remem.remember(%s, %s, session_ref => 'daily')", (name, f"Said in {name}.")
            )
        turns = column(
            crowded, "select turn_no from remem.list(%s, '$.session_ref == \"daily\"')", name
        )
        assert turns == [2, 1]


def test_a_grant_in_one_workspace_opens_none_that_resembles_it(
    crowded: Connection, make_role: Any, connect: Any
) -> None:
    role = make_role("reader")
    crowded.execute("select remem.grant_access(%s, 'a%%')", (role,))
    reader = connect(role)
    opened = []
    for name in NAMES:
        try:
            reader.execute("select remem.count(%s)", (name,))
            opened.append(name)
        except psycopg.Error as error:
            assert error.sqlstate == "RM301"
    assert opened == ["a%"]


IMPOSSIBLE = {
    "empty": "",
    "too long": "x" * 201,
    "too long in bytes": CJK + "c",
    "a line break": "a\nb",
    "a tab": "a\t",
    "the first control character": "\u0001",
    "the last control character of ASCII": "a\u001f",
    "delete": "a\u007f",
    "a control character beyond ASCII": "a\u0085b",
    "null": None,
}


@pytest.mark.parametrize("problem", IMPOSSIBLE)
def test_an_impossible_name_is_refused_by_every_function(db: Connection, problem: str) -> None:
    name = IMPOSSIBLE[problem]
    optional = {"activate_space", "current_space", "grant_access", "put_route", "revoke_access"}
    optional |= {"put_continuity_phrase", "drop_continuity_phrase", "put_plan_setting"}
    optional |= {"put_generic_word", "drop_generic_word", "list_spaces", "drop_space", "doctor"}
    optional |= {"list_grants"}
    told: dict[str, Any] = {}
    for door in doors(db):
        if "workspace" not in dict(door.arguments) or (name is None and door.name in optional):
            continue
        with pytest.raises(psycopg.Error) as refused:
            door.call(db, {**door.working(), "workspace": name})
        detail = json.loads(refused.value.diag.message_detail or "{}")
        told[door.name] = (refused.value.sqlstate, detail.get("argument"), detail.get("limit"))
    assert len(told) >= 8
    assert told == dict.fromkeys(told, ("RM001", "workspace", 200))


def test_nothing_is_left_of_a_refused_name(db: Connection) -> None:
    for name in IMPOSSIBLE.values():
        with pytest.raises(psycopg.Error):
            db.execute("select remem.remember(%s, 'x')", (name,))
    assert column(db, "select count(*) from remem.workspace") == [0]
    assert column(db, "select count(*) from remem.memory") == [0]


def test_a_nul_in_the_name_never_reaches_the_server(db: Connection) -> None:
    from remem_pg import Remem, TextRefused

    with pytest.raises(TextRefused) as refused:
        Remem(db, workspace="a\0b", embedding=None).count()
    assert refused.value.detail["argument"] == "workspace"
