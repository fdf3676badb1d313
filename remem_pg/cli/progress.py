"""The progress bar of commands that read or write a file."""

from __future__ import annotations

from typing import Any

from remem_pg.cli.settings import Settings


class Progress:
    """A bar on standard error; silent with ``--json`` or when that is no terminal.

    ``total``: bytes, None when unknown. Called with the bytes since last time and the lines so far.
    """

    def __init__(self, settings: Settings, what: str, total: int | None) -> None:
        self._bar: Any = None
        if not settings.json and settings.err.is_terminal:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn(what),
                BarColumn(),
                TextColumn("{task.fields[lines]} lines"),
                TimeElapsedColumn(),
                console=settings.err,
                transient=True,
            )
            self._task = self._bar.add_task(what, total=total, lines=0)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, size: int, lines: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=size, lines=lines)
