"""``remem export``, the import of what it wrote, and of other systems' exports."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import open_memory
from remem_pg.cli.output import clean, shorten
from remem_pg.cli.progress import Progress
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.cli.lines import Line
    from remem_pg.importers import Survey
    from remem_pg.operating.transfer import ImportReport


def export(
    settings: Settings,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Where to write; - is standard output.")
    ],
    vectors: Annotated[
        bool, typer.Option("--vectors", help="The vectors of the current space too.")
    ] = False,
    forgotten: Annotated[
        bool | None,
        typer.Option(
            help="What is forgotten too; by default where you may write.", show_default=False
        ),
    ] = None,
) -> int | None:
    """Export the workspace as JSON lines: memories with their history, links, topics, settings."""
    if file == "-" and settings.json:
        raise typer.BadParameter("with --json the report is standard output: name a file")
    started = time.monotonic()
    memory = open_memory(settings)
    lines = 0
    target = None if file == "-" else Path(file)
    # The file appears whole or not at all; what a failed export leaves has another name.
    partial = target.with_name(target.name + ".partial") if target else None
    with Progress(settings, "exporting", None) as advance:

        def write(line: str) -> None:
            nonlocal lines
            stream.write(line.encode() + b"\n")
            lines += 1
            if lines % 500 == 0:
                advance(0, lines)

        if partial is None or target is None:
            stream: IO[bytes] = sys.stdout.buffer
            report = memory.export(write, vectors=vectors, forgotten=forgotten)
            stream.flush()
        else:
            try:
                with _create(partial) as stream:
                    report = memory.export(write, vectors=vectors, forgotten=forgotten)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            partial.replace(target)
    seconds = round(time.monotonic() - started, 3)
    document = {
        "workspace": settings.workspace,
        "file": file,
        "lines": lines,
        "counts": report.counts,
        "vectors": report.vectors,
        "forgotten": report.forgotten,
        "seconds": seconds,
    }
    if settings.json:
        print_json(document)
        return None
    counts = ", ".join(f"{n} {name}" for name, n in sorted(report.counts.items()) if n)
    settings.err.print(
        clean(f"{lines} lines in {seconds:.1f} s: {counts or 'nothing'}"), soft_wrap=True
    )
    if not report.forgotten:
        settings.note("What is forgotten is not in it.")
    return None


def _create(path: Path) -> IO[bytes]:
    try:
        # Memories are nobody else's business, and a file or link that somebody put there under this
        # name keeps its own permissions and place.
        path.unlink(missing_ok=True)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="FILE") from error


def is_export(first: bytes) -> bool:
    """Whether a file that begins with this line was written by ``remem export``."""
    from remem_pg.operating.transfer_file import is_export as found

    return found(first)


def import_export(settings: Settings, stream: IO[bytes], total: int | None, on_error: str) -> int:
    """Takes what ``remem export`` wrote: all of it, or with ``report`` what is not refused."""
    memory = open_memory(settings, create=True)
    started = time.monotonic()
    with Progress(settings, "importing", total) as advance:
        read = 0

        def lines() -> Iterator[bytes]:
            nonlocal read
            while line := stream.readline():
                read += len(line)
                yield line

        def done(report: ImportReport) -> None:
            nonlocal read
            advance(read, report.lines)
            read = 0

        report = memory.import_records(
            lines(), on_error="report" if on_error == "report" else "abort", on_batch=done
        )
    seconds = round(time.monotonic() - started, 3)
    if settings.json:
        print_json(
            {
                "workspace": settings.workspace,
                "from": report.header.get("workspace"),
                "lines": report.lines,
                "records": report.records,
                "vectors": report.vectors,
                "vectors_dropped": report.vectors_dropped,
                "refused_count": report.refused_count,
                "refused": report.refused,
                "seconds": seconds,
            }
        )
    else:
        _print_import(settings, report, seconds)
    return conf.PARTIAL if report.refused_count else conf.OK


def _print_import(settings: Settings, report: ImportReport, seconds: float) -> None:
    settings.out.print(f"{report.lines} lines in {seconds:.1f} s")
    for name, outcomes in report.records.items():
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        settings.out.print(clean(f"  {name}: {said}"), soft_wrap=True)
    memories = report.records.get("memory", {})
    ended = sum(memories.get(each, 0) for each in ("forgotten", "superseded", "purged"))
    if ended:
        settings.note(f"{ended} were forgotten, superseded or purged here and stay so.")
    if report.vectors_dropped:
        settings.note(
            f"{report.vectors_dropped} vectors are of another model than the workspace's and were "
            "left out: remem reembed makes new ones."
        )
    for one in report.refused:
        code = f"{one['code']} " if one.get("code") else ""
        line = f"line {one['line']}: {code}{one.get('message', 'refused')}"
        settings.err.print(clean(line), style="red", soft_wrap=True)
        if one.get("hint"):
            settings.err.print(clean(f"  Hint: {one['hint']}"), style="yellow", soft_wrap=True)


def foreign_lines(name: str, stream: IO[bytes], first: int) -> Iterator[Line]:
    """The records of another system's export as lines of an import."""
    from remem_pg.cli.lines import Line
    from remem_pg.errors import InvalidArgument
    from remem_pg.importers import records, sources

    for number, item in records(sources()[name], stream):
        if number < first:
            continue
        if isinstance(item, InvalidArgument):
            yield Line(number, 0, problem=item.sentence())
        else:
            yield Line(number, len(item["body"]), item=item)


def agreed(settings: Settings, name: str, stream: IO[bytes], *, dry_run: bool) -> bool:
    """Shows what would become of the fields; whether to go on. A dry run looks at every record."""
    from remem_pg.importers import sources, survey
    from remem_pg.importers.survey import LOOKED_AT

    found = survey(sources()[name], stream, None if dry_run else LOOKED_AT)
    if settings.json:
        print_json({"dry_run": True, "survey": found})
        return False
    _print_survey(settings, found)
    if dry_run:
        return False
    if not sys.stdin.isatty():
        settings.note("Nothing was stored: --yes imports them.")
        return False
    return typer.confirm("Import them like this?", default=False)


def _print_survey(settings: Settings, found: Survey) -> None:
    from rich import box
    from rich.table import Table

    rows = Table(
        "field in the file", "becomes", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for before, after in found.mapping.items():
        rows.add_row(before, after)
    settings.out.print(rows)
    seen = Table(
        "field", "records", "for example", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for name, (count, example) in found.fields.items():
        seen.add_row(name, str(count), shorten(clean(_shown(example)), 60))
    settings.out.print(seen)
    more = "" if found.complete else " (the first of more)"
    refused = f", {found.refused} refused" if found.refused else ""
    settings.out.print(f"{found.records} records{more}{refused}")
    if found.metadata:
        names = ", ".join(f"{name} ({count})" for name, count in found.metadata.items())
        settings.out.print(clean(f"In metadata: {names}"), soft_wrap=True)
    for problem in found.problems:
        settings.err.print(clean(problem), style="red", soft_wrap=True)
    if found.refused > len(found.problems):
        settings.note(f"and {found.refused - len(found.problems)} more")


def _shown(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
