"""``remem doctor`` and ``remem maintain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import existing, target
from remem_pg.cli.output import clean, counted
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.operating.models import CheckRow, MaintainRow

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def doctor(settings: Settings) -> int | None:
    """Look at client and database: what is wrong and what to do about it. Changes nothing.

    Ends with 0 when all is well, 4 with warnings, 1 with an error, 3 without a database.
    """
    from remem_pg.errors import ServerUnavailable
    from remem_pg.operating.doctor import examine

    try:
        where = target(settings, start=False)
        dsn, place = where.dsn, where.place
    except ServerUnavailable as error:
        dsn, place = None, error.sentence()
    report = examine(dsn, place, settings.workspace or "default", settings.embedding)
    if settings.json:
        print_json({"status": report.status, "reached": report.reached, "checks": report.rows})
    else:
        _print_checks(settings, report.rows)
    if not report.reached:
        return conf.UNREACHABLE
    return {"ok": conf.OK, "warning": conf.PARTIAL, "error": conf.REFUSED}[report.status]


def _print_checks(settings: Settings, rows: Sequence[CheckRow]) -> None:
    """A line a row, and below it the command, which no frame may break."""
    from rich.text import Text

    width = max(len(clean(row.check_name)) for row in rows)
    for row in rows:
        line = Text(f"{row.status:<8}", style=_STYLES.get(row.status, ""))
        line.append(f"{clean(row.check_name):<{width}}  ", style="bold")
        line.append(" ".join(clean(row.detail).split()), style="")
        settings.out.print(line, soft_wrap=True)
        if row.remedy:
            command = Text(" " * (width + 10) + "run: ", style="dim")
            settings.out.print(command.append(clean(row.remedy), style="cyan"), soft_wrap=True)
    warnings = sum(row.status == "warning" for row in rows)
    errors = sum(row.status == "error" for row in rows)
    settings.out.print(
        f"{len(rows)} checks: {counted(errors, 'error', 'errors')}, "
        f"{counted(warnings, 'warning', 'warnings')}"
    )


def maintain(
    settings: Settings,
    budget: Annotated[
        float, typer.Option("--budget", min=0.1, max=86400, help="Seconds that it may take.")
    ] = 30.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")
    ] = False,
) -> int | None:
    """Do the upkeep of the database: prune, sum up, recover, then VACUUM, ANALYZE and REINDEX.

    Ends with 4 when something is left.
    """
    import psycopg

    from remem_pg.errors import from_psycopg
    from remem_pg.operating import upkeep

    dsn = existing(settings).dsn or ""
    try:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
            rows = upkeep.maintain(conn, budget, dry_run=dry_run, heard=settings.note)
    except psycopg.Error as error:
        raise from_psycopg(error) or error from error
    if settings.json:
        print_json({"dry_run": dry_run, "tasks": rows})
    else:
        _print_tasks(settings, rows, dry_run)
    left = any(row.state in ("partial", "busy", "due", "failed") for row in rows)
    return conf.PARTIAL if left and not dry_run else None


def _print_tasks(settings: Settings, rows: Sequence[MaintainRow], dry_run: bool) -> None:
    for row in rows:
        said = clean(row.command or f"{row.rows} {row.detail}")
        settings.out.print(f"{row.state:<8}{row.task:<11} {said}", soft_wrap=True)
        if row.command and row.state != "done":
            settings.out.print(f"{'':<19} {clean(row.detail)}", style="dim", soft_wrap=True)
    if dry_run:
        settings.out.print("Nothing was changed.")
