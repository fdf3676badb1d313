"""Without a DSN: the embedded server of this user, installed and revived without being asked."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from remem_pg import AsyncRemem, Remem, embedded
from tests.support.embedded import runs
from tests.support.places import new_directory
from tests.support.waiting import until


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory of the test's own, short enough for a Unix socket in it."""
    parent = new_directory("remem-e-")
    path = parent / "data"
    monkeypatch.setenv("REMEM_DATA_DIR", str(path))
    monkeypatch.delenv("REMEM_DSN", raising=False)
    yield path
    held = embedded._running.pop(path, None)
    if held is not None:
        held.stop()
    shutil.rmtree(parent, ignore_errors=True)


def kill_server(data_dir: Path) -> None:
    """Ends the server without warning, and waits until its sessions have noticed.

    A write that meets its session in between fails: nobody can say whether it was committed.
    """
    pid = embedded._running[data_dir].pid
    assert pid is not None
    sessions = [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    os.kill(pid, signal.SIGKILL)
    until(
        lambda: not any(runs(session) for session in sessions),
        why="a session outlived its server",
    )


def test_the_embedded_server_is_installed_at_the_first_call_and_survives_a_crash(
    data_dir: Path,
) -> None:
    with Remem(workspace="acme", embedding=None) as client:
        assert not data_dir.exists()
        assert client.remember("We retry three times.").outcome == "created"
        kill_server(data_dir)
        assert client.remember("Ana prefers oat milk.").outcome == "created"
        kill_server(data_dir)
        assert client.recall("how often do we retry?")[0].body == "We retry three times."


async def test_so_it_is_for_the_async_client(data_dir: Path) -> None:
    async with AsyncRemem(workspace="acme", embedding=None) as client:
        assert (await client.remember("We retry three times.")).outcome == "created"
        kill_server(data_dir)
        assert await client.count() == 1
