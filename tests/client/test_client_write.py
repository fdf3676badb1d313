"""Remembering and reading back through the client, on a real server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

import remem_pg
from remem_pg import (
    Conflict,
    InvalidArgument,
    NoAccess,
    NotInstalled,
    Remem,
    TextRefused,
    UnknownOption,
)
from tests.support.memories import EVERY_FIELD


def test_every_field_comes_back_as_it_was_given(mem: Remem) -> None:
    written = mem.remember("We retry three times, then page.", **EVERY_FIELD)
    assert (written.outcome, written.ref, written.item_no) == ("created", "r-1", 1)
    assert isinstance(written.memory_id, UUID)
    memory = mem.get(written.memory_id)
    assert memory is not None
    for name, value in EVERY_FIELD.items():
        assert getattr(memory, name) == value, name
    assert memory.body == "We retry three times, then page."
    assert memory.workspace == "acme"
    assert memory.created_at is not None
    assert memory.created_at.tzinfo is not None
    assert mem.get(ref="r-1") == memory


def test_the_same_content_under_a_ref_is_unchanged_and_other_content_a_new_version(
    mem: Remem,
) -> None:
    first = mem.remember("Deploy on Tuesdays.", ref="deploys")
    assert mem.remember("Deploy on Tuesdays.", ref="deploys").outcome == "unchanged"
    second = mem.remember("Deploy on Thursdays.", ref="deploys")
    assert second.outcome == "new_version"
    assert second.memory_id != first.memory_id
    current = mem.get(ref="deploys")
    assert current is not None
    assert current.body == "Deploy on Thursdays."
    assert mem.count() == 1


def test_a_conflict_can_be_an_error(mem: Remem) -> None:
    mem.remember("one", ref="r")
    with pytest.raises(Conflict) as caught:
        mem.remember("two", ref="r", on_conflict="error")
    assert caught.value.item_no is None
    assert mem.count() == 1


def test_what_is_not_there_is_none(mem: Remem) -> None:
    mem.remember("one")
    assert mem.get(uuid4()) is None
    assert mem.get(ref="nobody") is None


def test_one_call_and_one_batch_store_the_same(mem: Remem) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    item: dict[str, Any] = {"body": "b", "tags": ["x"], "metadata": {"a": 1}, "occurred_at": when}
    single = mem.remember(**item, ref="r")
    assert mem.remember_many([{**item, "ref": "r"}])[0].outcome == "unchanged"
    assert single.memory_id == mem.list()[0].memory_id


def test_a_report_stores_the_good_items_and_names_the_bad_ones(mem: Remem) -> None:
    items: list[Any] = [
        {"body": "one", "ref": "1"},
        {"body": "nul \0", "ref": "2"},
        {"body": "three", "ref": "3", "kind": "nonsense"},
        {"body": "four", "ref": "4", "metadata": {"x": "\ud800"}},
        {"body": "", "ref": "5"},
        {"body": "six", "ref": "6", "colour": "red"},
        {"body": "seven", "ref": "7", "occurred_at": "2026-01-01T00:00:00"},
        {"body": "eight", "ref": "8", "embedding": [float("nan")]},
        {"body": "nine", "ref": "9", "embedding": [1.0, 2.0]},
        {"body": "ten", "ref": "10"},
    ]
    refs = mem.remember_many(items, on_error="report", batch_size=4)
    assert [ref.item_no for ref in refs] == list(range(1, 11))
    assert [ref.ref for ref in refs] == [str(n) for n in range(1, 11)]
    codes = {ref.item_no: ref.error["code"] for ref in refs if ref.error}
    assert codes == {
        2: "RM003",
        3: "RM001",
        4: "RM003",
        5: "RM001",
        6: "RM002",
        7: "RM001",
        8: "RM203",
        9: "RM201",
    }
    for ref in refs:
        error = ref.exception()
        assert (error is None) == (ref.outcome == "created")
        assert error is None or error.item_no == ref.item_no
    assert {memory.ref for memory in mem.iterate()} == {"1", "10"}


@pytest.mark.parametrize("batch_size", [2, 100])
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"body": "x\0"}, TextRefused),
        ({"body": "x", "kind": "nonsense"}, InvalidArgument),
        ({"body": "x", "colour": "red"}, UnknownOption),
    ],
)
def test_with_abort_nothing_is_stored_whichever_side_refuses(
    mem: Remem, bad: dict[str, Any], kind: type[Exception], batch_size: int
) -> None:
    items: list[Any] = [{"body": f"good {n}"} for n in range(5)]
    with pytest.raises(kind, match="item 6"):
        mem.remember_many([*items, bad], batch_size=batch_size)
    assert mem.count() == 0


def test_many_batches_are_stored_in_order(mem: Remem) -> None:
    refs = mem.remember_many(
        ({"body": f"note {n}", "ref": str(n)} for n in range(57)), batch_size=10
    )
    assert [ref.ref for ref in refs] == [str(n) for n in range(57)]
    assert {ref.outcome for ref in refs} == {"created"}
    assert mem.count() == 57


def test_nothing_to_remember_is_no_error(mem: Remem) -> None:
    assert mem.remember_many([]) == []


def test_pages_cover_every_memory_once_newest_first(mem: Remem) -> None:
    mem.remember_many([{"body": f"note {n}", "ref": str(n)} for n in range(25)])
    everything = list(mem.iterate(page=7))
    assert len({memory.memory_id for memory in everything}) == 25
    first = mem.list(limit=10)
    assert everything[:10] == first
    assert mem.list(after=first[-1].memory_id, limit=3) == everything[10:13]


def test_a_filter_is_a_jsonpath(mem: Remem) -> None:
    mem.remember("a", kind="decision", metadata={"ticket": 1})
    mem.remember("b", kind="decision", metadata={"ticket": 2})
    mem.remember("c", kind="task", metadata={"ticket": 2})
    wanted = '$.kind == "decision" && $.metadata.ticket == 2'
    assert [memory.body for memory in mem.list(wanted)] == ["b"]
    assert mem.count(wanted) == 1
    with pytest.raises(InvalidArgument):
        mem.count("$.kind ==")


def test_a_workspace_client_shares_the_connections_and_nothing_else(mem: Remem) -> None:
    other = mem.workspace("beta")
    other.remember("only in beta")
    assert (mem.count(), other.count()) == (0, 1)
    assert (mem.workspace_name, other.workspace_name) == ("acme", "beta")
    other.close()
    assert mem.count() == 0


def test_text_of_every_kind_survives(mem: Remem) -> None:
    body = "tab\t quote\" backslash\\ percent % %s {} 日本語 🎉 \u202e $1 \x01 ' ;--"
    written = mem.remember(body, metadata={body: [body]}, tags=[body])
    memory = mem.get(written.memory_id)
    assert memory is not None
    assert (memory.body, memory.tags, memory.metadata) == (body, [body], {body: [body]})


def test_a_database_without_remem_says_so(bare_database: str) -> None:
    with Remem(bare_database, workspace="acme", embedding=None) as client:
        with pytest.raises(NotInstalled, match="remem migrate"):
            client.remember("x")
        report = client.migrate()
        assert report.previous_version is None
        assert client.remember("x").outcome == "created"
        assert client.version().version == remem_pg.__version__


def test_open_ended_validity_written_by_others_can_be_read(
    mem: Remem, db: psycopg.Connection[Any]
) -> None:
    db.execute(
        "select remem.remember('acme', 'x', valid_from => '-infinity', valid_to => 'infinity')"
    )
    memory = mem.list()[0]
    assert memory.valid_from == datetime.min.replace(tzinfo=UTC)
    assert memory.valid_to == datetime.max.replace(tzinfo=UTC)


def test_a_role_without_a_grant_gets_no_access_and_with_one_gets_in(
    mem: Remem, make_role: Any, server: Any, database: str
) -> None:
    mem.remember("secret")
    role = make_role()
    with Remem(server.dsn(role, database), workspace="acme", embedding=None) as client:
        for call in (
            lambda: client.recall("secret"),
            lambda: client.remember("x"),
            client.list,
            client.count,
            client.version,
        ):
            with pytest.raises(NoAccess) as caught:
                call()
            assert caught.value.code == "RM301"
        mem.grant_access(role, "acme", "read")
        assert [hit.body for hit in client.recall("secret")] == ["secret"]
        with pytest.raises(NoAccess):
            client.remember("x")
        with pytest.raises(NoAccess):
            client.workspace("beta").recall("secret")
        assert mem.revoke_access(role, "acme") is True
        assert mem.revoke_access(role, "acme") is False
        with pytest.raises(NoAccess):
            client.count()


def test_create_workspace_says_whether_it_is_new(mem: Remem) -> None:
    assert mem.create_workspace(language="german") is True
    assert mem.create_workspace(language="german") is False
    with pytest.raises(Conflict):
        mem.create_workspace(language="english")
    assert mem.create_workspace("beta") is True
