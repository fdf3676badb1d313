"""Export and import of a whole workspace: the file, its lines, and the flows around them.

The file is JSON lines, written and read a line at a time: a header, records, an end with counts.
``remem.export`` makes it and ``remem.import_staged`` takes it; this client unpacks vectors, knows
the lines, and refuses a file that was cut off.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from remem_pg import calls
from remem_pg.calls import Call, build
from remem_pg.errors import Conflict, InvalidArgument, NoAccess, RememError
from remem_pg.errors import UnknownSpace as NoSpace
from remem_pg.models import REFUSALS_KEPT
from remem_pg.operating.json_line import BATCH_BYTES, BATCH_LINES
from remem_pg.operating.transfer_file import Record, read_header, read_record
from remem_pg.steps import Copy, CopyOut, Flow, Run, Session, Together
from remem_pg.tenancy import calls as admin_calls
from remem_pg.writing import staging


@dataclass(slots=True)
class ImportReport:
    """What became of the records of an export.

    ``records``: by type, how many had which outcome. ``refused``: the first thousand that were
    refused, each with its line and error. ``vectors``: how many vectors of the file were taken,
    ``vectors_dropped``: how many were another model's.
    """

    header: dict[str, Any] = field(default_factory=dict)
    lines: int = 0
    records: dict[str, dict[str, int]] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    refused_count: int = 0
    vectors: int = 0
    vectors_dropped: int = 0

    def refuse(self, line: int, error: Mapping[str, Any]) -> None:
        """Counts a refused line and keeps it while there are few."""
        self.refused_count += 1
        if len(self.refused) < REFUSALS_KEPT:
            self.refused.append({"line": line, **error})

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Counts what the server said."""
        for row in rows:
            if row["outcome"] == "refused":
                self.refuse(row["item_no"], row["error"] or {})
            if row["type"] not in ("header", "end"):
                outcomes = self.records.setdefault(row["type"], {})
                outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How many records of each type were written, and whether what is forgotten is among them."""

    counts: dict[str, int]
    forgotten: bool
    vectors: bool


def export_call(workspace: str, vectors: bool, forgotten: bool | None) -> Call[Any]:
    """The call whose rows are the lines of the file."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", workspace),
        "vectors": ("boolean", bool(vectors)),
        "forgotten": ("boolean", forgotten),
    }
    return build("export", arguments, lambda reply: reply.rows, read=True)


def export(
    session: Session, write: Callable[[str], Any], vectors: bool, forgotten: bool | None
) -> Flow[ExportReport]:
    """Writes every line, without its end of line, as the server sends it."""
    ends: list[str] = []

    def sink(line: str) -> None:
        if len(ends) == 2:
            ends.pop()
        ends.append(line)
        write(line)

    yield Together(_copied(CopyOut(export_call(session.workspace, vectors, forgotten), sink)))
    header, end = json.loads(ends[0]), json.loads(ends[-1])
    return ExportReport(end["counts"], header["forgotten"], header["vectors"])


def _copied(step: CopyOut) -> Flow[None]:
    yield step


def import_records(
    session: Session,
    lines: Iterable[str | bytes],
    on_error: str,
    on_batch: Callable[[ImportReport], Any] | None,
) -> Flow[ImportReport]:
    """Takes an export in one transaction: all of it, or (``report``) all but what is refused."""
    if on_error not in ("abort", "report"):
        raise InvalidArgument(
            detail={"argument": "on_error", "value": on_error, "valid": ["abort", "report"]}
        )
    report = ImportReport()
    numbered = ((n, line) for n, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    report.header = read_header(*(first or (1, b"")))

    def whole() -> Flow[None]:
        usable = yield from _adopt(session, report.header)
        seen: Counter[str] = Counter()
        end: dict[str, Any] | None = None
        batch: list[Record] = []
        size = 0
        assert first is not None
        for number, line in _chained(first, numbered):
            report.lines = number
            try:
                record = read_record(number, line)
                if record.type == "end":
                    end = _read_end(record)
            except RememError as error:
                if on_error == "abort":
                    raise
                report.refuse(number, error.as_dict())
                continue
            if record.type != "end":
                seen[record.type] += 1
            if record.vector is not None:
                report.vectors, report.vectors_dropped = (
                    (report.vectors + 1, report.vectors_dropped)
                    if usable
                    else (report.vectors, report.vectors_dropped + 1)
                )
                record.vector = record.vector if usable else None
            batch.append(record)
            size += len(record.text)
            if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
                yield from _send(session, batch, on_error, report)
                batch, size = [], 0
                if on_batch is not None:
                    on_batch(report)
        if batch:
            yield from _send(session, batch, on_error, report)
        if not report.refused_count:
            _check_end(end, seen)

    yield Together(whole())
    session.decision = None
    return report


def _chained(
    first: tuple[int, str | bytes], rest: Iterator[tuple[int, str | bytes]]
) -> Iterator[tuple[int, str | bytes]]:
    yield first
    yield from rest


def _send(session: Session, batch: list[Record], on_error: str, report: ImportReport) -> Flow[None]:
    yield Run(staging.stage(session.workspace))
    rows = (staging.binary_row(each.number, each.text, each.vector) for each in batch)
    yield Copy(staging.COPY, staging.blocks(rows))
    try:
        answered = yield Run(import_staged(session.workspace, on_error))
    except RememError as error:
        if error.item_no is None:
            raise
        number = error.item_no
        detail = {key: value for key, value in error.detail.items() if key != "item"}
        raise type(error)(
            f"line {number}: {error.sentence()}", detail=detail | {"line": number}, hint=error.hint
        ) from error.__cause__
    report.add(answered)


def import_staged(workspace: str, on_error: str) -> Call[list[dict[str, Any]]]:
    """Takes the records in the staging table."""
    arguments = {"workspace": ("text", workspace), "on_error": ("text", on_error)}
    return build("import_staged", arguments, lambda reply: reply.rows)


def _read_end(record: Record) -> dict[str, Any]:
    """The last line of an export; refuses one without counts of records."""
    end: dict[str, Any] = json.loads(record.text)
    counts = end.get("counts")
    if not isinstance(counts, dict) or any(type(count) is not int for count in counts.values()):
        raise InvalidArgument(
            f"line {record.number}: the end of an export counts its records by their type",
            detail={"line": record.number, "argument": "counts"},
        )
    return end


def _check_end(end: Mapping[str, Any] | None, seen: Counter[str]) -> None:
    """Refuses a file that was cut off or put together from parts."""
    expected = Counter(end["counts"]) if end else Counter()
    seen = Counter(seen)
    del seen["header"]
    if end is None or +expected != +seen:
        raise InvalidArgument(
            "the export is not whole: its end is missing"
            if end is None
            else "the export is not whole: other records than its end counts",
            detail={"expected": dict(+expected), "got": dict(+seen)} if end else {},
            hint="export it again; nothing was stored",
        )


def _adopt(session: Session, header: Mapping[str, Any]) -> Flow[bool]:
    """Whether the file's vectors fit the workspace; an empty one is moved to their model."""
    space = header.get("space")
    if not header.get("vectors") or not isinstance(space, dict):
        return False
    fingerprint = str(space.get("fingerprint"))
    current = yield Run(admin_calls.current_space(session.workspace))
    if current.fingerprint == fingerprint:
        return True
    if (yield Run(calls.count(session.workspace, None))):
        return False
    try:
        yield Together(_activate(session, fingerprint))
    except NoSpace:
        try:
            yield Together(_register(session, space, fingerprint))
        except (NoAccess, Conflict, InvalidArgument):
            return False
    except (NoAccess, Conflict, InvalidArgument):
        return False
    return True


def _activate(session: Session, fingerprint: str) -> Flow[None]:
    yield Run(admin_calls.activate_space(fingerprint, session.workspace))


def _register(session: Session, space: Mapping[str, Any], fingerprint: str) -> Flow[None]:
    descriptor = {key: value for key, value in space.items() if key != "fingerprint"}
    yield Run(admin_calls.register_space(descriptor))
    yield from _activate(session, fingerprint)


__all__ = ["ExportReport", "ImportReport", "export", "import_records"]
