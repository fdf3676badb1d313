"""A condition means what Postgres makes of it: compiled to jsonpath it passes the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remem_pg.filters.where import compile_where
from tests.server import Server
from tests.support.conditions import CONDITIONS, ROWS, Condition, Row, quoted
from tests.support.databases import filled, owner
from tests.support.memories import Connection, remember_many, value


def item(number: int, row: Row) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for name in ("word", "size", "done"):
        if row[name] is not None or number % 2:  # missing, or null: the same
            metadata[name] = row[name]
    if row["deep"] is not None:
        metadata["deep"] = {"a key": {"n": row["deep"]}}
    fields = {name: row[name] for name in ("title", "subject", "importance", "confidence")}
    for name in ("occurred_at", "valid_from"):
        fields[name] = row[name] and row[name].isoformat()
    return {
        "body": f"row {number}", "ref": str(number), "pinned": row["pinned"], "metadata": metadata,
        "tags": row["tags"] or None, **fields,
    }  # fmt: skip


def fill(db: Connection) -> None:
    remember_many(db, "w", [item(n, row) for n, row in enumerate(ROWS)])
    # The same rows as columns, for Postgres to judge the condition as it is written.
    document = json.dumps([{"no": n, **row} for n, row in enumerate(ROWS)], default=str)
    db.execute('create type inner_part as ("n" numeric)')
    db.execute('create type deep_part as ("a key" inner_part)')
    db.execute(
        """
        create table plain as select r.no, r.title collate "C", r.subject collate "C",
          r.importance, r.confidence, r.pinned, r.occurred_at, r.valid_from, r.tags
        from json_to_recordset(%s) r (no int, title text, subject text, importance numeric,
          confidence numeric, pinned boolean, occurred_at timestamptz, valid_from timestamptz,
          tags text[])
        """,
        [document],
    )
    db.execute(
        """
        create table metadata as select r.no, r.word collate "C", r.size, r.done,
          row(row(r.deep)::inner_part)::deep_part as deep
        from json_to_recordset(%s) r (no int, word text, size numeric, done boolean, deep numeric)
        """,
        [document],
    )


@pytest.fixture(scope="module")
def stored_name(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def stored(server: Server, stored_name: str) -> Iterator[Connection]:
    with owner(server, stored_name) as conn:
        conn.execute("set timezone = 'UTC'")
        yield conn


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(condition=CONDITIONS)
def test_a_condition_passes_the_rows_that_it_is_true_of(
    stored: Connection, condition: Condition
) -> None:
    expected = {n for n, row in enumerate(ROWS) if condition.of(row) is True}
    said = condition.text.replace('metadata.deep."a key".n', '(metadata.deep)."a key".n')
    by_postgres = stored.execute(
        f"select no from plain join metadata using (no) where {said}"  # type: ignore[arg-type]
    )
    assert {no for (no,) in by_postgres} == expected
    found = stored.execute(
        "select attrs ->> 'ref' from remem.memory where workspace = 'w'"
        " and attrs @@ remem._filter(%s)",
        [compile_where(condition.text)],
    )
    assert {int(ref) for (ref,) in found} == expected


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(min_size=1, max_size=30), key=st.text(min_size=1, max_size=10))
def test_no_text_gets_out_of_its_quotes(stored: Connection, text: str, key: str) -> None:
    """Values and keys of any characters name themselves and nothing else."""
    if "\0" in text + key or any("\ud800" <= character <= "\udfff" for character in text + key):
        return
    name = '"' + key.replace('"', '""') + '"'
    predicate = compile_where(f"metadata.{name} = {quoted(text)}")
    document, other = ({"metadata": {key: found}} for found in (text, text + "x"))
    for given_document, passes in ((document, True), (other, False), ({"metadata": {}}, False)):
        found = value(
            stored,
            "select normalize(%s::text, nfc)::jsonb @@ remem._filter(%s)",
            [json.dumps(given_document, ensure_ascii=False), predicate],
        )
        assert found is passes


@pytest.mark.parametrize(
    ("document", "where", "passes"),
    [
        # a list: any of its elements; its negation: none of them
        ({"a": ["x", "y"]}, "metadata.a = 'x'", True),
        ({"a": ["x", "y"]}, "metadata.a <> 'x'", False),
        ({"a": ["x", "y"]}, "metadata.a <> 'z'", True),
        ({"a": [1, 5]}, "metadata.a > 4", True),
        ({"a": [1, 5]}, "not metadata.a > 4", False),
        ({"a": ["x", "y"]}, "metadata.a @> array['x', 'y']", True),
        ({"a": ["x"]}, "metadata.a @> array['x', 'y']", False),
        ({"a": ["x"]}, "metadata.a && array['x', 'y']", True),
        ({"a": ["x"]}, "'x' = any(metadata.a)", True),
        ({"a": []}, "metadata.a is null", False),
        ({"a": [{"b": 1}, {"b": 2}]}, "metadata.a.b = 2", True),
        # another type is neither equal nor different
        ({"a": "5"}, "metadata.a = 5", False),
        ({"a": "5"}, "metadata.a <> 5", False),
        ({"a": 5}, "metadata.a = '5'", False),
        ({"a": 5}, "metadata.a like '5'", False),
        ({"a": 5}, "metadata.a not like '5'", False),
        ({"a": {"b": 1}}, "metadata.a = 1", False),
        ({"a": True}, "metadata.a", True),
        ({"a": "true"}, "metadata.a", False),
        # null, and nothing
        ({"a": None}, "metadata.a is null", True),
        ({"a": None}, "metadata.a <> 'x'", False),
        ({}, "metadata.a is null", True),
        ({}, "not metadata.a = 'x'", False),
        ({"a": {}}, "metadata.a.b is null", True),
        ({"a": {"b": 0}}, "metadata.a is not null", True),
        (None, "metadata is null", True),
        ({}, "metadata is not null", True),
        # numbers are numbers
        ({"a": 10}, "metadata.a > 9", True),
        ({"a": 0.1}, "metadata.a = .10", True),
        ({"a": 1e20}, "metadata.a = 100000000000000000000", True),
        ({"a": 12345678901234567890}, "metadata.a = 12345678901234567891", False),
        # keys keep their case
        ({"Team": "x"}, "metadata.Team = 'x'", True),
        ({"Team": "x"}, "metadata.team = 'x'", False),
        ({"order": 1, "select": 2}, "metadata.order = 1 and metadata.\"select\" = 2", True),
    ],
)  # fmt: skip
def test_metadata_may_hold_anything(
    stored: Connection, document: Any, where: str, passes: bool
) -> None:
    attrs = {"kind": "task"} if document is None else {"kind": "task", "metadata": document}
    found = value(
        stored, "select %s::jsonb @@ remem._filter(%s)", [json.dumps(attrs), compile_where(where)]
    )
    assert bool(found) is passes


@pytest.mark.parametrize("pattern", ["éd%", "ÉD%", "_DGE", "%É%"])
def test_ilike_folds_every_letter_in_any_locale(c_locale_db: Connection, pattern: str) -> None:
    remember_many(
        c_locale_db, "w", [{"body": "x", "title": "Édge"}, {"body": "y", "title": "Edge"}]
    )
    found = value(
        c_locale_db, "select remem.count('w', %s)", [compile_where(f"title ilike '{pattern}'")]
    )
    assert found == (2 if pattern == "_DGE" else 1)


def test_no_tags_are_an_empty_list(stored: Connection) -> None:
    untagged = {n for n, row in enumerate(ROWS) if not row["tags"]}
    for where in ("tags is null", "not tags is not null"):
        found = stored.execute(
            "select ref from remem.list('w', %s, null, 500)", [compile_where(where)]
        )
        assert {int(ref) for (ref,) in found} == untagged
    never = stored.execute(
        "select ref from remem.list('w', %s, null, 500)",
        [compile_where("not 'nowhere' = any(tags)")],
    )
    assert len(never.fetchall()) == len(ROWS)
