"""Searching texts by their words, in memory: BM25 over an inverted index that changes in place."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import Any

from remem_pg.text import STOP_WORDS, fold

K1, B = 1.2, 0.75

_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
"""Scripts without spaces between words: there every two neighbouring signs are a word."""

_QUESTION_WORDS = (
    "about again any but did does had has have if me my no not so than them then there they was"
    " were when where which who why will would"
)
_QUESTION = frozenset(_QUESTION_WORDS.split())


def words(text: str, stem: Callable[[str], str] = str) -> list[str]:
    """The words of a text, folded and stemmed, without stop words."""
    found: list[str] = []
    for word in _WORD.findall(fold(text)):
        if _WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word not in STOP_WORDS and word not in _QUESTION:
            found.append(stem(word))
    return found


@cache
def english_stem() -> Callable[[str], str]:
    """The Snowball stemmer for English, remembering what it has seen; ImportError without it."""
    import snowballstemmer

    stemmer = snowballstemmer.stemmer("english")
    seen: dict[str, str] = {}

    def stem(word: str) -> str:
        known = seen.get(word)
        if known is None:
            if len(seen) > 200_000:
                seen.clear()
            known = seen[word] = stemmer.stemWord(word) if len(word) <= 64 else word
        return known

    return stem


class WordIndex:
    """Texts by key. Not safe for several threads at once."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[Hashable, int]] = {}
        self._words: dict[Hashable, tuple[str, ...]] = {}
        self._lengths: dict[Hashable, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def put(self, key: Hashable, counts: Mapping[str, int]) -> None:
        """A text by how often each word stands in it, instead of what was there."""
        self.remove(key)
        for word, count in counts.items():
            self._postings.setdefault(word, {})[key] = count
        self._words[key] = tuple(counts)
        self._lengths[key] = sum(counts.values())
        self._total += self._lengths[key]

    def remove(self, key: Hashable) -> None:
        for word in self._words.pop(key, ()):
            texts = self._postings[word]
            del texts[key]
            if not texts:
                del self._postings[word]
        self._total -= self._lengths.pop(key, 0)

    def search(self, query: Iterable[str], limit: int, least: float) -> list[tuple[Any, float]]:
        """The best texts with their scores from 0 to 1, those of at least ``least``.

        A score is the share of the query's weight (inverse document frequency) that the text
        contains, brought down by up to a seventh where it contains it in passing.
        """
        terms = dict.fromkeys(query)
        weights = {term: self._weight(term) for term in terms}
        whole = sum(weights.values())
        if not whole or not self._lengths:
            return []
        share: Counter[Hashable] = Counter()
        strength: Counter[Hashable] = Counter()
        average = self._total / len(self._lengths) or 1.0
        for term, weight in weights.items():
            for key, count in self._postings.get(term, {}).items():
                norm = K1 * (1 - B + B * self._lengths[key] / average)
                share[key] += weight / whole  # type: ignore[assignment]
                strength[key] += weight * count * (K1 + 1) / (count + norm)  # type: ignore[assignment]
        best = max(strength.values(), default=1.0)
        scored = [
            (key, min(1.0, part * (6 + strength[key] / best) / 7))
            for key, part in share.items()
            if part >= least
        ]
        return sorted(scored, key=lambda pair: (-pair[1], str(pair[0])))[:limit]

    def _weight(self, term: str) -> float:
        having = len(self._postings.get(term, ()))
        return math.log(1 + (len(self._lengths) - having + 0.5) / (having + 0.5))
