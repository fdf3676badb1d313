"""Export and import of a whole workspace: the file, its lines, and the flows around them.

The file is JSON lines, written and read a line at a time: a header, records, an end with counts.
``remem.export`` makes it and ``remem.import_staged`` takes it; this client unpacks vectors, knows
the lines, and refuses a file that was cut off.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from remem_pg import admin_calls, calls, staging
from remem_pg.calls import Call, build
from remem_pg.errors import Conflict, InvalidArgument, NoAccess, RememError, TextRefused
from remem_pg.errors import UnknownSpace as NoSpace
from remem_pg.models import REFUSALS_KEPT
from remem_pg.steps import Copy, CopyOut, Flow, Run, Session, Together
from remem_pg.vector import Vector

FORMAT = 1
BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024

# An odd number of backslashes before it is its own; an even number makes it text.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


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


@dataclass(slots=True)
class Record:
    """A line of the file as it goes to the server."""

    number: int
    type: str
    text: bytes
    vector: bytes | None = None


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
            except RememError as error:
                if on_error == "abort":
                    raise
                report.refuse(number, error.as_dict())
                continue
            if record.type == "end":
                end = json.loads(record.text)
            else:
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


def read_header(number: int, line: str | bytes) -> dict[str, Any]:
    """The header of an export; refuses what is none, or is a later format's."""
    header = parse(number, line)
    if header.get("type") != "header" or "format" not in header:
        raise InvalidArgument(
            f"line {number}: not an export of remem, which begins with a header",
            detail={"line": number},
            hint="memories as plain JSON lines: remem import --from jsonl",
        )
    if header["format"] != FORMAT:
        raise InvalidArgument(
            f"this export has format {header['format']!r}, this client reads {FORMAT}",
            detail={"argument": "format", "got": header["format"], "expected": FORMAT},
            hint="pip install --upgrade remem-pg",
        )
    return header


def read_record(number: int, line: str | bytes) -> Record:
    """A line with its vector unpacked."""
    document = parse(number, line)
    packed = document.pop("embedding", None)
    try:
        text = json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _refused(number, "lone surrogate") from None
    if _NUL.search(text):
        raise _refused(number, "NUL")
    vector = None if packed is None else _unpacked(number, packed)
    return Record(number, str(document.get("type")), text, vector)


def _refused(number: int, problem: str) -> TextRefused:
    return TextRefused(f"line {number}: {problem}", detail={"line": number, "problem": problem})


def parse(number: int, line: str | bytes) -> dict[str, Any]:
    """The JSON object of a line; refuses anything else, naming the line."""
    try:
        text = (
            line.decode("utf-8-sig" if number == 1 else "utf-8")
            if isinstance(line, bytes)
            else line
        )
        document = json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start}"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:
        problem = f"not JSON: {error}"
    else:
        if isinstance(document, dict):
            return document
        problem = "not a JSON object"
    raise InvalidArgument(f"line {number}: {problem}", detail={"line": number})


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _unpacked(number: int, packed: Any) -> bytes:
    """The binary ``real[]`` of what ``halfvec_send`` of pgvector wrote."""
    try:
        raw = base64.b64decode(packed, validate=True)
        count, unused = struct.unpack_from(">HH", raw)
        if unused or len(raw) != 4 + 2 * count:
            raise ValueError(len(raw))
        return Vector(struct.unpack_from(f">{count}e", raw, 4)).as_binary()
    except (TypeError, ValueError, binascii.Error, struct.error):
        raise InvalidArgument(
            f"line {number}: the embedding is not as export writes it", detail={"line": number}
        ) from None


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


def is_export(first: bytes) -> bool:
    """Whether a file with this first line is an export of remem."""
    try:
        return parse(1, first).get("type") == "header"
    except InvalidArgument:
        return False


__all__ = ["ExportReport", "ImportReport", "export", "import_records", "is_export"]
