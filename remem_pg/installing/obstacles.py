"""What a database says before an installation, and what stands in the way of one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from remem_pg.errors import (
    Conflict,
    DatabaseNewer,
    InvalidArgument,
    NoAccess,
    PgvectorMissing,
    RememError,
)
from remem_pg.installing.scripts import VERSION, migrations

if TYPE_CHECKING:
    import psycopg

MINIMUM_PGVECTOR = (0, 8)
MINIMUM_POSTGRES = 15


def fetch(conn: psycopg.Connection[Any], query: str, *params: Any) -> Any:
    """The first row as a tuple, whatever rows the caller's connection makes; None without one."""
    from psycopg.rows import tuple_row

    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query, params or None).fetchone()
    # Under the client encoding SQL_ASCII psycopg decodes nothing.
    return row and tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in row)


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a version, to be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def applied(conn: psycopg.Connection[Any]) -> dict[int, tuple[str, str]]:
    """Version to (name, checksum) of the migrations that ran here."""
    if fetch(conn, "select to_regclass('remem.schema_migration')")[0] is None:
        return {}
    (rows,) = fetch(
        conn,
        "select coalesce(jsonb_agg(jsonb_build_array(version, name, sha256) order by version), "
        "'[]')::text from remem.schema_migration",
    )
    return {int(version): (str(name), str(sha256)) for version, name, sha256 in json.loads(rows)}


def installed_version(conn: psycopg.Connection[Any]) -> str | None:
    """The version recorded in the database, or None where remem is not installed."""
    if fetch(conn, "select to_regclass('remem.setting')")[0] is None:
        return None
    row = fetch(conn, "select value from remem.setting where name = 'version'")
    return str(row[0]) if row else None


def wrong_server(conn: psycopg.Connection[Any]) -> RememError | None:
    """What the guard in `sql/` refuses too, for those who run the script through psql."""
    encoding, version = fetch(
        conn,
        "select current_setting('server_encoding'), current_setting('server_version_num')::int",
    )
    if encoding != "UTF8":
        return InvalidArgument(
            detail={"argument": "server_encoding", "value": encoding},
            hint="Create the database with encoding UTF8 (any locale will do)",
        )
    if version < MINIMUM_POSTGRES * 10000:
        return InvalidArgument(
            detail={"argument": "server_version", "value": version // 10000},
            hint=f"remem needs Postgres {MINIMUM_POSTGRES} or newer",
        )
    return None


def wrong_role(conn: psycopg.Connection[Any], role: str) -> RememError | None:
    """Only the owner itself upgrades: what another role created would run with its rights."""
    row = fetch(conn, "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'remem'")
    if row is not None and row[0] != role:
        return NoAccess(
            f"the schema remem belongs to {row[0]}, not to {role}",
            detail={"schema": "remem", "role": role, "owner": row[0]},
            hint=f"Connect as {row[0]}, or set role to it first",
        )
    if row is None and fetch(
        conn, "select has_database_privilege(current_database(), 'create')"
    ) == (False,):
        return NoAccess(
            f"{role} may not create a schema in this database",
            detail={"role": role},
            hint="As the owner of the database run: grant create on database ... to ...",
        )
    return None


def extension_version(conn: psycopg.Connection[Any]) -> str | None:
    """The version of the extension remem, or None where the schema was installed without it."""
    row = fetch(conn, "select extversion from pg_extension where extname = 'remem'")
    return str(row[0]) if row else None


def wrong_kind(extension: str | None, pending: bool) -> RememError | None:
    """An extension is upgraded by the server, which knows what belongs to it, and not from here."""
    if extension is None or (extension == VERSION and not pending):
        return None
    return Conflict(
        f"remem {extension} is installed here as an extension",
        detail={"extension": extension, "expected": VERSION},
        hint=f"Put the files of version {VERSION} on the server (make extension), then as the "
        "owner run: alter extension remem update",
    )


def wrong_package(applied: dict[int, tuple[str, str]], installed: str | None) -> RememError | None:
    """A database that a newer package installed, or whose migrations are not this package's."""
    known = {s.version: s for s in migrations()}
    newer = [name for version, (name, _) in applied.items() if version not in known]
    if newer or (installed and parse_version(installed) > parse_version(VERSION)):
        return DatabaseNewer(
            detail={
                "got": newer[-1] if newer else installed,
                "expected": migrations()[-1].name if newer else VERSION,
            },
            hint=f"It was installed by remem {installed}: upgrade this package",
        )
    for version, (name, sha256) in applied.items():
        if known[version].sha256 != sha256:
            return Conflict(
                f"the migration {name} that ran here is not the one of this package",
                detail={"migration": name, "got": known[version].sha256, "expected": sha256},
                hint="A migration that ran here was edited since: use the package that ran it",
            )
    return None


def too_old(pgvector: str) -> RememError | None:
    """An installed pgvector that lacks what recall needs."""
    if parse_version(pgvector) >= MINIMUM_PGVECTOR:
        return None
    return PgvectorMissing(
        f"pgvector {pgvector} is installed, 0.8 or newer is needed",
        hint="As a superuser run: alter extension vector update",
    )


def may_create_pgvector(
    conn: psycopg.Connection[Any], database: str
) -> tuple[bool, RememError | None]:
    """Whether this role may create the extension that is absent, and the error if not."""
    row = fetch(
        conn,
        "select v.version, v.trusted, "
        "(select r.rolsuper from pg_roles r where r.rolname = current_user), "
        "has_database_privilege(current_database(), 'create') "
        "from pg_available_extension_versions v "
        "where v.name = 'vector' order by string_to_array(v.version, '.')::int[] desc limit 1",
    )
    if row is None:
        return False, PgvectorMissing(
            "pgvector is not available on this server",
            hint="Install the pgvector package for this Postgres (0.8 or newer), then as a "
            f"superuser in database {database} run: create extension vector",
        )
    version, trusted, superuser, may_create = row
    if parse_version(version) < MINIMUM_PGVECTOR:
        return False, PgvectorMissing(
            f"the server offers pgvector {version}, 0.8 or newer is needed",
            hint="Upgrade the pgvector package",
        )
    if superuser or (trusted and may_create):
        return True, None
    return False, PgvectorMissing(
        f"pgvector is not installed in database {database}",
        hint=f"As a superuser in database {database} run once: create extension vector",
    )
