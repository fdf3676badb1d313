"""C15, as far as the server sees it: NUL cannot be said to SQL, and nothing is half-written.

The client's part, which names the item and keeps the others, is tested with the client.
"""

from __future__ import annotations

import json

import psycopg
import pytest

from remem_pg import Remem, TextRefused
from tests.support.memories import Connection, value

JSON = [
    r'[{"body": "good"}, {"body": "a\u0000b"}]',
    r'[{"body": "good"}, {"body": "x", "metadata": {"k": "\u0000"}}]',
    r'[{"body": "good"}, {"body": "x", "metadata": {"\u0000": 1}}]',
    r'[{"body": "good"}, {"body": "x", "ref": "\u0000"}]',
    r'[{"body": "good"}, {"body": "\ud83d"}]',
]


@pytest.mark.parametrize("items", JSON)
@pytest.mark.parametrize("on_error", ["abort", "report"])
def test_a_document_with_nul_is_refused_by_its_type_and_stores_nothing(
    db: Connection, items: str, on_error: str
) -> None:
    with pytest.raises(psycopg.DataError) as caught:
        db.execute("select remem.remember_many('w', %s::jsonb, %s)", [items, on_error])
    assert caught.value.sqlstate in ("22P05", "22P02")
    assert value(db, "select count(*) from remem.memory") == 0


@pytest.mark.parametrize(
    "call",
    [
        "select remem.remember('w', %s)",
        "select remem.remember('w', 'x', ref => %s)",
        "select * from remem.recall('w', %s)",
        "select * from remem.get('w', ref => %s)",
        "select * from remem.list('w', %s)",
    ],
)
def test_a_nul_in_a_parameter_never_leaves_the_driver(db: Connection, call: str) -> None:
    with pytest.raises(psycopg.DataError):
        db.execute(call, ["a\x00b"])
    assert value(db, "select count(*) from remem.memory") == 0


RECORDS = [
    '{"type": "memory", "body": "a\\u0000b"}',
    '{"type": "memory", "body": "x", "metadata": {"k": "\\u0000"}}',
    '{"type": "memory", "body": "x", "metadata": {"\\u0000": 1}}',
    '{"type": "memory", "body": "x", "ref": "\\u0000"}',
    '{"type": "memory", "body": "\\ud83d"}',
]


@pytest.mark.parametrize("bad", RECORDS)
def test_in_an_export_the_line_is_named_and_the_others_are_kept(db_dsn: str, bad: str) -> None:
    good = r'{"type": "memory", "body": "a literal \\u0000 stays"}'
    lines = ['{"type": "header", "format": 1}', good, bad]
    end = json.dumps({"type": "end", "counts": {"memory": 2}})
    with Remem(db_dsn, workspace="w", embedding=None) as mem:
        with pytest.raises(TextRefused, match="line 3"):
            mem.import_records([*lines, end])
        assert mem.count() == 0
        report = mem.import_records([*lines, end], on_error="report")
        assert report.records["memory"] == {"created": 1}
        assert [one["line"] for one in report.refused] == [3]
        assert [memory.body for memory in mem.list()] == ["a literal \\u0000 stays"]


def test_in_a_large_batch_the_item_is_named_and_the_others_are_kept(db_dsn: str) -> None:
    items = [{"body": f"Note {n}."} for n in range(120)]
    items[70] = {"body": "a\0b"}
    items[71] = {"body": "x", "metadata": {"\0": 1}}  # type: ignore[dict-item]
    with Remem(db_dsn, workspace="w", embedding=None) as mem:
        with pytest.raises(TextRefused) as caught:
            mem.remember_many(items)  # type: ignore[arg-type]
        assert caught.value.item_no == 71
        assert mem.count() == 0
        refs = mem.remember_many(items, on_error="report")  # type: ignore[arg-type]
        assert [ref.item_no for ref in refs if ref.refused] == [71, 72]
        assert mem.count() == 118
