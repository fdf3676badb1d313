"""The fields that a condition may name, and how their values stand in a memory's attributes."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Literal

Type = Literal["text", "number", "boolean", "time", "list", "any"]

FIELDS: dict[str, Type] = {
    "attribute": "text",
    "confidence": "number",
    "created_at": "time",
    "freshness": "text",
    "importance": "number",
    "kind": "text",
    "occurred_at": "time",
    "pinned": "boolean",
    "ref": "text",
    "scope": "text",
    "scope_ref": "text",
    "session_ref": "text",
    "source_class": "text",
    "source_ref": "text",
    "speaker": "text",
    "subject": "text",
    "tags": "list",
    "title": "text",
    "topic_key": "text",
    "turn_no": "number",
    "unresolved": "boolean",
    "valid_from": "time",
    "valid_to": "time",
}
"""Every field with its type; ``metadata.a.b`` besides, whose values may be of any type."""

MAGNITUDE = 1000
"""Powers of ten beyond which a number is refused: written out it would fill memory."""

_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?", re.I
)
_ZONE = re.compile(r"(\d{2}:\d{2}\S*?) ?(Z|[+-]\d{2}(:?\d{2})?)", re.I)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a memory: its ``name`` as a person wrote it, its jsonpath, its type."""

    name: str
    path: str
    type: Type


def field(parts: list[tuple[str, bool]]) -> Field:
    """The field of a dotted name, each part with whether it stood in quotes.

    Raises ValueError with what is wrong. The case of a field does not matter, unless quoted; that
    of a key of metadata always does.
    """
    name = ".".join(part for part, _ in parts)
    first, quoted = parts[0]
    known = first if quoted else first.lower()
    if known == "metadata":
        keys = "".join(f".{text(key)}" for key, _ in parts[1:])
        return Field(name, f"$.metadata{keys}", "any")
    if len(parts) > 1 or known not in FIELDS:
        raise ValueError(f"unknown field {name}")
    return Field(name, f"$.{known}", FIELDS[known])


def text(value: str) -> str:
    """A text as jsonpath says it, composed as all stored text is (NFC)."""
    return json.dumps(unicodedata.normalize("NFC", value))


def number(written: str, negative: bool) -> str:
    """A number as jsonpath says it; ValueError for one that is out of bounds."""
    try:
        value = Decimal(written)
    except InvalidOperation:
        raise ValueError(f"{written} is not a decimal number") from None
    if value and abs(value.adjusted()) > MAGNITUDE:
        raise ValueError(f"{written} is out of range")
    return f"-{value}" if negative else str(value)


def moment(written: str, named: str | None = None) -> str:
    """A time as attributes hold it: in UTC, as Postgres prints it. Without a zone it is UTC.

    ``named`` is the type that stood before it, if one did: ``date`` takes a day, ``timestamp`` no
    zone. ValueError for what is no time.
    """
    if not _TIME.fullmatch(written):
        raise ValueError(
            f"{written!r} is not a time: write 2026-03-01, or 2026-03-01T09:30:00 with or without"
            " a zone such as Z or +02:00"
        )
    if named == "date" and len(written) > 10:
        raise ValueError(f"{written!r} is not a day")
    zone = _ZONE.search(written)
    if named == "timestamp" and zone:
        raise ValueError(f"a timestamp has no zone: write timestamptz {written!r}")
    tidy = _ZONE.sub(lambda found: found[1] + _offset(found[2]), written)
    try:
        value = datetime.fromisoformat(tidy)
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{written!r} is not a time of the calendar") from None
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return text(f"{value:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + fraction + "+00:00")


def _offset(zone: str) -> str:
    digits = zone.replace(":", "")
    if digits.upper() == "Z":
        return "+00:00"
    return f"{digits[:3]}:{digits[3:] or '00'}"


def like(pattern: str, any_case: bool) -> str:
    """A pattern of LIKE as the operand of ``like_regex``; ValueError for one that ends in a lone
    backslash.

    Only literal characters, ``.`` and ``.*`` come out, so that matching takes no more than the
    length of both. Case is folded here, since the server's own folding depends on its locale.
    """
    out = ["^"]
    characters = iter(unicodedata.normalize("NFC", pattern))
    for character in characters:
        if character == "%":
            out.append(".*")
        elif character == "_":
            out.append(".")
        else:
            if character == "\\":
                try:
                    character = next(characters)
                except StopIteration:
                    raise ValueError("a pattern must not end in a backslash") from None
            out.append(_either_case(character) if any_case else _literal(character))
    out.append("$")
    return f'like_regex {text("".join(out))} flag "s"'


def _literal(character: str) -> str:
    return "\\" + character if character.isascii() and not character.isalnum() else character


def _either_case(character: str) -> str:
    both = dict.fromkeys([character, character.lower(), character.upper()])
    single = [_literal(form) for form in both if len(form) == 1]
    return single[0] if len(single) == 1 else f"[{''.join(single)}]"
