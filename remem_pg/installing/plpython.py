"""Puts a model inside the database, for SQL callers without a client, and takes it out again."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.embedding.base import descriptor_of, fingerprint
from remem_pg.errors import (
    EmbeddingUnavailable,
    InvalidArgument,
    NoAccess,
    NotInstalled,
    from_psycopg,
)
from remem_pg.installing.plpython_script import QUOTE, SCHEMA, UNINSTALL, render

if TYPE_CHECKING:
    import psycopg

    from remem_pg.embedding.onnx import OnnxEmbedding

PROBE_TEXT = "memory"
CLOSE_ENOUGH = 0.999
"""Cosine between the server's vector and the client's, below which they are two models."""

# What the server's account can do with the paths, as JSON. Runs inside the server.
_PROBE = """
import json, os, pwd, sys

def problem(path):
    parts = [path]
    while os.path.dirname(parts[0]) != parts[0]:
        parts.insert(0, os.path.dirname(parts[0]))
    for part in parts:
        if not os.path.exists(part):
            return ["missing", path, part]
        wanted = os.X_OK if part != path else os.R_OK | (os.X_OK if os.path.isdir(part) else 0)
        if not os.access(part, wanted):
            return ["unreadable", path, part]
    return ["writable", path, path] if os.stat(path).st_mode & 0o002 else None

return json.dumps({
    "python": list(sys.version_info[:2]),
    "account": pwd.getpwuid(os.geteuid()).pw_name,
    "problems": [found for found in map(problem, json.loads(paths)) if found],
})
"""


@dataclass(frozen=True, slots=True)
class PlpythonReport:
    """What `install` did: the model, its space, and the Python and account that run it."""

    model: str
    fingerprint: str
    dimensions: int
    python: str
    account: str
    packages: tuple[str, ...]


def own_packages() -> tuple[Path, ...]:
    """Where this Python's installed packages are."""
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(Path(paths[name]) for name in ("purelib", "platlib")))


def install(
    conninfo: str,
    model: OnnxEmbedding,
    packages: Sequence[Path] | None = None,
    *,
    embed_on_write: bool = False,
    default_space: bool = False,
) -> PlpythonReport:
    """Runs the script, then has the server embed a word and compares it with this process's vector;
    nothing stays where that fails.

    Args:
        conninfo: of a superuser, in the database that remem is in.
        model: files and Python have to be on the server's machine, readable for its account.
        packages: directories of installed packages, made for the server's Python; None: those of
            this Python.
        embed_on_write: has writers wait for the vectors of what arrives without.
        default_space: makes the model's space the one of new workspaces.

    Raises NoAccess (no superuser), NotInstalled (no schema remem), EmbeddingUnavailable (the server
    has no plpython3u, cannot read a file or cannot load the model), InvalidArgument (a path that
    anybody may write to).
    """
    import psycopg

    places = [Path(path).absolute() for path in packages or own_packages()]
    statements = render(model, places, embed_on_write=embed_on_write, default_space=default_space)
    descriptor = descriptor_of(model)
    try:
        with psycopg.connect(
            conninfo, autocommit=True, prepare_threshold=None, client_encoding="utf8"
        ) as conn:
            _check_server(conn)
            server = _probe(conn, [*places, *_files(model)], own=packages is None)
            try:
                with conn.transaction():
                    conn.execute(statements.encode())
                    vector = _row(conn, f"select {SCHEMA}.embed(%s)", [[PROBE_TEXT]])[0]
                    _compare(model, vector)
            except psycopg.errors.ExternalRoutineException as error:
                raise _unusable(error, server) from error
    except psycopg.Error as error:
        raise from_psycopg(error) or error from error
    return PlpythonReport(
        model=str(descriptor["name"]),
        fingerprint=fingerprint(descriptor),
        dimensions=int(descriptor["dimensions"]),
        python=".".join(map(str, server["python"])),
        account=str(server["account"]),
        packages=tuple(map(str, places)),
    )


def uninstall(conninfo: str) -> bool:
    """Drops the superuser's part; says whether there was one. Raises NoAccess."""
    import psycopg

    try:
        with psycopg.connect(conninfo, autocommit=True) as conn:
            there = _row(conn, "select to_regnamespace(%s) is not null", [SCHEMA])[0]
            conn.execute(UNINSTALL.encode())
            return bool(there)
    except psycopg.Error as error:
        raise from_psycopg(error) or error from error


def _row(conn: psycopg.Connection[Any], query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = conn.execute(query.encode(), values).fetchone()
    return row or ()


def _files(model: OnnxEmbedding) -> list[Path]:
    return [Path(model.arguments[name]) for name in ("path", "tokenizer")]


def _check_server(conn: psycopg.Connection[Any]) -> None:
    superuser, installed, version, available = _row(
        conn,
        "select (select rolsuper from pg_roles where rolname = current_user), "
        "to_regnamespace('remem') is not null, current_setting('server_version_num')::int / 10000, "
        "exists (select from pg_available_extensions where name = 'plpython3u')",
    )
    if not superuser:
        raise NoAccess(
            "only a superuser may make functions in plpython3u",
            hint="connect as one, or have one run what remem install-plpython --print prints",
        )
    if not installed:
        raise NotInstalled(detail={"schema": "remem"})
    if not available:
        raise EmbeddingUnavailable(
            "this server has no plpython3u",
            hint=f"on Debian and Ubuntu: apt-get install postgresql-plpython3-{version}",
        )


def _probe(conn: psycopg.Connection[Any], paths: Sequence[Path], *, own: bool) -> Mapping[str, Any]:
    """What the server's Python is and what its account can read; raises where it is too little."""
    with conn.transaction(force_rollback=True):
        conn.execute("create extension if not exists plpython3u")
        conn.execute(
            "create function pg_temp.remem_probe(paths text) returns text "
            f"language plpython3u as {QUOTE}{_PROBE}{QUOTE}".encode()
        )
        said = _row(conn, "select pg_temp.remem_probe(%s)", [json.dumps([str(p) for p in paths])])
    server: dict[str, Any] = json.loads(said[0])
    version = ".".join(map(str, server["python"]))
    recipe = (
        f"on the server: python{version} -m venv /opt/remem && /opt/remem/bin/pip install "
        "'remem-pg[minilm]' && /opt/remem/bin/remem install-plpython"
    )
    if own and tuple(server["python"]) != sys.version_info[:2]:
        raise EmbeddingUnavailable(
            f"plpython3u runs Python {version}, this is {sys.version_info[0]}."
            f"{sys.version_info[1]}: its packages are made for another one",
            hint=recipe,
        )
    for kind, path, part in server["problems"]:
        detail = {"path": path, "at": part, "account": server["account"]}
        if kind == "writable":
            raise InvalidArgument(
                f"anybody may write to {path}, and so could run code as the server's account",
                detail=detail,
                hint=f"chmod o-w {path}",
            )
        what = (
            "does not exist on the server"
            if kind == "missing"
            else (f"is closed to the server's account {server['account']}")
        )
        raise EmbeddingUnavailable(f"{part} {what}", detail=detail, hint=recipe)
    return server


def _compare(model: OnnxEmbedding, vector: Sequence[Sequence[float]]) -> None:
    import numpy as np

    mine = model.embed([PROBE_TEXT])[0]
    theirs = np.asarray(vector, dtype=np.float32).reshape(-1)
    if theirs.shape != mine.shape or float(mine @ theirs) < CLOSE_ENOUGH:
        raise EmbeddingUnavailable("the server's vectors differ from this client's")


def _unusable(
    error: psycopg.errors.ExternalRoutineException, server: Mapping[str, Any]
) -> EmbeddingUnavailable:
    version = ".".join(map(str, server["python"]))
    return EmbeddingUnavailable(
        f"the server's Python {version} cannot load the model: {error.diag.message_primary}",
        hint=f"--site-packages names a directory with remem-pg[minilm] for Python {version}",
    )
