"""The lines of an export file: JSON objects, the first one a header, vectors packed in base64."""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from dataclasses import dataclass
from typing import Any

from remem_pg.errors import InvalidArgument, TextRefused
from remem_pg.operating import json_line
from remem_pg.vector import Vector

FORMAT = 1

# An odd number of backslashes before it is its own; an even number makes it text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(slots=True)
class Record:
    """A line of the file as it goes to the server."""

    number: int
    type: str
    text: str
    vector: bytes | None = None


def read_header(number: int, line: str | bytes) -> dict[str, Any]:
    """The header of an export; refuses what is none, or is a later format's."""
    header = parse(number, line)
    if header.get("type") != "header" or "format" not in header:
        raise InvalidArgument(
            f"line {number}: not an export of remem, which begins with a header",
            detail={"line": number},
            hint="memories as plain JSON lines: remem import --from jsonl",
        )
    if header["format"] != FORMAT:
        raise InvalidArgument(
            f"this export has format {header['format']!r}, this client reads {FORMAT}",
            detail={"argument": "format", "got": header["format"], "expected": FORMAT},
            hint="pip install --upgrade remem-pg",
        )
    return header


def read_record(number: int, line: str | bytes) -> Record:
    """A line with its vector unpacked."""
    document = parse(number, line)
    packed = document.pop("embedding", None)
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused(number, "lone surrogate") from None
    if _NUL.search(text):
        raise _refused(number, "NUL")
    vector = None if packed is None else _unpacked(number, packed)
    return Record(number, str(document.get("type")), text, vector)


def _refused(number: int, problem: str) -> TextRefused:
    return TextRefused(f"line {number}: {problem}", detail={"line": number, "problem": problem})


def parse(number: int, line: str | bytes) -> dict[str, Any]:
    """The JSON object of a line; refuses anything else, naming the line."""
    try:
        return json_line.parse(number, line)
    except json_line.NotAnObject as problem:
        raise InvalidArgument(f"line {number}: {problem}", detail={"line": number}) from None


def _unpacked(number: int, packed: Any) -> bytes:
    """The binary ``real[]`` of what ``halfvec_send`` of pgvector wrote."""
    try:
        raw = base64.b64decode(packed, validate=True)
        count, unused = struct.unpack_from(">HH", raw)
        if unused or len(raw) != 4 + 2 * count:
            raise ValueError(len(raw))
        return Vector(struct.unpack_from(f">{count}e", raw, 4)).as_binary()
    except (TypeError, ValueError, binascii.Error, struct.error):
        raise InvalidArgument(
            f"line {number}: the embedding is not as export writes it", detail={"line": number}
        ) from None


def is_export(first: bytes) -> bool:
    """Whether a file with this first line is an export of remem."""
    try:
        return parse(1, first).get("type") == "header"
    except InvalidArgument:
        return False
