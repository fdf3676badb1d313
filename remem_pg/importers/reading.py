"""Records out of a file of JSON lines, or of one JSON document that holds them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import IO, Any

from remem_pg.errors import InvalidArgument
from remem_pg.operating import json_line
from remem_pg.operating.transfer_file import parse

MAX_DOCUMENT = 1024 * 1024 * 1024
"""A JSON document has to be read whole; lines have no such limit."""


def records(
    name: str, shapes: str, stream: IO[bytes]
) -> Iterator[tuple[int, Mapping[str, Any] | InvalidArgument]]:
    """Number (from 1) and record; what is no JSON object comes as the error that says so."""
    lines = enumerate(iter(stream.readline, b""), 1)
    first = next(((n, line) for n, line in lines if line.strip()), None)
    if first is None:
        return
    number, line = first
    try:
        document = json_line.value(line)
        whole = isinstance(document, list) or _pages(document) is not None
    except json_line.NotAnObject:
        # a document over several lines, or a bad line
        whole = line.lstrip()[:1] in (b"[", b"{") and not line.rstrip().endswith(b"}")
    if whole:
        yield from _document(name, shapes, line, stream)
        return
    for number, line in chain([first], lines):
        if line.strip():
            try:
                yield number, parse(number, line)
            except InvalidArgument as error:
                yield number, error


def _document(
    name: str, shapes: str, head: bytes, stream: IO[bytes]
) -> Iterator[tuple[int, Mapping[str, Any] | InvalidArgument]]:
    rest = stream.read(MAX_DOCUMENT)
    if stream.read(1):
        raise InvalidArgument(
            f"a JSON document of more than {MAX_DOCUMENT} bytes", hint="write one object a line"
        )
    try:
        document = json_line.value(head + rest)
    except json_line.NotAnObject as error:
        raise InvalidArgument(f"neither JSON lines nor a JSON document: {error}") from None
    found = document if isinstance(document, list) else _pages(document)
    if found is None:
        raise InvalidArgument(
            f"not an export of {name} that is known here", hint=f"accepted: {shapes}"
        )
    for number, record in enumerate(found, 1):
        if isinstance(record, dict):
            yield number, record
        else:
            yield number, InvalidArgument(f"record {number}: not a JSON object")


def _pages(document: Any) -> list[Any] | None:
    """The records of a document that holds them under one key."""
    if isinstance(document, dict):
        for key in ("results", "memories", "items"):
            if isinstance(document.get(key), list):
                found: list[Any] = document[key]
                return found
    return None
