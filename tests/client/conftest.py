"""A client, and directories and processes for the tests that start servers of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remem_pg import Remem
from tests.support.places import new_directory

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that others may enter, as the server's account has to if root runs the tests."""
    path = new_directory("remem-e-")
    yield path
    for pid_file in path.rglob("postmaster.pid"):  # a test failed half-way
        with contextlib.suppress(ProcessLookupError, IndexError, FileNotFoundError):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
    shutil.rmtree(path)


@pytest.fixture
def data_dir(place: Path) -> Path:
    return place / "data"


@pytest.fixture
def spawn() -> Iterator[Callable[[str, Path], subprocess.Popen[str]]]:
    """Start a Python program on a data directory; its output and input are pipes."""
    children: list[subprocess.Popen[str]] = []

    def start(program: str, data_dir: Path) -> subprocess.Popen[str]:
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", program, str(data_dir)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def mem(db_dsn: str) -> Iterator[Remem]:
    """A client that embeds nothing, on the fresh database."""
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        yield client
