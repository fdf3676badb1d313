"""Text exactly as the database sees it: folding, the hash embedding's tokens, document text.

Equal to ``remem._fold``, ``remem._hash_tokens`` and ``remem._document_text`` for every text, locale
and Python version: case and character classes come from the shipped Unicode 14.0 tables, and code
points that 14.0 does not assign are blanked before ``unicodedata`` sees them (normalisation of
assigned code points never changes again).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Final

from remem_pg.embedding import _unicode_tables as tables

_ASCII_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")

_STOP_WORDS: Final = (
    "a an and are as at be by can do for from how i in is it let of on or our that the this to we"
    " what with you"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


def decode_ranges(table: str) -> list[tuple[int, int]]:
    """First and last code point of each range of a table of ``_unicode_tables``: ``"41-5a aa"``."""
    ranges = []
    for item in table.split():
        first, _, last = item.partition("-")
        ranges.append((int(first, 16), int(last or first, 16)))
    return ranges


def _outside(ranges: Iterable[tuple[int, int]]) -> str:
    return "[^" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]"


@cache
def _excluded() -> re.Pattern[str]:
    # written as "not one of the assigned": re tests members of a class fast, others slowly
    ranges = decode_ranges(tables.EXCLUDED)
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), 0x10FFFF]
    assigned = [(a, b) for a, b in zip(starts, ends, strict=True) if a <= b]
    return re.compile(_outside(assigned))


@cache
def _separators() -> re.Pattern[str]:
    return re.compile(_outside(decode_ranges(tables.ALNUM)) + "+")


@cache
def lower_mapping() -> dict[int, int]:
    """Simple lower-case mapping, code point to code point, ASCII included (Unicode 14.0)."""
    mapping = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
    for run in tables.LOWER.split():
        first, last, step, offset = (int(number, 16) for number in run.split(","))
        mapping.update({code: code + offset for code in range(first, last + 1, step)})
    return mapping


def fold(text: str) -> str:
    """Lower case without accents, NFKC: one spelling per word. Folding twice changes nothing."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", _excluded().sub(" ", text))
    lowered = _ACCENTS.sub("", decomposed).translate(lower_mapping())
    return unicodedata.normalize("NFC", lowered)


def hash_tokens(text: str) -> list[str]:
    """The tokens of the hash embedding: NFKC, lower case, letters and numbers only, distinct.

    In order of first appearance, without stop words and tokens of a single UTF-16 code unit.
    """
    if text.isascii():
        spaced = _ASCII_SEPARATORS.sub(" ", text.lower())
    else:
        normal = unicodedata.normalize("NFKC", _excluded().sub(" ", text))
        spaced = _separators().sub(" ", normal.translate(lower_mapping()))
    return [
        token
        for token in dict.fromkeys(spaced.split(" "))
        if (len(token) > 1 or token > "\uffff") and token not in STOP_WORDS
    ]


def document_text(
    title: str | None = None,
    summary: str | None = None,
    body: str | None = None,
    speaker: str | None = None,
    aliases: Iterable[str | None] | None = None,
    tags: Iterable[str | None] | None = None,
) -> str:
    """What is embedded and analysed of a memory: its non-empty parts, one a line.

    Title, summary, body (``speaker: body`` when a speaker is given), aliases, tags; the last two
    joined by spaces, without missing elements.
    """
    parts = (
        title,
        summary,
        f"{speaker}: {body}" if speaker and body else body,
        " ".join(alias for alias in aliases or () if alias is not None),
        " ".join(tag for tag in tags or () if tag is not None),
    )
    return "\n".join(part for part in parts if part)
