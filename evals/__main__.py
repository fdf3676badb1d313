"""``python -m evals NAME``: one command an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from evals import report
from evals.database import database
from evals.dataset import DatasetError, load
from evals.locomo import MODES
from evals.locomo import run as run_locomo
from evals.models import ModelUnavailable, open_model
from remem_pg import RememError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.callback()
def evals() -> None:
    """Measurements of remem-pg. Progress goes to standard error, the result to standard output."""


@app.command()
def locomo(
    path: Annotated[Path, typer.Argument(help="A file of conversations in the LoCoMo form.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
    modes: Annotated[
        str, typer.Option(help="Which of fused, lexical and vector to measure.")
    ] = "lexical,vector,fused",
    model: Annotated[
        str, typer.Option(help="auto, hash, minilm, or the directory of a model.")
    ] = "auto",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many conversations.")
    ] = None,
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
    progress = Console(stderr=True, highlight=False)
    try:
        dataset = load(path, limit)
        if dataset.questions == 0:
            raise DatasetError(f"{path} has no question with evidence")
        embedding = open_model(model)
        progress.print(f"{dataset.questions} questions, {dataset.turns} turns; {embedding.id}")
        with database(dsn) as where:
            document = run_locomo(where, dataset, embedding, chosen, progress.print)
    except (DatasetError, ModelUnavailable, RememError, OSError) as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error
    if as_json:
        report.print_json(document)
    else:
        typer.echo(report.locomo_page(document, chosen))


if __name__ == "__main__":
    app(prog_name="python -m evals")
