"""The lines of a file to import: one JSON object each, read in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from remem_pg.operating import json_line
from remem_pg.operating.json_line import BATCH_BYTES, BATCH_LINES

MAX_LINE = 16 * 1024 * 1024


@dataclass
class Line:
    """One line of the file: an item, or the reason why it is none."""

    number: int
    size: int
    item: dict[str, Any] | None = None
    problem: str | None = None


def read_lines(stream: IO[bytes], first: int = 1) -> Iterator[Line]:
    """The items of a JSON lines stream, one at a time; blank lines and those before ``first`` are
    passed over.

    A line that is no JSON object, not UTF-8, or longer than 16 MiB comes with its problem instead
    of an item.
    """
    number = 0
    while raw := stream.readline(MAX_LINE + 1):
        number += 1
        size = len(raw)
        too_long = size > MAX_LINE and not raw.endswith(b"\n")
        if too_long:
            while (rest := stream.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                size += len(rest)
        if number < first:
            continue
        if too_long:
            yield Line(number, size, problem="longer than 16 MiB")
        elif raw.strip():
            yield _parse(number, raw)


def _parse(number: int, raw: bytes) -> Line:
    try:
        return Line(number, len(raw), item=json_line.parse(number, raw))
    except json_line.NotAnObject as problem:
        return Line(number, len(raw), problem=str(problem))


def batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lines grouped by at most 500 lines and about 4 MiB."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += line.size
        if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Pushed:
    """A stream with its first line put back, as standard input cannot be wound back."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first = first
        self._stream = stream

    def readline(self, size: int = -1) -> bytes:
        """The next line, or as much of it as ``size``."""
        if not self._first:
            return self._stream.readline(size)
        line, self._first = self._first, b""
        if 0 <= size < len(line):
            line, self._first = line[:size], line[size:]
        elif not line.endswith(b"\n"):
            line += self._stream.readline(size - len(line) if size >= 0 else -1)
        return line
