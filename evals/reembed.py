"""What re-embedding costs: texts per second beside the bare model loop, recall meanwhile, and a
swap from the hash to the model and back under writes and recalls.

The job and the bare loop take turns over the same texts slice by slice, in one process with one
model, so that a busy machine disturbs both alike. Recall is timed in this process while the job, or
the bare loop alone, runs in another.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from evals.metrics import percentile
from evals.report import table
from remem_pg import Remem
from remem_pg.embedding.base import EmbeddingModel

SEED = 20261
FLOOR_SPEED, GOAL_SPEED = 0.85, 0.95
FLOOR_P95, GOAL_P95 = 1.5, 1.2
BATCH = 64
_WHO_TEXT = "Ana Bo Mei Ines Omar Priya Sven Tariq Yuki Zoe"
_WHO = _WHO_TEXT.split()
_DID_TEXT = "decided proposed measured reported noticed asked agreed planned reviewed postponed"
_DID = _DID_TEXT.split()
_WHAT_TEXT = (
    "queue retries backups invoices dashboards deployments migrations alerts caches tickets "
    "contracts budgets interviews releases webhooks exports logins sensors meetings indexes"
)
_WHAT = _WHAT_TEXT.split()
_WHY = (
    "because the pager rang twice last night",
    "after the customer in Porto complained about the delay",
    "so that the team of the second floor can sleep",
    "since nobody had looked at the numbers for a month",
    "although the budget for this quarter is nearly used up",
    "before the audit in spring, and with the new vendor",
)
_BARE = """
import sys, time
from evals.models import open_model
from evals.reembed import BATCH, make_texts
model = open_model(sys.argv[1])
texts = make_texts(int(sys.argv[2]))
print("ready", flush=True)
for start in range(0, len(texts), BATCH):
    model.embed(texts[start : start + BATCH])
"""
_JOB = """
import sys
from remem_pg import Remem
from evals.models import open_model
model = open_model(sys.argv[1])
model.embed(["warm"])
with Remem(sys.argv[2], workspace=sys.argv[3], embedding=model) as memory:
    memory.version()
    print("ready", flush=True)
    memory.reembed(batch_size=64)
"""


def make_texts(count: int) -> list[str]:
    """``count`` different sentences, the same in every run."""
    rng = random.Random(SEED)
    return [
        f"{rng.choice(_WHO)} {rng.choice(_DID)} the {rng.choice(_WHAT)} and the "
        f"{rng.choice(_WHAT)} of project {number % 97}, {rng.choice(_WHY)} (note {number})."
        for number in range(count)
    ]


def questions(count: int) -> list[str]:
    rng = random.Random(SEED + 1)
    return [
        f"what did {rng.choice(_WHO)} say about the {rng.choice(_WHAT)} of project "
        f"{rng.randrange(97)}?"
        for _ in range(count)
    ]


def recalls(
    conn: psycopg.Connection[Any], workspace: str, asked: Sequence[str], go_on: Callable[[], bool]
) -> list[float]:
    """Milliseconds of one recall after the other, as long as ``go_on`` says."""
    taken: list[float] = []
    while go_on():
        question = asked[len(taken) % len(asked)]
        began = time.perf_counter()
        conn.execute("select * from remem.recall(%s, %s)", [workspace, question]).fetchall()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def speed(
    memory: Remem, model: EmbeddingModel, texts: Sequence[str], slice_size: int
) -> dict[str, Any]:
    """The job and the bare loop in turn over slices of the texts."""
    wall = {"bare": 0.0, "job": 0.0}
    cpu = {"bare": 0.0, "job": 0.0}
    done = 0
    for turn, at in enumerate(range(0, len(texts), slice_size)):
        part = texts[at : at + slice_size]

        def bare(part: Sequence[str] = part) -> int:
            for start in range(0, len(part), BATCH):
                model.embed(part[start : start + BATCH])
            return len(part)

        # the last text is left for the switch, which is timed by itself
        count = min(len(part), len(texts) - 1 - done)

        def job(count: int = count) -> int:
            return memory.reembed(batch_size=BATCH, limit=count).reembedded

        order: list[tuple[str, Callable[[], int]]] = [("bare", bare), ("job", job)]
        for name, work in order if turn % 2 == 0 else order[::-1]:
            began, before = time.perf_counter(), time.process_time()
            worked = work()
            wall[name] += time.perf_counter() - began
            cpu[name] += time.process_time() - before
            done += worked if name == "job" else 0
    began = time.perf_counter()
    rest = memory.reembed()
    assert done + rest.reembedded == len(texts)
    return {
        "texts": done,
        "bare_texts_per_second": round(len(texts) / wall["bare"], 1),
        "job_texts_per_second": round(done / wall["job"], 1),
        "ratio": round(done / wall["job"] / (len(texts) / wall["bare"]), 3),
        "client_cpu_ratio": round(cpu["bare"] / cpu["job"], 3),
        "switch_seconds": round(time.perf_counter() - began, 2),
    }


def meanwhile(
    conn: psycopg.Connection[Any], workspace: str, dsn: str, spec: str, count: int
) -> dict[str, Any]:
    """p50 and p95 of recall on an idle server, beside the bare loop, and beside the job."""
    asked = questions(200)
    end = len(asked) * 2
    taken: dict[str, list[float]] = {}
    recalls(conn, workspace, asked, _times(50))
    taken["idle"] = recalls(conn, workspace, asked, _times(end))
    programs = {"bare": [_BARE, spec, str(count)], "job": [_JOB, spec, dsn, workspace]}
    for name, arguments in programs.items():
        child = subprocess.Popen(
            [sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            taken[name] = recalls(conn, workspace, asked, lambda c=child: c.poll() is None)  # type: ignore[misc]
        finally:
            child.kill()
            child.wait()
    taken["idle"] += recalls(conn, workspace, asked, _times(end))
    measured = {
        name: {
            "recalls": len(values),
            "p50_ms": round(percentile(values, 0.5), 2),
            "p95_ms": round(percentile(values, 0.95), 2),
        }
        for name, values in taken.items()
    }
    return {
        **measured,
        "p95_ratio": round(measured["job"]["p95_ms"] / measured["idle"]["p95_ms"], 2),
        "p95_ratio_to_bare": round(measured["job"]["p95_ms"] / measured["bare"]["p95_ms"], 2),
    }


def _times(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is not None


def swap(dsn: str, workspace: str, model: EmbeddingModel, count: int) -> dict[str, Any]:
    """To the model and back to the hash, while one program writes and one asks."""
    texts = make_texts(count)
    errors: list[str] = []
    degraded: set[str] = set()
    counted = {"recalls": 0, "writes": 0}
    stop = threading.Event()

    def work(name: str) -> None:
        try:
            with Remem(dsn, workspace=workspace, embedding="hash") as client:
                while not stop.is_set():
                    number = counted[name]
                    if name == "writes":
                        client.remember(f"{texts[number % count]} Again.", ref=f"r{number % count}")
                    else:
                        found = client.recall(texts[number % count])
                        degraded.update(found.degraded)
                    counted[name] += 1
                    time.sleep(0.02)
        except BaseException as error:
            errors.append(f"{name}: {type(error).__name__}: {error}")

    began = time.perf_counter()
    with Remem(dsn, workspace=workspace, embedding="hash") as with_hash:
        with_hash.remember_many([{"body": t, "ref": f"r{n}"} for n, t in enumerate(texts)])
        threads = [threading.Thread(target=work, args=(name,)) for name in counted]
        for thread in threads:
            thread.start()
        moves = []
        try:
            with Remem(dsn, workspace=workspace, embedding=model) as with_model:
                for client in (with_model, with_hash):
                    result = client.reembed()
                    moves.append(
                        {
                            "to": result.space,
                            "embedded": result.reembedded,
                            "activated": result.activated,
                            "dropped": len(result.dropped),
                            "seconds": round(result.seconds, 1),
                        }
                    )
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        with_hash.reembed()
        left = with_hash.embedding_backlog()
        with psycopg.connect(dsn, autocommit=True) as conn:
            row = conn.execute(
                "select count(*) filter (where kind = 'space-activation')"
                " from remem.embedding_runs(%s, 10000)",
                [workspace],
            ).fetchone()
    assert row is not None
    return {
        "memories": count,
        "moves": moves,
        "seconds": round(time.perf_counter() - began, 1),
        **counted,
        "errors": errors,
        "degraded": sorted(degraded),
        "activations": row[0],
        "coverage": [
            {"space": c.space, "total": c.total, "pending": c.pending, "set_aside": c.set_aside}
            for c in left
        ],
    }


def run(
    dsn: str,
    spec: str,
    model: EmbeddingModel,
    count: int,
    swap_count: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """The whole measurement as one document."""
    texts = make_texts(count)
    stamp = int(time.time())
    names = [f"evals:reembed:{stamp}:{part}" for part in ("speed", "meanwhile", "swap")]
    progress(f"loading {count} memories twice")
    for name in names[:2]:
        with Remem(dsn, workspace=name, embedding="hash") as loader:
            loader.remember_many([{"body": text} for text in texts])
    model.embed(texts[:BATCH])
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("select remem.version()").fetchone()
        assert row is not None
        progress("the job and the bare loop in turn")
        with Remem(dsn, workspace=names[0], embedding=model) as memory:
            fast = speed(memory, model, texts, max(BATCH * 4, count // 8 // BATCH * BATCH))
        progress("recall on an idle server, beside the bare loop, beside the job")
        beside = meanwhile(conn, names[1], dsn, spec, count)
    progress(f"a swap of {swap_count} memories under writes and recalls")
    return {
        "model": model.id,
        "memories": count,
        "server_version": row[0]["postgres"],
        "pgvector": row[0]["pgvector"],
        "speed": fast,
        "recall": beside,
        "swap": swap(dsn, names[2], model, swap_count),
        "floor": {"speed_ratio": FLOOR_SPEED, "p95_ratio": FLOOR_P95},
        "goal": {"speed_ratio": GOAL_SPEED, "p95_ratio": GOAL_P95},
    }


def page(document: dict[str, Any]) -> str:
    """The document as text for people."""
    fast, beside, moved = document["speed"], document["recall"], document["swap"]
    lines = [
        f"{document['memories']} memories, {document['model']}, Postgres "
        f"{document['server_version']}, pgvector {document['pgvector']}",
        "",
        table(
            ["texts per second", "bare loop", "job", "ratio", "floor", "goal"],
            [
                ["", str(fast["bare_texts_per_second"]), str(fast["job_texts_per_second"]),
                 str(fast["ratio"]), str(FLOOR_SPEED), str(GOAL_SPEED)],
            ],
        ),
        "",
        table(
            ["recall", "recalls", "p50 ms", "p95 ms"],
            [
                [name, *(str(beside[name][key]) for key in ("recalls", "p50_ms", "p95_ms"))]
                for name in ("idle", "bare", "job")
            ],
        ),
        f"p95 beside the job over idle: {beside['p95_ratio']} (floor {FLOOR_P95}, goal {GOAL_P95})"
        f"; over p95 beside the bare loop: {beside['p95_ratio_to_bare']}",
        "",
        f"swap of {moved['memories']} memories there and back: {moved['seconds']} s, "
        f"{moved['writes']} writes, {moved['recalls']} recalls, {len(moved['errors'])} errors, "
        f"{moved['activations']} activations, degraded: {', '.join(moved['degraded']) or 'never'}",
    ]  # fmt: skip
    lines += [f"  {error}" for error in moved["errors"]]
    return "\n".join(lines)
