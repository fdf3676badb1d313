"""A model inside the database: ``install-plpython`` and ``uninstall-plpython``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remem_pg.cli.connect import resolve, target
from remem_pg.cli.output import clean
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.embedding.onnx import OnnxEmbedding

Print = Annotated[
    bool, typer.Option("--print", help="Print the SQL for a superuser, change nothing.")
]


def install_plpython(
    settings: Settings,
    print_: Print = False,
    site_packages: Annotated[
        list[Path] | None,
        typer.Option(
            help="Where the server's Python finds remem-pg and onnxruntime. Repeatable. Without: "
            "the packages of the Python that runs this.",
            show_default=False,
        ),
    ] = None,
    embed_on_write: Annotated[
        bool,
        typer.Option("--embed-on-write", help="What is written without a vector gets one at once."),
    ] = False,
    default_space: Annotated[
        bool, typer.Option("--default-space", help="New workspaces use this model.")
    ] = False,
) -> int | None:
    """Put the embedding model inside the database. Needs a superuser and plpython3u.

    Then recall finds by meaning for callers in plain SQL too, and remem.embed exists. Packages and
    model have to be on the server's machine, readable for its account.
    """
    from remem_pg.installing import plpython
    from remem_pg.installing.plpython_script import script

    model = _onnx(settings.embedding)
    if print_:
        packages = [path.absolute() for path in site_packages or plpython.own_packages()]
        text = script(model, packages, embed_on_write=embed_on_write, default_space=default_space)
        _show(settings, text)
        return None
    where = target(settings)
    assert where.dsn is not None
    report = plpython.install(
        where.dsn,
        model,
        site_packages or None,
        embed_on_write=embed_on_write,
        default_space=default_space,
    )
    if settings.json:
        print_json(report)
        return None
    out = settings.out
    out.print(clean(f"Model       {report.model}, {report.dimensions} dimensions"), soft_wrap=True)
    out.print(clean(f"Server      Python {report.python}, account {report.account}"))
    for path in report.packages:
        out.print(clean(f"Packages    {path}"), soft_wrap=True)
    out.print("In psql, paste:")
    out.print("select remem.embed('how often do we retry?');", style="bold")
    return None


def uninstall_plpython(settings: Settings, print_: Print = False) -> int | None:
    """Take the model out of the database. Vectors, spaces and plpython3u stay."""
    from remem_pg.installing import plpython
    from remem_pg.installing.plpython_script import UNINSTALL

    if print_:
        _show(settings, UNINSTALL)
        return None
    where = target(settings)
    assert where.dsn is not None
    there = plpython.uninstall(where.dsn)
    if settings.json:
        print_json({"dropped": there})
    else:
        settings.out.print("Dropped the model." if there else "There was no model in it.")
    return None


def _onnx(spec: str | None) -> OnnxEmbedding:
    from remem_pg.embedding.onnx import MINILM_HINT, OnnxEmbedding
    from remem_pg.errors import EmbeddingUnavailable

    found = resolve(spec)
    if not isinstance(found.model, OnnxEmbedding):
        raise EmbeddingUnavailable(
            f"only a local ONNX model goes into a database, and this is {found.name}",
            hint=f"--embedding names a model directory, or {MINILM_HINT}",
        )
    return found.model


def _show(settings: Settings, text: str) -> None:
    if settings.json:
        print_json({"sql": text})
    else:
        sys.stdout.write(text)
