"""The report of the behavioural evaluation as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evals.report import score, table

_WHOLE = (
    ("relevant recall", "relevant_recall"),
    ("of low overlap", "low_overlap_recall"),
    ("injected", "injected"),
    ("stray", "stray"),
    ("superseded shown", "forbidden"),
    ("planned in vain", "false_positives"),
    ("over budget", "over_budget"),
)
"""Columns of the table of wholes; the last four count memories, prompts and budgets."""


def page(document: Mapping[str, Any]) -> str:
    """A table of the halves, one of the categories, one of the calibration, the failures."""
    models: Mapping[str, Any] = document["models"]
    lines = [
        f"{document['prompts']} prompts over {document['topics']} topics and "
        f"{document['memories']} memories of two providers.",
        "",
        _halves(models),
        "",
        _categories(models),
        "",
        _others(models),
        "",
    ]
    for name, model in models.items():
        failure = model["failure"]
        lines.append(
            f"{name}, one provider dead and one slow (timeout {failure['slow_timeout_ms']} ms): "
            f"{failure['kept']} of {failure['expected']} records of the others after "
            f"{failure['milliseconds']:.0f} ms; {'; '.join(failure['diagnostics'])}."
        )
    if any("calibration" in model for model in models.values()):
        lines += ["", _calibration(models)]
    return "\n".join(lines)


def _halves(models: Mapping[str, Any]) -> str:
    rows = [
        [f"{name}, {half}", *(_cell(own[key]) for _, key in _WHOLE),
         f"{own['p50_ms']:.0f}", f"{own['p95_ms']:.0f}"]
        for name, model in models.items()
        for half, own in {**model["halves"], "all": model["all"]}.items()
    ]  # fmt: skip
    return table(["model, half", *(title for title, _ in _WHOLE), "p50 ms", "p95 ms"], rows)


def _categories(models: Mapping[str, Any]) -> str:
    """Recall of a category's prompts, or the memories injected into a category of negatives."""
    columns = [(name, half) for name, model in models.items() for half in model["halves"]]
    categories = dict.fromkeys(
        category
        for model in models.values()
        for own in model["by_category"].values()
        for category in own
    )
    rows = []
    for category in categories:
        cells = []
        for name, half in columns:
            own = models[name]["by_category"][half].get(category)
            if own is None:
                cells.append("")
            elif own["positive"]:
                cells.append(f"{score(own['relevant_recall'])} ({own['positive']})")
            else:
                cells.append(f"{own['injected']} in {own['negative']}")
        rows.append([category, *cells])
    return table(["category", *(f"{name}, {half}" for name, half in columns)], rows)


def _others(models: Mapping[str, Any]) -> str:
    """What is left without topics, and what prompts about nothing here are shown."""
    rows = []
    for name, model in models.items():
        bare, strangers = model["bare"], model["strangers"]
        recall = [f"{score(share)} ({half})" for half, share in bare["recall"].items()]
        asked = strangers["prompts"]
        rows += [
            [f"{name}, with topics", "", str(model["all"]["injected"]),
             f"{strangers['planned']} of {asked}", f"{strangers['injected']} of {asked}"],
            [f"{name}, memories alone", ", ".join(recall), str(bare["injected"]),
             f"{bare['strangers']['planned']} of {asked}",
             f"{bare['strangers']['injected']} of {asked}"],
        ]  # fmt: skip
    header = ["model, workspace", "records found", "injected", "strangers planned", "answered"]
    return table(header, rows)


def _calibration(models: Mapping[str, Any]) -> str:
    """What a minimum lets through."""
    rows = [
        [f"{name}, {row['minimum']:.3f}" + (" (default)" if row["default"] else ""),
         score(row["same"]), score(row["miss"]), score(row["cross"]), score(row["questions"])]
        for name, model in models.items()
        for row in model.get("calibration", ())
    ]  # fmt: skip
    header = ["model, minimum", "same topic", "near misses", "other topics", "questions with any"]
    return table(header, rows)


def _cell(value: Any) -> str:
    return score(value) if isinstance(value, float) else str(value)
