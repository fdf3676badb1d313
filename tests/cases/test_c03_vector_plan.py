"""C3: the vector arm of a large workspace walks its HNSW index, whatever surrounds it.

Every plan within the limits of a few hundred thousand rows is looked at in
tests/sql/test_recall_plans_large.py; here every function that recalls is, with little data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import Server
from tests.support.databases import filled, indexes_last
from tests.support.memories import Connection, open_space
from tests.support.plans import nodes, plans

ROWS = 25_000  # above the size up to which all vectors are compared
INDEX = "embedding_2_hnsw_idx"
VECTOR = "array[0.5, -0.25, 0.125, 0.3]::real[]"

FILL = f"""
insert into remem.memory (workspace, memory_no, kind, scope, body, source_class, attrs,
  fingerprint, content_hash, doc_len, lexemes, analyser_no)
select 'w', n, 'semantic', 'global', 'common v' || n, 'unspecified',
  '{{"workspace": "w", "kind": "semantic"}}', sha256(n::text::bytea),
  '', 2, array['common', 'v' || n], 1
from generate_series(1, {ROWS}) n;
insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)
select remem._workspace_key('w'), remem._word(l), n, 2, 1
from generate_series(1, {ROWS}) n, unnest(array['common', 'v' || n]) l;
insert into remem.embedding_2
select 'w', n, array(select (random() - 0.5 + 0 * n)::real from generate_series(1, 4))
from generate_series(1, {ROWS}) n;
insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
values ('w', 0, {ROWS}, {2 * ROWS}), ('w', 2, {ROWS}, 0);
"""


def fill(db: Connection) -> None:
    db.execute("select setseed(0.5)")
    open_space(db, "plan", 4)
    db.execute("select remem.create_workspace('w')")
    with indexes_last(db, "memory", "posting", "embedding_2"):
        db.execute(FILL)
    db.execute("vacuum analyze")


@pytest.fixture(scope="module")
def large(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def su(server: Server, large: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.superuser_dsn(large), autocommit=True) as conn:
        yield conn


CALLS = {
    "recall": f"select * from remem.recall('w', 'common v77', {VECTOR})",
    "many hits": f"select * from remem.recall('w', 'common', {VECTOR}, 300)",
    "under a limit": f"select body from remem.recall('w', 'x', {VECTOR}) order by rank limit 1",
    "in a CTE": f"with r as (select * from remem.recall('w', 'x', {VECTOR}))"
    " select count(*) from r",
    "beside a window": "select row_number() over (order by score desc), body"
    f" from remem.recall('w', 'x', {VECTOR})",
    "joined": f"select * from generate_series(1, 2) n, remem.recall('w', 'x' || n, {VECTOR})",
    "explained": f"select remem.recall_explain('w', 'common', {VECTOR})",
    "cached": f"select remem.recall_cached('w', 'common', {VECTOR})",
    "vectors only": f"select * from remem.recall('w', 'x', {VECTOR}, 8,"
    ' \'{"mode": "vector"}\')',
    "a broad filter": f"select * from remem.recall('w', 'x', {VECTOR}, 8,"
    ' \'{"kinds": ["semantic"]}\')',
}


def walks(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        entry["Plan"]
        for entry in seen
        if any(node.get("Index Name") == INDEX for node in nodes(entry["Plan"]))
    ]


@pytest.mark.parametrize("name", CALLS)
def test_the_index_is_walked_without_sorting(su: psycopg.Connection[Any], name: str) -> None:
    with plans(su) as seen:
        assert su.execute(CALLS[name].encode()).fetchall()
    found = walks(seen)
    assert found
    for plan in found:
        kinds = {node["Node Type"] for node in nodes(plan)}
        assert not {"Sort", "Incremental Sort", "WindowAgg", "Seq Scan"} & kinds


@pytest.mark.parametrize("prepare", [False, True], ids=["unprepared", "prepared"])
def test_the_tenth_call_walks_it_as_the_first_did(
    su: psycopg.Connection[Any], prepare: bool
) -> None:
    for _ in range(10):
        with plans(su) as seen:
            query = f"select memory_id from remem.recall('w', %s, {VECTOR})"
            rows = su.execute(query, ["common v77"], prepare=prepare).fetchall()  # type: ignore[arg-type]
        assert len(rows) == 8
        assert len(walks(seen)) == 1


@pytest.mark.parametrize(
    "setting",
    [
        "plan_cache_mode = force_generic_plan",
        "enable_indexscan = on",
        "random_page_cost = 40",
        "work_mem = '1GB'",
        "effective_cache_size = '1MB'",
        "jit_above_cost = 0",
    ],
)
def test_settings_of_the_session_do_not_turn_it_off(
    su: psycopg.Connection[Any], setting: str
) -> None:
    su.execute(f"set {setting}".encode())
    with plans(su) as seen:
        su.execute(CALLS["recall"].encode())
    assert len(walks(seen)) == 1


def test_the_ratios_of_a_query_of_ones_own_are_what_the_arm_avoids(
    su: psycopg.Connection[Any],
) -> None:
    """The trap itself: a window over the distance reads every vector. (What the case is about.)"""
    with plans(su) as seen:
        su.execute(
            "select memory_no, row_number() over (order by embedding <=> '[1,0,0,0]') as n"
            " from remem.embedding_2 where workspace = 'w' order by n limit 10"
        )
    assert walks(seen) == []
