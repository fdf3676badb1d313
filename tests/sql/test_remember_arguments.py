"""What remember refuses, by code, item and argument, and the limits it states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories import Connection, get, recall, refused, remember, remember_many, value

# (code, argument, value) of items that cannot be stored; the body is good unless given
INVALID: list[tuple[str, str, dict[str, Any]]] = [
    ("RM001", "body", {"body": ""}),
    ("RM001", "body", {"body": None}),
    ("RM001", "body", {"body": " \t\r\n"}),
    ("RM001", "body", {"body": "\u00a0\u2003\u200b\u3000\ufeff"}),
    ("RM003", "body", {"body": "x" * (10 * 1024 * 1024 + 1)}),
    ("RM003", "title", {"title": "x" * 65537}),
    ("RM003", "summary", {"summary": "é" * 32769}),
    ("RM003", "ref", {"ref": "x" * 501}),
    ("RM003", "scope_ref", {"scope": "user", "scope_ref": "x" * 501}),
    ("RM003", "session_ref", {"session_ref": "x" * 501}),
    ("RM003", "topic_key", {"topic_key": "x" * 501}),
    ("RM003", "speaker", {"speaker": "x" * 501}),
    ("RM003", "subject", {"subject": "x" * 2001}),
    ("RM003", "attribute", {"attribute": "x" * 2001}),
    ("RM003", "source_ref", {"source_ref": "x" * 4001}),
    ("RM003", "metadata", {"metadata": {"x": "x" * 1024 * 1024}}),
    ("RM003", "tags", {"tags": ["x"] * 1001}),
    ("RM003", "aliases", {"aliases": ["x" * 1001]}),
    ("RM003", "tags", {"tags": ["good", None]}),
    ("RM003", "entities", {"entities": [None]}),
    ("RM001", "ref", {"ref": ""}),
    ("RM001", "session_ref", {"session_ref": ""}),
    ("RM001", "kind", {"kind": "poem"}),
    ("RM001", "kind", {"kind": "Semantic"}),
    ("RM001", "scope", {"scope": "galaxy"}),
    ("RM001", "scope_ref", {"scope": "project"}),
    ("RM001", "scope_ref", {"scope": "user", "scope_ref": ""}),
    ("RM001", "scope_ref", {"scope": "session"}),
    ("RM001", "scope_ref", {"scope": "global", "scope_ref": "billing"}),
    ("RM001", "source_class", {"source_class": "gossip"}),
    ("RM001", "importance", {"importance": 1.01}),
    ("RM001", "importance", {"importance": -0.01}),
    ("RM001", "confidence", {"confidence": 2}),
    ("RM001", "valid_to", {"valid_from": "2026-02-01T00:00Z", "valid_to": "2026-01-01T00:00Z"}),
    ("RM001", "valid_to", {"valid_from": "2026-02-01T00:00Z", "valid_to": "2026-02-01T00:00Z"}),
    ("RM001", "turn_no", {"session_ref": "s", "turn_no": -1}),
    ("RM001", "turn_no", {"turn_no": 1}),
    ("RM001", "turn_no", {"session_ref": "s", "turn_no": 1_000_000_001}),
    ("RM001", "on_conflict", {"on_conflict": "merge"}),
]


@pytest.mark.parametrize(("code", "argument", "said"), INVALID, ids=lambda v: str(v)[:40])
def test_an_invalid_argument_is_refused_by_name(
    file_db: Connection, code: str, argument: str, said: dict[str, Any]
) -> None:
    with refused(code, item=1, argument=argument):
        remember(file_db, "w", **{"body": "good", **said})
    assert value(file_db, "select count(*) from remem.memory") == 0


@pytest.mark.parametrize(("code", "argument", "said"), INVALID, ids=lambda v: str(v)[:40])
def test_an_invalid_item_is_refused_by_name_and_number(
    file_db: Connection, code: str, argument: str, said: dict[str, Any]
) -> None:
    with refused(code, item=2, argument=argument):
        remember_many(file_db, "w", [{"body": "fine"}, {"body": "good", **said}])
    assert value(file_db, "select count(*) from remem.memory") == 0


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("turn_no", "first"),
        ("turn_no", 1.5),
        ("turn_no", 99999999999),
        ("importance", "high"),
        ("importance", "NaN"),
        ("importance", 1e300),
        ("pinned", "perhaps"),
        ("occurred_at", "yesterday evening"),
        ("occurred_at", "2026-13-01"),
        ("occurred_at", "2026-01-01T00:00:00 Mars/Base"),
        ("valid_from", 5),
        ("tags", "one, two"),
        ("tags", {"a": 1}),
        ("embedding", "close"),
        ("embedding", [1, "x"]),
        ("embedding", [[1], 2]),
        ("embedding", [[[[[[[1]]]]]]]),
        ("tags", [[[[[[["x"]]]]]]]),
    ],
)
def test_a_json_value_of_another_type_is_refused_by_name(
    file_db: Connection, argument: str, wrong: object
) -> None:
    with refused("RM001", item=1, argument=argument):
        remember_many(file_db, "w", [{"body": "x", "session_ref": "s", argument: wrong}])


@pytest.mark.parametrize("item", ["text", 5, None, True, [], [{"body": "x"}]], ids=repr)
def test_an_item_that_is_no_object_is_refused(file_db: Connection, item: object) -> None:
    with refused("RM001", item=2):
        remember_many(file_db, "w", [{"body": "x"}, item])


@pytest.mark.parametrize("key", ["colour", "Body", "memory_id", "workspace", "", "body'); --"])
def test_an_unknown_key_is_refused_with_the_known_ones(file_db: Connection, key: str) -> None:
    with refused("RM002", item=1, option=key) as refusal:
        remember_many(file_db, "w", [{"body": "x", key: 1}])
    assert {"body", "ref", "embedding"} <= set(refusal.detail["valid"])
    assert "body" in refusal.hint


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("argument", ["importance", "confidence"])
def test_a_weight_that_is_no_number_is_refused(
    file_db: Connection, argument: str, number: str
) -> None:
    with refused("RM001", item=1, argument=argument):
        remember(file_db, "w", "x", **{argument: float(number)})


@pytest.mark.parametrize(
    "said",
    [
        {"body": "word" + " " * (10 * 1024 * 1024 - 4)},
        {"title": "x" * 65536},
        {"ref": "é" * 250},
        {"metadata": {"x": "y" * (1024 * 1024 - 9)}},
        {"tags": [f"tag {n}" for n in range(1000)]},
        {"aliases": ["x" * 1000]},
        {"importance": 0, "confidence": 1},
        {"session_ref": "s", "turn_no": 0},
        {"session_ref": "s", "turn_no": 1_000_000_000},
        {"valid_from": "-infinity", "valid_to": "infinity"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_a_value_at_its_limit_is_accepted(db: Connection, said: dict[str, Any]) -> None:
    assert remember(db, "w", **{"body": "good", **said}).outcome == "created"


def test_the_limit_is_named_beside_what_was_given(file_db: Connection) -> None:
    with refused("RM003", item=1, argument="ref", limit=500, got=501):
        remember(file_db, "w", "x", ref="x" * 501)


def test_a_scope_names_what_it_is_about(db: Connection) -> None:
    for scope in ("project", "session", "user"):
        memory_id = remember(db, "w", "x", scope=scope, scope_ref="a").memory_id
        memory = get(db, "w", memory_id=memory_id)
        assert (memory.scope, memory.scope_ref) == (scope, "a")


def test_the_scope_workspace_is_the_global_one(db: Connection) -> None:
    memory = get(db, "w", memory_id=remember(db, "w", "x", scope="workspace").memory_id)
    assert (memory.scope, memory.scope_ref) == ("global", None)


def test_a_session_scope_is_about_the_session_it_was_said_in(db: Connection) -> None:
    ref = remember(db, "w", "x", scope="session", session_ref="s-1")
    assert get(db, "w", memory_id=ref.memory_id).scope_ref == "s-1"


def test_turns_around_the_largest_turn_number_can_be_recalled(db: Connection) -> None:
    for body in ("last", "after the last", "and one more"):
        remember(db, "w", body, session_ref="s", turn_no=1_000_000_000)
    remember(db, "w", "the next", session_ref="s")
    assert len(recall(db, "w", "last")) == 4


def test_null_arguments_mean_the_defaults(db: Connection) -> None:
    names = value(db, "select proargnames from pg_proc where oid = 'remem.remember'::regproc")
    nothing = dict.fromkeys(name for name in names if name not in ("workspace", "body"))
    memory = get(db, "w", memory_id=remember(db, "w", "x y", **nothing).memory_id)
    assert (memory.kind, memory.scope, memory.importance, memory.pinned) == (
        "semantic",
        "global",
        0.5,
        False,
    )
    assert remember_many(db, "w", [{"body": "x y", **nothing}])[0].outcome == "merged"


@pytest.mark.parametrize("workspace", ["", "x" * 201, "字" * 67, "a\nb", "a\x7fb", None])
def test_a_name_that_no_workspace_can_have_is_refused(
    file_db: Connection, workspace: str | None
) -> None:
    with refused("RM001", argument="workspace"):
        remember(file_db, workspace, "x")  # type: ignore[arg-type]


def test_a_writer_claims_no_more_trust_than_its_grant_allows(
    db: Connection, make_role: Any, connect: Any
) -> None:
    role = make_role()
    db.execute("select remem.grant_access(%s, 'w', 'write', 'llm_generated')", [role])
    writer = connect(role)
    claimed = remember(writer, "w", "The user said so.", source_class="user_stated")
    lower = remember(writer, "w", "I think so.", source_class="inferred")
    assert get(db, "w", memory_id=claimed.memory_id).source_class == "llm_generated"
    assert get(db, "w", memory_id=lower.memory_id).source_class == "inferred"


def test_metadata_may_be_nested_a_hundred_deep(db: Connection) -> None:
    metadata: Any = "bottom"
    for _ in range(100):
        metadata = {"down": [metadata]}
    ref = remember(db, "w", "deep", metadata=metadata)
    assert get(db, "w", memory_id=ref.memory_id).metadata == metadata


def test_ten_thousand_tags_are_refused_by_name(file_db: Connection) -> None:
    with refused("RM003", item=1, argument="tags", limit=1000):
        remember(file_db, "w", "x", tags=[f"tag {n}" for n in range(10000)])
