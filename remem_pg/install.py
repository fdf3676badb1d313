"""Install, upgrade and remove the `remem` schema.

`migrations/` changes tables and runs once, recorded with a checksum in `remem.schema_migration`;
`sql/` holds only create-or-replace and is run in full every time. Both happen in one transaction
behind one advisory lock, so that any number of installers may start at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remem_pg.errors import (
    InvalidArgument,
    NoAccess,
    NotInstalled,
    PgvectorMissing,
    RememError,
    from_psycopg,
)
from remem_pg.installing.obstacles import (
    applied,
    extension_version,
    fetch,
    installed_version,
    may_create_pgvector,
    too_old,
    wrong_kind,
    wrong_package,
    wrong_role,
    wrong_server,
)
from remem_pg.installing.scripts import (
    INSTALL_LOCK,
    INSTALL_SETTINGS,
    VERSION,
    functions,
    migrations,
    quote_identifier,
    render_sql,
    statements,
)
from remem_pg.version import COMPATIBILITY

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
    extension: bool = False
    """Whether it was installed by CREATE EXTENSION: then the server upgrades it."""


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
    if isinstance(typed, NoAccess) and not error.diag.message_hint:
        # What is missing here is a right in Postgres, not a grant of ours.
        typed.hint = "connect as the owner of the schema remem, or as a role that may create it"
    return error if typed is None or isinstance(typed, NotInstalled) else typed


@contextmanager
def _connection(target: str | psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A connection of our own for a conninfo; the caller's as it is, its transaction state kept.

    Errors that psycopg raises inside become ours.
    """
    import psycopg

    try:
        if isinstance(target, str):
            with psycopg.connect(
                target, autocommit=True, prepare_threshold=None, client_encoding="utf8"
            ) as own:
                yield own
        else:
            yield target
    except psycopg.Error as error:
        raise _typed(error) from error


def plan(target: str | psycopg.Connection[Any]) -> InstallPlan:
    """Looks at the database and says what `migrate` would do; changes nothing.

    `problem` is what `migrate` would raise. Raises NoAccess where this role may not even look.
    """
    with _connection(target) as conn:
        return _plan(conn)[0]


def _plan(conn: psycopg.Connection[Any]) -> tuple[InstallPlan, RememError | None]:
    """The plan, and the error that stands in its way."""
    database, role, server = fetch(
        conn,
        "select current_database(), current_user, current_setting('server_version')",
    )
    found = fetch(
        conn,
        "select n.nspname, e.extversion from pg_extension e "
        "join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'",
    )
    ran = applied(conn)
    installed = installed_version(conn)
    creates, lacking = (False, too_old(found[1])) if found else may_create_pgvector(conn, database)
    pending = tuple(s.name for s in migrations() if s.version not in ran)
    extension = extension_version(conn)
    obstacle = wrong_server(conn) or wrong_role(conn, role) or wrong_package(ran, installed)
    obstacle = obstacle or wrong_kind(extension, bool(pending)) or lacking
    return InstallPlan(
        database=database,
        role=role,
        server_version=server,
        installed_version=installed,
        pgvector_schema=found[0] if found else None,
        pgvector_version=found[1] if found else None,
        creates_pgvector=creates,
        pending=pending,
        problem=obstacle.sentence() if obstacle else None,
        hint=obstacle.hint if obstacle else None,
        extension=extension is not None,
    ), obstacle


def migrate(target: str | psycopg.Connection[Any]) -> MigrateReport:
    """Installs or upgrades in one transaction; safe to call from many processes at once.

    On a caller's connection that is in a transaction, it is a part of that. An extension of this
    version is left as it is. Raises PgvectorMissing (with who must run what), DatabaseNewer,
    Conflict (an applied migration differs from this package's, or remem is an extension of another
    version, which ALTER EXTENSION upgrades), NoAccess (the role may not create or does not own the
    schema), InvalidArgument (the database is not in UTF8, the server too old).
    """
    import psycopg

    with _connection(target) as conn:
        notices: list[str] = []

        def collect(diagnostic: psycopg.errors.Diagnostic) -> None:
            if diagnostic.severity_nonlocalized == "WARNING":
                notices.append(diagnostic.message_primary or "")

        outermost = conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        conn.add_notice_handler(collect)
        try:
            with conn.transaction():
                if outermost:
                    # Whoever waited for the lock has to see what the one before it did.
                    conn.execute("set transaction isolation level read committed, read write")
                conn.execute("select pg_advisory_xact_lock(%s)", (INSTALL_LOCK,))
                return _migrate_locked(conn, notices)
        finally:
            conn.remove_notice_handler(collect)


def _migrate_locked(conn: psycopg.Connection[Any], notices: list[str]) -> MigrateReport:
    found, obstacle = _plan(conn)
    if obstacle:
        raise obstacle
    if found.creates_pgvector:
        conn.execute("create extension vector")
        found = _plan(conn)[0]
    if found.pgvector_schema is None or found.pgvector_version is None:
        raise PgvectorMissing("pgvector vanished during the installation")
    if found.extension:  # of this version: nothing is pending, and its functions are its own
        return _report(found, notices)
    # Loads the library: without it a role that is no superuser may not name hnsw settings.
    conn.execute(f"select '[1]'::{quote_identifier(found.pgvector_schema)}.vector".encode())
    with _pinned(conn):
        for _, text in statements(found.pgvector_schema, frozenset(applied(conn))):
            conn.execute(text.encode())
    return _report(found, notices)


def _report(found: InstallPlan, notices: list[str]) -> MigrateReport:
    return MigrateReport(
        version=VERSION,
        previous_version=found.installed_version,
        applied=found.pending,
        pgvector_schema=found.pgvector_schema or "",
        pgvector_version=found.pgvector_version or "",
        notices=tuple(notices),
    )


@contextmanager
def _pinned(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """The settings of the installation; put back by hand, for a caller's transaction may go on."""
    before = {n: fetch(conn, "select current_setting(%s)", n)[0] for n in INSTALL_SETTINGS}
    for name, value in INSTALL_SETTINGS.items():
        conn.execute("select set_config(%s, %s, true)", (name, value))
    yield
    for name, value in before.items():
        conn.execute("select pg_catalog.set_config(%s, %s, true)", (name, value))


def contents(target: str | psycopg.Connection[Any]) -> dict[str, int]:
    """How many workspaces and memories an uninstall would drop."""
    with _connection(target) as conn:
        if fetch(conn, "select to_regclass('remem.memory')")[0] is None:
            raise NotInstalled(detail={"schema": "remem"})
        workspaces, memories = fetch(
            conn,
            "select (select count(*) from remem.workspace), (select count(*) from remem.memory)",
        )
        return {"workspaces": int(workspaces), "memories": int(memories)}


def uninstall(target: str | psycopg.Connection[Any], *, confirm: bool = False) -> dict[str, int]:
    """Drops the schema with every memory in it; pgvector stays. Returns what was dropped.

    Raises InvalidArgument without `confirm=True`, NotInstalled where there is nothing to drop.
    """
    if not confirm:
        raise InvalidArgument(
            detail={"argument": "confirm"}, hint="Pass confirm=True: every memory is dropped"
        )
    with _connection(target) as conn, conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", (INSTALL_LOCK,))
        dropped = contents(conn)
        conn.execute("drop schema remem cascade")
        return dropped
