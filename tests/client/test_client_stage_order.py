"""The order of a recall's stages, from the caller's words to the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from remem_pg import Hooks, RecallRequest, Remem
from remem_pg.database import connection

BODIES = ["We retry three times, then page.", "Deployments happen on Tuesdays.", "Oat milk."]


class Model:
    """A model of four dimensions that tells when it is asked."""

    id = "order"
    dimensions = 4

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def embed(self, texts: Sequence[str]) -> Any:
        self.events += [f"embed {text}" for text in texts]
        return np.array([[1, len(t), t.count("e"), t.count("r")] for t in texts], np.float32)


@pytest.mark.covers("ME2", "ME6", "MN2")
def test_a_recall_goes_through_its_stages_once_and_in_order(
    db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def before(request: RecallRequest) -> None:
        events.append("before route")

    def after(request: RecallRequest, route: Mapping[str, Any]) -> None:
        events.append("after route")

    def expand(query: str) -> list[str]:
        events.append("expand")
        return ["we page after the third retry"]

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        events.append("rerank")
        return [float(n) for n in range(len(texts))]

    execute = connection.execute

    def counted(conn: Any, call: Any, tenant: Any) -> Any:
        events.append(call.function)
        return execute(conn, call, tenant)

    with Remem(
        db_dsn, workspace="acme", embedding=Model(events), reranker=rerank, rerank_gate="always",
        hooks=Hooks(before_route=before, after_route=after), expander=expand,
    ) as mem:  # fmt: skip
        mem.remember_many({"ref": str(n), "body": body} for n, body in enumerate(BODIES))
        mem.recall("warm up")
        monkeypatch.setattr(connection, "execute", counted)
        events.clear()
        result = mem.recall("how often?")
    assert events == [
        "before route",
        "route_of",
        "after route",
        "expand",
        "embed how often?",
        "embed we page after the third retry",
        "recall_explain",
        "rerank",
    ]
    # What was retrieved is ranked by the server first, and what was reranked says so.
    assert result.trace["ranking_skipped"] is False
    assert result.trace["rerank"]["reranked"] == len(result) == 3
    assert result.degraded == ()
