"""C2: k = 300 returns 300 when 300 match."""

from __future__ import annotations

import pytest

from remem_pg.filters import compile_where
from tests.support.memories import Connection, recall, remember_many


@pytest.mark.parametrize("matching", [299, 300, 301, 700])
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
def test_k_of_300_returns_300_when_as_many_match(db: Connection, matching: int, mode: str) -> None:
    remember_many(db, "w", [{"body": f"deploy note x{n}y"} for n in range(matching)])
    assert len(recall(db, "w", "deploy note", k=300, mode=mode)) == min(300, matching)


def test_k_at_its_limit_returns_all_that_match(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"deploy note x{n}y"} for n in range(1000)])
    assert len(recall(db, "w", "deploy note", k=1000)) == 1000


def test_a_kind_filter_leaves_k_hits_too(db: Connection) -> None:
    remember_many(
        db,
        "w",
        [{"body": f"deploy x{n}y", "kind": ("task", "other")[n % 2]} for n in range(700)],
    )
    hits = recall(db, "w", "deploy", k=300, kinds=["task"])
    assert len(hits) == 300
    assert {hit.kind for hit in hits} == {"task"}


@pytest.mark.parametrize("matching", [299, 300, 301])
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
def test_as_many_as_pass_a_condition_come_back(db: Connection, matching: int, mode: str) -> None:
    items = [{"body": f"deploy note x{n}y", "metadata": {"part": n < matching}} for n in range(900)]
    remember_many(db, "w", items)
    filter = compile_where("metadata.part and kind <> 'task'")
    hits = recall(db, "w", "deploy note", k=300, mode=mode, filter=filter)
    assert len(hits) == min(300, matching)


def test_as_many_as_the_context_has_come_back(db: Connection) -> None:
    owners: list[dict[str, str]] = [{}, {"scope": "user", "scope_ref": "ann"},
                                    {"scope": "user", "scope_ref": "ben"}]  # fmt: skip
    remember_many(db, "w", [{"body": f"deploy note x{n}y", **owners[n % 3]} for n in range(900)])
    for scopes, most in ((None, 300), ({"user": "ann"}, 600), ({"user": ["ann", "ben"]}, 900)):
        assert len(recall(db, "w", "deploy note", k=1000, scopes=scopes)) == most
