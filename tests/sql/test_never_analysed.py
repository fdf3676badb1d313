"""Freshly filled tables, without statistics and with: what has a key is looked up by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import inspected
from tests.support.memories import Connection
from tests.support.plans import looked_at, most_compared, plans

ROWS, TOPICS, VERSIONS = 1500, 300, 150


def fill(db: Connection) -> None:
    """1,500 memories about 300 topics, and a ref of 150 versions; another's lineage beside it."""
    items = [
        {"body": f"Note {n} about it", "topic_key": f"topic {n % TOPICS}", "ref": f"n{n}"}
        for n in range(ROWS)
    ]
    db.execute("select count(*) from remem.remember_many('w', %s)", [Jsonb(items)])
    for n in range(VERSIONS):
        db.execute("select remem.remember('w', %s, ref => 'r')", [f"Version {n} of it."])
    db.execute(
        "insert into remem.lineage (workspace, old_no, new_no, how, fingerprint)"
        " select 'other', n, n + 1, 'corrected', sha256(n::text::bytea)"
        " from generate_series(1, 3000) n"
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


@pytest.mark.parametrize(
    ("call", "table", "most"),
    [
        ("select count(*) from remem.list_topics('w')", "memory", 2 * TOPICS),
        ("select count(*) from remem.embedding_backlog('w')", "memory", 4 * TOPICS),
        ("select count(*) from remem.export('w')", "memory", 8 * ROWS),
        (
            "select count(*) from remem.remember_many('w', (select jsonb_agg(jsonb_build_object("
            "'body', 'new ' || n, 'topic_key', 'topic ' || n)) from generate_series(1, 50) n))",
            "memory",
            4 * ROWS,
        ),
        ("select count(*) from remem.catalog_without_embedding('w')", "memory", 0),
        ("select count(*) from remem.embedding_work()", "memory", 0),
        ("select count(*) from remem.doctor('w')", "topic", 5 * TOPICS),
        ("select remem.forget('w', ref => 'r')", "lineage", 10 * VERSIONS),
        ("select count(*) from remem.get('w', ref => 'none')", "memory", 10),
        ("select remem._lock_names('w', '{n7}', '{}')", "memory", 10),
        ("select count(*) from remem.history('w', ref => 'r')", "lineage", 10 * VERSIONS),
        ("select count(*) from remem.recall('w', 'note 7 about')", "memory", 100),
        (
            "select remem.forget_where('w', '$.topic_key like_regex \"[12]..$\"', false)",
            "memory",
            40 * ROWS,
        ),
    ],
)
def test_a_call_looks_at_few_rows(alike: Connection, call: str, table: str, most: int) -> None:
    for _ in range(2):
        with (
            alike.transaction(force_rollback=True),
            plans(alike, log_analyze="on", log_timing="off") as seen,
        ):
            alike.execute(call)
        assert looked_at(seen, table) <= most
        assert most_compared(seen) <= 4 * ROWS
