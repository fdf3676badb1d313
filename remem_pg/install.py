"""Install, upgrade and remove the `remem` schema.

`migrations/` changes tables and runs once, recorded with a checksum in `remem.schema_migration`;
`sql/` holds only create-or-replace and is run in full every time. Both happen in one transaction
behind one advisory lock, so that any number of installers may start at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import (
    Conflict,
    DatabaseNewer,
    InvalidArgument,
    NotInstalled,
    PgvectorMissing,
    from_psycopg,
)
from .scripts import (
    INSTALL_LOCK,
    INSTALL_PATH,
    VERSION,
    functions,
    migrations,
    quote_identifier,
    render_sql,
    statements,
)
from .version import COMPATIBILITY

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "COMPATIBILITY",
    "INSTALL_LOCK",
    "VERSION",
    "InstallPlan",
    "MigrateReport",
    "contents",
    "functions",
    "installed_version",
    "migrate",
    "migrations",
    "plan",
    "render_sql",
    "uninstall",
]

MINIMUM_PGVECTOR = (0, 8)


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What `migrate` would do to a database, found without changing it."""

    database: str
    role: str
    server_version: str
    installed_version: str | None
    pgvector_schema: str | None
    pgvector_version: str | None
    creates_pgvector: bool
    pending: tuple[str, ...]
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """What `migrate` did."""

    version: str
    previous_version: str | None
    applied: tuple[str, ...]
    pgvector_schema: str
    pgvector_version: str
    notices: tuple[str, ...] = field(default=())


def _typed(error: psycopg.Error) -> Exception:
    """Our error for it; a fault in the installation itself stays what Postgres said."""
    typed = from_psycopg(error)
    return error if typed is None or isinstance(typed, NotInstalled) else typed


@contextmanager
def _connection(target: str | psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A connection of our own for a conninfo; the caller's as it is, its transaction state kept."""
    import psycopg

    if isinstance(target, str):
        try:
            own = psycopg.connect(target, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise _typed(error) from error
        with own:
            yield own
    else:
        yield target


def _fetch(conn: psycopg.Connection[Any], query: str, *params: Any) -> Any:
    from psycopg.rows import tuple_row

    with conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query, params or None).fetchone()


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _applied(conn: psycopg.Connection[Any]) -> dict[int, tuple[str, str]]:
    if _fetch(conn, "select to_regclass('remem.schema_migration')")[0] is None:
        return {}
    with conn.cursor() as cursor:
        cursor.execute("select version, name, sha256 from remem.schema_migration order by version")
        rows: list[Any] = cursor.fetchall()
    return {
        int(r[0]): (str(r[1]), str(r[2]))
        for r in (tuple(x.values()) if isinstance(x, dict) else x for x in rows)
    }


def installed_version(conn: psycopg.Connection[Any]) -> str | None:
    """The version recorded in the database, or None where remem is not installed."""
    if _fetch(conn, "select to_regclass('remem.setting')")[0] is None:
        return None
    row = _fetch(conn, "select value from remem.setting where name = 'version'")
    return str(row[0]) if row else None


def plan(target: str | psycopg.Connection[Any]) -> InstallPlan:
    """Looks at the database and says what `migrate` would do; changes nothing."""
    with _connection(target) as conn:
        database, role, server = _fetch(
            conn,
            "select current_database()::text, current_user::text, "
            "current_setting('server_version')",
        )
        found = _fetch(
            conn,
            "select n.nspname::text, e.extversion from pg_extension e "
            "join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'",
        )
        creates, problem, hint = False, None, None
        if found is None:
            creates, problem, hint = _may_create_pgvector(conn)
        elif _parse_version(found[1]) < MINIMUM_PGVECTOR:
            problem = f"pgvector {found[1]} is installed, 0.8 or newer is needed"
            hint = "As a superuser run: alter extension vector update"
        applied = _applied(conn)
        pending = tuple(s.name for s in migrations() if s.version not in applied)
        return InstallPlan(
            database=database,
            role=role,
            server_version=server,
            installed_version=installed_version(conn),
            pgvector_schema=found[0] if found else None,
            pgvector_version=found[1] if found else None,
            creates_pgvector=creates,
            pending=pending,
            problem=problem,
            hint=hint,
        )


def _may_create_pgvector(conn: psycopg.Connection[Any]) -> tuple[bool, str | None, str | None]:
    """(this role may create it, problem, hint) when the extension is absent."""
    row = _fetch(
        conn,
        "select v.version, v.trusted, "
        "(select r.rolsuper from pg_roles r where r.rolname = current_user), "
        "has_database_privilege(current_database(), 'create') "
        "from pg_available_extension_versions v "
        "where v.name = 'vector' order by string_to_array(v.version, '.')::int[] desc limit 1",
    )
    database = _fetch(conn, "select current_database()::text")[0]
    if row is None:
        return (
            False,
            "pgvector is not available on this server",
            "Install the pgvector package for this Postgres (0.8 or newer), then as a superuser "
            f"in database {database} run: create extension vector",
        )
    version, trusted, superuser, may_create = row
    if _parse_version(version) < MINIMUM_PGVECTOR:
        return (
            False,
            f"the server offers pgvector {version}, 0.8 or newer is needed",
            "Upgrade the pgvector package",
        )
    if superuser or (trusted and may_create):
        return True, None, None
    return (
        False,
        f"pgvector is not installed in database {database}",
        f"As a superuser in database {database} run once: create extension vector",
    )


def _check_ledger(conn: psycopg.Connection[Any]) -> frozenset[int]:
    """Versions already applied; refuses a newer database and an edited migration."""
    known = {s.version: s for s in migrations()}
    applied = _applied(conn)
    newer = [name for version, (name, _) in applied.items() if version not in known]
    if newer:
        raise DatabaseNewer(
            detail={"got": newer[-1], "expected": migrations()[-1].name},
            hint=f"It was installed by remem {installed_version(conn)}: upgrade this package",
        )
    for version, (name, sha256) in applied.items():
        if known[version].sha256 != sha256:
            raise Conflict(
                detail={"migration": name, "got": known[version].sha256, "expected": sha256},
                hint="A migration that ran here was edited since: use the package that ran it",
            )
    return frozenset(applied)


def migrate(target: str | psycopg.Connection[Any]) -> MigrateReport:
    """Installs or upgrades in one transaction; safe to call from many processes at once.

    Raises PgvectorMissing (with who must run what), DatabaseNewer, Conflict (an applied migration
    differs from this package's), NoAccess (the role may not create or does not own the schema).
    """
    import psycopg

    with _connection(target) as conn:
        notices: list[str] = []

        def collect(diagnostic: psycopg.errors.Diagnostic) -> None:
            if diagnostic.severity_nonlocalized == "WARNING":
                notices.append(diagnostic.message_primary or "")

        conn.add_notice_handler(collect)
        try:
            with conn.transaction():
                conn.execute("select pg_advisory_xact_lock(%s)", (INSTALL_LOCK,))
                return _migrate_locked(conn, notices)
        except psycopg.Error as error:
            raise _typed(error) from error
        finally:
            conn.remove_notice_handler(collect)


def _migrate_locked(conn: psycopg.Connection[Any], notices: list[str]) -> MigrateReport:
    found = plan(conn)
    if found.problem:
        raise PgvectorMissing(detail={"problem": found.problem}, hint=found.hint)
    if found.creates_pgvector:
        conn.execute("create extension vector")
        found = plan(conn)
    if found.pgvector_schema is None or found.pgvector_version is None:
        raise PgvectorMissing(detail={"problem": "pgvector vanished during the installation"})
    applied = _check_ledger(conn)
    # Loads the library: without it a role that is no superuser may not name hnsw settings.
    conn.execute(f"select '[1]'::{quote_identifier(found.pgvector_schema)}.vector".encode())
    # Put back by hand, because a caller's own transaction may go on after this.
    path = _fetch(conn, "select current_setting('search_path')")[0]
    conn.execute(f"set local search_path = {INSTALL_PATH}".encode())
    for _, text in statements(found.pgvector_schema, applied):
        conn.execute(text.encode())
    conn.execute("select set_config('search_path', %s, true)", (path,))
    return MigrateReport(
        version=VERSION,
        previous_version=found.installed_version,
        applied=found.pending,
        pgvector_schema=found.pgvector_schema,
        pgvector_version=found.pgvector_version,
        notices=tuple(notices),
    )


def contents(target: str | psycopg.Connection[Any]) -> dict[str, int]:
    """How many workspaces and memories an uninstall would drop."""
    with _connection(target) as conn:
        if _fetch(conn, "select to_regclass('remem.memory')")[0] is None:
            raise NotInstalled(detail={"schema": "remem"})
        workspaces, memories = _fetch(
            conn,
            "select (select count(*) from remem.workspace), (select count(*) from remem.memory)",
        )
        return {"workspaces": int(workspaces), "memories": int(memories)}


def uninstall(target: str | psycopg.Connection[Any], *, confirm: bool = False) -> dict[str, int]:
    """Drops the schema with every memory in it; pgvector stays. Returns what was dropped.

    Raises InvalidArgument without `confirm=True`, NotInstalled where there is nothing to drop.
    """
    import psycopg

    if not confirm:
        raise InvalidArgument(
            detail={"argument": "confirm"}, hint="Pass confirm=True: every memory is dropped"
        )
    with _connection(target) as conn:
        try:
            with conn.transaction():
                conn.execute("select pg_advisory_xact_lock(%s)", (INSTALL_LOCK,))
                dropped = contents(conn)
                conn.execute("drop schema remem cascade")
                return dropped
        except psycopg.Error as error:
            raise _typed(error) from error
