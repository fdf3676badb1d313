"""Postgres's own client programs, found on this machine by release."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from remem_pg.errors import EmbeddedUnavailable, InvalidArgument
from remem_pg.server.programs import find_binaries

# Where distributions put the programs of each release.
_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


def _directories() -> Iterator[Path]:
    if found := shutil.which("pg_dump"):
        yield Path(found).parent
    for pattern in _PLACES:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))
    with contextlib.suppress(EmbeddedUnavailable):
        yield find_binaries()


@lru_cache(maxsize=64)
def _major(program: Path) -> int | None:
    """The release of a program; None when it does not run."""
    try:
        said = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    found = re.search(r"\d+", said.stdout)
    return int(found.group()) if found and said.returncode == 0 else None


def programs_named(name: str, server_major: int) -> list[Path]:
    """The programs of that name of the server's release or later, the oldest first."""
    found: dict[int, Path] = {}
    for directory in _directories():
        program = directory / name
        if program.is_file() and (major := _major(program)) is not None:
            found.setdefault(major, program)
    return [found[major] for major in sorted(found) if major >= server_major]


def find_program(name: str, server_major: int) -> Path:
    """The program of the server's release or the next one there is.

    Raises InvalidArgument: an older pg_dump refuses a newer server.
    """
    if fitting := programs_named(name, server_major):
        return fitting[0]
    older = programs_named(name, 0)
    what = (
        f"{name} here is of release {_major(older[-1])}, the server's is {server_major}"
        if older
        else f"{name} is not installed here"
    )
    raise InvalidArgument(
        what,
        detail={"program": name, "needed": server_major},
        hint=f"install the client programs of Postgres {server_major} "
        f"(Debian: postgresql-client-{server_major}), or pip install 'remem-pg[embedded]'",
    )


def connection_arguments(dsn: str) -> tuple[str, dict[str, str]]:
    """A connection string without its password, which others could read in the process list, and
    the environment that carries it."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts = conninfo_to_dict(dsn)
    password = parts.pop("password", None)
    return make_conninfo("", **parts), {"PGPASSWORD": str(password)} if password else {}
