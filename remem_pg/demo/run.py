"""``remem demo``: a few memories, a few questions, and whether the right memory came first.

Everything happens in an embedded Postgres of its own, in a temporary directory that is removed
afterwards. No database of the user's is opened, whatever the environment says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.demo import data as demo_data
from remem_pg.demo.data import Question

if TYPE_CHECKING:
    from remem_pg.client import Remem
    from remem_pg.models import Hit

SHOWN = 3
DUPLICATES = {"runbook-rollback": "wiki-rollback"}


@dataclass(frozen=True)
class Answer:
    """One question, what was expected first and what came.

    Attributes:
        question: the question.
        hits: the first hits, best first.
        degraded: what was degraded in this recall.
        milliseconds: wall time of the recall, embedding included.
    """

    question: Question
    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    milliseconds: float

    @property
    def expected(self) -> str:
        """Ref of the memory that should be first."""
        return self.question.expected

    @property
    def actual(self) -> str | None:
        """Ref of the memory that is first, None when nothing was found."""
        return self.hits[0].ref if self.hits else None

    @property
    def ok(self) -> bool:
        """Whether the expected memory, in its current version, is first."""
        return bool(self.hits) and is_expected(self.question, self.hits[0])


@dataclass(frozen=True)
class DemoResult:
    """What the demo did.

    Attributes:
        embedding: name of the embedding that was used.
        embedding_line: the same as a sentence that says how to get a better one.
        answers: one per question, in order.
        outcomes: how many memories were created, superseded an older version, were merged.
        start_seconds, load_seconds, recall_seconds: wall times of the three parts.
        dsn, data_dir: of the server, when it was kept; else None.
    """

    embedding: str
    embedding_line: str
    answers: tuple[Answer, ...]
    outcomes: dict[str, int]
    start_seconds: float
    load_seconds: float
    recall_seconds: float
    dsn: str | None = None
    data_dir: Path | None = field(default=None)

    @property
    def ok(self) -> bool:
        """Whether every question found its memory first."""
        return all(answer.ok for answer in self.answers)


def is_expected(question: Question, hit: Hit) -> bool:
    """Whether ``hit`` is the memory the question is about, in its current version.

    A memory that was written down twice may come under either ref.
    """
    refs = {question.expected, DUPLICATES.get(question.expected)}
    return hit.ref in refs and question.contains in hit.body


def load(memory: Remem) -> dict[str, int]:
    """Write the memories, the later versions after the first ones; returns outcomes with counts."""
    counts: Counter[str] = Counter()
    for batch in (demo_data.FIRST, demo_data.LATER):
        counts.update(stored.outcome for stored in memory.remember_many(batch))
    return dict(counts)


def ask(memory: Remem, k: int = SHOWN) -> tuple[Answer, ...]:
    """Recall every question of the demo.

    Args:
        memory: client on the workspace that :func:`load` filled.
        k: how many hits to keep for each.
    """
    answers = []
    for question in demo_data.QUESTIONS:
        started = time.perf_counter()
        result = memory.recall(question.text, k=k)
        spent = (time.perf_counter() - started) * 1000
        answers.append(Answer(question, tuple(result), tuple(result.degraded), spent))
    return tuple(answers)


def run(
    embedding: str | None = None,
    *,
    keep: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> DemoResult:
    """Start a server of the demo's own, load the memories, ask the questions.

    Args:
        embedding: specification of the embedding as for ``--embedding``; None takes the best there.
        keep: leave the data directory behind; ``result.data_dir`` names it.
        say: called with one line before each of the three parts.

    Raises:
        EmbeddedUnavailable: the embedded Postgres is not installed or does not start.
    """
    from remem_pg.cli.connect import demo_server, install_into, model_line, resolve
    from remem_pg.client import Remem

    model = resolve(embedding)
    started = time.perf_counter()
    say("Starting a Postgres for the demo in a temporary directory ...")
    with demo_server(keep=keep) as (dsn, data_dir):
        install_into(dsn, model)
        ready = time.perf_counter()
        say("Loading the memories ...")
        with Remem(dsn, workspace=demo_data.WORKSPACE, embedding=model.model) as memory:
            outcomes = load(memory)
            loaded = time.perf_counter()
            answers = ask(memory)
            done = time.perf_counter()
    return DemoResult(
        embedding=model.name,
        embedding_line=model_line(model),
        answers=answers,
        outcomes=outcomes,
        start_seconds=ready - started,
        load_seconds=loaded - ready,
        recall_seconds=done - loaded,
        dsn=dsn if keep else None,
        data_dir=data_dir if keep else None,
    )


def as_document(result: DemoResult) -> dict[str, Any]:
    """The ``--json`` form of the demo."""
    from remem_pg.cli.memories import hit_document

    return {
        "ok": result.ok,
        "embedding": result.embedding,
        "embedding_line": result.embedding_line,
        "workspace": demo_data.WORKSPACE,
        "outcomes": result.outcomes,
        "seconds": {
            "start": round(result.start_seconds, 3),
            "load": round(result.load_seconds, 3),
            "recall": round(result.recall_seconds, 3),
        },
        "questions": [
            {
                "question": answer.question.text,
                "shows": answer.question.shows,
                "expected": answer.expected,
                "actual": answer.actual,
                "ok": answer.ok,
                "milliseconds": round(answer.milliseconds, 2),
                "degraded": list(answer.degraded),
                "hits": [hit_document(hit) for hit in answer.hits],
            }
            for answer in result.answers
        ],
        "dsn": result.dsn,
        "data_dir": result.data_dir,
    }
