"""Relevance thresholds of a model for which nobody has measured them.

Models differ in the cosine they give to texts that have nothing to do with each other: near 0 for
MiniLM, far above for models of the BGE family. Measured on a few texts of many subjects, that
cosine places the measured thresholds of MiniLM on the model's own scale. An estimate: it keeps a
model from calling everything relevant, and a measurement on your own texts is better.
"""

from __future__ import annotations

from remem_pg.embedding.base import EmbeddingModel, checked

TEXTS = (
    ("how often do we retry a failed payment?", "Charges are tried three times, then on call."),
    ("what do I like for breakfast?", "Oat porridge with pears, no sugar."),
    ("when does the train to the coast leave?", "Departures are at ten past every hour."),
    ("who keeps the keys of the archive?", "Ines has them; the spare set is in the safe."),
    ("which colours does the new logo have?", "Dark green on a warm grey."),
    ("why was the database slow on Monday?", "A vacuum had been blocked by an idle session."),
    ("how long do the tomatoes need?", "Seedlings go outside after the last frost."),
    ("what did the doctor say about my knee?", "Rest for two weeks and then gentle cycling."),
)
"""Questions and statements; those of two different lines have nothing to do with each other."""

FLOOR, FULL = 0.158, 0.684
"""Where MiniLM's thresholds, 0.20 and 0.70, lie between the cosine of unrelated texts (0) and 1."""


def unrelated(model: EmbeddingModel) -> float:
    """The median cosine of a question and a statement of another subject, within 0 and 0.9."""
    import numpy as np

    rows = checked(model, [text for pair in TEXTS for text in pair])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows[0::2] @ rows[1::2].T
    others = cosines[~np.eye(len(TEXTS), dtype=bool)]
    return float(np.clip(np.median(others), 0.0, 0.9))


def thresholds(model: EmbeddingModel) -> dict[str, float]:
    """``cosine_floor`` and ``cosine_full`` for the model's descriptor."""
    zero = unrelated(model)
    return {
        "cosine_floor": round(zero + FLOOR * (1 - zero), 3),
        "cosine_full": round(zero + FULL * (1 - zero), 3),
    }
