"""The plans that Postgres really ran inside remem's functions, by auto_explain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

Shape = tuple[Any, ...]


@contextmanager
def plans(su: psycopg.Connection[Any], **settings: str) -> Iterator[list[dict[str, Any]]]:
    """Collects the plan of every statement, also nested ones, that the block runs as superuser.

    Each is a dictionary with the keys ``Query Text`` and ``Plan`` of EXPLAIN (FORMAT JSON).
    """
    seen: list[dict[str, Any]] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        text = diag.message_primary or ""
        if text.startswith("duration:"):
            seen.append(json.loads(text[text.index("{") :]))

    su.execute("load 'auto_explain'")
    for name, value in {
        "log_min_duration": "0",
        "log_nested_statements": "on",
        "log_level": "notice",
        "log_format": "json",
        "log_analyze": "off",
        **settings,
    }.items():
        su.execute(f"set auto_explain.{name} = {value}")
    su.add_notice_handler(note)
    try:
        yield seen
    finally:
        su.remove_notice_handler(note)
        su.execute("set auto_explain.log_min_duration = -1")


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
