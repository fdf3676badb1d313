"""What a semantic minimum lets through, on pairs of questions and topics written for it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from evals.behaviour.texts import DATA
from remem_pg.embedding.base import EmbeddingModel

STEPS = (0.30, 0.325, 0.35, 0.375, 0.40, 0.428, 0.45, 0.50, 0.55, 0.60)


def calibrate(
    model: EmbeddingModel, default: float, path: Path = DATA / "pairs.toml"
) -> list[dict[str, Any]]:
    """A row a minimum: shares of the pairs that belong together, of near misses, and of questions
    with other topics that reach it; and of the questions that some other topic reaches."""
    pairs = tomllib.loads(path.read_text(encoding="utf-8"))
    same, miss = (_cosines(model, pairs[name]) for name in ("same", "miss"))
    own, near = np.diag(same), np.diag(miss)
    others = ~np.eye(len(same), dtype=bool)
    best = np.where(others, same, -1).max(axis=1)
    return [
        {
            "minimum": minimum,
            "default": minimum == default,
            "same": _share(own, minimum),
            "miss": _share(near, minimum),
            "cross": _share(same[others], minimum),
            "questions": _share(best, minimum),
        }
        for minimum in sorted({*STEPS, default})
    ]


def _cosines(model: EmbeddingModel, pairs: list[list[str]]) -> Any:
    """Of every question with every topic."""
    questions = model.embed([question for question, _, _ in pairs])
    topics = model.embed([f"{title}\n{summary}" for _, title, summary in pairs])
    return questions @ topics.T


def _share(values: Any, minimum: float) -> float:
    return round(float((values >= minimum).mean()), 4)
