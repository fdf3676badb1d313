"""remember_many around its statements: batches, reports, numbers; a script answers the steps."""

from __future__ import annotations

from typing import Any

import pytest

from remem_pg import calls
from remem_pg.errors import InvalidArgument, TextRefused
from remem_pg.models import MemoryRef, SpaceInfo
from remem_pg.writing import remember as remember_flow
from tests.support.scripted import OTHER, Server, embed_nothing, session, stored


def test_refused_items_are_reported_in_their_place_and_the_others_are_stored() -> None:
    server = Server(remember_many=stored)
    items = [
        {"body": "one", "ref": "1"},
        {"body": "t\0wo", "ref": "2"},
        {"body": "three", "ref": "3"},
        {"body": "four", "occurred_at": "2026-01-01T00:00:00", "ref": "4"},
        "five",
    ]
    refs = server.drive(remember_flow.remember_many(session(embed_nothing()), items, "report", 10))
    assert [(r.item_no, r.ref, r.outcome) for r in refs] == [
        (1, "1", "created"),
        (2, "2", "refused"),
        (3, "3", "created"),
        (4, "4", "refused"),
        (5, None, "refused"),
    ]
    assert refs[1].error["code"] == "RM003"
    assert isinstance(refs[1].exception(), TextRefused)


def test_with_abort_a_bad_item_stops_everything_before_anything_is_sent() -> None:
    server = Server(remember_many=stored)
    items = [{"body": "one"}, {"body": "t\0wo"}]
    with pytest.raises(TextRefused, match="item 2"):
        server.drive(remember_flow.remember_many(session(embed_nothing()), items, "abort", 10))
    assert server.sent == []


def test_batches_are_numbered_through_and_with_abort_are_one_transaction() -> None:
    items = ({"body": str(n), "ref": str(n)} for n in range(1, 8))
    server = Server(remember_many=stored)
    refs = server.drive(remember_flow.remember_many(session(embed_nothing()), items, "abort", 3))
    assert [r.item_no for r in refs] == [1, 2, 3, 4, 5, 6, 7]
    assert [r.ref for r in refs] == ["1", "2", "3", "4", "5", "6", "7"]
    assert (len(server.sent), server.transactions) == (3, 1)


@pytest.mark.parametrize(("size", "sent"), [(7, 1), (6, 2), (1, 7), (500, 1)])
def test_a_single_batch_needs_no_transaction(size: int, sent: int) -> None:
    server = Server(remember_many=stored)
    items = [{"body": str(n)} for n in range(7)]
    server.drive(remember_flow.remember_many(session(embed_nothing()), items, "abort", size))
    assert (len(server.sent), server.transactions) == (sent, int(sent > 1))


def test_a_server_error_names_the_item_of_the_caller_not_of_the_statement() -> None:
    def refuse_second(call: calls.Call[Any]) -> Any:
        return InvalidArgument(detail={"item": 2, "argument": "kind"}) if len(server.sent) == 2 \
            else stored(call)  # fmt: skip

    server = Server(remember_many=refuse_second)
    items = [{"body": str(n)} for n in range(6)]
    with pytest.raises(InvalidArgument, match="item 5") as caught:
        server.drive(remember_flow.remember_many(session(embed_nothing()), items, "abort", 3))
    assert caught.value.detail["item"] == 5


def test_a_report_of_the_server_is_renumbered_too() -> None:
    def report(call: calls.Call[Any]) -> list[MemoryRef]:
        refused = {"code": "RM001", "detail": {"item": 2, "argument": "kind"}}
        return [MemoryRef(item_no=1), MemoryRef(None, None, "refused", 2, refused)]

    server = Server(remember_many=report)
    items = [{"body": "\0"}, {"body": "a"}, {"body": "b"}]
    refs = server.drive(remember_flow.remember_many(session(embed_nothing()), items, "report", 10))
    assert [r.item_no for r in refs] == [1, 2, 3]
    assert refs[2].error["detail"]["item"] == 3


def test_items_reported_for_a_vector_of_an_old_space_are_sent_again() -> None:
    def old_space(call: calls.Call[Any]) -> list[MemoryRef]:
        error = {"code": "RM202", "detail": {"item": 1}}
        return [MemoryRef(None, "a", "refused", 1, error), MemoryRef(None, "b", "created", 2)]

    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(current_space=[toy, OTHER], count=3, remember_many=[old_space, stored])
    items = [{"body": "a", "ref": "a"}, {"body": "b", "ref": "b", "embedding": [1, 2, 3]}]
    refs = server.drive(remember_flow.remember_many(session(), items, "report", 10))
    assert [(r.ref, r.outcome, r.item_no) for r in refs] == [
        ("a", "created", 1),
        ("b", "created", 2),
    ]
    assert "embedding" not in server.sent[-1].params["items"]


def test_long_items_are_sent_in_small_batches() -> None:
    server = Server(remember_many=stored)
    items = [{"body": "x" * (remember_flow.BATCH_CHARACTERS // 2 + 1)} for _ in range(5)]
    server.drive(remember_flow.remember_many(session(embed_nothing()), items, "report", 500))
    assert len(server.sent) == 3


@pytest.mark.parametrize(
    ("items", "on_error", "batch_size", "named"),
    [
        ([], "ignore", 10, "on_error"),
        ([], "abort", 0, "batch_size"),
        ([], "abort", "10", "batch_size"),
        ({"body": "x"}, "abort", 10, "items"),
        ("text", "abort", 10, "items"),
        (None, "abort", 10, "items"),
    ],
)
def test_wrong_arguments_of_remember_many_are_refused(
    items: Any, on_error: str, batch_size: Any, named: str
) -> None:
    server = Server()
    with pytest.raises(InvalidArgument, match=named):
        server.drive(remember_flow.remember_many(session(), items, on_error, batch_size))
