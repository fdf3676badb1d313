"""Which source class a writer may claim: up to the cap of its grants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKSPACE, grant, run

Connection = psycopg.Connection[Any]
MakeRole = Callable[..., str]
Connect = Callable[[str], Connection]


def claimed(conn: Connection, source_class: str) -> str:
    """The source class that a memory got whose writer claimed one."""
    conn.execute(
        "select remem.remember(%s, %s, ref => 'claim', source_class => %s)",
        (WORKSPACE, f"Said as {source_class}.", source_class),
    )
    row = conn.execute("select source_class from remem.get(%s, ref => 'claim')", (WORKSPACE,))
    found = row.fetchone()
    assert found is not None
    return str(found[0])


def cap(owner: Connection, role: str, workspace: str | None, source_class: str | None) -> None:
    owner.execute("select remem.grant_access(%s, %s, 'write', %s)", (role, workspace, source_class))


def test_the_cap_of_a_grant_limits_the_trust_a_writer_claims(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, WORKSPACE, "imported")
    writer = connect(role)
    assert claimed(writer, "user_stated") == "imported"
    assert claimed(writer, "imported") == "imported"
    assert claimed(writer, "llm_generated") == "llm_generated"
    many = writer.execute(
        "select r.ref from remem.remember_many(%s, "
        """'[{"body": "b", "ref": "many", "source_class": "user_stated"}]') r""",
        (WORKSPACE,),
    )
    assert many.fetchone() == ("many",)
    row = writer.execute("select source_class from remem.get(%s, ref => 'many')", (WORKSPACE,))
    assert row.fetchone() == ("imported",)


def test_what_a_capped_writer_leaves_unsaid_is_capped_too(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, WORKSPACE, "inferred")
    writer = connect(role)
    writer.execute("select remem.remember(%s, 'No class given.', ref => 'r')", (WORKSPACE,))
    row = writer.execute("select source_class from remem.get(%s, ref => 'r')", (WORKSPACE,))
    assert row.fetchone() == ("inferred",)


def test_a_filter_sees_the_capped_class(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, WORKSPACE, "imported")
    writer = connect(role)
    claimed(writer, "user_stated")
    for name, n in (("user_stated", 0), ("imported", 1)):
        path = f'$.source_class == "{name}"'
        found = writer.execute("select remem.count(%s, %s)", (WORKSPACE, path)).fetchone()
        assert found == (n,)


def test_a_cap_in_another_workspace_does_not_count_here(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, "elsewhere", "inferred")
    cap(furnished, role, WORKSPACE, "document")
    assert claimed(connect(role), "user_stated") == "document"


def test_a_grant_without_a_cap_beside_a_capped_one_caps_nothing(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, WORKSPACE, "inferred")
    cap(furnished, role, None, None)
    assert claimed(connect(role), "user_stated") == "user_stated"


def test_the_trustier_of_two_caps_counts(
    furnished: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    cap(furnished, role, WORKSPACE, "inferred")
    cap(furnished, role, None, "document")
    assert claimed(connect(role), "user_stated") == "document"


def test_the_cap_of_a_group_reaches_its_members(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, member = make_role("group", "nologin"), make_role("member")
    run(su, "grant {} to {}", group, member)
    cap(furnished, group, WORKSPACE, "imported")
    assert claimed(connect(member), "user_stated") == "imported"


def test_the_owner_is_not_capped(furnished: Connection) -> None:
    assert claimed(furnished, "user_stated") == "user_stated"


def test_a_read_grant_without_a_cap_does_not_lift_the_cap_of_a_write_grant(
    furnished: Connection, su: Connection, make_role: MakeRole, connect: Connect
) -> None:
    group, member = make_role("group", "nologin"), make_role("member")
    run(su, "grant {} to {}", group, member)
    grant(furnished, group, WORKSPACE, "read")
    cap(furnished, member, WORKSPACE, "imported")
    assert claimed(connect(member), "user_stated") == "imported"


def test_a_cap_that_is_no_source_class_is_refused(
    furnished: Connection, make_role: MakeRole
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        cap(furnished, make_role(), WORKSPACE, "gospel")
    assert refused.value.sqlstate == "RM001"
    assert '"argument": "max_source_class"' in (refused.value.diag.message_detail or "")
