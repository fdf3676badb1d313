"""C17: deep metadata, many tags, a long title: accepted within stated limits or refused by name."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.bulk import export, outcomes, take
from tests.support.consistency import problems
from tests.support.memories import Connection, get, recall, refused, remember, value


@pytest.mark.parametrize("depth", [1, 100, 300])
def test_deep_metadata_is_kept(db: Connection, depth: int) -> None:
    metadata: Any = 1
    for n in range(depth):
        metadata = {"k": metadata} if n % 2 else [metadata]
    ref = remember(db, "w", "deep", metadata={"m": metadata})
    assert get(db, "w", memory_id=ref.memory_id).metadata == {"m": metadata}


def test_ten_thousand_tags_are_refused_by_name_and_a_thousand_are_kept(db: Connection) -> None:
    tags = [f"tag-{n}" for n in range(10_000)]
    with refused("RM003", item=1, argument="tags", limit=1000):
        remember(db, "w", "x", tags=tags)
    ref = remember(db, "w", "x", tags=tags[:1000])
    assert get(db, "w", memory_id=ref.memory_id).tags == tags[:1000]
    assert recall(db, "w", "tag-999", mode="lexical")[0].memory_id == ref.memory_id


@pytest.mark.parametrize("length", [10_000, 65_536])
def test_a_long_title_is_kept_and_found(db: Connection, length: int) -> None:
    title = ("pelican " + "garden " * 10_000)[:length]
    ref = remember(db, "w", "x", title=title)
    assert get(db, "w", memory_id=ref.memory_id).title == title
    assert recall(db, "w", "pelican", mode="lexical")[0].memory_id == ref.memory_id


def test_a_title_over_the_limit_is_refused_by_name(db: Connection) -> None:
    with refused("RM003", item=1, argument="title", limit=65536, got=65537):
        remember(db, "w", "x", title="t" * 65537)
    assert value(db, "select count(*) from remem.memory") == 0


def test_a_wide_document_of_metadata_can_be_filtered(db: Connection) -> None:
    metadata = {f"key {n}": n for n in range(5000)}
    remember(db, "w", "wide", metadata=metadata)
    assert value(db, "select remem.count('w', '$.metadata.\"key 4999\" == 4999')") == 1


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("tags", [f"tag-{n}" for n in range(10_000)]),
        ("title", "t" * 65_537),
        ("provenance", {"said": "p" * 1_048_577}),
    ],
)
def test_an_export_is_held_to_the_same_limits(db: Connection, argument: str, given: object) -> None:
    with refused("RM003", item=1, argument=argument):
        take(db, "w", [{"type": "memory", "body": "x", argument: given}])
    assert value(db, "select count(*) from remem.memory") == 0


def test_what_is_within_the_limits_survives_an_export(db: Connection) -> None:
    metadata: Any = 1
    for n in range(100):
        metadata = {"k": metadata} if n % 2 else [metadata]
    given = {
        "metadata": {"m": metadata},
        "tags": [f"tag-{n}" for n in range(1000)],
        "title": "t" * 10_000,
    }
    ref = remember(db, "a", "x", **given)
    assert outcomes(take(db, "b", export(db, "a"))) == ["created"]
    kept = get(db, "b", memory_id=ref.memory_id)
    assert {name: getattr(kept, name) for name in given} == given


TEXT_FIELDS = [
    "body", "ref", "title", "summary", "scope_ref", "topic_key", "subject", "attribute",
    "source_ref", "session_ref", "speaker",
]  # fmt: skip
LIST_FIELDS = ["tags", "aliases", "entities"]
SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]


def written(field: str, given: Any) -> dict[str, Any]:
    # A body for each, because equal ones would merge.
    fields: dict[str, Any] = {"body": f"of {len(given)}", field: given}
    if field == "scope_ref":
        fields["scope"] = "project"
    return fields


@pytest.mark.parametrize("unit", ["a", "é", "字", "\U0001f9e0"], ids=["1", "2", "3", "4"])
@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_a_text_of_any_length_is_kept_whole_or_refused_by_name(
    db: Connection, field: str, unit: str
) -> None:
    kept = 0
    for size in SIZES:
        text = unit * (size // len(unit.encode()))
        fields = written(field, text)
        try:
            ref = remember(db, "w", fields.pop("body"), **fields)
        except psycopg.Error as error:
            assert error.sqlstate == "RM003"
            detail = json.loads(error.diag.message_detail or "{}")
            assert detail["argument"] == field
            assert detail["limit"] < detail["got"]
        else:
            kept += 1
            row = get(db, "w", memory_id=ref.memory_id)
            assert getattr(row, field) == text
    assert kept >= 1
    assert problems(db) == []


@pytest.mark.parametrize("field", LIST_FIELDS)
@pytest.mark.parametrize(("count", "length"), [(10, 10), (1, 100_000), (10_000, 10), (100, 5_000)])
def test_a_list_of_any_size_is_kept_whole_or_refused_by_name(
    db: Connection, field: str, count: int, length: int
) -> None:
    members = [f"{n:06d}".ljust(length, "v") for n in range(count)]
    try:
        ref = remember(db, "w", "x", **{field: members})
    except psycopg.Error as error:
        assert error.sqlstate == "RM003"
        assert json.loads(error.diag.message_detail or "{}")["argument"].startswith(field)
        assert (count, length) != (10, 10)
    else:
        if field != "entities":
            assert getattr(get(db, "w", memory_id=ref.memory_id), field) == members
    assert problems(db) == []


@pytest.mark.parametrize("depth", [1_000, 5_000, 20_000])
def test_metadata_too_deep_for_the_server_is_refused_and_the_session_goes_on(
    db: Connection, depth: int
) -> None:
    document = "[" * depth + "]" * depth
    with pytest.raises(psycopg.Error) as error:
        db.execute(
            "select remem.remember('w', 'x', metadata => %s::jsonb)", ['{"k":' + document + "}"]
        )
    assert error.value.sqlstate in ("RM001", "54001")  # our limit, or the server's own stack limit
    assert remember(db, "w", "another").outcome == "created"
    assert problems(db) == []
