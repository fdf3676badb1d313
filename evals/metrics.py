"""Retrieval metrics over ranked results, each result being the set of refs it stands for.

One rank can stand for several refs: recall collapses exact duplicates into one hit and lists the
others beside it. Definitions (Manning, Raghavan, Schuetze, Introduction to Information Retrieval,
chapter 8): R@k is the share of a question's evidence among the first k ranks, hit@k whether any
of it is there, MRR the mean of 1/rank of the first evidence (0 when there is none), each
averaged over questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

CUTS = (1, 5, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question asked once. ``ranks[i]`` holds the refs at rank i + 1."""

    category: str
    evidence: frozenset[str]
    ranks: tuple[AbstractSet[str], ...]
    milliseconds: float


def recall_at(outcome: Outcome, k: int) -> float:
    found = outcome.evidence & set().union(*outcome.ranks[:k])
    return len(found) / len(outcome.evidence)


def reciprocal_rank(outcome: Outcome) -> float:
    for rank, refs in enumerate(outcome.ranks, start=1):
        if not outcome.evidence.isdisjoint(refs):
            return 1 / rank
    return 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value at ``share`` (0..1) of the sorted values, linear between neighbours."""
    if not values:
        return math.nan
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summarise(outcomes: Sequence[Outcome], cuts: Iterable[int] = CUTS) -> dict[str, float]:
    """R@k and hit@k per cut, MRR, p50_ms, p95_ms, questions; rounded to four decimals."""
    count = len(outcomes)
    row: dict[str, float] = {}
    recalls = {k: [recall_at(o, k) for o in outcomes] for k in cuts}
    for k, values in recalls.items():
        row[f"R@{k}"] = _mean(values)
    for k, values in recalls.items():
        row[f"hit@{k}"] = _mean([float(v > 0) for v in values])
    row["MRR"] = _mean([reciprocal_rank(o) for o in outcomes])
    times = [o.milliseconds for o in outcomes]
    row["p50_ms"] = round(percentile(times, 0.50), 3)
    row["p95_ms"] = round(percentile(times, 0.95), 3)
    row["questions"] = count
    return row


def by_category(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """The summary of each category, in the order of their names."""
    names = sorted({o.category for o in outcomes})
    return {name: summarise([o for o in outcomes if o.category == name]) for name in names}


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0
