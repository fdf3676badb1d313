"""The queries that recall is measured against, and the clock they share.

All run as the same role on the same connection, unprepared and warmed, with the vector as the text
that a client sends. JIT is off for everybody: it would only slow the baselines down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
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


class Taken:
    """Milliseconds of calls on a connection; ``with taken: ...`` adds one.

    ``wall`` is what a caller waits; ``cpu`` what the server's process worked, where it is a process
    of this (Linux) machine: it does not count the time that others had the processor.
    """

    def __init__(self, conn: Conn | None = None) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self._clock = _process_clock(conn) if conn is not None else None
        self._started = (0.0, 0.0)

    def __enter__(self) -> None:
        worked = self._clock() if self._clock else 0.0
        self._started = (time.perf_counter(), worked)

    def __exit__(self, *_: object) -> None:
        self.wall.append((time.perf_counter() - self._started[0]) * 1000)
        if self._clock:
            self.cpu.append(self._clock() - self._started[1])

    def __iadd__(self, other: Taken) -> Taken:
        self.wall += other.wall
        self.cpu += other.cpu
        return self


def _process_clock(conn: Conn) -> Callable[[], float] | None:
    """Milliseconds that the connection's server process has run; None where nobody can tell."""
    path = Path(f"/proc/{conn.info.backend_pid}/schedstat")
    command = path.with_name("cmdline")
    try:
        # A pid of another machine may exist here too, as another program.
        if conn.info.host.startswith("/") and command.read_bytes().startswith(b"postgres"):
            path.read_bytes()
            return lambda: int(path.read_bytes().split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        pass
    return None


def interleaved(
    sessions: Sequence[tuple[str, Conn, Case]], questions: Sequence[Question], rounds: int = 1
) -> dict[str, Taken]:
    """What every case took, asked in turn question by question (A B A B), by label."""
    taken = {label: Taken(conn) for label, conn, _ in sessions}
    for question in questions[:WARM]:
        for _, conn, case in sessions:
            case.ask(conn, question)
    for _ in range(rounds):
        for question in questions:
            given = parameters(question)
            for label, conn, case in sessions:
                with taken[label]:
                    conn.execute(case.query, given).fetchall()
    return taken


def crowded(
    open_session: Callable[[], Conn], case: Case, questions: Sequence[Question], clients: int
) -> Taken:
    """What a case takes when ``clients`` sessions ask all questions between them at once."""
    taken = [Taken() for _ in range(clients)]
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
                    with taken[number]:
                        conn.execute(case.query, given).fetchall()
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
    whole = Taken()
    for each in taken:
        whole += each
    return whole


def times(taken: Taken) -> dict[str, float]:
    """p50_ms, p95_ms and how many were measured; cpu_p50_ms where it is known."""
    row = {
        "p50_ms": round(percentile(taken.wall, 0.50), 3),
        "p95_ms": round(percentile(taken.wall, 0.95), 3),
        "calls": len(taken.wall),
    }
    if taken.cpu:
        row["cpu_p50_ms"] = round(percentile(taken.cpu, 0.50), 3)
    return row


def ratio(over: dict[str, float], under: dict[str, float], by: str = "p50_ms") -> float | None:
    """How many times as long; None where it is not known of both."""
    return round(over[by] / under[by], 3) if over.get(by) and under.get(by) else None
