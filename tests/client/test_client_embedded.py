"""Without a DSN: the embedded server of this user, installed and revived without being asked."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from remem_pg import AsyncRemem, Remem, embedded


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory of the test's own, short enough for a Unix socket in it."""
    parent = Path(tempfile.mkdtemp(prefix="remem-e"))
    parent.chmod(0o755)  # as root the server runs under another account, which must get there
    path = parent / "data"
    monkeypatch.setenv("REMEM_DATA_DIR", str(path))
    monkeypatch.delenv("REMEM_DSN", raising=False)
    yield path
    held = embedded._running.pop(path, None)
    if held is not None:
        held.stop()
    shutil.rmtree(parent, ignore_errors=True)


def kill_server(data_dir: Path) -> None:
    pid = embedded._running[data_dir].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


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
