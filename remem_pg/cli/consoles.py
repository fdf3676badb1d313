"""The two consoles, whose reader may go away."""

from __future__ import annotations

import sys

from rich.console import Console

from remem_pg.cli.streams import silence


class OutConsole(Console):
    """Console of standard output; without a reader the command ends, quietly."""

    def on_broken_pipe(self) -> None:
        """Raises what rich would turn into exit code 1."""
        raise BrokenPipeError


class ErrConsole(Console):
    """Console of standard error; without a reader the command goes on."""

    def on_broken_pipe(self) -> None:
        """Says nothing more."""
        self.quiet = True
        silence(sys.stderr)
