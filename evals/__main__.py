"""``python -m evals NAME``: one command an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from evals import ablation as ablations
from evals import ingest as ingests
from evals import mixed as mixes
from evals import plan as plans
from evals import reembed as reembeds
from evals import report, scale_report
from evals import round_trip as round_trips
from evals.behaviour import page as behaviour_page
from evals.behaviour import run as behaviours
from evals.behaviour import texts as behaviour_texts
from evals.database import database, temporary_server
from evals.dataset import DatasetError, load
from evals.faults import run as fault_runs
from evals.locomo import MODES, workspace_names
from evals.locomo import run as run_locomo
from evals.models import ModelUnavailable, open_model
from evals.scale import SETTINGS
from evals.scale import run as run_scale
from evals.scale_data import Corpus, Generated, Texts
from remem_pg import RememError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Dsn = Annotated[
    str | None,
    typer.Option(help="A database to use, as for locomo; without it, an embedded server."),
]


@contextmanager
def expected() -> Iterator[Callable[[str], None]]:
    """Gives what tells the progress; what may go wrong ends the command with one sentence."""
    progress = Console(stderr=True, highlight=False)
    try:
        yield lambda line: progress.print(line, markup=False)
    except (DatasetError, ModelUnavailable, RememError, OSError, ValueError) as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error


def show(document: Any, as_json: bool, page: Callable[[Any], str]) -> None:
    """The result on standard output, as one JSON document or as a page for people."""
    if as_json:
        report.print_json(document)
    else:
        typer.echo(page(document))


@app.callback()
def evals() -> None:
    """Measurements of remem-pg. Progress goes to standard error, the result to standard output."""


@app.command()
def locomo(
    path: Annotated[Path, typer.Argument(help="A file of conversations in the LoCoMo form.")],
    as_json: AsJson = False,
    modes: Annotated[
        str, typer.Option(help="Which of fused, lexical and vector to measure.")
    ] = "lexical,vector,fused",
    model: Annotated[
        str, typer.Option(help="auto, hash, minilm, or the directory of a model.")
    ] = "auto",
    rerank: Annotated[
        str | None,
        typer.Option(help="Rerank: late, a cross-encoder's directory, or an endpoint's address."),
    ] = None,
    gate: Annotated[
        Literal["cluster", "top", "always"], typer.Option(help="When to rerank.")
    ] = "cluster",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many conversations.")
    ] = None,
    round_trip: Annotated[
        bool,
        typer.Option(
            "--round-trip",
            help="Then export everything, drop it, import it and measure again: the figures have "
            "to be equal.",
        ),
    ] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="A database to use: remem is installed or upgraded there, and the workspaces "
            "named evals:* stay. Without it, an embedded server that lives for the run."
        ),
    ] = None,
) -> None:
    """Recall, hit rate, MRR and latency on conversations."""
    chosen = [mode.strip() for mode in modes.split(",") if mode.strip()]
    unknown = [mode for mode in chosen if mode not in MODES]
    if unknown or not chosen:
        valid = ", ".join(MODES)
        raise typer.BadParameter(f"{', '.join(unknown) or 'nothing'} is none of {valid}")
    with expected() as note:
        dataset = load(path, limit)
        if dataset.questions == 0:
            raise DatasetError(f"{path} has no question with evidence")
        embedding = open_model(model)
        note(f"{dataset.questions} questions, {dataset.turns} turns; {embedding.id}")
        with database(dsn) as where:
            document = run_locomo(where, dataset, embedding, chosen, note, rerank, gate)
            if round_trip:
                names = workspace_names(dataset, embedding)
                trip = round_trips.export_drop_import(where, names, note)
                again = run_locomo(
                    where, dataset, embedding, chosen, note, rerank, gate, load=False
                )
                trip["differences"] = round_trips.differences(document, again)
                document["round_trip"] = trip
    show(document, as_json, lambda made: report.locomo_page(made, chosen))
    if round_trip and document["round_trip"]["differences"]:
        raise typer.Exit(1)


@app.command()
def scale(
    rows: Annotated[int, typer.Option(min=1000, help="How many memories in all.")] = 200_000,
    texts: Annotated[
        Path | None,
        typer.Option(help="Make the rows from the turns of a file of conversations (LoCoMo form)."),
    ] = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the medians into this PNG file.")] = None,
    questions: Annotated[int, typer.Option(min=1, help="Questions a workspace size.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 2,
    halves: Annotated[
        bool, typer.Option(help="Also measure what superseding half of the rows costs.")
    ] = True,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="An empty database to use and leave loaded: a second run with the same rows "
            "measures at once. Without it, an embedded server that lives for the run."
        ),
    ] = None,
) -> None:
    """Latency of recall beside the queries it replaces, in large and small workspaces."""
    with expected() as note:
        if plot is not None:
            scale_report.require_plot()
        source = Generated() if texts is None else Texts(load(texts), open_model("minilm"))
        corpus = Corpus(rows, source)
        with ExitStack() as stack:
            if dsn is None:
                server = stack.enter_context(temporary_server(SETTINGS))
                where, admin = server.dsn, server.admin_dsn
            else:
                where = admin = stack.enter_context(database(dsn))
            document = run_scale(
                where,
                corpus,
                note,
                asked=questions,
                rounds=rounds,
                admin_dsn=admin,
                halves=halves,
            )
        if plot is not None:
            scale_report.draw(document, plot)
    show(document, as_json, scale_report.page)


@app.command()
def ablation(
    path: Annotated[Path, typer.Argument(help="A file of conversations in the LoCoMo form.")],
    as_json: AsJson = False,
    model: Annotated[
        str, typer.Option(help="auto, hash, minilm, or the directory of a model.")
    ] = "auto",
    stages: Annotated[
        bool, typer.Option(help="Also ask every question once with each stage switched.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option(min=2, help="Only the first so many conversations.")
    ] = None,
    dsn: Dsn = None,
) -> None:
    """Recall with each signal and stage off in turn, and weights tested on unseen conversations."""
    with expected() as note:
        dataset = load(path, limit)
        if dataset.questions == 0:
            raise DatasetError(f"{path} has no question with evidence")
        embedding = open_model(model)
        with database(dsn) as where:
            document = ablations.run(where, dataset, embedding, note, stages=stages)
    show(document, as_json, ablations.page)


@app.command()
def plan(
    topics: Annotated[int, typer.Option(min=10, help="How many topics the catalog has.")] = 2000,
    as_json: AsJson = False,
    model: Annotated[
        str,
        typer.Option(help="hash (embeds in the database), auto, minilm, or a model's directory."),
    ] = "hash",
    prompts: Annotated[int, typer.Option(min=1, help="Prompts of each of four kinds.")] = 50,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 2,
    dsn: Dsn = None,
) -> None:
    """Latency of plan in a large catalog, beside the bare query that ranks its vectors."""
    with expected() as note:
        embedding = None if model == "hash" else open_model(model)
        with database(dsn) as where:
            document = plans.run(where, topics, embedding, note, asked=prompts, rounds=rounds)
    show(document, as_json, plans.page)


@app.command()
def behaviour(
    as_json: AsJson = False,
    model: Annotated[
        list[str] | None,
        typer.Option(help="hash, minilm, auto, or a model's directory; may be given again."),
    ] = None,
    dsn: Dsn = None,
) -> None:
    """What the planner and context bring and leave out, by kind of prompt."""
    with expected() as note:
        models = {name: open_model(name) for name in model or ("hash", "minilm")}
        with database(dsn) as where:
            document = behaviours.run(where, behaviour_texts.load(), models, note)
    show(document, as_json, behaviour_page.page)


@app.command()
def reembed(
    memories: Annotated[int, typer.Option(min=500, help="Memories to embed.")] = 5000,
    swap: Annotated[
        int, typer.Option(min=100, help="Memories of the swap to the model and back.")
    ] = 5000,
    as_json: AsJson = False,
    model: Annotated[str, typer.Option(help="minilm, or the directory of a model.")] = "minilm",
    dsn: Dsn = None,
) -> None:
    """Speed of re-embedding beside the bare model, recall meanwhile, and a swap under traffic."""
    with expected() as note:
        embedding = open_model(model)
        with database(dsn) as where:
            document = reembeds.run(where, model, embedding, memories, swap, note)
    show(document, as_json, reembeds.page)


@app.command()
def ingest(
    rows: Annotated[
        int, typer.Option(min=2000, help="Memories to load beside COPY, for each way.")
    ] = 10_000,
    memory_rows: Annotated[
        int, typer.Option(min=1000, help="Memories whose import is watched for its memory.")
    ] = 100_000,
    singles: Annotated[int, typer.Option(min=20, help="Single writes to time.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Rows a second beside COPY, memory of an importing client, one write beside an INSERT."""
    with expected() as note:
        document = ingests.run(rows, memory_rows, singles, note)
    show(document, as_json, ingests.page)


@app.command()
def mixed(
    seconds: Annotated[float, typer.Option(min=1, help="How long everybody works.")] = 60,
    as_json: AsJson = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="An empty database to use, as for locomo; without it, an embedded server."
        ),
    ] = None,
) -> None:
    """Writers, readers, re-embedders, a correcter, a forgetter and a change of language at once;
    fails when anything is raised, deadlocks, or is inconsistent afterwards."""
    with expected() as note, database(dsn) as where:
        document = mixes.run(where, seconds, note)
    show(document, as_json, mixes.page)
    if not mixes.is_clean(document):
        raise typer.Exit(1)


@app.command()
def faults(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which faults; without names, all of them.")
    ] = None,
    short: Annotated[bool, typer.Option(help="Each fault once, as the tests do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Break servers under writers: what was acknowledged, found afterwards, and lost."""
    unknown = [name for name in names or [] if name not in fault_runs.FAULTS]
    if unknown:
        valid = ", ".join(fault_runs.FAULTS)
        raise typer.BadParameter(f"{', '.join(unknown)} is none of {valid}")
    with expected() as note:
        document = fault_runs.run(names, short, note)
    show(document, as_json, fault_runs.page)
    if not all(outcome["passed"] for outcome in document["outcomes"]):
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m evals")
