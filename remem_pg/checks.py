"""What the client refuses before anything is sent, as the same typed errors the server raises.

Only what would otherwise end in a raw error of psycopg, of Postgres or of a JSON encoder, or in a
silent change of meaning (a naive time, a string taken for a list), is checked here. What a value
may be is the server's business and decided in one place, there.
"""

from __future__ import annotations

import json
import math
import operator
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from remem_pg.errors import InvalidArgument, RememError, TextRefused, UnknownOption, VectorRefused
from remem_pg.vector import Vector

TEXT_LIMIT = 64_000_000
"""Longest text, in characters, that is sent at all. The server's own limits are far below; beyond
about four times this, Postgres and the protocol fail without naming anything."""

JSON_DEPTH = 200
"""Deepest nesting of a JSON argument; Python's encoder and Postgres's parser both go further."""

_INT4 = range(-(2**31), 2**31)


def text(value: Any, argument: str) -> str:
    """A text Postgres can store: a str without NUL and without lone surrogates."""
    if not isinstance(value, str):
        raise InvalidArgument(
            f"{argument} must be text, not {type(value).__name__}", detail={"argument": argument}
        )
    if len(value) > TEXT_LIMIT:
        raise TextRefused(detail={"argument": argument, "got": len(value), "limit": TEXT_LIMIT})
    if "\0" in value:
        raise TextRefused(
            detail={
                "argument": argument,
                "problem": f"NUL at character {value.index(chr(0)) + 1}",
            },
            hint="remove the character U+0000",
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise TextRefused(
            detail={
                "argument": argument,
                "problem": f"lone surrogate at character {exc.start + 1}",
            },
            hint="decode the text with errors='replace'",
        ) from None
    return str(value)


def texts(value: Any, argument: str) -> list[str]:
    """A list of texts. A single string is refused: it would be taken for a list of letters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidArgument(
            f"{argument} must be a list of texts, not {type(value).__name__}",
            detail={"argument": argument},
            hint=f'write {argument}=["..."]',
        )
    # a set has no order of its own: sorted, the same set is the same content every time
    members = sorted(value, key=str) if isinstance(value, set | frozenset) else value
    return [text(member, f"{argument}[{i}]") for i, member in enumerate(members)]


def instant(value: Any, argument: str) -> str:
    """An aware time as ISO 8601. A naive one is refused: it would mean the server's zone."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(text(value, argument).strip())
        except ValueError:
            raise InvalidArgument(
                detail={"argument": argument, "value": value, "expected": "an ISO 8601 time"},
                hint='write it like "2026-03-01T09:30:00+01:00"',
            ) from None
    if not isinstance(moment, datetime):
        kind = "date" if isinstance(moment, date) else type(moment).__name__
        raise InvalidArgument(
            f"{argument} must be a datetime with a time zone, not {kind}",
            detail={"argument": argument},
        )
    if moment.utcoffset() is None:
        raise InvalidArgument(
            f"{argument} has no time zone",
            detail={"argument": argument, "value": moment.isoformat()},
            hint="use datetime(..., tzinfo=timezone.utc) or .astimezone()",
        )
    return moment.isoformat()


def integer(value: Any, argument: str) -> int:
    """A 32-bit integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(
            f"{argument} must be an integer, not {type(value).__name__}",
            detail={"argument": argument},
        ) from None
    if number not in _INT4:
        raise InvalidArgument(
            f"{argument} is out of range",
            detail={"argument": argument, "limit": _INT4.stop - 1},
        )
    return number


def real(value: Any, argument: str) -> float:
    """A finite number that fits a ``real``."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            f"{argument} must be a number, not {type(value).__name__}",
            detail={"argument": argument},
        ) from None
    if not math.isfinite(number) or abs(number) > 3.4e38:
        raise InvalidArgument(
            f"{argument} = {number} is not a finite number", detail={"argument": argument}
        )
    return number


def boolean(value: Any, argument: str) -> bool:
    """True or False, nothing that is merely truthy: "false" is."""
    if not isinstance(value, bool):
        raise InvalidArgument(
            f"{argument} must be true or false, not {type(value).__name__}",
            detail={"argument": argument},
        )
    return value


def vector(value: Any, argument: str) -> Vector:
    """One embedding: a flat sequence of finite numbers within float32 (list, tuple or array)."""
    if isinstance(value, Vector):
        return value
    raw = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(raw, str | bytes | Mapping) or not isinstance(raw, Iterable):
        raise InvalidArgument(
            f"{argument} must be a list of numbers, not {type(value).__name__}",
            detail={"argument": argument},
        )
    values = tuple(raw)
    try:
        struct.pack(f">{len(values)}f", *values)
    except OverflowError:
        raise VectorRefused(
            f"{argument} holds a value too large for float32", detail={"argument": argument}
        ) from None
    except struct.error:
        raise InvalidArgument(
            f"{argument} must be a flat list of numbers", detail={"argument": argument}
        ) from None
    for position, number in enumerate(values, 1):
        if not math.isfinite(number):
            raise VectorRefused(
                f"{argument} holds {number} at position {position}",
                detail={"argument": argument, "value": str(number), "position": position},
                hint="a vector has finite values only",
            )
    return Vector(values)


def identifier(value: Any, argument: str) -> str:
    """A uuid as text."""
    try:
        return str(value if isinstance(value, UUID) else UUID(text(value, argument)))
    except ValueError:
        raise InvalidArgument(
            detail={"argument": argument, "value": value, "expected": "a uuid"},
            hint="a ref of your own is passed by name, ref=..., where a call takes one",
        ) from None


def document(value: Any, argument: str) -> str:
    """A JSON object as text, every string in it storable and every number finite."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(
            f"{argument} must be an object (a dict), not {type(value).__name__}",
            detail={"argument": argument},
        )
    return json_text(value, argument)


def json_text(value: Any, argument: str) -> str:
    """A JSON value as text; times inside become ISO 8601 and must be aware."""
    plain = _plain(value, argument, JSON_DEPTH)
    try:
        encoded = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # an int beyond the interpreter's digit limit
        raise InvalidArgument(
            f"{argument} holds a number with too many digits", detail={"argument": argument}
        ) from None
    return text(encoded, argument)


def _plain(value: Any, path: str, depth: int) -> Any:
    """The same value made of dict, list, str, int, float, bool and None only."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument(
                f"{path} = {value} cannot be stored as JSON", detail={"argument": path}
            )
        return value
    if depth == 0:
        raise InvalidArgument(
            f"{path.split('.')[0].split('[')[0]} is nested too deeply",
            detail={"argument": path.split(".")[0].split("[")[0], "limit": JSON_DEPTH},
        )
    if isinstance(value, Mapping):
        result = {}
        for key, member in value.items():
            if not isinstance(key, str):
                raise InvalidArgument(
                    f"a key of {path} is not text but {type(key).__name__}",
                    detail={"argument": path},
                )
            name = text(key, f"{path} (a key)")
            result[name] = _plain(member, f"{path}.{name}", depth - 1)
        return result
    if isinstance(value, list | tuple):
        return [_plain(member, f"{path}[{i}]", depth - 1) for i, member in enumerate(value)]
    if isinstance(value, datetime):
        return instant(value, path)
    if isinstance(value, UUID):
        return str(value)
    raise InvalidArgument(
        f"{path} is a {type(value).__name__}, which JSON does not know",
        detail={"argument": path},
        hint="use text, numbers, true, false, null, lists and objects",
    )


FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "body": ("text", text),
    "ref": ("text", text),
    "kind": ("text", text),
    "title": ("text", text),
    "summary": ("text", text),
    "tags": ("text[]", texts),
    "aliases": ("text[]", texts),
    "scope": ("text", text),
    "scope_ref": ("text", text),
    "topic_key": ("text", text),
    "subject": ("text", text),
    "attribute": ("text", text),
    "source_class": ("text", text),
    "source_ref": ("text", text),
    "importance": ("real", real),
    "confidence": ("real", real),
    "pinned": ("boolean", boolean),
    "unresolved": ("boolean", boolean),
    "session_ref": ("text", text),
    "turn_no": ("integer", integer),
    "speaker": ("text", text),
    "occurred_at": ("timestamptz", instant),
    "valid_from": ("timestamptz", instant),
    "valid_to": ("timestamptz", instant),
    "entities": ("text[]", texts),
    "metadata": ("jsonb", document),
    "embedding": ("real[]", vector),
    "on_conflict": ("text", text),
    "space": ("text", text),
}
"""The arguments of ``remem.remember`` after the workspace: SQL type and check, in its order."""


def item(raw: Any, item_no: int | None = None) -> dict[str, Any]:
    """One memory to write, checked; a None is the same as leaving the key out.

    Raises a RememError that names the argument and, with ``item_no`` (from 1), the item.
    """
    try:
        if not isinstance(raw, Mapping):
            raise InvalidArgument(
                f"an item must be an object (a dict), not {type(raw).__name__}",
                detail={"argument": "items"},
            )
        for key in raw:
            if key not in FIELDS:
                raise UnknownOption(
                    detail={"option": str(key).encode("utf-8", "replace").decode()},
                    hint=f"valid: {', '.join(FIELDS)}",
                )
        if raw.get("body") is None:
            raise InvalidArgument("body is missing", detail={"argument": "body"})
        return {
            name: check(raw[name], name)
            for name, (_, check) in FIELDS.items()
            if raw.get(name) is not None
        }
    except RememError as error:
        if item_no is not None:
            error.item_no = item_no
            error.detail["item"] = item_no
        raise
