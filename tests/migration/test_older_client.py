"""The client of the version before works on this version's database: programs are not upgraded in
the moment in which the database is."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from remem_pg import Remem, install
from scripts.generated import ROOT
from tests.support import older_client

LANDED = Path(__file__).parent / "landed"
(CLIENT,) = LANDED.glob("client-*.tar.gz")
VERSION = CLIENT.name.removeprefix("client-").removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the older package."""
    directory = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(CLIENT.read_bytes()))) as archive:
        archive.extractall(directory, filter="data")
    # It came with the migrations of its time, which have not changed since.
    script = gzip.decompress((LANDED / f"{VERSION}.sql.gz").read_bytes()).decode()
    (directory / "migrations").mkdir()
    for name in re.findall(r"schema_migration .* values \(\d+, '(\w+)'", script):
        shutil.copy(ROOT / "migrations" / f"{name}.sql", directory / "migrations")
    return directory


@pytest.fixture(params=["fresh", "upgraded"])
def target(request: pytest.FixtureRequest, db_dsn: str, bare_database: str) -> Iterator[str]:
    """A database of this version: new, or one that the older version had installed."""
    if request.param == "upgraded":
        with psycopg.connect(bare_database, autocommit=True) as conn:
            conn.execute(gzip.decompress((LANDED / f"{VERSION}.sql.gz").read_bytes()))
            assert install.migrate(conn).previous_version == VERSION
        yield bare_database
    else:
        yield db_dsn


def run(older: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(older)},
        cwd=older,
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_kept_client_is_of_the_last_landed_version() -> None:
    kept = sorted(path.name.removesuffix(".sql.gz") for path in LANDED.glob("*.sql.gz"))
    assert kept[-1] == VERSION
    assert install.VERSION > VERSION


def test_everything_the_older_client_does_works(older: Path, target: str) -> None:
    done = run(older, older_client.__file__, target, VERSION)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"version": VERSION}
    with Remem(target, workspace="older", embedding="hash") as mem:
        assert mem.recall("how often do we retry?")[0].body == "We retry five times, then page."
        assert mem.count() == 3


def test_the_older_client_reads_what_this_one_changed(older: Path, target: str) -> None:
    with Remem(target, workspace="w", embedding="hash") as mem:
        mem.remember("The office is in Bern.", ref="office")
        mem.correct("The office is in Basel.", ref="office")
        mem.remember("The cat is called Turing.", ref="cat")
        mem.forget(ref="cat")
    program = (
        "import json, sys; from remem_pg import Remem\n"
        "with Remem(sys.argv[1], workspace='w', embedding='hash') as mem:\n"
        "    print(json.dumps([[h.body for h in mem.recall('where is the office?')], mem.count(),\n"
        "        [h.body for h in mem.recall('what is the cat called?')]]))\n"
    )
    done = run(older, "-c", program, target)
    assert done.returncode == 0, done.stderr
    first, count, second = json.loads(done.stdout)
    assert (first, count) == (["The office is in Basel."], 1)
    assert set(second) <= set(first)


def test_the_older_command_line_works(older: Path, db_dsn: str) -> None:
    command = ["-c", "from remem_pg.cli import main; main()", "--dsn", db_dsn, "-w", "cli"]
    said = run(older, *command, "remember", "We page after five tries.", "--ref", "page")
    assert said.returncode == 0, said.stderr
    found = run(older, *command, "recall", "when do we page?", "--json")
    assert found.returncode == 0, found.stderr
    assert "We page after five tries." in found.stdout


def test_the_older_installer_refuses_to_take_the_database_back(older: Path, target: str) -> None:
    program = "import sys; from remem_pg import install; install.migrate(sys.argv[1])"
    done = run(older, "-c", program, target)
    assert done.returncode != 0
    assert "DatabaseNewer" in done.stderr or "RM901" in done.stderr
