"""The embedded server survives what happens to processes, and leaves other people's files alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from remem_pg import embedded, pg_programs
from remem_pg.embedded import EmbeddedServer, default_data_dir, ensure_running
from remem_pg.errors import EmbeddedUnavailable, ServerUnavailable
from remem_pg.pg_programs import Programs
from tests.support.places import new_directory

REPOSITORY = Path(__file__).parents[2]

HOLDER = """
import sys
from remem_pg.embedded import ensure_running
print(ensure_running(sys.argv[1]), flush=True)
sys.stdin.readline()
"""
SERVER = """
import sys
from remem_pg.embedded import serve
print("stopped", serve(sys.argv[1], lambda dsn: print(dsn, flush=True)), flush=True)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that others may enter, as the server's account has to if root runs the tests."""
    path = new_directory("remem-e-")
    yield path
    for pid_file in path.rglob("postmaster.pid"):  # a test failed half-way
        with contextlib.suppress(ProcessLookupError, IndexError, FileNotFoundError):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
    shutil.rmtree(path)


@pytest.fixture
def data_dir(place: Path) -> Path:
    return place / "data"


@pytest.fixture
def spawn() -> Iterator[Callable[[str, Path], subprocess.Popen[str]]]:
    """Start a Python program on a data directory; its output and input are pipes."""
    children: list[subprocess.Popen[str]] = []

    def start(program: str, data_dir: Path) -> subprocess.Popen[str]:
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", program, str(data_dir)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def leave(child: subprocess.Popen[str]) -> None:
    """Let a holder end by itself."""
    child.communicate("\n")
    assert child.returncode == 0


def answer(dsn: str, query: str = "select 1") -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def runs(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def modes(path: Path) -> dict[Path, int]:
    return {parent: stat.S_IMODE(parent.stat().st_mode) for parent in path.parents}


# -- what one gets ----------------------------------------------------------------------------


def test_the_database_belongs_to_an_ordinary_role_and_has_pgvector(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server, psycopg.connect(server.dsn) as conn:
        row = conn.execute(
            "select rolname, rolsuper, rolcreaterole, rolbypassrls,"
            " '[1,2]'::vector::text, current_database()::text,"
            " pg_get_userbyid(datdba)::text, current_setting('server_encoding')"
            " from pg_roles, pg_database where rolname = user and datname = current_database()"
        ).fetchone()
    assert row == ("remem", False, False, False, "[1,2]", "remem", "remem", "UTF8")


def test_starting_twice_joins_the_same_server_and_keeps_the_data(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as first:
        with psycopg.connect(first.dsn, autocommit=True) as conn:
            conn.execute("create table kept as select 7 as x")
        with EmbeddedServer(data_dir) as second:
            assert (second.pid, second.dsn) == (first.pid, first.dsn)
        assert first.alive()
    assert not first.alive()
    with EmbeddedServer(data_dir) as third:
        assert answer(third.dsn, "select x from kept") == 7


def test_no_other_user_can_reach_the_socket_or_the_files(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        directory = Path(psycopg.conninfo.conninfo_to_dict(server.dsn)["host"])
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((data_dir / "pgdata").stat().st_mode) == 0o700
        assert answer(server.admin_dsn, "show listen_addresses") == ""


def test_the_environment_of_libpq_does_not_lead_elsewhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGUSER": "nobody",
        "PGDATABASE": "x",
        "PGHOST": "y",
    }.items():
        monkeypatch.setenv(name, value)
    with EmbeddedServer(data_dir) as server:
        assert answer(server.dsn, "select user::text") == "remem"


def test_starting_concurrently_makes_one_server(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    children = [spawn(HOLDER, data_dir) for _ in range(4)]
    assert len({line(child) for child in children}) == 1
    log = (data_dir / "postgres.log").read_text()
    assert log.count("ready to accept connections") == 1
    for child in children:
        leave(child)
    assert not (data_dir / "pgdata" / "postmaster.pid").exists()


# -- paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with spaces", 'quote\'s "and" $(date) `x` %41,é'])
def test_any_directory_name_works(place: Path, name: str) -> None:
    with EmbeddedServer(place / name) as server:
        assert answer(server.dsn) == 1


def test_a_path_too_long_for_a_socket_gets_a_short_private_socket_directory(place: Path) -> None:
    data_dir = place / ("long" * 30) / "remem"
    with EmbeddedServer(data_dir) as server:
        assert answer(server.dsn) == 1
        directory = Path(psycopg.conninfo.conninfo_to_dict(server.dsn)["host"])
        assert len(str(directory)) < 60
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_a_socket_directory_that_belongs_to_someone_else_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only root could give a directory away; a symbolic link is the attack that others have.
    data_dir = place / ("long" * 30) / "remem"
    with EmbeddedServer(data_dir) as server:
        directory = Path(psycopg.conninfo.conninfo_to_dict(server.dsn)["host"])
    directory.symlink_to(place)
    try:
        with pytest.raises(EmbeddedUnavailable, match="belongs to another user") as caught:
            EmbeddedServer(data_dir).start()
    finally:
        directory.unlink()
    assert "shorter path" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("environment", "uid", "expected"),
    [
        ({"XDG_DATA_HOME": "/xdg", "HOME": "/home/u"}, 1000, "/xdg/remem"),
        ({"XDG_DATA_HOME": "", "HOME": "/home/u"}, 1000, "/home/u/.local/share/remem"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/u"}, 1000, "/home/u/.local/share/remem"),
        ({"XDG_DATA_HOME": "/root/x", "HOME": "/root"}, 0, "/var/lib/remem"),
        ({"REMEM_DATA_DIR": "/elsewhere", "HOME": "/root"}, 0, "/elsewhere"),
        ({"REMEM_DATA_DIR": "/elsewhere", "XDG_DATA_HOME": "/xdg"}, 1000, "/elsewhere"),
    ],
)
def test_the_data_directory_follows_the_user_and_the_environment(
    environment: dict[str, str], uid: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REMEM_DATA_DIR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert default_data_dir() == Path(expected)


def test_starting_changes_the_mode_of_no_directory_outside(data_dir: Path) -> None:
    before = modes(data_dir) | modes(pg_programs.find_binaries())
    with EmbeddedServer(data_dir):
        assert modes(data_dir) | modes(pg_programs.find_binaries()) == before


def test_a_private_parent_stays_private(place: Path) -> None:
    private = place / "home"
    private.mkdir(mode=0o700)
    server = EmbeddedServer(private / "remem")
    if os.geteuid() == 0:  # the server's account cannot pass
        with pytest.raises(EmbeddedUnavailable, match="not reachable for the account") as caught:
            server.start()
        assert "/var/lib/remem" in str(caught.value.hint)
    else:
        with server:
            assert answer(server.dsn) == 1
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_programs_in_a_private_home_run_without_opening_it(
    place: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pg_programs.find_binaries().parents[1]
    home = place / "home"
    home.mkdir(mode=0o700)
    for part in [package, package.with_name(f"{package.name}.libs")]:
        shutil.copytree(part, home / part.name)
    private = home / package.name / "pginstall" / "bin"
    monkeypatch.setattr(pg_programs, "find_binaries", lambda: private)
    with EmbeddedServer(data_dir) as server:
        assert answer(server.dsn, "select '[3]'::vector::text") == "[3]"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


# -- processes that die -----------------------------------------------------------------------


def test_the_server_lives_as_long_as_its_last_user(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    first, second = spawn(HOLDER, data_dir), spawn(HOLDER, data_dir)
    dsn = line(first)
    assert line(second) == dsn
    leave(first)
    assert answer(dsn) == 1
    leave(second)
    with pytest.raises(psycopg.OperationalError):
        answer(dsn)


def test_a_killed_user_does_not_keep_the_server_for_ever(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    killed = spawn(HOLDER, data_dir)
    dsn = line(killed)
    killed.kill()
    killed.wait()
    assert answer(dsn) == 1  # left behind
    with EmbeddedServer(data_dir) as server:
        pid = server.pid
        assert server.dsn == dsn
    wait_for(lambda: not runs(pid))


def test_a_killed_server_is_replaced_at_once_in_the_same_process(data_dir: Path) -> None:
    dsn = ensure_running(data_dir)
    server = EmbeddedServer(data_dir)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept as select 7 as x")
        # A backend at work when its postmaster dies keeps the shared memory for a while.
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert ensure_running(data_dir) == dsn
        assert answer(dsn, "select x from kept") == 7
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")
    assert embedded._running.pop(data_dir).stop()


def test_a_killed_server_is_replaced_at_once_by_another_process(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    with EmbeddedServer(data_dir) as server:
        old = server.pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
        other = spawn(HOLDER, data_dir)
        assert answer(line(other)) == 1
        assert server.alive()
        assert server.pid != old
        leave(other)
        assert server.alive()


def test_user_and_server_killed_together_recover(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    for _ in range(3):
        child = spawn(HOLDER, data_dir)
        dsn = line(child)
        assert answer(dsn) == 1
        pid = EmbeddedServer(data_dir).pid
        assert pid is not None
        child.kill()
        os.kill(pid, signal.SIGKILL)
        child.wait()
    with EmbeddedServer(data_dir) as server:
        assert answer(server.dsn) == 1


def test_a_pid_file_that_names_another_living_process_is_not_believed(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        pid_file = data_dir / "pgdata" / "postmaster.pid"
        lines = pid_file.read_text().splitlines(keepends=True)
    account: pg_programs.Account = Programs(data_dir)._account
    bystander = subprocess.Popen(["sleep", "60"], **account)
    try:
        pid_file.write_text("".join([f"{bystander.pid}\n", *lines[1:]]))
        with server:
            assert answer(server.dsn) == 1
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_empty_pid_file_is_not_believed(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        pass
    (data_dir / "pgdata" / "postmaster.pid").touch()
    with server:
        assert answer(server.dsn) == 1


def test_an_interrupted_initdb_leaves_nothing_that_looks_like_a_database(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        pass
    (data_dir / "pgdata").rename(data_dir / "pgdata.new")
    (data_dir / "pgdata.new" / "global" / "pg_control").unlink()
    with server:
        assert answer(server.dsn) == 1


def test_a_forked_child_does_not_stop_its_parents_server(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        child = os.fork()
        if child == 0:
            try:
                stopped = server.stop()
            finally:
                os._exit(1 if stopped else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert server.alive()


# -- serving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_serve_stops_the_server_when_it_is_told_to_end(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]], number: signal.Signals
) -> None:
    child = spawn(SERVER, data_dir)
    dsn = line(child)
    assert answer(dsn) == 1
    child.send_signal(number)
    assert line(child) == "stopped True"
    assert child.wait() == 0
    with pytest.raises(psycopg.OperationalError):
        answer(dsn)


def test_serve_leaves_the_server_to_others_and_restarts_a_dead_one(
    data_dir: Path, spawn: Callable[[str, Path], subprocess.Popen[str]]
) -> None:
    child = spawn(SERVER, data_dir)
    dsn = line(child)
    with EmbeddedServer(data_dir) as server:
        old = server.pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: server.alive() and server.pid != old)
        child.send_signal(signal.SIGTERM)
        assert line(child) == "stopped False"
        assert answer(dsn) == 1


# -- saying no --------------------------------------------------------------------------------


def test_without_the_extra_the_error_says_what_to_install(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ServerUnavailable, match="not installed") as caught:
        EmbeddedServer(data_dir).start()
    assert "pip install 'remem-pg[embedded]'" in str(caught.value)


def test_a_directory_that_cannot_be_made_is_a_typed_error(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(EmbeddedUnavailable, match="cannot use") as caught:
        EmbeddedServer(place / "file" / "data").start()
    assert "REMEM_DATA_DIR" in str(caught.value.hint)


def test_data_of_another_major_version_is_refused_untouched(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        pass
    version = data_dir / "pgdata" / "PG_VERSION"
    version.write_text("12\n")
    with pytest.raises(EmbeddedUnavailable, match="made by PostgreSQL 12, installed is 18"):
        server.start()
    assert version.read_text() == "12\n"


def test_data_of_another_user_is_refused_untouched(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer(data_dir) as server:
        pass
    monkeypatch.setattr(Programs, "uid", property(lambda self: 4_000_000))
    with pytest.raises(EmbeddedUnavailable, match="belongs to another user"):
        server.start()
    assert not (data_dir / "pgdata" / "postmaster.pid").exists()


def test_a_server_that_cannot_start_shows_its_log(data_dir: Path) -> None:
    began = time.monotonic()
    with pytest.raises(EmbeddedUnavailable, match="no_such_setting") as caught:
        EmbeddedServer(data_dir, settings={"no_such_setting": "1"}).start()
    assert "postgres.log" in str(caught.value.hint)
    assert time.monotonic() - began < 30


def test_windows_is_told_to_bring_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedUnavailable, match="Linux and macOS"):
        EmbeddedServer("/nowhere")


def test_the_socket_limit_is_the_one_of_this_system(place: Path) -> None:
    from remem_pg.postmaster import SOCKET_PATH_LIMIT

    longest = str(place / "s").ljust(SOCKET_PATH_LIMIT, "x")
    for path, fits in ((longest, True), (longest + "x", False)):
        with socket.socket(socket.AF_UNIX) as server:
            if fits:
                server.bind(path)
            else:
                with pytest.raises(OSError, match="too long"):
                    server.bind(path)
