"""The evaluation of loading, on a few rows; and the comparison that a round trip makes."""

from __future__ import annotations

from typing import Any

import pytest

from evals import ingest
from evals.round_trip import differences


def test_a_small_run_has_every_figure_and_prints_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "SLICE", 60)
    said: list[str] = []
    document = ingest.run(rows=180, memory_rows=120, singles=3, progress=said.append)
    assert document["rates"].keys() == {"vectors", "hash", "words"}
    for rate in document["rates"].values():
        assert 0 < rate["ratio"] < 20
        assert rate["remember_rows_per_second"] > 0
    assert document["single"].keys() == {"vectors", "hash"}
    assert document["single"]["hash"]["p95_ratio"] > 0
    for command in ("import", "import_rollback", "export", "import_export"):
        assert 10 < document["memory"][command]["megabytes"] < 300
    page = ingest.page(document)
    assert "made by the server" in page
    assert "import rollback" in page
    assert len(said) >= 9


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"fused": {"MRR": 0.5, "p50_ms": 9.0}}, []),
        ({"fused": {"MRR": 0.51, "p50_ms": 1.0}}, ["fused.MRR: 0.5 before, 0.51 after"]),
        ({"fused": {"p50_ms": 1.0}}, ["fused.MRR: 0.5 before, None after"]),
        ({"fused": {"MRR": 0.5}, "turns": 3}, ["turns: None before, 3 after"]),
    ],
)  # fmt: skip
def test_figures_are_compared_to_the_last_digit(after: dict[str, Any], found: list[str]) -> None:
    before = {"fused": {"MRR": 0.5, "p50_ms": 1.0}, "load_turns_per_second": 7}
    assert differences(before, after) == found
