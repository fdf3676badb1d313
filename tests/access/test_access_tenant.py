"""The setting remem.workspace narrows what a session may name, and never widens it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKSPACE, Door, doors, grant, refusal

Connection = psycopg.Connection[Any]
Enter = Callable[..., Connection]


def tenant(conn: Connection, workspace: str | None) -> None:
    conn.execute("select set_config('remem.workspace', %s, false)", (workspace,))


def strict(owner: Connection) -> None:
    owner.execute("select remem.configure('tenant_mode', 'strict')")


def about_workspaces(conn: Connection) -> list[Door]:
    found = [door for door in doors(conn) if "workspace" in dict(door.arguments)]
    assert len(found) >= 11
    return found


def said_of(conn: Connection, workspace: str) -> dict[str, str]:
    return {
        door.name: refusal(door, conn, {**door.working(), "workspace": workspace})
        for door in about_workspaces(conn)
    }


def test_the_setting_refuses_every_other_workspace_to_the_owner_too(
    furnished: Connection,
) -> None:
    tenant(furnished, "elsewhere")
    said = said_of(furnished, WORKSPACE)
    assert said == dict.fromkeys(said, "RM301")
    tenant(furnished, WORKSPACE)
    said = said_of(furnished, WORKSPACE)
    assert said == dict.fromkeys(said, "")


def test_under_the_setting_a_grant_on_all_workspaces_names_others_too(
    furnished: Connection, enter: Enter
) -> None:
    tenant(furnished, WORKSPACE)
    for query in ("select remem.grant_access('pg_monitor')", "select remem.revoke_access('x')"):
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute(query.encode())
        assert refused.value.sqlstate == "RM301"


def test_a_workspace_whose_name_only_begins_alike_is_another_one(furnished: Connection) -> None:
    for name in (WORKSPACE + "x", WORKSPACE[:-1], WORKSPACE.upper(), WORKSPACE + " "):
        tenant(furnished, name)
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute("select remem.count(%s)", (WORKSPACE,))
        assert refused.value.sqlstate == "RM301"


@pytest.mark.parametrize("level", [None, "read", "admin"])
def test_the_setting_never_widens_a_grant(
    enter: Enter, furnished: Connection, level: str | None
) -> None:
    someone = enter(level, workspace="elsewhere")
    tenant(someone, WORKSPACE)
    said = said_of(someone, WORKSPACE)
    assert said == dict.fromkeys(said, "RM301")


def test_an_empty_setting_counts_as_not_set(furnished: Connection) -> None:
    tenant(furnished, "")
    said = said_of(furnished, WORKSPACE)
    assert said == dict.fromkeys(said, "")


def test_after_the_transaction_that_set_it_the_setting_narrows_nothing(
    furnished: Connection,
) -> None:
    with furnished.transaction():
        furnished.execute("select set_config('remem.workspace', 'elsewhere', true)")
        with pytest.raises(psycopg.Error), furnished.transaction():
            furnished.execute("select remem.count(%s)", (WORKSPACE,))
    left = furnished.execute("select current_setting('remem.workspace', true)").fetchone()
    assert left == ("",)  # not null: what SET LOCAL leaves of a setting nobody declared
    assert furnished.execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (2,)


def test_the_refusal_by_the_setting_does_not_tell_whether_the_workspace_exists(
    furnished: Connection,
) -> None:
    tenant(furnished, "elsewhere")
    told = set()
    for name in (WORKSPACE, "nowhere"):
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute("select remem.count(%s)", (name,))
        told.add((refused.value.diag.message_detail, refused.value.diag.message_hint))
    assert len(told) == 1


def test_functions_about_no_workspace_do_not_ask_for_the_setting(furnished: Connection) -> None:
    strict(furnished)
    assert furnished.execute("select remem.version() ->> 'tenant_mode'").fetchone() == ("strict",)
    assert furnished.execute("select name from remem.current_space()").fetchone() == ("hash",)
    assert furnished.execute("select cardinality(remem.hash_embed('x'))").fetchone() == (384,)


def test_strict_mode_demands_the_setting_of_everybody(furnished: Connection, enter: Enter) -> None:
    everybody = [furnished, enter("read"), enter("write"), enter("admin", workspace=None)]
    strict(furnished)
    for someone in everybody:
        for unset in (None, ""):
            tenant(someone, unset)
            with pytest.raises(psycopg.Error) as refused:
                someone.execute("select * from remem.recall(%s, 'x')", (WORKSPACE,))
            assert refused.value.sqlstate == "RM302"
            assert "set_config" in (refused.value.diag.message_hint or "")
        tenant(someone, WORKSPACE)
        assert someone.execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (2,)


def test_strict_mode_holds_in_every_function_about_memories(furnished: Connection) -> None:
    strict(furnished)
    # About roles; they narrow when it is set.
    administration = {"grant_access", "revoke_access", "list_grants"}
    said = {n: s for n, s in said_of(furnished, WORKSPACE).items() if n not in administration}
    assert said == dict.fromkeys(said, "RM302")


def test_in_strict_mode_a_stranger_is_told_of_access_and_not_of_the_setting(
    furnished: Connection, enter: Enter
) -> None:
    stranger = enter()
    strict(furnished)
    with pytest.raises(psycopg.Error) as refused:
        stranger.execute("select remem.count(%s)", (WORKSPACE,))
    assert refused.value.sqlstate == "RM301"


def test_strict_mode_can_be_taken_back_without_the_setting(furnished: Connection) -> None:
    strict(furnished)
    furnished.execute("select remem.configure('tenant_mode', 'shared')")
    assert furnished.execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (2,)


def test_strict_mode_can_be_set_by_an_administrator_and_by_nobody_less(
    furnished: Connection, enter: Enter
) -> None:
    for someone in (enter("write", workspace=None), enter("admin")):
        with pytest.raises(psycopg.Error) as refused:
            strict(someone)
        assert refused.value.sqlstate == "RM301"
    strict(enter("admin", workspace=None))
    assert furnished.execute("select remem.version() ->> 'tenant_mode'").fetchone() == ("strict",)


def test_settings_and_their_values_are_closed_lists(furnished: Connection) -> None:
    told = {}
    for name, value in (
        ("tenant_mode", "lenient"),
        ("tenant_mode", None),
        ("default_space", "2"),
        ("version", "9"),
        ("", "x"),
        (None, "x"),
    ):
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute("select remem.configure(%s, %s)", (name, value))
        told[name, value] = refused.value.sqlstate
    assert told == {
        ("tenant_mode", "lenient"): "RM001",
        ("tenant_mode", None): "RM001",
        ("default_space", "2"): "RM002",
        ("version", "9"): "RM002",
        ("", "x"): "RM002",
        (None, "x"): "RM002",
    }


def test_a_tenant_with_a_strange_name_is_matched_byte_for_byte(furnished: Connection) -> None:
    for name in ("a%", "a_b", "a'b", 'a"b', "日本語", "a/b", " a ", "none"):
        grant(furnished, "pg_monitor", name, "read")
        tenant(furnished, name)
        assert furnished.execute("select remem.count(%s)", (name,)).fetchone() == (0,)
        with pytest.raises(psycopg.Error) as refused:
            furnished.execute("select remem.count(%s)", (name + "b",))
        assert refused.value.sqlstate == "RM301"
        tenant(furnished, "")
