"""A real server with plpython3u, Debian's own Python, and databases with a model inside."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from tests.server import DEBIAN_SERVER, Server, debian_server

Connection = psycopg.Connection[Any]
Remem = Callable[..., subprocess.CompletedProcess[str]]

PLACE = Path("/var/cache/remem-tests")
"""Where the server's account may read, whoever's private directory the checkout lies in."""


@pytest.fixture(scope="session")
def programs() -> Path:
    """The bin directory of an environment of Debian's Python with this checkout in it."""
    checkout = hashlib.sha256(str(DEBIAN_SERVER).encode()).hexdigest()[:12]
    return Path(debian_server("python", str(PLACE / checkout)))


@pytest.fixture(scope="session")
def remem(programs: Path) -> Remem:
    """`remem(dsn, "install-plpython", ...)`, by Debian's Python."""

    def run(dsn: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(programs / "remem"), *arguments, "--dsn", dsn],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def with_model(server: Server, remem: Remem) -> Iterator[str]:
    """The name of a database with the model in it, which new workspaces use; to be copied."""
    name = server.new_database()
    remem(server.superuser_dsn(name), "install-plpython", "--default-space")
    yield name
    server.drop_database(name)


@pytest.fixture
def database(server: Server, with_model: str) -> Iterator[str]:
    """A fresh copy: what `db`, `su` and `connect` connect to here."""
    name = server.new_database(template=with_model)
    yield name
    server.drop_database(name)


@pytest.fixture(scope="session")
def minilm() -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """The client's own model: texts to vectors of length 1."""
    from remem_pg.embedding.onnx import packaged_minilm

    model = packaged_minilm()
    assert model is not None, "the extra minilm is not installed"
    return model.embed
