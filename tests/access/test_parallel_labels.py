"""Where all that is called parallel safe runs in a worker, reading works as it does elsewhere.

The setting is Postgres's own test of labels. It also works subqueries out before the conditions
that stand in front of them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from tests.access.doors import BODY, WORKSPACE, doors
from tests.access.test_session_settings import NOTHING, readers

Connection = psycopg.Connection[Any]


def in_parallel(conn: Connection, on: bool = True) -> None:
    new = conn.info.server_version >= 160000
    name = "debug_parallel_query" if new else "force_parallel_mode"
    conn.execute(f"set {name} = {'on' if on else 'off'}".encode())


def test_what_is_called_safe_calls_nothing_else(db: Connection) -> None:
    functions = db.execute(
        "select p.proname, p.proparallel, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)"
        " from pg_proc p where p.pronamespace = 'remem'::regnamespace"
    ).fetchall()
    unsafe = {name for name, label, _ in functions if label != "s"}
    wrong = {}
    for name, label, body in functions:
        if label == "s":
            called = set(re.findall(r"\bremem\.(\w+)\(", body)) & unsafe
            # a worker cannot start the subtransaction of a block with an exception
            called |= set(re.findall(r"\bexception when\b", body))
            if called:
                wrong[name] = called
    assert len(unsafe) > 100 and len(functions) - len(unsafe) > 30
    assert wrong == {}


def test_every_reading_function_works(furnished: Connection) -> None:
    in_parallel(furnished)
    failed = {}
    cached = [door for door in doors(furnished) if door.name == "recall_cached"]
    for door in [*readers(furnished), *cached]:
        for _ in range(7):  # a generic plan from the sixth call on
            try:
                found = door.call(furnished, door.working())
            except psycopg.Error as error:
                failed[door.name] = f"{error.diag.message_primary}\n{error.diag.context}"
                break
            if not (found or door.name in NOTHING):
                failed[door.name] = "nothing"
    assert not failed, "\n".join(f"{name}: {said}" for name, said in failed.items())


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"expanded": ["we try it again"]},
    {"expanded": "statement"},
    {"expanded": ["again"], "expanded_embeddings": [[1.0] + [0.0] * 383]},
    {"kinds": ["decision", "semantic"]},
    {"kind": "decision"},
    {"arms": ["lexical", "phrase"]},
    {"scopes": {"project": "phoenix", "user": ["ann", "ben"]}},
    {"scopes": ["global"]},
    {"filter": '$.kind == "semantic"'},
    {"graph": "always"},
    {"shard_by": "kind"},
    {"as_of": "2030-01-01T00:00:00Z"},
    {"mode": "lexical"},
    {"mode": "vector"},
    {"mode": "retrieval_only"},
    {"fusion": "rrf"},
)


@pytest.mark.parametrize("options", OPTIONS, ids=json.dumps)
def test_a_recall_is_the_same(furnished: Connection, options: dict[str, Any]) -> None:
    query = "select rank, memory_id, score, signals from remem.recall(%s, %s, options => %s)"
    arguments = [WORKSPACE, f'"{BODY[:8]}" how often?', json.dumps(options)]
    expected = furnished.execute(query, arguments).fetchall()
    assert expected
    in_parallel(furnished)
    assert furnished.execute(query, arguments).fetchall() == expected


@pytest.mark.parametrize(
    "options",
    [
        {"expanded": 3},
        {"expanded": [3]},
        {"expanded_embeddings": "x"},
        {"expanded_embeddings": ["x"]},
        {"kinds": 3},
        {"arms": {"lexical": True}},
        {"scopes": 3},
        {"scopes": {"user": 3}},
        {"as_of": []},
        {"filter": {}},
        {"weights": 3},
    ],
    ids=json.dumps,
)
def test_a_wrong_option_is_refused_by_name(furnished: Connection, options: Any) -> None:
    in_parallel(furnished)
    with pytest.raises(psycopg.Error) as refused:
        furnished.execute(
            "select remem.recall(%s, 'x', options => %s)", [WORKSPACE, json.dumps(options)]
        )
    assert refused.value.sqlstate == "RM001"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, None),
        ({"providers": ["postgres", "wiki"]}, None),
        ({"context": {"user": "ann", "project": ["phoenix"]}}, None),
        ({"providers": 3}, "RM001"),
        ({"context": {"user": 3}}, "RM001"),
    ],
    ids=str,
)
def test_a_plan_is_made_or_refused(furnished: Connection, options: Any, code: str | None) -> None:
    query = "select remem.plan(%s, %s, options => %s) - 'trace'"
    arguments = [WORKSPACE, BODY, json.dumps(options)]
    if code is None:
        expected = furnished.execute(query, arguments).fetchone()
        in_parallel(furnished)
        assert furnished.execute(query, arguments).fetchone() == expected
        return
    in_parallel(furnished)
    with pytest.raises(psycopg.Error) as refused:
        furnished.execute(query, arguments)
    assert refused.value.sqlstate == code
