"""``serve``: the embedded Postgres in the foreground. ``version``: what runs where."""

from __future__ import annotations

import shlex
from typing import Any

from remem_pg.cli.connect import (
    ensure_installed,
    model_line,
    open_memory,
    resolve,
    target,
)
from remem_pg.cli.output import clean
from remem_pg.cli.settings import Settings, print_json


def serve(settings: Settings) -> int | None:
    """Run the embedded Postgres until Ctrl-C or SIGTERM, and print how to reach it."""
    from remem_pg import embedded

    if settings.dsn:
        settings.note("serve runs the embedded Postgres; the DSN given is not used.")
    data_dir = settings.data_dir or embedded.default_data_dir()

    def ready(dsn: str) -> None:
        ensure_installed(settings, dsn)
        lines = {
            "dsn": dsn,
            "psql": f"psql {shlex.quote(dsn)}",
            "env": f"export REMEM_DSN={shlex.quote(dsn)}",
            "data_dir": str(data_dir),
        }
        if settings.json:
            print_json(lines)
            return
        out = settings.out
        out.print(f"Postgres runs in {clean(str(data_dir))}", soft_wrap=True)
        for name in ("dsn", "psql", "env"):
            out.print(f"{name:<5} {lines[name]}", soft_wrap=True)
        out.print("Ctrl-C stops it.")
        out.file.flush()

    stopped = embedded.serve(data_dir, ready)
    settings.note("Stopped." if stopped else "Left running: other processes still use it.")
    return None


def version(settings: Settings) -> int | None:
    """Print the versions of the client and the database, the role and the embedding."""
    import psycopg

    from remem_pg.version import COMPATIBILITY, __version__

    where = target(settings, start=False)
    model = resolve(settings.embedding)
    document: dict[str, Any] = {
        "client": {"version": __version__, "compatibility": COMPATIBILITY},
        "database": None,
        "server": where.place,
        "role": None,
        "embedding": {"name": model.name, "line": model_line(model)},
        "space": None,
    }
    out = settings.out
    if where.dsn is None:
        if settings.json:
            print_json(document)
            return None
        out.print(f"client      remem {__version__}")
        out.print(clean(f"server      no {where.place} yet: remem init"), soft_wrap=True)
        out.print(f"embedding   {model_line(model)}", soft_wrap=True)
        return None
    memory = open_memory(settings)
    server = memory.version()
    with psycopg.connect(where.dsn, autocommit=True) as conn:
        (role,) = conn.execute("select current_user").fetchone() or ("",)
    space = memory.current_space()
    if settings.json:
        print_json(document | {"database": server.details, "role": role, "space": space})
        return None
    out.print(f"client      remem {__version__}")
    out.print(clean(f"server      {where.place}, as role {role}"), soft_wrap=True)
    out.print(f"database    remem {server.version}, compatibility {server.compatibility}")
    for name in ("postgres", "pgvector", "tenant_mode"):
        if name in server.details:
            out.print(clean(f"            {name} {server.details[name]}"), soft_wrap=True)
    out.print(f"embedding   {model_line(model)}", soft_wrap=True)
    out.print(
        clean(f"space       {space.name} ({space.dimensions} dimensions) in {settings.workspace}"),
        soft_wrap=True,
    )
    return None
