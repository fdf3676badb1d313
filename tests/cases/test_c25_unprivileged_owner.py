"""C25: a role without any privilege but its schema installs, upgrades, dumps, restores into an
empty database and migrates: same rows, same answers. Without pgvector the error says who must do
what."""

from __future__ import annotations

import gzip
from pathlib import Path

import psycopg
import pytest

from remem_pg import PgvectorMissing, install
from tests.server import OWNER, Server
from tests.support.dumps import answers, fill, fitting_programs, rows

LANDED = Path(__file__).parents[1] / "migration" / "landed"


@pytest.mark.parametrize("origin", ["fresh", *sorted(p.name for p in LANDED.glob("*.sql.gz"))])
def test_install_upgrade_dump_restore_migrate(
    server: Server, bare_database: str, tmp_path: Path, origin: str
) -> None:
    programs = fitting_programs(server)
    restored_name = server.new_database(install=False)
    restored_dsn = server.owner_dsn(restored_name)
    with psycopg.connect(bare_database, autocommit=True) as conn:
        role = conn.execute(
            "select rolsuper, rolcreaterole, rolreplication, rolbypassrls from pg_roles "
            "where rolname = current_user"
        ).fetchone()
        assert (conn.info.user, role) == (OWNER, (False, False, False, False))
        if origin == "fresh":
            install.migrate(conn)
            fill(conn)
        else:
            conn.execute(gzip.decompress((LANDED / origin).read_bytes()))
            fill(conn)
            assert install.migrate(conn).previous_version == origin.removesuffix(".sql.gz")
            for workspace in ("acme", "記憶"):
                conn.execute("select remem.rebuild_entities(%s)", (workspace,))
        expected, said = rows(conn), answers(conn)
        assert all(said[:2])
        file = str(tmp_path / "dump")
        dumped = programs("pg_dump", "--format=custom", f"--file={file}", bare_database)
        assert (dumped.returncode, dumped.stderr) == (0, "")
        programs("pg_restore", "--no-owner", f"--dbname={restored_dsn}", file)
        install.migrate(restored_dsn)
        with psycopg.connect(restored_dsn, autocommit=True) as restored:
            assert rows(restored) == expected
            assert answers(restored) == said
    server.drop_database(restored_name)


def test_without_pgvector_the_error_says_who_must_do_what(server: Server) -> None:
    name = server.new_database(install=False)
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute("drop extension vector")
    with pytest.raises(PgvectorMissing) as refused:
        install.migrate(server.owner_dsn(name))
    assert name in str(refused.value)
    assert "superuser" in str(refused.value.hint)
    assert "create extension vector" in str(refused.value.hint)
    # And when that was done, nothing else is missing.
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute("create extension vector")
    assert install.migrate(server.owner_dsn(name)).version == install.VERSION
    server.drop_database(name)
