"""Servers that may be broken: copies of one installed database, each in a directory of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # comes with the server's wheel
from psycopg.conninfo import conninfo_to_dict

from remem_pg.embedded import DATABASE, ROLE, EmbeddedServer
from remem_pg.install import migrate
from remem_pg.server.postmaster import Postmaster
from remem_pg.server.programs import Programs

# As a careful operator has it: what a server acknowledges is on the disk.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "60",
    "wal_level": "replica",
    "hot_standby": "on",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}
WAIT_SECONDS = 20


class Cluster:
    """One server with remem installed; ``dsn`` is the unprivileged owner's."""

    def __init__(
        self,
        root: Path,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self._postmaster = Postmaster(
            root, settings={**SETTINGS, **(settings or {})}, environment=environment
        )

    def start(self) -> str:
        """Starts it, also after it was killed; the DSN."""
        self._postmaster.acquire()
        return self.dsn

    def stop(self) -> None:
        """Stops it in order; what is dead already stays dead."""
        self._postmaster.release()

    @property
    def dsn(self) -> str:
        return self._postmaster.dsn(ROLE, DATABASE)

    @property
    def admin_dsn(self) -> str:
        return self._postmaster.dsn(dbname=DATABASE)

    @property
    def socket_directory(self) -> Path:
        return Path(parameter(self.dsn, "host"))

    def alive(self) -> bool:
        return self._postmaster.alive()

    def processes(self) -> list[psutil.Process]:
        """The postmaster and what it started; empty when it is dead."""
        pid = self._postmaster.pid
        try:
            postmaster = psutil.Process(pid)
            return [postmaster, *postmaster.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """SIGKILL for every process of the server, as when the machine's power goes."""
        doomed = self.processes()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        # A dead process that nobody has reaped yet is dead enough.
        until(lambda: not any(map(_lives, doomed)), WAIT_SECONDS)

    def control(self, *arguments: str) -> None:
        """pg_ctl with these arguments; raises what it printed when it fails."""
        run(self.root, "pg_ctl", *arguments, "-w", "-t", str(WAIT_SECONDS))

    def restart(self) -> None:
        """A restart in order, as for an update of the server: sessions are ended."""
        self.control("restart", "-m", "fast", "-l", self._postmaster.log.name)

    def copy(self, root: Path, settings: Mapping[str, str] | None = None) -> Cluster:
        """A hot standby that streams from this server; not started yet."""
        root.mkdir(mode=0o711)
        programs = Programs(root)
        data = root / "pgdata"
        data.mkdir(mode=0o700)
        programs.own(data)
        place = parameter(self.admin_dsn, "host")
        run(
            root, "pg_basebackup", "--pgdata", str(data), "--write-recovery-conf",
            "--checkpoint=fast", "--wal-method=stream", "--no-sync",
            "--dbname", f"host={place} port=5432 user=postgres application_name=standby",
        )  # fmt: skip
        return Cluster(root, settings)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits for a condition; says whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def parameter(dsn: str, name: str) -> str:
    """One parameter of a connection string."""
    return str(conninfo_to_dict(dsn)[name])


def run(root: Path, program: str, *arguments: str) -> str:
    """One of the server's programs as the server's account."""
    code, output = Programs(root).run(program, *arguments, pgdata=root / "pgdata")
    if code != 0:
        raise OSError(f"{program} {' '.join(arguments)}: {output.strip()[-500:]}")
    return output


class Place:
    """Where the servers of a run live; all are copies of one database, made once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._seed = directory / "seed"

    def seed(self) -> Path:
        """The files of a server, stopped, in whose database an ordinary role installed remem."""
        if not self._seed.exists():
            with EmbeddedServer(self._seed, settings={"fsync": "off"}) as server:
                migrate(server.dsn)
        return self._seed / "pgdata"

    @contextmanager
    def cluster(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        root: Path | None = None,
    ) -> Iterator[Cluster]:
        """A started server of its own, below ``root`` where it is given; gone at the end."""
        seed = self.seed()
        root = (root or self.directory) / name
        root.mkdir(mode=0o711)
        # cp and not shutil.copytree: the files belong to the server's account.
        subprocess.run(["cp", "-a", str(seed), str(root / "pgdata")], check=True)
        cluster = Cluster(root, settings, environment)
        try:
            cluster.start()
            yield cluster
        finally:
            discard(cluster)


def discard(cluster: Cluster) -> None:
    """Ends a server however it does, and removes its files."""
    cluster.kill()
    shutil.rmtree(cluster.root, ignore_errors=True)


@contextmanager
def place(directory: Path | None = None) -> Iterator[Place]:
    """A directory for a run (a fresh one unless it is given), gone at the end."""
    directory = directory or Path(tempfile.mkdtemp(prefix="remem-faults-"))
    directory.chmod(0o711)  # as root the servers run as another account, which has to pass
    try:
        yield Place(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
