"""A hot standby, once: `make faults` repeats it."""

from __future__ import annotations

from evals.faults import standby
from evals.faults.servers import Place
from tests.support.faults import passed


def test_a_standby_answers_as_the_primary_does(where: Place) -> None:
    outcome = passed(standby.reading(where, 1))
    assert "primary" in outcome.facts["a write on the standby"]
    assert outcome.facts["cache and log"] == "skipped, and said so"


def test_a_standby_that_takes_over_has_everything(where: Place) -> None:
    outcome = passed(standby.failover(where, 1))
    assert set(outcome.errors) <= {"ServerUnavailable", "ReadOnly"}
