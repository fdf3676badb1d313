"""The task script and what CI runs of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.generated import ROOT


def task(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(cwd / "run"), *arguments],
        cwd="/",
        env={**os.environ, **env},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def test_help_names_every_task() -> None:
    page = task("help")
    assert page.returncode == 0
    tasks = re.findall(r"^  ([a-z]+(?: \| [a-z]+)*)\)$", (ROOT / "run").read_text(), re.MULTILINE)
    names = [name for line in tasks for name in line.split(" | ") if name != "help"]
    assert {"demo", "test", "check", "docs"} <= set(names)
    for name in names:
        assert re.search(rf"^  {name}\b", page.stdout, re.MULTILINE), name


def test_an_unknown_task_is_refused_with_the_list() -> None:
    done = task("tets")
    assert done.returncode == 2
    assert "usage:" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script beside a package that installs nothing, so that only its own work counts."""
    shutil.copy(ROOT / "run", tmp_path / "run")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'nothing'\n")
    return tmp_path


def fake_pip(checkout: Path) -> Path:
    """A Python whose venv module makes an environment that only notes what it is asked."""
    program = checkout / "bin" / "python-fake"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
case "$1 $2" in
  "-c "*) exec {sys.executable} "$@" ;;
  "-m venv")
    for last; do :; done
    mkdir -p "$last/bin"
    cp "$0" "$last/bin/python"
    ;;
  "-m pip") echo "pip $*" >> "{checkout}/calls" ;;
  *) echo "python $*" >> "{checkout}/calls" ;;
esac
"""
    )
    program.chmod(0o755)
    return program


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text().splitlines()


def test_a_second_run_installs_nothing_and_an_edit_installs_again(checkout: Path) -> None:
    python = str(fake_pip(checkout))
    for _ in range(2):
        assert task("test", "-k", "x", cwd=checkout, PYTHON=python, REMEM_VENV="").returncode == 0
    installs = [call for call in calls(checkout) if "install" in call]
    assert len(installs) == 1
    assert "--editable .[minilm,embedded,test,dev]" in installs[0]
    assert calls(checkout)[-1] == "python -m pytest -n 2 -q -k x"
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("version = '1'\n")
    assert task("setup", cwd=checkout, PYTHON=python, REMEM_VENV="").returncode == 0
    assert len([call for call in calls(checkout) if "install" in call]) == 2


def test_the_environment_can_be_placed_elsewhere(checkout: Path) -> None:
    python = str(fake_pip(checkout))
    place = checkout / "elsewhere"
    assert task("setup", cwd=checkout, PYTHON=python, REMEM_VENV=str(place)).returncode == 0
    assert (place / ".remem-all").is_file()
    assert not (checkout / ".venv").exists()


def test_a_python_that_can_make_no_environment_is_told_what_to_install(checkout: Path) -> None:
    broken = checkout / "python-broken"
    broken.write_text('#!/bin/sh\ncase "$2" in *version_info*) exit 0;; esac\nexit 1\n')
    broken.chmod(0o755)
    tools = checkout / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "cksum", "cat", "cut", "rm", "mkdir", "env"):
        (tools / name).symlink_to(shutil.which(name) or name)
    done = task("demo", cwd=checkout, PYTHON=str(broken), PATH=str(tools), REMEM_VENV="")
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_ci_runs_the_line_that_the_readme_gives() -> None:
    readme = (ROOT / "README.md").read_text().splitlines()
    assert "./run demo" in readme
    assert "./run test" in readme
    assert readme.index("./run demo") < readme.index("./run test")
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("script", ["run", ".ci/run", "docker/entrypoint.sh"])
def test_scripts_may_be_executed_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    shell = "bash" if script.startswith(".ci") else "sh"
    assert subprocess.run([shell, "-n", str(ROOT / script)], check=False).returncode == 0


def test_the_makefile_lists_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target
