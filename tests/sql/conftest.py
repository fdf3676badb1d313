"""Workspaces with a few memories, and a second session on one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.jobs import register, start
from tests.support.memories import Connection, remember, remember_many

TEAM = [
    {"ref": "tz", "body": "Mei works from Lisbon.", "subject": "Mei", "attribute": "city"},
    {"ref": "deploy", "body": "We deploy on Tuesdays.", "kind": "decision", "pinned": True},
    {"ref": "t1", "body": "Shall we freeze deploys?", "session_ref": "s", "speaker": "Ana"},
    {"ref": "t2", "body": "Only before holidays.", "session_ref": "s", "speaker": "Bo"},
    {"ref": "t3", "body": "Then the pager rests.", "session_ref": "s", "speaker": "Ana"},
    {"ref": "err", "body": "ERR_4071 means the disk of the build machine is full."},
]


@pytest.fixture
def filled(db: Connection) -> Connection:
    remember(db, "w", "We retry three times, then page.", ref="retries", kind="decision")
    remember(db, "w", "Deployments happen on Tuesdays.", ref="deploys", title="Deploys")
    remember(db, "w", "Ana prefers oat milk.", ref="coffee", kind="preference")
    return db


@pytest.fixture
def other(connect: Callable[[str], Connection], filled: Connection) -> Connection:
    return connect(filled.info.user)


@pytest.fixture
def team(db: Connection) -> Connection:
    """A few memories of every kind that the stages look for."""
    remember_many(db, "acme", TEAM)
    return db


@pytest.fixture(scope="module")
def file_team(file_db: Connection) -> Connection:
    """As `team`, for the tests of a file that only read."""
    remember_many(file_db, "acme", TEAM)
    return file_db


@pytest.fixture
def moving(db: Connection) -> Connection:
    """Ten memories on their way to a space of three dimensions."""
    remember_many(db, "w", [{"body": f"memory {n}", "ref": f"r{n}"} for n in range(10)])
    register(db)
    start(db)
    return db
