"""C17: deep metadata, many tags, a long title: accepted within stated limits or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bulk import export, outcomes, take
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
