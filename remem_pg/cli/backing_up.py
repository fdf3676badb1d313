"""``remem backup`` and ``remem restore``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from remem_pg.cli.connect import existing, target
from remem_pg.cli.output import clean, counted
from remem_pg.cli.settings import Settings, print_json


def backup(
    settings: Settings,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write; by default remem-TIME.dump, in this directory.",
        ),
    ] = None,
) -> int | None:
    """Back up the whole installation, every workspace, with pg_dump; counts stand beside it."""
    from remem_pg.operating import backup as backups

    where = existing(settings)
    assert where.dsn is not None
    archive = output or Path(f"remem-{datetime.now(UTC):%Y%m%d-%H%M%S}.dump")
    made = backups.backup(where.dsn, archive)
    if settings.json:
        print_json({"file": archive, "manifest": backups.manifest_path(archive), "rows": made.rows})
        return None
    size = archive.stat().st_size / 1e6
    settings.out.print(
        clean(
            f"{archive} ({size:.1f} MB) and {backups.manifest_path(archive).name}: "
            f"{counted(made.rows['memory'], 'memory', 'memories')} in "
            f"{counted(made.rows['workspace'], 'workspace', 'workspaces')}"
        ),
        soft_wrap=True,
    )
    settings.out.print(clean(f"Restore it with: remem restore {archive} --confirm"), soft_wrap=True)
    return None


def restore(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What remem backup wrote.")],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Replace what the database has.")
    ] = False,
) -> int | None:
    """Restore a backup in place of what is there, bring it up to date, and verify every count."""
    from remem_pg.operating import backup as backups

    backups.read_manifest(file)  # before an embedded server is made for nothing
    where = target(settings)
    assert where.dsn is not None
    done = backups.restore(where.dsn, file, confirm=confirm)
    if settings.json:
        print_json(done)
        return None
    rows = sum(done.rows.values())
    settings.out.print(
        f"Restored {counted(done.rows['memory'], 'memory', 'memories')}; "
        f"{counted(rows, 'row', 'rows')} in {len(done.rows)} tables, as many as in the backup.",
        soft_wrap=True,
    )
    if done.migrated:
        settings.out.print(f"Migrations: {', '.join(done.migrated)}")
    if done.dead_grants:
        settings.note(
            clean(
                f"Roles that are others in this server and have no access: "
                f"{', '.join(done.dead_grants)}. Grant it anew with remem.grant_access."
            )
        )
    return None
