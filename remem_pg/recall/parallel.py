"""Recall with its arms side by side: which are asked, what becomes of one that is late or broken.

Each arm is a call of its own with a snapshot of its own: a memory that is written meanwhile may
show in one arm and not in another. The scoring comes last and looks every row up anew, so that
nothing comes back that was forgotten or superseded meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from remem_pg import calls, checks
from remem_pg.calls import Call
from remem_pg.errors import RememError
from remem_pg.recall.hooks import Notes
from remem_pg.steps import Flow, Run, SideBySide
from remem_pg.vector import Vector

T = TypeVar("T")

ARMS = ("vector", "lexical", "attribute", "phrase", "pointer")
MANDATORY = "vector"

ONE_AFTER_THE_OTHER = "one connection"
THROUGH_THE_CACHE = "cache or log"
"""Why a recall that was to be parallel was not: the client has one connection only (a caller's own,
a pool of one, the synchronous client), or it recalls through the server's cache and log."""


def plan(options: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether a recall is to be parallel, and the options without the client's own ``parallel``."""
    sent = dict(options)
    asked = sent.pop("parallel", None)
    return asked is not None and checks.boolean(asked, "parallel"), sent


def recalled(
    build: Callable[[str, str, Vector | None, int, Mapping[str, Any]], Call[T]],
    workspace: str,
    query: str,
    vector: Vector | None,
    k: int,
    options: Mapping[str, Any],
    notes: Notes,
) -> Flow[T]:
    """What ``build`` would answer, out of arms that ran side by side where that can be.

    The trace's ``parallel`` says whether they did, else why not.
    """
    joined = _JOINED.get(build)
    reason = THROUGH_THE_CACHE
    if joined is not None:
        asked = {
            arm: calls.recall_arm(workspace, query, arm, vector, k, options)
            for arm in wanted(options)
        }
        limit = _limit(options)
        started = time.perf_counter()
        answers = yield SideBySide(asked, MANDATORY, None if limit is None else limit / 1000)
        if answers is not None:
            elapsed = (time.perf_counter() - started) * 1000
            given = [result_of(arm, answer) for arm, answer in answers.items()]
            arms = [result for result in given if result is not None]
            notes.trace["parallel"] = {
                "ran": True,
                "arms": {result["arm"]: result["state"] for result in arms},
                "elapsed_ms": round(elapsed, 3),
            }
            left = {} if limit is None else {"deadline_ms": max(limit - elapsed, 0)}
            found: T = yield Run(joined(workspace, query, vector, k, {**options, **left}, arms))
            return found
        reason = ONE_AFTER_THE_OTHER
    notes.trace["parallel"] = {"ran": False, "reason": reason}
    result: T = yield Run(build(workspace, query, vector, k, options))
    return result


_JOINED: Mapping[Any, Callable[..., Call[Any]]] = {
    calls.recall: calls.recall_from,
    calls.recall_explain: calls.recall_from_explain,
}


def _limit(options: Mapping[str, Any]) -> float | None:
    """The deadline in milliseconds. A wrong one is the server's to refuse."""
    limit = options.get("deadline_ms")
    if isinstance(limit, int | float) and not isinstance(limit, bool) and limit >= 0:
        return float(limit)
    return None


def wanted(options: Mapping[str, Any]) -> list[str]:
    """The arms to ask for: all that these options leave possible. The server knows which of them
    this query submits, and says of the others that they have no result."""
    mode, named = options.get("mode"), options.get("arms")
    arms = set(ARMS)
    if isinstance(named, list | tuple) and named:
        arms &= set(named) | ({"vector", "lexical"} if "fusion" in named else set())
    if mode in ("vector", "simple"):
        arms &= {"vector"}
    elif mode == "lexical":
        arms -= {"vector"}
    return [arm for arm in ARMS if arm in arms]


def result_of(arm: str, answer: Any) -> dict[str, Any] | None:
    """An arm's result as the server takes it: an arm whose connection broke has failed."""
    if isinstance(answer, RememError):
        return {"arm": arm, "state": "failed", "error": str(answer)}
    result: dict[str, Any] | None = answer
    return result
