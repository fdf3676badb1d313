"""doctor, the views and recall on a hot standby."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.client.cli_runner import Cli
from tests.support.jobs import register, start
from tests.support.memories import Connection, recall, remember, value
from tests.support.operations import checks, log
from tests.support.standby import caught_up, replicated


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """The standby's, after it took over what an operator could want to see."""
    with replicated() as (first, second):
        with (
            psycopg.connect(first, autocommit=True) as primary,
            psycopg.connect(second, autocommit=True) as following,
        ):
            remember(primary, "w", "We retry three times.")
            log(primary, "w", "now()")
            register(primary)
            start(primary)
            primary.execute("select remem.maintain()")
            caught_up(primary, following)
        yield second


@pytest.fixture
def standby(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


@pytest.mark.covers("RE21")
def test_doctor_reports_there_as_well(standby: Connection) -> None:
    found = checks(standby)
    assert "a standby, last replayed a transaction of" in found["postgres"].detail
    assert found["embeddings:new"].status == "warning"
    assert found["recall_latency"].detail.endswith("(a sample of 1)")
    assert {row.name for row in found.values() if row.status == "error"} == set()
    assert "space" in checks(standby, "w")


def test_the_views_can_be_read_there(standby: Connection) -> None:
    assert value(standby, "select standby from remem.status") is True
    for view in ("embedding_progress", "recall_latency", "index_health"):
        assert value(standby, f"select count(*) > 0 from remem.{view}") is True


def test_recall_answers_there(standby: Connection) -> None:
    assert [hit.body for hit in recall(standby, "w", "retry")] == ["We retry three times."]
    answer = value(standby, "select remem.recall_cached('w', 'retry')")
    assert answer["cache"] == {"state": "skipped", "reason": "read_only"}


def test_upkeep_belongs_to_the_primary(standby: Connection, dsn: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        standby.execute("select remem.maintain()")
    done = Cli(dsn)("maintain")
    assert done.returncode == 1
    assert "read-only" in done.stderr and "Traceback" not in done.stderr
    assert Cli(dsn, REMEM_WORKSPACE="w")("doctor").returncode == 4
