"""All faults in turn, and what is printed of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from evals.faults import clock, crashes, disk, network, standby
from evals.faults.ledger import Outcome
from evals.faults.servers import Place, place
from evals.hushed import hushed
from evals.report import table

Fault = Callable[[Place, int], Outcome]

#: Name on the command line, the fault, and how often each is repeated in the long form.
FAULTS: dict[str, tuple[Fault, int]] = {
    "kill": (crashes.killed, 6),
    "kill-session": (crashes.backend_killed, 4),
    "restart": (crashes.restarted, 4),
    "cut": (network.cut, 10),
    "disk": (disk.everything, 3),
    "disk-tables": (disk.tables, 3),
    "clock": (clock.moved, 2),
    "standby": (standby.reading, 2),
    "failover": (standby.failover, 3),
}


def faults_here(where: Place) -> list[str]:
    """The faults that this account can make: a disk under tables alone needs the right to mount."""
    return [name for name in FAULTS if name != "disk-tables" or disk.may_mount(where.directory)]


# The pools say of every connection that it is gone; that is what is being done to them.
@hushed("psycopg.pool")
def run(names: list[str] | None, short: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """Each fault on servers of its own; a document with one outcome a fault."""
    outcomes = []
    left_out: list[str] = []
    with place() as where:
        possible = faults_here(where)
        for name in names or list(FAULTS):
            if name not in possible:
                left_out.append(name)
                progress(f"{name}: needs the right to mount a file system (run it as root)")
                continue
            fault, rounds = FAULTS[name]
            started = time.perf_counter()
            outcome = fault(where, 1 if short else rounds)
            seconds = time.perf_counter() - started
            verdict = "passed" if outcome.passed else f"FAILED {outcome.as_dict()}"
            progress(f"{name}: {verdict}, {seconds:.0f} s")
            outcomes.append({"name": name, "seconds": round(seconds, 1), **outcome.as_dict()})
    return {"evaluation": "faults", "outcomes": outcomes, "left_out": left_out}


def page(document: dict[str, Any]) -> str:
    """One row a fault: what was acknowledged, what was found afterwards, what was lost."""
    header = ("fault", "acknowledged", "found", "lost", "failed calls", "raised", "went on")
    rows = []
    for outcome in document["outcomes"]:
        raised = ", ".join(outcome["errors"]) or "nothing"
        rows.append(
            (
                outcome["fault"],
                str(outcome["acknowledged"]),
                str(outcome["found"]),
                str(outcome["lost"]),
                str(outcome["failed_calls"]),
                raised if not outcome["untyped"] else "; ".join(outcome["untyped"])[:60],
                "yes" if outcome["recovered"] else "NO",
            )
        )
    lines = [table(header, rows)]
    for outcome in document["outcomes"]:
        lines += [f"{outcome['fault']}: {problem}" for problem in outcome["problems"]]
    failed = [outcome["fault"] for outcome in document["outcomes"] if not outcome["passed"]]
    lines.append("")
    lines.append(f"failed: {', '.join(failed)}" if failed else "Nothing acknowledged was lost.")
    if document["left_out"]:
        lines.append(f"left out: {', '.join(document['left_out'])}")
    return "\n".join(lines)
