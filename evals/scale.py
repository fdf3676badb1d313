"""How recall behaves at scale, beside the queries it is measured against, in one run.

Data by ``evals.scale_data``, loaded by ``evals.scale_load``, queries and clock of
``evals.baselines``. All figures of a comparison are taken in turn, question by question, so that a
busy machine disturbs both sides alike: read the ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from evals import scale_load
from evals.baselines import Case, Conn, Taken, cases, connect, crowded, interleaved, ratio, times
from evals.scale_checks import agreement, half_and_fresh, owned
from evals.scale_data import BIG, Corpus, Question

Progress = Callable[[str], None]
READER = "remem_evals_reader"
SIZES = ("big", "tenth", "small")
CLIENTS = 8
# Of the embedded server: what a machine of a few gigabytes would be given for such a table. Vacuum
# comes when the evaluation says so.
SETTINGS = {"shared_buffers": "2GB", "autovacuum": "off", "max_wal_size": "8GB"}


class Bench:
    """A loaded database and the sessions on it."""

    def __init__(self, dsn: str, corpus: Corpus, progress: Progress) -> None:
        self.dsn = dsn
        self.corpus = corpus
        self.progress = progress
        self.conn: Conn = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        self.space = f"scale-{corpus.source.name}"
        self.space_no = 0
        self.vector_schema = scale_load.vector_schema(self.conn)
        self.seconds: dict[str, float] = {}

    def close(self) -> None:
        self.conn.close()

    def session(self, dsn: str | None = None) -> Conn:
        return connect(dsn or self.dsn, self.vector_schema)

    def cases(self) -> dict[str, Case]:
        return cases(self.space_no, self.vector_schema)

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Does ``work`` and keeps its seconds under ``name``."""
        self.progress(name)
        started = time.perf_counter()
        result = work()
        self.seconds[name] = round(self.seconds.get(name, 0) + time.perf_counter() - started, 1)
        return result

    def load(self, start: int, stop: int) -> None:
        """Rows start..stop, then the index as a whole, then VACUUM and ANALYZE."""
        rebuild = scale_load.drop_index(self.conn, self.space_no)
        rows = self.corpus.rows(start, stop)
        self.timed("load", lambda: scale_load.load(self.conn, rows, self.space_no))
        self.timed("build HNSW", lambda: scale_load.build_index(self.conn, rebuild))
        if stop == self.corpus.size:
            self.timed("build GIN", lambda: self.conn.execute(scale_load.TEXT_INDEX))
        self.timed("vacuum and analyze", lambda: scale_load.settle(self.conn))


def run(
    dsn: str,
    corpus: Corpus,
    progress: Progress,
    *,
    asked: int = 100,
    rounds: int = 2,
    admin_dsn: str | None = None,
    halves: bool = True,
) -> dict[str, Any]:
    """The report as one document. ``asked`` questions a size; ``admin_dsn`` may create a role.

    A database that holds this corpus already (an earlier run with the same rows) is measured as it
    is; then growth is not measured, because its smaller state is gone.
    """
    with closing(Bench(dsn, corpus, progress)) as bench:
        document: dict[str, Any] = {"rows": corpus.size, "source": corpus.source.name}
        questions = {size: corpus.questions(size, asked) for size in SIZES}
        known = scale_load.loaded(bench.conn, corpus.key)
        if known is None:
            document["growth"] = _grow(bench, asked)
        else:
            bench.space_no = known
        document["same_as_remember"] = _check(bench)
        document |= _sizes(bench, questions, rounds)
        document["slow"] = _slow(bench, questions["big"])
        document["clients"] = _crowd(bench, questions)
        document["granted"] = _granted(bench, questions["big"], admin_dsn)
        progress("a workspace whose rows have owners")
        document["owned"] = owned(bench, questions["big"])
        progress("agreement with unbounded scoring")
        with bench.session() as conn:
            document["agreement"] = agreement(conn, questions["big"])
        if halves:
            document["superseded"] = half_and_fresh(bench, asked, rounds)
        document["seconds"] = bench.seconds
        document["settings"] = _settings(bench.conn)
        return document


def _grow(bench: Bench, asked: int) -> dict[str, Any]:
    """Loads everything, with a stop at a quarter to measure the big workspace there."""
    conn, corpus = bench.conn, bench.corpus
    scale_load.prepare(conn)
    bench.space_no = scale_load.new_space(conn, bench.space)
    scale_load.open_workspaces(conn, corpus.layout.workspaces, bench.space)
    quarter = corpus.size // 4
    bench.load(0, quarter)
    questions = corpus.questions("big", asked, before=quarter)
    small = _fast(bench, questions, 2)
    bench.load(quarter, corpus.size)
    questions = corpus.questions("big", asked)
    large = _fast(bench, questions, 2)
    scale_load.remember_loaded(conn, corpus.key, bench.space_no)
    return {
        "from_rows": quarter,
        "to_rows": corpus.size,
        "before": small,
        "after": large,
        "recall": ratio(large["recall"], small["recall"]),
        "vector": ratio(large["vector"], small["vector"]),
    }


def _fast(bench: Bench, questions: Sequence[Question], rounds: int) -> dict[str, Any]:
    """recall beside the bare vector query."""
    known = bench.cases()
    with bench.session() as conn:
        taken = interleaved(
            [(name, conn, known[name]) for name in ("vector", "recall")], questions, rounds
        )
    return {name: times(values) for name, values in taken.items()}


def _sizes(
    bench: Bench, questions: dict[str, list[Question]], rounds: int
) -> dict[str, dict[str, Any]]:
    found = {}
    for size in SIZES:
        bench.progress(f"recall in the {size} workspace")
        found[size] = _fast(bench, questions[size], rounds)
        sides = found[size]["recall"], found[size]["vector"]
        found[size] |= {"ratio": ratio(*sides), "cpu_ratio": ratio(*sides, "cpu_p50_ms")}
        with bench.session() as conn:
            recall = bench.cases()["recall"]
            hits = [recall.ask(conn, question) for question in questions[size]]
        known = [q for q in questions[size] if q.about]
        found[size]["fewest_hits"] = min(len(rows) for rows in hits)
        found[size]["hit@8"] = round(
            sum(
                any(row[2] in question.about for row in rows)
                for question, rows in zip(questions[size], hits, strict=True)
            )
            / max(1, len(known)),
            4,
        )
    return found


def _slow(bench: Bench, questions: Sequence[Question]) -> dict[str, Any]:
    """recall beside the hybrid queries and full-text search."""
    bench.progress("the hybrid queries and full-text search")
    known = bench.cases()
    found: dict[str, Any] = {}
    for name in ("hybrid", "hybrid_indexed", "words"):
        # Each beside recall alone: what reads every vector leaves the caches cold for all.
        with bench.session() as conn:
            taken = interleaved([(n, conn, known[n]) for n in (name, "recall")], questions)
        found |= {name: times(taken[name]), f"beside_{name}": times(taken["recall"])}
        found[f"faster_than_{name}"] = ratio(found[name], found[f"beside_{name}"])
    return found


def _crowd(bench: Bench, questions: dict[str, list[Question]]) -> dict[str, Any]:
    """Eight clients at once, recall and the bare query in turn."""
    found: dict[str, Any] = {"clients": CLIENTS}
    known = bench.cases()
    for size in SIZES:
        bench.progress(f"{CLIENTS} clients in the {size} workspace")
        taken = {"vector": Taken(), "recall": Taken()}
        for _ in range(2):
            for name, values in taken.items():
                values += crowded(bench.session, known[name], questions[size] * 2, CLIENTS)
        found[size] = {name: times(values) for name, values in taken.items()}
        found[size]["ratio"] = ratio(found[size]["recall"], found[size]["vector"])
    return found


def _granted(
    bench: Bench, questions: Sequence[Question], admin_dsn: str | None
) -> dict[str, Any] | None:
    """recall as a role that was granted the workspace, beside recall as the owner; None without."""
    role = sql.Identifier(READER)
    try:
        with psycopg.connect(admin_dsn or bench.dsn, autocommit=True) as conn:
            with suppress(psycopg.errors.DuplicateObject):
                conn.execute(sql.SQL("create role {} login").format(role))
            bench.conn.execute("select remem.grant_access(%s, %s)", [READER, BIG])
        granted = bench.session(make_conninfo(bench.dsn, user=READER))
    except psycopg.errors.Error as error:
        bench.progress(f"no role to grant to: {error}")
        return None
    known = bench.cases()["recall"]
    try:
        with granted, bench.session() as owner:
            taken = interleaved(
                [("owner", owner, known), ("granted", granted, known)], questions, 1
            )
    finally:
        bench.conn.execute("select remem.revoke_access(%s, %s)", [READER, BIG])
        with psycopg.connect(admin_dsn or bench.dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))
    found: dict[str, Any] = {name: times(values) for name, values in taken.items()}
    return found | {"ratio": ratio(found["granted"], found["owner"])}


def _check(bench: Bench) -> bool:
    """True when a loaded small workspace is what ``remember_many`` would have left."""
    bench.progress("comparing with remember")
    name = bench.corpus.layout.workspaces[-1]
    numbers = bench.corpus.layout.numbers(len(bench.corpus.layout.workspaces) - 1)
    rows = [r for i in numbers for r in bench.corpus.rows(int(i), int(i) + 1)]
    differing = scale_load.difference_to_remember(bench.conn, rows, bench.space, bench.space_no)
    if differing:
        bench.progress(f"{name} differs from what remember writes: {', '.join(differing)}")
    return not differing


def _settings(conn: Conn) -> dict[str, str]:
    wanted = ("server_version", "shared_buffers", "work_mem", "max_parallel_workers_per_gather")
    rows = conn.execute(
        "select name, current_setting(name) from unnest(%s::text[]) name", [list(wanted)]
    ).fetchall()
    version = conn.execute("select extversion from pg_extension where extname = 'vector'")
    return {**dict(rows), "pgvector": str((version.fetchone() or ("",))[0])}
