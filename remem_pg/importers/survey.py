"""What an import would do, from the first records of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from remem_pg.errors import InvalidArgument
from remem_pg.importers.shapes import Source, records

LOOKED_AT = 1000


@dataclass(slots=True)
class Survey:
    """``fields``: of the items, how many records have each and one example; ``unknown``: the names
    that went to metadata; ``problems``: the first records that are refused."""

    source: str
    mapping: dict[str, str]
    records: int = 0
    complete: bool = True
    fields: dict[str, tuple[int, Any]] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def survey(source: Source, stream: IO[bytes]) -> Survey:
    """Looks at the first thousand records."""
    found = Survey(source.name, dict(source.mapping))
    given: Iterator[Any] = records(source, stream)
    for number, item in islice(given, LOOKED_AT):
        found.records += 1
        if isinstance(item, InvalidArgument):
            if len(found.problems) < 10:
                found.problems.append(f"record {number}: {item.sentence()}")
            continue
        for name, value in item.items():
            count, example = found.fields.get(name, (0, value))
            found.fields[name] = (count + 1, example)
        for name in item.get("metadata") or {}:
            found.metadata[name] = found.metadata.get(name, 0) + 1
    found.complete = next(given, None) is None
    return found
