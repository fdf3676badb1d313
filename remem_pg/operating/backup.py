"""Backup and restore of a whole installation: pg_dump and pg_restore, counts, and ``migrate``.

A backup is the archive that pg_dump writes and, beside it, a small JSON file with the number of
rows of every table at the very moment of the archive. A restore loads tables and rows only:
functions come from this package by ``migrate``, which an ordinary role can always do (restoring
them would fail where nothing has loaded pgvector's library). What was there before is kept under
another name until the new one is proved whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.errors import Conflict, DatabaseNewer, InvalidArgument, NotInstalled, RememError
from remem_pg.server.clients import connection_arguments, find_program, programs_named

if TYPE_CHECKING:
    import psycopg

FORMAT = 1
KEPT = "remem_before_restore"

# What migrate makes anew. Nothing that is restored depends on it.
_MADE_ANEW = ("FUNCTION", "PROCEDURE", "AGGREGATE", "VIEW", "ACL", "DEFAULT ACL")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands beside an archive: where it comes from, and its rows by table."""

    format: int
    migration: int
    server_version: int
    pgvector_schema: str
    made_at: str
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restored:
    """``rows`` by table, as they were and are; ``migrated``: migrations that were pending;
    ``dead_grants``: roles whose grant does not hold in this cluster."""

    rows: dict[str, int]
    migrated: tuple[str, ...]
    dead_grants: tuple[str, ...]


def manifest_path(archive: Path) -> Path:
    """The file beside an archive."""
    return archive.with_name(archive.name + ".json")


def backup(dsn: str, archive: Path) -> Manifest:
    """Writes an archive and its manifest; both appear whole or not at all.

    Raises InvalidArgument (no pg_dump of the server's release or later; the file is there),
    NotInstalled, and RememError with what pg_dump said.
    """
    import psycopg

    if archive.exists():
        raise InvalidArgument(f"{archive} exists already", hint="name another file")
    with psycopg.connect(dsn, client_encoding="utf8") as conn:
        conn.execute("set transaction isolation level repeatable read, read only")
        if _value(conn, "select to_regclass('remem.schema_migration')") is None:
            raise NotInstalled(detail={"schema": "remem"})
        made = Manifest(
            FORMAT,
            _value(conn, "select max(version) from remem.schema_migration"),
            conn.info.server_version,
            _value(conn, _PGVECTOR) or "",
            str(_value(conn, "select now()::text")),
            count_rows(conn),
        )
        program = find_program("pg_dump", conn.info.server_version // 10000)
        snapshot = _value(conn, "select pg_export_snapshot()")
        unfinished = archive.with_name(archive.name + ".partial")
        try:
            # Memories are nobody else's business, and a file or link that somebody put there under
            # this name keeps its own permissions and place.
            unfinished.unlink(missing_ok=True)
            os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _run(
                program,
                dsn,
                "--format=custom",
                "--schema=remem",
                f"--snapshot={snapshot}",
                f"--file={unfinished}",
            )
            manifest_path(archive).write_text(json.dumps(asdict(made), indent=2) + "\n")
            unfinished.replace(archive)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    return made


def read_manifest(archive: Path) -> Manifest:
    """The manifest of an archive; InvalidArgument when one of the two files is missing or wrong."""
    path = manifest_path(archive)
    for each in (archive, path):
        if not each.is_file():
            raise InvalidArgument(
                f"{each} is not there",
                hint="a backup is two files: FILE from pg_dump and FILE.json beside it",
            )
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        found = None
    form = found.get("format") if isinstance(found, dict) else None
    if type(form) is int and form != FORMAT:
        raise InvalidArgument(
            f"the backup has format {form}, this client reads {FORMAT}",
            hint="pip install --upgrade remem-pg",
        )
    if form is None or not _is_manifest(found):
        raise InvalidArgument(
            f"{archive} is not a backup of remem: {path.name} is no manifest",
            hint="restore what remem backup wrote",
        )
    return Manifest(**found)


def _is_manifest(found: dict[str, Any]) -> bool:
    """Whether a document has the fields of a manifest, each of its type."""
    kinds = {"format": int, "migration": int, "server_version": int, "rows": dict}
    return found.keys() == {each.name for each in fields(Manifest)} and all(
        type(value) is kinds.get(name, str) for name, value in found.items()
    )


def restore(dsn: str, archive: Path, *, confirm: bool = False) -> Restored:
    """Puts a backup in the place of what the database has, and proves every table's row count.

    Raises InvalidArgument (no confirmation though remem is installed there; an older server),
    Conflict (pgvector in another schema; other counts), PgvectorMissing, DatabaseNewer, and
    RememError with what pg_restore said. After a failure the database is as it was.
    """
    import psycopg

    from remem_pg import install

    archive = archive.absolute()  # a name that begins with a dash is no option of pg_restore
    manifest = read_manifest(archive)
    newest = max(script.version for script in install.migrations())
    if manifest.migration > newest:
        raise DatabaseNewer(
            detail={"got": manifest.migration, "expected": newest},
            hint="pip install --upgrade remem-pg",
        )
    with psycopg.connect(dsn, autocommit=True, client_encoding="utf8") as conn:
        _check_target(conn, manifest, confirm)
        program = _restorer(conn.info.server_version // 10000, archive)
        with _set_aside(conn):
            with _table_list(program, archive) as wanted:
                _run(
                    program,
                    dsn,
                    "--no-owner",
                    "--no-privileges",
                    "--exit-on-error",
                    "--single-transaction",
                    f"--use-list={wanted}",
                    str(archive),
                )
            found = count_rows(conn)
            if found != manifest.rows:
                raise Conflict(
                    "the restored tables have other row counts than the backup",
                    detail={
                        name: {"expected": manifest.rows.get(name), "got": found.get(name)}
                        for name in sorted(found.keys() | manifest.rows.keys())
                        if manifest.rows.get(name) != found.get(name)
                    },
                )
            report = install.migrate(conn)
            # a restored table has no statistics
            for (table,) in conn.execute(_TABLES).fetchall():
                conn.execute(f"analyze {table}".encode())
            dead = conn.execute(
                "select distinct g.role_name::text from remem.access_grant g "
                "where g.role_name is distinct from "
                "(select r.rolname from pg_roles r where r.oid = g.role_oid) order by 1"
            ).fetchall()
    return Restored(found, report.applied, tuple(name for (name,) in dead))


def count_rows(conn: psycopg.Connection[Any]) -> dict[str, int]:
    """The number of rows of every table of the schema that an archive keeps."""
    from psycopg import sql

    return {
        name: _value(conn, sql.SQL("select count(*) from {}").format(sql.Identifier("remem", name)))
        for (name,) in conn.execute(
            "select c.relname::text from pg_class c where c.relnamespace = 'remem'::regnamespace"
            " and c.relkind = 'r' and c.relpersistence = 'p' order by 1"
        ).fetchall()
    }


_PGVECTOR = (
    "select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace "
    "where e.extname = 'vector'"
)
_TABLES = (
    "select c.oid::regclass::text from pg_class c where c.relnamespace = 'remem'::regnamespace "
    "and c.relkind = 'r'"
)


def _check_target(conn: psycopg.Connection[Any], manifest: Manifest, confirm: bool) -> None:
    from remem_pg import install

    server = conn.info.server_version // 10000
    if server < manifest.server_version // 10000:
        raise InvalidArgument(
            f"the backup is of Postgres {manifest.server_version // 10000}, this is {server}",
            hint="restore it into the same release or a later one",
        )
    for name in ("remem", KEPT):
        there = _value(conn, "select exists (select from pg_namespace where nspname = %s)", (name,))
        if there and name == KEPT:
            raise Conflict(
                f"the schema {KEPT} is there, from a restore that did not end",
                hint=f"look at it, then: drop schema {KEPT} cascade",
            )
        if there and not confirm:
            losing = install.contents(conn)
            raise InvalidArgument(
                f"the database has remem with {losing['memories']} memories, which a restore "
                "would replace",
                detail=losing,
                hint="pass --confirm to do it",
            )
    found = _value(conn, _PGVECTOR)
    if found is None:
        plan = install.plan(conn)
        if not plan.creates_pgvector:
            from remem_pg.errors import PgvectorMissing

            raise PgvectorMissing(plan.problem or None, hint=plan.hint)
        conn.execute("create extension vector")
        found = _value(conn, _PGVECTOR)
    if found != manifest.pgvector_schema:
        raise Conflict(
            f"pgvector is in schema {found} here and was in {manifest.pgvector_schema}",
            hint=f"an administrator can: alter extension vector set schema "
            f"{manifest.pgvector_schema}",
        )


@contextmanager
def _set_aside(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """Keeps what is there under another name, and brings it back when the restore fails."""
    there = _value(conn, "select to_regnamespace('remem') is not null")
    if there:
        conn.execute(f"alter schema remem rename to {KEPT}".encode())
    try:
        yield
    except BaseException:
        with conn.transaction():
            conn.execute("drop schema if exists remem cascade")
            if there:
                conn.execute(f"alter schema {KEPT} rename to remem".encode())
        raise
    if there:
        conn.execute(f"drop schema {KEPT} cascade".encode())


def _restorer(server_major: int, archive: Path) -> Path:
    """The oldest pg_restore, from the server's release on, that reads the archive."""
    said = ""
    for program in programs_named("pg_restore", server_major):
        done = _execute([str(program), "--list", str(archive)], {})
        if done.returncode == 0:
            return program
        said = done.stderr.strip()
    if not said:
        return find_program("pg_restore", server_major)  # raises, and says what there is
    raise InvalidArgument(
        f"no pg_restore here reads {archive}: {said.splitlines()[-1]}",
        hint="install the client programs of the release that wrote it, or a later one",
    )


@contextmanager
def _table_list(program: Path, archive: Path) -> Iterator[str]:
    """A file with the entries of the archive that are tables, types, rows and indexes."""
    listing = _execute([str(program), "--list", str(archive)], {}).stdout
    kept = [line for line in listing.splitlines() if not _is_made_anew(line)]
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write("\n".join(kept) + "\n")
        file.flush()
        yield file.name


def _is_made_anew(line: str) -> bool:
    """Whether a line of a listing (``id; oid oid TYPE schema name owner``) is a function's."""
    words = line.split("; ", 1)[-1].split(" ", 2)[-1]
    if line.startswith(";") or ";" not in line:
        return False
    return words.startswith(tuple(f"{kind} " for kind in _MADE_ANEW)) or (
        words.startswith("COMMENT ") and words.split(" ")[2] in _MADE_ANEW
    )


def _run(program: Path, dsn: str, *arguments: str) -> None:
    database, environment = connection_arguments(dsn)
    done = _execute(
        [str(program), "--no-password", f"--dbname={database}", *arguments], environment
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines() or ["no message"]
        raise RememError(
            f"{program.name} failed: {last[0]}",
            detail={"program": str(program), "said": "\n".join(last[:20])},
        )


def _execute(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "PGOPTIONS": "", "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _value(conn: psycopg.Connection[Any], query: Any, parameters: tuple[Any, ...] = ()) -> Any:
    statement = query.encode() if isinstance(query, str) else query
    row = conn.execute(statement, parameters or None).fetchone()
    return row[0] if row else None
