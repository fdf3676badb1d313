"""``where`` and ``scope`` through both clients and the commands, and the second look at scopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from remem_pg import AsyncRemem, InvalidArgument, Remem, UnknownOption
from remem_pg.context.scope import Scope
from tests.client.cli_runner import Cli
from tests.support.memories import Connection

ITEMS: list[dict[str, Any]] = [
    {"ref": "core", "body": "The heron decision of the core team.", "kind": "decision",
     "metadata": {"team": "core"}, "occurred_at": "2026-02-01T00:00:00Z", "importance": 0.7},
    {"ref": "low", "body": "A small heron decision.", "kind": "decision",
     "metadata": {"team": "core"}, "occurred_at": "2026-02-01T00:00:00Z", "importance": 0.6},
    {"ref": "old", "body": "An old heron decision.", "kind": "decision",
     "metadata": {"team": "core"}, "occurred_at": "2025-12-31T23:59:59Z", "importance": 0.9},
    {"ref": "web", "body": "The heron decision of the web team.", "kind": "decision",
     "metadata": {"team": "web"}, "occurred_at": "2026-02-01T00:00:00Z", "importance": 0.9},
    {"ref": "task", "body": "A heron task.", "kind": "task", "metadata": {"team": "core"},
     "occurred_at": "2026-02-01T00:00:00Z", "importance": 0.9},
    {"ref": "ann", "body": "The heron of Ann.", "scope": "user", "scope_ref": "ann"},
    {"ref": "ben", "body": "The heron of Ben.", "scope": "user", "scope_ref": "ben"},
]  # fmt: skip
WHERE = (
    "kind = 'decision' and metadata.team = 'core' and occurred_at > '2026-01-01'"
    " and importance >= 0.7"
)


@pytest.fixture
def mem(db_dsn: str) -> Iterator[Remem]:
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        client.remember_many(ITEMS)  # type: ignore[arg-type]
        yield client


def refs(found: Any) -> list[str | None]:
    return sorted(each.ref for each in found)


def test_a_condition_holds_in_every_reader(mem: Remem) -> None:
    assert refs(mem.recall("heron", where=WHERE)) == ["core"]
    assert refs(mem.list(where=WHERE)) == ["core"]
    assert refs(mem.iterate(where="kind = 'decision'", page=1)) == ["core", "low", "old", "web"]
    assert mem.count(where=WHERE) == 1
    trace = mem.recall_explain("heron", where=WHERE)
    assert [hit["ref"] for hit in trace["hits"]] == ["core"]
    assert refs(mem.list(where="scope = 'user' and scope_ref = 'ben'")) == ["ben"]
    fresh = mem.count(where="freshness = 'current' and created_at > '2020-01-01'")
    assert fresh == len(ITEMS)


def test_the_freshness_that_a_filter_sees_is_the_one_of_now(mem: Remem, db: Connection) -> None:
    db.execute("select remem.set_freshness('acme', 'stale', ref => 'core')")
    assert refs(mem.recall("heron", where="freshness = 'stale'")) == ["core"]
    assert refs(mem.recall("heron", where="freshness <> 'stale'")) == [
        "low", "old", "task", "web",
    ]  # fmt: skip


async def test_the_async_client_takes_the_same(mem: Remem, db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None) as client:
        for parallel in (False, True):
            found = await client.recall("heron", where=WHERE, parallel=parallel)
            assert refs(found) == ["core"]
            owned = await client.recall("heron", scope={"user": "ann"}, parallel=parallel, k=50)
            assert "ann" in refs(owned) and "ben" not in refs(owned)
        assert refs(await client.list(where=WHERE)) == ["core"]
        assert refs([each async for each in client.iterate(where=WHERE)]) == ["core"]
        assert await client.count(where=WHERE) == 1
        with pytest.raises(InvalidArgument):
            await client.recall("heron", where="kind = ")


def test_a_condition_and_a_filter_are_not_given_together(mem: Remem) -> None:
    for call in (mem.list, mem.count, lambda **given: mem.recall("heron", **given)):
        with pytest.raises(InvalidArgument) as caught:
            call(filter="exists($.kind)", where="pinned")
        assert caught.value.detail["argument"] == "filter, where"


@pytest.mark.covers("RP56")
@pytest.mark.parametrize("options", [{}, {"cache": True}, {"cache": True, "log": True}], ids=str)
def test_a_recall_is_for_the_active_context(
    mem: Remem, db_dsn: str, options: dict[str, Any]
) -> None:
    everyone = {"core", "low", "old", "web", "task"}
    with Remem(db_dsn, workspace="acme", embedding=None, **options) as client:
        for _ in range(2):
            assert set(refs(client.recall("heron", k=50))) == everyone
            for scope in ({"user": "ann"}, Scope("acme", user="ann")):
                assert set(refs(client.recall("heron", k=50, scope=scope))) == everyone | {"ann"}
            assert set(refs(client.recall("heron", k=50, scopes=["user"]))) == {"ann", "ben"}
        (own,) = (hit for hit in client.recall("heron", k=50, scope=scope) if hit.ref == "ann")
        assert (own.scope, own.scope_ref) == ("user", "ann")


@pytest.mark.covers("RP32", "RP52", "RP56")
@pytest.mark.parametrize("changed", ["'user', 'ben'", "'global', 'x'", "null, null"])
def test_what_the_server_should_not_have_sent_is_not_shown(
    mem: Remem, su: Connection, changed: str
) -> None:
    """A server that errs about owners: the client looks again, says so, and renumbers."""
    row = su.execute(
        "select pg_get_functiondef(oid) from pg_proc where proname = '_hits'"
    ).fetchone()
    assert row is not None
    assert "degraded, m.scope, m.scope_ref" in row[0]
    wrong = row[0].replace(
        "degraded, m.scope, m.scope_ref",
        f"degraded, (array[case when b.rank > 1 then m.scope end, {changed.split(', ')[0]}])"
        "[case when b.rank > 1 then 1 else 2 end],"
        f" case when b.rank > 1 then m.scope_ref else {changed.split(', ')[1]} end",
    )
    su.execute(wrong.encode())
    scope = {"user": "ann"}
    whole = mem.recall("heron", k=50)
    result = mem.recall("heron", k=50, scope=scope)
    assert "out_of_scope" in result.degraded
    assert "out_of_scope" not in whole.degraded
    assert [hit.rank for hit in result] == list(range(1, len(result) + 1))
    assert len(result) == 5
    trace = mem.recall_explain("heron", k=50, scope=scope)
    assert "out_of_scope" in trace["degraded"]
    assert len(trace["hits"]) == 5


def test_a_scope_that_is_none_is_refused_before_anything_is_sent(mem: Remem) -> None:
    with pytest.raises(UnknownOption):
        mem.recall("heron", scope={"team": "core"})
    with pytest.raises(InvalidArgument):
        mem.recall("heron", scope=Scope("another"))
    with pytest.raises(InvalidArgument):
        mem.recall("heron", scope={"user": "ann"}, scopes=["user"])


def test_the_commands_take_both(mem: Remem, db_dsn: str) -> None:
    cli = Cli(db_dsn)
    at = ("-w", "acme")
    found = cli.json("recall", "heron", "--where", WHERE, *at)["hits"]
    assert [hit["ref"] for hit in found] == ["core"]
    listed = cli.json("list", "--where", WHERE, *at)["memories"]
    assert [memory["ref"] for memory in listed] == ["core"]
    assert cli.json("count", "--where", WHERE, *at)["count"] == 1
    own = cli.json("recall", "heron", "-k", "50", "--user", "ann", *at)["hits"]
    assert "ann" in {hit["ref"] for hit in own}
    assert "ben" not in {hit["ref"] for hit in own}
    refused = cli("recall", "heron", "--where", "kind = 'a' and colour = 'b'", *at)
    assert refused.returncode == 1
    assert "unknown field colour, at line 1, column 16" in " ".join(refused.stderr.split())
