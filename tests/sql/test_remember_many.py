"""remember_many: what becomes of each item of a batch, all or nothing, item by item."""

from __future__ import annotations

import pytest

from tests.support.consistency import problems
from tests.support.memories import Connection, get, refused, remember, remember_many, value


def test_a_ref_twice_in_one_batch_ends_with_the_later_content(db: Connection) -> None:
    refs = remember_many(db, "w", [{"body": "Blue.", "ref": "c"}, {"body": "Green.", "ref": "c"}])
    assert [(r.outcome, r.item_no) for r in refs] == [("created", 1), ("new_version", 2)]
    assert get(db, "w", ref="c").body == "Green."
    assert get(db, "w", memory_id=refs[0].memory_id).superseded_by == refs[1].memory_id
    assert problems(db) == []


def test_a_ref_and_its_content_twice_in_one_batch_is_unchanged(db: Connection) -> None:
    refs = remember_many(db, "w", [{"body": "Blue.", "ref": "c"}] * 3)
    assert [r.outcome for r in refs] == ["created", "unchanged", "unchanged"]
    assert len({r.memory_id for r in refs}) == 1


def test_a_text_twice_in_one_batch_merges(db: Connection) -> None:
    refs = remember_many(db, "w", [{"body": "Blue."}, {"body": "Green."}, {"body": "Blue."}])
    assert [r.outcome for r in refs] == ["created", "created", "merged"]
    assert refs[0].memory_id == refs[2].memory_id


def test_the_results_of_a_batch_come_in_the_order_of_its_items(db: Connection) -> None:
    remember(db, "w", "b", ref="b")
    items = [{"body": letter, "ref": letter} for letter in "cbad"]
    refs = remember_many(db, "w", [*items, {"body": "x", "ref": "b"}])
    assert [(r.item_no, r.ref) for r in refs] == list(enumerate([*"cbad", "b"], start=1))


def test_abort_stores_nothing_of_a_batch_with_a_bad_item(db: Connection) -> None:
    with refused("RM001", item=2, argument="kind"):
        remember_many(db, "w", [{"body": "good"}, {"body": "bad", "kind": "poem"}])
    assert value(db, "select remem.count('w')") == 0
    assert value(db, "select count(*) from remem.posting") == 0


def test_abort_stores_nothing_of_a_batch_with_a_conflict(db: Connection) -> None:
    remember(db, "w", "Blue.", ref="c")
    items = [{"body": "first"}, {"body": "Green.", "ref": "c", "on_conflict": "error"}]
    with refused("RM102", item=2, value="c"):
        remember_many(db, "w", items)
    assert value(db, "select remem.count('w')") == 1
    assert problems(db) == []


def test_report_keeps_the_good_items_and_says_what_was_wrong_with_the_others(
    db: Connection,
) -> None:
    items = [
        {"body": "one", "ref": "1"},
        {"body": "", "ref": "2"},
        {"body": "three", "ref": "3", "importance": 7},
        {"body": "four", "colour": "red"},
        "five",
        {"body": "six", "embedding": [1.0]},
        {"body": "seven"},
    ]
    refs = remember_many(db, "w", items, "report")
    assert [r.outcome for r in refs] == ["created", *["refused"] * 5, "created"]
    assert [r.item_no for r in refs] == [1, 2, 3, 4, 5, 6, 7]
    codes = [r.error["code"] for r in refs if r.error is not None]
    assert codes == ["RM001", "RM001", "RM002", "RM001", "RM201"]
    for ref in refs[1:6]:
        assert ref.memory_id is None
        assert ref.error is not None
        assert ref.error["detail"]["item"] == ref.item_no
        assert ref.error["hint"]
    assert refs[1].ref == "2"
    assert value(db, "select remem.count('w')") == 2
    assert problems(db) == []


def test_report_keeps_the_others_when_an_item_conflicts(db: Connection) -> None:
    remember(db, "w", "Blue.", ref="c")
    items = [
        {"body": "first", "ref": "a"},
        {"body": "Green.", "ref": "c", "on_conflict": "error"},
        {"body": "last"},
    ]
    refs = remember_many(db, "w", items, "report")
    assert [(r.item_no, r.outcome) for r in refs] == [
        (1, "created"),
        (2, "refused"),
        (3, "created"),
    ]
    assert refs[1].error is not None
    assert refs[1].error["code"] == "RM102"
    assert refs[1].error["detail"]["item"] == 2
    assert refs[1].ref == "c"
    assert get(db, "w", ref="c").body == "Blue."
    assert problems(db) == []


def test_a_batch_of_nothing_is_nothing(db: Connection) -> None:
    assert remember_many(db, "w", []) == []


@pytest.mark.parametrize("items", [{"body": "x"}, "x", 5, None], ids=repr)
def test_items_that_are_no_array_are_refused(db: Connection, items: object) -> None:
    with refused("RM001", argument="items"):
        remember_many(db, "w", items)


def test_items_that_are_null_are_refused(db: Connection) -> None:
    with refused("RM001", argument="items"):
        db.execute("select remem.remember_many('w', null)")


@pytest.mark.parametrize("on_error", ["ignore", "", None])
def test_an_unknown_on_error_is_refused(db: Connection, on_error: str | None) -> None:
    with refused("RM001", argument="on_error"):
        remember_many(db, "w", [{"body": "x"}], on_error)


def test_every_argument_of_remember_is_a_key_of_remember_many(db: Connection) -> None:
    arguments = value(db, "select proargnames from pg_proc where oid = 'remem.remember'::regproc")
    with refused("RM002", item=1, option="x") as refusal:
        remember_many(db, "w", [{"x": 1}])
    assert set(refusal.detail["valid"]) == set(arguments) - {"workspace"}


def test_remember_and_remember_many_store_the_same(db: Connection) -> None:
    said = {
        "title": "Retries",
        "tags": ["ops"],
        "importance": 0.25,
        "metadata": {"a": [1, None]},
        "occurred_at": "2026-03-01T09:30:00+00:00",
        "ref": "r",
    }
    remember(db, "w", "We retry.", **said)
    (again,) = remember_many(db, "w", [{"body": "We retry.", **said}])
    assert again.outcome == "unchanged"
