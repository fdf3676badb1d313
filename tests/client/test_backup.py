"""remem backup and restore: two files, every count, and what is said when something is missing."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import Conflict, DatabaseNewer, InvalidArgument, NotInstalled, Remem
from remem_pg.operating import backup as backups
from remem_pg.operating.backup import KEPT, backup, manifest_path, restore
from remem_pg.server import clients as pg_clients
from tests.client.cli_runner import Cli
from tests.migration.catalog import installation
from tests.support.consistency import problems
from tests.support.memories import Connection, recall, value

ROWS = [{"body": f"Note {n} about the harbour.", "ref": f"r{n}"} for n in range(60)]


@pytest.fixture
def archive(db_dsn: str, db: Connection, tmp_path: Path) -> Path:
    """A backup of two workspaces with past versions."""
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        mem.remember_many(ROWS)
        mem.remember("Another text.", ref="r1")
        mem.forget(ref="r2")
        mem.workspace("other").remember("Elsewhere.")
    path = tmp_path / "all.dump"
    backup(db_dsn, path)
    return path


def asked(conn: Connection) -> list[Any]:
    return [(h.memory_id, h.score, h.body) for h in recall(conn, "acme", "what of note 7?", k=20)]


@pytest.mark.covers("RP68")
def test_an_ordinary_role_restores_into_an_empty_database(
    archive: Path, db: Connection, bare_database: str
) -> None:
    manifest = backups.read_manifest(archive)
    assert manifest.rows["memory"] == 62
    done = restore(bare_database, archive)
    assert done.rows == manifest.rows
    assert (done.migrated, done.dead_grants) == ((), ())
    with psycopg.connect(bare_database, autocommit=True) as conn:
        assert asked(conn) == asked(db)
        assert problems(conn) == []
        assert installation(conn).keys() == installation(db).keys()
        assert value(
            conn, "select (remem.remember('acme', 'Note 3 again.', ref => 'r3')).outcome"
        ) == ("new_version")


def test_a_restore_takes_the_place_of_what_is_there_only_when_told(
    archive: Path, db_dsn: str, db: Connection
) -> None:
    before = asked(db)
    db.execute("select remem.remember('acme', 'Written after the backup.', ref => 'later')")
    with pytest.raises(InvalidArgument, match="63 memories") as caught:
        restore(db_dsn, archive)
    assert "--confirm" in (caught.value.hint or "")
    assert value(db, "select remem.count('acme')") == 60
    restore(db_dsn, archive, confirm=True)
    assert value(db, "select count(*) from remem.get('acme', ref => 'later')") == 0
    assert asked(db) == before
    assert value(db, f"select to_regnamespace('{KEPT}')") is None


@pytest.mark.parametrize("how", ["counts", "archive"])
def test_after_a_failure_the_database_is_as_it_was(
    archive: Path, db_dsn: str, db: Connection, how: str
) -> None:
    db.execute("select remem.remember('acme', 'Written after the backup.', ref => 'later')")
    before = asked(db)
    if how == "counts":
        manifest = json.loads(manifest_path(archive).read_text())
        manifest["rows"]["memory"] += 1
        manifest_path(archive).write_text(json.dumps(manifest))
        with pytest.raises(Conflict) as caught:
            restore(db_dsn, archive, confirm=True)
        assert caught.value.detail == {"memory": {"expected": 63, "got": 62}}
    else:
        archive.write_bytes(archive.read_bytes()[:-2000])
        with pytest.raises(Exception, match="pg_restore"):
            restore(db_dsn, archive, confirm=True)
    assert asked(db) == before
    assert value(db, "select count(*) from remem.get('acme', ref => 'later')") == 1
    assert value(db, f"select to_regnamespace('{KEPT}')") is None
    assert problems(db) == []


def test_a_backup_is_of_one_moment_and_belongs_to_its_owner(
    archive: Path, db_dsn: str, tmp_path: Path
) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with pytest.raises(InvalidArgument, match="exists already"):
        backup(db_dsn, archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.dump", "all.dump.json"]


def test_a_backup_of_a_database_without_remem_is_refused(
    bare_database: str, tmp_path: Path
) -> None:
    with pytest.raises(NotInstalled):
        backup(bare_database, tmp_path / "x.dump")
    assert list(tmp_path.iterdir()) == []


def test_one_of_the_two_files_alone_is_no_backup(archive: Path, bare_database: str) -> None:
    manifest_path(archive).rename(archive.with_name("elsewhere"))
    with pytest.raises(InvalidArgument, match=r"all\.dump\.json is not there"):
        restore(bare_database, archive)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "not JSON",
        "[]",
        '{"format": 1}',
        '{"format": 1, "migration": "1", "server_version": 170000, "pgvector_schema": "public",'
        ' "made_at": "now", "rows": {}}',
        "\xff",
    ],
)
def test_what_is_no_manifest_is_no_backup_of_remem(tmp_path: Path, text: str) -> None:
    archive = tmp_path / "z.dump"
    archive.write_bytes(b"")
    manifest_path(archive).write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidArgument, match="is not a backup of remem") as caught:
        backups.read_manifest(archive)
    assert "__init__" not in str(caught.value)
    done = Cli(None)("restore", str(archive), "--confirm")
    assert done.returncode == 1
    assert done.stderr.startswith("RM001 ")


def test_a_manifest_of_another_format_names_the_upgrade(tmp_path: Path) -> None:
    archive = tmp_path / "z.dump"
    archive.write_bytes(b"")
    manifest_path(archive).write_text('{"format": 2, "more": []}')
    with pytest.raises(InvalidArgument, match="has format 2") as caught:
        backups.read_manifest(archive)
    assert "upgrade" in (caught.value.hint or "")


def test_a_backup_of_a_later_version_is_refused_before_anything_is_touched(
    archive: Path, db_dsn: str, db: Connection
) -> None:
    manifest = json.loads(manifest_path(archive).read_text())
    manifest_path(archive).write_text(json.dumps({**manifest, "migration": 9999}))
    with pytest.raises(DatabaseNewer):
        restore(db_dsn, archive, confirm=True)
    manifest_path(archive).write_text(json.dumps({**manifest, "server_version": 990000}))
    with pytest.raises(InvalidArgument, match="Postgres 99"):
        restore(db_dsn, archive, confirm=True)
    manifest_path(archive).write_text(json.dumps({**manifest, "pgvector_schema": "elsewhere"}))
    with pytest.raises(Conflict, match="pgvector"):
        restore(db_dsn, archive, confirm=True)
    assert value(db, "select remem.count('acme')") == 59


def test_roles_that_are_others_here_are_named(
    archive: Path, db_dsn: str, db: Connection, make_role: Callable[..., str], tmp_path: Path
) -> None:
    role = make_role("reader")
    db.execute("select remem.grant_access(%s, 'acme')", [role])
    later = tmp_path / "later.dump"
    backup(db_dsn, later)
    assert restore(db_dsn, later, confirm=True).dead_grants == ()
    db.execute("update remem.access_grant set role_oid = 1")
    again = tmp_path / "again.dump"
    backup(db_dsn, again)
    assert restore(db_dsn, again, confirm=True).dead_grants == (role,)


def fake(directory: Path, name: str, version: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
    program.chmod(0o755)


def test_without_a_fitting_program_the_release_that_is_needed_is_named(
    db_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg_clients, "_directories", lambda: iter([tmp_path / "none"]))
    with pytest.raises(InvalidArgument, match="pg_dump is not installed") as caught:
        backup(db_dsn, tmp_path / "x.dump")
    assert "postgresql-client-" in (caught.value.hint or "")
    fake(tmp_path / "old", "pg_dump", "9.6.1")
    monkeypatch.setattr(pg_clients, "_directories", lambda: iter([tmp_path / "old"]))
    with pytest.raises(InvalidArgument, match="is of release 9, the server's is"):
        backup(db_dsn, tmp_path / "x.dump")
    assert not (tmp_path / "x.dump").exists()


def test_of_several_programs_the_one_of_the_servers_release_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in ("15.2", "18.1", "17.4"):
        fake(tmp_path / release, "pg_dump", release)
    places = [tmp_path / release for release in ("15.2", "18.1", "17.4")]
    monkeypatch.setattr(pg_clients, "_directories", lambda: iter(places))
    assert pg_clients.find_program("pg_dump", 16) == tmp_path / "17.4" / "pg_dump"
    assert [p.parent.name for p in pg_clients.programs_named("pg_dump", 0)] == [
        "15.2",
        "17.4",
        "18.1",
    ]


def test_a_password_is_never_an_argument() -> None:
    database, environment = pg_clients.connection_arguments("postgresql://u:s3cret@h/db")
    assert "s3cret" not in database
    assert environment == {"PGPASSWORD": "s3cret"}
    assert pg_clients.connection_arguments("dbname=db")[1] == {}


def test_the_commands_say_what_they_did(
    archive: Path, db_dsn: str, tmp_path: Path, bare_database: str
) -> None:
    cli = Cli(db_dsn)
    file = tmp_path / "cli.dump"
    done = cli("backup", "--output", str(file))
    assert done.returncode == 0, done.stderr
    assert "62 memories in 2 workspaces" in done.stdout
    refused = cli("restore", str(file))
    assert refused.returncode == 1
    assert "--confirm" in refused.stderr
    restored = Cli(bare_database)("restore", str(file), "--json")
    assert restored.returncode == 0, restored.stdout
    assert json.loads(restored.stdout)["rows"]["memory"] == 62
    assert Cli(bare_database).json("count", "-w", "acme")["count"] == 59
    missing = cli("restore", str(tmp_path / "nowhere.dump"), "--confirm")
    assert missing.returncode == 1
    assert "is not there" in missing.stderr


def test_the_embedded_server_is_backed_up_and_restored(place: Path) -> None:
    cli = Cli(None, REMEM_DATA_DIR=str(place / "one"))
    assert cli("remember", "We retry three times.").returncode == 0
    file = place / "home.dump"
    done = cli("backup", "-o", str(file))
    assert done.returncode == 0, done.stderr
    other = Cli(None, REMEM_DATA_DIR=str(place / "two"))
    restored = other("restore", str(file), "--confirm")
    assert restored.returncode == 0, restored.stderr
    assert "Restored 1 memory" in restored.stdout
    assert other.json("list")["memories"][0]["body"] == "We retry three times."


def test_what_somebody_put_in_the_way_of_a_backup_gets_nothing_of_it(
    db_dsn: str, db: Connection, tmp_path: Path
) -> None:
    db.execute("select remem.remember('acme', 'The heron is a bird.')")
    theirs = tmp_path / "theirs"
    theirs.touch(mode=0o666)
    path = tmp_path / "all.dump"
    path.with_name("all.dump.partial").symlink_to(theirs)
    backup(db_dsn, path)
    assert theirs.read_bytes() == b""
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_backup_whose_name_begins_with_a_dash_is_restored(
    archive: Path, bare_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "--clean"
    archive.rename(named)
    manifest_path(archive).rename(manifest_path(named))
    monkeypatch.chdir(tmp_path)
    assert restore(bare_database, Path("--clean")).rows["workspace"] == 2
