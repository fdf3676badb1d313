"""Setting up: ``init``, ``migrate`` and ``uninstall``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import (
    AUTO,
    Model,
    Target,
    chosen,
    default_space,
    existing,
    from_managed,
    install_into,
    model_line,
    target,
)
from remem_pg.cli.embeddings import Source, bar
from remem_pg.cli.output import clean, counted
from remem_pg.cli.settings import Settings, print_json
from remem_pg.installing.scripts import quote_literal

if TYPE_CHECKING:
    from remem_pg.errors import EmbeddingUnavailable
    from remem_pg.install import InstallPlan
    from remem_pg.models import SpaceInfo

_PASTE = "select rank, score, body from remem.recall({workspace}, 'what do we know?');"


def init(
    settings: Settings,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse every call whose session does not name its workspace in remem.workspace.",
        ),
    ] = False,
    managed: Annotated[
        bool,
        typer.Option(
            "--managed",
            help="Embed with a neural model: an installed one, else one that is downloaded. "
            "Without any, init completes with the hash and says what to do.",
        ),
    ] = False,
    source: Source = None,
) -> int | None:
    """Install Remem in the database (or bring it up to date) and choose the embedding.

    What new workspaces embed with stays as it is from then on, unless --embedding, REMEM_EMBEDDING,
    REMEM_MODEL_PATH or --managed says otherwise.
    """
    from remem_pg import install

    where = target(settings, start=not dry_run)
    model, asked, unmanaged = _model(settings, managed, source, dry_run)
    plan = install.plan(where.dsn) if where.dsn else None
    pending = plan.pending if plan else tuple(script.name for script in install.migrations())
    document: dict[str, Any] = {
        "dry_run": dry_run,
        "embedded": where.embedded,
        "server": where.place,
        "plan": plan or {"pending": list(pending)},
        "embedding": {"name": model.name, "line": model_line(model)},
        "managed": {"asked": managed, "failure": unmanaged and unmanaged.as_dict()},
        "strict": strict,
    }
    if not settings.json:
        _print_plan(settings, where, plan, pending)
        settings.out.print(f"Embedding   {model_line(model)}", soft_wrap=True)
    if dry_run or where.dsn is None:
        _end_dry_run(settings, document, plan, strict)
        return conf.REFUSED if plan and plan.problem else None

    before = default_space(where.dsn) if plan and plan.installed_version else None
    other = before is not None and _other(before, model)
    kept = other and not asked
    report, space = install_into(where.dsn, replace(model, model=None) if kept else model)
    document["embedding"] |= {"kept": kept, "before": before and before.name}
    if strict:
        _make_strict(where.dsn)
    paste = _PASTE.format(workspace=quote_literal(settings.workspace or ""))
    if settings.json:
        document |= {"report": report, "space": space, "paste": paste}
        print_json(document | ({"tenant": _tenant_lines(settings)} if strict else {}))
        return None
    applied = ", ".join(report.applied) or "none, functions refreshed"
    version = report.previous_version
    previous = f" (was {version})" if version and version != report.version else ""
    out = settings.out
    out.print(
        f"Installed   remem {report.version}{previous}; migrations: {applied}", soft_wrap=True
    )
    out.print(
        f"pgvector    {report.pgvector_version} in schema {report.pgvector_schema}", soft_wrap=True
    )
    was = f" (was {before.name})" if other and not kept and before else ""
    what = f"{space.name}, {space.dimensions} dimensions: default for new workspaces{was}"
    out.print(clean(f"Space       {what}"), soft_wrap=True)
    if kept:
        settings.err.print(clean(_kept(space, model)), style="yellow", soft_wrap=True)
    if strict:
        _print_strict(settings)
    for notice in report.notices:
        settings.err.print(clean(notice), style="yellow", soft_wrap=True)
    _print_next(settings, where, "\n".join(_tenant_lines(settings)) if strict else paste)
    return None


def _model(
    settings: Settings, managed: bool, source: str | None, dry_run: bool
) -> tuple[Model, bool, EmbeddingUnavailable | None]:
    """The model, whether somebody asked for this one, and why a managed one could not be had."""
    named = settings.embedding not in (None, AUTO)
    if not managed or named:
        return chosen(settings), named or bool(os.environ.get("REMEM_MODEL_PATH")), None
    from remem_pg.embedding import managed as management

    with bar(settings) as progress:
        found = management.managed(
            source=source, say=settings.announce, progress=progress, may_download=not dry_run
        )
    # the hash in place of a model that could not be had is nobody's wish
    return from_managed(found), found.failure is None, found.failure


def _other(space: SpaceInfo, model: Model) -> bool:
    """Whether the model belongs to another space than this one."""
    if model.model is None:
        return False
    from remem_pg.embedding.base import descriptor_of, fingerprint

    return fingerprint(descriptor_of(model.model)) != space.fingerprint


def _kept(space: SpaceInfo, model: Model) -> str:
    spec = "hash" if model.name == "hash" else "neural"
    return (
        f"Kept {space.name}, with which the database was set up; this process would embed with "
        f"{model.name}. To change the default of new workspaces: remem init --embedding {spec}"
    )


def _print_plan(
    settings: Settings, where: Target, plan: InstallPlan | None, pending: tuple[str, ...]
) -> None:
    out = settings.out
    out.print(f"Server      {clean(where.place)}", soft_wrap=True)
    if plan is None:
        out.print("            does not exist yet: it would be created there")
    else:
        out.print(
            f"Database    {clean(plan.database)} as role {clean(plan.role)}, "
            f"Postgres {plan.server_version}",
            soft_wrap=True,
        )
        out.print(f"Remem       {plan.installed_version or 'not installed'}")
        if plan.pgvector_schema:
            vector = f"{plan.pgvector_version} in schema {clean(plan.pgvector_schema)}"
        elif plan.creates_pgvector:
            vector = "not there; this role may create it: create extension vector"
        else:
            vector = "missing"
        out.print(f"pgvector    {vector}", soft_wrap=True)
        if plan.problem:
            settings.err.print(clean(plan.problem) + ".", style="bold red", soft_wrap=True)
            settings.err.print(f"Hint: {clean(plan.hint or '')}", style="yellow", soft_wrap=True)
    out.print(f"Migrations  {', '.join(pending) if pending else 'none pending'}", soft_wrap=True)


def _end_dry_run(
    settings: Settings, document: dict[str, Any], plan: InstallPlan | None, strict: bool
) -> None:
    if settings.json:
        print_json(document)
        return
    creates = [] if plan and plan.installed_version else ["schema remem with its tables"]
    creates.append("every function of remem (create or replace)")
    settings.out.print(f"Would make  {', '.join(creates)}", soft_wrap=True)
    if strict:
        settings.out.print("Would set   tenant_mode = strict")
    settings.out.print("Nothing was changed. The whole script: remem migrate --print")


def _make_strict(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select remem.configure('tenant_mode', 'strict')")


def _tenant_lines(settings: Settings) -> list[str]:
    """How a transaction names its workspace, as statements to paste."""
    name = quote_literal(settings.workspace or "")
    return [
        "begin;",
        f"select set_config('remem.workspace', {name}, true);",
        f"select rank, score, body from remem.recall({name}, 'what do we know?');",
        "commit;",
    ]


def _print_strict(settings: Settings) -> None:
    out = settings.out
    out.print(
        "Strict      every transaction names its workspace before it calls, the owner's too:",
        soft_wrap=True,
    )
    for line in _tenant_lines(settings):
        out.print(f"              {line}", soft_wrap=True)
    out.print(
        "            The third argument true ends the setting with the transaction, as a pooler "
        "needs it.",
        soft_wrap=True,
    )
    out.print(
        "            Remem, AsyncRemem and this command line do it by themselves, in the statement "
        "of each call.",
        soft_wrap=True,
    )


def _print_next(settings: Settings, where: Target, paste: str) -> None:
    out = settings.out
    out.print()
    flag = "" if settings.workspace == "default" else f" -w {settings.workspace}"
    out.print(f'Next: remem remember{flag} "We retry three times, then page."', soft_wrap=True)
    if where.embedded:
        out.print("psql needs the server running: remem serve prints its line. Then paste:")
    else:
        out.print("In psql, paste:")
    out.print(paste, soft_wrap=True, style="bold")


def migrate(
    settings: Settings,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the whole SQL for psql, change nothing.")
    ] = False,
    vector_schema: Annotated[
        str, typer.Option(help="Schema of pgvector, for --print without a database.")
    ] = "public",
) -> int | None:
    """Bring the database to this version: pending migrations and all functions."""
    from remem_pg import install

    if print_:
        _print_script(settings, vector_schema)
        return None
    where = target(settings)
    assert where.dsn is not None
    report = install.migrate(where.dsn)
    if settings.json:
        print_json(report)
        return None
    applied = ", ".join(report.applied) or "no migration was pending"
    settings.out.print(f"remem {report.version}: {applied}; all functions loaded", soft_wrap=True)
    for notice in report.notices:
        settings.err.print(clean(notice), style="yellow", soft_wrap=True)
    return None


def _print_script(settings: Settings, vector_schema: str) -> None:
    """The script for the database at hand (its pgvector schema, what it has applied already), or
    for an empty one when no DSN was given."""
    from remem_pg import install

    applied: frozenset[int] = frozenset()
    if settings.dsn:
        plan = install.plan(settings.dsn)
        vector_schema = plan.pgvector_schema or vector_schema
        pending = set(plan.pending)
        applied = frozenset(s.version for s in install.migrations() if s.name not in pending)
    text = install.render_sql(vector_schema, applied)
    if settings.json:
        print_json({"vector_schema": vector_schema, "sql": text})
    else:
        sys.stdout.write(text)


def uninstall(
    settings: Settings,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int | None:
    """Drop the schema remem with every memory in it. pgvector stays."""
    from remem_pg import install

    where = existing(settings)
    assert where.dsn is not None
    losing = install.contents(where.dsn)
    what = (
        f"schema remem on {where.place}: {counted(losing['memories'], 'memory', 'memories')} "
        f"in {counted(losing['workspaces'], 'workspace', 'workspaces')}"
    )
    if not yes:
        if settings.json or not sys.stdin.isatty():
            from remem_pg.errors import InvalidArgument

            raise InvalidArgument(
                f"uninstall would drop {what}", hint="pass --yes to do it", detail=losing
            )
        settings.out.print(clean(f"This drops {what}. There is no way back."), soft_wrap=True)
        if not typer.confirm("Drop it?", default=False):
            settings.out.print("Nothing was changed.")
            return conf.REFUSED
    dropped = install.uninstall(where.dsn, confirm=True)
    if settings.json:
        print_json({"dropped": dropped})
    else:
        settings.out.print(clean(f"Dropped {what}."), soft_wrap=True)
    return None
