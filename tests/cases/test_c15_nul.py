"""C15, as far as the server sees it: NUL cannot be said to SQL, and nothing is half-written.

The client's part, which names the item and keeps the others, is tested with the client.
"""

from __future__ import annotations

import psycopg
import pytest

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
