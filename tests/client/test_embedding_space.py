"""Python and SQL agree on what makes two models the same space."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from remem_pg.embedding import HashEmbedding, descriptor_of, fingerprint, packaged_minilm

minilm = packaged_minilm()
assert minilm is not None, "install the extra `minilm`"
MINILM = descriptor_of(minilm)


@pytest.mark.covers("RE7", "RE12")
@pytest.mark.parametrize(
    "descriptor",
    [
        MINILM,
        descriptor_of(HashEmbedding()),
        MINILM | {"query_prompt": "frage: ", "document_prompt": "日本語\n", "pooling": None},
        {"name": "bare", "backend": "callable", "asset": "x", "dimensions": 3},
    ],
)
def test_the_fingerprint_is_the_same_in_sql(
    db: psycopg.Connection[Any], descriptor: dict[str, Any]
) -> None:
    row = db.execute(
        "select fingerprint from remem.register_space(%s::jsonb)", [json.dumps(descriptor)]
    ).fetchone()
    assert row == (fingerprint(descriptor),)


def test_the_hash_space_is_the_one_that_is_always_registered(db: psycopg.Connection[Any]) -> None:
    row = db.execute("select name, fingerprint, backend from remem.current_space()").fetchone()
    own = descriptor_of(HashEmbedding())
    assert row == (own["name"], fingerprint(own), own["backend"])


@pytest.mark.covers("RE12", "RE7")
def test_another_model_of_the_same_dimensions_gets_a_table_of_its_own(
    db: psycopg.Connection[Any],
) -> None:
    other = MINILM | {"asset": "sha256:other"}
    numbers = [
        db.execute(
            "select space_no, name, dimensions from remem.register_space(%s::jsonb)",
            [json.dumps(descriptor)],
        ).fetchone()
        for descriptor in (MINILM, other, MINILM)
    ]
    assert numbers[0] == numbers[2]
    assert numbers[0] is not None
    assert numbers[1] is not None
    assert numbers[1][0] != numbers[0][0]
    assert numbers[1][2] == numbers[0][2] == 384
    assert numbers[1][1] != numbers[0][1]
