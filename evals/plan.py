"""How long ``remem.plan`` takes in a large catalog, beside the bare query that ranks its vectors.

Topics are made of two subjects and an aspect, each with two aliases, two tags and a summary; four
kinds of prompts ask for them. Every case runs on one session, unprepared and warmed, in turn
prompt by prompt, so that a busy machine disturbs all alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from evals.baselines import Conn, Taken, connect, ratio, times
from evals.metrics import percentile
from evals.report import table
from remem_pg.embedding.base import EmbeddingModel

SEED = 20260
WARM = 8
BATCH = 500
KINDS = ("exact", "partial", "continuity", "unrelated")
FLOOR_MS, GOAL_MS = 10.0, 5.0

_SUBJECTS_TEXT = (
    "billing payment invoice ledger search index crawler kafka queue stream auth login token "
    "session deploy release canary metrics tracing alert backup restore shard replica cache "
    "gateway proxy router mobile android browser frontend design report dashboard export import "
    "webhook email notification pricing discount tax customer support ticket onboarding hiring "
    "budget travel office security audit compliance privacy consent catalog warehouse shipping"
)
_SUBJECTS = _SUBJECTS_TEXT.split()
_ASPECTS_TEXT = (
    "redesign outage policy rollout cleanup upgrade latency limits retries schema review "
    "decision preference checklist runbook incident followup estimate prototype strategy "
    "contract vendor"
)
_ASPECTS = _ASPECTS_TEXT.split()
_UNRELATED = (
    "please write a short poem about autumn leaves",
    "explain how quicksort chooses its pivot",
    "translate good morning into Portuguese",
    "what is the capital of Mongolia and when was it founded",
    "rename this variable and keep the rest as it is",
    "is there a faster way to reverse a linked list",
    "thank you, that is all for today",
    "sum the numbers from one to a hundred without a loop",
)
_VECTORS = """
select e.topic_no from remem.topic_embedding e
where e.workspace = %(workspace)s and e.space_no = %(space)s
order by e.embedding operator({vector}.<=>) %(bracketed)s::{vector}.halfvec limit 50
"""
_PLAN = "select remem.plan(%(workspace)s, %(text)s, %(braced)s::real[], %(options)s)"


@dataclass(frozen=True, slots=True)
class Topic:
    title: str
    aliases: list[str]
    tags: list[str]
    summary: str
    importance: float
    unresolved: bool

    @property
    def text(self) -> str:
        """What is embedded, as remem's catalog_without_embedding would say it."""
        return "\n".join((self.title, " ".join(self.aliases), self.summary, " ".join(self.tags)))


@dataclass(frozen=True, slots=True)
class Prompt:
    kind: str
    text: str


def make_topics(count: int) -> list[Topic]:
    """``count`` different topics, the same in every run."""
    rng = random.Random(SEED)
    most = len(_SUBJECTS) * (len(_SUBJECTS) - 1) * len(_ASPECTS)
    if count > most:
        raise ValueError(f"at most {most} topics can be made")
    made: dict[str, Topic] = {}
    while len(made) < count:
        first, second = rng.sample(_SUBJECTS, 2)
        aspect = rng.choice(_ASPECTS)
        title = f"{first.title()} {second} {aspect}"
        if title not in made:
            others = rng.sample(_SUBJECTS, 2)
            made[title] = Topic(
                title,
                [f"{first}-{second}", f"{aspect} {len(made)}"],
                [first, aspect],
                f"The {aspect} of {second} in {first}, with figures from {others[0]} "
                f"and open points about {others[1]}.",
                round(rng.random(), 2),
                len(made) % 7 == 0,
            )
    return list(made.values())


def make_prompts(topics: Sequence[Topic], count: int) -> list[Prompt]:
    """``count`` prompts of each kind, kinds in turn."""
    rng = random.Random(SEED + 1)
    prompts = []
    for number in range(count):
        for kind in KINDS:
            topic = rng.choice(topics)
            first, second, aspect = topic.title.lower().split()
            text = {
                "exact": f"Where do we stand with the {topic.title}, and who is on it this week?",
                "partial": f"how did the {aspect} go when {second} failed on Tuesday evening",
                "continuity": f"let's continue where we left the {first} {aspect} last time",
                "unrelated": _UNRELATED[number % len(_UNRELATED)],
            }[kind]
            prompts.append(Prompt(kind, text))
    return prompts


def load(
    conn: Conn, workspace: str, topics: Sequence[Topic], model: EmbeddingModel | None
) -> tuple[int, float]:
    """Puts the topics into a new workspace; the space's number and its topics per second.

    ``model`` None: the built-in hash space, which embeds by itself.
    """
    conn.execute("select remem.create_workspace(%s)", [workspace])
    space = "hash"
    vectors: Sequence[Any] = [None] * len(topics)
    if model is not None:
        descriptor = Jsonb(getattr(model, "descriptor"))  # noqa: B009
        row = conn.execute(
            "select fingerprint from remem.register_space(%s)", [descriptor]
        ).fetchone()
        assert row is not None
        space = row[0]
        vectors = [vector.tolist() for vector in model.embed([topic.text for topic in topics])]
    row = conn.execute(
        "select space_no from remem.activate_space(%s, %s)", [space, workspace]
    ).fetchone()
    assert row is not None
    taken = Taken()
    with taken, conn.transaction():
        for topic, vector in zip(topics, vectors, strict=True):
            conn.execute(
                "select remem.put_topic(%s, %s, aliases => %s, tags => %s, summary => %s, "
                "importance => %s::real, unresolved => %s, embedding => %s::real[])",
                [workspace, topic.title, topic.aliases, topic.tags, topic.summary,
                 topic.importance, topic.unresolved, vector],
            )  # fmt: skip
    remember(conn, workspace, topics, model)
    tables = ("topic", "topic_token", "topic_embedding", "memory", "posting", f"embedding_{row[0]}")
    for name in tables:
        conn.execute(f"vacuum analyze remem.{name}".encode())
    return int(row[0]), len(topics) / taken.wall[0] * 1000


def remember(
    conn: Conn, workspace: str, topics: Sequence[Topic], model: EmbeddingModel | None
) -> None:
    """A memory of each topic, without its name: what a plan looks at where no topic is sure."""
    bodies = [
        f"{topic.summary} {topic.tags[0].title()} agreed to look at it again on day {number}."
        for number, topic in enumerate(topics)
    ]
    for start in range(0, len(bodies), BATCH):
        batch = bodies[start : start + BATCH]
        items: list[dict[str, Any]] = [{"body": body} for body in batch]
        if model is not None:
            for item, vector in zip(items, model.embed(batch), strict=True):
                item["embedding"] = vector.tolist()
        conn.execute("select count(*) from remem.remember_many(%s, %s)", [workspace, Jsonb(items)])


def parameters(
    workspace: str, space: int, prompt: Prompt, vector: Sequence[float]
) -> dict[str, Any]:
    numbers = ",".join(f"{x:.7g}" for x in vector)
    return {
        "workspace": workspace,
        "space": space,
        "text": prompt.text,
        # The hash space makes the vector itself, which is part of what is measured.
        "braced": None if space == 1 else f"{{{numbers}}}",
        "bracketed": f"[{numbers}]",
        "options": Jsonb({}),
    }


def run(
    dsn: str,
    count: int,
    model: EmbeddingModel | None,
    progress: Callable[[str], None],
    *,
    asked: int = 50,
    rounds: int = 2,
    workspace: str = "evals:plan",
) -> dict[str, Any]:
    """The whole measurement as one document."""
    topics = make_topics(count)
    prompts = make_prompts(topics, asked)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as admin:
        row = admin.execute(
            "select n.nspname, e.extversion, current_setting('server_version') from pg_extension e"
            " join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'"
        ).fetchone()
        assert row is not None
        schema, pgvector, server = row
        name = "hash" if model is None else model.id
        workspace = f"{workspace}:{name}:{count}"
        done = None
        while done != (True,):
            done = admin.execute("select (remem.drop_workspace(%s)).done", [workspace]).fetchone()
        progress(f"loading {count} topics, {name}")
        space, speed = load(admin, workspace, topics, model)
        if model is None:
            vectors = [
                admin.execute("select remem.hash_embed(%s)", [prompt.text]).fetchone()[0]  # type: ignore[index]
                for prompt in prompts
            ]
        else:
            vectors = [model.embed([prompt.text])[0].tolist() for prompt in prompts]
    given = [parameters(workspace, space, *pair) for pair in zip(prompts, vectors, strict=True)]
    queries = {"vectors": _VECTORS.replace("{vector}", schema).encode(), "plan": _PLAN.encode()}
    progress(f"{len(prompts)} prompts, {rounds} rounds")
    with connect(dsn, schema) as conn:
        taken = {key: Taken(conn) for key in ("vectors", *KINDS)}
        words_only = Taken(conn)
        stages: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
        first = dict(given[0], options=Jsonb({"semantic": False}))
        for query, one in [*((q, g) for g in given[:WARM] for q in queries.values()),
                           *[(queries["plan"], first)] * WARM]:  # fmt: skip
            conn.execute(query, one).fetchall()
        for _ in range(rounds):
            for prompt, one in zip(prompts, given, strict=True):
                with taken["vectors"]:
                    conn.execute(queries["vectors"], one).fetchall()
                with taken[prompt.kind]:
                    found = conn.execute(queries["plan"], one).fetchone()
                with words_only:
                    conn.execute(
                        queries["plan"], dict(one, options=Jsonb({"semantic": False}))
                    ).fetchone()
                assert found is not None
                if "memories_failed" in found[0]["degraded"]:
                    raise RuntimeError("the plan could not look at the memories")
                stage = found[0]["stage"]
                stages[prompt.kind][stage] = stages[prompt.kind].get(stage, 0) + 1
    everything = Taken()
    for kind in KINDS:
        everything += taken[kind]
    plan, baseline = measured(everything), measured(taken["vectors"])
    return {
        "topics": count,
        "model": name,
        "server_version": server,
        "pgvector": pgvector,
        "topics_per_second": round(speed, 1),
        "plan": plan,
        "vectors": baseline,
        "words_only": measured(words_only),
        "by_kind": {k: {**measured(taken[k]), "stages": stages[k]} for k in KINDS},
        "ratio": ratio(plan, baseline),
        "cpu_ratio": ratio(plan, baseline, "cpu_p50_ms"),
        "floor_ms": FLOOR_MS,
        "goal_ms": GOAL_MS,
    }


def measured(taken: Taken) -> dict[str, float]:
    """``times`` with the 95th percentile of the processor time too."""
    row = times(taken)
    if taken.cpu:
        row["cpu_p95_ms"] = round(percentile(taken.cpu, 0.95), 3)
    return row


def page(document: Mapping[str, Any]) -> str:
    """The report as Markdown."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        names = ("p50_ms", "p95_ms", "cpu_p50_ms", "cpu_p95_ms")
        return [f"{row[name]:.2f}" if name in row else "" for name in names]

    rows = [
        ["bare query over the vectors", *cells(document["vectors"]), ""],
        ["plan", *cells(document["plan"]), ""],
        ["plan, words only", *cells(document["words_only"]), ""],
    ]
    for kind, row in document["by_kind"].items():
        stages = ", ".join(f"{stage} {n}" for stage, n in sorted(row["stages"].items()))
        rows.append([f"plan, {kind} prompts", *cells(row), stages])
    p95 = document["plan"]["p95_ms"]
    reached = "goal" if p95 <= GOAL_MS else "floor" if p95 <= FLOOR_MS else "missed"
    return "\n".join(
        [
            f"{document['topics']} topics, model {document['model']}, pgvector "
            f"{document['pgvector']} on PostgreSQL {document['server_version']}.",
            "",
            table(["what", "p50 ms", "p95 ms", "cpu p50", "cpu p95", "stages reached"], rows),
            "",
            f"p95 of plan {p95:.2f} ms (floor {FLOOR_MS:g}, goal {GOAL_MS:g}: {reached}); "
            f"{document['ratio']:.2f} times the bare query. "
            f"put_topic: {document['topics_per_second']:.0f} a second.",
        ]
    )
