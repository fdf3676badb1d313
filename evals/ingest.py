"""What loading costs: rows per second beside COPY, memory of the client, latency of one write.

*Rows per second*: slices of memories are remembered in one database, and the very rows that this
left in every table are copied (binary, one COPY a table) into a second database with the same
tables and indexes. The two take turns slice by slice, so that a busy machine disturbs both alike
and both indexes grow alike. Three ways: the caller brings vectors; the server makes them (the
built-in hash); no vectors at all, which leaves the text analysis with nothing to hide behind.

*Memory*: the peak of a ``remem`` process that imports, exports and imports again.

*One write*: ``remember`` in a transaction of its own, and the rows it left inserted into the
second database in a transaction of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from evals.database import temporary_server
from evals.metrics import percentile
from evals.report import table
from evals.scale_data import Corpus, Generated
from evals.scale_load import item
from remem_pg import MemoryInput, Remem
from remem_pg.embedded import EmbeddedServer
from remem_pg.install import migrate

FLOOR_RATE, GOAL_RATE = 0.4, 0.6
FLOOR_MB, GOAL_MB = 300, 200
FLOOR_P95 = 3.0
SLICE = 1000
WORKSPACE = "evals:ingest"
WAYS = {"vectors": "the caller's", "hash": "made by the server", "words": "none"}

# The column by which the rows of a slice are told from those of the slices before.
_TABLES = {
    "session": "session_no",
    "memory": "memory_no",
    "posting": "memory_no",
    "memory_entity": "memory_no",
    "embedding_{space}": "memory_no",
}

Conn = psycopg.Connection[tuple[Any, ...]]
Progress = Callable[[str], None]


def run(rows: int, memory_rows: int, singles: int, progress: Progress) -> dict[str, Any]:
    """All three measurements as one document, on a server that lives for the run."""
    document: dict[str, Any] = {"rows": rows, "rates": {}}
    for way in WAYS:
        with temporary_server() as server, _Pair(server, way) as pair:
            progress(f"{way}: {rows} rows in slices of {SLICE}")
            document["rates"][way] = rates(pair, rows)
            if way != "words":
                progress(f"{way}: {singles} single writes")
                document.setdefault("single", {})[way] = single(pair, rows, singles)
            document["server_version"] = pair.first.info.server_version
    document["memory"] = memory(memory_rows, progress)
    return document


class _Pair:
    """The database that remembers, and the one that is only given the rows."""

    def __init__(self, server: EmbeddedServer, way: str) -> None:
        self.way = way
        with psycopg.connect(server.admin_dsn, autocommit=True) as conn:
            conn.execute("create database evals_copy owner remem template template0")
        copy_admin = psycopg.conninfo.make_conninfo(server.admin_dsn, dbname="evals_copy")
        with psycopg.connect(copy_admin, autocommit=True) as conn:
            conn.execute("create extension vector")
        copy_dsn = psycopg.conninfo.make_conninfo(server.dsn, dbname="evals_copy")
        migrate(copy_dsn)
        self.first: Conn = psycopg.connect(server.dsn, autocommit=True, prepare_threshold=None)
        self.second: Conn = psycopg.connect(copy_dsn, autocommit=True, prepare_threshold=None)
        self.client = Remem(self.first, workspace=WORKSPACE, embedding=None)
        self.space = 1
        if way != "hash":
            self.space = open_space(self.client, self.first)

    def __enter__(self) -> _Pair:
        if self.space != 1:
            # the second database has the same table with the same index
            other = Remem(self.second, workspace=WORKSPACE, embedding=None)
            open_space(other, self.second)
        return self

    def __exit__(self, *_: object) -> None:
        self.first.close()
        self.second.close()

    def items(self, start: int, stop: int, corpus: Corpus) -> list[MemoryInput]:
        """Rows of the corpus in one workspace, with vectors only if they are the caller's."""
        found = []
        for number, row in enumerate(corpus.rows(start, stop), start):
            one = item(row)
            one["ref"], one["session_ref"] = f"r{number}", f"s{number // 20}"
            one["turn_no"] = number % 20 + 1
            if self.way != "vectors":
                del one["embedding"]
            found.append(one)
        return found  # type: ignore[return-value]

    def cpu(self, conn: Conn) -> float:
        """Seconds that the connection's server process has worked; 0 where nobody says."""
        try:
            return (
                int(Path(f"/proc/{conn.info.backend_pid}/schedstat").read_text().split()[0]) / 1e9
            )
        except OSError:
            return 0.0

    def marks(self) -> dict[str, int]:
        """The highest number of each table so far."""
        return {
            name: int(self.first.execute(self._max(name, column)).fetchone()[0])  # type: ignore[index]
            for name, column in _TABLES.items()
        }

    def _table(self, name: str) -> sql.Identifier:
        return sql.Identifier("remem", name.format(space=self.space))

    def _max(self, name: str, column: str) -> sql.Composed:
        return sql.SQL("select coalesce(max({}), 0) from {}").format(
            sql.Identifier(column), self._table(name)
        )

    def copied(self, marks: dict[str, int]) -> dict[str, bytes]:
        """The rows above the marks, table by table, as binary COPY."""
        return {
            name: b"".join(_copy_out(self.first, self._rows(name, marks[name]))) for name in _TABLES
        }

    def _rows(self, name: str, above: int) -> sql.Composed:
        column = sql.Identifier(_TABLES[name])
        return sql.SQL(
            "copy (select t.* from {} t where {} > {} order by {}) to stdout (format binary)"
        ).format(self._table(name), column, sql.Literal(above), column)

    def copy_in(self, data: dict[str, bytes]) -> None:
        """Copies into the second database, in one transaction."""
        with self.second.transaction(), self.second.cursor() as cursor:
            for name, binary in data.items():
                statement = sql.SQL("copy {} from stdin (format binary)").format(self._table(name))
                with cursor.copy(statement) as copy:
                    copy.write(binary)

    def texts(self, marks: dict[str, int]) -> dict[str, list[str]]:
        """The rows above the marks as array elements, for an ordinary INSERT."""
        return {
            name: [
                row[0]
                for row in self.first.execute(
                    sql.SQL("select t::text from {} t where {} > %s").format(
                        self._table(name), sql.Identifier(column)
                    ),
                    [marks[name]],
                )
            ]
            for name, column in _TABLES.items()
        }

    def insert(self, rows: dict[str, list[str]]) -> None:
        """One INSERT a table in one transaction and one round trip."""
        with self.second.pipeline(), self.second.transaction():
            for name, texts in rows.items():
                if texts:
                    self.second.execute(
                        sql.SQL("insert into {0} select (r).* from unnest(%s::{0}[]) r").format(
                            self._table(name)
                        ),
                        [texts],
                    )


def open_space(client: Remem, conn: Conn) -> int:
    """Moves the workspace to a space that stands for a model of 384 dimensions."""
    space = client.register_space(
        {
            "name": "evals-ingest", "backend": "evals", "asset": "evals-ingest", "dimensions": 384,
            "pooling": "mean", "normalization": "l2", "dtype": "float32", "cosine_floor": 0.2,
            "cosine_full": 0.7,
        }
    )  # fmt: skip
    client.activate_space(space.fingerprint, WORKSPACE)
    row = conn.execute("select space_no from remem.embedding_space where name = 'evals-ingest'")
    return int(row.fetchone()[0])  # type: ignore[index]


def _copy_out(conn: Conn, statement: sql.Composed) -> Iterator[bytes]:
    with conn.cursor().copy(statement) as copy:
        for block in copy:
            yield bytes(block)


def rates(pair: _Pair, rows: int) -> dict[str, Any]:
    """Seconds of both sides over all slices; the first slice only warms up."""
    corpus = Corpus(max(rows, SLICE), Generated())
    spent = {"remember": 0.0, "copy": 0.0}
    cpu = {"remember": 0.0, "copy": 0.0}
    counted = 0
    for start in range(0, rows, SLICE):
        items = pair.items(start, min(start + SLICE, rows), corpus)
        marks = pair.marks()
        at, work = time.perf_counter(), pair.cpu(pair.first)
        stored = pair.client.remember_many(items)
        one = (time.perf_counter() - at, pair.cpu(pair.first) - work)
        if any(ref.outcome != "created" for ref in stored):
            raise ValueError("a row was there already")
        data = pair.copied(marks)
        at, work = time.perf_counter(), pair.cpu(pair.second)
        pair.copy_in(data)
        other = (time.perf_counter() - at, pair.cpu(pair.second) - work)
        if start:
            counted += len(items)
            spent["remember"] += one[0]
            spent["copy"] += other[0]
            cpu["remember"] += one[1]
            cpu["copy"] += other[1]
    return {
        "remember_rows_per_second": round(counted / spent["remember"], 1),
        "copy_rows_per_second": round(counted / spent["copy"], 1),
        "ratio": round(spent["copy"] / spent["remember"], 3),
        "server_cpu_ratio": round(cpu["copy"] / cpu["remember"], 3) if cpu["remember"] else None,
        "remember_cpu_ms_per_row": round(cpu["remember"] / counted * 1000, 3),
        "copy_cpu_ms_per_row": round(cpu["copy"] / counted * 1000, 3),
    }


def single(pair: _Pair, rows: int, singles: int) -> dict[str, Any]:
    """Milliseconds of single writes after the load, the first twenty unmeasured."""
    corpus = Corpus(rows + singles + 20, Generated())
    writes: list[float] = []
    inserts: list[float] = []
    work = [0.0, 0.0]
    for number in range(rows, rows + singles + 20):
        one = dict(pair.items(number, number + 1, corpus)[0])
        body = str(one.pop("body"))
        marks = pair.marks()
        at, before = time.perf_counter(), pair.cpu(pair.first)
        pair.client.remember(body, **one)  # type: ignore[arg-type]
        write, one_work = time.perf_counter() - at, pair.cpu(pair.first) - before
        rows_left = pair.texts(marks)
        at, before = time.perf_counter(), pair.cpu(pair.second)
        pair.insert(rows_left)
        insert, other_work = time.perf_counter() - at, pair.cpu(pair.second) - before
        if number >= rows + 20:
            work = [work[0] + one_work, work[1] + other_work]
            writes.append(write * 1000)
            inserts.append(insert * 1000)
    result = {
        name: {"p50_ms": round(percentile(ms, 0.5), 3), "p95_ms": round(percentile(ms, 0.95), 3)}
        for name, ms in (("remember", writes), ("insert", inserts))
    }
    return result | {
        "p50_ratio": round(percentile(writes, 0.5) / percentile(inserts, 0.5), 2),
        "p95_ratio": round(percentile(writes, 0.95) / percentile(inserts, 0.95), 2),
        "server_cpu_ratio": round(work[0] / work[1], 2) if work[1] else None,
    }


def memory(rows: int, progress: Progress) -> dict[str, Any]:
    """Peak resident megabytes of three commands over one file of ``rows`` memories."""
    with temporary_server() as server, tempfile.TemporaryDirectory() as place:
        # without vectors the server is quicker; the client's part is the same
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            for name in ("a", "b"):
                client = Remem(conn, workspace=f"{WORKSPACE}:{name}", embedding=None)
                space = client.register_space(
                    {"name": "evals-none", "backend": "evals", "asset": "none", "dimensions": 2}
                )
                client.activate_space(space.fingerprint, f"{WORKSPACE}:{name}")
        lines = Path(place) / "items.jsonl"
        corpus = Corpus(rows, Generated())
        with lines.open("w") as file:
            for number, row in enumerate(corpus.rows()):
                one = item(row)
                del one["embedding"]
                one |= {"session_ref": f"s{number // 20}", "turn_no": number % 20 + 1}
                file.write(json.dumps(one) + "\n")
        exported = Path(place) / "export.jsonl"
        found: dict[str, Any] = {"rows": rows}
        for name, workspace, arguments in (
            ("import", "a", ["import", str(lines)]),
            ("import_rollback", "a", ["import", str(lines), "--on-error", "rollback"]),
            ("export", "a", ["export", str(exported)]),
            ("import_export", "b", ["import", str(exported)]),
        ):
            progress(f"{name} of {rows} memories")
            found[name] = _peak(server.dsn, f"{WORKSPACE}:{workspace}", arguments)
        return found


# A process knows its own peak; the one that its parent reads may be that of the parent before exec.
_RUN = """
import resource, sys
from remem_pg.cli import main
def peak():
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
try:
    main()
finally:
    print(peak(), file=sys.stderr)
"""


def _peak(dsn: str, workspace: str, arguments: list[str]) -> dict[str, float]:
    """Peak memory and seconds of a ``remem`` command; raises when it fails."""
    started = time.perf_counter()
    where = {"REMEM_DSN": dsn, "REMEM_WORKSPACE": workspace, "REMEM_EMBEDDING": "none"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments, "--json"],
        env={**os.environ, **where},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(f"remem {arguments[0]} failed: {done.stdout}{done.stderr}")
    return {
        "megabytes": round(int(done.stderr.split()[-1]) / 1024 / 1024, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }


def page(document: dict[str, Any]) -> str:
    """The document as text for people."""
    rated, singles, peaks = document["rates"], document["single"], document["memory"]
    return "\n".join(
        [
            f"{document['rows']} memories, Postgres {document['server_version'] // 10000}",
            "",
            table(
                ["vectors", "remember_many rows/s", "COPY rows/s", "ratio", "in processor time",
                 "floor", "goal"],
                [
                    [WAYS[way], str(r["remember_rows_per_second"]), str(r["copy_rows_per_second"]),
                     str(r["ratio"]), str(r["server_cpu_ratio"]), str(FLOOR_RATE), str(GOAL_RATE)]
                    for way, r in rated.items()
                ],
            ),
            "",
            table(
                ["one write, vectors", "remember p50", "p95", "insert p50", "p95", "p95 ratio",
                 "in processor time", "floor"],
                [
                    [WAYS[way], *(str(s[side][p]) for side in ("remember", "insert")
                                  for p in ("p50_ms", "p95_ms")), str(s["p95_ratio"]),
                     str(s["server_cpu_ratio"]), str(FLOOR_P95)]
                    for way, s in singles.items()
                ],
            ),
            "",
            table(
                [f"{peaks['rows']} memories", "peak MB", "seconds", "floor", "goal"],
                [
                    [name.replace("_", " "), str(p["megabytes"]), str(p["seconds"]),
                     str(FLOOR_MB), str(GOAL_MB)]
                    for name, p in peaks.items()
                    if isinstance(p, dict)
                ],
            ),
        ]
    )  # fmt: skip
