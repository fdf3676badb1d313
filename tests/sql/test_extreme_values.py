"""One strange value in one row or one argument does not end the recalls of a workspace."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from remem_pg import Remem
from tests.support.memories import refused, remember

Connection = psycopg.Connection[Any]

DATES = ["1492-10-12", "0001-01-01", "4000-01-01 BC", "-infinity", "infinity", "9999-12-31"]


@pytest.mark.parametrize("date", DATES)
def test_a_memory_of_any_date_is_recalled_beside_the_others(db: Connection, date: str) -> None:
    remember(db, "w", "Ships sail west.", source_class="llm_generated", occurred_at=date)
    remember(db, "w", "Ships sail east.", source_class="llm_generated")
    found = db.execute("select body from remem.recall('w', 'where do ships sail?')").fetchall()
    assert {body for (body,) in found} == {"Ships sail west.", "Ships sail east."}


@pytest.mark.parametrize("half_life", ["1 microsecond", "1000000 years"])
def test_a_source_of_any_half_life_is_recalled(db: Connection, half_life: str) -> None:
    db.execute("select remem.put_source_class('rumour', 1e-30::real, %s::interval)", (half_life,))
    remember(db, "w", "Ships sail west.", source_class="rumour", occurred_at="2020-01-01")
    found = db.execute("select body from remem.recall('w', 'ships')").fetchall()
    assert found == [("Ships sail west.",)]


NUMBERS = ["1e400", "1e-400", "-1e-400", "1e308", "-1"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("option", ["min_relevance", "deadline_ms", "rerank_pool", "weights"])
def test_a_number_that_no_float_holds_is_refused_by_name(
    db: Connection, option: str, number: str
) -> None:
    remember(db, "w", "Ships sail west.")
    given = f'{{"rank": {number}}}' if option == "weights" else number
    options = f'{{"{option}": {given}}}'
    query = "select count(*) from remem.recall('w', 'ships', options => %s::jsonb)"
    with pytest.raises(psycopg.Error) as refused:
        db.execute(query, (options,))
    assert refused.value.sqlstate == "RM001"
    detail = json.loads(refused.value.diag.message_detail or "{}")
    assert detail["argument"].startswith(option)


def nested(depth: int) -> Any:
    document: Any = 1
    for level in range(depth):
        document = [document] if level % 2 else {"a": document}
    return document


def test_metadata_deeper_than_readers_go_is_refused(db: Connection, db_dsn: str) -> None:
    for depth in (501, 5000):
        text = '{"a":' * depth + "1" + "}" * depth
        with refused("RM001", argument="metadata", limit=500):
            db.execute("select remem.remember('w', 'x', metadata => %s::jsonb)", (text,))
    db.execute("select remem.remember('w', 'y', metadata => %s)", (Jsonb(nested(499)),))
    with Remem(db_dsn, workspace="w", embedding=None) as mem:
        assert mem.list()[0].metadata == nested(499)


def test_a_render_of_very_many_hits_is_refused(db: Connection) -> None:
    with refused("RM001", argument="hits", limit=10000):
        db.execute("select remem.render('w', array_fill(null::remem.recall_hit, array[10001]))")
