"""The embedded server survives what happens to its processes and to those of its users."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from remem_pg import embedded
from remem_pg.embedded import EmbeddedServer, ensure_running
from remem_pg.server import programs as pg_programs
from remem_pg.server.programs import Programs
from tests.support.embedded import HOLDER, SERVER, answer, leave, line, runs
from tests.support.waiting import until


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
    until(lambda: not runs(pid))


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
        until(lambda: server.alive() and server.pid != old)
        child.send_signal(signal.SIGTERM)
        assert line(child) == "stopped False"
        assert answer(dsn) == 1
