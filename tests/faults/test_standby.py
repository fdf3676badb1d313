"""A hot standby, once: `make faults` repeats it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from evals.faults import standby
from evals.faults.servers import Place, discard
from tests.access.doors import doors, furnish, refusal
from tests.support.faults import passed


def test_a_standby_answers_as_the_primary_does(where: Place) -> None:
    outcome = passed(standby.reading(where, 1))
    assert "primary" in outcome.facts["a write on the standby"]
    assert outcome.facts["cache and log"] == "skipped, and said so"


def test_a_standby_that_takes_over_has_everything(where: Place) -> None:
    outcome = passed(standby.failover(where, 1))
    assert set(outcome.errors) <= {"ServerUnavailable", "ReadOnly"}


# -- case C28: every public function there -----------------------------------------------------


@pytest.fixture
def pair(where: Place) -> Iterator[tuple[Any, Any]]:
    """The owner's connections to a furnished database and to its standby."""
    with where.cluster("doors") as primary:
        with psycopg.connect(primary.dsn, autocommit=True) as conn:
            furnish(conn)
        second = primary.copy(where.directory / "doors-standby")
        try:
            second.start()
            standby.wait_for_standby(primary)
            assert standby.caught_up(primary, second)
            with (
                psycopg.connect(primary.dsn, autocommit=True) as there,
                psycopg.connect(second.dsn, autocommit=True) as here,
            ):
                yield there, here
        finally:
            discard(second)


def test_every_function_does_on_a_standby_what_it_does_in_a_read_only_transaction(
    pair: tuple[Any, Any],
) -> None:
    there, here = pair
    there.execute("set default_transaction_read_only = on")
    for conn in pair:
        conn.execute("select '[1]'::public.vector")  # which declares settings of its own
        conn.execute("do 'begin end'")
    settings = "select jsonb_object_agg(name, setting) from pg_settings"
    before = here.execute(settings).fetchone()
    found = doors(there)
    on_primary = {door.name: refusal(door, there, door.working()) for door in found}
    on_standby = {door.name: refusal(door, here, door.working()) for door in found}
    assert on_standby == on_primary
    assert on_standby["recall"] == on_standby["plan"] == on_standby["recall_cached"] == ""
    assert on_standby["remember"] == "25006"
    assert here.execute(settings).fetchone() == before
