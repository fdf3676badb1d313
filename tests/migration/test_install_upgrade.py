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


@pytest.fixture(params=LANDED, ids=lambda path: path.name)
def landed(request: pytest.FixtureRequest, bare: Connection) -> Iterator[Connection]:
    """A database with a landed version and two memories that it wrote."""
    bare.execute(gzip.decompress(request.param.read_bytes()))
    bare.execute(
        """
        select remem.remember('acme', 'We retry three times, then page.', ref => 'retries');
        select remem.remember('acme', 'We retry five times, then page.', ref => 'retries');
        select remem.remember('acme', 'ERR_4071 means that a disk is full.', ref => 'disk')
        """
    )
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
