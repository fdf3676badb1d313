"""What every command shares: the common options, the exit codes, the two consoles."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

OK = 0
REFUSED = 1
USAGE = 2
UNREACHABLE = 3
PARTIAL = 4
INTERRUPTED = 130

NARROWEST = 40
"""Columns a table is laid out for at least: in fewer rich leaves whole columns out, where a
narrower terminal only breaks the lines."""

EXIT_CODES: dict[int, str] = {
    OK: "done",
    REFUSED: "refused or not found: a typed error says why; doctor: an error",
    USAGE: "wrong usage",
    UNREACHABLE: "no server, or Remem is not installed in the database",
    PARTIAL: "partly done: some items were refused (import --on-error report), or something is "
    "left to do; doctor: warnings",
    INTERRUPTED: "interrupted",
}
EPILOG = "Exit codes: " + ". ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + "."

_PANEL = "Common options"
Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="CONNINFO",
        help="Postgres to use, as a URL or key=value words. Also from REMEM_DSN. "
        "Without one: an embedded Postgres of your own.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="NAME",
        help="Workspace to read and write. Also from REMEM_WORKSPACE; else [b]default[/b].",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the embedded Postgres keeps its data.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
Embedding = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        metavar="SPEC",
        help="auto, hash, neural, minilm, none, a model directory or the https address of an "
        "endpoint. Also from REMEM_EMBEDDING.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document on standard output, errors too.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
COMMON: dict[str, Any] = {
    "dsn": Dsn,
    "workspace": Workspace,
    "data_dir": DataDir,
    "embedding": Embedding,
    "json": Json,
}


@dataclass
class Settings:
    """The common options after merging: those of a command win over those before its name, which
    win over the environment."""

    dsn: str | None = None
    workspace: str | None = None
    data_dir: Path | None = None
    embedding: str | None = None
    json: bool = False
    resources: list[Any] = field(default_factory=list)

    def override(self, values: dict[str, Any]) -> None:
        """Take over the options that were given (neither None nor False)."""
        for name, value in values.items():
            if value is not None and value is not False:
                setattr(self, name, value)

    def resolve_environment(self) -> None:
        """Fill what no option named from REMEM_DSN, REMEM_WORKSPACE and REMEM_EMBEDDING.

        An empty variable counts as not set.
        """
        self.dsn = self.dsn or os.environ.get("REMEM_DSN") or None
        self.workspace = self.workspace or os.environ.get("REMEM_WORKSPACE") or "default"
        self.embedding = self.embedding or os.environ.get("REMEM_EMBEDDING") or None

    @cached_property
    def out(self) -> Console:
        """Console of standard output: plain when piped, no colours under NO_COLOR."""
        from remem_pg.cli.consoles import OutConsole

        console = OutConsole(highlight=False, markup=False, emoji=False)
        console.width = max(console.width, NARROWEST)
        return console

    @cached_property
    def err(self) -> Console:
        """Console of standard error, for progress, notes and errors."""
        from remem_pg.cli.consoles import ErrConsole

        return ErrConsole(stderr=True, highlight=False, markup=False, emoji=False)

    def note(self, text: str) -> None:
        """One dim line on standard error, silent with ``--json``."""
        if not self.json:
            self.err.print(text, style="dim", soft_wrap=True)

    def announce(self, text: str) -> None:
        """One line on standard error, also with ``--json``: what somebody may want to stop."""
        self.err.print(text, style="dim", soft_wrap=True)


def print_json(document: Any) -> None:
    """Write one JSON document and a newline to standard output, in its own encoding if possible."""
    import json

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    text = json.dumps(document, ensure_ascii=encoding != "utf8", indent=2, default=_plain)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    import dataclasses
    import datetime
    import uuid

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID | Path):
        return str(value)
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")
