"""The scale report for people: a page of Markdown tables beside the targets, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.report import table

# What is measured, where it stands in the document, floor, goal, and whether less is better.
_TARGETS: tuple[tuple[str, tuple[str, ...], float, float, bool], ...] = (
    ("big workspace: recall / bare vector query", ("big", "ratio"), 2.0, 1.5, True),
    ("the same in processor time", ("big", "cpu_ratio"), 2.0, 1.5, True),
    ("a tenth of the table: the same", ("tenth", "ratio"), 2.0, 1.5, True),
    ("a tenth, processor time", ("tenth", "cpu_ratio"), 2.0, 1.5, True),
    ("small workspace: recall, ms", ("small", "recall", "p50_ms"), 3.0, 2.0, True),
    ("the same, processor ms", ("small", "recall", "cpu_p50_ms"), 3.0, 2.0, True),
    ("faster than the hybrid query", ("slow", "faster_than_hybrid"), 10.0, 15.0, False),
    ("faster than OR full-text search", ("slow", "faster_than_words"), 5.0, 10.0, False),
    ("agreement with unbounded BM25, top 10", ("agreement", "top10"), 0.95, 0.98, False),
    (
        "half superseded / fresh load, before VACUUM",
        ("superseded", "before_vacuum", "p50_ratio"),
        1.2,
        1.1,
        True,
    ),
    (
        "half superseded / fresh load, after VACUUM",
        ("superseded", "after_vacuum", "p50_ratio"),
        1.2,
        1.1,
        True,
    ),
)


class PlotUnavailable(ValueError):
    """matplotlib is not installed; the message says how to get it."""


def page(document: Mapping[str, Any]) -> str:
    """The whole report as Markdown."""
    lines = [
        f"{document['rows']} memories ({document['source']}), "
        f"pgvector {document['settings']['pgvector']} on "
        f"PostgreSQL {document['settings']['server_version']}. "
        f"Loaded as remember would have written them: "
        f"{'yes' if document['same_as_remember'] else 'NO'}.",
        "",
        targets(document),
        "",
        latencies(document),
        "",
    ]
    growth = document.get("growth")
    if growth:
        lines.append(
            f"From {growth['from_rows']} to {growth['to_rows']} rows recall grows by "
            f"{growth['recall']:.2f}, the bare query by {growth['vector']:.2f}."
        )
    if document["granted"]:
        lines.append(f"As a granted role recall takes {document['granted']['ratio']:.2f} times.")
    lines.append(f"Where rows have owners recall takes {document['owned']['ratio']:.2f} times.")
    halves = document.get("superseded")
    if halves:
        for state, words in (("before_vacuum", "before"), ("after_vacuum", "after")):
            found = halves[state]
            lines.append(
                f"Half superseded, {words} VACUUM: recall@10 "
                f"{found['half']['recall@10']:.3f} and {found['fresh']['recall@10']:.3f} fresh, "
                f"{found['same_top10']:.3f} of the top ten the same."
            )
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in document["seconds"].items())
    if seconds:
        lines.append(f"Took: {seconds}.")
    return "\n".join(lines)


def targets(document: Mapping[str, Any]) -> str:
    """What was measured beside its floor and its goal."""
    rows = []
    for words, path, floor, goal, less in _TARGETS:
        value = _at(document, path)
        if value is None:
            continue
        better = [value <= mark if less else value >= mark for mark in (goal, floor)]
        verdict = "goal" if better[0] else "floor" if better[1] else "missed"
        rows.append([words, f"{value:.3g}", f"{floor:g}", f"{goal:g}", verdict])
    for size in ("big", "tenth", "small"):
        fewest = document[size]["fewest_hits"]
        verdict = "goal" if fewest == 8 else "missed"
        rows.append([f"fewest of 8 hits, {size} workspace", str(fewest), "8", "8", verdict])
    return table(["what", "measured", "floor", "goal", "reached"], rows)


def latencies(document: Mapping[str, Any]) -> str:
    """Milliseconds of every query in every size of workspace, one client and eight."""
    rows = []
    for size in ("big", "tenth", "small"):
        for name in ("vector", "recall"):
            one, many = document[size][name], document["clients"][size][name]
            rows.append([size, name, *_cells(one), *_cells(many)])
    slow = document["slow"]
    rows += [
        ["big", name, *_cells(slow[name]), "", ""] for name in ("hybrid", "hybrid_indexed", "words")
    ]
    clients = document["clients"]["clients"]
    header = ["workspace", "query", "p50 ms", "p95 ms", f"p50, {clients} clients", "p95"]
    return table(header, rows)


def require_plot() -> None:
    """Raises PlotUnavailable before hours of measuring rather than after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotUnavailable("--plot needs matplotlib: pip install 'remem-pg[evals]'") from error


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Medians on a logarithmic axis, whiskers to p95, one group a workspace size."""
    require_plot()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = {"vector": "#8da0cb", "recall": "#e4572e", "hybrid": "#a6a6a6", "words": "#c9c9c9"}
    labels = {
        "vector": "bare vector query, 50 rows",
        "recall": "remem.recall, 8 hits",
        "hybrid": "hybrid query (RRF), 10 rows",
        "words": "OR full-text search, 10 rows",
    }
    bars = {
        "big": [(n, document["big"][n]) for n in ("vector", "recall")]
        + [(n, document["slow"][n]) for n in ("hybrid", "words")],
        "tenth": [(n, document["tenth"][n]) for n in ("vector", "recall")],
        "small": [(n, document["small"][n]) for n in ("vector", "recall")],
    }
    titles = {"big": "half of the table", "tenth": "a tenth", "small": "about 90 rows"}
    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    at = 0.0
    ticks = []
    for size, group in bars.items():
        ticks.append((at + (len(group) - 1) / 2, titles[size]))
        for name, row in group:
            axes.bar(
                at,
                row["p50_ms"],
                color=colours[name],
                label=labels[name] if size == "big" else None,
                yerr=[[0], [max(0.0, row["p95_ms"] - row["p50_ms"])]],
                error_kw={"ecolor": "#555555", "capsize": 3, "lw": 1},
            )
            axes.annotate(
                f"{row['p50_ms']:.3g}",
                (at, row["p50_ms"]),
                textcoords="offset points",
                xytext=(0, 2),
                ha="center",
                fontsize=8,
            )
            at += 1
        at += 0.7
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds, median (whisker: p95)")
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.set_title(f"{document['rows']:,} memories, one client", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=150, format="png")
    pyplot.close(figure)


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = document
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return None if value is None else float(value)


def _cells(row: Mapping[str, float]) -> list[str]:
    return [f"{row['p50_ms']:.2f}", f"{row['p95_ms']:.2f}"]
