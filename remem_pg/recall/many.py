"""Several recalls in one call, written once for the sync and the async client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from remem_pg import checks
from remem_pg.errors import DimensionMismatch, UnknownSpace
from remem_pg.models import RecallResult
from remem_pg.recall import calls as recall_calls
from remem_pg.recall import restrict
from remem_pg.recall.flow import wants_vector
from remem_pg.spaces.policy import decide, forget_space
from remem_pg.steps import Flow, Run, Session, Work
from remem_pg.vector import Vector

MOST = 100
"""Queries that the server takes in one call."""


def recall_many(
    session: Session, queries: Any, k: int, options: Mapping[str, Any]
) -> Flow[list[RecallResult]]:
    """A result for each query, in their order. The vectors of a call are made in one go."""
    texts = checks.texts(queries, "queries")
    plain, scope = restrict.as_options(session.workspace, options)
    found: list[RecallResult] = []
    for start in range(0, len(texts), MOST):
        found += yield from _together(session, texts[start : start + MOST], k, plain)
    return found if scope is None else [restrict.within(scope, result) for result in found]


def _together(
    session: Session, texts: Sequence[str], k: int, options: Mapping[str, Any]
) -> Flow[list[RecallResult]]:
    for attempt in (0, 1):
        sent, ours = dict(options), []
        vectors: Sequence[Vector | None] = ()
        if wants_vector(options):
            decision = yield from decide(session, writing=False)
            ours = list(decision.degraded)
            if decision.space is not None:
                made = yield Work(partial(session.embedder.embed, texts, query=True))
                if made is None:
                    ours.append("no_embedding")
                else:
                    vectors, sent["space"] = made, decision.space
        call = recall_calls.recall_many(session.workspace, texts, vectors, k, sent)
        try:
            found: list[RecallResult] = yield Run(call)
        except (DimensionMismatch, UnknownSpace):
            if not (yield from forget_space(session, attempt)):
                raise
            continue
        # the workspace moved to another space since the decision was made
        moved = bool(vectors) and any("space_mismatch" in each.degraded for each in found)
        if moved and (yield from forget_space(session, attempt)):
            continue
        return [_noted(result, ours, vectors, place) for place, result in enumerate(found)]
    raise AssertionError("unreachable: the second attempt returns or raises")


def _noted(
    result: RecallResult, ours: Sequence[str], vectors: Sequence[Vector | None], place: int
) -> RecallResult:
    """Adds what this client knows and the server cannot."""
    empty = ["zero_vector"] if vectors and vectors[place] is None else []
    return RecallResult(result, [*ours, *empty, *result.degraded], result.space, result.query)
