"""A migration that has landed cannot change unnoticed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.frozen import freeze, problems, read_frozen
from scripts.generated import ROOT


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    (tmp_path / "0001_core.sql").write_text("create table a (n int);\n")
    (tmp_path / "0002_more.sql").write_text("create table b (n int);\n")
    return tmp_path


def test_a_frozen_migration_that_is_unchanged_passes(migrations: Path) -> None:
    assert freeze(migrations) == ["0001_core.sql", "0002_more.sql"]
    assert problems(migrations) == []
    assert freeze(migrations) == []


def test_an_edited_frozen_migration_is_named(migrations: Path) -> None:
    freeze(migrations)
    (migrations / "0001_core.sql").write_text("create table a (n bigint);\n")
    assert problems(migrations) == [
        "0001_core.sql has landed and was changed; write a new migration instead"
    ]


def test_freezing_again_does_not_cover_up_an_edit(migrations: Path) -> None:
    freeze(migrations)
    (migrations / "0001_core.sql").write_text("create table a (n bigint);\n")
    freeze(migrations)
    assert len(problems(migrations)) == 1


def test_a_removed_frozen_migration_is_named(migrations: Path) -> None:
    freeze(migrations)
    (migrations / "0002_more.sql").unlink()
    assert problems(migrations) == ["0002_more.sql has landed and is gone"]


def test_a_new_migration_is_free_until_it_is_frozen(migrations: Path) -> None:
    freeze(migrations)
    (migrations / "0003_new.sql").write_text("select 1;\n")
    assert problems(migrations) == []
    assert freeze(migrations) == ["0003_new.sql"]
    assert list(read_frozen(migrations)) == ["0001_core.sql", "0002_more.sql", "0003_new.sql"]


@pytest.mark.parametrize("name", ["0004_gap.sql", "0002_twice.sql", "3_short.sql", "0003-x.sql"])
def test_a_number_twice_a_gap_and_another_name_are_refused(migrations: Path, name: str) -> None:
    (migrations / name).write_text("select 1;\n")
    assert len(problems(migrations)) >= 1


@pytest.mark.parametrize("change", [False, True])
def test_sha256sum_reads_the_listing_too(migrations: Path, change: bool) -> None:
    freeze(migrations)
    if change:
        (migrations / "0001_core.sql").write_text("changed\n")
    tool = shutil.which("sha256sum") or shutil.which("shasum")
    assert tool, "neither sha256sum nor shasum is on PATH"
    algorithm = [] if tool.endswith("sha256sum") else ["--algorithm", "256"]
    done = subprocess.run([tool, *algorithm, "--check", "FROZEN"], cwd=migrations, check=False)
    assert (done.returncode != 0) is change


def test_the_checkout_keeps_what_has_landed() -> None:
    assert problems(ROOT / "migrations") == []
