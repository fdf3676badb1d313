"""From the common options to a server, a client and an embedding model."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remem_pg.cli.settings import Settings

if TYPE_CHECKING:
    from remem_pg.client import Remem
    from remem_pg.embedding.base import EmbeddingModel
    from remem_pg.embedding.managed import Managed
    from remem_pg.install import MigrateReport
    from remem_pg.models import SpaceInfo

# A server that is thrown away need not survive a crash.
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
AUTO = "auto"
NONE = "none"


@dataclass(frozen=True)
class Target:
    """The database of a command.

    Attributes:
        dsn: conninfo; None for an embedded server that does not exist and was not to be started.
        embedded: whether it is the embedded server.
        place: where it is, in words without a password.
    """

    dsn: str | None
    embedded: bool
    place: str


@dataclass(frozen=True)
class Model:
    """A resolved embedding: the model (None: no vectors), its name, why it was chosen, and how to
    get a better one."""

    model: EmbeddingModel | None
    name: str
    reason: str
    hint: str


def target(settings: Settings, *, start: bool = True) -> Target:
    """The database the options name; without a DSN the embedded server, started and held until the
    command ends.

    Args:
        settings: the merged options.
        start: with False an embedded server that has no data yet is not made.

    Raises:
        EmbeddedUnavailable: the embedded Postgres is not installed or does not start.
        InvalidArgument: the DSN is none.
    """
    if settings.dsn:
        return Target(settings.dsn, False, _place(settings.dsn))
    from remem_pg.embedded import EmbeddedServer

    server = EmbeddedServer(settings.data_dir)
    place = f"embedded Postgres in {server.data_dir}"
    if not start and not (server.data_dir / "pgdata").exists():
        return Target(None, True, place)
    if start and not (server.data_dir / "pgdata").exists():
        settings.note(f"Creating an {place} ...")
    settings.resources.append(_Hold(server.stop))
    return Target(server.start(), True, place)


def existing(settings: Settings) -> Target:
    """The database the options name, for a command that only looks or changes what is there.

    Raises:
        NotInstalled: there is no embedded server yet; it is not made.
    """
    from remem_pg.errors import NotInstalled

    where = target(settings, start=False)
    if where.dsn is None:
        raise NotInstalled(f"there is no {where.place} yet")
    return where


@dataclass(frozen=True)
class _Hold:
    stop: Any

    def close(self) -> None:
        self.stop()


def _place(dsn: str) -> str:
    """Host, port and database of a conninfo, without user and password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    from remem_pg.errors import InvalidArgument

    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:  # its words may be the password
        raise InvalidArgument(
            "the DSN is not a connection string",
            detail={"argument": "dsn"},
            hint="write postgresql://user@host:port/database, with %25 for a % in the password",
        ) from None
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    database = f", database {parts['dbname']}" if parts.get("dbname") else ""
    return f"{host}{port}{database}"


def open_memory(
    settings: Settings,
    reranker: str | None = None,
    *,
    spec: str | None = None,
    create: bool = False,
) -> Remem:
    """A client for the options, closed when the command ends.

    Args:
        settings: the merged options.
        reranker: as of ``Remem``.
        spec: stands in for the option --embedding.
        create: the command writes what is new, so an embedded server that is not there yet is
            made and set up. A database named by a DSN never is.

    Raises:
        NotInstalled: there is no embedded server, and the command has nothing to do without one.
    """
    where = target(settings) if create else existing(settings)
    assert where.dsn is not None
    if create and where.embedded:
        ensure_installed(settings, where.dsn)
    return _client(settings, where.dsn, reranker, spec)


def open_if_there(settings: Settings) -> Remem:
    """As ``open_memory`` for a command that does without a server: where the embedded one is not
    there yet, the client finds that nobody answers at its place."""
    from psycopg.conninfo import make_conninfo

    from remem_pg.embedded import EmbeddedServer

    dsn, place = target(settings, start=False).dsn, EmbeddedServer(settings.data_dir).data_dir
    # nobody listens in a directory without a server
    return _client(settings, dsn or make_conninfo(host=str(place)))


def _client(
    settings: Settings, dsn: str, reranker: str | None = None, spec: str | None = None
) -> Remem:
    from remem_pg.client import Remem

    spec = spec or settings.embedding or AUTO
    if spec == NONE:
        model: Any = None
    elif spec == AUTO:
        model = AUTO
    else:
        # Asked for by name: not having it is an error here, not a degraded answer.
        model = resolve(spec).model
    _show_log(settings)
    workspace = settings.workspace or "default"
    memory = Remem(dsn, workspace=workspace, embedding=model, reranker=reranker)
    settings.resources.append(memory)
    return memory


def ensure_installed(settings: Settings, dsn: str) -> None:
    """Install Remem in the embedded database unless it is there already."""
    import psycopg

    from remem_pg.install import installed_version

    with psycopg.connect(dsn, autocommit=True) as conn:
        if installed_version(conn) is not None:
            return
    settings.note("First use: installing Remem in it ...")
    model = resolve(settings.embedding)
    settings.note(model_line(model))
    install_into(dsn, model)


def install_into(dsn: str, model: Model) -> tuple[MigrateReport, SpaceInfo]:
    """Migrate, then make the model's space the default of new workspaces.

    Without a model the default space stays as it is.
    """
    from remem_pg import install
    from remem_pg.client import Remem

    report = install.migrate(dsn)
    if model.model is not None:
        from remem_pg.embedding.base import descriptor_of

        with Remem(dsn, workspace="default", embedding=None) as memory:
            space = memory.register_space(dict(descriptor_of(model.model)))
            memory.activate_space(space.fingerprint)
    return report, default_space(dsn)


def resolve(spec: str | None) -> Model:
    """The embedding for ``--embedding``; None or ``auto`` takes the best there is.

    Raises:
        EmbeddingUnavailable: a model was asked for by name and cannot be had.
    """
    if spec == NONE:
        return Model(None, "none", "no embedding was asked for: this client makes no vectors", "")
    from remem_pg.embedding.base import descriptor_of
    from remem_pg.embedding.resolve import resolve_embedding

    found = resolve_embedding(spec or AUTO)
    name = str(descriptor_of(found.model)["name"]) if found.model else "none"
    return Model(found.model, name, found.reason, found.hint or "")


def chosen(settings: Settings) -> Model:
    """The embedding for a command that sets up: as ``resolve``, but a path in REMEM_MODEL_PATH that
    cannot be used is an error, not the hash: it was configured."""
    configured = os.environ.get("REMEM_MODEL_PATH")
    if settings.embedding in (None, AUTO) and configured:
        return resolve(str(Path(configured).expanduser().absolute()))
    return resolve(settings.embedding)


def from_managed(found: Managed) -> Model:
    """The embedding of a managed installation, with what to do where it is not neural."""
    from remem_pg.embedding.base import descriptor_of

    assert found.found.model is not None
    name = str(descriptor_of(found.found.model)["name"])
    failure = found.failure
    if failure is None:
        return Model(found.found.model, name, found.found.reason, found.found.hint or "")
    reason = f"no neural model could be had ({failure.sentence()})"
    retry = "" if failure.detail.get("reason") == "runtime" else "; then remem embeddings download"
    return Model(found.found.model, name, reason, f"{failure.hint or ''}{retry}, and this again.")


def stored_spaces(settings: Settings) -> dict[str, Any]:
    """The spaces that the database says: ``default`` (of new workspaces) and ``workspace``, or the
    ``problem`` in their place. Starts no embedded server that does not exist yet."""
    from remem_pg.errors import RememError

    try:
        where = target(settings, start=False)
        if where.dsn is None:
            return {"problem": "none yet: remem init"}
        return {
            "default": default_space(where.dsn),
            "workspace": open_memory(settings, spec=NONE).current_space(),
        }
    except RememError as error:
        return {"problem": str(error)}


def default_space(dsn: str) -> SpaceInfo:
    """The space of new workspaces. Not the client's current_space: that is a workspace's, which may
    have kept an older model."""
    import psycopg
    from psycopg.rows import dict_row

    from remem_pg.errors import from_psycopg
    from remem_pg.models import SpaceInfo

    try:
        with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
            row = conn.execute("select * from remem.current_space(null)").fetchone()
    except psycopg.Error as error:
        raise from_psycopg(error) or error from error
    return SpaceInfo.from_row(row or {})


def model_line(model: Model) -> str:
    """Which embedding is used and how to get a better one, in one line."""
    return " ".join(part for part in (f"{model.name}: {model.reason}", model.hint) if part)


@contextmanager
def demo_server(*, keep: bool = False) -> Iterator[tuple[str, Path]]:
    """An embedded server of its own in a new temporary directory, removed afterwards.

    Yields:
        Its DSN and the directory.
    """
    from remem_pg.embedded import EmbeddedServer

    directory = Path(tempfile.mkdtemp(prefix="remem-demo-"))
    # As root the server runs under another account, which has to pass through.
    directory.chmod(0o711)
    data_dir = directory / "data"
    try:
        with EmbeddedServer(data_dir, settings=None if keep else _THROWAWAY) as server:
            yield server.dsn, data_dir
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)


def _show_log(settings: Settings) -> None:
    """Print the library's warnings as notes until the command ends: they say what is degraded."""
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            settings.note(record.getMessage())

    logger, notes = logging.getLogger("remem_pg"), Notes(logging.WARNING)
    logger.addHandler(notes)
    settings.resources.append(_Hold(lambda: logger.removeHandler(notes)))
