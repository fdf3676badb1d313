"""Spaces, claims and vectors over plain SQL, and models that a test can look through."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import psycopg

from tests.support.memories import Connection, value

MODEL = {
    "backend": "callable",
    "dimensions": 3,
    "pooling": "",
    "normalization": "",
    "dtype": "float32",
}


class Job(NamedTuple):
    """One remem.embedding_job."""

    claim_id: UUID
    item_no: int
    kind: str
    id: str
    text: str
    content_hash: str
    failures: int
    space: str
    run_id: UUID


def register(conn: Connection, name: str = "new", **changes: Any) -> int:
    """Registers a space of three dimensions; its number."""
    descriptor = {**MODEL, "name": name, "asset": name, **changes}
    return int(value(conn, "select (remem.register_space(%s)).space_no", [json.dumps(descriptor)]))


def start(conn: Connection, workspace: str = "w", space: str = "new") -> None:
    conn.execute("select remem.start_reembed(%s, %s)", [workspace, space])


def claim(conn: Connection, n: int = 25, lease: str = "15 minutes", **more: Any) -> list[Job]:
    """Claims in the workspace w (or `workspace=`)."""
    rows = conn.execute(
        'select * from remem.claim_embeddings(%s, %s, "limit" => %s, lease => %s::interval,'
        " run_id => %s::uuid)",
        [more.get("workspace", "w"), more.get("space"), n, lease, more.get("run_id")],
    ).fetchall()
    return [Job(*row) for row in rows]


def complete(
    conn: Connection, jobs: Sequence[Job], *vectors: Sequence[float], workspace: str = "w"
) -> list[str]:
    """Stores a vector for each job (the same for all when one is given); the outcomes."""
    given = vectors or ((1.0, 0.0, 0.0),)
    rows = given if len(given) == len(jobs) else list(given) * len(jobs)
    flat = [float(x) for row in rows for x in row]
    found = conn.execute(
        "select item_no, outcome from remem.complete_embeddings(%s, %s, %s, %s::real[])",
        [workspace, jobs[0].claim_id, [job.item_no for job in jobs], flat],
    ).fetchall()
    assert [item for item, _ in found] == [job.item_no for job in jobs]
    return [outcome for _, outcome in found]


def drain(conn: Connection, workspace: str = "w") -> int:
    """Embeds whatever is left; how many texts."""
    done = 0
    while jobs := claim(conn, workspace=workspace):
        done += len(jobs)
        complete(conn, jobs, workspace=workspace)
    return done


class Cover(NamedTuple):
    """The part of remem.embedding_coverage that tests look at."""

    space: str
    state: str
    total: int
    embedded: int
    pending: int
    claimed: int
    waiting: int
    set_aside: int
    empty: int
    cutover: str


def coverage(conn: Connection, workspace: str = "w", space: str | None = None) -> list[Cover]:
    rows = conn.execute(
        f"select {', '.join(Cover._fields)} from remem.embedding_backlog(%s, %s)",  # type: ignore[arg-type]
        [workspace, space],
    ).fetchall()
    return [Cover(*row) for row in rows]


def finish(conn: Connection, workspace: str = "w", nearly: bool = False) -> bool:
    return bool(value(conn, "select (remem.finish_reembed(%s, %s)).activated", [workspace, nearly]))


def state(conn: Connection, space: str) -> str | None:
    """The state of a space in the database; None when there is no such space."""
    row = conn.execute(
        "select state from remem.embedding_space where name = %s", [space]
    ).fetchone()
    return None if row is None else str(row[0])


def current(conn: Connection, workspace: str = "w") -> str:
    return str(value(conn, "select (remem.current_space(%s)).name", [workspace]))


class Shares:
    """A model whose vectors are made of the text's hash; those of two `lanes` share no direction,
    so that a comparison across models has a product of exactly zero."""

    def __init__(self, model_id: str, lane: int = 0, dimensions: int = 16) -> None:
        self.id = model_id
        self.dimensions = dimensions
        self.lane = lane
        self.calls = 0
        self.bad: set[str] = set()

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        if any(mark in text for text in texts for mark in self.bad):
            raise ValueError("a text that this model cannot take")
        half = self.dimensions // 2
        rows = np.zeros((len(texts), self.dimensions), dtype="f4")
        for row, text in zip(rows, texts, strict=True):
            digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:half], dtype="u1")
            row[self.lane * half : (self.lane + 1) * half] = 1.0 + digest
        return rows


def stored(su: psycopg.Connection[Any], space: str, workspace: str = "w") -> dict[str, list[float]]:
    """The stored vectors of a workspace by the text that each should stand for."""
    number = value(su, "select space_no from remem.embedding_space where name = %s", [space])
    rows = su.execute(
        "select remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags),"  # type: ignore[arg-type]
        f" e.embedding::text from remem.embedding_{number} e"
        " join remem.memory m using (workspace, memory_no)"
        " where e.workspace = %s and m.superseded_at is null and m.forgotten_at is null",
        [workspace],
    ).fetchall()
    return {text: json.loads(vector) for text, vector in rows}


def expire(conn: Connection) -> None:
    """As if the leases of all claims had ended."""
    conn.execute(
        "update remem.embedding_claim set due_at = now() - interval '1 minute'"
        " where state = 'claimed'"
    )
    conn.execute("update remem.job_run set lease_until = now() - interval '1 minute'")


def due(conn: Connection) -> None:
    """As if the time of all that waits had come."""
    conn.execute("update remem.embedding_claim set due_at = now() where state = 'waiting'")


def run(conn: Connection, run_id: uuid.UUID) -> dict[str, Any]:
    row = conn.execute(
        "select state, claimed, embedded, failed, last_error, completed_at is not null, metadata"
        " from remem.embedding_runs('w') where run_id = %s",
        [run_id],
    ).fetchone()
    assert row is not None
    return dict(
        zip(("state", "claimed", "embedded", "failed", "error", "over", "meta"), row, strict=True)
    )


def fail(conn: Connection, job: Job, error: str = "TimeoutError", **more: Any) -> int:
    return int(
        value(
            conn,
            "select remem.fail_embeddings('w', %s, %s, %s, retry_after => %s::interval)",
            [job.claim_id, error, more.get("items"), more.get("after")],
        )
    )
