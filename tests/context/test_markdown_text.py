"""A Markdown text as records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remem_pg.context.markdown_text import (
    _AMBIGUOUS,
    parsed_headings,
    plain_headings,
    sections,
)


def fields(text: str, name: str = "notes/plan.md") -> list[dict[str, Any]]:
    return [dict(section.fields) for section in sections(name, text)]


def ids(text: str) -> list[str]:
    return [each["id"].removeprefix("notes/plan.md") for each in fields(text)]


@pytest.mark.covers("RP31")
def test_each_heading_is_a_record_with_the_headings_above_it() -> None:
    text = "Before.\n\n# Plan\nIntro.\n\n## Retries\nThree.\n\n## Empty\n\n# Other\nLast.\n"
    assert [(each["id"], each["title"], each["body"]) for each in fields(text)] == [
        ("notes/plan.md", "plan", "Before."),
        ("notes/plan.md#plan", "Plan", "Intro."),
        ("notes/plan.md#retries", "Plan / Retries", "Three."),
        ("notes/plan.md#other", "Other", "Last."),
    ]


@pytest.mark.covers("RP31")
def test_what_only_looks_like_a_heading_is_none() -> None:
    text = (
        "# Real\n```sh\n# comment\n```\n    # indented code\n\n<!--\n# hidden\n-->\n\n"
        "- # item\n---\nEnd.\n"
    )
    (record,) = fields(text)
    assert record["title"] == "Real"
    assert "# comment" in record["body"]


def test_underlined_headings_and_equal_ones_are_told_apart() -> None:
    assert ids("Title\n=====\na\n\nNotes\n-----\nb\n\n# Notes\nc\n\n# !?\nd\n") == [
        "#title",
        "#notes",
        "#notes-2",
        "#section",
    ]


@pytest.mark.covers("RP31")
def test_front_matter_speaks_for_every_record_of_the_file() -> None:
    text = (
        "---\ntitle: Phoenix\naliases: [firebird]\ntags: cutover, database\nsummary: Moving day\n"
        "kind: decision\nscope: project\nscope_ref: phoenix\nimportance: 0.9\nfreshness: stale\n"
        "updated: 2026-02-03\nsubject: cutover\nattribute: date\nunknown: [x]\n---\n# When\nMay.\n"
    )
    (section,) = sections("p.md", text)
    assert section.fields == {
        "id": "p.md#when",
        "title": "Phoenix / When",
        "body": "May.",
        "source": "p.md#when",
        "kind": "decision",
        "scope": "project",
        "scope_ref": "phoenix",
        "importance": 0.9,
        "freshness": "stale",
        "updated_at": datetime(2026, 2, 3, tzinfo=UTC),
        "subject": "cutover",
        "attribute": "date",
    }
    assert section.found_by == "Phoenix / When firebird cutover database Moving day"


def test_naming_an_owner_alone_says_whose_it_is() -> None:
    (record,) = fields("---\nproject: phoenix\n---\nMay.\n")
    assert (record["scope"], record["scope_ref"]) == ("project", "phoenix")


@pytest.mark.covers("RP31", "RP52")
@pytest.mark.parametrize(
    "front",
    [
        "scope: project\n  scope_ref: [",
        "a: *nobody",
        "a: !!python/object/apply:os.system ['true']",
        "\t- x\n- :",
        "a: " + "[" * 5000,
    ],
)
def test_a_file_whose_front_matter_cannot_be_read_is_not_taken_for_a_global_one(front: str) -> None:
    with pytest.raises(ValueError, match="no YAML"):
        sections("p.md", f"---\n{front}\n---\nbody\n")


def test_rules_with_text_between_them_are_no_front_matter() -> None:
    assert fields("---\njust a line\n\n---\nbody\n")[0]["body"].startswith("---")
    assert fields("---\n---\nbody\n")[0]["body"] == "body"
    assert fields("---\nnever closed\nbody\n")[0]["body"].endswith("body")


def test_aliases_that_multiply_take_neither_time_nor_memory() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
    )
    (record,) = fields(f"---\n{bomb}tags: *a39\n---\nbody\n")
    assert record["body"] == "body"


@pytest.mark.parametrize("text", ["", "\n\n", "# Only a heading\n", "---\ntitle: x\n---\n"])
def test_nothing_to_say_is_no_record(text: str) -> None:
    assert fields(text) == []


def test_line_ends_of_other_systems_are_the_same_text() -> None:
    text = "---\ntitle: x\n---\n# A\nb\n"
    assert fields(text.replace("\n", "\r\n")) == fields(text) == fields(text.replace("\n", "\r"))


PIECES = [
    "#",
    "##",
    "####### ",
    " ",
    "\t",
    "a",
    "b #",
    "\n",
    "\n\n",
    "- ",
    "> ",
    "1. ",
    "\\#",
    "*",
    "é",
    "    ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_where_nothing_is_ambiguous_lines_alone_give_what_the_parser_gives(text: str) -> None:
    if _AMBIGUOUS.search(text):
        return
    plain = [
        (depth, title.strip(), first) for depth, title, first, _ in plain_headings(text.split("\n"))
    ]
    parsed = [(depth, title.strip(), first) for depth, title, first, _ in parsed_headings(text)]
    assert plain == parsed
