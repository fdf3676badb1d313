"""When a second look is worth its time: the decision, with its reason, as one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from remem_pg.models import Hit

TOP = 5
"""The hits that the decision looks at."""
CLUSTER = 0.1
"""Best scores no further apart than this are one cluster; as in ``remem._rerank_gate``."""
CERTAIN = 0.92
"""An absolute relevance of the first hit from which ``top`` asks for no second look."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to rerank and why. ``spread`` is the best score less the last of the top,
    ``contradictions`` the pairs at the top that say different things about the same, ``source``
    who counted."""

    rerank: bool
    reason: str
    spread: float | None = None
    contradictions: int = 0
    source: str = "client"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def decide(
    gate: str, hits: Sequence[Hit], mode: str | None, said: Mapping[str, Any] | None = None
) -> Decision:
    """The decision for the hits of one recall; ``said`` is the server's ``rerank_gate``.

    ``cluster`` follows the server, which sees more (contradicting attributes), and counts itself
    where the server says nothing; ``top`` asks only how sure the first hit is; ``always`` is what
    it says. A contradiction always deserves the second look.
    """
    spread, contradictions, source = spread_of(hits), contradictions_of(hits), "client"
    if said is not None and isinstance(said.get("rerank"), bool):
        source = "server"
        spread = said["spread"] if isinstance(said.get("spread"), int | float) else spread
        counted = said.get("contradictions")
        contradictions = counted if isinstance(counted, int) else contradictions

    def decision(rerank: bool, reason: str) -> Decision:
        return Decision(rerank, reason, spread, contradictions, source)

    if len(hits) < 2:
        return decision(False, "fewer than two hits")
    if mode == "retrieval_only":
        return decision(False, "retrieval only: nothing is ranked")
    if gate == "always":
        return decision(True, "always")
    if gate == "top":
        relevance = hits[0].relevance
        if contradictions:
            return decision(True, "contradictions at the top")
        if relevance >= CERTAIN:
            return decision(False, f"the first hit is certain: relevance {relevance:.2f}")
        return decision(True, f"the first hit is not certain: relevance {relevance:.2f}")
    if source == "server" and said is not None:
        return decision(bool(said["rerank"]), str(said.get("reason") or "as the server said"))
    if contradictions:
        return decision(True, "contradictions at the top")
    if spread is not None and spread <= CLUSTER:
        return decision(False, f"the top scores cluster: spread {spread:.3f}")
    return decision(True, "the top scores are spread")


def spread_of(hits: Sequence[Hit]) -> float | None:
    """Best less last of the scores at the top; None when there is nothing to compare."""
    scores = [hit.score for hit in hits[:TOP]]
    return max(scores) - min(scores) if len(scores) > 1 else None


def contradictions_of(hits: Sequence[Hit]) -> int:
    """Pairs at the top with the same kind and title and another text: as much as hits show."""
    top = [hit for hit in hits[:TOP] if hit.title]
    return sum(
        (one.kind, one.title) == (other.kind, other.title) and one.body != other.body
        for number, one in enumerate(top)
        for other in top[:number]
    )
