"""Bulk writes: items copied into the transaction's staging table and stored from there.

A vector travels beside its item as a binary array. As JSON it would be most of what the server
has to parse.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from remem_pg import calls
from remem_pg.calls import Call, build
from remem_pg.errors import NoAccess, NotInstalled
from remem_pg.models import MemoryRef
from remem_pg.steps import Copy, Flow, Run, Session, Together

STAGE_FROM = 50
"""From so many items on, a table of their own costs less than one long parameter."""

BLOCK_BYTES = 64 * 1024
"""About what one message to the server holds."""

# The file header, and a row count of -1 for the end (Postgres manual, COPY, binary format).
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = struct.pack("!h", -1)
COPY = "copy pg_temp.remem_staged (item_no, item, embedding) from stdin with (format binary)"

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def store(
    session: Session, items: Sequence[Mapping[str, Any]], on_error: str
) -> Flow[list[MemoryRef]]:
    """Stores checked items in one statement or, when there are many, by way of a staging table.

    An older database has no staging table, and a role may lack the right to make one.
    """
    if len(items) >= STAGE_FROM and session.stages_items:
        try:
            staged: list[MemoryRef] = yield Together(_staged(session, items, on_error))
            return staged
        except (NoAccess, NotInstalled):
            session.stages_items = False
    answered: list[MemoryRef] = yield Run(calls.remember_many(session.workspace, items, on_error))
    return answered


def _staged(
    session: Session, items: Sequence[Mapping[str, Any]], on_error: str
) -> Flow[list[MemoryRef]]:
    yield Run(stage(session.workspace))
    yield Copy(COPY, blocks(map(row, range(1, len(items) + 1), items)))
    stored: list[MemoryRef] = yield Run(remember_staged(session.workspace, on_error))
    return stored


def stage(workspace: str) -> Call[str]:
    """Makes the staging table of this transaction."""
    return build("stage", {"workspace": ("text", workspace)}, lambda reply: str(reply.value()))


def remember_staged(workspace: str, on_error: str) -> Call[list[MemoryRef]]:
    """Stores what was copied."""
    arguments = {"workspace": ("text", workspace), "on_error": ("text", on_error)}
    return build(
        "remember_staged",
        arguments,
        lambda reply: [MemoryRef.from_row(one) for one in reply.rows],
    )


def row(number: int, item: Mapping[str, Any]) -> bytes:
    """A checked item as a row of the staging table."""
    text = calls.item_json({k: v for k, v in item.items() if k != "embedding"})
    embedding = item.get("embedding")
    vector = None if embedding is None else embedding.as_binary()
    return binary_row(number, text, vector)


def binary_row(number: int, document: str, vector: bytes | None) -> bytes:
    """(int, jsonb, real[]) in the binary form of COPY; jsonb begins with its version, 1.

    Its text is taken in the connection's encoding, which may be any: escapes are the same in all.
    """
    escaped = _BEYOND_ASCII.sub(lambda found: json.dumps(found.group())[1:-1], document)
    text = escaped.encode("ascii")
    tail = struct.pack("!i", -1) if vector is None else struct.pack("!i", len(vector)) + vector
    return struct.pack("!hiiiB", 3, 4, number, len(text) + 1, 1) + text + tail


def blocks(rows: Iterable[bytes]) -> Iterator[bytes]:
    """A whole binary COPY, in pieces of about one message."""
    piece = bytearray(_HEADER)
    for one in rows:
        piece += one
        if len(piece) >= BLOCK_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + _END
