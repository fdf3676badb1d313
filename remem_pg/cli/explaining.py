"""``remem explain``: what every stage of a recall did, as a funnel a person can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem_pg.cli import output
from remem_pg.cli.connect import open_memory
from remem_pg.cli.memories import RECALL_FLAGS, extra_options
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from rich.table import Table

RERANK_HELP = (
    "Look again at the best hits: late (the embedding model's own token vectors), the directory "
    "of a cross-encoder, or an https:// endpoint."
)


def explain(
    settings: Settings,
    query: Annotated[str, typer.Argument(help="The question, in your own words.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many memories at most.")] = 8,
    rerank: Annotated[str | None, typer.Option(metavar="SPEC", help=RERANK_HELP)] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A recall option as NAME=JSON. May be repeated."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Everything the trace says, unabridged.")
    ] = False,
) -> int | None:
    """Show how a question is answered: each stage, its time, what it dropped, and why each hit."""
    options = extra_options(option or [], RECALL_FLAGS)
    memory = open_memory(settings, reranker=rerank)
    document = memory.recall_explain(query, k=k, **options)
    if settings.json:
        print_json(document)
        return None
    settings.out.print(funnel_table(query, document))
    if document.get("arms"):
        settings.out.print(arms_table(document["arms"]))
    hits = document.get("hits") or []
    if hits:
        settings.out.print(signals_table(hits, None if verbose else 48))
    else:
        settings.out.print("Nothing found.")
    if verbose:
        settings.out.print(details_table(document))
    for line in output.degraded_lines(document.get("degraded") or []):
        settings.err.print(line, style="yellow")
    return None


def funnel_table(query: str, document: Mapping[str, Any]) -> Table:
    """The stages in order, each in a line; a stage the server says nothing about is left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in funnel(query, document):
        table.add_row(name, Text(output.clean(text)))
    return table


def funnel(query: str, document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Name and text of each stage that the trace tells of."""
    asked = document.get("query")
    asked = asked if isinstance(asked, Mapping) else {}
    yield "query", str(asked.get("text", query))
    for name in ("terms", "expanded_terms", "phrases", "excluded", "entities"):
        if asked.get(name):
            yield f"  {name.replace('_', ' ')}", ", ".join(map(str, asked[name]))
    yield from _lines(document, "route", "pool", "policy")
    tasks = document.get("tasks")
    if isinstance(tasks, Mapping):
        yield "arms", ", ".join(f"{count} {state}" for state, count in tasks.items())
    candidates = document.get("candidates")
    if candidates is not None:
        yield "candidates", _said(candidates)
    yield from _lines(document, "dropped", "fusion", "ranking_skipped", "trust", "graph")
    gate = document.get("rerank_gate")
    if isinstance(gate, Mapping):
        worth = "worth it" if gate.get("rerank") else "not worth it"
        yield "rerank gate", f"{worth}: {gate.get('reason', '')}"
    done = document.get("rerank")
    if isinstance(done, Mapping):
        parts = [f"{done.get('backend')} {done.get('state')}", str(done.get("reason", ""))]
        if done.get("elapsed_ms") is not None:
            parts.append(f"{done['reranked']} hits in {done['elapsed_ms']:.0f} ms")
        parts.append(str(done.get("error", "")))
        yield "rerank", ", ".join(part for part in parts if part)
    yield from _lines(document, "before_route", "after_route", "expansion")
    returned = document.get("returned", len(document.get("hits") or []))
    yield "returned", _said(returned)
    yield from _lines(document, "finish_reason")
    timings = document.get("timings")
    if isinstance(timings, Mapping):
        yield "milliseconds", ", ".join(f"{name} {_said(ms)}" for name, ms in timings.items())
    elif document.get("elapsed_ms") is not None:
        yield "milliseconds", _said(document["elapsed_ms"])


def _lines(document: Mapping[str, Any], *names: str) -> Iterable[tuple[str, str]]:
    for name in names:
        if document.get(name) not in (None, "", [], {}, False):
            yield name.replace("_", " "), _said(document[name])


def _said(value: Any) -> str:
    """A value of the trace in a few words: empty parts are left out."""
    if isinstance(value, Mapping):
        parts = [
            f"{name.replace('_', ' ')} {_said(member)}"
            for name, member in value.items()
            if member not in (None, "", [], {})
        ]
        return ", ".join(parts) or "nothing"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_said(member) for member in value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def arms_table(arms: Mapping[str, Any]) -> Table:
    """One row an arm: state, candidates found, milliseconds, what went wrong."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("arm", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("found", justify="right", no_wrap=True)
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for name, arm in arms.items():
        said = arm if isinstance(arm, Mapping) else {"state": arm}
        known = ("state", "found", "elapsed_ms", "terms")
        rest = {key: value for key, value in said.items() if key not in known}
        elapsed = said.get("elapsed_ms")
        table.add_row(
            Text(name),
            Text(str(said.get("state", "–"))),
            _said(said.get("found", "–")),
            output.number(elapsed if isinstance(elapsed, int | float) else None),
            Text(output.clean(_said(rest) if rest else "")),
            style="red" if said.get("state") == "failed" else None,
        )
    return table


def signals_table(hits: Sequence[Mapping[str, Any]], limit: int | None) -> Table:
    """One row a hit: score, relevance, the memory, and the score by signal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("relev.", justify="right", no_wrap=True)
    table.add_column("memory", overflow="fold")
    table.add_column("score by signal", overflow="fold")
    for hit in hits:
        body = str(hit.get("body") or "")
        cell = Text(output.clean(body) if limit is None else output.shorten(body, limit))
        name = f"ref {hit['ref']}" if hit.get("ref") else f"id {hit.get('memory_id')}"
        cell.append("\n" + output.clean(name), style="dim")
        signals = hit.get("signals") or {}
        arms = " + ".join(hit.get("arms") or []) or "context"
        table.add_row(
            str(hit.get("rank", "")),
            output.number(hit.get("score")),
            output.number(hit.get("relevance")),
            cell,
            Text(output.clean(f"{arms}\n{_said(signals)}"), style="cyan"),
        )
    return table


def details_table(document: Mapping[str, Any]) -> Table:
    """Every key of the trace but the hits, as JSON."""
    import json

    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in document.items():
        if name != "hits":
            text = json.dumps(value, ensure_ascii=False, default=str)
            table.add_row(name, Text(output.clean(text)))
    return table
