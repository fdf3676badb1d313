"""The rows and questions of the scale evaluation: seeded, and the same in every run.

Half of the rows belong to one workspace, a tenth to another, the rest to about 900 small ones. Rows
come in a shuffled order, as writers of many tenants would leave them, in sessions of twenty turns.

Two sources. *Generated*: sentences over a made-up vocabulary whose word frequencies follow
Zipf-Mandelbrot, every session with a subject whose words and vectors it prefers; vectors lie near a
64-dimensional subspace, as those of a text model do, plus noise in every direction. *Texts*: turns
of a conversation file, two to a row, with the noised mean of their vectors.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evals.dataset import Dataset
from evals.models import ClockedModel

SEED = 20240601
CHUNK = 10_000
TURNS = 20  # of a session
SMALL = 900  # workspaces of the rest
DIMENSIONS = 384
BIG, TENTH = "scale:big", "scale:tenth"

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """One memory: what ``remember`` would be told, and its unit vector (DIMENSIONS,) float32."""

    number: int
    workspace: str
    ref: str
    session: str
    turn: int
    speaker: str
    body: str
    vector: Floats


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one workspace, and the refs of the rows that it is about (may be empty)."""

    workspace: str
    text: str
    vector: Floats
    about: frozenset[str]


@dataclass(frozen=True, slots=True)
class Layout:
    """Who owns row i: workspace number (0 big, 1 tenth, then the small ones), its n-th there."""

    workspaces: tuple[str, ...]
    owner: Ints
    place: Ints

    @classmethod
    def of(cls, rows: int) -> Layout:
        rng = np.random.default_rng([SEED, rows])
        big, tenth = rows // 2, rows // 10
        rest = rows - big - tenth
        small = max(1, min(SMALL, rest // 88))
        sizes = [big, tenth, *(rest // small + (i < rest % small) for i in range(small))]
        owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        place = np.empty(rows, dtype=np.int64)
        order = np.argsort(owner, kind="stable")
        place[order] = np.concatenate([np.arange(size) for size in sizes])
        names = (BIG, TENTH, *(f"scale:small-{i:04}" for i in range(small)))
        return cls(names, owner, place)

    def session(self, i: int) -> int:
        return int(self.place[i]) // TURNS

    def numbers(self, workspace: int, before: int | None = None) -> Ints:
        """The rows of a workspace among the first ``before``, ascending."""
        return np.flatnonzero(self.owner[:before] == workspace)


class Source(Protocol):
    """Where texts and vectors come from."""

    name: str

    def contents(self, layout: Layout, start: int, stop: int) -> Iterator[tuple[str, str, Floats]]:
        """(speaker, body, vector) of the rows start..stop."""

    def questions(self, layout: Layout, numbers: Ints, count: int) -> Iterator[Question]:
        """``count`` questions about some of the rows ``numbers`` of one workspace."""


class Corpus:
    """``rows`` rows of a source, laid out over workspaces."""

    def __init__(self, rows: int, source: Source) -> None:
        self.size = rows
        self.source = source
        self.layout = Layout.of(rows)

    @property
    def key(self) -> str:
        """Names the data: equal keys, equal rows."""
        return f"{self.source.name}/{self.size}/{SEED}"

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        stop = self.size if stop is None else min(stop, self.size)
        for first in range(start - start % CHUNK, stop, CHUNK):
            end = min(first + CHUNK, self.size)
            contents = self.source.contents(self.layout, first, end)
            for i, (speaker, body, vector) in enumerate(contents, start=first):
                if start <= i < stop:
                    place = int(self.layout.place[i])
                    yield Row(
                        i,
                        self.layout.workspaces[int(self.layout.owner[i])],
                        f"r{i}",
                        f"s{place // TURNS}",
                        place % TURNS + 1,
                        speaker,
                        body,
                        vector,
                    )

    def questions(self, size: str, count: int, before: int | None = None) -> list[Question]:
        """``count`` questions to the ``big``, the ``tenth`` or (spread over many) ``small`` ones.

        ``before`` keeps to what the first so many rows can answer.
        """
        if size != "small":
            numbers = self.layout.numbers(("big", "tenth").index(size), before)
            return list(self.source.questions(self.layout, numbers, count))
        found = []
        small = len(self.layout.workspaces) - 2
        for i in range(count):
            numbers = self.layout.numbers(2 + i % small, before)
            found.extend(list(self.source.questions(self.layout, numbers, 1 + i // small))[-1:])
        return found[:count]


class Generated:
    """Sentences over a made-up vocabulary, with vectors that follow their subjects."""

    name = "generated-1"

    def __init__(self, words: int = 30_000, subjects: int = 2_000) -> None:
        rng = np.random.default_rng(SEED)
        self._words = _vocabulary(rng, words)
        # Zipf-Mandelbrot without its head: the head of a language are stop words, listed apart.
        self._share = np.cumsum(1 / (np.arange(words) + 30.0))
        self._share /= self._share[-1]
        self._subjects = self._draw(rng, subjects * 40).reshape(subjects, 40)
        self._plane = rng.standard_normal((64, DIMENSIONS)).astype(np.float32) / 8
        self._centres = rng.standard_normal((subjects, 64)).astype(np.float32)
        self._names = [word.capitalize() for word in _vocabulary(rng, 400)]
        self._recent: dict[int, list[tuple[str, str, Floats]]] = {}

    def _draw(self, rng: np.random.Generator, count: int) -> Ints:
        return np.searchsorted(self._share, rng.random(count))

    def _subject(self, layout: Layout, i: int) -> int:
        return int((layout.owner[i] * 7919 + layout.session(i) * 104729 + 13) % len(self._subjects))

    def contents(self, layout: Layout, start: int, stop: int) -> Iterator[tuple[str, str, Floats]]:
        rng = np.random.default_rng([SEED, 1, start])
        count = stop - start
        subjects = np.array([self._subject(layout, i) for i in range(start, stop)])
        lengths = np.clip(rng.lognormal(2.9, 0.5, count), 5, 80).astype(int)
        row = np.repeat(np.arange(count), lengths)
        kind = rng.random(len(row))
        own = self._subjects[subjects[row], rng.integers(0, 40, len(row))]
        tokens = np.where(kind < 0.25, own, self._draw(rng, len(row)))
        stops = rng.integers(0, len(_STOPS), len(row))
        latent = self._centres[subjects] + 0.9 * rng.standard_normal((count, 64)).astype(np.float32)
        vectors = latent @ self._plane
        vectors += 0.35 * rng.standard_normal((count, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        ends = np.cumsum(lengths)
        for n in range(count):
            span = range(int(ends[n] - lengths[n]), int(ends[n]))
            words = [_STOPS[stops[t]] if kind[t] > 0.6 else self._words[tokens[t]] for t in span]
            yield self._speaker(layout, start + n), " ".join(words) + ".", vectors[n]

    def _speaker(self, layout: Layout, i: int) -> str:
        return self._names[(int(layout.owner[i]) * 31 + layout.session(i) * 2 + i % 2) % 400]

    def questions(self, layout: Layout, numbers: Ints, count: int) -> Iterator[Question]:
        rng = np.random.default_rng([SEED, 2, int(numbers[0]), len(numbers)])
        # Making a row means making its chunk: the questions to a small workspace stay in the first.
        near = numbers if len(numbers) > 1000 else numbers[: max(3, count)]
        picked = np.sort(rng.choice(near, min(count, len(near)), replace=False))
        for i in (int(each) for each in np.resize(picked, count)):
            first = i - i % CHUNK
            if first not in self._recent:
                end = min(first + CHUNK, len(layout.owner))
                self._recent = {first: list(self.contents(layout, first, end))}
            speaker, body, vector = self._recent[first][i - first]
            said = sorted({w for w in body.rstrip(".").split() if w not in _STOPS})
            words = list(rng.choice(said, min(4, len(said)), replace=False)) if said else []
            words += [self._words[t] for t in self._draw(rng, 2)]
            who = f"{speaker} " if rng.random() < 0.5 else ""
            noise = rng.standard_normal(DIMENSIONS).astype(np.float32)
            asked = vector + 0.9 * noise / np.linalg.norm(noise)
            yield Question(
                layout.workspaces[int(layout.owner[i])],
                f"What did {who}say about the {' '.join(words)}?",
                asked / np.linalg.norm(asked),
                frozenset({f"r{i}"}),
            )


class Texts:
    """Two turns of a conversation a row, with the noised mean of their vectors."""

    def __init__(self, dataset: Dataset, model: ClockedModel) -> None:
        self.name = f"texts-1/{dataset.sha256[:12]}/{model.id}"
        self._turns = [
            [(turn.speaker or "", turn.body, f"{n}:{turn.ref}") for turn in conversation.turns]
            for n, conversation in enumerate(dataset.conversations)
        ]
        self._asked = [
            (question.text, frozenset(f"{n}:{ref}" for ref in question.evidence))
            for n, conversation in enumerate(dataset.conversations)
            for question in conversation.questions
        ]
        texts = [f"{s}: {body}" if s else body for turns in self._turns for s, body, _ in turns]
        vectors = _embedded(self.name, texts + [text for text, _ in self._asked], model)
        ends = np.cumsum([len(turns) for turns in self._turns])
        self._vectors = np.split(vectors[: len(texts)], ends[:-1])
        self._asked_vectors = vectors[len(texts) :]

    def _pairs(self, layout: Layout, first: int, rows: Ints) -> Iterator[tuple[int, int, int]]:
        """(conversation, turn, turn) of rows of a chunk; a session keeps to one conversation."""
        draws = np.random.default_rng([SEED, 3, first]).random((CHUNK, 2))
        for i in (int(row) for row in rows):
            c = int(layout.owner[i] * 31 + layout.session(i) * 17) % len(self._turns)
            a, b = (int(x) for x in draws[i - first] * len(self._turns[c]))
            yield c, a, b

    def contents(self, layout: Layout, start: int, stop: int) -> Iterator[tuple[str, str, Floats]]:
        rng = np.random.default_rng([SEED, 4, start])
        for c, a, b in self._pairs(layout, start, np.arange(start, stop)):
            speaker, body, _ = self._turns[c][a]
            noise = rng.standard_normal(DIMENSIONS).astype(np.float32)
            vector = self._vectors[c][a] + self._vectors[c][b] + 0.5 * noise / DIMENSIONS**0.5
            yield speaker, f"{body} {self._turns[c][b][1]}", vector / np.linalg.norm(vector)

    def questions(self, layout: Layout, numbers: Ints, count: int) -> Iterator[Question]:
        rng = np.random.default_rng([SEED, 5, int(numbers[0]), len(numbers)])
        holders: dict[str, set[str]] = {}
        chunks = numbers - numbers % CHUNK
        for first in (int(each) for each in np.unique(chunks)):
            rows = numbers[chunks == first]
            for i, (c, a, b) in zip(rows, self._pairs(layout, first, rows), strict=True):
                for turn in (a, b):
                    holders.setdefault(self._turns[c][turn][2], set()).add(f"r{i}")
        order = rng.permutation(len(self._asked))
        for n in (int(each) for each in np.resize(order, count)):
            text, evidence = self._asked[n]
            about = frozenset().union(*(holders.get(ref, ()) for ref in evidence))
            yield Question(
                layout.workspaces[int(layout.owner[numbers[0]])],
                text,
                self._asked_vectors[n],
                about,
            )


def _embedded(name: str, texts: Sequence[str], model: ClockedModel) -> Floats:
    """Vectors (len(texts), DIMENSIONS), kept in the temporary directory for the next run."""
    digest = hashlib.sha256("\n".join([name, *texts]).encode()).hexdigest()[:24]
    cached = Path(tempfile.gettempdir()) / f"remem-evals-{digest}.npy"
    if cached.exists():
        loaded: Any = np.load(cached)
        return np.asarray(loaded, dtype=np.float32)
    vectors = np.concatenate(
        [np.asarray(model.embed(texts[i : i + 64])) for i in range(0, len(texts), 64)]
    ).astype(np.float32)
    partial = cached.with_suffix(f".{digest}.part.npy")
    np.save(partial, vectors)
    partial.replace(cached)
    return vectors


def _vocabulary(rng: np.random.Generator, count: int) -> list[str]:
    """Distinct pronounceable words of two to four syllables, none of them a stop word."""
    words: dict[str, None] = {}
    while len(words) < count:
        word = "".join(
            _ONSETS[rng.integers(len(_ONSETS))] + _RIMES[rng.integers(len(_RIMES))]
            for _ in range(rng.integers(2, 5))
        )
        words.setdefault(word)
    return list(words)


_ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
_RIMES = [
    "a",
    "al",
    "an",
    "ar",
    "e",
    "el",
    "en",
    "er",
    "i",
    "in",
    "ir",
    "o",
    "ol",
    "on",
    "or",
    "u",
    "um",
    "un",
    "us",
]
_STOPS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "that",
    "it",
    "is",
    "was",
    "for",
    "on",
    "with",
    "as",
    "at",
    "by",
    "this",
    "be",
    "from",
    "or",
    "we",
    "you",
    "they",
    "he",
    "she",
    "have",
    "had",
    "not",
    "but",
    "what",
    "so",
    "if",
    "can",
    "would",
    "there",
    "about",
]
