"""Pairs of memories that say different things of one attribute of one subject."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lifecycle import rows
from tests.support.memories import Connection, remember, remember_many


def said(db: Connection, **options: Any) -> list[tuple[str, str]]:
    return [(pair.body, pair.other_body) for pair in rows(db, "conflicts", "w", **options)]


def lives(db: Connection, who: str, city: str, **more: Any) -> Any:
    return remember(db, "w", f"{who} lives in {city}.", subject=who, attribute="city", **more)


def test_the_newest_pairs_come_first(db: Connection) -> None:
    for city in ("Porto", "Lisbon", "Faro"):
        lives(db, "Mei", city)
    assert said(db) == [
        ("Mei lives in Faro.", "Mei lives in Lisbon."),
        ("Mei lives in Faro.", "Mei lives in Porto."),
        ("Mei lives in Lisbon.", "Mei lives in Porto."),
    ]
    assert said(db, limit=1) == [("Mei lives in Faro.", "Mei lives in Lisbon.")]


def test_a_subject_is_the_same_in_any_spelling(db: Connection) -> None:
    lives(db, "Mei", "Porto")
    lives(db, "MEI", "Lisbon")
    assert said(db) == [("MEI lives in Lisbon.", "Mei lives in Porto.")]


@pytest.mark.parametrize(
    "other",
    [
        {"scope": "user", "scope_ref": "ann"},
        {"valid_to": "2020-01-01T00:00:00Z"},
        {"valid_from": "2900-01-01T00:00:00Z"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_scope_or_time_is_no_contradiction(db: Connection, other: dict[str, str]) -> None:
    lives(db, "Mei", "Porto", valid_to="2800-01-01T00:00:00Z")
    lives(db, "Mei", "Lisbon", **other)
    assert said(db) == []


def test_what_somebody_decided_is_not_asked_again(db: Connection) -> None:
    one, two = lives(db, "Mei", "Porto"), lives(db, "Mei", "Lisbon")
    ends = [one.memory_id, two.memory_id]
    db.execute("select remem.relate('w', %s, %s, 'contradicts')", ends)
    assert [pair.linked for pair in rows(db, "conflicts", "w")] == ["contradicts"]
    db.execute("select remem.relate('w', %s, %s, 'not_conflict')", ends)
    assert said(db) == []


def test_an_attribute_that_thousands_of_subjects_have_is_no_work_of_pairs(db: Connection) -> None:
    remember_many(
        db,
        "w",
        [
            {"body": f"service {n % 1990} listens on {n}", "subject": f"service {n % 1990}"}
            | {"attribute": "port"}
            for n in range(2000)
        ],
    )
    db.execute("set statement_timeout = '10s'")  # two million pairs would take minutes
    assert len(said(db)) == 10


def test_of_very_many_statements_the_newest_are_compared(db: Connection) -> None:
    items = [{"body": f"state {n}", "subject": "build", "attribute": "state"} for n in range(300)]
    remember_many(db, "w", items)
    pairs = said(db, limit=1000)
    assert pairs[:2] == [("state 299", "state 298"), ("state 299", "state 297")]
    assert len([body for body, _ in pairs if body == "state 299"]) == 199
