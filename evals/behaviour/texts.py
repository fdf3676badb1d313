"""The topics, memories, notes and prompts of the evaluation, read from ``data/``."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remem_pg.context.markdown_text import sections
from remem_pg.context.safe_text import flat

DATA = Path(__file__).parent / "data"
NOTES = "notes"
"""The id of the provider of the Markdown folder, and the folder's name."""

HALVES = {"development": "prompts_development.toml", "held out": "prompts_held_out.toml"}
LOW_OVERLAP = "low overlap"
UNRELATED, NEAR_MISS = "unrelated", "near miss"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of Postgres, or a section of the notes (``ref`` is then ``notes/ID``)."""

    ref: str
    body: str
    topics: frozenset[str]
    kind: str = "semantic"
    key: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    title: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt and what has to come of it. Without topics and records it is a negative: no
    memory may be shown at all."""

    half: str
    category: str
    text: str
    topics: frozenset[str]
    records: frozenset[str]
    never: frozenset[str]
    copies: frozenset[str]

    @property
    def negative(self) -> bool:
        return not self.topics and not self.records


@dataclass(frozen=True, slots=True)
class Texts:
    topics: tuple[Topic, ...]
    memories: dict[str, Memory]
    prompts: tuple[Prompt, ...]
    strangers: tuple[str, ...]
    """Prompts of the calibration, of which the workspace knows nothing."""
    sha256: str
    notes: Path = field(default=DATA / NOTES)

    def on_topic(self, prompt: Prompt) -> frozenset[str]:
        """The memories that may be shown for a prompt: those asked for, and those of its topics."""
        same = {m.ref for m in self.memories.values() if m.topics & prompt.topics}
        return frozenset(prompt.records | same) - prompt.never


def load(folder: Path = DATA) -> Texts:
    """Everything. Raises ValueError for a prompt that names what is not there."""
    digest = hashlib.sha256()
    catalog = _toml(folder / "catalog.toml", digest)
    topics: list[Topic] = []
    memories: dict[str, Memory] = {}
    for entry in catalog["topic"]:
        fields = dict(entry)
        title = fields.pop("title")
        for memory in fields.pop("memory", ()):
            key = title if memory.pop("key", False) else None
            one = Memory(topics=frozenset([title]), key=key, **memory)
            memories[one.ref] = one
        topics.append(Topic(title, fields))
    asking = {topic.title for topic in topics if NOTES in topic.fields.get("providers", ())}
    for file in sorted((folder / NOTES).glob("*.md")):
        text = file.read_text(encoding="utf-8")
        digest.update(text.encode())
        for section in sections(file.name, text):
            ref = f"{NOTES}/{section.fields['id']}"
            memories[ref] = Memory(ref, section.fields["body"], frozenset())
    prompts = [
        Prompt(half, entry["category"], entry["text"], *map(frozenset, _lists(entry)))
        for half, name in HALVES.items()
        for entry in _toml(folder / name, digest)["prompt"]
    ]
    for prompt in prompts:
        unknown = prompt.topics - {topic.title for topic in topics}
        unknown |= (prompt.records | prompt.never | prompt.copies) - memories.keys()
        if unknown:
            raise ValueError(f"{prompt.text!r} names {', '.join(sorted(unknown))}")
        for ref in prompt.records:
            if ref.startswith(f"{NOTES}/") and not prompt.topics & asking:
                raise ValueError(f"{prompt.text!r}: no topic of it asks the notes")
    pairs = _toml(folder / "pairs.toml", digest)
    strangers = [
        question for name in ("same", "miss", "akin", "akin_miss") for question, *_ in pairs[name]
    ]
    strangers += pairs["unrelated"] + pairs["unrelated_us"]
    return Texts(
        topics=tuple(topics),
        memories=memories,
        prompts=tuple(prompts),
        strangers=tuple(strangers),
        sha256=digest.hexdigest(),
        notes=folder / NOTES,
    )


def shows(text: str, memory: Memory) -> bool:
    """Whether a context quotes a memory: its first sixty characters stand there."""
    return flat(memory.body)[:60] in text


def _toml(path: Path, digest: Any) -> dict[str, Any]:
    content = path.read_bytes()
    digest.update(content)
    return tomllib.loads(content.decode())


def _lists(entry: dict[str, Any]) -> tuple[list[str], ...]:
    return tuple(entry.get(name, []) for name in ("topics", "records", "never", "copies"))
