"""C6: 5,000 workspaces: recall, delete, install, doctor and maintain work, and nothing is created
per workspace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remem_pg.install import migrate
from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, recall, value
from tests.support.operations import checks, maintained, many_workspaces

COUNT = 5000
OBJECTS = """
select c.relkind::text || ' ' || c.relname from pg_class c
where c.relnamespace = 'remem'::regnamespace
union all select 'function ' || p.oid::regprocedure from pg_proc p
where p.pronamespace = 'remem'::regnamespace
union all select 'type ' || t.typname from pg_type t where t.typnamespace = 'remem'::regnamespace
union all select 'role ' || r.rolname from pg_roles r where r.rolname like '%ws%'
order by 1
"""


def objects(conn: Connection) -> list[str]:
    return [str(row[0]) for row in conn.execute(OBJECTS)]


@pytest.fixture(scope="module")
def name(server: Server) -> Iterator[str]:
    def fill(conn: Connection) -> None:
        before = objects(conn)
        many_workspaces(conn, COUNT, each=10)
        assert objects(conn) == before
        conn.execute("vacuum analyze")

    with filled(server, fill) as made:
        yield made


@pytest.fixture
def crowded(server: Server, name: str) -> Iterator[Connection]:
    with owner(server, name) as conn:
        yield conn


def test_recall_finds_a_workspaces_own_rows(crowded: Connection) -> None:
    for n in (20, 2500, COUNT):
        hits = recall(crowded, f"ws{n}", "which heron is grey?")
        assert [hit.body for hit in hits] == [f"The heron of pond {n} is grey."]


def test_one_is_deleted_and_the_others_stay(crowded: Connection) -> None:
    crowded.execute("select remem.drop_workspace('ws10')")
    assert value(crowded, "select count(*) from remem.memory where workspace = 'ws10'") == 0
    assert value(crowded, "select count(*) from remem.workspace") == COUNT - 1
    assert recall(crowded, "ws20", "heron")


def test_doctor_looks_at_all_of_them_at_once(crowded: Connection) -> None:
    crowded.execute("set statement_timeout = '10s'")  # it takes a fifth of a second
    found = checks(crowded)
    assert "5000 workspaces" in found["embeddings:hash"].detail.replace("4999", "5000")
    assert {row.name for row in found.values() if row.status == "error"} == set()
    assert value(crowded, "select count(*) from remem.embedding_progress") >= COUNT - 1
    assert value(crowded, "select workspaces from remem.status") >= COUNT - 1


def test_upkeep_goes_through_all_of_them(crowded: Connection) -> None:
    crowded.execute("set statement_timeout = '60s'")
    crowded.execute(
        "insert into remem.recall_log (workspace, at, tier, caller, k, returned, query_hash)"
        " select 'ws' || g, now() - interval '40 days', 'cold', 'x', 8, 1, ''"
        " from generate_series(100, 4100) g"
    )
    found = maintained(crowded, "10 minutes")
    assert found["recall_day"] == ("done", 4001)
    assert found["recall_log"] == ("done", 4001)


def test_installing_again_does_not_depend_on_them(
    server: Server, name: str, crowded: Connection
) -> None:
    crowded.execute("select remem.grant_access('pg_monitor', 'ws20', 'read')")
    before = objects(crowded)
    assert migrate(server.owner_dsn(name)).applied == ()
    assert objects(crowded) == before
    assert recall(crowded, "ws20", "heron")
