"""``remem import``: JSON lines into a workspace, in batches of bounded size."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import open_memory
from remem_pg.cli.lines import MAX_LINE, Line, Pushed, batches, read_lines
from remem_pg.cli.output import clean
from remem_pg.cli.progress import Progress
from remem_pg.cli.settings import Settings, print_json
from remem_pg.operating.json_line import BATCH_LINES

if TYPE_CHECKING:
    from remem_pg.client import Remem
    from remem_pg.errors import RememError
    from remem_pg.models import BulkReport, MemoryInput


class Origin(StrEnum):
    """Whose export a file is."""

    auto = "auto"
    remem = "remem"
    jsonl = "jsonl"
    mem0 = "mem0"
    langgraph = "langgraph"


class OnError(StrEnum):
    """What a bad line does to the import."""

    abort = "abort"
    report = "report"
    rollback = "rollback"


@dataclass
class Report:
    """What an import did so far. ``done_line`` is the last line that is safely stored."""

    outcomes: dict[str, int] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    refused_count: int = 0
    lines: int = 0
    done_line: int = 0
    seconds: float = 0.0

    def refuse(self, line: int, error: dict[str, Any]) -> None:
        """Note one refused line."""
        self.refused_count += 1
        from remem_pg.models import REFUSALS_KEPT

        if len(self.refused) < REFUSALS_KEPT:
            self.refused.append({"line": line, **error})


def import_(
    settings: Settings,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="What remem export wrote, or JSON lines: one object a line, keys as the "
            "arguments of remember; or with --from another system's export. - reads standard "
            "input.",
        ),
    ],
    origin: Annotated[
        Origin,
        typer.Option(
            "--from", help="Whose export it is; auto: remem's, or JSON lines of remember's keys."
        ),
    ] = Origin.auto,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="At a bad line: stop and say where to go on (abort), go on and report it (exit "
            "code 4), or store nothing at all (rollback, as a remem export always does)."
        ),
    ] = OnError.abort,
    from_line: Annotated[int, typer.Option(min=1, help="Begin at this line of the file.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: show the mapping, store nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --from: do not show the mapping first.")
    ] = False,
) -> int | None:
    """Import memories: remem's own export, JSON lines, or what mem0 or LangGraph exported.

    Lines with a ref may be imported again: what is stored already stays unchanged.
    """
    from remem_pg.cli import transferring

    with ExitStack() as stack:
        stream, total = open_input(file, stack)
        if origin in (Origin.auto, Origin.remem):
            first = stream.readline(MAX_LINE + 1)
            stream = cast("IO[bytes]", Pushed(first, stream))
            if origin is Origin.remem or transferring.is_export(first):
                return transferring.import_export(settings, stream, total, on_error.value)
            lines = read_lines(stream, from_line)
        else:
            if dry_run or not yes:
                if file == "-":
                    raise typer.BadParameter("standard input is read once: pass --yes with it")
                if not transferring.agreed(settings, origin.value, stream, dry_run=dry_run):
                    return None
                stream.seek(0)
            lines = transferring.foreign_lines(origin.value, stream, from_line)
        return _import_lines(settings, lines, total, on_error, from_line)


def _import_lines(
    settings: Settings, lines: Iterator[Line], total: int | None, on_error: OnError, first: int
) -> int:
    report = Report(done_line=first - 1)
    started = time.monotonic()
    memory = open_memory(settings, create=True)
    with Progress(settings, "importing", total) as advance:
        try:
            if on_error is OnError.rollback:
                _store_whole(memory, lines, report, advance)
            else:
                for batch in batches(lines):
                    _store(memory, batch, on_error, report)
                    advance(sum(line.size for line in batch), report.lines)
        except BaseException:
            if on_error is OnError.rollback:
                settings.note("Nothing was stored.")
            elif report.lines or report.done_line >= first:
                settings.note(
                    f"Lines up to {report.done_line} are stored. Go on with: "
                    f"--from-line {report.done_line + 1}"
                )
            raise
    report.seconds = round(time.monotonic() - started, 3)
    report.refused.sort(key=lambda one: one["line"])
    _print(settings, report)
    return conf.PARTIAL if report.refused_count else conf.OK


def open_input(file: str, stack: ExitStack) -> tuple[IO[bytes], int | None]:
    """The stream of a file or of standard input, and its size if it has one."""
    if file == "-":
        return sys.stdin.buffer, None
    path = Path(file)
    try:
        stream = stack.enter_context(path.open("rb"))
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from error
    return stream, path.stat().st_size if path.is_file() else None


def _store_whole(memory: Remem, lines: Iterator[Line], report: Report, advance: Progress) -> None:
    """All lines in one transaction; a bad one raises and leaves nothing."""
    from array import array

    from remem_pg.errors import RememError

    numbers = array("Q")
    read = 0

    def items() -> Iterator[MemoryInput]:
        nonlocal read
        for line in lines:
            if line.item is None:
                raise bad_line(line)
            numbers.append(line.number)
            read += line.size
            yield cast("MemoryInput", line.item)

    def done(so_far: BulkReport) -> None:
        nonlocal read
        advance(read, so_far.items)
        read = 0

    try:
        stored = memory.remember_stream(items(), batch_size=BATCH_LINES, on_batch=done)
    except RememError as error:
        if error.item_no is None or not 1 <= error.item_no <= len(numbers):
            raise
        raise _at_line(error, numbers[error.item_no - 1]) from error
    report.outcomes = stored.outcomes
    report.lines = stored.items


def bad_line(line: Line) -> RememError:
    """The error of a line that holds no item."""
    from remem_pg.errors import InvalidArgument

    return InvalidArgument(
        f"line {line.number}: {line.problem}",
        detail={"line": line.number},
        hint="mend the line, or pass --on-error report to go on without it",
    )


def _store(memory: Remem, batch: list[Line], on_error: OnError, report: Report) -> None:
    """Store one batch: wholly or not at all with ``abort``, item by item with ``report``."""
    from remem_pg.errors import RememError

    good: list[Line] = []
    for line in batch:
        if line.item is not None:
            good.append(line)
        elif on_error is OnError.abort:
            # The good lines before it are stored first, so that the resume line is the bad one.
            _store(memory, good, on_error, report)
            report.done_line = line.number - 1
            raise bad_line(line)
        else:
            report.refuse(line.number, {"code": "RM001", "message": line.problem})
    if good:
        mode: Literal["abort", "report"] = "report" if on_error is OnError.report else "abort"
        items = [cast("MemoryInput", line.item) for line in good]
        try:
            stored = list(memory.remember_many(items, on_error=mode))
        except RememError as error:
            if error.item_no is None or not 1 <= error.item_no <= len(good):
                raise
            raise _at_line(error, good[error.item_no - 1].number) from error
        for position, one in enumerate(stored):
            line = good[(one.item_no or position + 1) - 1]
            if one.outcome == "refused":
                refusal = one.exception()
                report.refuse(line.number, refusal.as_dict() if refusal else {})
            else:
                report.outcomes[one.outcome] = report.outcomes.get(one.outcome, 0) + 1
    if batch:
        report.lines += len(batch)
        report.done_line = batch[-1].number


def _at_line(error: RememError, number: int) -> RememError:
    """The same error with the line in front of its sentence and no item number of the batch."""
    detail = {key: value for key, value in error.detail.items() if key != "item"}
    return type(error)(
        f"line {number}: {error.sentence()}", detail=detail | {"line": number}, hint=error.hint
    )


def _print(settings: Settings, report: Report) -> None:
    if settings.json:
        print_json(
            {
                "workspace": settings.workspace,
                "lines": report.lines,
                "outcomes": report.outcomes,
                "refused_count": report.refused_count,
                "refused": report.refused,
                "seconds": report.seconds,
            }
        )
        return
    counts = ", ".join(f"{count} {name}" for name, count in sorted(report.outcomes.items()))
    settings.out.print(
        f"{report.lines} lines in {report.seconds:.1f} s: {counts or 'nothing stored'}"
        + (f", {report.refused_count} refused" if report.refused_count else "")
    )
    for one in report.refused:
        code = f"{one['code']} " if one.get("code") else ""
        settings.err.print(
            clean(f"line {one['line']}: {code}{one.get('message', 'refused')}"),
            style="red",
            soft_wrap=True,
        )
        if one.get("hint"):
            settings.err.print(clean(f"  Hint: {one['hint']}"), style="yellow", soft_wrap=True)
