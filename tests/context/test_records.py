"""What a provider may hand over, and whose records may be seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from remem_pg.context.record import Record, accepted, text_key
from remem_pg.context.scope import Scope, as_scope
from remem_pg.errors import InvalidArgument, UnknownOption

SCOPE = Scope("acme", project="phoenix", user="mei")


def take(raw: Any, scope: Scope = SCOPE) -> Record | None:
    return accepted(raw, "notes", scope, 100)


@pytest.mark.covers("RP32")
def test_a_dictionary_and_a_record_are_the_same() -> None:
    fields = {"id": "1", "body": "We retry.", "score": 0.5, "title": "Retries"}
    assert take(fields) == take(Record(**fields))
    record = take(fields)
    assert record is not None
    assert (record.provider, record.scope, record.freshness) == ("notes", "global", "unknown")


@pytest.mark.covers("RP57")
@pytest.mark.parametrize(
    "kind", ["semantic", "episodic", "decision", "preference", "procedure", "task", "other"]
)
def test_a_record_of_every_kind_is_taken(kind: str) -> None:
    record = take({"id": "1", "body": "We retry.", "kind": kind})
    assert record is not None
    assert record.kind == kind


@pytest.mark.covers("RP32", "RP57")
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "a text",
        42,
        ["id", "body"],
        {},
        {"id": "1"},
        {"body": "b"},
        {"id": "", "body": "b"},
        {"id": 7, "body": "b"},
        {"id": "x" * 600, "body": "b"},
        {"id": "1", "body": ""},
        {"id": "1", "body": " \n\u200b "},
        {"id": "1", "body": b"b"},
        {"id": "1", "body": "b", "score": float("nan")},
        {"id": "1", "body": "b", "score": "high"},
        {"id": "1", "body": "b", "score": True},
        {"id": "1", "body": "b", "importance": float("inf")},
        {"id": "1", "body": "b", "kind": "gossip"},
        {"id": "1", "body": "b", "kind": ["task"]},
        {"id": "1", "body": "b", "freshness": "fresh"},
        {"id": "1", "body": "b", "updated_at": "yesterday"},
        {"id": "1", "body": "b", "updated_at": 1700000000},
        {"id": "1", "body": "b", "title": 3},
        {"id": "1", "body": "b", "conflicts_with": "2"},
        {"id": "1", "body": "b", "conflicts_with": [2]},
        {"id": "1", "body": "b", "duplicates": [{"no": "id"}]},
        {"id": "1", "body": "b", "instructions": "obey"},
        {"id": "1", "body": "b", 5: "x"},
    ],
)
def test_what_is_malformed_is_dropped(wrong: Any) -> None:
    assert take(wrong) is None


@pytest.mark.covers("RP32", "RP52", "RP56")
@pytest.mark.parametrize(
    ("scope", "scope_ref", "seen"),
    [
        ("global", None, True),
        ("workspace", None, True),
        ("global", "phoenix", False),
        ("project", "phoenix", True),
        ("project", "other", False),
        ("project", None, False),
        ("project", "", False),
        ("user", "mei", True),
        ("user", "Mei", False),
        ("session", "s1", False),
        ("team", "phoenix", False),
        (None, None, False),
        (1, None, False),
        ("global", 0, False),
    ],
)
def test_scope_is_decided_here_and_not_by_the_provider(
    scope: Any, scope_ref: Any, seen: bool
) -> None:
    raw = {"id": "1", "body": "b", "scope": scope, "scope_ref": scope_ref, "score": 1.0}
    assert (take(raw) is not None) is seen


@pytest.mark.covers("RP52")
def test_a_record_of_another_workspace_is_dropped() -> None:
    assert take({"id": "1", "body": "b", "workspace": "acme"}) is not None
    assert take({"id": "1", "body": "b", "workspace": "rival"}) is None
    assert take({"id": "1", "body": "b", "workspace": None}) is None


@pytest.mark.covers("RP32")
def test_a_body_is_cut_and_still_recognised_by_the_whole_of_it() -> None:
    one, other = take({"id": "1", "body": "x" * 150}), take({"id": "2", "body": "x" * 151})
    assert one is not None
    assert other is not None
    assert len(one.body) == 100
    assert one.cut
    assert one.body == other.body
    assert one.text_key != other.text_key


def test_numbers_are_brought_between_0_and_1_and_times_get_a_zone() -> None:
    record = take(
        {"id": "1", "body": "b", "score": 7, "importance": -1, "updated_at": "2026-01-02"}
    )
    assert record is not None
    assert (record.score, record.importance) == (1.0, 0.0)
    assert record.updated_at == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.covers("RP36")
def test_case_width_and_spaces_make_no_other_text_but_numbers_do() -> None:
    assert text_key("We  RETRY\nthree times") == text_key("we retry three times")
    assert text_key("Ｗｅ retry") == text_key("We retry")
    assert text_key("retry 3 times") != text_key("retry 4 times")


@pytest.mark.covers("RP27")
def test_a_scope_is_made_of_a_dictionary() -> None:
    scope = as_scope("acme", {"project": "phoenix", "session": None})
    assert scope == Scope("acme", project="phoenix")
    assert scope.owners() == {"project": "phoenix"}
    assert as_scope("acme", scope) == scope
    assert as_scope("acme", None) == Scope("acme")


def test_a_wrong_scope_is_an_error_of_the_caller() -> None:
    with pytest.raises(UnknownOption, match="project, session, user"):
        as_scope("acme", {"team": "a"})
    with pytest.raises(InvalidArgument):
        as_scope("acme", {"project": 5})
    with pytest.raises(InvalidArgument):
        as_scope("acme", "phoenix")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="another workspace"):
        as_scope("acme", Scope("rival"))


@pytest.mark.covers("RP52")
def test_a_name_cannot_break_out_of_the_filter() -> None:
    hostile = Scope("acme", project='x" || $.scope == "user')
    assert hostile.filter() == (
        '($.scope == "global" || ($.scope == "project" && $.scope_ref == '
        '"x\\" || $.scope == \\"user"))'
    )
