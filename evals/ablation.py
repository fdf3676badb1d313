"""What every signal and every stage of recall is worth on conversations, and how fitted it all is.

*Stages* are switched by option and asked of the database: arms, fusion kinds, ranking, graph.
*Signals* are switched off one at a time over one pool a question (recall with k = 200, the signals
that it returns), with the formula of recall's weighted fusion; ``pool`` is that formula with the
default weights, the row that the others are to be compared with.

*Held out*: the weights are searched on all conversations but one and tested on that one, for each
in turn; in-sample is the same search over all of them. Their difference is what a user of other
conversations would lose at most by our having looked at these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from evals.dataset import Conversation, Dataset
from evals.locomo import items, refs_of, settle, workspace_names
from evals.metrics import Outcome, summarise
from evals.models import ClockedModel
from evals.report import score, table
from remem_pg import Hit, Remem

POOL = 200
K = 50
Progress = Callable[[str], None]
Floats = NDArray[np.float64]

STAGES: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "retrieval only": {"mode": "retrieval_only"},
    "reciprocal rank fusion": {"fusion": "rrf"},
    "best of both scores": {"fusion": "max"},
    "vector arm alone": {"arms": ["vector"]},
    "lexical arm alone": {"arms": ["lexical"]},
    "vector and lexical arms": {"arms": ["vector", "lexical"]},
    "graph always": {"graph": "always"},
    "graph never": {"graph": "never"},
}
# The terms of the weighted score, by the name of their weight; base has weight one.
ADDED = ("neighbour", "neighbour2", "session", "speaker", "length", "topic", "time",
         "phrase", "attribute", "pointer")  # fmt: skip
FACTORS = ("trust", "rank")
# The search tries these multiples of each default, and these values where the default is zero.
_MULTIPLES = (0.0, 0.33, 0.67, 1.0, 1.33, 1.67, 2.0)
_FROM_ZERO = (0.0, 0.1, 0.3, 0.6)


@dataclass(frozen=True, slots=True)
class Pools:
    """Candidates of all questions: (questions, POOL) each, padded with rows that cannot win.

    ``added`` is (questions, POOL, len(ADDED)); ``gain`` the share of a question's evidence that a
    row stands for; ``conversation`` (questions,) the number of each question's conversation.
    """

    base: Floats
    added: Floats
    trust: Floats
    worth: Floats
    gain: Floats
    conversation: NDArray[np.int64]

    def recall_at_10(self, weights: dict[str, float]) -> Floats:
        """R@10 of every question under ``weights``, as recall's weighted fusion orders."""
        total = self.base + self.added @ np.array([weights[name] for name in ADDED])
        total *= (1 - weights["trust"] * (1 - self.trust)) * (
            1 + weights["rank"] * (self.worth - 1)
        )
        # Equal scores keep the order in which recall returned them.
        best = np.argsort(-total, axis=1, kind="stable")[:, :10]
        return np.asarray(np.take_along_axis(self.gain, best, axis=1).sum(axis=1))


def run(
    dsn: str, dataset: Dataset, model: ClockedModel, progress: Progress, *, stages: bool = True
) -> dict[str, Any]:
    """The report as one document; ``dsn`` names a database in which remem is installed."""
    names = workspace_names(dataset, model)
    document: dict[str, Any] = {"model": model.id, "questions": dataset.questions, "stages": {}}
    with closing(Remem(dsn, workspace=names[0], embedding=model)) as client:
        pairs = list(zip(names, dataset.conversations, strict=True))
        for name, conversation in pairs:
            progress(f"loading {conversation.name}: {len(conversation.turns)} turns")
            client.workspace(name).remember_many(list(items(conversation)))
        settle(dsn)
        for stage, options in STAGES.items() if stages else ():
            progress(stage)
            outcomes = [
                outcome
                for name, conversation in pairs
                for outcome in _asked(client.workspace(name), conversation, options, model)
            ]
            document["stages"][stage] = summarise(outcomes)
        progress(f"pools of {POOL}")
        rows = [
            (number, question.evidence, list(client.workspace(name).recall(question.text, k=POOL)))
            for number, (name, conversation) in enumerate(pairs)
            for question in conversation.questions
        ]
        weights = default_weights(dsn)
    pools = gather(rows)
    progress("signals")
    document["pool"] = round(float(pools.recall_at_10(weights).mean()), 4)
    document["signals"] = {
        name: round(float(pools.recall_at_10({**weights, name: 0.0}).mean()), 4)
        for name in (*ADDED, *FACTORS)
        if weights[name]
    }
    document["weights"] = weights
    document["held_out"] = held_out(pools, weights, progress)
    return document


def default_weights(dsn: str) -> dict[str, float]:
    """The weights that recall uses when the caller gives none."""
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select remem._default_weights()").fetchone()
    found: dict[str, Any] = row[0] if row else {}
    return {name: float(found.get(name) or 0) for name in (*ADDED, *FACTORS)}


def gather(rows: Sequence[tuple[int, frozenset[str], list[Hit]]]) -> Pools:
    """The candidates of every question, from the hits of recall and the question's evidence."""
    count = len(rows)
    base = np.full((count, POOL), -1e9)
    added = np.zeros((count, POOL, len(ADDED)))
    trust, worth = np.ones((count, POOL)), np.ones((count, POOL))
    gain = np.zeros((count, POOL))
    for q, (_, evidence, hits) in enumerate(rows):
        for i, hit in enumerate(hits[:POOL]):
            signals = hit.signals or {}
            if "base" not in signals:  # came over a link: never scored, always last
                continue
            base[q, i] = signals["base"]
            added[q, i] = [float(signals.get(name) or 0) for name in ADDED]
            trust[q, i] = signals.get("trust", 1)
            worth[q, i] = signals.get("worth", 1)
            gain[q, i] = len(evidence & refs_of(hit)) / len(evidence)
    return Pools(base, added, trust, worth, gain, np.array([number for number, _, _ in rows]))


def search(pools: Pools, among: NDArray[np.bool_], start: dict[str, float]) -> dict[str, float]:
    """Weights by coordinate search: two rounds over all weights, each set to its best value."""
    part = Pools(
        pools.base[among], pools.added[among], pools.trust[among], pools.worth[among],
        pools.gain[among], pools.conversation[among],
    )  # fmt: skip
    weights = dict(start)
    reached = float(part.recall_at_10(weights).mean())
    for _ in range(2):
        for name, default in start.items():
            tries = [default * m for m in _MULTIPLES] if default else list(_FROM_ZERO)
            for value in tries:
                found = float(part.recall_at_10({**weights, name: value}).mean())
                if found > reached + 1e-9:
                    reached, weights = found, {**weights, name: value}
    return weights


def held_out(pools: Pools, start: dict[str, float], progress: Progress) -> dict[str, Any]:
    """R@10 in-sample and over left-out conversations, pooled over all questions."""
    everything = np.ones(len(pools.conversation), dtype=bool)
    progress("searching weights over all conversations")
    fitted = search(pools, everything, start)
    inside = pools.recall_at_10(fitted)
    outside = np.zeros(len(pools.conversation))
    for number in np.unique(pools.conversation):
        progress(f"searching weights without conversation {int(number) + 1}")
        left_out = pools.conversation == number
        outside[left_out] = pools.recall_at_10(search(pools, ~left_out, start))[left_out]
    return {
        "in_sample": round(float(inside.mean()), 4),
        "held_out": round(float(outside.mean()), 4),
        "loss": round(float(inside.mean() - outside.mean()), 4),
        "default_weights": round(float(pools.recall_at_10(start).mean()), 4),
        "fitted": {name: round(value, 3) for name, value in fitted.items()},
    }


def page(document: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"{document['questions']} questions, model {document['model']}", ""]
    if document["stages"]:
        columns = ("R@1", "R@5", "R@10", "hit@10", "MRR")
        rows = [
            [stage, *(score(row[c]) for c in columns), f"{row['p50_ms']:.1f}"]
            for stage, row in document["stages"].items()
        ]
        lines += [table(["stages", *columns, "p50 ms"], rows), ""]
    rows = [["none", score(document["pool"]), ""]]
    rows += [
        [name, score(value), f"{value - document['pool']:+.3f}"]
        for name, value in document["signals"].items()
    ]
    lines += [table(["signal switched off", "R@10", "difference"], rows), ""]
    held = document["held_out"]
    lines.append(
        f"Weights searched over all conversations: R@10 {score(held['in_sample'])}; searched "
        f"without the conversation they are tested on: {score(held['held_out'])}, a loss of "
        f"{score(held['loss'])}. Default weights: {score(held['default_weights'])}."
    )
    return "\n".join(lines)


def _asked(
    client: Remem, conversation: Conversation, options: dict[str, Any], model: ClockedModel
) -> list[Outcome]:
    """Every question of a conversation; milliseconds without the embedding of the question."""
    outcomes = []
    for question in conversation.questions:
        embedded = model.spent
        started = time.perf_counter()
        hits = client.recall(question.text, k=K, **options)
        took = time.perf_counter() - started - (model.spent - embedded)
        ranks = tuple(refs_of(hit) for hit in hits)
        outcomes.append(Outcome(question.category, question.evidence, ranks, took * 1000))
    return outcomes
