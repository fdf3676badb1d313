"""The job that analyses the memories of a workspace anew, call by call, until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from remem_pg import checks
from remem_pg.errors import InvalidArgument
from remem_pg.steps import Flow, InTransaction, Run, Session, Work
from remem_pg.tenancy import calls as admin_calls
from remem_pg.tenancy.models import ReindexReport

SLICE = 0.5
"""Seconds of one call: what it holds, it holds no longer."""
PAUSE = 0.1
"""Seconds before another try when everything left was held by somebody else."""

Progress = Callable[[float, int], None]


def reindex_text(
    session: Session,
    budget: float | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Flow[ReindexReport]:
    """Calls ``remem.reindex_text`` until it is done, the budget is over, or ``stop`` says so.

    Args:
        budget: seconds; None: until done.
        progress: called with the part that is done (0 to 1) and the memories done by this run.
        stop: asked between calls.
    """
    if budget is not None and not 0.001 <= checks.real(budget, "budget") <= 86400:
        raise InvalidArgument(detail={"argument": "budget", "value": budget, "limit": 86400})
    if (yield InTransaction()):
        raise InvalidArgument(
            "a run commits call by call", hint="give the client a DSN, a pool, or autocommit"
        )
    ends = None if budget is None else time.monotonic() + budget
    total = 0
    while True:
        left = SLICE if ends is None else max(min(SLICE, ends - time.monotonic()), 0.001)
        report: ReindexReport = yield Run(admin_calls.reindex_text(session.workspace, left))
        idle = report.reindexed == 0
        total += report.reindexed
        report = replace(report, reindexed=total)
        if progress is not None and report.run_id is not None:
            progress(report.progress, total)
        if report.done or (stop is not None and stop()):
            return report
        if ends is not None and time.monotonic() >= ends:
            return report
        if idle:
            yield Work(partial(time.sleep, PAUSE))
