"""What is shipped: the archives are complete, and a wheel works in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.generated import ROOT


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that has to succeed; the checkout is not on its path."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**env, "PYTHONSAFEPATH": "1", "NO_COLOR": "1", "COLUMNS": "100"},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source archive."""
    directory = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", directory, cwd=ROOT)
    (archive,) = directory.glob("remem_pg-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(directory)  # our own archive; Python before 3.11.4 knows no filter
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """The wheel, built from the source archive, so that both are shown to be complete."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=source)
    (built,) = (source / "dist").glob("remem_pg-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel in it.

    The dependencies are those of the running environment, reached by one line in a .pth file; its
    own .pth files, and with them an editable checkout, are not.
    """
    directory = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", directory, cwd=wheel.parent)
    python = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    run(*pip, "install", *options, wheel, cwd=wheel.parent)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", query, cwd=directory).strip())
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return directory / "bin"


def test_the_source_archive_holds_what_a_contributor_needs(source: Path) -> None:
    for name in ("README.md", "LICENSE", "Makefile", "run", "pyproject.toml", ".ci/run"):
        assert (source / name).is_file(), name
    for name in ("sql", "migrations", "tests", "evals", "scripts", "docs", "docker"):
        assert list((source / name).iterdir()), name
    assert not (source / ".venv").exists()


@pytest.mark.parametrize(("folder", "packaged"), [("sql", "_sql"), ("migrations", "_migrations")])
def test_the_wheel_carries_every_file_of_sql(wheel: Path, folder: str, packaged: str) -> None:
    wanted = {path.name: path.read_bytes() for path in (ROOT / folder).glob("*.sql")}
    prefix = f"remem_pg/{packaged}/"
    with zipfile.ZipFile(wheel) as archive:
        found = {
            name.removeprefix(prefix): archive.read(name)
            for name in archive.namelist()
            if name.startswith(prefix) and name.endswith(".sql")
        }
    assert wanted
    assert found == wanted


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "remem_pg/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"remem_pg"}


def test_the_command_of_an_installed_wheel_works(installed: Path, tmp_path: Path) -> None:
    page = run(installed / "remem", "--help", cwd=tmp_path)
    for command in ("demo", "init", "recall", "migrate"):
        assert command in page


def test_an_installed_wheel_finds_its_own_sql(installed: Path, tmp_path: Path) -> None:
    script = (
        "import remem_pg, remem_pg.install as i\n"
        "print(remem_pg.__file__)\n"
        "print(len(i.functions()), len(i.migrations()))\n"
        "print(i.render_sql('vectors').count('create or replace function'))"
    )
    where, files, functions = run(installed / "python", "-c", script, cwd=tmp_path).splitlines()
    assert where.startswith(str(installed.parent))
    counted = [len(list((ROOT / folder).glob("*.sql"))) for folder in ("sql", "migrations")]
    assert files.split() == [str(number) for number in counted]
    assert int(functions) > 20
