"""What a client adds to the server's recall: a reranker, hooks, an expander, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument

if TYPE_CHECKING:
    from remem_pg.recall.hooks import Hooks
    from remem_pg.rerank.rerankers import Reranker
    from remem_pg.spaces.embedder import Embedder

GATES = ("cluster", "top", "always")
RERANK_POOL = 50
RERANK_SECONDS = 4.0
EXPAND_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of one client, shared by its siblings. Times are in seconds."""

    reranker: Reranker | None = None
    rerank_pool: int = RERANK_POOL
    rerank_gate: str = "cluster"
    rerank_timeout: float = RERANK_SECONDS
    hooks: Hooks | None = None
    expander: Callable[[str], Sequence[str]] | None = None
    expand_timeout: float = EXPAND_SECONDS


def open_stages(
    embedder: Embedder,
    reranker: Any,
    rerank_pool: int,
    rerank_gate: str,
    hooks: Hooks | None,
    expander: Callable[[str], Sequence[str]] | None,
) -> Stages:
    """The stages as a client's arguments say; no I/O. Raises InvalidArgument."""
    if reranker is not None:
        from remem_pg.rerank.rerankers import resolve_reranker

        reranker = resolve_reranker(reranker, embedder)
    if not 1 <= checks.integer(rerank_pool, "rerank_pool") <= 200:
        raise InvalidArgument(
            detail={"argument": "rerank_pool", "value": rerank_pool, "limit": 200},
            hint="rerank_pool lies between 1 and 200",
        )
    if expander is not None and not callable(expander):
        raise InvalidArgument(
            "expander is a function of the query", detail={"argument": "expander"}
        )
    timeout = getattr(reranker, "timeout", RERANK_SECONDS)
    gate = checked_gate(rerank_gate)
    return Stages(reranker, rerank_pool, gate, timeout, hooks, expander, EXPAND_SECONDS)


def checked_gate(gate: Any) -> str:
    """One of the gates' names."""
    if gate not in GATES:
        raise InvalidArgument(
            detail={"argument": "rerank_gate", "value": gate, "valid": list(GATES)},
            hint=f"one of {', '.join(GATES)}",
        )
    return str(gate)
