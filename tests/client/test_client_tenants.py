"""Clients in strict mode, behind a pooler, and the administration of tenants through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from remem_pg import AsyncRemem, InvalidArgument, NoAccess, NotFound, Remem, TenantNotSet
from remem_pg.spaces.worker import Worker
from tests.client.cli_runner import Cli
from tests.server import Server
from tests.support.jobs import Shares
from tests.support.memories import Connection

WAYS = ["a DSN", "a pool", "a connection", "a connection in a transaction"]


def strict(db: Connection, mode: str = "strict") -> None:
    db.execute("select remem.configure('tenant_mode', %s)", [mode])


@pytest.fixture
def source(request: pytest.FixtureRequest, db_dsn: str) -> Iterator[Any]:
    """What a client is given, each way."""
    way = request.param
    if way == "a DSN":
        yield db_dsn
    elif way == "a pool":
        with ConnectionPool(
            db_dsn, min_size=1, max_size=1, kwargs={"autocommit": True}, open=True
        ) as pool:
            yield pool
    else:
        with psycopg.connect(db_dsn, autocommit=way == "a connection") as conn:
            yield conn


def left(conn: Connection) -> str | None:
    row = conn.execute("select current_setting('remem.workspace', true)").fetchone()
    assert row is not None
    return None if row[0] is None else str(row[0])


@pytest.mark.parametrize("source", WAYS, indirect=True)
def test_a_client_names_its_workspace_by_itself_where_the_database_is_strict(
    source: Any, db: Connection
) -> None:
    strict(db)
    with Remem(source, workspace="acme", embedding="hash") as mem:
        mem.remember("We retry three times.", ref="r")
        assert mem.recall("retry")[0].ref == "r"
        assert [m.ref for m in mem.iterate()] == ["r"]
        assert mem.forget(ref="r").outcome == "forgotten"
        other = mem.workspace("beta")
        assert other.remember("In another one.").outcome == "created"
        assert (mem.count(), other.count()) == (0, 1)
    if isinstance(source, ConnectionPool):
        with source.connection() as conn:
            assert left(conn) in (None, "")
    elif isinstance(source, psycopg.Connection):
        assert left(source) in (None, "")


@pytest.mark.parametrize("source", WAYS, indirect=True)
def test_a_client_that_was_open_when_the_database_turned_strict_goes_on(
    source: Any, db: Connection
) -> None:
    with Remem(source, workspace="acme", embedding=None) as mem:
        mem.remember("x")
        if isinstance(source, psycopg.Connection) and not source.autocommit:
            source.commit()
        strict(db)
        if isinstance(source, psycopg.Connection) and not source.autocommit:
            with pytest.raises(TenantNotSet):
                mem.count()  # the caller's transaction is aborted by it: not ours to repeat
            source.rollback()
        assert mem.count() == 1
        assert mem.remember("y").outcome == "created"
        strict(db, "shared")
        assert mem.count() == 2


def test_a_setting_of_the_callers_goes_on_refusing_what_it_refuses(
    db: Connection, db_dsn: str
) -> None:
    """The client names its workspace where nobody did; it never takes the place of another."""
    strict(db)
    with psycopg.connect(db_dsn) as conn:
        mem = Remem(conn, workspace="acme", embedding=None)
        conn.execute("select set_config('remem.workspace', 'mine', true)")
        with pytest.raises(NoAccess), conn.transaction():
            mem.count()
        assert left(conn) == "mine"
        assert mem.workspace("mine").count() == 0
        assert left(conn) == "mine"


def test_a_session_setting_of_a_pooled_connection_is_neither_used_up_nor_widened(
    db: Connection, db_dsn: str
) -> None:
    strict(db)

    def confine(conn: psycopg.Connection[Any]) -> None:
        conn.execute("select set_config('remem.workspace', 'mine', false)")

    with ConnectionPool(
        db_dsn, min_size=1, max_size=1, kwargs={"autocommit": True}, configure=confine, open=True
    ) as pool:
        mem = Remem(pool, workspace="mine", embedding=None)
        assert mem.remember("x").outcome == "created"
        with pytest.raises(NoAccess):
            mem.workspace("acme").count()
        with pool.connection() as conn:
            assert left(conn) == "mine"


async def test_the_async_client_does_the_same(db: Connection, db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding="hash") as mem:
        await mem.remember("We retry.", ref="r")
        strict(db)
        assert await mem.count() == 1
        assert (await mem.recall("retry", parallel=True))[0].ref == "r"
        assert await mem.workspace("beta").count() == 0
        assert [w.workspace for w in await mem.workspaces()] == ["acme"]
        assert await mem.set_language("german")
        assert (await mem.recall("retry")).degraded == ("analyser_mix",)
        assert (await mem.reindex_text()).done
        assert (await mem.recall("retry")).degraded == ()
        await mem.grant_access("pg_monitor", "acme", "write", "imported")
        (grant,) = await mem.grants()
        assert (grant.role, grant.level, grant.max_source_class) == (
            "pg_monitor",
            "write",
            "imported",
        )
        assert await mem.revoke_access("pg_monitor", "acme")
        assert await mem.create_workspace("gamma", "german")


# the worker


@pytest.mark.parametrize("level", ["worker", "owner"])
def test_a_worker_for_all_workspaces_works_in_strict_mode(
    db: Connection, db_dsn: str, server: Server, database: str, make_role: Any, level: str
) -> None:
    model = Shares("m")
    for name in ("a", "b", "c"):
        db.execute("select remem.remember(%s, 'x')", [name])
        with Remem(db_dsn, workspace=name, embedding=model) as mem:
            mem.reembed()
        db.execute("select remem.remember(%s, 'late one')", [name])
    role = make_role("job")
    db.execute("select remem.grant_access(%s, 'a', 'worker')", [role])
    db.execute("select remem.grant_access(%s, 'b', 'worker')", [role])
    db.execute("select remem.grant_access(%s, 'c', 'read')", [role])
    strict(db)
    dsn = server.dsn(role, database) if level == "worker" else db_dsn
    with Remem(dsn, workspace="default", embedding=model) as mem:
        report = Worker(mem, everything=True).run(once=True)
    assert report.reembedded == (2 if level == "worker" else 3)
    assert report.errors == {}


def test_strict_mode_tells_a_worker_the_names_and_nobody_else(
    db: Connection, make_role: Any, connect: Callable[[str], Connection]
) -> None:
    for name in ("a", "b"):
        db.execute("select remem.remember(%s, 'x')", [name])
    strict(db)
    roles = {}
    for level in ("read", "write", "worker", "admin"):
        role = make_role(level)
        db.execute("select remem.grant_access(%s, 'a', %s)", [role, level])
        roles[level] = connect(role)
    query = "select workspace from remem.list_workspaces()"
    seen = {level: conn.execute(query).fetchall() for level, conn in roles.items()}
    assert seen == {"read": [], "write": [], "worker": [("a",)], "admin": [("a",)]}
    assert db.execute(query).fetchall() == [("a",), ("b",)]
    for conn in roles.values():
        conn.execute("select set_config('remem.workspace', 'a', false)")
        assert conn.execute(query).fetchall() == [("a",)]
        conn.execute("select set_config('remem.workspace', 'b', false)")
        assert conn.execute(query).fetchall() == []


# languages and grants


def test_reindexing_reports_goes_on_and_ends_early(mem: Remem, db: Connection) -> None:
    mem.remember_many([{"body": f"Rechnung {n} wurde bezahlt"} for n in range(400)])
    assert mem.set_language("german")
    assert not mem.set_language("german")
    part = mem.reindex_text(0.002)
    assert not part.done
    assert 0 < part.reindexed < 400
    seen: list[tuple[float, int]] = []
    stopped = mem.reindex_text(
        progress=lambda part, done: seen.append((part, done)), stop=lambda: True
    )
    rest = mem.reindex_text()
    assert rest.done
    assert part.reindexed + stopped.reindexed + rest.reindexed == 400
    assert seen
    assert len(mem.recall("Rechnungen", mode="lexical")) == 8
    assert mem.reindex_text().run_id is None


def test_a_run_is_refused_inside_a_transaction(db_dsn: str) -> None:
    with psycopg.connect(db_dsn) as conn:
        mem = Remem(conn, workspace="acme", embedding=None)
        with pytest.raises(InvalidArgument, match="call by call"):
            mem.reindex_text()


@pytest.mark.parametrize("budget", [0, -1, float("nan"), 1e9, "1s"])
def test_a_budget_is_checked_before_anything_is_sent(mem: Remem, budget: Any) -> None:
    with pytest.raises(InvalidArgument):
        mem.reindex_text(budget)


def test_grants_are_listed_with_those_that_no_longer_hold(
    mem: Remem, server: Server, make_role: Any
) -> None:
    kept, dropped = make_role("kept"), server.new_role("dropped")
    mem.grant_access(kept, "acme", "write", "imported")
    mem.grant_access(kept, None, "read")
    mem.grant_access(dropped, "beta", "admin")
    server.drop_role(dropped)
    found = [(g.role, g.workspace, g.level, g.max_source_class, g.holds) for g in mem.grants()]
    assert found == [
        (kept, None, "read", None, True),
        (kept, "acme", "write", "imported", True),
        (dropped, "beta", "admin", None, False),
    ]
    assert len(mem.grants(role=kept)) == 2
    assert [g.workspace for g in mem.grants(workspace="beta")] == [None, "beta"]
    with pytest.raises(NotFound):
        mem.grant_access("nobody of that name")


# the commands


def test_the_commands_of_tenants(db: Connection, db_dsn: str, make_role: Any) -> None:
    cli = Cli(db_dsn)
    role = make_role("app")
    cli("remember", "-w", "acme", "Die Rechnungen gehen monatlich raus.")
    assert cli.json("language", "acme", "german")["reindex"]["done"]
    assert cli.json("language", "acme", "german")["changed"] is False
    refused = cli("language", "acme", "klingon")
    assert refused.returncode == 1
    assert "klingon" in refused.stderr
    assert "Rechnungen" in cli("recall", "-w", "acme", "Rechnung").stdout
    listed = cli.json("workspaces")
    assert [(w["workspace"], w["language"], w["text_index"]) for w in listed] == [
        ("acme", "german", "current")
    ]
    db.execute("update remem.workspace set analyser = 'german/0/pg9'")
    assert cli.json("workspaces")[0]["text_index"] == "outdated"
    assert cli("reindex-text", "--all").stdout.startswith("acme: 1 memory analysed anew")
    assert cli("reindex-text", "--all").stdout.strip() == "every workspace is up to date"
    assert cli.json("reindex-text", "-w", "acme")["acme"]["done"]
    assert cli("grant", "-w", "acme", role, "--level", "write").returncode == 0
    assert [(g["role"], g["workspace"], g["level"]) for g in cli.json("grants")] == [
        (role, "acme", "write")
    ]
    assert role in cli("grants").stdout
    assert cli("revoke", "-w", "acme", role).returncode == 0
    assert cli("revoke", "-w", "acme", role).returncode == 1
    assert cli.json("grants") == []


def test_the_command_line_in_strict_mode(bare_database: str) -> None:
    cli = Cli(bare_database)
    done = cli("init", "--strict", "-w", "acme")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    begin = lines.index("begin;")
    pasted = lines[begin : lines.index("commit;") + 1]
    with psycopg.connect(bare_database, autocommit=True) as conn:
        for statement in pasted:
            conn.execute(statement.encode())
        row = conn.execute("select current_setting('remem.workspace', true)").fetchone()
        assert row in [("",), (None,)]
    assert cli("init", "--strict").returncode == 0
    assert cli("remember", "-w", "acme", "We retry three times.").returncode == 0
    assert "retry" in cli("recall", "-w", "acme", "retry").stdout
    for command in (["worker", "--all", "--once"], ["reindex-text", "--all"], ["workspaces"]):
        done = cli(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert "acme" in cli("workspaces").stdout
    assert cli.json("init", "--strict", "-w", "acme")["tenant"][0] == "begin;"
