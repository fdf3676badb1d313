"""Workspaces and models for the jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remem_pg import Remem
from remem_pg.spaces import reembed as reembed_flow
from tests.support.jobs import Shares


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for readers of other programs need not wait here, but for a moment."""
    monkeypatch.setattr(reembed_flow, "GRACE", 0.1)


@pytest.fixture
def old(db_dsn: str) -> Iterator[Remem]:
    """A client of the workspace w with a model of its own, and thirty memories."""
    with Remem(db_dsn, workspace="w", embedding=Shares("old", 0)) as client:
        client.remember_many([{"body": f"memory {n}", "ref": f"r{n}"} for n in range(30)])
        yield client


@pytest.fixture
def new(db_dsn: str) -> Iterator[Remem]:
    """A client of the same workspace with another model of equal dimensions."""
    with Remem(db_dsn, workspace="w", embedding=Shares("new", 1)) as client:
        yield client
