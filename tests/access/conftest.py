"""A furnished database and the people who come to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKSPACE, furnish, grant

Connection = psycopg.Connection[Any]


@pytest.fixture
def furnished(db: Connection) -> Connection:
    """The owner's connection to a database with one workspace and two embedding spaces."""
    furnish(db)
    return db


@pytest.fixture
def enter(
    furnished: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> Callable[..., Connection]:
    """`enter("read")`: a new role with that level in the workspace, connected; None: no grant.

    `workspace=None` grants all workspaces.
    """

    def come(level: str | None = None, workspace: str | None = WORKSPACE) -> Connection:
        role = make_role(level or "stranger")
        if level is not None:
            grant(furnished, role, workspace, level)
        return connect(role)

    return come
