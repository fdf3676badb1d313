"""import_staged: what it refuses, what it leaves as it is, and who may bring what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.access.doors import grant
from tests.support.bulk import export, outcomes, take
from tests.support.consistency import problems
from tests.support.lifecycle import change
from tests.support.memories import Connection, get, refused, remember, value

Connect = Callable[[str], Connection]
MakeRole = Callable[..., str]

ID = "11111111-0000-4000-8000-00000000000{}"


def memory(number: int = 1, body: str = "The heron is a bird.", **fields: Any) -> dict[str, Any]:
    return {"type": "memory", "memory_id": ID.format(number), "body": body, **fields}


@pytest.mark.parametrize(
    ("record", "code", "detail"),
    [
        ({"type": "memory", "body": "x", "colour": "red"}, "RM002", {"option": "colour"}),
        ({"type": "relation", "src": ID.format(1), "dst": ID.format(2), "since": 1}, "RM002",
         {"option": "since"}),
        ({"type": "dream"}, "RM001", {"argument": "type", "value": "dream"}),
        ({"body": "x"}, "RM001", {"argument": "type"}),
        (["memory"], "RM001", {"argument": "type"}),
        ({"type": "header", "format": 2}, "RM001", {"argument": "format", "got": 2}),
        ({"type": "header"}, "RM001", {"argument": "format"}),
        (memory(body=""), "RM001", {"argument": "body"}),
        (memory(kind="poem"), "RM001", {"argument": "kind"}),
        (memory(source_class="rumour"), "RM001", {"argument": "source_class"}),
        (memory(created_at="yesterday or so"), "RM001", {}),
        (memory(memory_id="7"), "RM001", {}),
        (memory(content_hash="xyz"), "RM001", {}),
        (memory(freshness="rotten"), "RM001", {"argument": "freshness"}),
        (memory(superseded_at="2026-01-01T00:00:00Z"), "RM001", {"argument": "superseded_by"}),
        (memory(session_ref="s"), "RM001", {"argument": "turn_no"}),
        (memory(embedding="AAAA"), "RM001", {"argument": "embedding"}),
        ({"type": "relation", "src": ID.format(1), "dst": ID.format(2), "kind": "likes"}, "RM001",
         {"argument": "kind"}),
        ({"type": "relation", "src": ID.format(1), "dst": ID.format(1), "kind": "related"}, "RM001",
         {"argument": "dst"}),
        ({"type": "version", "old": ID.format(1), "new": ID.format(2), "how": "magic"}, "RM001",
         {"argument": "how"}),
        ({"type": "version", "old": "one", "new": ID.format(2), "how": "corrected"}, "RM001",
         {"type": "version"}),
        ({"type": "tombstone"}, "RM001", {"type": "tombstone"}),
        ({"type": "session", "session_ref": "s" * 501}, "RM003", {"argument": "session_ref"}),
        ({"type": "session", "session_ref": "s", "last_turn": 2147483647}, "RM001",
         {"argument": "last_turn", "limit": 1000000000}),
        ({"type": "topic", "title": "T", "scope": "global", "parts": {"": {"title": ""}}}, "RM001",
         {"argument": "title"}),
        ({"type": "plan_setting", "name": "no such", "value": 1}, "RM002", {"option": "no such"}),
    ],
)  # fmt: skip
def test_a_record_that_is_not_known_whole_is_refused_with_its_line(
    db: Connection, record: Any, code: str, detail: dict[str, Any]
) -> None:
    with refused(code, item=2, **detail):
        take(db, "w", [memory(9), record])
    assert value(db, "select count(*) from remem.memory") == 0


def test_report_takes_the_others_and_says_which_not(db: Connection) -> None:
    records = [
        memory(1),
        memory(2, "x", colour="red"),
        {"type": "relation", "src": ID.format(1), "dst": ID.format(3), "kind": "related"},
        memory(3, "Another bird."),
        {"type": "dream"},
        {"type": "relation", "src": ID.format(1), "dst": ID.format(3), "kind": "related"},
    ]
    results = take(db, "w", records, "report")
    assert [(r.item_no, r.outcome) for r in results] == [
        (1, "created"), (2, "refused"), (3, "skipped"), (4, "created"), (5, "refused"),
        (6, "created"),
    ]  # fmt: skip
    assert [r.error["code"] for r in results if r.error] == ["RM002", "RM001"]
    assert problems(db) == []


# -- what is here already --------------------------------------------------------------------------


def test_an_equal_text_or_ref_that_is_here_is_not_doubled(db: Connection) -> None:
    remember(db, "w", "The heron is a bird.")
    remember(db, "w", "Blue.", ref="colour")
    remember(db, "w", "Oslo.", ref="place")
    records = [
        memory(1),
        memory(2, "Green.", ref="colour"),
        memory(3, "Oslo.", ref="place"),
        memory(4, "Something new."),
    ]
    assert outcomes(take(db, "w", records)) == ["merged", "conflict", "unchanged", "created"]
    assert get(db, "w", ref="colour").body == "Blue."
    assert value(db, "select remem.count('w')") == 4
    assert problems(db) == []


def test_a_file_that_says_something_twice_is_taken_once(db: Connection) -> None:
    records = [
        memory(1),
        memory(1),
        memory(2, "Blue.", ref="c"),
        memory(3, "Green.", ref="c"),
    ]
    assert outcomes(take(db, "w", records)) == ["created", "unchanged", "created", "conflict"]
    assert problems(db) == []


def test_equal_texts_that_stood_side_by_side_stay_so(db: Connection) -> None:
    assert outcomes(take(db, "w", [memory(1), memory(2)])) == ["created", "created"]
    records = [memory(n % 10, f"Filler {n}.", memory_id=None) for n in range(600)]
    for record in records:
        del record["memory_id"]
    many = [memory(3, "Same."), *records, memory(4, "Same.")]
    assert set(outcomes(take(db, "w", many))) == {"created"}


def test_a_memory_that_ended_elsewhere_only_is_left_and_named(db: Connection) -> None:
    records = [memory(1)]
    take(db, "w", records)
    ended = memory(1, forgotten_at="2026-01-01T00:00:00Z")
    assert outcomes(take(db, "w", [ended])) == ["conflict"]
    assert get(db, "w", memory_id=ID.format(1)).forgotten_at is None


def test_what_a_caller_says_again_after_an_import_is_known(db: Connection) -> None:
    first = remember(db, "a", "Blue.", ref="c", tags=["x"])
    change(db, "pin", "a", ref="c")
    take(db, "b", export(db, "a"))
    again = remember(db, "b", "Blue.", ref="c", tags=["x"])
    assert (again.outcome, again.memory_id) == ("unchanged", first.memory_id)
    assert get(db, "b", ref="c").pinned


def test_a_tombstone_erases_nothing_here(db: Connection) -> None:
    take(db, "w", [memory(1)])
    tombstone = {"type": "tombstone", "memory_id": ID.format(1), "created_at": "2026-01-01"}
    assert outcomes(take(db, "w", [tombstone]), "tombstone") == ["conflict"]
    assert get(db, "w", memory_id=ID.format(1)) is not None


def test_a_tombstone_keeps_its_ref_from_coming_back(db: Connection) -> None:
    remember(db, "a", "Erased.", ref="r")
    change(db, "purge", "a", ref="r")
    take(db, "b", export(db, "a"))
    assert remember(db, "b", "Erased.", ref="r").outcome == "purged"


def test_recall_through_a_cache_knows_of_an_import(db: Connection) -> None:
    remember(db, "w", "A first one.")
    ask = "select remem.recall_cached('w', 'which bird?')"
    value(db, ask)
    take(db, "w", [memory(1)])
    assert "The heron is a bird." in [hit["body"] for hit in value(db, ask)["hits"]]


# -- who may ---------------------------------------------------------------------------------------


def test_a_reader_exports_all_but_what_is_forgotten(
    db: Connection, make_role: MakeRole, connect: Connect
) -> None:
    remember(db, "acme", "Open.", ref="open", session_ref="s")
    remember(db, "acme", "Secret.", ref="secret", session_ref="private")
    change(db, "forget", "acme", ref="secret")
    role = make_role("reader")
    grant(db, role, "acme", "read")
    reader = connect(role)
    records = export(reader, "acme")
    assert records[0]["forgotten"] is False
    assert "ecret" not in str(records)
    assert "private" not in str(records)
    assert "Open." in str(records)
    with refused("RM301"):
        export(reader, "acme", forgotten=True)
    assert "Secret." in str(export(db, "acme"))
    assert "Secret." not in str(export(db, "acme", forgotten=False))


def test_a_writer_brings_memories_and_no_more_trust_than_it_has(
    db: Connection, make_role: MakeRole, connect: Connect
) -> None:
    role = make_role("writer")
    db.execute("select remem.grant_access(%s, 'acme', 'write', 'imported')", (role,))
    writer = connect(role)
    records = [
        memory(1, source_class="user_stated"),
        memory(2, "Old.", source_class="user_stated", superseded_at="2026-01-02T00:00:00Z",
               superseded_by=ID.format(1), created_at="2026-01-01T00:00:00Z"),
        {"type": "version", "old": ID.format(2), "new": ID.format(1), "how": "superseded"},
        {"type": "topic", "title": "T", "scope": "global", "parts": {"": {"title": "T",
         "importance": 0.5}}},
    ]  # fmt: skip
    assert set(outcomes(take(writer, "acme", records))) == {"created"}
    classes = db.execute("select distinct source_class from remem.memory").fetchall()
    assert classes == [("imported",)]
    trusted = "select distinct attrs ->> 'source_class' from remem.memory"
    assert db.execute(trusted).fetchall() == [("imported",)]
    assert problems(db) == []


@pytest.mark.parametrize(
    "record",
    [
        {"type": "tombstone", "memory_id": ID.format(1), "ref": "r"},
        {"type": "provider", "provider_id": "wiki"},
        {"type": "route", "kind": "task", "arms": ["lexical"]},
        {"type": "plan_setting", "name": "max_topics", "value": 2},
        {"type": "continuity_phrase", "language": "english", "phrase": "as before"},
        {"type": "generic_word", "language": "english", "word": "matter"},
        {"type": "source_class", "name": "rumour", "trust": 0.9},
    ],
)
def test_what_is_an_administrators_a_writer_cannot_bring(
    db: Connection, make_role: MakeRole, connect: Connect, record: dict[str, Any]
) -> None:
    role = make_role("writer")
    grant(db, role, "acme", "write")
    with refused("RM301", item=1):
        take(connect(role), "acme", [record])
    assert outcomes(take(db, "acme", [record]), record["type"]) in (["created"], ["written"])
