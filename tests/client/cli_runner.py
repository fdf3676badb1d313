"""Runs ``remem`` as a process of its own, the way a person or a script does.

The process is forked from one that has imported the command already: what it is given and what it
leaves behind are a process's, without the half second that an interpreter takes to start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from remem_pg.cli import main
from tests.support.places import new_directory

Done = subprocess.CompletedProcess[str]

_forks = multiprocessing.get_context("forkserver")
# What most commands import, some of it by way of typer; what cannot be imported is passed over.
# typer.rich_utils stays out: it reads the environment, which is another for each command.
IMPORTED = [
    "tests.client.cli_runner",
    "remem_pg.cli.app",
    "remem_pg.cli.output",
    "remem_pg.client",
    "remem_pg.context.scope",
    "remem_pg.embedding.hash",
    "remem_pg.embedding.resolve",
    "numpy",
    "psycopg_pool",
    "pydantic.type_adapter",
    "typer._adapters",
    "rich.columns",
    "rich.markdown",
    "rich.table",
    "rich.traceback",
]
_forks.set_forkserver_preload(IMPORTED)


class Cli:
    """``cli("recall", "...")`` runs the command on one database, hash embedding unless told."""

    def __init__(self, dsn: str | None, **environment: str) -> None:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("REMEM_") and name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
        }
        # What the developer's own downloads left is no part of a test.
        own = {"REMEM_EMBEDDING": "hash", "XDG_CACHE_HOME": "/nonexistent/cache"}
        self.environment = kept | own | environment
        self.before = ""
        """Python that the process runs before the command."""
        # Only an interpreter that starts looks at these.
        self.starts_anew = any(name.startswith("PYTHON") for name in environment)
        if dsn is not None:
            self.environment["REMEM_DSN"] = dsn

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Done:
        if self.starts_anew:
            return subprocess.run(
                self.command(*arguments),
                input=stdin,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        return self._forked(arguments, stdin, timeout)

    def command(self, *arguments: str) -> list[str]:
        """The command line that starts ``remem`` with this interpreter."""
        program = f"{self.before}\nfrom remem_pg.cli import main; main()"
        return [sys.executable, "-c", program, *arguments]

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The document of a command that has to succeed."""
        done = self(*arguments, "--json", stdin=stdin)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def _forked(self, arguments: Sequence[str], stdin: str, timeout: float) -> Done:
        command = ["remem", *arguments]
        with tempfile.TemporaryDirectory(prefix="remem-cli-") as directory:
            streams = [Path(directory, name) for name in ("stdin", "stdout", "stderr")]
            streams[0].write_text(stdin, "utf-8")
            process = _forks.Process(
                target=_remem, args=(command, self.environment, self.before, streams)
            )
            process.start()
            process.join(timeout)
            if process.exitcode is None:
                process.kill()
                process.join()
                raise subprocess.TimeoutExpired(command, timeout)
            out, err = (stream.read_text("utf-8") for stream in streams[1:])
            return Done(command, process.exitcode, out, err)


def _remem(
    command: list[str], environment: Mapping[str, str], before: str, streams: list[Path]
) -> NoReturn:
    """The command, in the forked process."""
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
        for number in range(3)
    )
    sys.argv = command
    exec(before, {})
    main()
    raise AssertionError("the command returned")


@contextmanager
def open_directory() -> Iterator[Path]:
    """A new directory that the embedded server's account may pass, with a path short enough for a
    socket; removed afterwards."""
    directory = new_directory("rd-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
