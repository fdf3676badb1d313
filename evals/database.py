"""The database an evaluation runs in: a given one, or an embedded server that lives for the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from remem_pg.embedded import EmbeddedServer
from remem_pg.install import migrate

# Data that is gone in a minute needs no syncs; reads are as they would be anywhere.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "max_wal_size": "4GB"}


@contextmanager
def temporary_server(settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedServer]:
    """A server with a fresh database where an ordinary role installed remem, gone at the end.

    Raises remem_pg.EmbeddedUnavailable when no embedded server can be started.
    """
    directory = Path(tempfile.mkdtemp(prefix="remem-"))
    directory.chmod(0o711)  # as root the server runs as another account, which has to pass
    try:
        with EmbeddedServer(
            directory / "data", settings={**_SETTINGS, **(settings or {})}
        ) as server:
            migrate(server.dsn)
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def temporary_database(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The DSN of the database of a ``temporary_server``."""
    with temporary_server(settings) as server:
        yield server.dsn


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """``dsn`` with remem installed or upgraded in it; without one, a temporary database."""
    if dsn is None:
        with temporary_database() as fresh:
            yield fresh
    else:
        migrate(dsn)
        yield dsn
