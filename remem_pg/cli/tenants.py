"""Workspaces, their languages, and who may do what in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import open_memory
from remem_pg.cli.output import clean, counted
from remem_pg.cli.reembedding import _stopping
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.client import Remem
    from remem_pg.tenancy.models import ReindexReport

Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database.")]
Everywhere = Annotated[bool, typer.Option("--all", help="In all workspaces, also later ones.")]


def workspaces(settings: Settings) -> int | None:
    """List the workspaces that the role may see."""
    found = open_memory(settings).workspaces()
    if settings.json:
        print_json(found)
        return None
    rows = [(w.workspace, w.language, w.space or "-", str(w.memories), w.text_index) for w in found]
    _print_table(settings, ("workspace", "language", "space", "memories", "text index"), rows)
    return None


def language(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")],
    to: Annotated[
        str, typer.Argument(metavar="LANGUAGE", help="A text search configuration: german, ...")
    ],
) -> int | None:
    """Set the language of a workspace, and analyse what is in it anew.

    Recall and writers go on meanwhile. An interrupted run goes on with remem reindex-text.
    """
    memory = open_memory(settings).workspace(name)
    changed = memory.set_language(to)
    if not settings.json:
        settings.out.print(clean(f"{name}: {'' if changed else 'already '}{to}"), soft_wrap=True)
    done = _reindex(settings, memory, None)
    if settings.json:
        print_json({"workspace": name, "language": to, "changed": changed, "reindex": done})
    return None if done.done else conf.INTERRUPTED


def reindex_text(
    settings: Settings,
    everywhere: Annotated[
        bool, typer.Option("--all", help="All workspaces in which the role may work.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=86400, help="Seconds for each workspace; the rest waits for a next run."
        ),
    ] = None,
) -> int | None:
    """Analyse memories anew after a change of language or of the text analysis.

    Recall and writers go on meanwhile; an interrupted run goes on with the next one.
    """
    memory = open_memory(settings)
    names = [memory.workspace_name]
    if everywhere:
        names = [w.workspace for w in memory.workspaces() if w.text_index != "current"]
    reports: dict[str, ReindexReport] = {}
    for name in names:
        reports[name] = _reindex(settings, memory.workspace(name), budget)
        if not reports[name].done and budget is None:
            break
    if settings.json:
        print_json(reports)
    elif not names:
        settings.out.print("every workspace is up to date")
    if all(report.done for report in reports.values()):
        return None
    return conf.INTERRUPTED if budget is None else conf.PARTIAL


def _reindex(settings: Settings, memory: Remem, budget: float | None) -> ReindexReport:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    bar = Progress(
        TextColumn("analysing"),
        BarColumn(),
        TaskProgressColumn(),
        console=settings.err,
        transient=True,
        disable=settings.json or not settings.err.is_terminal,
    )
    with _stopping() as stop, bar:
        task = bar.add_task("analysing", total=1.0)
        report = memory.reindex_text(
            budget,
            progress=lambda part, _: bar.update(task, completed=part),
            stop=stop.is_set,
        )
    if not settings.json:
        what = counted(report.reindexed, "memory", "memories")
        state = "up to date" if report.done else f"at {report.progress:.0%}"
        settings.out.print(
            clean(f"{memory.workspace_name}: {what} analysed anew, {state}"), soft_wrap=True
        )
    return report


def grant(
    settings: Settings,
    role: Role,
    level: Annotated[
        Literal["read", "write", "worker", "admin"], typer.Option(help="What it may do.")
    ] = "read",
    everywhere: Everywhere = False,
    max_source_class: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The most trusted source it may claim.")
    ] = None,
) -> int | None:
    """Let a database role into the workspace (or --all)."""
    memory = open_memory(settings, create=True)
    where = None if everywhere else memory.workspace_name
    memory.grant_access(role, where, level, max_source_class)
    document = {"role": role, "workspace": where, "level": level}
    if settings.json:
        print_json(document | {"max_source_class": max_source_class})
    else:
        place = "all workspaces" if where is None else where
        settings.out.print(clean(f"{role} may {_MAY[level]} {place}"), soft_wrap=True)
    return None


_MAY = {
    "read": "read in",
    "write": "read and write in",
    "worker": "read in and run the jobs of",
    "admin": "administer",
}


def revoke(settings: Settings, role: Role, everywhere: Everywhere = False) -> int | None:
    """Take a grant back: that on the workspace, or the one on --all of them."""
    memory = open_memory(settings)
    where = None if everywhere else memory.workspace_name
    there = memory.revoke_access(role, where)
    if settings.json:
        print_json({"role": role, "workspace": where, "revoked": there})
    else:
        place = "all workspaces" if where is None else where
        said = "no longer has its grant on" if there else "had no grant on"
        settings.out.print(clean(f"{role} {said} {place}"), soft_wrap=True)
    return None if there else conf.REFUSED


def grants(
    settings: Settings,
    role: Annotated[str | None, typer.Argument(metavar="ROLE", help="Only this role's.")] = None,
) -> int | None:
    """List who may do what, in every workspace."""
    found = open_memory(settings).grants(role)
    if settings.json:
        print_json(found)
        return None
    rows = [
        (
            g.role if g.holds else f"{g.role} (gone)",
            "all" if g.workspace is None else g.workspace,
            g.level,
            g.max_source_class or "-",
        )
        for g in found
    ]
    _print_table(settings, ("role", "workspace", "level", "claims at most"), rows)
    return None


def _print_table(settings: Settings, names: tuple[str, ...], rows: list[Any]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name == "memories" else "left")
    for row in rows:
        table.add_row(*map(clean, row))
    settings.out.print(table)
