"""C2: k = 300 returns 300 when 300 match."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from remem_pg.filters.where import compile_where
from tests.support.memories import Connection, recall, remember_many


@pytest.fixture(scope="module")
def notes(file_db: Connection) -> Callable[[int, int], str]:
    """`notes(n, part)`: a workspace with n notes, of which `part` are marked; filled once."""

    @cache
    def fill(count: int, part: int) -> str:
        workspace = f"{count} and {part}"
        items = [
            {"body": f"deploy note x{n}y", "metadata": {"part": n < part}} for n in range(count)
        ]
        remember_many(file_db, workspace, items)
        return workspace

    return fill


@pytest.mark.parametrize("matching", [299, 300, 301, 700])
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
def test_k_of_300_returns_300_when_as_many_match(
    file_db: Connection, notes: Callable[[int, int], str], matching: int, mode: str
) -> None:
    hits = recall(file_db, notes(matching, 0), "deploy note", k=300, mode=mode)
    assert len(hits) == min(300, matching)


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
def test_as_many_as_pass_a_condition_come_back(
    file_db: Connection, notes: Callable[[int, int], str], matching: int, mode: str
) -> None:
    filter = compile_where("metadata.part and kind <> 'task'")
    workspace = notes(900, matching)
    hits = recall(file_db, workspace, "deploy note", k=300, mode=mode, filter=filter)
    assert len(hits) == min(300, matching)


def test_as_many_as_the_context_has_come_back(db: Connection) -> None:
    owners: list[dict[str, str]] = [{}, {"scope": "user", "scope_ref": "ann"},
                                    {"scope": "user", "scope_ref": "ben"}]  # fmt: skip
    remember_many(db, "w", [{"body": f"deploy note x{n}y", **owners[n % 3]} for n in range(900)])
    for scopes, most in ((None, 300), ({"user": "ann"}, 600), ({"user": ["ann", "ben"]}, 900)):
        assert len(recall(db, "w", "deploy note", k=1000, scopes=scopes)) == most
