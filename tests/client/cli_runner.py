"""Runs ``remem`` as a process of its own, the way a person or a script does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.places import new_directory

Done = subprocess.CompletedProcess[str]


class Cli:
    """``cli("recall", "...")`` runs the command on one database, hash embedding unless told."""

    def __init__(self, dsn: str | None, **environment: str) -> None:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("REMEM_") and name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
        }
        self.environment = kept | {"REMEM_EMBEDDING": "hash"} | environment
        if dsn is not None:
            self.environment["REMEM_DSN"] = dsn

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Done:
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        """The command line that starts ``remem`` with this interpreter."""
        return [sys.executable, "-c", "from remem_pg.cli import main; main()", *arguments]

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The document of a command that has to succeed."""
        done = self(*arguments, "--json", stdin=stdin)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


@contextmanager
def open_directory() -> Iterator[Path]:
    """A new directory that the embedded server's account may pass, with a path short enough for a
    socket; removed afterwards."""
    directory = new_directory("rd-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
