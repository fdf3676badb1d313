"""C9: a vector of the wrong dimension is an error naming both, never zero rows in silence."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection, recall, refused, remember, remember_many


@pytest.mark.parametrize("got", [1, 383, 385, 768, 1536, 3072])
def test_a_row_and_a_query_of_another_dimension_name_both(db: Connection, got: int) -> None:
    remember(db, "w", "The queue retries.")
    with refused("RM201", item=1, space="hash", expected=384, got=got):
        remember(db, "w", "x", embedding=[0.1] * got)
    with refused("RM201", item=2, space="hash", expected=384, got=got):
        remember_many(db, "w", [{"body": "y"}, {"body": "x", "embedding": [0.1] * got}])
    for mode in ("auto", "vector", "retrieval_only"):
        with refused("RM201", space="hash", expected=384, got=got):
            recall(db, "w", "queue", embedding=[0.1] * got, mode=mode)


def test_the_lexical_mode_does_not_look_at_the_vector(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    assert len(recall(db, "w", "queue", embedding=[0.1] * 7, mode="lexical")) == 1
