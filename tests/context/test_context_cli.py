"""``remem plan`` and ``remem context``: for a person, for a pipe, for a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.cli_runner import Cli


@pytest.fixture
def cli(filled: str) -> Cli:
    return Cli(filled, COLUMNS="160", REMEM_WORKSPACE="acme")


@pytest.mark.covers("RP22")
def test_plan_shows_the_decision(cli: Cli) -> None:
    done = cli("plan", "what is our retry policy?")
    assert done.returncode == 0, done.stderr
    for line in ("recall", "stage", "topic", "ask", "catalog"):
        assert any(row.strip().startswith(line) for row in done.stdout.splitlines()), line
    assert "Retry policy" in done.stdout
    assert "postgres, at most 8: Retry policy: exact title phrase 0.960" in done.stdout
    verbose = cli("plan", "what is our retry policy?", "--verbose").stdout
    assert "recognitionStage" in verbose
    assert "memory_catalog" in verbose


@pytest.mark.covers("RP22")
def test_plan_as_json_has_the_documented_names(cli: Cli) -> None:
    document = cli.json("plan", "what is our retry policy?")
    assert document["shouldRetrieve"] is True
    assert document["topics"] == ["Retry policy"]
    assert document["requests"][0]["providerId"] == "postgres"
    assert document["diagnostics"] == []
    assert cli.json("plan", "a pasta recipe")["shouldRetrieve"] is False


@pytest.mark.covers("RP24")
def test_context_prints_what_goes_before_a_model_call(cli: Cli) -> None:
    done = cli("context", "-", stdin="what is our retry policy for charges?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<memory-")
    assert "We retry a failed charge three times, then page.\n" in done.stdout
    assert done.stderr == ""
    none = cli("context", "a pasta recipe", "--option", "catalog_budget=0")
    assert (none.returncode, none.stdout) == (0, "")
    assert "Nothing to say." in none.stderr


@pytest.mark.covers("RP46")
def test_context_explains_itself_and_takes_settings(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "food.md").write_text("# Office lunches\nWe eat at noon.\n")
    done = cli("context", "the office lunches", "--notes", f"notes={tmp_path}", "-v")
    assert "We eat at noon." in done.stdout
    for words in ("1 found, 0 refused, 1 different, 1 shown", "rank by signal", "totalDurationMs"):
        assert words in done.stdout
    options = ("--option", "recall_budget=200", "--option", "catalog_budget=0")
    document = cli.json("context", "our retry policy for charges", *options)
    assert len(document["text"].encode()) <= 200
    assert document["trace"]["catalogTokens"] == 0


@pytest.mark.covers("RP52")
def test_context_is_told_what_is_worked_on(cli: Cli) -> None:
    question = ("context", "what is the Phoenix budget?")
    assert "million" not in cli(*question).stdout
    assert "million" in cli(*question, "--project", "phoenix").stdout


def test_a_provider_that_is_missing_is_named_beside_the_answer(cli: Cli) -> None:
    done = cli("context", "when are the office lunches?")
    assert done.returncode == 0
    assert "provider notes failed: unavailable" in done.stderr


def test_wrong_settings_are_refused(cli: Cli) -> None:
    assert cli("context", "x", "--option", "budget=1").returncode == 1
    assert cli("context", "x", "--notes", "nowhere").returncode == 2


def test_work_that_is_late_does_not_abort_the_process() -> None:
    code = """
import threading, time
from remem_pg.database import settle
from remem_pg.cli import app
late = threading.Thread(target=time.sleep, args=(60,), name=settle.THREADS[0], daemon=True)
late.start()
import atexit; atexit.register(print, "not reached")
print("said")
app.leave_the_late_behind(4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert "not reached" not in done.stdout
