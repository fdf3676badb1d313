"""The example under docs/node, installed and run as a reader would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

EXAMPLE = Path(__file__).parents[2] / "docs" / "node"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its one dependency."""
    folder = tmp_path_factory.mktemp("node") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--no-update-notifier"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


def run(folder: Path, dsn: str) -> dict[str, Any]:
    """Runs the example against a database, also over a Unix socket, and reads its JSON."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE",
             "password": "PGPASSWORD"}  # fmt: skip
    found = conninfo_to_dict(dsn)
    env = {names[key]: str(value) for key, value in found.items() if key in names}
    done = subprocess.run(
        ["node", "recall.mjs"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_node_example_remembers_recalls_and_reads_errors(installed: Path, db_dsn: str) -> None:
    first, second = run(installed, db_dsn), run(installed, db_dsn)
    assert first["remembered"]["outcome"] == "created"
    assert second["remembered"] == {**first["remembered"], "outcome": "unchanged"}
    assert [(i["item_no"], i["outcome"], i["code"]) for i in first["items"]] == [
        (1, "created", None),
        (2, "created", None),
        (3, "refused", "RM001"),
    ]
    assert first["hits"][0]["ref"] == "retries-1"
    assert first["hits"][0]["relevance"] > 0
    assert first["degraded"] == []
    assert first["refused"]["code"] == "RM001"
    assert first["refused"]["detail"]["argument"] == "k"
    assert first["refused"]["hint"]
