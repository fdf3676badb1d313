"""Texts that mean something to SQL, jsonpath, LIKE or a template stay texts (case C30)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.access.doors import Door, doors

Connection = psycopg.Connection[Any]

TEXTS = [
    "'; drop schema remem cascade; --",
    "' or '1'='1",
    '" or ""="',
    "%",
    "_",
    "a%_b\\%",
    "\\",
    "\\'",
    '\\"',
    "\\u0041",
    "\\x00",
    "$$; select 1; $$",
    "$1",
    "$.*",
    "$.kind == $.kind",
    '") || (1 == 1',
    '" || "1" == "1',
    'x"}, "y": {"$gt": ""',
    "@.a == 1)",
    "/* comment */",
    "-- comment",
    "%s %L %I %1$s %%",
    "%(name)s",
    "@extschema:vector@",
    "{{7*7}} ${7*7} #{7*7}",
    "{a,b}",
    '{"a": 1}',
    "null",
    "NaN",
    "?|&*()!:",
    "a & b | !c <-> d:*",
    "line\none\ttwo\r\n",
    "<script>alert('x')</script>",
    "../../etc/passwd",
    "E'\\n'",
    "名前'; --",
]

# Arguments of remember that are closed lists: anything else is refused by name.
CLOSED = {"kind", "scope", "source_class", "on_conflict", "space"}
# Texts that no workspace name may have.
NAMES = [text for text in TEXTS if all(ord(c) > 31 for c in text)]


@pytest.fixture
def table_count(db: Connection) -> Iterator[None]:
    """The schema has as many tables after the test as before, all of them ours."""
    query = "select count(*), array_agg(oid order by oid) from pg_class where relnamespace = " + (
        "'remem'::regnamespace and relkind = 'r'"
    )
    before = db.execute(query.encode()).fetchone()
    yield
    assert db.execute(query.encode()).fetchone() == before


def door_of(conn: Connection, name: str) -> Door:
    return next(door for door in doors(conn) if door.name == name)


@pytest.mark.usefixtures("table_count")
def test_every_text_argument_of_remember_comes_back_as_it_was_given(db: Connection) -> None:
    remember = door_of(db, "remember")
    plain = [n for n, t in remember.arguments if t == "text" and n not in CLOSED | {"workspace"}]
    lists = [n for n, t in remember.arguments if t == "text[]"]
    assert {"body", "ref", "title", "topic_key", "speaker", "session_ref"} <= set(plain)
    assert {"tags", "aliases", "entities"} <= set(lists)
    kept = [n for n in (*plain, *lists) if n != "entities"]  # entities are not part of a record
    for text in TEXTS:
        values = {**dict.fromkeys(plain, text), **{name: [text, text + "'"] for name in lists}}
        remember.call(db, {"workspace": "w", "scope": "user", **values})
        row = db.execute(
            f"select {', '.join(kept)} from remem.get('w', ref => %s)".encode(), (text,)
        ).fetchone()
        assert row == tuple(values[name] for name in kept)
    assert db.execute("select remem.count('w')").fetchone() == (len(TEXTS),)


def test_a_value_outside_a_closed_list_is_refused_by_name(db: Connection) -> None:
    remember = door_of(db, "remember")
    for name in sorted(CLOSED - {"space"}):
        for text in TEXTS:
            with pytest.raises(psycopg.Error) as refused:
                remember.call(db, {"workspace": "w", "body": "x", name: text})
            detail = json.loads(refused.value.diag.message_detail or "{}")
            assert (refused.value.sqlstate, detail["argument"]) == ("RM001", name)
            assert detail["value"] == text


@pytest.mark.usefixtures("table_count")
def test_a_workspace_of_any_text_holds_its_own_memories(db: Connection) -> None:
    for text in NAMES:
        db.execute("select remem.create_workspace(%s)", (text,))
        db.execute("select remem.remember(%s, %s, ref => 'r')", (text, f"Body of {text}"))
    for text in NAMES:
        hits = db.execute(
            "select body from remem.recall(%s, 'body', options => %s)",
            (text, Jsonb({"filter": '$.ref == "r"', "kinds": ["semantic"]})),
        ).fetchall()
        assert hits == [(f"Body of {text}",)]


@pytest.mark.usefixtures("table_count")
def test_a_query_of_any_text_is_answered(db: Connection) -> None:
    db.execute("select remem.remember('w', 'There is a vault.')")
    for text in TEXTS:
        for mode in ("auto", "lexical", "vector"):
            options = Jsonb({"mode": mode})
            db.execute("select * from remem.recall('w', %s, options => %s)", (text, options))
        explained = db.execute("select remem.recall_explain('w', %s)", (text,)).fetchone()
        assert explained is not None
        assert explained[0]["query"]["text"] == text


def test_a_tag_of_any_text_is_found_by_a_filter_that_quotes_it(db: Connection) -> None:
    for text in TEXTS:
        db.execute("select remem.remember('w', %s, tags => %s)", (f"Tagged {text}", [text]))
    for text in TEXTS:
        path = f"$.tags[*] == {json.dumps(text)}"
        found = db.execute("select body from remem.list('w', %s)", (path,)).fetchall()
        assert found == [(f"Tagged {text}",)]
        assert db.execute("select remem.count('w', %s)", (path,)).fetchone() == (1,)
        hits = db.execute(
            "select body from remem.recall('w', 'tagged', options => %s)",
            (Jsonb({"filter": path}),),
        ).fetchall()
        assert hits == [(f"Tagged {text}",)]


def test_metadata_with_any_key_and_value_comes_back_and_can_be_filtered(db: Connection) -> None:
    for text in TEXTS:
        metadata = {text: text, "nested": {text: [text]}}
        db.execute(
            "select remem.remember('w', %s, ref => %s, metadata => %s)",
            (f"About {text}", text, Jsonb(metadata)),
        )
        row = db.execute("select metadata from remem.get('w', ref => %s)", (text,)).fetchone()
        assert row == (metadata,)
        path = f"$.metadata.{json.dumps(text)} == {json.dumps(text)}"
        found = db.execute("select ref from remem.list('w', %s)", (path,)).fetchall()
        assert found == [(text,)]


@pytest.mark.parametrize(
    "path",
    [
        '$.kind == "task"',
        '$ ? (@.kind == "task")',
        'lax $.kind == "task"',
        'lax $ ? (@.kind == "task")',
        '$.kind starts with "ta"',
        '$.kind like_regex "^TASK$" flag "i"',
        'exists($.tags[*] ? (@ == "x"))',
        '($.kind == "task") && !($.pinned == true)',
        '$.kind == "task" /* why not */',
        '$.kind /* x */ == /* y */ "task"',
    ],
)
def test_a_filter_of_any_form_holds_alike_in_list_count_and_recall(
    db: Connection, path: str
) -> None:
    db.execute("select remem.remember('w', 'Paint it blue.', kind => 'task', tags => '{x}')")
    db.execute("select remem.remember('w', 'Paint it red.', tags => '{y}')")
    listed = db.execute("select body from remem.list('w', %s)", (path,)).fetchall()
    counted = db.execute("select remem.count('w', %s)", (path,)).fetchone()
    hits = db.execute(
        "select body from remem.recall('w', 'paint', options => %s)", (Jsonb({"filter": path}),)
    ).fetchall()
    assert (listed, counted, hits) == ([("Paint it blue.",)], (1,), [("Paint it blue.",)])


@pytest.mark.parametrize(
    "path",
    [
        "",
        " ",
        "$.a ==",
        "true",
        "1",
        "$",
        "$.kind == $name",
        '$.kind == "task") || (1 == 1',
        '$.kind == "task"; drop schema remem',
        '$.kind like_regex "("',
        "$.kind.double() > 1",
        "$.a.b.c ? (@ > ",
        "'",
        "\\",
        'strict $.kind == "task"',
        'strict $ ? (@.kind == "task")',
    ],
)
def test_a_filter_that_is_no_filter_is_refused_or_matches_what_it_says(
    db: Connection, path: str
) -> None:
    db.execute("select remem.remember('w', 'Paint it blue.', kind => 'task')")
    told = []
    for query in (
        "select count(*) from remem.list('w', %s)",
        "select remem.count('w', %s)",
        "select count(*) from remem.recall('w', 'paint', options => "
        "jsonb_build_object('filter', %s::text))",
    ):
        try:
            told.append(db.execute(query.encode(), (path,)).fetchone())
        except psycopg.Error as error:
            detail = json.loads(error.diag.message_detail or "{}")
            told.append((error.sqlstate, detail.get("argument")))  # type: ignore[arg-type]
    assert told[0] == told[1] == told[2]
    # Either a typed refusal, or a path that exists in every memory ("$") or in none.
    assert told[0] in [("RM001", "filter"), (0,), (1,)]
    if path not in (" ", "true", "1", "$", "$.kind.double() > 1"):
        assert told[0] == ("RM001", "filter")


def test_an_option_of_any_name_is_unknown_by_that_name(db: Connection) -> None:
    db.execute("select remem.remember('w', 'x')")
    for text in TEXTS:
        with pytest.raises(psycopg.Error) as refused:
            db.execute("select * from remem.recall('w', 'x', options => %s)", (Jsonb({text: 1}),))
        detail = json.loads(refused.value.diag.message_detail or "{}")
        assert (refused.value.sqlstate, detail["option"]) == ("RM002", text)
        with pytest.raises(psycopg.Error) as refused:
            db.execute(
                "select * from remem.recall('w', 'x', options => %s)",
                (Jsonb({"weights": {text: 1}}),),
            )
        detail = json.loads(refused.value.diag.message_detail or "{}")
        assert (refused.value.sqlstate, detail["option"]) == ("RM002", f"weights.{text}")


def test_an_item_key_of_any_name_is_unknown_by_that_name(db: Connection) -> None:
    for text in TEXTS:
        with pytest.raises(psycopg.Error) as refused:
            db.execute(
                "select remem.remember_many('w', %s)", (Jsonb([{"body": "x"}, {text: "y"}]),)
            )
        detail = json.loads(refused.value.diag.message_detail or "{}")
        assert (refused.value.sqlstate, detail["option"], detail["item"]) == ("RM002", text, 2)


def test_an_option_value_of_any_text_is_refused_by_name(db: Connection) -> None:
    db.execute("select remem.remember('w', 'x')")
    for text in TEXTS:
        for option, value in (
            ("mode", text),
            ("fusion", text),
            ("arms", [text]),
            ("kinds", [text]),
            ("scopes", [text]),
            ("min_relevance", text),
            ("weights", text),
        ):
            with pytest.raises(psycopg.Error) as refused:
                db.execute(
                    "select * from remem.recall('w', 'x', options => %s)",
                    (Jsonb({option: value}),),
                )
            detail = json.loads(refused.value.diag.message_detail or "{}")
            assert (refused.value.sqlstate, detail["argument"]) == ("RM001", option)


@pytest.mark.usefixtures("table_count")
def test_administration_takes_any_text_for_a_name_and_for_nothing_else(db: Connection) -> None:
    told = set()
    for text in TEXTS:
        for query in (
            "select remem.grant_access(%s)",
            "select remem.configure(%s, 'x')",
            "select remem.configure('tenant_mode', %s)",
            "select remem.create_workspace('w2', %s)",
            "select remem.activate_space(%s)",
        ):
            with pytest.raises(psycopg.Error) as refused:
                db.execute(query.encode(), (text,))
            told.add((query.split(".")[1].split("(")[0], refused.value.sqlstate))
        assert db.execute("select remem.revoke_access(%s)", (text,)).fetchone() == (False,)
    assert told == {
        ("grant_access", "RM101"),
        ("configure", "RM002"),
        ("configure", "RM001"),
        ("create_workspace", "RM001"),
        ("activate_space", "RM202"),
    }


def test_a_space_may_be_called_anything(db: Connection) -> None:
    for text in TEXTS:
        descriptor = {"name": text, "backend": text, "asset": text, "dimensions": 2}
        named = db.execute(
            "select name, state from remem.register_space(%s)", (Jsonb(descriptor),)
        ).fetchone()
        assert named == (text, "building")
        activated = db.execute(
            "select name, state from remem.activate_space(%s)", (text,)
        ).fetchone()
        assert activated == (text, "active")
    spaces = db.execute("select count(*) from remem.embedding_space").fetchone()
    assert spaces == (1 + len(TEXTS),)


def test_the_hash_embedding_takes_any_text(db: Connection) -> None:
    for text in TEXTS:
        found = db.execute("select cardinality(remem.hash_embed(%s))", (text,)).fetchone()
        assert found == (384,)
