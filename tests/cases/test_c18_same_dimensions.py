"""C18: another model with the same dimensions is another space; vectors are never compared."""

from __future__ import annotations

import pytest

from tests.support.memories import (
    Connection,
    recall,
    refused,
    remember,
    value,
    warnings,
)


def register(db: Connection, name: str) -> str:
    descriptor = f'{{"name": "{name}", "backend": "t", "asset": "{name}", "dimensions": 384}}'
    return str(value(db, "select (remem.register_space(%s)).fingerprint", [descriptor]))


@pytest.mark.parametrize("called", ["name", "fingerprint"])
def test_a_model_of_the_same_dimensions_is_told_apart(db: Connection, called: str) -> None:
    old, new = register(db, "old-model"), register(db, "new-model")
    assert old != new
    db.execute("select remem.activate_space('old-model')")
    vector = [1.0] + [0.0] * 383
    remember(db, "w", "The queue retries.", embedding=vector, space=old)
    space = "new-model" if called == "name" else new
    with refused("RM202", item=1, space=space, expected="old-model"):
        remember(db, "w", "The queue is long.", embedding=vector, space=space)
    with warnings(db) as seen:
        (hit,) = recall(db, "w", "queue", embedding=vector, space=space)
    assert "space_mismatch" in seen[0][1]
    assert hit.arms == ["lexical"]
    assert "cosine" not in hit.signals


@pytest.mark.covers("RE8", "RE12")
def test_the_hash_space_is_not_compared_with_a_model_of_its_dimensions(db: Connection) -> None:
    register(db, "minilm")
    remember(db, "hashed", "The queue retries.")
    db.execute("select remem.activate_space('minilm')")
    remember(db, "neural", "The queue retries.", embedding=[1.0] * 384, space="minilm")
    assert value(db, "select count(*) from remem.embedding_1") == 1
    assert value(db, "select count(*) from remem.embedding_2") == 1
    with refused("RM202", item=1, space="minilm", expected="hash"):
        remember(db, "hashed", "x", embedding=[1.0] * 384, space="minilm")
    (hit,) = recall(db, "hashed", "queue", embedding=[1.0] * 384, space="minilm")
    assert hit.degraded == ["space_mismatch"]
    own = recall(db, "hashed", "queue")[0]
    assert hit.signals["cosine"] == own.signals["cosine"]
