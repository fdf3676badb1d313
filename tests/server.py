"""The PostgreSQL server of a test run: which one, its template databases, its roles.

`REMEM_TEST_SERVER` chooses: `embedded` (default), `debian` (PostgreSQL, pgvector and plpython3u of
Debian, installed if need be; as root), `dsn` (`REMEM_TEST_DSN`, a superuser's) or `docker`
(`REMEM_TEST_IMAGE`).  pytest's controller starts it and stops it; the workers of xdist get its
address by `Address`, which travels as a dictionary of strings.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.support.places import new_directory, parents

OWNER = "remem_owner"
PASSWORD = "remem-test"  # for servers that ask; the embedded one does not
DEBIAN_SERVER = Path(__file__).parents[1] / "docker" / "debian-server.sh"
DEFAULT_IMAGE = "pgvector/pgvector:pg17"
# Speed instead of durability: a test's data is worth nothing after a crash.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "autovacuum_naptime": "10min",
    "max_wal_size": "1GB",
}


class ServerNotHad(Exception):
    """The chosen server could not be had; the run fails instead of skipping."""


@dataclass(frozen=True)
class Address:
    """What a worker has to know: a superuser's conninfo, the run's token and its lock directory."""

    conninfo: str
    token: str
    directory: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def start(choice: str) -> tuple[Address, Callable[[], None]]:
    """Start or reach the chosen server; returns its address and the function that ends it."""
    starters = {
        "embedded": _start_embedded,
        "debian": _start_debian,
        "dsn": _start_dsn,
        "docker": _start_docker,
    }
    if choice not in starters:
        raise ServerNotHad(f"REMEM_TEST_SERVER={choice!r} is none of {', '.join(starters)}")
    directory = new_directory("remem-test-")
    try:
        conninfo, stop = starters[choice](directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise

    def finish() -> None:
        stop()
        shutil.rmtree(directory, ignore_errors=True)

    return Address(conninfo, directory.name.rsplit("-", 1)[1].lower(), str(directory)), finish


def _start_embedded(directory: Path) -> tuple[str, Callable[[], None]]:
    from remem_pg.errors import RememError
    from remem_pg.server.postmaster import Postmaster

    _end_forgotten()
    server = Postmaster(directory / "server", settings=SETTINGS, durable=False)
    try:
        server.acquire()
    except RememError as error:
        raise ServerNotHad(f"embedded PostgreSQL: {error}") from error
    return server.dsn(), lambda: void(server.release())


def _end_forgotten() -> None:
    """Stop the servers of earlier runs that were killed, and remove their files."""
    from remem_pg.server.postmaster import Postmaster

    forgotten = (p.glob("remem-test-*/server/users.lock") for p in parents())
    for users in chain.from_iterable(forgotten):
        with suppress(OSError), users.open("r+") as file:  # in use, just removed, or not ours
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            server = Postmaster(users.parent)
            if server.alive():
                fcntl.flock(file, fcntl.LOCK_UN)
                server.acquire()
                if not server.release():
                    continue  # somebody joined it just now
            shutil.rmtree(users.parents[1], ignore_errors=True)


def void(_: object) -> None:
    """Drop a result."""


def debian_server(*arguments: str) -> str:
    """What `docker/debian-server.sh` prints for a task."""
    done = subprocess.run(
        [str(DEBIAN_SERVER), *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise ServerNotHad(f"{DEBIAN_SERVER.name} {arguments[0]} failed, as said above")
    return done.stdout.strip()


def _start_debian(directory: Path) -> tuple[str, Callable[[], None]]:
    debian_server("install")
    place = str(directory / "server")
    settings = chain.from_iterable(("-c", f"{name}={value}") for name, value in SETTINGS.items())
    conninfo = debian_server("start", place, *settings)
    return conninfo, lambda: void(debian_server("stop", place))


def _start_dsn(directory: Path) -> tuple[str, Callable[[], None]]:
    conninfo = os.environ.get("REMEM_TEST_DSN", "")
    if not conninfo:
        raise ServerNotHad("REMEM_TEST_SERVER=dsn needs REMEM_TEST_DSN, the DSN of a superuser")
    try:
        with psycopg.connect(conninfo, connect_timeout=10) as conn:
            row = conn.execute("select rolsuper from pg_roles where rolname = user").fetchone()
    except psycopg.OperationalError as error:
        raise ServerNotHad(f"REMEM_TEST_DSN: {error}") from error
    if row != (True,):
        raise ServerNotHad("REMEM_TEST_DSN has to name a superuser: tests create roles")
    token = directory.name.rsplit("-", 1)[1].lower()
    return conninfo, lambda: _drop_databases(conninfo, f"remem_test_{token}_")


def _drop_databases(conninfo: str, prefix: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as conn:
        rows = conn.execute(
            "select datname from pg_database where starts_with(datname, %s)", [prefix]
        ).fetchall()
        for (name,) in rows:
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _start_docker(directory: Path) -> tuple[str, Callable[[], None]]:
    try:
        try:
            from testcontainers.community.postgres import PostgresContainer
        except ImportError:  # before testcontainers 4.15
            from testcontainers.postgres import PostgresContainer

        flags = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        container = PostgresContainer(
            os.environ.get("REMEM_TEST_IMAGE", DEFAULT_IMAGE),
            username="postgres",
            password=PASSWORD,
            dbname="postgres",
            driver=None,
        ).with_command(f"postgres {flags}")
        container.with_env("REMEM_PASSWORD", PASSWORD)  # what our own image asks for
        container.start()
    except Exception as error:  # whatever Docker or the registry says, the run has no server
        raise ServerNotHad(f"docker: {type(error).__name__}: {error}") from error
    return container.get_connection_url(), container.stop


class Server:
    """The running server, as the tests see it."""

    def __init__(self, address: Address, worker: str = "main") -> None:
        self.address = address
        self._prefix = f"remem_test_{address.token}"
        self._names = (f"{worker}_{number}" for number in count(1))
        self._kept: psycopg.Connection[tuple[object, ...]] | None = None

    # -- addresses --------------------------------------------------------------------------

    def superuser_dsn(self, dbname: str = "postgres") -> str:
        return make_conninfo(self.address.conninfo, dbname=dbname)

    def dsn(self, user: str, dbname: str) -> str:
        return make_conninfo(self.address.conninfo, user=user, password=PASSWORD, dbname=dbname)

    def owner_dsn(self, dbname: str) -> str:
        return self.dsn(OWNER, dbname)

    # -- databases --------------------------------------------------------------------------

    def new_database(
        self, *, template: str | None = None, locale: str | None = None, install: bool = True
    ) -> str:
        """Create a database owned by the unprivileged owner and return its name.

        A copy of `template`; without one, a copy of the run's template for `locale` (None: the
        server's own), which has pgvector in schema public and, with `install`, remem.
        """
        name = f"{self._prefix}_{next(self._names)}"
        self._create(name, template or self._template(locale, install=install))
        return name

    def drop_database(self, name: str) -> None:
        with self._admin() as conn:
            conn.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def _create(self, name: str, template: str, locale: str | None = None) -> None:
        parts = [
            sql.SQL("create database {} template {} owner {}").format(
                sql.Identifier(name), sql.Identifier(template), sql.Identifier(OWNER)
            )
        ]
        if locale is not None:
            parts.append(sql.SQL("encoding 'UTF8' locale_provider libc locale {}").format(locale))
        with self._admin() as conn:
            if conn.execute("show fsync").fetchone() == ("off",):
                # Nearly half the time of the default, where its two checkpoints cost nothing.
                parts.append(sql.SQL("strategy file_copy"))
            conn.execute(sql.SQL(" ").join(parts))

    def _template(self, locale: str | None, *, install: bool) -> str:
        """The name of the run's template, made by whoever needs it first."""
        name = f"{self._prefix}_template_{(locale or 'default').lower().replace('-', '_')}"
        name += "" if install else "_bare"
        done = Path(self.address.directory) / f"{name}.done"
        with self._lock(name):
            if not done.exists():
                self._make_owner()
                self.drop_database(name)
                self._create(name, "template1" if locale is None else "template0", locale)
                with psycopg.connect(self.superuser_dsn(name), autocommit=True) as conn:
                    conn.execute("create extension if not exists vector schema public")
                if install:
                    from remem_pg.install import migrate

                    migrate(self.owner_dsn(name))
                done.touch()
        return name

    def _make_owner(self) -> None:
        with self._lock("owner"), self._admin() as conn:
            if conn.execute("select from pg_roles where rolname = %s", [OWNER]).fetchone() is None:
                conn.execute(
                    sql.SQL(
                        "create role {} login nosuperuser createdb nocreaterole nobypassrls"
                        " password {}"
                    ).format(sql.Identifier(OWNER), PASSWORD)
                )

    # -- roles ------------------------------------------------------------------------------

    def new_role(self, label: str = "role", attributes: str = "login") -> str:
        """Create a role whose name is unique in the cluster and return the name."""
        name = f"{self._prefix}_{next(self._names)}_{label}"
        with self._admin() as conn:
            conn.execute(
                sql.SQL("create role {} {} password {}").format(
                    sql.Identifier(name), sql.SQL(attributes), PASSWORD
                )
            )
        return name

    def drop_role(self, name: str) -> None:
        """Drop a role with everything it owns or was granted, in whatever database."""
        with self._admin() as conn:
            databases = conn.execute(
                """
                select distinct d.datname
                from pg_shdepend s
                join pg_roles r on r.oid = s.refobjid and s.refclassid = 'pg_authid'::regclass
                join pg_database d
                  on d.oid = s.dbid or (s.classid = 'pg_database'::regclass and d.oid = s.objid)
                where r.rolname = %s
                """,
                [name],
            ).fetchall()
            for (dbname,) in databases:
                with psycopg.connect(self.superuser_dsn(dbname), autocommit=True) as there:
                    there.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
            conn.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))

    # -- helpers ----------------------------------------------------------------------------

    @contextmanager
    def _admin(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        """A superuser's connection, kept: one for each database would be a third of its price."""
        if self._kept is not None:
            try:
                self._kept.execute("")
            except psycopg.OperationalError:  # a test ended it, with all others
                self._kept = None
        if self._kept is None:
            self._kept = psycopg.connect(self.address.conninfo, autocommit=True)
        yield self._kept

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        with (Path(self.address.directory) / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
