"""The statements and commands of docs/languages.md."""

from __future__ import annotations

import re
import shlex
from typing import Any

import psycopg

from scripts.generated import ROOT
from tests.client.cli_runner import Cli

Connection = psycopg.Connection[Any]
PAGE = (ROOT / "docs" / "languages.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in found for line in block.splitlines()]
    return [re.split(r"\s+(?:--|#) ", line)[0].strip() for line in lines if line.strip()]


def test_the_statements_run_and_inflected_words_meet(db: Connection) -> None:
    for statement in blocks("sql"):
        db.execute(statement.encode())
    db.execute("select remem.remember('acme', 'Alle Rechnungen sind bezahlt.')")
    rows = db.execute(
        """select body from remem.recall('acme', 'Rechnung', options => '{"mode": "lexical"}')"""
    ).fetchall()
    assert rows == [("Alle Rechnungen sind bezahlt.",)]


def test_the_commands_run(db_dsn: str) -> None:
    cli = Cli(db_dsn)
    commands = blocks("sh")
    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "remem"
        done = cli(*arguments)
        assert done.returncode == 0, done.stderr
