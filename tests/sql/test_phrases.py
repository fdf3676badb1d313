"""Quoted phrases and excluded words where every memory holds the words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server import Server
from tests.support.databases import inspected
from tests.support.memories import Connection, recall, remember
from tests.support.plans import nodes, plans

ROWS = 3000


def fill(db: Connection) -> None:
    """3,000 memories of one vocabulary, a sixth forgotten, and two workspaces beside them."""
    for workspace, size in (("large", ROWS), ("small", 60), ("other", 600)):
        db.execute("select remem.create_workspace(%s)", [workspace])
        db.execute(
            """
            with made as (
              insert into remem.memory (workspace, kind, scope, body, source_class, attrs,
                fingerprint, content_hash, doc_len, lexemes, analyser_no)
              select %(workspace)s, 'semantic', 'global', array_to_string(w.words, ' '),
                'unspecified', jsonb_build_object('workspace', %(workspace)s::text),
                sha256(n::text::bytea), '', 13, w.words, 1
              from generate_series(1, %(size)s) n
              cross join lateral (select array(
                select 'c' || i from generate_series(1, 12) i) || ('v' || n %% 40) as words) w
              returning workspace, memory_no, lexemes
            ), indexed as (
              insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)
              select remem._workspace_key(m.workspace), remem._word(l), m.memory_no, 13, 1
              from made m cross join unnest(m.lexemes) l
            )
            insert into remem.tally values (%(workspace)s, 0, %(size)s, 13 * %(size)s)
            """,
            {"workspace": workspace, "size": size},
        )
    db.execute(
        "select count(remem.forget('large', memory_id => m.memory_id)) from (select memory_id"
        " from remem.memory where workspace = 'large' order by memory_no limit %s) m",
        [ROWS // 6],
    )


@pytest.fixture(scope="module")
def fresh(server: Server) -> Iterator[Connection]:
    with inspected(server, fill) as su:
        yield su


@pytest.fixture(scope="module", params=["never analysed", "analysed"])
def alike(fresh: Connection, request: pytest.FixtureRequest) -> Connection:
    """The one database, first as it was filled: a scope of a module has its tests in this order."""
    if request.param == "analysed":
        fresh.execute("analyze")
    return fresh


def most_read(seen: list[dict[str, Any]], table: str) -> float:
    """The most rows of a table that one node of a plan looked at."""
    return max(
        (
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in every_node(seen)
            if node.get("Relation Name") == table
        ),
        default=0,
    )


def most_compared(seen: list[dict[str, Any]]) -> float:
    """The most pairs of rows that one node of a plan compared, or times that it was begun anew."""
    return max(
        (1 + node.get("Rows Removed by Join Filter", 0)) * node["Actual Loops"]
        for node in every_node(seen)
    )


def every_node(seen: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in seen:
        yield from nodes(entry["Plan"])


@pytest.mark.parametrize("workspace", ["large", "small"])
@pytest.mark.parametrize(
    ("query", "k"), [('"c3 c5" v7', 8), ('"c3 c4" v7', 8), ('"c12 v7"', 8), ("c3 v7 -v8", 100)]
)
def test_each_memory_is_looked_at_once_at_most(
    alike: Connection, query: str, k: int, workspace: str
) -> None:
    for mode in ("auto", "force_generic_plan"):
        alike.execute(f"set plan_cache_mode = {mode}")
        with plans(alike, log_analyze="on", log_timing="off") as seen:
            assert recall(alike, workspace, query, k=k)
        assert 0 < most_read(seen, "memory") <= ROWS
        assert most_compared(seen) <= 2 * ROWS
        conditions = [
            node["Index Cond"]
            for node in every_node(seen)
            if node.get("Index Name") == "posting_pkey"
        ]
        assert conditions
        assert all("word =" in condition for condition in conditions)
        # Two words of a phrase, each looked up for every row that holds the other.
        assert 0 < most_read(seen, "posting") <= 2.5 * ROWS


@pytest.mark.covers("ME18")
def test_the_rows_that_hold_most_of_the_phrases_come_first(db: Connection) -> None:
    for n in range(30):
        remember(db, "w", f"The blue heron of pond {n} waits.", ref=f"heron{n}")
    remember(db, "w", "The blue heron met a grey crane.", ref="both")
    remember(db, "w", "A heron, blue, and a crane, grey.", ref="neither")
    for n in range(30):
        remember(db, "w", f"A grey crane of lake {n} flies.", ref=f"crane{n}")
    hits = recall(db, "w", '"blue heron" "grey crane"', k=5)
    assert hits[0].ref == "both"
    assert "phrase" in hits[0].arms
    assert not any("phrase" in hit.arms for hit in hits if hit.ref == "neither")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"the of and"', []),  # no searchable word in it
        ('"heron unheard"', []),
        ('"unheard" "blue heron"', ["r"]),
        ('"BLUE  Héron"', ["r"]),
        ('"still. And"', ["r"]),
        ('"heron heron"', []),
        ('"blue heron" "blue heron"', ["r"]),
    ],
)
def test_what_a_phrase_finds(db: Connection, query: str, found: list[str]) -> None:
    remember(db, "w", "A blue heron stands still.\r\nAnd\tlooks.", ref="r")
    remember(db, "w", "A heron that is blue stands still.", ref="other")
    hits = [hit.ref for hit in recall(db, "w", query) if "phrase" in hit.arms]
    assert hits == found
