"""C16: 10 KB and 1 MB of incompressible text written twice: one memory."""

from __future__ import annotations

import base64
from random import Random

import pytest

from tests.support.bulk import export, load, outcomes, take
from tests.support.memories import Connection, get, recall, remember, value


@pytest.mark.parametrize(
    ("size", "ref"),
    [(10 * 1024, None), (10 * 1024, "blob"), (100 * 1024, "blob"), (1024 * 1024, None)],
)
def test_incompressible_text_written_twice_is_one_memory(
    db: Connection, size: int, ref: str | None
) -> None:
    body = base64.b85encode(Random(size).randbytes(size)).decode()[:size]
    first = remember(db, "w", body, ref=ref)
    again = remember(db, "w", body, ref=ref)
    assert first.outcome == "created"
    assert again.outcome == ("unchanged" if ref else "merged")
    assert again.memory_id == first.memory_id
    assert value(db, "select count(*) from remem.memory") == 1
    assert get(db, "w", memory_id=first.memory_id).body == body


def test_a_difference_in_the_last_byte_is_another_memory(db: Connection) -> None:
    body = base64.b85encode(Random(16).randbytes(10 * 1024)).decode()
    remember(db, "w", body + "a")
    assert remember(db, "w", body + "b").outcome == "created"


def test_one_word_of_a_hundred_kilobytes_is_found_by_itself(db: Connection) -> None:
    word = "x" + base64.b32encode(Random(17).randbytes(64 * 1024)).decode().rstrip("=").lower()
    ref = remember(db, "w", word)
    remember(db, "w", "x")
    assert [hit.memory_id for hit in recall(db, "w", word[:20000], mode="lexical")] == []
    short = word[:5000]
    kept = remember(db, "w", short)
    assert [hit.memory_id for hit in recall(db, "w", short, mode="lexical")] == [kept.memory_id]
    assert get(db, "w", memory_id=ref.memory_id).body == word


@pytest.mark.parametrize("size", [10 * 1024, 1024 * 1024])
def test_in_bulk_and_by_an_export_it_is_one_memory_too(db: Connection, size: int) -> None:
    body = base64.b85encode(Random(size).randbytes(size)).decode()[:size]
    assert [ref.outcome for ref in load(db, "w", [{"body": body}] * 2)] == ["created", "merged"]
    old = export(db, "w")
    assert outcomes(take(db, "w", old)) == ["unchanged"]
    for record in old:
        record.pop("memory_id", None)
    assert outcomes(take(db, "w", old)) == ["merged"]
    assert value(db, "select count(*) from remem.memory") == 1
