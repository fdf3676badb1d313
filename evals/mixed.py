"""Everything at once for a while: writers, readers, re-embedders, a correcter, a forgetter and a
job that changes the language. Afterwards a checker reads every derived table against the memories.

Expected refusals (a memory that is gone by now) are counted as such; anything else that is raised
is an error of the run. The database's own count of deadlocks has to stay where it was.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg

from evals.hushed import hushed
from evals.report import table
from remem_pg import NotFound, Remem

WORKSPACES = ("mixed-a", "mixed-b")
REFS = [f"ref-{n}" for n in range(60)]
SESSIONS = [f"session-{n}" for n in range(8)]
LANGUAGES = ("german", "english", "simple")
_WORDS_TEXT = (
    "retry page deploy queue kafka login token schema index vacuum replica backup invoice "
    "invoices charged charging customers customer Porto Ana Omar release releases cache"
)
WORDS = _WORDS_TEXT.split()
QUESTIONS = [
    "which queue retries after a deploy?",
    "what did Ana say about invoices?",
    "token login",
    '"replica backup"',
    "when was the release charged to customers in Porto?",
]
LONGEST_SETTLING = 120.0
"""Seconds after the run within which the jobs have to finish what is left."""


class Directions:
    """A model that costs nothing: the direction of a text is made of its hash. Two of them share
    none, as two real models would."""

    dimensions = 16

    def __init__(self, name: str, lane: int) -> None:
        self.id = name
        self._lane = lane

    def embed(self, texts: Sequence[str]) -> Any:
        """(n, 16) float32."""
        rows = np.zeros((len(texts), self.dimensions), dtype="f4")
        for row, text in zip(rows, texts, strict=True):
            digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], dtype="u1")
            row[self._lane * 8 : self._lane * 8 + 8] = 1.0 + digest
        return rows


MODELS = (Directions("mixed-left", 0), Directions("mixed-right", 1))


@dataclass
class Tally:
    """What the threads did and what went wrong, shared by all of them."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    degraded: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1

    def fail(self, role: str, error: BaseException) -> None:
        with self._lock:
            self.errors.append(f"{role}: {type(error).__name__}: {error}")

    def weaker(self, states: Sequence[str]) -> None:
        with self._lock:
            self.degraded.update(states)


@dataclass
class Stage:
    """What a role is given: the database, the workspace it starts with, chance, and the end."""

    dsn: str
    number: int
    tally: Tally
    stop: threading.Event
    wanted: list[int]
    """Per workspace: which of the models it is to have."""

    def chance(self) -> random.Random:
        return random.Random(1000 + self.number)

    @contextmanager
    def clients(self, model: Any = None, **more: Any) -> Iterator[list[Remem]]:
        with Remem(self.dsn, workspace=WORKSPACES[0], embedding=model, **more) as first:
            yield [first, first.workspace(WORKSPACES[1])]


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))


def _item(rng: random.Random) -> dict[str, Any]:
    item: dict[str, Any] = {"body": _text(rng)}
    if rng.random() < 0.7:
        item["ref"] = rng.choice(REFS)
    if rng.random() < 0.5:
        item["session_ref"] = rng.choice(SESSIONS)
        item["speaker"] = rng.choice(("Ana", "Omar"))
    if rng.random() < 0.3:
        item |= {"title": _text(rng), "aliases": [_text(rng)], "tags": [rng.choice(WORDS)]}
    if rng.random() < 0.3:
        item["on_conflict"] = "rewrite"
    if rng.random() < 0.2:
        item["topic_key"] = rng.choice(WORDS)
    return item


def _writer(stage: Stage) -> None:
    rng = stage.chance()
    with stage.clients(MODELS[stage.number % 2] if stage.number % 4 else None) as clients:
        while not stage.stop.is_set():
            mem = rng.choice(clients)
            if rng.random() < 0.5:
                mem.remember(**_item(rng))
                stage.tally.note("remember")
            else:
                items = [_item(rng) for _ in range(rng.randint(2, 12))]
                mem.remember_many(items, "report")  # type: ignore[arg-type]
                stage.tally.note("remember_many")


def _reader(stage: Stage) -> None:
    rng = stage.chance()
    cached = stage.number % 2 == 0
    with stage.clients(
        MODELS[stage.number % 2] if stage.number % 4 else None, cache=cached
    ) as all_:
        while not stage.stop.is_set():
            mem = rng.choice(all_)
            move = rng.random()
            if move < 0.7:
                options: dict[str, Any] = {}
                if rng.random() < 0.2:
                    options["filter"] = f'$.tags[*] == "{rng.choice(WORDS)}"'
                question = rng.choice(QUESTIONS) if rng.random() < 0.5 else _text(rng)
                result = mem.recall(question, 5, **options)
                ranks = [hit.rank for hit in result]
                if ranks != list(range(1, len(ranks) + 1)):
                    raise AssertionError(f"ranks {ranks}")
                stage.tally.weaker(result.degraded)
                stage.tally.note("recall")
            elif move < 0.8:
                mem.get(ref=rng.choice(REFS))
                stage.tally.note("get")
            elif move < 0.9:
                mem.history(ref=rng.choice(REFS))
                stage.tally.note("history")
            else:
                mem.list(limit=20, state=rng.choice(("current", "all")))
                stage.tally.note("list")


def _re_embedder(stage: Stage) -> None:
    rng = stage.chance()
    while not stage.stop.is_set():
        at = rng.randrange(len(WORKSPACES))
        if rng.random() < 0.5:
            stage.wanted[at] = 1 - stage.wanted[at]
        model = MODELS[stage.wanted[at]]
        with Remem(stage.dsn, workspace=WORKSPACES[at], embedding=model) as mem:
            result = mem.reembed(batch_size=32, stop=stage.stop.is_set)
        stage.tally.note("reembed" + (", switched" if result.activated else ""))
        stage.stop.wait(0.2)


def _correcter(stage: Stage) -> None:
    rng = stage.chance()
    with stage.clients() as clients:
        while not stage.stop.is_set():
            mem = rng.choice(clients)
            try:
                move = rng.random()
                if move < 0.6:
                    outcome = mem.correct(_text(rng), ref=rng.choice(REFS)).outcome
                elif move < 0.9:
                    ids = [m.memory_id for m in (mem.get(ref=r) for r in rng.sample(REFS, 2)) if m]
                    if len(ids) < 2:
                        continue
                    outcome = mem.supersede(ids[0], ids[1]).outcome
                else:
                    outcome = mem.pin(ref=rng.choice(REFS)).outcome
            except NotFound:
                outcome = "gone"
            stage.tally.note(f"correct: {outcome}")


def _forgetter(stage: Stage) -> None:
    rng = stage.chance()
    with stage.clients() as clients:
        while not stage.stop.is_set():
            mem = rng.choice(clients)
            ref = rng.choice(REFS)
            try:
                move = rng.random()
                if move < 0.5:
                    outcome = mem.forget(ref=ref).outcome
                elif move < 0.8:
                    outcome = mem.unforget(ref=ref).outcome
                elif move < 0.9:
                    outcome = mem.purge(ref=ref).outcome
                else:
                    mem.forget_where(f'$.ref == "{ref}"', False)
                    outcome = "forget_where"
            except NotFound:
                outcome = "gone"
            stage.tally.note(f"forget: {outcome}")


def _linguist(stage: Stage) -> None:
    rng = stage.chance()
    with stage.clients() as clients:
        while not stage.stop.is_set():
            mem = rng.choice(clients)
            if rng.random() < 0.3:
                mem.set_language(rng.choice(LANGUAGES))
                stage.tally.note("set_language")
            mem.reindex_text(0.3, stop=stage.stop.is_set)
            stage.tally.note("reindex_text")
            stage.stop.wait(0.2)


ROLES: Mapping[str, tuple[int, Callable[[Stage], None]]] = {
    "writer": (8, _writer),
    "reader": (8, _reader),
    "re-embedder": (2, _re_embedder),
    "correcter": (1, _correcter),
    "forgetter": (1, _forgetter),
    "linguist": (1, _linguist),
}


@hushed("remem_pg")  # it warns of models of another space, which is the point here
def run(dsn: str, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Runs all roles for ``seconds`` and checks what they leave.

    Returns a document with ``operations``, ``errors``, ``deadlocks``, ``problems`` (of the
    checker) and ``stale_answers`` (of the cache); the last four are empty or 0 when all is well.
    """
    for workspace, model in zip(WORKSPACES, MODELS, strict=True):
        with Remem(dsn, workspace=workspace, embedding=model) as mem:
            mem.remember_many([_item(random.Random(n)) for n in range(200)])  # type: ignore[misc]
            mem.reembed()
    tally, stop, wanted = Tally(), threading.Event(), [0, 1]
    before = _deadlocks(dsn)
    threads: list[threading.Thread] = []
    for role, (count, work) in ROLES.items():
        for _ in range(count):
            stage = Stage(dsn, len(threads), tally, stop, wanted)
            threads.append(threading.Thread(target=_guarded, args=(role, work, stage)))
    began = time.monotonic()
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(timeout=LONGEST_SETTLING)
    stuck = [thread.name for thread in threads if thread.is_alive()]
    took = time.monotonic() - began
    say(f"{sum(tally.done.values())} operations in {took:.0f} s, {len(tally.errors)} errors")
    _settle(dsn, wanted)
    return {
        "seconds": round(took, 1),
        "operations": dict(sorted(tally.done.items())),
        "degraded": dict(tally.degraded.most_common()),
        "errors": tally.errors,
        "stuck": stuck,
        "deadlocks": _deadlocks(dsn) - before,
        "problems": _problems(dsn, wanted),
        "stale_answers": _stale_answers(dsn),
    }


def is_clean(document: Mapping[str, Any]) -> bool:
    """Whether nothing went wrong and nothing was left."""
    return not any(
        document[name] for name in ("errors", "stuck", "deadlocks", "problems", "stale_answers")
    )


def page(document: Mapping[str, Any]) -> str:
    """The document for people."""
    rows = [[name, str(count)] for name, count in document["operations"].items()]
    lines = [f"{document['seconds']} s", "", table(["operation", "times"], rows), ""]
    for name in ("errors", "stuck", "problems", "stale_answers"):
        lines.append(f"{name.replace('_', ' ')}: {len(document[name]) or 'none'}")
        lines += [f"  {line}" for line in document[name][:20]]
    lines.append(f"deadlocks: {document['deadlocks'] or 'none'}")
    states = ", ".join(f"{state} {count}" for state, count in document["degraded"].items())
    lines.append(f"degraded states that recalls named: {states or 'none'}")
    return "\n".join(lines)


def _guarded(role: str, work: Callable[[Stage], None], stage: Stage) -> None:
    try:
        work(stage)
    except BaseException as error:  # whatever ends a thread is what the run is there to find
        stage.tally.fail(role, error)
        stage.stop.set()


def _deadlocks(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        # A backend reports when it is idle; those of the run are gone by now.
        row = conn.execute(
            "select deadlocks from pg_stat_database where datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _settle(dsn: str, wanted: Sequence[int]) -> None:
    """Lets the jobs finish: every workspace in one model and one language."""
    for workspace, model in zip(WORKSPACES, wanted, strict=True):
        with Remem(dsn, workspace=workspace, embedding=MODELS[model]) as mem:
            ends = time.monotonic() + LONGEST_SETTLING
            mem.reembed(stop=lambda ends=ends: time.monotonic() > ends)  # type: ignore[misc]
            mem.reindex_text(LONGEST_SETTLING)


def _problems(dsn: str, wanted: Sequence[int]) -> list[str]:
    # The checker belongs to the tests, whose every run ends with it: here it is borrowed.
    from tests.support.consistency import problems

    with psycopg.connect(dsn, autocommit=True) as conn:
        found = problems(conn)
        for workspace, model in zip(WORKSPACES, wanted, strict=True):
            with Remem(conn, workspace=workspace, embedding=None) as mem:
                space = mem.current_space().name
                if space != MODELS[model].id:
                    found.append(f"{workspace} is in {space} and not in {MODELS[model].id}")
                for coverage in mem.embedding_backlog():
                    if coverage.pending or coverage.set_aside or coverage.claimed:
                        found.append(f"{workspace}: not everything has its vector: {coverage}")
        mixed = conn.execute(
            "select workspace from remem.list_workspaces() where text_index <> 'current'"
        ).fetchall()
        found += [f"{name}: the text index is not current" for (name,) in mixed]
        lost = conn.execute(
            "select count(*) from remem.query_cache q, jsonb_array_elements(q.answer -> 'hits') h"
            " where q.expires_at > now() and remem._unchanged_since(q.workspace, q.snapshot)"
            " and not exists (select from remem.memory m where m.workspace = q.workspace"
            " and m.memory_id = (h ->> 'memory_id')::uuid and m.superseded_at is null"
            " and m.forgotten_at is null)"
        ).fetchone()
        if lost and lost[0]:
            found.append(f"{lost[0]} hits of valid cache rows have no memory")
    return found


def _stale_answers(dsn: str) -> list[str]:
    """Questions that the caches answer otherwise than a fresh recall."""
    wrong = []
    for workspace in WORKSPACES:
        for question in QUESTIONS:
            with (
                Remem(dsn, workspace=workspace, embedding=None) as plain,
                Remem(dsn, workspace=workspace, embedding=None, cache=True) as cached,
            ):
                fresh = [hit.memory_id for hit in plain.recall(question, 5)]
                again = [[hit.memory_id for hit in cached.recall(question, 5)] for _ in range(2)]
                if again != [fresh, fresh]:
                    wrong.append(f"{workspace}: {question}")
    return wrong
