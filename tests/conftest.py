"""Fixtures on a real PostgreSQL: one server per run, one fresh database per test that asks."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import server as servers
from tests.server import Address, Server

Connection = psycopg.Connection[Any]

# What only one server has: plpython3u is in no wheel, and the image is one of its own.
NEEDS = {"plpython": "debian", "docker": "docker"}

# The files that take longest, most first: two workers end together if the last files are short.
# All others follow in their usual order.
LONG = (
    "sql/test_recall_plans_large.py",
    "faults/test_faults.py",
    "faults/test_standby.py",
    "context/test_behaviour.py",
    "cases/test_c02_k_hits.py",
    "cases/test_c01_one_workspace_among_many.py",
    "client/test_client_parallel.py",
    "sql/test_write_plans.py",
    "cases/test_c05_hub_and_cycle.py",
    "sql/test_lifecycle_forget.py",
    "client/test_backup.py",
)

_address = pytest.StashKey[Address]()
_finish = pytest.StashKey[Callable[[], None]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the controller; a worker is told its address."""
    if hasattr(config, "workerinput"):
        config.stash[_address] = Address(**config.workerinput["remem_server"])
        return
    if config.option.collectonly or config.option.help or config.option.markers:
        return
    try:
        address, finish = servers.start(_chosen())
    except servers.ServerNotHad as error:
        pytest.exit(f"the chosen test server cannot be had: {error}", returncode=3)
    config.stash[_address], config.stash[_finish] = address, finish


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what the chosen server cannot run; `.ci/run` chooses both."""
    own = collection_path.parent == Path(__file__).parent
    needed = NEEDS.get(collection_path.name, _chosen()) if own else _chosen()
    return True if needed != _chosen() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first."""
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


def pytest_report_header() -> list[str]:
    left_out = [
        f"left out: tests/{name}, which needs REMEM_TEST_SERVER={needed}"
        for name, needed in NEEDS.items()
        if needed != _chosen()
    ]
    return [f"server: {_chosen()}", *left_out]


def _chosen() -> str:
    return os.environ.get("REMEM_TEST_SERVER", "embedded")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["remem_server"] = node.config.stash[_address].as_dict()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests of a file to one worker: what a file's tests share is then made once."""
    if config.getoption("dist") != "load":  # somebody chose another way by --dist
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # not by the number of tests: see LONG
    return LoadFileScheduling(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    finish = config.stash.get(_finish, None)
    if finish is not None:
        finish()


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The run's server."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    made = Server(pytestconfig.stash[_address], worker)
    yield made
    made.close()


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """The name of a fresh database with remem installed; `db`, `su` and `connect` share it."""
    name = server.new_database()
    yield name
    server.drop_database(name)


@pytest.fixture
def db_dsn(server: Server, database: str) -> str:
    """The fresh database's DSN for the unprivileged owner of the schema."""
    return server.owner_dsn(database)


@pytest.fixture
def db(db_dsn: str) -> Iterator[Connection]:
    """A connection of the owner to the fresh database, in autocommit."""
    with psycopg.connect(db_dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def su(server: Server, database: str) -> Iterator[Connection]:
    """A superuser's connection to the same database as `db`, in autocommit."""
    with psycopg.connect(server.superuser_dsn(database), autocommit=True) as conn:
        yield conn


@pytest.fixture(scope="module")
def file_dsn(server: Server) -> Iterator[str]:
    """As `db_dsn`, one database for a file's tests; they refuse, read or use their `own_name`."""
    name = server.new_database()
    yield server.owner_dsn(name)
    server.drop_database(name)


@pytest.fixture(scope="module")
def file_db(file_dsn: str) -> Iterator[Connection]:
    """As `db`, for all tests of a file; what a session plans once serves them all."""
    with psycopg.connect(file_dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def own_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for a workspace in the database of the file."""
    return f"w-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"


@pytest.fixture
def c_locale_db(server: Server) -> Iterator[Connection]:
    """As `db`, in a database with encoding UTF8 and locale C."""
    name = server.new_database(locale="C")
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        yield conn
    server.drop_database(name)


@pytest.fixture
def bare_database(server: Server) -> Iterator[str]:
    """The owner's DSN of a fresh database that has pgvector and nothing else."""
    name = server.new_database(install=False)
    yield server.owner_dsn(name)
    server.drop_database(name)


@pytest.fixture
def connect(server: Server, database: str) -> Iterator[Callable[[str], Connection]]:
    """`connect(role)`: that role's connection to the database of `db`, in autocommit."""
    opened: list[Connection] = []

    def open_as(role: str) -> Connection:
        opened.append(psycopg.connect(server.dsn(role, database), autocommit=True))
        return opened[-1]

    yield open_as
    for conn in opened:
        conn.close()


@pytest.fixture
def make_role(server: Server) -> Iterator[Callable[..., str]]:
    """`make_role(label="role", attributes="login")`: the name of a new role, dropped at the end."""
    made: list[str] = []

    def make(label: str = "role", attributes: str = "login") -> str:
        made.append(server.new_role(label, attributes))
        return made[-1]

    yield make
    for name in reversed(made):
        server.drop_role(name)


class Psql:
    """Runs psql without the user's own settings; stops at the first error."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(
        self,
        dsn: str,
        *args: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.path, "--no-psqlrc", "--set=ON_ERROR_STOP=1", *args, dsn],
            input=stdin,
            env={**os.environ, **(env or {})},
            check=False,
            capture_output=True,
            text=True,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="session")
def psql() -> Psql:
    """`psql(dsn, "-At", "-c", "select 1")`: the embedded wheel's program, else the one on PATH."""
    from remem_pg.errors import RememError
    from remem_pg.server.programs import find_binaries

    try:
        path: Path | str | None = find_binaries() / "psql"
    except RememError:
        path = shutil.which("psql")
    assert path is not None, "no psql: install the extra `embedded` or a PostgreSQL client"
    return Psql(str(path))


@pytest.fixture(autouse=True)
def _log_as_found() -> Iterator[None]:
    """No test may change the library's logger for those that run after it in its worker."""
    logger = logging.getLogger("remem_pg")
    yield
    assert (logger.level, logger.propagate, logger.handlers) == (logging.NOTSET, True, [])
