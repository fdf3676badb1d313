"""``remem demo`` on the terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from remem_pg.cli import output
from remem_pg.cli import settings as conf
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.demo.run import Answer, DemoResult

FIRST_WIDTH = 130
REST_WIDTH = 50
OUTCOMES = {
    "created": "created",
    "new_version": "corrected by a new version",
    "merged": "merged with the same text",
    "unchanged": "unchanged",
}


def demo(
    settings: Settings,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the demo's data, to look at it with psql.")
    ] = False,
) -> int | None:
    """See it work: load a few memories into a Postgres of the demo's own and recall them.

    No database of yours is touched: REMEM_DSN, --dsn and --data-dir are not used.
    """
    from remem_pg.demo import run as demo_run

    result = demo_run.run(settings.embedding, keep=keep, say=settings.note)
    if settings.json:
        print_json(demo_run.as_document(result))
    else:
        _print_load(settings, result)
        for number, answer in enumerate(result.answers, 1):
            _print_answer(settings, number, answer)
        _print_end(settings, result)
    return conf.OK if result.ok else conf.REFUSED


def _print_load(settings: Settings, result: DemoResult) -> None:
    counts = ", ".join(
        f"{count} {OUTCOMES.get(name, name)}" for name, count in sorted(result.outcomes.items())
    )
    settings.out.print(
        f"{sum(result.outcomes.values())} memories of a made-up team: {counts}.\n"
        f"Embedding: {result.embedding_line}"
    )


def _print_answer(settings: Settings, number: int, answer: Answer) -> None:
    from rich.text import Text

    from remem_pg.demo.run import is_expected

    out = settings.out
    out.print()
    head = Text(f"{number}. ", style="bold")
    head.append(answer.question.text, style="bold").append(f"  ({answer.question.shows})", "dim")
    out.print(head)
    marks = [is_expected(answer.question, hit) for hit in answer.hits]
    table = output.hits_table(
        answer.hits, limit=FIRST_WIDTH, rest=REST_WIDTH, origin=False, mark=marks
    )
    out.print(table)
    for line in output.degraded_lines(answer.degraded):
        out.print(line, style="yellow")
    if not answer.ok:
        out.print(
            f"expected first: {answer.expected}, got: {answer.actual or 'nothing'}",
            style="bold red",
        )


def _print_end(settings: Settings, result: DemoResult) -> None:
    out = settings.out
    right = sum(answer.ok for answer in result.answers)
    total = len(result.answers)
    out.print()
    out.print(
        f"{right} of {total} questions have the expected memory (→) first.",
        style="bold green" if result.ok else "bold red",
    )
    mean = sum(answer.milliseconds for answer in result.answers) / max(total, 1)
    out.print(
        f"Start and install {result.start_seconds:.1f} s, load {result.load_seconds:.1f} s, "
        f"{total} recalls {result.recall_seconds:.2f} s ({mean:.0f} ms each). "
        f"Embedding: {result.embedding}."
    )
    out.print("\nTry next", style="bold")
    if result.data_dir:
        directory = shlex.quote(str(result.data_dir))
        lines = [
            f"remem serve --data-dir {directory}",
            f"remem recall -w parcel-team --data-dir {directory} 'who keeps the rota?'",
        ]
    else:
        lines = ["remem demo --keep        # keeps the demo's data and prints how to look at it"]
    lines += [
        "remem init               # your own memory; --dsn for a Postgres you have",
        'remem remember "We retry three times, then page." --kind decision',
        'remem recall "how often do we retry?"',
        "remem serve              # then, with psql on the DSN it prints:",
        "  select score, body from remem.recall('default', 'how often do we retry?');",
    ]
    for line in lines:
        out.print(f"  {line}", soft_wrap=True)
    out.print(
        "  python                   # Remem() without a DSN is the embedded Postgres\n"
        "    from remem_pg import Remem\n"
        '    for hit in Remem(workspace="default").recall("how often do we retry?"):\n'
        "        print(hit.score, hit.body)",
        soft_wrap=True,
    )
