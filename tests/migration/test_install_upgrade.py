"""Every landed version's installation, kept as a script, upgrades to what a fresh one is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import install
from tests.migration.catalog import installation

Connection = psycopg.Connection[Any]
LANDED = sorted((Path(__file__).parent / "landed").glob("*.sql.gz"))

WRITTEN = """
    select remem.remember('acme', 'We retry three times, then page.', ref => 'retries');
    select remem.remember('acme', 'We retry five times, then page.', ref => 'retries');
    select remem.remember('acme', 'ERR_4071 means that a disk is full.', ref => 'disk')
"""


@pytest.fixture(params=LANDED, ids=lambda path: path.name)
def landed(request: pytest.FixtureRequest, bare: Connection) -> Iterator[Connection]:
    """A database with a landed version and two memories that it wrote."""
    bare.execute(gzip.decompress(request.param.read_bytes()))
    bare.execute(WRITTEN)
    yield bare


def test_there_is_a_landed_version() -> None:
    assert LANDED


def test_an_upgraded_database_has_the_catalog_of_a_fresh_one(
    landed: Connection, db: Connection
) -> None:
    report = install.migrate(landed)
    assert report.previous_version is not None
    fresh, upgraded = installation(db), installation(landed)
    assert upgraded.keys() == fresh.keys()
    assert {name for name in fresh if fresh[name] != upgraded[name]} == set()


def test_what_was_written_before_is_recalled_after(landed: Connection) -> None:
    install.migrate(landed)
    hits = landed.execute(
        "select ref, body from remem.recall('acme', 'how often do we retry?')"
    ).fetchall()
    assert hits[0] == ("retries", "We retry five times, then page.")
    assert landed.execute("select remem.count('acme')").fetchone() == (2,)


def test_names_of_older_memories_are_found_once_they_are_rebuilt(landed: Connection) -> None:
    """0.1 had no names; a later version has them."""
    report = install.migrate(landed)
    indexed = landed.execute("select count(*) > 0 from remem.memory_entity").fetchone()
    assert indexed == (report.previous_version != "0.1.0",)
    landed.execute("select remem.rebuild_entities('acme')")
    found = landed.execute(
        "select remem.recall_explain('acme', 'what is ERR_4071?',"
        """ options => '{"arms": ["pointer"]}') #>> '{arms,pointer,found}'"""
    ).fetchone()
    assert found == ("1",)


def test_filters_see_of_older_memories_what_they_see_of_new_ones(landed: Connection) -> None:
    landed.execute(
        "select remem.remember('owned', 'The host is heron.', scope => 'user', scope_ref => 'ann')"
    )
    install.migrate(landed)
    landed.execute("select remem.remember('acme', 'A new memory.', ref => 'new')")
    landed.execute("set timezone = 'UTC'")
    rows = landed.execute(
        "select attrs ->> 'created_at', to_jsonb(created_at) #>> '{}', attrs ->> 'freshness',"
        " freshness from remem.memory"
    ).fetchall()
    assert len(rows) == 5
    for created, expected, label, freshness in rows:
        assert (created, label) == (expected, freshness)
    flags = landed.execute("select workspace, scoped from remem.workspace order by 1").fetchall()
    assert flags == [("acme", False), ("owned", True)]
    assert landed.execute("select count(*) from remem.recall('owned', 'host')").fetchone() == (0,)


# -- a database in use -----------------------------------------------------------------------------

# What both landed versions could be asked; each has a memory that answers it best.
QUESTIONS = (
    "how often do we retry?",
    "what did Ana say about the deployment?",
    "who is called Turing?",
    "ERR_4071",
    "which port does the staging database listen on?",
    "納期はいつですか",
)


def fill(conn: Connection) -> None:
    """Two workspaces with versions, a conversation, scripts, vectors, grants and settings."""
    for workspace in ("acme", "記憶"):
        bodies = [
            ("The office cat is called Turing.", "cat", None, None),
            ("The deployment is on Tuesday.", "deploy", "standup", "Ana"),
            ("Then I will be away.", "away", "standup", "Ben"),
            ("納期は金曜日です。", "due", None, None),
            ("The log says ERR_4071 when the disk is full.", "log", None, None),
            ("The staging database listens on port 5433.", "port", None, None),
        ]
        bodies += [(f"Note {n} about topic {n % 7}.", f"note{n}", None, None) for n in range(40)]
        bodies += [(f"We retry {n} times, then page.", "retries", None, None) for n in (3, 5)]
        for body, ref, session, speaker in bodies:
            conn.execute(
                "select remem.remember(%s, %s, ref => %s, session_ref => %s, speaker => %s, "
                "tags => '{a,b}', metadata => '{\"n\": 1}')",
                (workspace, body, ref, session, speaker),
            )
    conn.execute("select remem.grant_access('pg_monitor', 'acme', 'write')")
    conn.execute(
        'select remem.register_space(\'{"name": "n", "backend": "b", "asset": "a", '
        '"dimensions": 2}\')'
    )


def answers(conn: Connection) -> dict[str, list[str]]:
    """The refs of each question, best first."""
    return {
        f"{workspace}: {question}": [
            ref
            for (ref,) in conn.execute(
                "select ref from remem.recall(%s, %s, k => 5)", (workspace, question)
            )
        ]
        for workspace in ("acme", "記憶")
        for question in QUESTIONS
    }


# What later versions added inside a column.
SINCE = {"attrs": "attrs - '{created_at,freshness}'::text[] as attrs"}


def rows(conn: Connection, like: dict[str, Any] | None = None) -> dict[str, Any]:
    """Every row of every table; only the tables and columns of ``like``, where it is given."""
    found: dict[str, Any] = {}
    for (table,) in conn.execute(
        "select c.relname::text from pg_class c where c.relnamespace = 'remem'::regnamespace "
        "and c.relkind = 'r' order by 1"
    ).fetchall():
        columns = [
            name
            for (name,) in conn.execute(
                "select attname::text from pg_attribute where attrelid = ('remem.' || %s)::regclass"
                " and attnum > 0 and not attisdropped order by 1",
                (table,),
            )
        ]
        if like is not None:
            if table not in like:
                continue
            columns = [name for name in columns if name in like[table][0]]
        chosen = ", ".join(SINCE.get(name, name) for name in columns)
        found[table] = (
            columns,
            conn.execute(f"select {chosen} from remem.{table}".encode()).fetchall(),
        )
    return found


# What an upgrade is there to change: the ledger, the version, rows that a newer version brings.
CHANGES = {"schema_migration", "setting", "source_class", "route", "embedding_space"}

# Since 0.6.0 these have numbers for workspaces and words.
POSTINGS = {"posting", "posting_past"}
REKEYED = {*POSTINGS, "frequent_word"}


def postings(conn: Connection) -> set[tuple[Any, ...]]:
    """The rows of the inverted index as they are since 0.6.0, made of those from before."""
    found = set()
    for table in POSTINGS:
        found |= set(
            conn.execute(
                "select %s, ('x' || encode(substr(sha256(convert_to(workspace, 'UTF8')), 1, 8),"
                " 'hex'))::bit(64)::bigint, hashtextextended(lexeme, 0), memory_no, session_no,"
                f" doc_len, tf from remem.{table}",
                [table],
            ).fetchall()
        )
    return found


def test_an_upgrade_keeps_every_row_and_every_best_answer(landed: Connection) -> None:
    fill(landed)
    before, asked, words = rows(landed), answers(landed), postings(landed)
    install.migrate(landed)
    after = rows(landed, like=before)
    assert after.keys() == before.keys()
    assert len(words) > 100
    assert words == {
        (table, *row)
        for table in POSTINGS
        for row in landed.execute(
            f"select workspace_key, word, memory_no, session_no, doc_len, tf from remem.{table}"
        )
    }
    for table in before.keys() - CHANGES - REKEYED:
        assert after[table][0] == before[table][0], table
        assert sorted(map(repr, after[table][1])) == sorted(map(repr, before[table][1])), table
    for table in CHANGES & before.keys():
        assert len(after[table][1]) >= len(before[table][1]), table
    # The best answer stays; what comes behind it may be what a newer version ranks there.
    now = answers(landed)
    assert {question: refs[0] for question, refs in now.items()} == {
        question: refs[0] for question, refs in asked.items()
    }


def test_an_upgraded_database_answers_as_one_that_this_version_filled(
    landed: Connection, db: Connection
) -> None:
    fill(landed)
    install.migrate(landed)
    db.execute(WRITTEN)
    fill(db)
    for conn in (landed, db):
        for workspace in ("acme", "記憶"):
            conn.execute("select remem.rebuild_entities(%s)", (workspace,))
    assert answers(landed) == answers(db)
