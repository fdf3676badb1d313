"""What remember makes of a memory: created, unchanged, new version, merged, refused."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.support.consistency import problems
from tests.support.memories import (
    EVERY_FIELD,
    Connection,
    bodies,
    get,
    recall,
    refused,
    remember,
    value,
)


def lexemes_of(db: Connection, table: str, memory_id: object) -> set[str]:
    rows = db.execute(
        "select l from remem.memory m cross join unnest(m.lexemes) l where m.memory_id = %s"
        f" and exists (select from remem.{table} p where p.memory_no = m.memory_no"
        "   and p.workspace_key = remem._workspace_key(m.workspace) and p.word = remem._word(l))",
        [memory_id],
    )
    return {lexeme for (lexeme,) in rows}


def has_vector(db: Connection, table: str, memory_id: object) -> bool:
    return bool(
        value(
            db,
            f"select exists (select from remem.{table} e"
            " join remem.memory m using (workspace, memory_no) where m.memory_id = %s)",
            [memory_id],
        )
    )


def test_a_new_memory_is_created_and_has_an_id(db: Connection) -> None:
    ref = remember(db, "w", "We retry three times, then page.")
    assert (ref.outcome, ref.item_no, ref.ref, ref.error) == ("created", 1, None, None)
    assert get(db, "w", memory_id=ref.memory_id).body == "We retry three times, then page."


def test_the_same_content_under_a_ref_is_unchanged(db: Connection) -> None:
    first = remember(db, "w", "Deploy on Tuesdays.", ref="deploys", tags=["ops"])
    again = remember(db, "w", "Deploy on Tuesdays.", ref="deploys", tags=["ops"])
    assert (again.outcome, again.memory_id) == ("unchanged", first.memory_id)
    assert value(db, "select count(*) from remem.memory") == 1


def test_the_same_content_said_from_another_time_zone_is_unchanged(db: Connection) -> None:
    said = {
        "ref": "r",
        "occurred_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "valid_from": datetime(2026, 3, 1, tzinfo=UTC),
        "valid_to": datetime(2036, 3, 1, tzinfo=UTC),
    }
    db.execute("set timezone = 'Pacific/Auckland'")
    first = remember(db, "w", "The office moved.", **said)
    db.execute("set timezone = 'America/St_Johns'")
    again = remember(db, "w", "The office moved.", **said)
    assert (again.outcome, again.memory_id) == ("unchanged", first.memory_id)


@pytest.mark.parametrize(
    ("setting", "one", "other"),
    [
        ("extra_float_digits", "-6", "3"),
        ("datestyle", "German", "ISO, MDY"),
        ("intervalstyle", "sql_standard", "iso_8601"),
        ("bytea_output", "escape", "hex"),
    ],
)
def test_the_same_content_said_under_another_output_setting_is_unchanged(
    db: Connection, setting: str, one: str, other: str
) -> None:
    said = {"ref": "r", "importance": 1 / 3, "occurred_at": datetime(2026, 3, 4, tzinfo=UTC)}
    db.execute(f"set {setting} = {one}")
    first = remember(db, "w", "Content is what was said.", **said)
    db.execute(f"set {setting} = {other}")
    again = remember(db, "w", "Content is what was said.", **said)
    assert (again.outcome, again.memory_id) == ("unchanged", first.memory_id)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Deploys"},
        {"tags": ["ops"]},
        {"importance": 0.9},
        {"metadata": {"ticket": 41}},
        {"valid_to": datetime(2036, 1, 1, tzinfo=UTC)},
        {"kind": "decision"},
        {"pinned": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_content_under_a_ref_makes_a_new_version(
    db: Connection, change: dict[str, object]
) -> None:
    first = remember(db, "w", "Deploy on Tuesdays.", ref="deploys")
    second = remember(db, "w", "Deploy on Tuesdays.", ref="deploys", **change)
    assert second.outcome == "new_version"
    assert second.memory_id != first.memory_id


def test_the_former_version_is_superseded_by_the_new_one(db: Connection) -> None:
    first = remember(db, "w", "Deploy on Tuesdays.", ref="deploys")
    second = remember(db, "w", "Deploy on Thursdays.", ref="deploys")
    old = get(db, "w", memory_id=first.memory_id)
    assert old.body == "Deploy on Tuesdays."
    assert old.superseded_by == second.memory_id
    assert old.superseded_at is not None
    new = get(db, "w", ref="deploys")
    assert (new.memory_id, new.body) == (second.memory_id, "Deploy on Thursdays.")
    assert new.superseded_at is None


def test_the_former_version_leaves_the_live_tables_for_the_past_ones(db: Connection) -> None:
    first = remember(db, "w", "Deploy on Tuesdays.", ref="deploys")
    live = lexemes_of(db, "posting", first.memory_id)
    assert live
    second = remember(db, "w", "Deploy on Thursdays.", ref="deploys")
    assert lexemes_of(db, "posting", first.memory_id) == set()
    assert lexemes_of(db, "posting_past", first.memory_id) == live
    assert not has_vector(db, "embedding_1", first.memory_id)
    assert has_vector(db, "embedding_1_past", first.memory_id)
    assert has_vector(db, "embedding_1", second.memory_id)
    assert problems(db) == []


def test_a_chain_of_versions_points_forward_one_by_one(db: Connection) -> None:
    ids = [remember(db, "w", f"Version {n}.", ref="r").memory_id for n in range(5)]
    chain = [get(db, "w", memory_id=i).superseded_by for i in ids]
    assert chain == [*ids[1:], None]
    assert problems(db) == []


def test_going_back_to_former_content_is_a_new_version_too(db: Connection) -> None:
    first = remember(db, "w", "Blue.", ref="r")
    remember(db, "w", "Green.", ref="r")
    third = remember(db, "w", "Blue.", ref="r")
    assert third.outcome == "new_version"
    assert third.memory_id != first.memory_id


def test_on_conflict_error_refuses_other_content_and_keeps_the_row(db: Connection) -> None:
    first = remember(db, "w", "Deploy on Tuesdays.", ref="deploys")
    with refused("RM102", item=1, argument="ref", value="deploys"):
        remember(db, "w", "Deploy on Thursdays.", ref="deploys", on_conflict="error")
    assert get(db, "w", ref="deploys").memory_id == first.memory_id


def test_on_conflict_error_accepts_the_same_content(db: Connection) -> None:
    remember(db, "w", "Deploy on Tuesdays.", ref="deploys")
    again = remember(db, "w", "Deploy on Tuesdays.", ref="deploys", on_conflict="error")
    assert again.outcome == "unchanged"


def test_the_same_ref_in_two_workspaces_is_two_memories(db: Connection) -> None:
    one = remember(db, "one", "Blue.", ref="r")
    two = remember(db, "two", "Green.", ref="r")
    assert (one.outcome, two.outcome) == ("created", "created")
    assert get(db, "one", ref="r").body == "Blue."


def test_an_equal_text_without_a_ref_merges_into_the_row_that_is_there(db: Connection) -> None:
    first = remember(db, "w", "Postgres 16 runs in production.")
    again = remember(db, "w", "Postgres 16 runs in production.")
    assert (again.outcome, again.memory_id) == ("merged", first.memory_id)
    assert value(db, "select count(*) from remem.memory") == 1


def test_an_equal_text_merges_into_a_row_that_has_a_ref(db: Connection) -> None:
    first = remember(db, "w", "Postgres 16 runs in production.", ref="db")
    again = remember(db, "w", "Postgres 16 runs in production.")
    assert (again.outcome, again.memory_id, again.ref) == ("merged", first.memory_id, "db")


@pytest.mark.parametrize(
    "difference",
    [
        {"kind": "decision"},
        {"scope": "project", "scope_ref": "billing"},
        {"subject": "production"},
        {"attribute": "version"},
        {"session_ref": "s"},
        {"speaker": "Ana"},
        {"ref": "db"},
        {"valid_to": datetime(2036, 1, 1, tzinfo=UTC)},
        {"valid_from": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_an_equal_text_that_says_something_else_is_a_memory_of_its_own(
    db: Connection, difference: dict[str, object]
) -> None:
    first = remember(db, "w", "Postgres 16 runs in production.")
    other = remember(db, "w", "Postgres 16 runs in production.", **difference)
    assert other.outcome == "created"
    assert other.memory_id != first.memory_id


def test_an_expired_memory_does_not_swallow_the_same_text_said_anew(db: Connection) -> None:
    remember(db, "w", "The canteen is closed.", valid_to=datetime(2020, 1, 1, tzinfo=UTC))
    remember(db, "w", "The canteen is closed.")
    assert bodies(recall(db, "w", "canteen")) == ["The canteen is closed."]


def test_texts_that_differ_in_one_letter_s_case_do_not_merge(db: Connection) -> None:
    remember(db, "w", "US rules apply.")
    assert remember(db, "w", "us rules apply.").outcome == "created"


def test_the_same_text_in_two_sessions_is_two_memories(db: Connection) -> None:
    one = remember(db, "w", "Good morning.", session_ref="a")
    two = remember(db, "w", "Good morning.", session_ref="b")
    assert (one.outcome, two.outcome) == ("created", "created")


def test_a_merge_keeps_the_other_source_in_the_provenance(db: Connection) -> None:
    first = remember(db, "w", "Port 5432 is open.", source_ref="wiki:1", source_class="document")
    remember(db, "w", "Port 5432 is open.", source_ref="chat:7", source_class="user_stated")
    remember(db, "w", "Port 5432 is open.", source_ref="chat:7", source_class="user_stated")
    remember(db, "w", "Port 5432 is open.", source_ref="wiki:1")
    memory = get(db, "w", memory_id=first.memory_id)
    assert memory.source_ref == "wiki:1"
    also = [(entry["source_ref"], entry["source_class"]) for entry in memory.provenance["also"]]
    assert also == [("chat:7", "user_stated")]


def test_a_merge_keeps_nothing_else_of_what_was_said_again(db: Connection) -> None:
    first = remember(db, "w", "Port 5432 is open.", title="Ports", tags=["net"], importance=0.4)
    before = get(db, "w", memory_id=first.memory_id)
    again = remember(
        db,
        "w",
        "Port 5432 is open.",
        title="Other",
        tags=["db"],
        importance=0.9,
        pinned=True,
        topic_key="ports",
        source_class="document",
        source_ref="wiki:1",
        metadata=Jsonb({"n": 1}),
    )
    assert (again.outcome, again.memory_id) == ("merged", first.memory_id)
    after = get(db, "w", memory_id=first.memory_id)
    (entry,) = after.provenance["also"]
    assert (entry["source_ref"], entry["source_class"]) == ("wiki:1", "document")
    assert after._replace(provenance=None, updated_at=None) == before._replace(
        provenance=None, updated_at=None
    )


def test_a_superseded_text_is_not_merged_into(db: Connection) -> None:
    remember(db, "w", "Blue.", ref="colour")
    remember(db, "w", "Green.", ref="colour")
    assert remember(db, "w", "Blue.").outcome == "created"


def test_a_failed_remember_can_be_rolled_back_to_a_savepoint(db: Connection) -> None:
    with db.transaction():
        remember(db, "w", "kept")
        with refused("RM001"), db.transaction():
            remember(db, "w", "")
        remember(db, "w", "kept too")
    assert value(db, "select remem.count('w')") == 2
    assert problems(db) == []


def test_a_rolled_back_remember_leaves_nothing(db: Connection) -> None:
    remember(db, "w", "Blue.", ref="c")
    with db.transaction(force_rollback=True):
        remember(db, "w", "Green.", ref="c", session_ref="s")
        remember(db, "other", "Green.")
    assert get(db, "w", ref="c").body == "Blue."
    assert value(db, "select count(*) from remem.workspace") == 1
    assert problems(db) == []


def test_every_field_can_be_read_back(db: Connection) -> None:
    remember(db, "w", "We retry three times.", **EVERY_FIELD)
    memory = get(db, "w", ref="r-1")
    assert {name: getattr(memory, name) for name in EVERY_FIELD} == EVERY_FIELD
    assert (memory.workspace, memory.body) == ("w", "We retry three times.")
    assert memory.freshness == "current"


def test_defaults_are_the_documented_ones(db: Connection) -> None:
    memory = get(db, "w", memory_id=remember(db, "w", "x y").memory_id)
    assert (memory.kind, memory.scope, memory.scope_ref) == ("semantic", "global", None)
    assert (memory.source_class, memory.importance) == ("unspecified", 0.5)
    assert (memory.pinned, memory.unresolved) == (False, False)
    assert (memory.session_ref, memory.turn_no, memory.metadata) == (None, None, None)


def test_an_unknown_id_is_no_row(db: Connection) -> None:
    remember(db, "w", "x")
    assert get(db, "w", memory_id=uuid4()) is None


def test_json_metadata_of_any_type_comes_back_equal(db: Connection) -> None:
    for number, metadata in enumerate([[], {}, 0, "text", False, [[]], {"": {"": None}}]):
        row = db.execute(
            "select memory_id from remem.remember('w', %s, metadata => %s)",
            [f"m {number}", Jsonb(metadata)],
        ).fetchone()
        assert row is not None
        assert get(db, "w", memory_id=row[0]).metadata == metadata
