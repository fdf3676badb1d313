"""What a write reads: a few rows of a large workspace, also by the plans that a session keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import filled
from tests.support.memories import Connection
from tests.support.plans import nodes, plans

ROWS = 5000
TABLES = {
    "memory",
    "posting",
    "memory_entity",
    "entity_alias",
    "embedding_1",
    "relation",
    "session",
    "topic",
    "tombstone",
    "forgotten",
    "lineage",
}
MOST = 400  # rows that a statement may read of a table for a batch of ten


def fill(db: Connection) -> None:
    """A workspace of 5,000 memories in sessions of fifty, as remember leaves them."""
    for start in range(0, ROWS, 1000):
        db.execute(
            "select count(*) from remem.remember_many('big', %s)",
            [
                Jsonb(
                    [
                        {
                            "ref": f"r{n}",
                            "body": f"Note {n} about topic{n % 40} and Person{n % 300}",
                            "session_ref": f"s{n // 50}",
                            "topic_key": f"topic {n % 40}",
                            "kind": "episodic",
                        }
                        for n in range(start, start + 1000)
                    ]
                )
            ],
        )
    # What became of another workspace's memories; this one has nothing of the sort.
    rows = " from generate_series(1, 5000) n"
    for past in (
        "tombstone (workspace, memory_id, memory_no, created_at, purged_by)"
        " select 'other', gen_random_uuid(), n, now(), 'x'",
        "forgotten (workspace, memory_no, fingerprint, forgotten_at, forgotten_by)"
        " select 'other', n, sha256(n::text::bytea), now(), 'x'",
        "lineage (workspace, old_no, new_no, how, fingerprint)"
        " select 'other', n, n + 1, 'corrected', sha256(n::text::bytea)",
    ):
        db.execute(f"insert into remem.{past}{rows}".encode())
    db.execute("vacuum analyze")


@pytest.fixture(scope="module")
def crowded(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def su(server: Server, crowded: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.superuser_dsn(crowded), autocommit=True) as conn:
        yield conn


def many(**given: Any) -> tuple[str, list[Any]]:
    made = [
        {k: v.format(n, n) if isinstance(v, str) else v for k, v in given.items()}
        for n in range(100, 1100, 100)
    ]
    return "select count(*) from remem.remember_many('big', %s)", [Jsonb(made)]


WRITES: dict[str, tuple[str, list[Any]]] = {
    "one new": ("select remem.remember('big', 'A text of its own about Person7')", []),
    "new ones": many(body="A new text {} about Person{}", kind="episodic"),
    "turns": many(body="A new turn {}", session_ref="s3", kind="episodic"),
    "new versions": many(ref="r{}", body="Another text {} about Person9", kind="episodic"),
    "the same again": many(
        ref="r{}", body="Note {0} said again", session_ref="s{}", kind="episodic"
    ),
    "a pinned one": ("select remem.remember('big', 'Pay', title => 'Rent', pinned => true)", []),
    "a link": (
        "select remem.relate('big', a.memory_id, b.memory_id, 'part_of')"
        " from remem.memory a, remem.memory b where a.workspace = 'big' and a.memory_no = 1"
        " and b.workspace = 'big' and b.memory_no = 2",
        [],
    ),
    "names anew": ("select remem.rebuild_entities('big', null, 10)", []),
    "postings anew": ("select remem.rebuild_postings('big', null, 10)", []),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_reads_few_rows_of_a_large_workspace(
    su: psycopg.Connection[Any], write: str, mode: str
) -> None:
    with su.transaction(force_rollback=True), plans(su, log_analyze="on") as seen:
        su.execute(f"set local plan_cache_mode = {mode}")
        su.execute(*WRITES[write])
    read: dict[str, float] = {}
    for entry in seen:
        for node in nodes(entry["Plan"]):
            table = node.get("Relation Name")
            if table in TABLES and "Scan" in node["Node Type"]:
                removed = node.get("Rows Removed by Filter", 0)
                rows = (node["Actual Rows"] + removed) * node["Actual Loops"]
                text = f"{table}: {entry['Query Text'][:200]}"
                read[text] = max(read.get(text, 0), rows)
    assert read or write == "one new"
    assert {text: rows for text, rows in read.items() if rows > MOST} == {}
