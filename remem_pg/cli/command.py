"""Turns a plain function into a command: common options in any position, errors as one sentence."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.settings import Settings
from remem_pg.cli.streams import silence

if TYPE_CHECKING:
    from remem_pg.errors import RememError

Handler = Callable[..., int | None]


def register(app: typer.Typer, name: str, handler: Handler, **options: Any) -> None:
    """Add ``handler(settings, ...)`` to ``app`` as the command ``name``.

    The handler gets the merged :class:`Settings` first and its own parameters by name; it returns
    an exit code (None is 0). The common options are added to its signature, so that they are
    accepted before and after the command's name alike.
    """
    hints = typing.get_type_hints(handler, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in list(inspect.signature(handler).parameters.values())[1:]
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    common = [
        inspect.Parameter(key, keyword, default=False if key == "json" else None, annotation=kind)
        for key, kind in conf.COMMON.items()
    ]
    context = inspect.Parameter("ctx", keyword, annotation=typer.Context)

    def command(**values: Any) -> None:
        settings: Settings = values.pop("ctx").find_root().obj
        settings.override({key: values.pop(key) for key in conf.COMMON})
        settings.resolve_environment()
        raise typer.Exit(run_guarded(settings, lambda: handler(settings, **values)))

    parameters = [p.replace(kind=keyword) for p in own] + common + [context]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__name__ = handler.__name__
    command.__doc__ = _flowing(handler.__doc__ or "")
    app.command(name, epilog=conf.EPILOG, **options)(command)


def _flowing(text: str) -> str:
    """A docstring with each paragraph on one line: the help would keep the breaks of the source."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def run_guarded(settings: Settings, body: Callable[[], int | None]) -> int:
    """Run a command's body and turn every expected failure into an exit code.

    Returns:
        0 to 4 or 130, see ``settings.EXIT_CODES``. A reader that went away (a broken pipe) is
        quiet and counts as done.
    """
    from remem_pg.errors import RememError

    try:
        code = body() or conf.OK
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        silence(sys.stdout)
        return conf.OK
    except KeyboardInterrupt:
        _report(settings, {"code": "interrupted", "message": "interrupted"})
        return conf.INTERRUPTED
    except RememError as error:
        _report(settings, error_document(error))
        return exit_code(error)
    except Exception as error:
        translated = _from_driver(error) or _from_files(error)
        if translated is None:
            raise
        _report(settings, error_document(translated))
        return exit_code(translated)
    finally:
        close_all(settings)


def _from_driver(error: Exception) -> RememError | None:
    """A psycopg error met outside the client as an error of the library; None for anything else."""
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    from remem_pg.errors import RememError, from_psycopg

    if not isinstance(error, psycopg.Error):
        return None
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
    return from_psycopg(error) or RememError(f"Postgres refused: {first_line}")


def _from_files(error: Exception) -> RememError | None:
    """A file that cannot be read or written as an error of the library; None for anything else."""
    from remem_pg.errors import RememError

    if not isinstance(error, OSError):
        return None
    if error.filename is None:  # met while reading or writing, not while opening
        return RememError(f"reading or writing failed: {error.strerror or error}")
    return RememError(
        f"{error.filename}: {error.strerror or error}", hint="name another file or directory"
    )


def close_all(settings: Settings) -> None:
    """Close what the command opened (clients, connections), last opened first."""
    while settings.resources:
        settings.resources.pop().close()


def exit_code(error: RememError) -> int:
    """Exit code for an error of the library: 3 without a usable server, else 1."""
    from remem_pg import errors

    unreachable = (errors.ServerUnavailable, errors.NotInstalled)
    return conf.UNREACHABLE if isinstance(error, unreachable) else conf.REFUSED


def error_document(error: RememError) -> dict[str, Any]:
    """The fields of an error as they stand under ``error`` in ``--json`` output."""
    from remem_pg.errors import NotInstalled

    document = error.as_dict()
    document["code"] = document["code"] or type(error).__name__
    document["type"] = type(error).__name__
    if error.item_no is not None:
        document["item_no"] = error.item_no
    if isinstance(error, NotInstalled):
        document["hint"] = "install it with: remem init"
    return document


def _report(settings: Settings, document: dict[str, Any]) -> None:
    try:
        if settings.json:
            conf.print_json({"error": document})
            return
    except BrokenPipeError:
        silence(sys.stdout)
        return
    except OSError:  # a full disk; standard error is left to say so
        silence(sys.stdout)
    try:
        from rich.text import Text

        from remem_pg.cli.output import clean

        code = str(document["code"])
        shown = " ".join(str(document["message"]).split())
        shown = f"{code} {shown}" if code.startswith("RM") else shown
        if document.get("item_no") is not None:
            shown += f" (item {document['item_no']})"
        settings.err.print(Text(clean(shown + "."), style="bold red"), soft_wrap=True)
        if document.get("hint"):
            hint = Text("Hint: ", style="yellow").append(clean(str(document["hint"])))
            settings.err.print(hint, soft_wrap=True)
    except OSError:
        silence(sys.stderr)
