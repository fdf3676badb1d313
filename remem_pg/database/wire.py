"""How a call travels over psycopg: what both clients share. No I/O happens here.

Everything is set on the cursor of one call and taken away with it: a caller's own connection is
left as it was found, whatever row factory, adapters or handlers it has.
"""

from __future__ import annotations

import json
import selectors
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Buffer, Dumper, Loader
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader
from psycopg.types.json import JsonbBinaryLoader, JsonbLoader
from psycopg.types.uuid import UUIDBinaryLoader, UUIDLoader

from remem_pg.errors import (
    InvalidArgument,
    RememError,
    ServerUnavailable,
    TextRefused,
    from_psycopg,
)
from remem_pg.vector import Vector

POOL_TIMEOUT = 10.0
"""Seconds to wait for a connection before the server counts as unavailable."""

POOL_SETTINGS: dict[str, Any] = {
    "min_size": 0,
    "max_size": 4,
    "num_workers": 1,
    "open": False,
    # A pool doubles its pause between two tries for as long as it goes on trying, and meanwhile no
    # call makes it try at once: it gives up early, so that the first call after an outage does.
    "reconnect_timeout": POOL_TIMEOUT / 2,
}
"""A pool opens no connection before it is needed and keeps few: one client is one application."""

MOST_DEAD = 100
"""Dead connections of a pool to throw away before the server counts as unavailable."""

CONNECTION_SETTINGS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "client_encoding": "utf8",
}
"""Each call is its own transaction; no prepared statement outlives it, so that a pooler in
transaction mode may hand every call to another server process. The encoding is asked for as the
connection starts, before that of a role or of the environment."""


READ_TENANT = "select current_setting('remem.workspace', true)"
SET_TENANT = "select set_config('remem.workspace', %s, true)"


class VectorDumper(Dumper):
    """A checked vector as binary ``real[]``: a quarter of the size of its text and exact."""

    format = pq.Format.BINARY
    oid = psycopg.adapters.types["float4"].array_oid

    def dump(self, obj: Vector) -> Buffer:
        return obj.as_binary()


class OpenEndedLoader(Loader):
    """``timestamptz`` where infinity and years beyond Python's are its first and last moment.

    Others than this client may have written "valid to infinity"; one such row must not make a
    whole list unreadable.
    """

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._finite = TimestamptzLoader(oid, context)

    def load(self, data: Buffer) -> datetime:
        try:
            return self._finite.load(data)
        except psycopg.DataError:
            text = bytes(data)
            first = text.startswith(b"-") or text.endswith(b"BC")
            return (datetime.min if first else datetime.max).replace(tzinfo=UTC)


class OpenEndedBinaryLoader(TimestamptzBinaryLoader):
    """The same for binary results."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            first = bytes(data) >= bytes([0x80])  # the sign of a count of microseconds
            return (datetime.min if first else datetime.max).replace(tzinfo=UTC)


def adapt(adapters: AdaptersMap) -> None:
    """Sets on a cursor's own map what a call needs, whatever the connection has there."""
    adapters.register_dumper(Vector, VectorDumper)
    adapters.register_loader("timestamptz", OpenEndedLoader)
    adapters.register_loader("uuid", UUIDLoader)
    adapters.register_loader("jsonb", JsonbLoader)
    adapters.register_loader("timestamptz", OpenEndedBinaryLoader)
    adapters.register_loader("uuid", UUIDBinaryLoader)
    adapters.register_loader("jsonb", JsonbBinaryLoader)


def is_binary(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether results come in binary: psycopg reads times as text in the DateStyle ISO only.

    The style of a role, a server or a caller's session stays as it is: behind a pooler a setting
    made here would be somebody else's next.
    """
    style = conn.info.parameter_status("DateStyle")
    return style is not None and not style.startswith("ISO")


def check_encoding(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Refuses a connection on which texts come as bytes; costs no round trip."""
    if conn.info.parameter_status("client_encoding") == "SQL_ASCII":
        raise InvalidArgument(
            "the connection has client_encoding SQL_ASCII, with which texts cannot be read",
            detail={"argument": "client_encoding", "value": "SQL_ASCII"},
            hint="use a connection with client_encoding UTF8",
        )


class Warnings:
    """A notice handler that keeps the codes of RM501 warnings: the degraded states of a call."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.sqlstate != "RM501":
            return
        try:
            codes = json.loads(diagnostic.message_detail or "[]")
        except ValueError:
            codes = []
        self.codes += [code for code in codes if isinstance(code, str)]


def translated(exc: Exception) -> Exception:
    """The error to raise for one that came out of psycopg; the same one when it is not remem's."""
    if isinstance(exc, psycopg.Error):
        return from_psycopg(exc) or exc
    if isinstance(exc, UnicodeEncodeError):
        return TextRefused(
            detail={"argument": "client_encoding", "problem": f"{exc.encoding} lacks a character"},
            hint="use a connection with client_encoding UTF8",
        )
    return exc


def check_conninfo(conninfo: str) -> None:
    """Refuses what is no connection string, without connecting and without showing it."""
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise InvalidArgument(
            "source is not a connection string",
            detail={"argument": "source"},
            hint='write it like "postgresql://user@host:5432/database"',
        ) from None


def wrong_source(source: object, wanted: str) -> RememError:
    """The error for a source this client cannot use."""
    return InvalidArgument(
        f"source is a {type(source).__name__}, not {wanted}",
        detail={"argument": "source"},
        hint="async pools and connections go to AsyncRemem, the others to Remem",
    )


def conninfo_of(conn: psycopg.AsyncConnection[Any]) -> str:
    """A connection string, password included, that connects to the same database as ``conn``."""
    return psycopg.conninfo.make_conninfo(conn.info.dsn, password=conn.info.password or None)


def is_full(stats: dict[str, int]) -> bool:
    """Whether a pool has as many connections as it may: then somebody holds them."""
    return stats.get("pool_size", 0) >= stats.get("pool_max", 0)


def pool_exhausted() -> RememError:
    """The error when the server answers and yet no connection of the pool came free."""
    return ServerUnavailable(
        f"no free connection within {POOL_TIMEOUT:g} s",
        hint="more calls at once than connections: pass a larger psycopg_pool pool as source",
    )


def is_alive(pgconn: pq.abc.PGconn) -> bool:
    """False when the server has closed this idle connection; costs no round trip.

    Nothing is due on an idle connection: a readable socket is the goodbye of a server that stops,
    or its end of file. (In the rare case that it is a changed server setting, a connection more
    is opened.)
    """
    if pgconn.status != pq.ConnStatus.OK:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, selectors.EVENT_READ)
        return not selector.select(0)
