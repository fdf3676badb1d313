"""Recall on conversations: does the answer's turn come back, how high, how fast.

One workspace a conversation, one memory a turn (speaker, session, turn number, date), every
question asked once a mode with k = 50 through the client. Modes are those of ``remem.recall``:
``lexical``, ``vector``, and ``fused``, which is its default. A question's latency is that of the
recall call without the embedding of the question, which is measured apart: the same model costs
the same whatever the database does. Each workspace answers one question unmeasured before, so
that the client's first look at it is not counted. A reranker's time is part of the call; it
keeps the token vectors of a conversation's turns from one question to the next, as in any client.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Literal

import psycopg
from psycopg import sql

from evals.dataset import Conversation, Dataset, Turn
from evals.metrics import Outcome, by_category, percentile, summarise
from evals.models import ClockedModel
from remem_pg import Hit, MemoryInput, Remem

K = 50
Gate = Literal["cluster", "top", "always"]
MODES = {"fused": "auto", "lexical": "lexical", "vector": "vector"}

Progress = Callable[[str], None]


def run(
    dsn: str,
    dataset: Dataset,
    model: ClockedModel,
    modes: Sequence[str],
    progress: Progress,
    rerank: str | None = None,
    gate: Gate = "cluster",
    *,
    load: bool = True,
) -> dict[str, Any]:
    """The report as one document; ``dsn`` names a database in which remem is installed.

    Loading is idempotent: a second run against the same database measures the same memories.
    Without ``load`` they are there already.
    """
    names = workspace_names(dataset, model)
    outcomes: dict[str, list[Outcome]] = {mode: [] for mode in modes}
    degraded: dict[str, Counter[str]] = {mode: Counter() for mode in modes}
    looked: dict[str, Counter[str]] = {mode: Counter() for mode in modes}
    started = time.perf_counter()
    with closing(
        Remem(dsn, workspace=names[0], embedding=model, reranker=rerank, rerank_gate=gate)
    ) as client:
        for name, conversation in zip(names, dataset.conversations if load else (), strict=load):
            progress(f"loading {conversation.name}: {len(conversation.turns)} turns")
            client.workspace(name).remember_many(list(items(conversation)))
        loaded = time.perf_counter() - started - model.spent
        settle(dsn)
        model.milliseconds.clear()  # a batch of one turn is no question
        for mode in modes:
            for name, conversation in zip(names, dataset.conversations, strict=True):
                progress(f"{mode}: {conversation.name}, {len(conversation.questions)} questions")
                asked = ask(client.workspace(name), conversation, mode, model)
                for outcome, states, second_look in asked:
                    outcomes[mode].append(outcome)
                    degraded[mode].update(states)
                    looked[mode].update(second_look)
    document: dict[str, Any] = {
        mode: {
            **summarise(outcomes[mode]),
            "by_category": by_category(outcomes[mode]),
            "degraded": dict(sorted(degraded[mode].items())),
            **({"rerank": dict(sorted(looked[mode].items()))} if rerank else {}),
        }
        for mode in modes
    }
    embedding = {
        "p50_ms": round(percentile(model.milliseconds, 0.50), 3) if model.milliseconds else None,
        "p95_ms": round(percentile(model.milliseconds, 0.95), 3) if model.milliseconds else None,
    }
    return document | {
        "model": model.id,
        "questions": dataset.questions,
        "conversations": len(dataset.conversations),
        "turns": dataset.turns,
        "k": K,
        "rerank": {"spec": rerank, "gate": gate} if rerank else None,
        "left_out": dataset.left_out,
        "question_embedding": embedding,
        "load_turns_per_second": round(dataset.turns / max(loaded, 1e-9), 1),
        "dataset_sha256": dataset.sha256,
    }


def workspace_names(dataset: Dataset, model: ClockedModel) -> list[str]:
    """A workspace for each conversation of this file with this model, the same in every run."""
    prefix = f"evals:{dataset.sha256[:12]}:{model.id}"[:180]
    return [f"{prefix}:{number}" for number in range(1, len(dataset.conversations) + 1)]


def items(conversation: Conversation) -> Iterator[MemoryInput]:
    return (item(turn) for turn in conversation.turns)


def item(turn: Turn) -> MemoryInput:
    """A turn as ``remember_many`` takes it."""
    return {
        "body": turn.body,
        "ref": turn.ref,
        "kind": "episodic",
        "speaker": turn.speaker,
        "session_ref": turn.session,
        "turn_no": turn.number,
        "occurred_at": turn.occurred_at,
    }


def settle(dsn: str) -> None:
    """VACUUM and ANALYZE what was loaded, as autovacuum would have within minutes."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        tables = conn.execute(
            "select c.relname from pg_class c where c.relnamespace = 'remem'::regnamespace"
            " and c.relkind = 'r' and pg_has_role(c.relowner, 'usage')"
        ).fetchall()
        for (table,) in tables:
            conn.execute(sql.SQL("vacuum (analyze) {}").format(sql.Identifier("remem", str(table))))


def ask(
    client: Remem, conversation: Conversation, mode: str, model: ClockedModel
) -> Iterator[tuple[Outcome, tuple[str, ...], tuple[str, ...]]]:
    """Every question of a conversation once, each with its degraded states and what became of a
    second look (completed, skipped, failed), if there is a reranker."""
    option = MODES[mode]
    for question in conversation.questions[:1]:
        client.recall(question.text, k=K, mode=option)
    for question in conversation.questions:
        embedded = model.spent
        started = time.perf_counter()
        result = client.recall(question.text, k=K, mode=option)
        took = time.perf_counter() - started - (model.spent - embedded)
        ranks = tuple(refs_of(hit) for hit in result)
        yield (
            Outcome(question.category, question.evidence, ranks, took * 1000),
            tuple(result.degraded),
            (str(result.trace["rerank"]["state"]),) if "rerank" in result.trace else (),
        )


def refs_of(hit: Hit) -> frozenset[str]:
    """The refs that a hit stands for: its own and those of exact duplicates folded into it."""
    others = [each.get("ref") for each in hit.duplicates or [] if isinstance(each, dict)]
    return frozenset(ref for ref in (hit.ref, *others) if ref)
