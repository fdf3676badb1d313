"""A primary with a hot standby, both of the test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remem_pg.install import migrate
from remem_pg.server.postmaster import Postmaster
from remem_pg.server.programs import Programs
from tests.support.memories import Connection, value
from tests.support.places import new_directory
from tests.support.waiting import until

SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_wal_size": "256MB"}


@contextmanager
def replicated() -> Iterator[tuple[str, str]]:
    """The superuser's DSNs of a primary where remem is installed, and of its standby."""
    directory = new_directory("rs-")
    primary = Postmaster(directory / "p", settings=SETTINGS, durable=False)
    standby = Postmaster(directory / "s", settings=SETTINGS, durable=False)
    try:
        primary.acquire()
        migrate(primary.dsn())
        _copy(primary, standby)
        standby.acquire()
        yield primary.dsn(), standby.dsn()
    finally:
        standby.release()
        primary.release()
        shutil.rmtree(directory, ignore_errors=True)


def _copy(primary: Postmaster, standby: Postmaster) -> None:
    mode = 0o711
    standby.root.mkdir(mode=mode)
    standby.root.chmod(mode)
    programs = Programs(standby.root)
    programs.own(standby.root)
    code, output = programs.run(
        "pg_basebackup",
        *("--pgdata", str(standby.pgdata), "--dbname", primary.dsn(), "--write-recovery-conf"),
        *("--checkpoint", "fast", "--no-sync"),
        pgdata=standby.pgdata,
    )
    assert code == 0, output
    assert Path(standby.pgdata, "standby.signal").exists()


def caught_up(primary: Connection, standby: Connection) -> None:
    """Waits until the standby has replayed what the primary has written."""
    there = value(primary, "select pg_current_wal_flush_lsn()::text")
    until(
        lambda: value(standby, "select pg_last_wal_replay_lsn() >= %s::pg_lsn", [there]),
        60,
        "the standby does not follow",
    )
