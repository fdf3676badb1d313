"""Servers that may be broken: of their own and durable, unlike the run's."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from evals.faults.ledger import INSPECTIONS
from evals.faults.servers import Place, place
from evals.hushed import hushed
from tests.support.consistency import problems
from tests.support.places import new_directory


def inconsistencies(dsn: str) -> list[str]:
    """What the derived tables say other than the memories."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        return problems(conn)


@pytest.fixture(scope="module")
def where() -> Iterator[Place]:
    INSPECTIONS.append(inconsistencies)
    with hushed("psycopg.pool"), place(new_directory("remem-faults-")) as made:
        yield made
    INSPECTIONS.remove(inconsistencies)
