"""What the embedded server gives, where it may live, when it refuses; other people's files stay."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from remem_pg.embedded import EmbeddedServer, default_data_dir
from remem_pg.errors import EmbeddedUnavailable, ServerUnavailable
from remem_pg.server import programs as pg_programs
from remem_pg.server.programs import Programs
from tests.support.embedded import HOLDER, answer, leave, line


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
    from remem_pg.server.postmaster import SOCKET_PATH_LIMIT

    longest = str(place / "s").ljust(SOCKET_PATH_LIMIT, "x")
    for path, fits in ((longest, True), (longest + "x", False)):
        with socket.socket(socket.AF_UNIX) as server:
            if fits:
                server.bind(path)
            else:
                with pytest.raises(OSError, match="too long"):
                    server.bind(path)
