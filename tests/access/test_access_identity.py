"""Who asks: the role itself, the groups it is in, the role it has become; nothing else counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.access.doors import BODY, REF, WORKSPACE, grant, run
from tests.server import OWNER, Server

Connection = psycopg.Connection[Any]
MakeRole = Callable[..., str]
Connect = Callable[[str], Connection]


def may_read(conn: Connection) -> bool:
    try:
        conn.execute("select remem.count(%s)", (WORKSPACE,))
    except psycopg.Error as error:
        assert error.sqlstate == "RM301", error
        return False
    return True


def superuser(server: Server) -> Connection:
    return psycopg.connect(server.superuser_dsn(), autocommit=True)


# -- groups ----------------------------------------------------------------------------------------


def test_a_grant_to_a_group_counts_for_its_members(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, inner, member = make_role("group", "nologin"), make_role("inner", "nologin"), make_role()
    run(su, "grant {} to {}", group, inner)
    run(su, "grant {} to {}", inner, member)
    someone = connect(member)
    assert not may_read(someone)
    grant(furnished, group, WORKSPACE, "read")
    assert may_read(someone)
    run(su, "revoke {} from {}", group, inner)
    assert not may_read(someone)


def test_a_grant_to_a_member_does_not_count_for_its_group(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, member, other = make_role("group"), make_role("member"), make_role("other")
    run(su, "grant {} to {}, {}", group, member, other)
    grant(furnished, member, WORKSPACE, "read")
    assert not may_read(connect(group))
    assert not may_read(connect(other))


def test_a_member_that_does_not_inherit_has_the_grant_only_after_set_role(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, member = make_role("group", "nologin"), make_role("member", "login noinherit")
    run(su, "grant {} to {}", group, member)
    grant(furnished, group, WORKSPACE, "read")
    someone = connect(member)
    assert not may_read(someone)
    run(someone, "set role {}", group)
    assert may_read(someone)
    someone.execute("reset role")
    assert not may_read(someone)


def test_a_member_of_the_owner_needs_no_grant(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    deputy = make_role("deputy")
    someone = connect(deputy)
    assert not may_read(someone)
    run(su, "grant {} to {}", OWNER, deputy)
    try:
        assert may_read(someone)
        someone.execute("select remem.configure('tenant_mode', 'shared')")
    finally:
        run(su, "revoke {} from {}", OWNER, deputy)


def test_the_strongest_of_several_grants_counts(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, member = make_role("group", "nologin"), make_role("member")
    run(su, "grant {} to {}", group, member)
    grant(furnished, member, WORKSPACE, "read")
    grant(furnished, group, None, "write")
    written = connect(member).execute("select outcome from remem.remember(%s, 'x')", (WORKSPACE,))
    assert written.fetchone() == ("created",)


# -- taking back -----------------------------------------------------------------------------------


def test_a_revoked_grant_is_gone_at_the_next_call(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "read")
    someone = connect(role)
    assert may_read(someone)
    revoked = furnished.execute("select remem.revoke_access(%s, %s)", (role, WORKSPACE))
    assert revoked.fetchone() == (True,)
    assert not may_read(someone)
    again = furnished.execute("select remem.revoke_access(%s, %s)", (role, WORKSPACE))
    assert again.fetchone() == (False,)


def test_revoking_in_one_workspace_leaves_the_grant_on_all(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "read")
    grant(furnished, role, None, "read")
    furnished.execute("select remem.revoke_access(%s, %s)", (role, WORKSPACE))
    assert may_read(connect(role))
    furnished.execute("select remem.revoke_access(%s)", (role,))
    assert not may_read(connect(role))


def test_granting_again_replaces_the_level(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "write")
    grant(furnished, role, WORKSPACE, "read")
    someone = connect(role)
    assert may_read(someone)
    with pytest.raises(psycopg.Error) as refused:
        someone.execute("select remem.remember(%s, 'x')", (WORKSPACE,))
    assert refused.value.sqlstate == "RM301"


def test_a_role_that_was_dropped_and_created_again_has_nothing(
    furnished: Connection, server: Server, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "admin")
    with superuser(server) as admin:
        run(admin, "drop role {}", role)
        run(admin, "create role {} login password 'remem-test'", role)
    someone = connect(role)
    assert not may_read(someone)
    grant(furnished, role, WORKSPACE, "read")
    assert may_read(someone)


def test_the_grant_of_a_dropped_role_can_be_revoked_by_its_name(
    furnished: Connection, server: Server, make_role: MakeRole
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "admin")
    with superuser(server) as admin:
        run(admin, "drop role {}", role)
    revoked = furnished.execute("select remem.revoke_access(%s, %s)", (role, WORKSPACE))
    assert revoked.fetchone() == (True,)
    assert furnished.execute("select count(*) from remem.access_grant").fetchone() == (0,)


def test_a_renamed_role_is_another_one_until_it_is_granted_again(
    furnished: Connection, server: Server, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role()
    grant(furnished, role, WORKSPACE, "read")
    with superuser(server) as admin:
        run(admin, "alter role {} rename to {}", role, f"{role}_new")
        try:
            run(admin, "alter role {} password 'remem-test'", f"{role}_new")
            someone = connect(f"{role}_new")
            assert not may_read(someone)
            grant(furnished, f"{role}_new", WORKSPACE, "read")
            assert may_read(someone)
            revoked = furnished.execute(
                "select remem.revoke_access(%s, %s)", (f"{role}_new", WORKSPACE)
            )
            assert revoked.fetchone() == (True,)
            assert not may_read(someone)
        finally:
            run(admin, "alter role {} rename to {}", f"{role}_new", role)


def test_a_grant_from_another_cluster_does_not_fall_to_whoever_has_its_number_here(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    """As a dump leaves it: the number of a role there belongs to another role here."""
    role = make_role()
    grant(furnished, role, None, "admin")
    furnished.execute("update remem.access_grant set role_name = 'somebody_there'")
    assert not may_read(connect(role))
    furnished.execute("select remem.revoke_access('somebody_there')")
    assert furnished.execute("select count(*) from remem.access_grant").fetchone() == (0,)


# -- becoming somebody else ------------------------------------------------------------------------


def test_set_role_to_a_granted_role_needs_membership(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    reader, stranger = make_role("reader"), make_role("stranger")
    grant(furnished, reader, WORKSPACE, "read")
    someone = connect(stranger)
    for attempt in (
        sql.SQL("set role {}").format(sql.Identifier(reader)),
        sql.SQL("select set_config('role', {}, false)").format(reader),
        sql.SQL("set session authorization {}").format(sql.Identifier(reader)),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            someone.execute(attempt)
    assert not may_read(someone)


def test_a_role_setting_that_is_no_role_is_refused_by_the_server(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    someone = connect(make_role("stranger"))
    for name in (f"{OWNER} ", "none ", ""):
        with pytest.raises(psycopg.Error):
            someone.execute("select set_config('role', %s, false)", (name,))
    someone.execute("select set_config('role', 'none', false)")
    assert not may_read(someone)


def test_a_default_role_that_one_may_not_become_opens_nothing(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    reader, stranger = make_role("reader"), make_role("stranger")
    grant(furnished, reader, WORKSPACE, "read")
    run(connect(stranger), "alter role {} set role = {}", stranger, reader)
    try:
        again = connect(stranger)
    except psycopg.OperationalError:
        return  # the server refuses the session: nothing is opened either
    assert not may_read(again)


def test_after_set_role_the_grants_of_the_new_role_decide(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    reader, weak = make_role("reader"), make_role("weak", "nologin")
    run(su, "grant {} to {}", weak, reader)
    grant(furnished, reader, WORKSPACE, "read")
    someone = connect(reader)
    assert may_read(someone)
    run(someone, "set role {}", weak)
    assert not may_read(someone)


def test_the_owner_who_became_a_reader_can_only_read(
    furnished: Connection, su: Connection, make_role: MakeRole
) -> None:
    reader = make_role("reader", "nologin")
    run(su, "grant {} to {}", reader, OWNER)
    grant(furnished, reader, WORKSPACE, "read")
    run(furnished, "set role {}", reader)
    assert may_read(furnished)
    for query in (
        "select remem.remember('acme', 'x')",
        "select remem.configure('tenant_mode', 'shared')",
    ):
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute(query.encode())
        assert refused.value.sqlstate == "RM301"
    furnished.execute("reset role")


def test_a_pooled_login_acts_as_the_role_of_the_transaction(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    pooler, reader = make_role("pooler", "login noinherit"), make_role("reader", "nologin")
    run(su, "grant {} to {}", reader, pooler)
    grant(furnished, reader, WORKSPACE, "read")
    someone = connect(pooler)
    with someone.transaction():
        run(someone, "set local role {}", reader)
        assert may_read(someone)
    assert not may_read(someone)


# -- functions of others ---------------------------------------------------------------------------


def wrap(conn: Connection, name: str, properties: str) -> None:
    """A function `name` in public that reads a memory, callable by everybody."""
    conn.execute(
        f"create function public.{name}() returns text language plpgsql {properties} as $$"
        f" begin return (select g.body from remem.get('{WORKSPACE}', ref => '{REF}') g);"
        " end $$".encode()
    )


def test_a_definer_function_of_a_granted_role_cannot_lend_the_grant(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    writer, stranger = make_role("writer"), make_role("stranger")
    grant(furnished, writer, WORKSPACE, "write")
    run(su, "grant create on schema public to {}", writer)
    wrap(connect(writer), "lent", "security definer")
    with pytest.raises(psycopg.Error) as refused:
        connect(stranger).execute("select public.lent()")
    assert refused.value.sqlstate == "RM301"
    assert connect(writer).execute("select public.lent()").fetchone() == (BODY,)


def test_a_definer_function_of_the_owner_cannot_lend_its_rights(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    run(su, "grant create on schema public to {}", OWNER)
    wrap(furnished, "lent", "security definer")
    with pytest.raises(psycopg.Error) as refused:
        connect(make_role("stranger")).execute("select public.lent()")
    assert refused.value.sqlstate == "RM301"


def test_a_definer_function_that_calls_another_cannot_lend_either(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    run(su, "grant create on schema public to {}", OWNER)
    wrap(furnished, "lent", "security definer")
    su.execute(
        "create function public.outer_one() returns text language sql security definer "
        "as 'select public.lent()'"
    )
    with pytest.raises(psycopg.Error) as refused:
        connect(make_role("stranger")).execute("select public.outer_one()")
    assert refused.value.sqlstate == "RM301"


def test_a_function_that_sets_the_role_needs_membership_of_who_calls_it(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    reader, stranger = make_role("reader"), make_role("stranger")
    grant(furnished, reader, WORKSPACE, "read")
    run(su, "grant create on schema public to {}", reader)
    wrap(connect(reader), "becoming", f'set role = "{reader}"')
    assert connect(reader).execute("select public.becoming()").fetchone() == (BODY,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(stranger).execute("select public.becoming()")


def test_objects_in_the_callers_temporary_schema_are_not_found_by_the_functions(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("reader")
    grant(furnished, role, WORKSPACE, "read")
    someone = connect(role)
    someone.execute("create temp table access_grant (workspace text, role_oid oid, level text)")
    someone.execute("create temp table setting (name text, value text)")
    someone.execute("create type pg_temp.text as (n int)")
    someone.execute(
        "create function pg_temp._authorize(text, text) returns void language sql as ''"
    )
    someone.execute("create function pg_temp.sum(bigint) returns bigint language sql as 'select 7'")
    someone.execute("set search_path = pg_temp, public, pg_catalog")
    assert someone.execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (2,)
    with pytest.raises(psycopg.Error) as refused:
        someone.execute("select remem.count('elsewhere')")
    assert refused.value.sqlstate == "RM301"
