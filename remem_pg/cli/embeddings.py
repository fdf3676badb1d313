"""``remem embeddings download`` and ``remem embeddings status``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from remem_pg.cli.connect import model_line, resolve, stored_spaces
from remem_pg.cli.output import clean
from remem_pg.cli.settings import Settings, print_json

Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="URL",
        help="A mirror with the paths of the model hub. Also from REMEM_MODEL_SOURCE.",
        show_default=False,
    ),
]


def download(
    settings: Settings,
    model: Annotated[
        str, typer.Option("--model", help="Which model; with --url, what it is called here.")
    ] = "bge-small-en-v1.5",
    source: Source = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="The address of a directory with the model's files, instead of a hub.",
            show_default=False,
        ),
    ] = None,
    trust_new: Annotated[
        bool,
        typer.Option("--trust-new", help="Take other files than those of the first download."),
    ] = False,
) -> int | None:
    """Bring a neural model into the cache, checked; go on with an interrupted download.

    Proxies and certificates: HTTPS_PROXY, HTTP_PROXY, NO_PROXY, SSL_CERT_FILE, REQUESTS_CA_BUNDLE.
    """
    from remem_pg.embedding.download import download as bring
    from remem_pg.embedding.managed import RUNTIME_HINT, try_model
    from remem_pg.embedding.resolve import missing_runtime

    missing = missing_runtime()
    with bar(settings) as progress:
        done = bring(
            model,
            source=source,
            url=url,
            trust_new=trust_new,
            say=settings.announce,
            progress=progress,
            check=try_model,
        )
    hint = f"it needs {' and '.join(missing)}: {RUNTIME_HINT}" if missing else None
    if settings.json:
        document = {
            "model": done.model,
            "path": done.path,
            "source": done.source,
            "checked": done.checked,
            "fetched_bytes": done.fetched,
            "hint": hint,
        }
        print_json(document)
        return None
    what = f"{done.fetched / 1e6:.1f} MB fetched" if done.fetched else "it was there already"
    settings.out.print(clean(f"{done.model}: {what}, checked ({done.checked})"), soft_wrap=True)
    settings.out.print(clean(f"in {done.path}"), soft_wrap=True)
    if hint:
        settings.err.print(clean(hint), style="yellow", soft_wrap=True)
    settings.out.print(
        "New workspaces: remem init --managed. Existing ones: remem reembed --embedding neural"
    )
    return None


def status(settings: Settings) -> int | None:
    """Show which model this process embeds with, the models on this machine, the last download,
    and the spaces of the database and of the workspace."""
    from remem_pg.embedding.managed import report
    from remem_pg.errors import EmbeddingUnavailable

    try:
        model = resolve(settings.embedding)
        active: dict[str, Any] = {"name": model.name, "line": model_line(model), "ok": True}
        if model.model is not None:
            from remem_pg.embedding.base import descriptor_of, fingerprint

            described = descriptor_of(model.model)
            active |= {key: described[key] for key in ("backend", "dimensions", "pooling")}
            active |= {"id": model.model.id, "fingerprint": fingerprint(described)}
    except EmbeddingUnavailable as error:
        active = {"name": "none", "line": f"{error.sentence()}. {error.hint or ''}", "ok": False}
    found = report()
    spaces = stored_spaces(settings)
    if settings.json:
        print_json({"active": active, "database": spaces} | found)
        return None
    _print_status(settings, active, found, spaces)
    return None


def _print_status(
    settings: Settings, active: dict[str, Any], found: dict[str, Any], spaces: dict[str, Any]
) -> None:
    def line(name: str, text: str) -> None:
        settings.out.print(clean(f"{name:<11} {text}"), soft_wrap=True)

    line("active", str(active["line"]))
    if active.get("id"):
        line("", f"{active['backend']}, {active['dimensions']} dimensions, {active['id']}")
    for name in ("default", "workspace"):
        space = spaces.get(name)
        if space is not None:
            same = space.fingerprint == active.get("fingerprint")
            text = f"{space.name}, {space.dimensions} dimensions"
            line(name, text if same else f"{text} (another model than this process has)")
    if spaces.get("problem"):
        line("database", str(spaces["problem"]))
    line("cache", str(found["cache"]))
    for model in found["models"]:
        state = model["checked"] or "not downloaded by remem, not checked"
        state = state if model["complete"] else "incomplete: remem embeddings download"
        line("", f"{model['name']}: {model['bytes'] / 1e6:.1f} MB, {state}")
    if not found["models"]:
        line("", "no model. remem embeddings download brings one")
    last = found["last_download"]
    if last:
        error = last.get("error") or {}
        why = f": {error.get('message')}. {error.get('hint')}" if error else ""
        line("download", f"{last['status']} {last['at']}{why}")
    if found["missing_libraries"]:
        missing = " and ".join(found["missing_libraries"])
        line("libraries", f"{missing} missing: pip install 'remem-pg[neural]'")


@contextmanager
def bar(settings: Settings) -> Iterator[Any]:
    """A progress callback that draws a bar on standard error; None with ``--json``."""
    if settings.json or not settings.err.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    name = TextColumn("{task.description}")
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=settings.err, transient=True) as drawn:
        task = drawn.add_task("download", total=None)
        yield lambda name, done, total: drawn.update(
            task, description=name, completed=done, total=total
        )
