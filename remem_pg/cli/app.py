"""The command tree of ``remem``. Commands import what they need when they run, so that ``--help``
is quick."""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from typing import Annotated, NoReturn

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.backing_up import backup, restore
from remem_pg.cli.catalog import (
    drop_topic,
    put_route,
    put_topic,
    relate,
    route,
    topics,
    unrelate,
)
from remem_pg.cli.command import register, run_guarded
from remem_pg.cli.contexting import context, plan
from remem_pg.cli.demo_command import demo
from remem_pg.cli.embeddings import download, status
from remem_pg.cli.explaining import explain
from remem_pg.cli.importing import import_
from remem_pg.cli.lifecycle import (
    correct,
    drop_workspace,
    forget,
    history,
    pin,
    purge,
    resolve,
    supersede,
    unforget,
    unpin,
)
from remem_pg.cli.memories import count, get, list_, recall, remember
from remem_pg.cli.operating import doctor, maintain
from remem_pg.cli.plpython_commands import install_plpython, uninstall_plpython
from remem_pg.cli.reembedding import drop_space, reembed, spaces, worker
from remem_pg.cli.serving import serve, version
from remem_pg.cli.settings import Settings
from remem_pg.cli.setup import init, migrate, uninstall
from remem_pg.cli.streams import open_closed, silence
from remem_pg.cli.tenants import grant, grants, language, reindex_text, revoke, workspaces
from remem_pg.cli.transferring import export

app = typer.Typer(
    name="remem",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=conf.EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        from remem_pg.version import __version__

        typer.echo(f"remem {__version__}")
        raise typer.Exit


@app.callback()
def common(
    ctx: typer.Context,
    dsn: conf.Dsn = None,
    workspace: conf.Workspace = None,
    data_dir: conf.DataDir = None,
    embedding: conf.Embedding = None,
    json: conf.Json = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Long-term memory for software agents, inside the Postgres you already have.

    Without --dsn or REMEM_DSN every command uses an embedded Postgres of your own.
    """
    ctx.obj = Settings(dsn, workspace, data_dir, embedding, json)


register(app, "demo", demo)
register(app, "init", init)
register(app, "remember", remember)
register(app, "recall", recall)
register(app, "explain", explain)
register(app, "plan", plan)
register(app, "context", context)
register(app, "get", get)
register(app, "list", list_)
register(app, "count", count)
register(app, "correct", correct)
register(app, "supersede", supersede)
register(app, "history", history)
register(app, "pin", pin)
register(app, "unpin", unpin)
register(app, "resolve", resolve)
register(app, "relate", relate)
register(app, "unrelate", unrelate)
register(app, "forget", forget)
register(app, "unforget", unforget)
register(app, "purge", purge)
register(app, "drop-workspace", drop_workspace)
register(app, "topics", topics)
register(app, "put-topic", put_topic)
register(app, "drop-topic", drop_topic)
register(app, "route", route)
register(app, "put-route", put_route)
register(app, "import", import_)
register(app, "export", export)
register(app, "backup", backup)
register(app, "restore", restore)
register(app, "reembed", reembed)
register(app, "worker", worker)
register(app, "spaces", spaces)
register(app, "drop-space", drop_space)
register(app, "doctor", doctor)
register(app, "maintain", maintain)
register(app, "workspaces", workspaces)
register(app, "language", language)
register(app, "reindex-text", reindex_text)
register(app, "grant", grant)
register(app, "revoke", revoke)
register(app, "grants", grants)
embeddings = typer.Typer(no_args_is_help=True, help="Models on this machine.")
app.add_typer(embeddings, name="embeddings")
register(embeddings, "download", download)
register(embeddings, "status", status)
register(app, "serve", serve)
register(app, "migrate", migrate)
register(app, "install-plpython", install_plpython)
register(app, "uninstall-plpython", uninstall_plpython)
register(app, "version", version)
register(app, "uninstall", uninstall)


def run() -> None:
    """Entry point of the process: the commands, and whatever a closed pipe leaves behind."""
    open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that is not UTF-8 shows a substitute instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code: object = conf.OK
    try:
        app(prog_name="remem")
    except SystemExit as done:
        broken = done.__context__
        if isinstance(broken, BrokenPipeError):  # typer and rich make 1 of it
            done.code = conf.USAGE if broken.__context__ else conf.OK
        code = done.code
        raise
    except OSError as error:  # the help or the version cannot be written
        code = run_guarded(Settings(), partial(_raise, error))
        sys.exit(code)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                silence(stream)
        leave_the_late_behind(code)


def _raise(error: OSError) -> NoReturn:
    raise error


def leave_the_late_behind(code: object) -> None:
    """End the process at once where work that ran out of time still runs in a thread.

    The interpreter ends such threads as they come out of native code, which a model that is being
    loaded answers by aborting the process.
    """
    # Nothing is left behind by what was never loaded.
    settle = sys.modules.get("remem_pg.database.settle")
    late = settle is not None and any(t.name in settle.THREADS for t in threading.enumerate())
    if late and sys.exc_info()[0] in (None, SystemExit) and isinstance(code, int | None):
        sys.stderr.flush()
        os._exit(code or conf.OK)


__all__ = ["app", "run", "run_guarded"]
