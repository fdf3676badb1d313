"""``remem plan`` and ``remem context``: whether a prompt needs memories, and the text for a
model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem_pg.cli import output
from remem_pg.cli.connect import open_if_there
from remem_pg.cli.memories import Where, extra_options, scope_of
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from remem_pg.client import Remem
    from remem_pg.context.result import ContextResult, Trace

Prompt = Annotated[str, typer.Argument(help="What the user says; - reads standard input.")]
Project = Annotated[str | None, typer.Option(help="The project that is worked on.")]
Session = Annotated[str | None, typer.Option(help="The conversation.")]
User = Annotated[str | None, typer.Option(help="Whose agent this is.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="A setting as NAME=JSON, such as recall_budget=3000. Repeatable."
    ),
]
Notes = Annotated[
    list[str] | None,
    typer.Option(
        "--notes", metavar="ID=DIR", help="A folder of Markdown files as a provider. Repeatable."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Everything the trace says.")]
_FLAGS = {
    "prompt": "PROMPT",
    "scope": "--project, --session and --user",
    "where": "--where, which only context has",
    "providers": "--notes",
}


def plan(
    settings: Settings,
    prompt: Prompt,
    project: Project = None,
    session: Session = None,
    user: User = None,
    option: Options = None,
    notes: Notes = None,
    verbose: Verbose = False,
) -> int | None:
    """Show whether a prompt needs memories, what it is about, and who would be asked."""
    trace = _ready(settings).plan(
        _text(prompt), scope=scope_of(project, session, user), **_options(option, notes)
    )
    if settings.json:
        print_json(trace.document())
        return None
    settings.out.print(steps_table(plan_steps(trace)))
    if verbose:
        settings.out.print(details_table(trace))
        settings.out.print(output.clean(trace.plan.catalog), markup=False, highlight=False)
    _say(settings, trace)
    return None


def context(
    settings: Settings,
    prompt: Prompt,
    project: Project = None,
    session: Session = None,
    user: User = None,
    where: Where = None,
    option: Options = None,
    notes: Notes = None,
    verbose: Verbose = False,
) -> int | None:
    """Print what to put before a model call for a prompt; nothing when there is nothing to say."""
    result = _ready(settings).context(
        _text(prompt),
        scope=scope_of(project, session, user),
        where=where,
        **_options(option, notes),
    )
    if settings.json:
        print_json(result.document())
        return None
    if result.text:
        settings.out.print(output.clean(result.text), markup=False, highlight=False, soft_wrap=True)
    if verbose:
        settings.out.print(steps_table([*plan_steps(result.trace), *context_steps(result.trace)]))
        if result.results:
            settings.out.print(results_table(result))
        settings.out.print(details_table(result.trace))
    elif not result.text:
        settings.note("Nothing to say.")
    _say(settings, result.trace)
    return None


def _ready(settings: Settings) -> Remem:
    """A client whose model is loaded: the time limits are for a process that goes on, and here
    the first question would pay for the loading."""
    memory = open_if_there(settings)
    embedder = memory._session.embedder
    if embedder.prepare() is not None:
        embedder.embed(["ready"], query=True)
    return memory


def _text(prompt: str) -> str:
    import sys

    return sys.stdin.read() if prompt == "-" else prompt


def _options(pairs: list[str] | None, folders: list[str] | None) -> dict[str, Any]:
    options = extra_options(pairs or [], _FLAGS)
    if folders:
        from remem_pg.context.markdown import MarkdownProvider

        providers = []
        for folder in folders:
            name, equals, path = folder.partition("=")
            if not equals or not name or not path:
                raise typer.BadParameter(f"{folder!r} is not ID=DIR", param_hint="--notes")
            providers.append(MarkdownProvider(name, path))
        options["providers"] = providers
    return options


def _say(settings: Settings, trace: Trace) -> None:
    for line in trace.diagnostics:
        settings.err.print(output.clean(line), style="yellow", markup=False)


def plan_steps(trace: Trace) -> Iterable[tuple[str, str]]:
    """The decision in lines."""
    decided = "yes" if trace.should_retrieve else "no"
    yield "recall", f"{decided}, confidence {trace.confidence:.2f}"
    yield (
        "stage",
        trace.stage
        if trace.planner in ("none", "not_asked")
        else (f"{trace.stage}, planner {trace.planner}"),
    )
    for topic in trace.topics:
        yield "topic", f"{topic.title} ({topic.score:.2f})"
    for request in trace.requests:
        yield "ask", f"{request.provider}, at most {request.limit}: {request.reason}"
    plan = trace.plan
    cached = ", of a moment ago" if trace.catalog_cached else ""
    entries = output.counted(plan.catalog_entries, "entry", "entries")
    yield "catalog", f"{entries}, {plan.catalog_shown} sent{cached}"


def context_steps(trace: Trace) -> Iterable[tuple[str, str]]:
    """What was found and written, in lines."""
    for run in trace.providers:
        text = f"{run.status}, {run.result_count} in {run.duration_ms:.0f} ms"
        yield run.provider_id, f"{text}, {run.error}" if run.error else text
    yield (
        "results",
        (
            f"{trace.raw} found, {trace.invalid} refused, {trace.deduplicated} different, "
            f"{trace.selected} shown, {trace.omitted} left out"
        ),
    )
    yield trace.unit, f"catalog {trace.catalog_cost}, recalled {trace.recall_cost}"
    yield "milliseconds", ", ".join(f"{name} {ms:.1f}" for name, ms in trace.timings.items())


def steps_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Name and text of each step."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(output.clean(name)), Text(output.clean(text)))
    return table


def results_table(result: ContextResult) -> Table:
    """One row a result: its rank, where it comes from, and what the rank is made of."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    table.add_column("rank by signal", overflow="fold")
    for item in result.results:
        record = item.record
        cell = Text(output.shorten(record.title or record.body, 48))
        cell.append(f"\n{output.clean(f'{record.provider}/{record.id}')}", style="dim")
        signals = ", ".join(f"{name} {value:.2f}" for name, value in item.signals.items() if value)
        table.add_row(output.number(item.rank), cell, Text(signals, style="cyan"))
    return table


def details_table(trace: Trace) -> Table:
    """Every key of the trace as JSON."""
    import json

    rows: Sequence[tuple[str, str]] = [
        (name, json.dumps(value, ensure_ascii=False, default=str))
        for name, value in trace.document().items()
    ]
    return steps_table(rows)
