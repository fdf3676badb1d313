"""C31: a role without a grant gets RM301 everywhere and learns nothing, neither by errors nor time.

The same walked object by object, with every level of a grant, is in tests/access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import psycopg
import pytest

from tests.access.doors import WORKSPACE, doors, furnish, grant, refusal, relations, run, state
from tests.access.test_access_levels import LEVELS, OPENED
from tests.server import OWNER

Connection = psycopg.Connection[Any]
USERS = ("owner", "reader", "writer", "worker", "stranger")
LEVEL_OF = {"reader": "read", "writer": "write", "worker": "worker", "stranger": None}


@pytest.fixture
def furnished(db: Connection) -> Connection:
    furnish(db)
    return db


@pytest.fixture
def users(
    furnished: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> Iterator[dict[str, Connection]]:
    found = {"owner": furnished}
    for name, level in LEVEL_OF.items():
        role = make_role(name)
        if level is not None:
            grant(furnished, role, WORKSPACE, level)
        found[name] = connect(role)
    yield found


def test_who_gets_into_what(users: dict[str, Connection]) -> None:
    """The golden list: every relation and every function, by each of the users."""
    owner = users["owner"]
    expected: dict[str, set[str]] = {}
    said: dict[str, set[str]] = {}
    for name, kind in relations(owner):
        verb = f"select nextval('{name}')" if kind == "S" else f"select * from {name} limit 0"
        expected[name] = {"owner"}
        said[name] = {user for user, conn in users.items() if state(conn, verb) == ""}
    for door in doors(owner):
        need = LEVELS[door.name]
        expected[door.name] = {
            user
            for user in USERS
            if user == "owner" or (LEVEL_OF[user] is not None and need in OPENED[LEVEL_OF[user]])
        }
        mine = {**door.working()}
        if door.name == "create_workspace":
            mine["workspace"] = WORKSPACE  # in the workspace of the grants, not another one
        said[door.name] = {
            user for user, conn in users.items() if refusal(door, conn, mine) != "RM301"
        }
    assert said == expected
    kinds = {kind for _, kind in relations(owner)}
    assert {"r", "S"} <= kinds


@pytest.mark.parametrize(
    "made",
    [
        "create table remem.later (workspace text, secret text)",
        "create view remem.later with (security_invoker = true) as select * from remem.memory",
        "create view remem.later as select * from remem.memory",
        "create sequence remem.later",
        "create materialized view remem.later as select * from remem.memory",
    ],
)
def test_what_is_made_later_is_closed_too(users: dict[str, Connection], made: str) -> None:
    users["owner"].execute(made.encode())
    for user in ("reader", "writer", "worker", "stranger"):
        for query in ("select * from remem.later", "select nextval('remem.later')"):
            if "nextval" in query and "sequence" not in made:
                continue
            assert state(users[user], query) == "42501", (user, query)


def test_a_space_made_later_is_closed_too(users: dict[str, Connection]) -> None:
    users["owner"].execute(
        """select remem.register_space('{"name": "x", "backend": "x", "asset": "later",
           "dimensions": 2}')"""
    )
    (number,) = users["owner"].execute("select max(space_no) from remem.embedding_space").fetchone()  # type: ignore[misc]
    for user in ("reader", "writer", "worker", "stranger"):
        for table in (f"embedding_{number}", f"embedding_{number}_past"):
            assert state(users[user], f"select * from remem.{table}") == "42501"


def test_nothing_lends_an_access(
    furnished: Connection, su: Connection, make_role: Callable[..., str], connect: Any
) -> None:
    """Groups count, a role made again does not, neither SET ROLE nor a nested function helps."""
    group, member = make_role("group", "nologin"), make_role("member")
    reader, stranger = make_role("reader"), make_role("stranger")
    run(su, "grant {} to {}", group, member)
    grant(furnished, group, WORKSPACE, "read")
    grant(furnished, reader, WORKSPACE, "read")
    count = "select remem.count('acme')"
    assert connect(member).execute(count).fetchone() == (2,)
    someone = connect(stranger)
    assert state(someone, count) == "RM301"
    for attempt in (f'set role "{reader}"', f'set session authorization "{reader}"'):
        assert state(someone, attempt) == "42501"
    run(su, "grant create on schema public to {}", OWNER)
    for depth, inner in enumerate(("remem.count('acme')", "public.lend0()", "public.lend1()")):
        furnished.execute(
            f"create function public.lend{depth}() returns bigint language sql security definer"
            f" as $$ select {inner} $$".encode()
        )
        assert state(someone, f"select public.lend{depth}()") == "RM301"
    su.execute(f'drop owned by "{reader}"'.encode())
    su.execute(f'drop role "{reader}"'.encode())
    su.execute(f"create role \"{reader}\" login password 'remem-test'".encode())
    assert state(connect(reader), count) == "RM301"


# -- what a refusal tells --------------------------------------------------------------------------

EXISTING, LARGE, MISSING = WORKSPACE, "large", "nowhere"
PROBES = {
    "recall": "select * from remem.recall(%s, 'how often do we retry?')",
    "remember": "select remem.remember(%s, 'x')",
    "get": "select * from remem.get(%s, ref => 'retries')",
    "count": "select remem.count(%s)",
    "create_workspace": "select remem.create_workspace(%s)",
    "drop_workspace": "select remem.drop_workspace(%s)",
    "plan": "select remem.plan(%s, 'retries')",
    "set_language": "select remem.set_language(%s, 'german')",
    "reindex_text": "select remem.reindex_text(%s)",
    "claim_embeddings": "select * from remem.claim_embeddings(%s)",
}


def told(conn: Connection, query: str, workspace: str) -> tuple[Any, ...]:
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(query.encode(), [workspace])
    d = refused.value.diag
    return (d.sqlstate, d.message_primary, d.message_detail, d.message_hint, d.context)


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("user", ["stranger", "granted elsewhere", "confined"])
def test_a_refusal_is_the_same_whether_the_workspace_exists_or_not(
    furnished: Connection, make_role: Any, connect: Any, probe: str, user: str
) -> None:
    furnished.execute(
        "select remem.remember_many('large', (select jsonb_agg(jsonb_build_object("
        "'body', 'retry ' || n)) from generate_series(1, 300) n))"
    )
    someone = furnished
    if user != "confined":
        role = make_role("x")
        if user == "granted elsewhere":
            grant(furnished, role, "elsewhere", "admin")
        someone = connect(role)
    else:
        someone.execute("select set_config('remem.workspace', 'elsewhere', false)")
    said = {told(someone, PROBES[probe], name) for name in (EXISTING, LARGE, MISSING)}
    assert len(said) == 1
    assert next(iter(said))[0] == "RM301"


def quickest(conn: Connection, query: str, names: tuple[str, ...], rounds: int) -> dict[str, float]:
    """The best time of a refused call for each name, taken in turn on a busy machine."""
    best = dict.fromkeys(names, float("inf"))
    for _ in range(rounds):
        for name in names:
            started = perf_counter()
            try:
                conn.execute(query.encode(), [name])
            except psycopg.Error:
                best[name] = min(best[name], perf_counter() - started)
    return best


@pytest.mark.parametrize("probe", ["recall", "get", "remember"])
def test_the_time_of_a_refusal_tells_nothing_either(
    furnished: Connection, users: dict[str, Connection], probe: str
) -> None:
    furnished.execute(
        "select remem.remember_many('large', (select jsonb_agg(jsonb_build_object("
        "'body', 'how often do we retry ' || n)) from generate_series(1, 2000) n))"
    )
    names = (EXISTING, LARGE, MISSING)
    took = quickest(users["stranger"], PROBES[probe], names, 150)
    assert max(took.values()) < 1.5 * min(took.values()) + 0.0002, took


def test_an_owner_who_is_confined_or_in_strict_mode_is_refused_as_others_are(
    furnished: Connection,
) -> None:
    furnished.execute("select remem.configure('tenant_mode', 'strict')")
    assert state(furnished, "select remem.count('acme')") == "RM302"
    furnished.execute("select set_config('remem.workspace', 'elsewhere', false)")
    assert state(furnished, "select remem.count('acme')") == "RM301"
    furnished.execute("select set_config('remem.workspace', 'acme', false)")
    assert state(furnished, "select remem.count('acme')") == ""
