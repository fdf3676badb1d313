"""The disk is full: under the tables, and under everything."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from evals.faults.ledger import Outcome, writing
from evals.faults.servers import Cluster, Place, until
from remem_pg.server.programs import Programs

BALLAST = "ballast"
ROOM_MB = 24
TABLES = ("memory", "posting", "memory_entity", "tally", "embedding_1")


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size in memory; raises OSError where one may not be mounted."""
    directory.mkdir(mode=0o711)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "tmpfs", str(directory)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        directory.rmdir()
        raise OSError(f"mount: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
        directory.rmdir()


def may_mount(directory: Path) -> bool:
    """Whether this account may mount a file system in memory."""
    try:
        with small_disk(directory / "probe", 1):
            return True
    except OSError:
        return False


def _fill(directory: Path) -> None:
    """A file that takes what room is left."""
    # Unbuffered: closing has nothing left to write that would not fit.
    with (directory / BALLAST).open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))


def tables(place: Place, rounds: int) -> Outcome:
    """The tables lie on a small disk of their own: statements fail, the server lives on."""
    outcome = Outcome("full disk, tables", "a small file system under the tables, filled up")
    with place.cluster("tables") as cluster, small_disk(place.directory / "disk", ROOM_MB) as disk:
        space = disk / "space"
        space.mkdir()
        Programs(cluster.root).own(space)
        with psycopg.connect(cluster.admin_dsn, autocommit=True) as admin:
            admin.execute(f"create tablespace small location '{space}'".encode())
            for table in TABLES:
                admin.execute(f"alter table remem.{table} set tablespace small".encode())
        with writing(cluster.dsn, outcome) as writers:
            for _ in range(rounds):
                before = writers.failures
                _fill(disk)
                full = writers.wait_for_failure(before=before)
                outcome.expect(full, "no call failed: the disk did not fill up")
                outcome.expect(cluster.alive(), "the server died")
                (disk / BALLAST).unlink()
                outcome.expect(writers.wait_for(10), "the writers did not go on")
        outcome.expect(
            set(outcome.errors) <= {"ServerExhausted"}, f"other errors: {outcome.errors}"
        )
        # A tablespace's files have to go before the disk below them does.
        cluster.kill()
    return outcome


def everything(place: Place, rounds: int) -> Outcome:
    """No room for the log of writes: Postgres stops. It is started again when there is room."""
    outcome = Outcome("full disk, all of the server", "no room for the log of writes either")
    with (
        _crowded(place, outcome) as (cluster, fill, free),
        writing(cluster.dsn, outcome) as writers,
    ):
        for _ in range(rounds):
            before = writers.failures
            fill()
            full = writers.wait_for_failure(before=before)
            outcome.expect(full, "no call failed: the disk did not fill up")
            free()
            until(lambda: not cluster.alive(), 2)
            cluster.start()
            outcome.expect(writers.wait_for(10), "the writers did not go on")
    return outcome


@contextmanager
def _crowded(
    place: Place, outcome: Outcome
) -> Iterator[tuple[Cluster, Callable[[], None], Callable[[], None]]]:
    """A server, what takes its room and what gives it back."""
    if may_mount(place.directory):
        size = sum(f.stat().st_size for f in place.seed().rglob("*") if f.is_file()) // 2**20
        outcome.facts["by"] = "a file system in memory"
        with (
            small_disk(place.directory / "disk", size + 3 * ROOM_MB) as disk,
            place.cluster("all", root=disk) as cluster,
        ):
            yield cluster, lambda: _fill(disk), (disk / BALLAST).unlink
        shutil.rmtree(place.directory / "disk", ignore_errors=True)
        return
    # Without the right to mount: no file of the server may grow beyond what it has.
    outcome.facts["by"] = "a limit on the size of files"
    with place.cluster("all") as cluster:

        def limit(size: int) -> None:
            for process in cluster.processes():
                hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))

        yield (
            cluster,
            lambda: limit(os.sysconf("SC_PAGESIZE")),
            lambda: limit(resource.RLIM_INFINITY),
        )
