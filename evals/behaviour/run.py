"""Asks every prompt of a model's workspace and says what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evals.behaviour.calibration import calibrate
from evals.behaviour.texts import LOW_OVERLAP, NOTES, Memory, Prompt, Texts, shows
from evals.metrics import percentile
from remem_pg import ContextResult, ContextSettings, MarkdownProvider, Remem
from remem_pg.embedding.base import EmbeddingModel

TIGHT: tuple[dict[str, Any], ...] = (
    {"recall_budget": 500, "provider_budget": 260},
    {"catalog_budget": 0},
)
"""Budgets that are tried beside the default ones."""
SLOW_MS = 150


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one prompt led to. ``missing`` are topics and records that should have come, ``stray``
    memories in the text that belong to none of its topics, ``forbidden`` those that must not be
    there, ``budgets`` what was over a budget."""

    prompt: Prompt
    stage: str
    recall: float
    missing: tuple[str, ...]
    stray: tuple[str, ...]
    forbidden: tuple[str, ...]
    planned: bool
    other_topics: tuple[str, ...]
    once: bool
    over: tuple[str, ...]
    diagnostics: tuple[str, ...]
    milliseconds: float

    @property
    def injected(self) -> int:
        """Memories shown to a prompt that asks for none."""
        return len(self.stray) if self.prompt.negative else 0


def run(
    dsn: str, texts: Texts, models: Mapping[str, EmbeddingModel], progress: Callable[[str], None]
) -> dict[str, Any]:
    """Every model in a workspace of its own, as one document."""
    document: dict[str, Any] = {
        "topics": len(texts.topics),
        "memories": len(texts.memories),
        "prompts": len(texts.prompts),
        "data_sha256": texts.sha256,
        "models": {},
    }
    for name, model in models.items():
        progress(f"{name}: {len(texts.topics)} topics, {len(texts.prompts)} prompts")
        workspace = f"evals:behaviour:{texts.sha256[:12]}:{model.id}"
        with Remem(dsn, workspace=workspace, embedding=model) as client:
            fill(client, texts)
            outcomes = ask_all(client, texts)
            failure = fail(client.workspace(f"{workspace}:failure"), texts)
            signals = client.plan("apples").plan.signals
            strangers = ask_strangers(client, texts)
            bare = ask_bare(client.workspace(f"{workspace}:bare"), texts)
        document["models"][name] = {
            "model": model.id,
            **summary(outcomes),
            "failure": failure,
            "strangers": strangers,
            "bare": bare,
            "calibration": calibrate(model, signals["semantic"]["minimum"]),
        }
    return document


def fill(client: Remem, texts: Texts) -> None:
    """The catalog and the memories; what a memory replaces is written before it, by its ref."""
    for topic in texts.topics:
        client.put_topic(topic.title, **topic.fields)
    for memory in texts.memories.values():
        if not memory.ref.startswith(f"{NOTES}/"):
            remember(client, memory)
    client.embed_catalog()


def remember(client: Remem, memory: Memory) -> None:
    ref = memory.replaces or memory.ref
    client.remember(memory.body, ref=ref, kind=memory.kind, topic_key=memory.key)


def ask_all(client: Remem, texts: Texts) -> list[Outcome]:
    """Every prompt once, after one that is not counted."""
    notes = MarkdownProvider(NOTES, texts.notes)
    client.context("are we ready?", providers=[notes])
    return [ask(client, texts, prompt, notes) for prompt in texts.prompts]


def ask(client: Remem, texts: Texts, prompt: Prompt, notes: MarkdownProvider) -> Outcome:
    """One prompt, with the default budgets, then with tighter ones that are only checked."""
    started = time.perf_counter()
    result = client.context(prompt.text, providers=[notes])
    took = (time.perf_counter() - started) * 1000
    shown = {m.ref for m in texts.memories.values() if shows(result.text, m)}
    # The same text in two stores counts for both.
    shown |= {ref for ref in prompt.records if shows(result.text, texts.memories[ref])}
    said = {topic.title for topic in result.trace.topics}
    wanted = [*((t, t in said) for t in prompt.topics), *((r, r in shown) for r in prompt.records)]
    allowed = texts.on_topic(prompt) | _copies(texts, prompt)
    over = list(over_budget(result, {}))
    for changed in TIGHT:
        over += over_budget(client.context(prompt.text, providers=[notes], **changed), changed)
    return Outcome(
        prompt=prompt,
        stage=result.trace.stage,
        recall=fmean(found for _, found in wanted) if wanted else 1.0,
        missing=tuple(sorted(name for name, found in wanted if not found)),
        stray=tuple(sorted(shown - allowed)),
        forbidden=tuple(sorted(shown & prompt.never)),
        planned=result.trace.should_retrieve,
        other_topics=tuple(sorted(said - prompt.topics)),
        once=all(_once(result, texts.memories[ref]) for ref in prompt.copies),
        over=tuple(over),
        diagnostics=result.diagnostics,
        milliseconds=took,
    )


def ask_strangers(client: Remem, texts: Texts) -> dict[str, Any]:
    """Prompts that are about nothing in the workspace: what was planned and shown all the same."""
    planned = shown = 0
    examples = []
    for text in texts.strangers:
        result = client.context(text)
        planned += result.trace.should_retrieve
        if result.results:
            shown += 1
            examples.append({"prompt": text, "shown": [i.record.body for i in result.results]})
    return {
        "prompts": len(texts.strangers),
        "planned": planned,
        "injected": shown,
        "examples": examples,
    }


def ask_bare(client: Remem, texts: Texts) -> dict[str, Any]:
    """The memories alone, without topics, titles and keys: which of them the prompts still find,
    by half, and what comes of those that ask for none."""
    for memory in texts.memories.values():
        if not memory.ref.startswith(f"{NOTES}/"):
            client.remember(memory.body, ref=memory.replaces or memory.ref, kind=memory.kind)
    found: dict[str, list[float]] = {}
    injected = stray = 0
    for prompt in texts.prompts:
        text = client.context(prompt.text).text
        shown = {memory.ref for memory in texts.memories.values() if shows(text, memory)}
        records = {ref for ref in prompt.records if not ref.startswith(f"{NOTES}/")}
        if records:
            found.setdefault(prompt.half, []).append(len(records & shown) / len(records))
        if prompt.negative:
            injected += len(shown)
        else:
            stray += len(shown - texts.on_topic(prompt) - _copies(texts, prompt))
    return {
        "recall": {half: _mean(shares) for half, shares in found.items()},
        "injected": injected,
        "stray": stray,
        "strangers": {k: v for k, v in ask_strangers(client, texts).items() if k != "examples"},
    }


def _copies(texts: Texts, prompt: Prompt) -> frozenset[str]:
    """Memories with the text of one that is allowed."""
    bodies = {texts.memories[ref].body for ref in texts.on_topic(prompt)}
    return frozenset(m.ref for m in texts.memories.values() if m.body in bodies)


def _once(result: ContextResult, memory: Memory) -> bool:
    """One body, and both stores named with it."""
    items = [item for item in result.results if item.record.body == memory.body]
    named = {
        reference.provider
        for item in items
        for reference in (item.record.reference(), *item.record.duplicates)
    }
    providers = {item.record.provider for item in items} | named
    body_count = result.text.count(memory.body)
    return len(items) == 1 and body_count == 1 and {"postgres", NOTES} <= providers


def over_budget(result: ContextResult, changed: Mapping[str, Any]) -> Iterable[str]:
    """The budgets that a text exceeds, counted from the text itself and not from its trace."""
    settings = ContextSettings().changed(changed)
    head, found, recalled = result.text.partition("Recalled:\n")
    closing = result.text[result.text.rfind("</") :] if result.text else ""
    frame = head if "Known topics:\n" not in head else ""
    fenced = len(head.encode()) + len(closing.encode()) * bool(found)
    if not frame and fenced > settings.catalog_budget:
        yield "catalog"
    if found:
        own = (frame + found + recalled).encode() if frame else (found + recalled).encode()
        size = len(own) - (0 if frame else len(closing.encode()))
        if size > settings.recall_budget:
            yield "recall"
    for provider, cost in provider_costs(recalled.removesuffix(closing)).items():
        if cost > settings.provider_budget:
            yield f"provider {provider}"


def provider_costs(recalled: str) -> dict[str, int]:
    """Bytes of each provider's results in a recalled part."""
    costs: dict[str, int] = {}
    item = ""
    for line in recalled.splitlines(keepends=True):
        item += line
        if line.startswith("source: "):
            provider = line.removeprefix("source: ").partition("/")[0]
            costs[provider] = costs.get(provider, 0) + len(item.encode())
            item = ""
    return costs


class _Dead:
    id = "dead"

    def search(self, query: str, scope: Any, limit: int) -> Any:
        raise ConnectionError("unreachable")


class _Slow:
    """Answers long after its time, or as soon as the check is over."""

    id = "slow"
    timeout_ms = SLOW_MS

    def __init__(self) -> None:
        self.over = threading.Event()

    def search(self, query: str, scope: Any, limit: int) -> Any:
        self.over.wait(30)
        return []


def fail(client: Remem, texts: Texts) -> dict[str, Any]:
    """A prompt whose topic is with four providers, of which one is dead and one slow."""
    prompt = next(p for p in texts.prompts if p.copies and len(p.records) > 1)
    (title,) = prompt.topics
    client.put_topic(title, providers=["postgres", NOTES, "dead", "slow"])
    for ref in prompt.copies:
        remember(client, texts.memories[ref])
    slow = _Slow()
    providers = [MarkdownProvider(NOTES, texts.notes), _Dead(), slow]
    client.context("are we ready?", providers=providers[:1])
    started = time.perf_counter()
    try:
        result = client.context(prompt.text, providers=providers)
    finally:
        slow.over.set()
    took = (time.perf_counter() - started) * 1000
    shown = [ref for ref in prompt.records if shows(result.text, texts.memories[ref])]
    return {
        "kept": len(shown),
        "expected": len(prompt.records),
        "status": {run.provider_id: run.status for run in result.trace.providers},
        "diagnostics": list(result.diagnostics),
        "milliseconds": round(took, 1),
        "slow_timeout_ms": SLOW_MS,
    }


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The whole, the halves, and each category of each half."""
    halves = {
        half: [o for o in outcomes if o.prompt.half == half]
        for half in dict.fromkeys(o.prompt.half for o in outcomes)
    }
    return {
        "all": figures(outcomes),
        "halves": {half: figures(own) for half, own in halves.items()},
        "by_category": {
            half: {
                category: figures([o for o in own if o.prompt.category == category])
                for category in dict.fromkeys(o.prompt.category for o in own)
            }
            for half, own in halves.items()
        },
        "mistakes": [mistake(o) for o in outcomes if wrong(o)],
    }


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """``relevant_recall``: mean share of the topics and records asked for that came; ``injected``:
    memories shown to negatives; ``stray``: memories of other topics shown to the rest, and how many
    of all shown that is; ``false_positives``: negatives that were planned a search."""
    positive = [o for o in outcomes if not o.prompt.negative]
    negative = [o for o in outcomes if o.prompt.negative]
    overlapping = [o for o in positive if o.prompt.category == LOW_OVERLAP]
    times = [o.milliseconds for o in outcomes]
    return {
        "prompts": len(outcomes),
        "positive": len(positive),
        "negative": len(negative),
        "relevant_recall": _mean(o.recall for o in positive),
        "low_overlap_recall": _mean(o.recall for o in overlapping),
        "injected": sum(o.injected for o in outcomes),
        "stray": sum(len(o.stray) for o in positive),
        "prompts_with_stray": sum(bool(o.stray) for o in positive),
        "forbidden": sum(len(o.forbidden) for o in outcomes),
        "false_positives": sum(o.planned for o in negative),
        "over_budget": sum(len(o.over) for o in outcomes),
        "copies_shown_once": all(o.once for o in outcomes),
        "p50_ms": round(percentile(times, 0.50), 2),
        "p95_ms": round(percentile(times, 0.95), 2),
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(fmean(found), 4) if found else None


def wrong(outcome: Outcome) -> bool:
    negative = outcome.prompt.negative
    return bool(
        outcome.missing
        or outcome.stray
        or outcome.forbidden
        or outcome.over
        or outcome.diagnostics
        or not outcome.once
        or (negative and outcome.planned)
    )


def mistake(outcome: Outcome) -> dict[str, Any]:
    prompt = outcome.prompt
    return {
        "half": prompt.half,
        "category": prompt.category,
        "prompt": prompt.text,
        "stage": outcome.stage,
        "missing": list(outcome.missing),
        "stray": list(outcome.stray),
        "forbidden": list(outcome.forbidden),
        "other_topics": list(outcome.other_topics),
        "over_budget": list(outcome.over),
        "diagnostics": list(outcome.diagnostics),
    }
