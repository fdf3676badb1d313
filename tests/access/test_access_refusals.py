"""What no grant opens, and what a refusal tells: nothing about what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.access.doors import (
    WORKSPACE,
    doors,
    refusal,
    relations,
    state,
)
from tests.access.test_access_levels import LEVELS
from tests.server import Server

Connection = psycopg.Connection[Any]
Enter = Callable[..., Connection]


@pytest.mark.parametrize("level", [None, "read", "worker", "write", "admin"])
def test_no_grant_opens_a_table_a_view_or_a_sequence(enter: Enter, level: str | None) -> None:
    someone = enter(level, workspace=None)
    tried = {}
    for name, kind in relations(someone):
        queries = [f"select * from {name}"]
        if kind == "S":
            queries += [f"select nextval('{name}')", f"select setval('{name}', 1)"]
        elif kind == "r":
            queries += [
                f"insert into {name} default values",
                f"delete from {name}",
                f"truncate {name}",
                f"copy {name} to stdout",
                f"create table pg_temp.copy_of_it as table {name}",
                f"lock table {name} in access share mode",
            ]
        tried |= {query: state(someone, query) for query in queries}
    assert len(tried) > 60
    assert "select * from remem.embedding_2" in tried  # made by register_space, after the install
    assert tried == dict.fromkeys(tried, "42501")


def test_no_grant_opens_a_private_function(enter: Enter) -> None:
    admin = enter("admin", workspace=None)
    rows = admin.execute(
        """
        select p.proname, p.proisstrict,
          array(select format_type(t, null) from unnest(p.proargtypes) t)
        from pg_proc p where p.pronamespace = 'remem'::regnamespace and p.proname like '\\_%'
        """
    ).fetchall()
    tried = {}
    for name, strict, types in rows:
        # Not null for a strict function: the planner would know its result without calling it.
        given = ", ".join(
            f"'{'{}' if type_.endswith('[]') else 'x'}'::{type_}" if strict else f"null::{type_}"
            for type_ in types
        )
        tried[name] = state(admin, f"select * from remem.{name}({given})")
    assert len(tried) > 40
    assert tried == dict.fromkeys(tried, "42501")


def test_a_role_that_may_reference_nothing_makes_nothing_in_the_schema(enter: Enter) -> None:
    admin = enter("admin", workspace=None)
    tried = {
        query: state(admin, query)
        for query in (
            "create table remem.mine (n int)",
            "create function remem.mine() returns int language sql as 'select 1'",
            "create type remem.mine as (n int)",
            "alter schema remem rename to taken",
            "drop schema remem cascade",
            "drop function remem.version()",
            "alter function remem.version() security invoker",
            "comment on table remem.memory is 'mine'",
            "create index on remem.memory (kind)",
            "alter table remem.memory disable row level security",
            "create policy mine on remem.memory using (true)",
        )
    }
    assert tried == dict.fromkeys(tried, "42501")


def give_by_default(server: Server, conn: Connection, role: str) -> None:
    """What an administrator may have set up for other tables of the same owner."""
    for kind in ("tables", "sequences", "functions"):
        conn.execute(f'alter default privileges grant all on {kind} to "{role}"'.encode())
    conn.execute(f'alter default privileges grant all on schemas to "{role}"'.encode())


def test_default_privileges_of_the_owner_open_nothing(
    server: Server, bare_database: str, make_role: Callable[..., str]
) -> None:
    from remem_pg.install import migrate

    role = make_role("app")
    with psycopg.connect(bare_database, autocommit=True) as owner:
        give_by_default(server, owner, role)
        migrate(owner)
        owner.execute(
            "select remem.register_space(%s)",
            (Jsonb({"name": "n", "backend": "b", "asset": "a", "dimensions": 2}),),
        )
        opened = owner.execute(
            """
            select c.oid::regclass::text from pg_class c
            cross join lateral aclexplode(c.relacl) a
            where c.relnamespace = 'remem'::regnamespace and a.grantee = %(role)s::regrole
            union all
            select p.oid::regprocedure::text from pg_proc p
            cross join lateral aclexplode(p.proacl) a
            where p.pronamespace = 'remem'::regnamespace and a.grantee = %(role)s::regrole
              and p.proname like '\\_%%'
            union all
            select n.nspname from pg_namespace n cross join lateral aclexplode(n.nspacl) a
            where n.nspname = 'remem' and a.grantee = %(role)s::regrole
            """,
            {"role": role},
        ).fetchall()
        assert opened == []


def test_the_next_install_takes_back_a_privilege_that_somebody_granted(
    db: Connection, db_dsn: str, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    from remem_pg.install import migrate

    role = make_role("friend")
    db.execute(f'grant select on all tables in schema remem to "{role}"'.encode())
    db.execute(f'grant update (value) on remem.setting to "{role}" with grant option'.encode())
    db.execute(f'grant execute on all functions in schema remem to "{role}"'.encode())
    db.execute(f'grant create on schema remem to "{role}"'.encode())
    friend = connect(role)
    assert state(friend, "select * from remem.memory") == ""
    migrate(db_dsn)
    for query in (
        "select * from remem.memory",
        "update remem.setting set value = 'x'",
        "select remem._caller()",
        "create table remem.mine (n int)",
    ):
        assert state(friend, query) == "42501", query


# -- what a refusal says ---------------------------------------------------------------------------


def refused_as(conn: Connection, door: Any, values: dict[str, Any]) -> tuple[Any, ...]:
    with pytest.raises(psycopg.Error) as refused, conn.transaction():
        door.call(conn, values)
    d = refused.value.diag
    return (refused.value.sqlstate, d.message_primary, d.message_detail, d.message_hint)


@pytest.mark.parametrize("level", [None, "admin"])
def test_a_refusal_does_not_tell_whether_the_workspace_exists(
    enter: Enter, level: str | None
) -> None:
    someone = enter(level, workspace="elsewhere")
    told = {}
    for door in doors(someone):
        if "workspace" in dict(door.arguments) and LEVELS[door.name] != "database":
            there = refused_as(someone, door, {**door.working(), "workspace": WORKSPACE})
            nowhere = refused_as(someone, door, {**door.working(), "workspace": "nowhere"})
            told[door.name] = there == nowhere and WORKSPACE not in str(there)
    assert len(told) >= 9
    assert told == dict.fromkeys(told, True)


def test_a_refused_call_has_not_looked_at_any_tenant_table(
    enter: Enter, server: Server, database: str
) -> None:
    stranger = enter("admin", workspace="elsewhere")
    stranger.execute("set lock_timeout = '3s'")
    known = {"remem.access_grant", "remem.setting"}  # what access itself is decided by
    locked = [n for n, kind in relations(stranger) if kind == "r" and n not in known]
    closed = [door for door in doors(stranger) if LEVELS[door.name] != "any"]
    for door in closed:  # the first call in a session looks up the row types that a body names
        refusal(door, stranger, door.working())
    with psycopg.connect(server.owner_dsn(database)) as holder:
        holder.execute(f"lock table {', '.join(locked)} in access exclusive mode".encode())
        said = {door.name: refusal(door, stranger, door.working()) for door in closed}
    # A call that waits for a table ends with 55P03, lock not available.
    assert said == dict.fromkeys(said, "RM301")


def test_ids_of_another_workspace_are_as_unknown_as_ids_of_nothing(
    enter: Enter, furnished: Connection
) -> None:
    row = furnished.execute("select memory_id from remem.list(%s)", (WORKSPACE,)).fetchone()
    assert row is not None
    reader = enter("read", workspace="elsewhere")
    told = []
    for memory_id in (row[0], "00000000-0000-4000-8000-000000000001"):
        got = reader.execute("select * from remem.get('elsewhere', %s)", (memory_id,)).fetchall()
        assert got == []
        with pytest.raises(psycopg.Error) as refused:
            reader.execute("select * from remem.list('elsewhere', after => %s)", (memory_id,))
        detail = (refused.value.diag.message_detail or "").replace(str(memory_id), "ID")
        told.append((refused.value.sqlstate, detail))
    assert told[0] == told[1]
    assert told[0][0] == "RM101"


def test_a_refusal_names_the_role_and_the_level_and_the_next_step(
    enter: Enter, furnished: Connection
) -> None:
    stranger = enter()
    with pytest.raises(psycopg.Error) as refused:
        stranger.execute("select remem.remember('acme', 'x')")
    assert refused.value.diag.message_primary == "no access to this workspace"
    detail = refused.value.diag.message_detail or ""
    assert '"level": "write"' in detail
    assert f'"role": "{stranger.info.user}"' in detail
    assert "grant_access" in (refused.value.diag.message_hint or "")
