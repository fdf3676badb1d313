"""Results as a Markdown table for people and as one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("R@1", "R@5", "R@10", "R@20", "R@50", "hit@1", "hit@5", "hit@10", "MRR")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column left, the others right, padded so that it reads as text."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if i == 0 else "-" * (w - 1) + ":") for i, w in enumerate(widths)]
    return "\n".join([line(header), line(rule), *map(line, rows)])


def score(value: float) -> str:
    """Three decimals without the leading zero, as in .646."""
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def mode_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a mode: quality, then the latency of the recall call in milliseconds."""
    rows = [
        [
            mode,
            *(score(row[c]) for c in COLUMNS),
            f"{row['p50_ms']:.1f}",
            f"{row['p95_ms']:.1f}",
        ]
        for mode, row in results.items()
    ]
    return table(["mode", *COLUMNS, "p50 ms", "p95 ms"], rows)


def category_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a mode and category."""
    rows = [
        [mode, name, f"{int(row['questions'])}", *(score(row[c]) for c in COLUMNS)]
        for mode, whole in results.items()
        for name, row in whole["by_category"].items()
    ]
    return table(["mode", "category", "questions", *COLUMNS], rows)


def locomo_page(document: Mapping[str, Any], modes: Sequence[str]) -> str:
    """The whole report as Markdown: modes, categories, what was left out, what was degraded."""
    results = {mode: document[mode] for mode in modes}
    lines = [
        f"{document['questions']} questions over {document['turns']} turns of "
        f"{document['conversations']} conversations, "
        f"model {document['model']}, k = {document['k']}",
        "",
        mode_table(results),
        "",
        category_table(results),
        "",
    ]
    embedding = document["question_embedding"]
    if embedding["p50_ms"] is not None:
        lines.append(
            f"Milliseconds are those of the recall call. Embedding a question took "
            f"{embedding['p50_ms']:.1f} (p95 {embedding['p95_ms']:.1f}) besides."
        )
    lines.append(
        f"Loaded {document['load_turns_per_second']:.0f} turns a second without embedding."
    )
    if document["left_out"]:
        parts = [f"{count} {reason}" for reason, count in document["left_out"].items() if count]
        lines.append(f"Left out: {', '.join(parts)}.")
    if document["rerank"]:
        for mode in modes:
            counts = ", ".join(f"{n} {state}" for state, n in document[mode]["rerank"].items())
            spec, gate = document["rerank"]["spec"], document["rerank"]["gate"]
            lines.append(f"Reranked by {spec} (gate {gate}) in {mode}: {counts}.")
    for mode in modes:
        for state, count in document[mode]["degraded"].items():
            lines.append(f"Degraded in {mode}: {state}, {count} times.")
    if trip := document.get("round_trip"):
        lines.append(
            f"After export ({trip['bytes'] / 1e6:.1f} MB in {trip['export_seconds']} s), drop and "
            f"import ({trip['import_seconds']} s) of {trip['memories']} memories: "
            + ("every figure is the same." if not trip["differences"] else "figures differ.")
        )
        lines += [f"  {each}" for each in trip["differences"]]
    return "\n".join(lines)


def print_json(document: Mapping[str, Any]) -> None:
    """The document, and nothing else, on standard output."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
