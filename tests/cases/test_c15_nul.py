"""C15: NUL anywhere is a typed error that names the item and the field; other items are kept.

The server cannot be told NUL at all (the first tests), so naming the item is the clients' part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from remem_pg import AsyncRemem, Remem, RememError, TextRefused
from tests.support.memories import Connection, value


@pytest.fixture(scope="module")
def client(file_dsn: str) -> Iterator[Remem]:
    with Remem(file_dsn, workspace="w", embedding=None) as made:
        yield made


@pytest.fixture
def mem(client: Remem, own_name: str) -> Remem:
    """A client of a workspace of the test's own."""
    return client.workspace(own_name)


STORED = "select count(*) from remem.memory where workspace = %s"

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
    file_db: Connection, items: str, on_error: str
) -> None:
    with pytest.raises(psycopg.DataError) as caught:
        file_db.execute("select remem.remember_many('w', %s::jsonb, %s)", [items, on_error])
    assert caught.value.sqlstate in ("22P05", "22P02")
    assert value(file_db, STORED, ["w"]) == 0


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
def test_a_nul_in_a_parameter_never_leaves_the_driver(file_db: Connection, call: str) -> None:
    with pytest.raises(psycopg.DataError):
        file_db.execute(call, ["a\x00b"])
    assert value(file_db, STORED, ["w"]) == 0


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


BAD = {"nul": "a\0b", "only nul": "\0", "at the end": "ab\0", "a lone surrogate": "a\ud83db"}
PLACES: dict[str, Any] = {
    "body": lambda bad: {"body": bad},
    "ref": lambda bad: {"body": "x", "ref": bad},
    "title": lambda bad: {"body": "x", "title": bad},
    "summary": lambda bad: {"body": "x", "summary": bad},
    "tags": lambda bad: {"body": "x", "tags": ["good", bad]},
    "aliases": lambda bad: {"body": "x", "aliases": [bad]},
    "entities": lambda bad: {"body": "x", "entities": [bad]},
    "scope_ref": lambda bad: {"body": "x", "scope": "project", "scope_ref": bad},
    "topic_key": lambda bad: {"body": "x", "topic_key": bad},
    "subject": lambda bad: {"body": "x", "subject": bad},
    "attribute": lambda bad: {"body": "x", "attribute": bad},
    "source_class": lambda bad: {"body": "x", "source_class": bad},
    "source_ref": lambda bad: {"body": "x", "source_ref": bad},
    "session_ref": lambda bad: {"body": "x", "session_ref": bad},
    "speaker": lambda bad: {"body": "x", "speaker": bad},
    "metadata": lambda bad: {"body": "x", "metadata": {"k": bad}},
    "metadata, deep": lambda bad: {"body": "x", "metadata": {"k": [{"l": [bad]}]}},
    "metadata, a key": lambda bad: {"body": "x", "metadata": {bad: 1}},
    "metadata, a deep key": lambda bad: {"body": "x", "metadata": {"k": {bad: 1}}},
}


def named(error: RememError, place: str) -> bool:
    return str(error.detail["argument"]).startswith(place.split(",")[0])


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", PLACES)
def test_the_field_and_the_item_are_named_and_the_others_kept(
    mem: Remem, file_db: Connection, own_name: str, place: str, bad: str
) -> None:
    item = PLACES[place](BAD[bad])
    with pytest.raises(TextRefused) as alone:
        mem.remember(**item)
    assert named(alone.value, place)
    batch = [{"body": "one", "ref": "1"}, item, {"body": "three", "ref": "3"}]
    with pytest.raises(TextRefused) as whole:
        mem.remember_many(batch)
    assert whole.value.item_no == 2
    assert named(whole.value, place)
    assert value(file_db, STORED, [own_name]) == 0
    refs = mem.remember_many(batch, "report")
    assert [ref.outcome for ref in refs] == ["created", "refused", "created"]
    assert refs[1].item_no == 2
    assert refs[1].error is not None
    assert refs[1].error["code"] == "RM003"
    assert [m.body for m in mem.iterate()] == ["three", "one"]


@pytest.mark.parametrize("bad", BAD)
async def test_the_async_client_names_and_keeps_too(db_dsn: str, bad: str) -> None:
    async with AsyncRemem(db_dsn, workspace="w", embedding=None) as mem:
        refs = await mem.remember_many(
            [{"body": "one"}, {"body": BAD[bad]}, {"body": "three"}], "report"
        )
        assert [ref.outcome for ref in refs] == ["created", "refused", "created"]
        with pytest.raises(TextRefused):
            await mem.recall(BAD[bad])
        assert await mem.count() == 2


@pytest.mark.parametrize("bad", BAD)
def test_what_is_asked_and_named_is_refused_as_typed(db_dsn: str, bad: str) -> None:
    text = BAD[bad]
    with Remem(db_dsn, workspace="w", embedding="hash") as mem:
        mem.remember("x", ref="r")
        for call in (
            lambda: mem.recall(text),
            lambda: mem.recall("x", filter=f'$.ref == "{text}"'),
            lambda: mem.recall("x", session_ref=text),
            lambda: mem.recall("x", expanded=[text]),
            lambda: mem.recall_explain(text),
            lambda: mem.get(ref=text),
            lambda: mem.list(text),
            lambda: mem.count(text),
            lambda: mem.forget(ref=text),
            lambda: mem.forget("00000000-0000-4000-8000-000000000001", reason=text),
            lambda: mem.correct(text, ref="r"),
            lambda: mem.history(ref=text),
            lambda: mem.purge(ref=text),
            lambda: mem.workspace(text),
            lambda: mem.set_language(text),
            lambda: mem.grant_access(text),
            lambda: mem.put_topic(text),
        ):
            with pytest.raises(TextRefused):
                call()
        assert mem.get(ref="r") is not None
        assert mem.context(text).results == ()  # a context never raises: its host goes on
