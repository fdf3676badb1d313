"""Text of others made harmless: one line, visible characters only, nothing that reads as a tag."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")

_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Direction overrides, tag characters and other signs that a reader does not see. Joiners stay:
scripts and emoji need them."""

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")


@cache
def _unwritable() -> re.Pattern[str]:
    planes = "".join(
        chr(plane + last) for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)
    )
    return re.compile(f"[\ud800-\udfff\ufdd0-\ufdef{planes}]")


def flat(text: str) -> str:
    """One line: breaks and control characters are spaces, invisible signs are gone, what no UTF-8
    can hold is U+FFFD. Doing it twice changes nothing."""
    if text.isascii():
        return _SPACES.sub(" ", text).strip()
    visible = _INVISIBLE.sub("", _unwritable().sub("\ufffd", text))
    return _SPACES.sub(" ", visible).strip()


def lines(text: str) -> list[str]:
    """The lines of a text, each ``flat``, without the empty ones."""
    return [
        line
        for line in map(flat, re.split(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", text))
        if line
    ]


def escaped(text: str) -> str:
    """The text as XML character data."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def escaped_once(text: str) -> str:
    """The same for a text that may have been escaped before: its entities stay as they are."""
    return _ENTITY.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` code points, three dots where something is missing; cut at a space where
    one comes late enough, and never between a letter and its accent."""
    if len(text) <= limit:
        return text
    if limit < 4:
        return ""
    end = limit - 3
    while end > 0 and unicodedata.combining(text[end]):
        end -= 1
    cut = text[:end]
    space = cut.rfind(" ")
    if space > end * 0.7:
        cut = cut[:space]
    return cut.rstrip() + "..."
