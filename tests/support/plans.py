"""The plans that Postgres really ran inside remem's functions, by auto_explain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

Shape = tuple[Any, ...]


SETTINGS = {
    "log_min_duration": "0",
    "log_nested_statements": "on",
    "log_level": "notice",
    "log_format": "json",
    "log_analyze": "off",
}


def _noting(seen: list[dict[str, Any]]) -> Callable[[psycopg.errors.Diagnostic], None]:
    def note(diag: psycopg.errors.Diagnostic) -> None:
        text = diag.message_primary or ""
        if text.startswith("duration:"):
            seen.append(json.loads(text[text.index("{") :]))

    return note


@contextmanager
def plans(su: psycopg.Connection[Any], **settings: str) -> Iterator[list[dict[str, Any]]]:
    """Collects the plan of every statement, also nested ones, that the block runs as superuser.

    Each is a dictionary with the keys ``Query Text`` and ``Plan`` of EXPLAIN (FORMAT JSON).
    """
    seen: list[dict[str, Any]] = []
    note = _noting(seen)
    su.execute("load 'auto_explain'")
    for name, value in {**SETTINGS, **settings}.items():
        su.execute(f"set auto_explain.{name} = {value}")
    su.add_notice_handler(note)
    try:
        yield seen
    finally:
        su.remove_notice_handler(note)
        su.execute("set auto_explain.log_min_duration = -1")


@contextmanager
def explained(
    su: psycopg.Connection[Any], role: str, dsn: str
) -> Iterator[tuple[psycopg.Connection[Any], list[dict[str, Any]]]]:
    """A connection of the role itself, and the plans of every statement that it runs from then on.

    The settings are the role's in this database, for as long as the connection stands: what they
    need no role but a superuser may set.
    """
    target = sql.SQL("alter role {} in database {}").format(
        sql.Identifier(role), sql.Identifier(su.info.dbname)
    )
    su.execute("load 'auto_explain'")
    su.execute(target + sql.SQL(" set session_preload_libraries = 'auto_explain'"))
    for name, value in SETTINGS.items():
        su.execute(
            target + sql.SQL(" set {} = {}").format(sql.Identifier("auto_explain", name), value)
        )
    seen: list[dict[str, Any]] = []
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.add_notice_handler(_noting(seen))
            yield conn, seen
    finally:
        su.execute(target + sql.SQL(" reset all"))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan, top down."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def shape(plan: dict[str, Any]) -> Shape:
    """What kind of plan it is: nodes, indexes and tables, without costs and estimates."""
    return (
        plan["Node Type"],
        plan.get("Index Name") or plan.get("Relation Name"),
        *(shape(child) for child in plan.get("Plans", [])),
    )


def touching(seen: list[dict[str, Any]], relation: str) -> list[dict[str, Any]]:
    """The plans that read a table, or an index whose name begins with the table's."""
    return [
        entry["Plan"]
        for entry in seen
        if any(
            node.get("Relation Name") == relation or node.get("Index Name", "").startswith(relation)
            for node in nodes(entry["Plan"])
        )
    ]


def looked_at(seen: list[dict[str, Any]], table: str) -> float:
    """How many rows of a table all plans looked at together."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for entry in seen
        for node in nodes(entry["Plan"])
        if node.get("Relation Name") == table
    )


def most_compared(seen: list[dict[str, Any]]) -> float:
    """The most pairs of rows that one node of a plan compared in vain."""
    return max(
        node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
        for entry in seen
        for node in nodes(entry["Plan"])
    )
