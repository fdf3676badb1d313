"""The queries that recall is measured against, and the clock they share.

All run as the same role on the same connection, unprepared and warmed, with the vector as the text
that a client sends. JIT is off for everybody: it would only slow the baselines down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from evals.metrics import percentile
from evals.scale_data import Question

Conn = psycopg.Connection[tuple[Any, ...]]
WARM = 6

SESSION = (
    "select '[1]'::{vector}.vector",  # loads the library, which brings the settings below
    "set hnsw.ef_search = 80",
    "set hnsw.iterative_scan = 'strict_order'",
    "set jit = off",
    "set client_min_messages = error",
)

# The bare vector query: fifty nearest rows of the workspace.
VECTOR = """
select e.memory_no from remem.embedding_{space} e where e.workspace = %(workspace)s
order by e.embedding operator({vector}.<=>) %(bracketed)s::{vector}.halfvec limit 50
"""
# The hybrid query that articles show: reciprocal rank fusion of row numbers over both legs, each
# cut by its row number. The index has no such order: all vectors of the workspace are compared.
HYBRID = """
with near as (
  select e.memory_no,
    row_number() over (order by e.embedding operator({vector}.<=>) %(bracketed)s::{vector}.halfvec)
      as place
  from remem.embedding_{space} e where e.workspace = %(workspace)s
  order by place limit 20
), worded as (
  select d.memory_no, row_number() over (order by ts_rank_cd(d.tsv, q) desc) as place
  from evals_scale.document d, websearch_to_tsquery('english', %(text)s) q
  where d.workspace = %(workspace)s and d.tsv @@ q
  order by place limit 20
)
select coalesce(n.memory_no, w.memory_no),
  coalesce(1.0 / (60 + n.place), 0) + coalesce(1.0 / (60 + w.place), 0) as score
from near n full join worded w on w.memory_no = n.memory_no
order by score desc limit 10
"""
# The same with the vector leg ordered by the distance itself, which the index serves.
HYBRID_INDEXED = HYBRID.replace(
    "order by place limit 20",
    "order by e.embedding operator({vector}.<=>) %(bracketed)s::{vector}.halfvec limit 20",
    1,
)
# Full-text search as it has to be asked for questions: any word may match.
WORDS = """
select d.memory_no from evals_scale.document d,
  to_tsquery('english', %(any_word)s) q
where d.workspace = %(workspace)s and d.tsv @@ q
order by ts_rank_cd(d.tsv, q) desc limit 10
"""
RECALL = "select h.* from remem.recall(%(workspace)s, %(text)s, %(braced)s::real[], 8) h"


@dataclass(frozen=True, slots=True)
class Case:
    """A named query; ``ask`` runs it for a question and gives its rows."""

    name: str
    query: bytes

    def ask(self, conn: Conn, question: Question) -> list[tuple[Any, ...]]:
        return conn.execute(self.query, parameters(question)).fetchall()


def cases(space_no: int, vector_schema: str) -> dict[str, Case]:
    """The cases by name: vector, hybrid, hybrid_indexed, words, recall."""
    named = {
        "vector": VECTOR,
        "hybrid": HYBRID,
        "hybrid_indexed": HYBRID_INDEXED,
        "words": WORDS,
        "recall": RECALL,
    }
    return {
        name: Case(name, text.replace("{space}", str(space_no)).replace("{vector}", vector_schema)
                   .encode())
        for name, text in named.items()
    }  # fmt: skip


def parameters(question: Question) -> dict[str, str]:
    numbers = ",".join(f"{x:.7g}" for x in question.vector)
    words = dict.fromkeys("".join(c if c.isalnum() else " " for c in question.text).split())
    return {
        "workspace": question.workspace,
        "text": question.text,
        "braced": f"{{{numbers}}}",
        "bracketed": f"[{numbers}]",
        "any_word": " | ".join(words),
    }


def connect(dsn: str, vector_schema: str) -> Conn:
    """A session as all cases use it; nothing is ever prepared."""
    conn = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
    for statement in SESSION:
        conn.execute(statement.replace("{vector}", vector_schema).encode())
    return conn


def interleaved(
    sessions: Sequence[tuple[str, Conn, Case]], questions: Sequence[Question], rounds: int = 1
) -> dict[str, list[float]]:
    """Milliseconds of every case, asked in turn question by question (A B A B), by label."""
    taken: dict[str, list[float]] = {label: [] for label, _, _ in sessions}
    for question in questions[:WARM]:
        for _, conn, case in sessions:
            case.ask(conn, question)
    for _ in range(rounds):
        for question in questions:
            given = parameters(question)
            for label, conn, case in sessions:
                started = time.perf_counter()
                conn.execute(case.query, given).fetchall()
                taken[label].append((time.perf_counter() - started) * 1000)
    return taken


def crowded(
    open_session: Callable[[], Conn], case: Case, questions: Sequence[Question], clients: int
) -> list[float]:
    """Milliseconds of a case when ``clients`` sessions ask all questions between them at once."""
    taken: list[list[float]] = [[] for _ in range(clients)]
    ready = threading.Barrier(clients)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with open_session() as conn:
                mine = questions[number::clients]
                for question in mine[:WARM]:
                    case.ask(conn, question)
                ready.wait(60)
                for question in mine:
                    given = parameters(question)
                    started = time.perf_counter()
                    conn.execute(case.query, given).fetchall()
                    taken[number].append((time.perf_counter() - started) * 1000)
        except BaseException as error:  # told to the caller, who is on another thread
            ready.abort()
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [each for times in taken for each in times]


def times(values: Iterable[float]) -> dict[str, float]:
    """p50_ms, p95_ms and how many were measured."""
    ordered = list(values)
    return {
        "p50_ms": round(percentile(ordered, 0.50), 3),
        "p95_ms": round(percentile(ordered, 0.95), 3),
        "calls": len(ordered),
    }
