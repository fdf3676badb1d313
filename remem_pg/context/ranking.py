"""Which result comes first, and which say the same. Scores choose; they say nothing about truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from remem_pg.context.record import DUPLICATES_KEPT, Record, Reference

WEIGHTS = {"score": 0.66, "plan": 0.12, "importance": 0.08, "confidence": 0.04}
"""Weights of the provider's score, the plan's confidence, the record's importance and
confidence."""

SCOPES = {"session": 0.05, "user": 0.05, "project": 0.04, "global": 0.01}
FRESHNESS = {"current": 0.05, "unknown": 0.0, "stale": -0.08, "superseded": -0.20}
RECENT = ((30, 0.04), (365, 0.02))
"""What a record gains that changed within so many days."""

UNSAID = 0.5
"""Importance and confidence of a record that says nothing of them."""

HIGHEST = 0.99
"""No sum of signals is a certainty."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A record with its rank (0 to 0.99) and what the rank is made of."""

    record: Record
    rank: float
    signals: dict[str, float]


def rank(record: Record, plan_confidence: float, now: datetime) -> Ranked:
    """One record's rank. Every signal is bounded: all that is not the provider's score together
    lifts a record by at most 0.38."""
    importance = UNSAID if record.importance is None else record.importance
    confidence = UNSAID if record.confidence is None else record.confidence
    signals = {
        "score": WEIGHTS["score"] * record.score,
        "plan": WEIGHTS["plan"] * plan_confidence,
        "importance": WEIGHTS["importance"] * importance,
        "confidence": WEIGHTS["confidence"] * confidence,
        "scope": SCOPES.get(record.scope, 0.0),
        "freshness": FRESHNESS.get(record.freshness, 0.0),
        "recency": _recency(record.updated_at, now),
    }
    return Ranked(record, min(HIGHEST, max(0.0, sum(signals.values()))), signals)


def _recency(updated_at: datetime | None, now: datetime) -> float:
    if updated_at is None or updated_at > now:
        return 0.0
    age = (now - updated_at).days
    return next((bonus for days, bonus in RECENT if age <= days), 0.0)


def ranked(records: Iterable[Record], plan_confidence: float, now: datetime) -> list[Ranked]:
    """Best first; equal ranks by provider and id, so that the order is always the same."""
    found = [rank(record, plan_confidence, now) for record in records]
    return sorted(found, key=lambda item: (-item.rank, item.record.provider, item.record.id))


def deduplicated(items: Iterable[Ranked]) -> list[Ranked]:
    """The first of each (provider, id), then of each content: equal text, or a fingerprint equal
    within its provider. The winner keeps where the others came from."""
    kept: list[Ranked] = []
    place: dict[tuple[str, ...], int] = {}
    for item in items:
        record = item.record
        identity = ("id", record.provider, record.id)
        contents: list[tuple[str, ...]] = [("text", record.text_key)]
        if record.fingerprint:
            contents.append(("fingerprint", record.provider, record.fingerprint))
        if identity in place:
            continue  # the same row again: there is no other source to name
        winner = next((place[key] for key in contents if key in place), None)
        if winner is None:
            winner = len(kept)
            kept.append(item)
        else:
            kept[winner] = _merged(kept[winner], record)
        for key in (identity, *contents):
            place.setdefault(key, winner)
    return kept


def _merged(winner: Ranked, loser: Record) -> Ranked:
    known: dict[tuple[str, str], Reference] = {}
    for reference in (*winner.record.duplicates, loser.reference(), *loser.duplicates):
        known.setdefault((reference.provider, reference.id), reference)
    known.pop((winner.record.provider, winner.record.id), None)
    kept = tuple(known.values())[:DUPLICATES_KEPT]
    links = {*winner.record.conflicts_with, *loser.conflicts_with}
    same = winner.record.provider == loser.provider
    record = replace(
        winner.record,
        duplicates=kept,
        conflicts_with=tuple(sorted(links)) if same else winner.record.conflicts_with,
    )
    return replace(winner, record=record)
