"""The catalogs that are kept for a moment without a database."""

from __future__ import annotations

import pytest

from remem_pg.context.snapshots import Snapshot, Snapshots
from remem_pg.errors import ServerUnavailable
from tests.context.fakes import Client, Database, memory, plan

RETRY = memory("We retry three times, then page.")


@pytest.mark.covers("RP59")
def test_no_catalog_is_kept_of_a_plan_that_missed_a_provider() -> None:
    database = Database(plan("postgres", degraded=["provider_unavailable:wiki"]), [RETRY])
    client = Client(database)
    assert client.context("retries?").text
    database.answers["plan"] = ServerUnavailable("gone")
    assert client.context("retries?").text == ""


@pytest.mark.covers("RP59")
def test_a_catalog_is_kept_for_thirty_seconds_and_ten_contexts() -> None:
    now = 0.0
    kept = Snapshots(clock=lambda: now)
    for name in range(12):
        kept.put(name, Snapshot(str(name), 1, 0))
    assert [kept.get(name) is not None for name in range(12)] == [False] * 2 + [True] * 10
    now = 29.9
    assert kept.get(11) == Snapshot("11", 1, 0)
    now = 30.0
    assert kept.get(11) is None
