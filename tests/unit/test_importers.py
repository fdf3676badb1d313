"""Exports of other systems: which shapes are known, and what becomes of each field."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from remem_pg import InvalidArgument, checks
from remem_pg.importers import records, sources, survey
from remem_pg.importers.survey import LIMITS

ROOT = Path(__file__).parents[2]


def read(name: str, text: str) -> list[Any]:
    return [item for _, item in records(sources()[name], io.BytesIO(text.encode()))]


MEM0 = {
    "id": "a1",
    "memory": "Likes tea",
    "hash": "7ad1",
    "metadata": {"room": 4},
    "categories": ["drinks"],
    "user_id": "ann",
    "agent_id": "butler",
    "score": 0.4,
    "created_at": "2026-03-01T09:30:00-07:00",
    "updated_at": None,
    "expiration_date": "2027-01-01",
}
MEM0_ITEM = {
    "body": "Likes tea",
    "ref": "mem0:a1",
    "source_ref": "mem0:a1",
    "source_class": "imported",
    "scope": "user",
    "scope_ref": "ann",
    "tags": ["drinks"],
    "occurred_at": "2026-03-01T09:30:00-07:00",
    "valid_to": "2027-01-01T00:00:00+00:00",
    "metadata": {"room": 4, "mem0": {"hash": "7ad1", "agent_id": "butler"}},
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MEM0),
        json.dumps([MEM0]),
        json.dumps({"results": [MEM0], "relations": []}),
        json.dumps({"results": [MEM0]}, indent=2),
        json.dumps([MEM0], indent=2),
    ],
)
def test_mem0_as_lines_list_or_document(text: str) -> None:
    assert read("mem0", text) == [MEM0_ITEM]


def test_mem0_as_rows_of_its_vector_store() -> None:
    row = {"id": "a1", "payload": {"data": "Likes tea", "user_id": "ann"}}
    (item,) = read("mem0", json.dumps(row))
    assert (item["body"], item["ref"], item["scope_ref"]) == ("Likes tea", "mem0:a1", "ann")


LANGGRAPH = {
    "namespace": ["memories", "ann"],
    "key": "k1",
    "value": {"text": "Likes tea", "room": 4},
    "created_at": "2026-03-01T09:30:00+00:00",
    "updated_at": "2026-03-02T09:30:00+00:00",
}
LANGGRAPH_ITEM = {
    "body": "Likes tea",
    "ref": "langgraph:memories/ann/k1",
    "source_ref": "langgraph:memories/ann/k1",
    "source_class": "imported",
    "tags": ["memories", "ann"],
    "occurred_at": "2026-03-01T09:30:00+00:00",
    "metadata": {
        "langgraph": {
            "namespace": ["memories", "ann"],
            "value": {"room": 4},
            "updated_at": "2026-03-02T09:30:00+00:00",
        }
    },
}


def test_langgraph_as_items_and_as_rows_of_its_table() -> None:
    assert read("langgraph", json.dumps(LANGGRAPH)) == [LANGGRAPH_ITEM]
    assert read("langgraph", json.dumps({"items": [LANGGRAPH]})) == [LANGGRAPH_ITEM]
    row = {"prefix": "memories.ann", **{k: v for k, v in LANGGRAPH.items() if k != "namespace"}}
    assert read("langgraph", json.dumps(row)) == [LANGGRAPH_ITEM]


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ({"content": "Likes tea"}, "Likes tea"),
        ({"kind": "Memory", "content": {"content": "Likes tea"}}, "Likes tea"),
        ({"cups": 3}, '{"cups": 3}'),
        ({"text": " ", "cups": 3}, '{"cups": 3, "text": " "}'),
    ],
)
def test_the_text_of_a_stored_value(value: dict[str, Any], body: str) -> None:
    (item,) = read("langgraph", json.dumps({**LANGGRAPH, "value": value}))
    assert item["body"] == body
    kept = item["metadata"]["langgraph"]["value"]
    assert value == {**kept, **{k: v for k, v in value.items() if v == body}}


def test_plain_lines_keep_what_they_can_and_put_the_rest_into_metadata() -> None:
    line = {
        "id": 7,
        "text": "Likes tea",
        "kind": "preference",
        "mood": "good",
        "metadata": {"a": 1},
    }
    assert read("jsonl", json.dumps(line)) == [
        {
            "body": "Likes tea",
            "ref": "7",
            "kind": "preference",
            "source_class": "imported",
            "metadata": {"a": 1, "mood": "good"},
        }
    ]
    (item,) = read("jsonl", json.dumps({"body": "x", "ref": "r", "id": 7}))
    assert (item["ref"], item["metadata"]) == ("r", {"id": 7})


@pytest.mark.parametrize(
    ("name", "record", "problem"),
    [
        ("mem0", {"id": "a"}, "memory of mem0"),
        ("mem0", {"memory": 7}, "memory of mem0"),
        ("langgraph", {"key": "k", "value": {}}, "LangGraph"),
        ("langgraph", {"namespace": ["a"], "key": "k", "value": "text"}, "LangGraph"),
        ("jsonl", {"note": "x"}, "no text"),
    ],
)
def test_a_record_of_another_shape_is_refused_by_name(
    name: str, record: dict[str, Any], problem: str
) -> None:
    good = {"mem0": MEM0, "langgraph": LANGGRAPH, "jsonl": {"text": "x"}}[name]
    items = read(name, "\n".join(json.dumps(each) for each in (good, record, good)))
    assert isinstance(items[1], InvalidArgument)
    assert problem in items[1].sentence()
    assert [isinstance(item, dict) for item in items] == [True, False, True]


def test_a_bad_line_is_named_and_the_next_one_read() -> None:
    items = read("jsonl", '{"text": "a"}\n{"text": \n\n{"text": "c"}\n')
    assert [item if isinstance(item, dict) else "bad" for item in items] == [
        {"body": "a", "source_class": "imported"},
        "bad",
        {"body": "c", "source_class": "imported"},
    ]


def test_a_document_that_holds_no_records_is_refused_with_the_shapes() -> None:
    with pytest.raises(InvalidArgument) as caught:
        read("mem0", json.dumps({"schema": {}, "created": 1}, indent=1))
    assert "get_all" in (caught.value.hint or "")
    with pytest.raises(InvalidArgument, match="neither JSON lines nor"):
        read("mem0", '[{"id":')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('[\n{"memory": ' + "[" * 100_000 + "]" * 100_000 + "}]", "nested too deeply"),
        ('[{"memory": "x", "score": NaN}]', "NaN is not a JSON number"),
        ('[\n{"memory": "x", "score": -Infinity}]', "-Infinity is not a JSON number"),
    ],
)
def test_a_document_is_read_as_strictly_as_a_line(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        list(records(sources()["mem0"], io.BytesIO(text.encode())))


@pytest.mark.parametrize("value", ["[" * 100_000 + "]" * 100_000, "NaN"])
def test_a_first_line_that_is_refused_is_named(value: str) -> None:
    lines = f'{{"memory": {value}}}\n{{"id": "b", "memory": "y"}}\n'
    found = list(records(sources()["mem0"], io.BytesIO(lines.encode())))
    assert isinstance(found[0][1], InvalidArgument)
    assert "line 1" in str(found[0][1])
    assert not isinstance(found[1][1], InvalidArgument)


def test_an_empty_file_has_no_records() -> None:
    assert read("mem0", "") == read("mem0", "\n\n") == []


@pytest.mark.parametrize("name", ["mem0", "langgraph", "jsonl"])
def test_every_item_has_only_what_remember_takes(name: str) -> None:
    good = {"mem0": MEM0, "langgraph": LANGGRAPH, "jsonl": {"text": "x", "z": 1}}[name]
    for item in read(name, json.dumps(good)):
        assert checks.item(item)["body"]


def test_a_survey_counts_fields_and_names_what_is_refused() -> None:
    text = "\n".join(json.dumps(each) for each in (MEM0, {"id": "a2"}, {**MEM0, "id": "a3"}))
    found = survey(sources()["mem0"], io.BytesIO(text.encode()))
    assert (found.records, found.complete) == (3, True)
    assert found.fields["body"] == (2, "Likes tea")
    assert found.metadata == {"room": 2, "mem0": 2}
    assert found.problems == ["record 2: " + read("mem0", '{"id": "a2"}')[0].sentence()]


def test_a_survey_knows_the_limits_of_the_server() -> None:
    """The bounds are those that sql/18_item.sql checks, in the same order."""
    source = (ROOT / "sql" / "18_item.sql").read_text("utf-8")
    found = re.findall(r"_check_length\('(\w+)', item\.\1, (\d+), item_no\)", source)
    (body,) = re.findall(r"_text_limit\(\).+?return (\d+);", source, re.DOTALL)
    assert "_check_length('body', item.body, remem._text_limit(), item_no)" in source
    assert {"body": int(body)} | {name: int(limit) for name, limit in found} == LIMITS
    (blank,) = re.findall(r"item\.body, ''\) !~ '\[\^(.+?)\]'", source)
    assert blank == r"\u0001-\u0020\u0085\u00a0\u2000-\u200b\u2028\u2029\u3000\ufeff"
    text = json.dumps({"body": "x" * (LIMITS["body"] + 1)}).encode()
    assert "at most" in survey(sources()["jsonl"], io.BytesIO(text)).problems[0]
