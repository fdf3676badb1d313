"""One line of a file of JSON lines, and how many of them go to the server at once."""

from __future__ import annotations

import json
from typing import Any

BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024


class NotAnObject(ValueError):
    """The line is no JSON object; the message says why."""


def parse(number: int, line: str | bytes) -> dict[str, Any]:
    """The object of a line. ``number`` counts from 1: only the first may begin with a mark of
    UTF-8. Raises NotAnObject."""
    try:
        text = (
            line.decode("utf-8-sig" if number == 1 else "utf-8")
            if isinstance(line, bytes)
            else line
        )
    except UnicodeDecodeError as error:
        raise NotAnObject(f"not UTF-8 at byte {error.start}") from None
    document = value(text)
    if not isinstance(document, dict):
        raise NotAnObject("not a JSON object")
    return document


def value(text: str | bytes) -> Any:
    """What a JSON text says, NaN and infinity refused. Raises NotAnObject."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise NotAnObject("nested too deeply") from None
    except ValueError as error:
        raise NotAnObject(f"not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
