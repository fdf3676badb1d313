"""``remem reembed``, ``remem worker``, ``remem spaces`` and ``remem drop-space``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import NONE, open_memory
from remem_pg.cli.output import clean, counted
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.spaces.models import Coverage, ReembedResult, SpaceStatus

Batch = Annotated[int, typer.Option("--batch", min=1, max=1000, help="Texts in one claim.")]


def reembed(
    settings: Settings,
    batch: Batch = 64,
    limit: Annotated[
        int | None, typer.Option(min=1, help="End after about so many texts; the rest waits.")
    ] = None,
) -> int | None:
    """Embed everything in the workspace with the model of --embedding, and switch to it.

    Recall goes on in the old space until the new one is complete. Several may run at once; an
    interrupted run goes on with the next one.
    """
    memory = open_memory(settings)
    with _stopping() as stop, _bar(settings, "embedding") as progress:
        result = memory.reembed(batch_size=batch, limit=limit, progress=progress, stop=stop.is_set)
    if settings.json:
        print_json(result)
    else:
        _print_result(settings, result)
    if result.stopped:
        return conf.INTERRUPTED
    if result.status == "failed":
        return conf.REFUSED
    coverage = result.coverage
    left = coverage is not None and (coverage.set_aside or coverage.cutover == "building")
    return conf.PARTIAL if left and limit is None else None


def _print_result(settings: Settings, result: ReembedResult) -> None:
    out, coverage = settings.out, result.coverage
    speed = f" in {result.seconds:.1f} s" if result.reembedded else ""
    out.print(clean(f"{result.status}: {result.reembedded} embedded{speed}"), soft_wrap=True)
    for error, count in sorted(result.errors.items()):
        settings.err.print(clean(f"  {count} x {error}"), style="yellow", soft_wrap=True)
    if coverage is None:
        out.print("the workspace has nothing to embed")
        return
    out.print(_line(coverage), soft_wrap=True)
    if result.activated:
        out.print(clean(f"switched to {coverage.space}; {len(result.dropped)} old space cleared"))
    elif coverage.cutover == "building":
        why = _why_not(coverage)
        settings.err.print(clean(f"not switched yet: {why}"), style="yellow", soft_wrap=True)
    if coverage.set_aside:
        settings.err.print(
            f"{coverage.set_aside} set aside: select * from remem.embedding_problems(workspace)",
            style="yellow",
            soft_wrap=True,
        )


def _why_not(coverage: Coverage) -> str:
    if coverage.set_aside > coverage.total // 100:
        return f"{coverage.set_aside} of {coverage.total} texts could not be embedded"
    if coverage.pending:
        return (
            f"{coverage.pending} pending, {coverage.claimed} of them with other workers, "
            f"{coverage.waiting} waiting for another try"
        )
    return f"its index is {coverage.index_state}"


def _line(coverage: Coverage) -> str:
    done = coverage.embedded + coverage.empty
    return clean(f"{coverage.space}: {done} of {coverage.total} covered, {coverage.state}")


def worker(
    settings: Settings,
    everything: Annotated[
        bool, typer.Option("--all", help="All workspaces in which the role may work.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is left to do now.")
    ] = False,
    poll: Annotated[
        float, typer.Option(min=0.1, max=86400, help="Seconds between two looks for work.")
    ] = 5.0,
    batch: Batch = 64,
    lease: Annotated[
        float,
        typer.Option(min=0.1, max=86400, help="Seconds until the claim of a dead worker is free."),
    ] = 900.0,
) -> int | None:
    """Embed what lacks its vector, again and again, until SIGINT or SIGTERM.

    It fills the space of its own model: the current one of a workspace, or the one that
    remem reembed or remem.start_reembed has begun. As many may run as are useful.
    """
    from remem_pg.spaces.worker import Worker

    memory = open_memory(settings)

    def heard(name: str, result: ReembedResult) -> None:
        if settings.json:
            return
        extra = ", switched" if result.activated else ""
        failed = sum(result.errors.values())
        extra += f", {failed} not" if failed else ""
        settings.note(clean(f"{name}: {result.reembedded} embedded{extra}"))

    work = Worker(
        memory, everything=everything, poll=poll, batch_size=batch, lease=lease, heard=heard
    )
    with _stopping(work.stop):
        settings.note(f"worker {os.getpid()} started; stop it with SIGINT or SIGTERM")
        report = work.run(once=once)
    if settings.json:
        print_json(report)
    else:
        turns = counted(report.turns, "turn", "turns")
        settings.out.print(f"{report.reembedded} embedded in {turns}", soft_wrap=True)
    return None


def spaces(settings: Settings) -> int | None:
    """List the embedding spaces: state, rows, coverage, index size."""
    from rich.table import Table

    found = open_memory(settings).spaces()
    if settings.json:
        print_json(found)
        return None
    table = Table(box=None, pad_edge=False)
    for name in ("space", "dims", "state", "here", "vectors", "coverage", "index", "size"):
        right = name in ("dims", "vectors", "coverage", "size")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for space in found:
        table.add_row(*_row(space))
    settings.out.print(table)
    return None


def drop_space(
    settings: Settings,
    space: Annotated[str, typer.Argument(metavar="SPACE", help="Its name, of remem spaces.")],
    here: Annotated[
        bool, typer.Option("--here", help="Only what this workspace left in it.")
    ] = False,
) -> int | None:
    """Drop a space that no workspace uses, with its vectors; they can be made again.

    Ends with 4 when writers held it for more than a second.
    """
    memory = open_memory(settings, spec=NONE)
    outcome = memory.drop_space(space, memory.workspace_name if here else None)
    if settings.json:
        print_json({"space": space, "outcome": outcome})
    else:
        said = "in use by writers just now; try again" if outcome == "busy" else outcome
        settings.out.print(clean(f"{space}: {said}"), soft_wrap=True)
    return conf.PARTIAL if outcome == "busy" else None


def _row(space: SpaceStatus) -> list[str]:
    covered = "-" if space.coverage is None else f"{space.coverage:.1%}"
    if space.workspace_state is None:
        covered = "-"
    return [
        clean(space.name),
        str(space.dimensions),
        space.state,
        space.workspace_state or "-",
        str(space.vectors),
        covered,
        space.index_state,
        "-" if space.index_bytes is None else _size(space.index_bytes),
    ]


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


@contextmanager
def _stopping(also: Any = None) -> Iterator[threading.Event]:
    """Within it SIGINT and SIGTERM set the event instead of ending the process."""
    stop = threading.Event()

    def handle(signum: int, frame: Any) -> None:
        stop.set()
        if also is not None:
            also()

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {name: signal.signal(name, handle) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def _bar(settings: Settings, title: str) -> Iterator[Any]:
    """A progress callback that draws a bar on standard error; None with ``--json``."""
    if settings.json:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    quiet = not settings.err.is_terminal
    with Progress(*columns, console=settings.err, transient=True, disable=quiet) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
