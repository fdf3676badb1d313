"""Recall with a second look: ask for the pool, decide, rerank, put the reranked before the rest."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument
from remem_pg.models import Hit
from remem_pg.recall.hooks import Notes, within
from remem_pg.recall.stages import Stages, checked_gate
from remem_pg.rerank.gate import decide
from remem_pg.rerank.rerankers import Reranker, checked_scores
from remem_pg.steps import Flow, Work

RERANK_FAILED = "rerank_failed"


@dataclass(frozen=True, slots=True)
class Plan:
    """How one recall is reranked: by what, how many hits, behind which gate."""

    reranker: Reranker
    pool: int
    gate: str
    timeout: float


def plan(stages: Stages, options: Mapping[str, Any]) -> tuple[Plan | None, dict[str, Any]]:
    """The plan of one recall (None: no second look), and the options for the server.

    The client's own option is ``rerank``: False for no second look this time, or the name of a
    gate. Raises InvalidArgument when it asks for one and no reranker is configured.
    """
    sent = dict(options)
    asked = sent.pop("rerank", None)
    if asked is False:
        return None, sent
    gate = stages.rerank_gate if asked in (None, True) else checked_gate(asked)
    if stages.reranker is None:
        if asked is not None:
            raise InvalidArgument(
                "this client has no reranker",
                detail={"argument": "rerank", "value": asked},
                hint='Remem(..., reranker="late")',
            )
        return None, sent
    sent.setdefault("rerank_pool", stages.rerank_pool)
    pool = checks.integer(sent["rerank_pool"], "rerank_pool")
    return Plan(stages.reranker, pool, gate, stages.rerank_timeout), sent


def reranked(
    chosen: Plan, query: str, mode: Any, k: int, document: Mapping[str, Any], notes: Notes
) -> Flow[list[Hit]]:
    """The best ``k`` hits of a ``recall_explain`` document, after the second look if there is one.

    Any failure keeps the order and is named ``rerank_failed``.
    """
    hits = [Hit.from_document(row) for row in document.get("hits") or ()]
    said = document.get("rerank_gate")
    decision = decide(chosen.gate, hits, mode, said if isinstance(said, Mapping) else None)
    name = getattr(chosen.reranker, "name", type(chosen.reranker).__name__)
    entry = decision.as_dict() | {"gate": chosen.gate, "backend": str(name), "state": "skipped"}
    notes.trace["rerank"] = entry
    if not decision.rerank:
        return hits[:k]
    head, rest = hits[: chosen.pool], hits[chosen.pool :]
    started = time.perf_counter()
    try:
        texts = [text_of(hit) for hit in head]
        work = partial(chosen.reranker.rerank, query, texts)
        given = yield Work(partial(within, chosen.timeout, work))
        scores = checked_scores(given, len(head))
        entry["state"] = "completed"
        entry["unread"] = scores.count(None)
        hits = in_order(head, scores, getattr(chosen.reranker, "weight", None)) + rest
    except Exception as error:  # somebody else's code or model: the order there is will do
        entry["state"] = "failed"
        notes.failed(RERANK_FAILED, "rerank", error)
    entry["reranked"] = len(head) if entry["state"] == "completed" else 0
    entry["elapsed_ms"] = round((time.perf_counter() - started) * 1000, 3)
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits[:k], 1)]


def text_of(hit: Hit) -> str:
    """What a reranker reads of a hit: its title, where the body lacks it, and its body."""
    return f"{hit.title}\n{hit.body}" if hit.title and hit.title not in hit.body else hit.body


def in_order(
    hits: Sequence[Hit], scores: Sequence[float | None], weight: float | None
) -> list[Hit]:
    """The hits by their rerank scores, or with a ``weight`` by fused / best + weight x the rerank
    score scaled to 0..1 over these hits: a model's own range of cosines means nothing beside it.

    A hit without a score counts as the average. ``signals`` gets the rerank score. ``score``
    becomes the new order's value, mapped onto the range that the hits' scores had, so that it still
    falls from hit to hit, also to those that were not looked at again. Equal values keep their
    order.
    """
    best = max((hit.score for hit in hits), default=0.0)
    known = [score for score in scores if score is not None]
    average = sum(known) / len(known)
    values = [average if score is None else score for score in scores]
    if weight is not None:
        least, span = min(values), max(values) - min(values)
        values = [
            (hit.score / best if best > 0 else 0.0)
            + (weight * (score - least) / span if span > 0 else 0.0)
            for hit, score in zip(hits, values, strict=True)
        ]
    low, high = min(values), max(values)
    worst = min(hit.score for hit in hits)

    def moved(index: int) -> Hit:
        hit = hits[index]
        share = (values[index] - low) / (high - low) if high > low else 1.0
        score = scores[index]
        signals = dict(hit.signals) if score is None else {**hit.signals, "rerank": round(score, 6)}
        return replace(hit, score=worst + share * (best - worst), signals=signals)

    order = sorted(range(len(hits)), key=lambda index: (-values[index], index))
    return [moved(index) for index in order]


def as_rows(hits: Sequence[Hit], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the document in the order of the hits, with what reranking changed in them."""
    by_id = {str(row["memory_id"]): row for row in rows}
    return [
        {
            **by_id[str(hit.memory_id)],
            "rank": hit.rank,
            "score": hit.score,
            "signals": hit.signals,
        }
        for hit in hits
    ]
