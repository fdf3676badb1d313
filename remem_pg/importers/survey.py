"""What an import would do, from the first records of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument, RememError, TextRefused
from remem_pg.importers.shapes import Item, Source, records

LOOKED_AT = 1000
"""Records that are looked at before a yes."""

PROBLEMS_KEPT = 1000
"""Refused records that are named; more are counted."""


@dataclass(slots=True)
class Survey:
    """``fields``: of the items, how many records have each and one example; ``unknown``: the names
    that went to metadata; ``problems``: the first records that are refused, ``refused``: how many
    there are."""

    source: str
    mapping: dict[str, str]
    records: int = 0
    complete: bool = True
    fields: dict[str, tuple[int, Any]] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    problems: list[str] = field(default_factory=list)


def survey(source: Source, stream: IO[bytes], most: int | None = LOOKED_AT) -> Survey:
    """Looks at the first records, or (``most`` None) at all of them."""
    found = Survey(source.name, dict(source.mapping))
    given: Iterator[Any] = records(source, stream)
    for number, item in islice(given, most):
        found.records += 1
        problem = item if isinstance(item, RememError) else _refusal(item)
        if problem is not None:
            found.refused += 1
            if len(found.problems) < PROBLEMS_KEPT:
                found.problems.append(f"record {number}: {problem.sentence()}")
            continue
        for name, value in item.items():
            count, example = found.fields.get(name, (0, value))
            found.fields[name] = (count + 1, example)
        for name in item.get("metadata") or {}:
            found.metadata[name] = found.metadata.get(name, 0) + 1
    found.complete = next(given, None) is None
    return found


_BLANK = re.compile("[\u0001-\u0020\u0085\u00a0\u2000-\u200b\u2028\u2029\u3000\ufeff]*")
"""A text without anything to read, as ``remem._check_item`` sees it."""

LIMITS = {
    "body": 10 * 1024 * 1024,
    "title": 65536,
    "summary": 65536,
    "ref": 500,
    "scope_ref": 500,
    "session_ref": 500,
    "topic_key": 500,
    "speaker": 500,
    "subject": 2000,
    "attribute": 2000,
    "source_ref": 4000,
}
"""Bytes of a field that the server takes."""


def _refusal(item: Item) -> RememError | None:
    """Why an item would not be stored, as far as the item alone says; None where nothing does."""
    try:
        plain = checks.item(item)
    except RememError as error:
        return error
    if _BLANK.fullmatch(plain["body"]):
        return InvalidArgument("body is empty", detail={"argument": "body"})
    for name, limit in LIMITS.items():
        got = len(plain.get(name, "").encode())
        if got > limit:
            return TextRefused(
                f"{name} may have at most {limit} bytes, not {got}", detail={"argument": name}
            )
    return None
