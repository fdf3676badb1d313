"""C7: a space of many dimensions is indexed as halfvec, or refused with the limit named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from remem_pg import InvalidArgument, Remem
from tests.support.memories import Connection, open_space, recall, refused, remember, value

LIMIT = 4000


class Wide:
    """A model of any number of dimensions: a text is a direction of its own."""

    def __init__(self, dimensions: int) -> None:
        self.id = f"wide-{dimensions}"
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        rows = np.zeros((len(texts), self.dimensions), dtype="f4")
        for row, text in zip(rows, texts, strict=True):
            row[sum(text.encode()) % self.dimensions] = 1.0
        return rows


def vector(dimensions: int, *places: int) -> list[float]:
    return [1.0 if n in places else 0.0 for n in range(dimensions)]


@pytest.mark.parametrize("dimensions", [1, 2000, 2001, 3072, LIMIT])
def test_up_to_the_limit_the_index_is_there_and_finds(db: Connection, dimensions: int) -> None:
    open_space(db, "wide", dimensions)
    last = dimensions - 1
    remember(db, "w", "the last one", embedding=vector(dimensions, last))
    if dimensions > 1:
        remember(db, "w", "the first one", embedding=vector(dimensions, 0))
    index = value(
        db,
        "select pg_get_indexdef(i.indexrelid) from pg_index i"
        " where i.indexrelid = 'remem.embedding_2_hnsw_idx'::regclass and i.indisvalid",
    )
    assert "halfvec_cosine_ops" in index
    column = "select format_type(atttypid, atttypmod) from pg_attribute where attname = 'embedding'"
    found = value(db, f"{column} and attrelid = 'remem.embedding_2'::regclass")
    assert found.endswith(f"halfvec({dimensions})")
    hits = recall(db, "w", "?", embedding=vector(dimensions, last), mode="vector")
    assert hits[0].body == "the last one"
    assert hits[0].signals["cosine"] == pytest.approx(1, abs=1e-3)
    db.execute("set enable_seqscan = off")
    db.execute("set enable_sort = off")
    plan = db.execute(
        "explain select memory_no from remem.embedding_2"
        f" order by embedding <=> %s::real[]::vector::halfvec({dimensions}) limit 1",  # type: ignore[arg-type]
        [vector(dimensions, last)],
    ).fetchall()
    assert any("embedding_2_hnsw_idx" in line for (line,) in plan)


@pytest.mark.parametrize("dimensions", [LIMIT + 1, 16000, 65536, 999999])
def test_beyond_the_limit_a_space_is_refused_by_name(db: Connection, dimensions: int) -> None:
    with refused("RM001", argument="dimensions", value=dimensions, limit=LIMIT):
        open_space(db, "wide", dimensions)
    assert value(db, "select count(*) from remem.embedding_space") == 1
    assert value(db, "select to_regclass('remem.embedding_2')") is None


@pytest.mark.parametrize("dimensions", [0, -1, 1.5, "many", None, 10**7])
def test_what_is_no_number_of_dimensions_is_refused(db: Connection, dimensions: Any) -> None:
    with refused("RM001"):
        open_space(db, "wide", dimensions)
    assert value(db, "select count(*) from remem.embedding_space") == 1


def test_a_model_of_3072_dimensions_works_through_the_client(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="w", embedding=Wide(3072)) as mem:
        mem.remember_many([{"body": "abc"}, {"body": "xyz"}])
        assert mem.current_space().dimensions == 3072
        result = mem.recall("abc", mode="vector")
        assert (result[0].body, result.degraded) == ("abc", ())


def test_a_model_beyond_the_limit_says_so_and_loses_no_memory(db_dsn: str, db: Connection) -> None:
    with Remem(db_dsn, workspace="w", embedding=Wide(5000)) as mem:
        with pytest.raises(InvalidArgument) as caught:
            mem.register_space({"name": "w", "backend": "x", "asset": "y", "dimensions": 5000})
        assert caught.value.detail["limit"] == LIMIT
        try:
            mem.remember("Kept all the same.")
        except InvalidArgument as error:
            assert error.detail["limit"] == LIMIT
        else:
            assert mem.count() == 1
            assert mem.recall("kept same")[0].body == "Kept all the same."
    assert value(db, "select count(*) from remem.embedding_space") == 1
