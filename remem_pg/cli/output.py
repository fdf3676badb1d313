"""How hits and memories look in a terminal of eighty columns, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# Escape sequences and direction overrides inside a memory must not drive the reader's terminal.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# What a degraded state means for the answer, and what to do about it.
DEGRADED: dict[str, str] = {
    "no_embedding": "no query vector, so only words were compared. Install remem-pg[minilm] or "
    "name a model with --embedding.",
    "space_mismatch": "this client's model is not the one the workspace was written with, so the "
    "question was compared by words, and by vectors only where the database makes them itself. "
    "Use the workspace's model (remem version shows it) with --embedding, or move the workspace "
    "with remem reembed.",
    "embed_failed": "the model in the database failed, so only words were compared. "
    "select remem.embed('x') says how.",
    "zero_vector": "the question gives an empty vector, so only words were compared. "
    "Ask with more telling words.",
    "no_lexemes": "the question has no searchable word, so only vectors were compared. "
    "Add a telling word.",
    "stale_rows": "some memories have no vector in the current space and were found by words "
    "only. remem worker --once gives them one.",
    "analyser_mix": "some memories were indexed under other text rules, so their word scores are "
    "less exact. Index them anew with remem reindex-text.",
    "rerank_failed": "the reranker failed or took too long, so the hits stand as they were found. "
    "remem explain says what went wrong.",
    "expansion_failed": "the texts that should widen the question could not be had, so the "
    "question was asked alone. remem explain says what went wrong.",
    "hook_failed": "a function of yours around the routing failed and was left out. "
    "remem explain says what went wrong.",
    "arm_failed": "one way of searching failed and the others answered. remem explain says why.",
    "arm_pending": "one way of searching had no time left and the others answered. Give the "
    "question a longer deadline_ms, or none.",
    "graph_failed": "links between memories could not be followed, so what hits lead to is "
    "missing. remem explain says why.",
    "cache_failed": "kept answers could not be read or written, so this one was computed. "
    "remem doctor may say why.",
    "log_failed": "the answer is whole, but its row in the log could not be written. "
    "remem doctor may say why.",
    "out_of_scope": "the server sent memories of another owner, which were taken out. "
    "remem migrate brings a database of an older version up to date.",
    "unknown_workspace": "nothing was ever stored in this workspace. Check -w, or store the first "
    "memory with remem remember.",
}


def clean(text: str) -> str:
    """``text`` without control characters other than newline and tab (shown as U+FFFD)."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", "\n"))


def shorten(text: str, limit: int) -> str:
    """One line of at most ``limit`` characters, cut at a space where one is near."""
    line = " ".join(clean(text).split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > limit * 0.7 else cut).rstrip(" ,;:.") + "…"


def counted(count: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{count} {one if count == 1 else many}"


def number(value: float | None, digits: int = 2) -> str:
    """A score for a table cell; a dash when there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def why(hit: Any) -> str:
    """The reasons of a hit in one line, as the client words them."""
    reasons = hit.why
    if isinstance(reasons, str):
        return clean(reasons)
    return clean(", ".join(str(reason) for reason in reasons))


def _origin(hit: Any) -> str:
    parts = [hit.kind, f"ref {hit.ref}" if hit.ref else f"id {hit.memory_id}"]
    if hit.session_ref:
        parts.append(f"session {hit.session_ref}")
    if hit.occurred_at:
        parts.append(f"{hit.occurred_at:%Y-%m-%d}")
    if hit.freshness and hit.freshness != "current":
        parts.append(str(hit.freshness))
    count = len(hit.duplicates or [])
    if count:
        parts.append(f"+{count} duplicate{'s' if count > 1 else ''}")
    return clean(" · ".join(parts))


def hit_cell(hit: Any, *, limit: int | None = None, origin: bool = True) -> Text:
    """Memory text of a hit, with its origin and reasons dim below."""
    from rich.text import Text

    body = hit.body if limit is None else shorten(hit.body, limit)
    cell = Text()
    if hit.title and hit.title not in hit.body:
        cell.append(shorten(hit.title, min(limit or 120, 120)) + ": ", style="bold")
    cell.append(clean(body))
    if origin:
        cell.append("\n" + _origin(hit), style="dim")
    cell.append("\n" + why(hit), style="cyan dim")
    return cell


def hits_table(
    hits: Iterable[Any],
    *,
    limit: int | None = None,
    rest: int | None = None,
    origin: bool = True,
    mark: Sequence[bool] | None = None,
) -> Table:
    """Table of recall hits: rank, score, relevance, memory with reasons.

    Args:
        hits: recall hits in rank order.
        limit: cut each memory after so many characters; None shows it whole.
        rest: the same for every hit but the first.
        origin: show kind, ref, session, date and duplicates.
        mark: one flag per hit; a marked one gets an arrow and is bold.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False, show_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("relev.", justify="right", no_wrap=True)
    table.add_column("memory", overflow="fold")
    for index, hit in enumerate(hits):
        marked = bool(mark and index < len(mark) and mark[index])
        table.add_row(
            f"{'→ ' if marked else ''}{hit.rank}",
            number(hit.score),
            number(hit.relevance),
            hit_cell(hit, limit=rest if rest and index else limit, origin=origin),
            style="bold" if marked else None,
        )
    return table


def records_table(records: Iterable[Any]) -> Table:
    """Table of memories for ``remem list``: when, kind, the text in short with its ref or id."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("when", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("memory", overflow="fold")
    for record in records:
        when = record.occurred_at or record.created_at
        cell = Text(shorten(_spoken(record), 160))
        name = f"ref {record.ref}" if record.ref else f"id {record.memory_id}"
        cell.append("\n" + clean(name), style="dim")
        table.add_row(f"{when:%Y-%m-%d}" if when else "–", record.kind, cell)
    return table


def record_table(record: Any) -> Table:
    """All fields of one memory that hold something, one per line."""
    import dataclasses

    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value is None or value == [] or value == {} or value is False or value == ():
            continue
        if isinstance(value, list | tuple):
            value = ", ".join(str(part) for part in value)
        table.add_row(field.name, Text(clean(str(value))))
    return table


def _spoken(record: Any) -> str:
    text = f"{record.speaker}: {record.body}" if record.speaker else record.body
    return f"{record.title}: {text}" if record.title and record.title not in text else text


def degraded_lines(codes: Iterable[str]) -> list[str]:
    """One sentence per degraded state: its name, what it means, what to do."""
    named = ((code, code.partition(":")[0]) for code in codes)  # arm_failed:vector
    return [f"{code}: {DEGRADED.get(name, 'see docs/recall.md.')}" for code, name in named]
