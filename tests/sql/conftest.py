"""A workspace with a few memories, and a second session on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.memories import (
    Connection,
    remember,
)


@pytest.fixture
def filled(db: Connection) -> Connection:
    remember(db, "w", "We retry three times, then page.", ref="retries", kind="decision")
    remember(db, "w", "Deployments happen on Tuesdays.", ref="deploys", title="Deploys")
    remember(db, "w", "Ana prefers oat milk.", ref="coffee", kind="preference")
    return db


@pytest.fixture
def other(connect: Callable[[str], Connection], filled: Connection) -> Connection:
    return connect(filled.info.user)
