"""What every fault has to come to."""

from __future__ import annotations

from evals.faults.ledger import Outcome


def passed(outcome: Outcome) -> Outcome:
    assert outcome.passed, outcome.as_dict()
    assert outcome.acknowledged == outcome.found > 20
    return outcome
