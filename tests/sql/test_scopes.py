"""Whose rows a recall sees: global ones, and those of the owners in the active context."""

from __future__ import annotations

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.lifecycle import change
from tests.support.memories import (
    EVERY_SCOPE,
    Connection,
    explain,
    get,
    recall,
    refused,
    remember,
    remember_many,
    value,
)

QUESTION = '"staging heron" of Mei: what is the staging host?'
ARMS = ["vector", "lexical", "pointer", "phrase", "attribute"]
OWNERS: dict[str, dict[str, str]] = {
    "all": {},
    "ann": {"scope": "user", "scope_ref": "ann"},
    "ben": {"scope": "user", "scope_ref": "ben"},
    "phoenix": {"scope": "project", "scope_ref": "phoenix"},
    "also ann": {"scope": "project", "scope_ref": "ann"},
    "s1": {"scope": "session", "scope_ref": "s1"},
}
CONTEXTS: list[tuple[Any, set[str]]] = [
    (None, {"all"}),
    ({}, {"all"}),
    ([], {"all"}),
    ({"user": None}, {"all"}),
    ({"user": []}, {"all"}),
    ({"user": "ann"}, {"all", "ann"}),
    ({"user": ["ann", "ben"]}, {"all", "ann", "ben"}),
    ({"user": "ann", "project": "phoenix"}, {"all", "ann", "phoenix"}),
    ({"project": "ann"}, {"all", "also ann"}),
    ({"session": "s1", "user": "nobody"}, {"all", "s1"}),
    ({"user": "Ann"}, {"all"}),
    ({"user": ""}, {"all"}),
    (["user"], {"ann", "ben"}),
    (["global", "project"], {"all", "phoenix", "also ann"}),
    (EVERY_SCOPE, set(OWNERS)),
]


@pytest.fixture
def shared(db: Connection) -> Connection:
    """One memory of each owner that every arm finds, in one session and linked with each other."""
    items = [
        {"body": f"The staging heron note {n} of Mei: host h{n}.", "ref": ref, "kind": "decision",
         "subject": "Mei", "attribute": "staging host", "pinned": True, "session_ref": "talk",
         **owner}
        for n, (ref, owner) in enumerate(OWNERS.items())
    ]  # fmt: skip
    remember_many(db, "w", items)
    ids = {ref: get(db, "w", ref=ref).memory_id for ref in OWNERS}
    for other in OWNERS:
        if other != "all":
            db.execute("select remem.relate('w', %s, %s, 'part_of')", [ids["all"], ids[other]])
    return db


def seen(hits: list[Any]) -> set[str]:
    return {hit.ref for hit in hits}


@pytest.mark.covers("RP56", "RP21")
@pytest.mark.parametrize(("scopes", "expected"), CONTEXTS, ids=[str(c) for c, _ in CONTEXTS])
def test_every_way_to_a_row_stays_within_the_context(
    shared: Connection, scopes: Any, expected: set[str]
) -> None:
    calls: list[dict[str, Any]] = [
        {},
        {"mode": "retrieval_only"},
        {"mode": "simple"},
        *({"arms": [arm]} for arm in ARMS),
        {"arms": ARMS, "graph": "always"},
        {"kind": "decision"},
        {"kind": "decision", "min_relevance": 0.01},
        {"shard_by": "kind"},
        {"filter": "exists($.kind)"},
        {"kinds": ["decision"]},
        {"session_ref": "s1"},
        {"as_of": value(shared, "select to_json(clock_timestamp()) #>> '{}'")},
    ]
    for options in calls:
        assert seen(recall(shared, "w", QUESTION, k=50, scopes=scopes, **options)) == expected, (
            options
        )


@pytest.mark.covers("RP56")
@pytest.mark.parametrize("scopes", [None, {"user": "ann"}])
def test_every_function_that_recalls_keeps_to_the_context(shared: Connection, scopes: Any) -> None:
    expected = {"all", "ann"} if scopes else {"all"}
    options = Jsonb({"scopes": scopes})
    many = shared.execute(
        "select ref from remem.recall_many('w', %s, 50, %s)", [Jsonb([QUESTION]), options]
    )
    assert {ref for (ref,) in many} == expected
    traced = explain(shared, "w", QUESTION, k=50, scopes=scopes)
    assert {hit["ref"] for hit in traced["hits"]} == expected
    everything = [
        no for (no,) in shared.execute("select memory_no from remem.memory where workspace = 'w'")
    ]
    forged = [
        {"arm": arm, "state": "completed", "memory_nos": everything, "elapsed_ms": 1,
         "scores": [1] * len(everything), "matched": [1] * len(everything)}
        for arm in ARMS
    ]  # fmt: skip
    given = shared.execute(
        "select ref from remem.recall_from('w', %s, %s, null, 50, %s)",
        [QUESTION, Jsonb(forged), options],
    )
    assert {ref for (ref,) in given} == expected
    topic = value(shared, "select remem.put_topic('w', 'staging heron')")
    found = value(shared, "select remem.topic_memories('w', array[%s], 50, %s)", [topic, options])
    ids = {str(get(shared, "w", ref=ref).memory_id) for ref in expected}
    assert {each["memory_id"] for each in found} == ids


@pytest.mark.covers("RP56", "RP52")
def test_an_answer_in_the_cache_is_for_its_context_only(shared: Connection) -> None:
    def cached(scopes: Any) -> set[str]:
        answer = value(
            shared,
            "select remem.recall_cached('w', %s, null, 50, %s)",
            [QUESTION, Jsonb({"scopes": scopes})],
        )
        return {hit["ref"] for hit in answer["hits"]}

    for _ in range(2):
        for scopes, expected in CONTEXTS:
            assert cached(scopes) == expected


@pytest.mark.covers("RP52")
def test_a_broken_arm_opens_nothing(shared: Connection, su: Connection) -> None:
    for table in ("posting", "embedding_1", "memory_entity"):
        su.execute(f"alter table remem.{table} rename to elsewhere".encode())
        assert seen(recall(shared, "w", QUESTION, k=50, arms=ARMS)) <= {"all"}
        assert seen(recall(shared, "w", QUESTION, k=50, scopes={"user": "ann"})) <= {"all", "ann"}
        su.execute(f"alter table remem.elsewhere rename to {table}".encode())


@pytest.mark.covers("RP56")
def test_a_copy_of_another_owner_is_no_reference(db: Connection) -> None:
    for owner in OWNERS.values():
        remember(db, "w", "The host is heron.", **owner)
    (hit,) = recall(db, "w", "host")
    assert hit.duplicates is None
    (hit,) = recall(db, "w", "host", scopes={"user": "ann"})
    assert len(hit.duplicates) == 1
    (hit,) = recall(db, "w", "host", scopes=EVERY_SCOPE)
    assert len(hit.duplicates) == len(OWNERS) - 1


@pytest.mark.covers("RP56")
def test_what_others_said_in_a_session_moves_no_score(db: Connection) -> None:
    """The session as a whole counts as far as it can be seen."""
    said = {"session_ref": "talk", "scope": "user"}
    for workspace in ("alone", "shared"):
        remember(db, workspace, "Something about the heron.", scope_ref="ann", **said)
        remember(db, workspace, "The heron in another talk.", ref="x", session_ref="other")
        remember(db, workspace, "Nothing to see.")
    for n in range(5):
        remember(db, "shared", f"Heron again {n}, all about the heron.", scope_ref="ben", **said)
    found = []
    for workspace in ("alone", "shared"):
        hits = recall(db, workspace, "heron", scopes={"user": "ann"})
        found.append({hit.body: hit.signals for hit in hits})
    assert found[0].keys() == found[1].keys()
    for body, signals in found[0].items():
        other = found[1][body]
        assert other.get("neighbour") == signals.get("neighbour")
        assert other.get("session", 0) == pytest.approx(signals.get("session", 0), rel=0.2)


@pytest.mark.covers("RP56")
def test_a_hit_says_whose_it_is(shared: Connection) -> None:
    hits = recall(shared, "w", QUESTION, k=50, scopes=EVERY_SCOPE)
    for hit in hits:
        owner = OWNERS[hit.ref]
        assert (hit.scope, hit.scope_ref) == (owner.get("scope", "global"), owner.get("scope_ref"))


@pytest.mark.covers("RP56")
@pytest.mark.parametrize("name", ['"', "\\", "'", '") || (1 == 1', "$", 'ann"', "é", "x" * 500])
def test_the_name_of_an_owner_is_only_a_name(db: Connection, name: str) -> None:
    remember(db, "w", "heron of the name", ref="own", scope="user", scope_ref=name)
    remember(db, "w", "heron of ann", ref="ann", scope="user", scope_ref="ann")
    remember(db, "w", "heron of all", ref="all")
    assert seen(recall(db, "w", "heron", scopes={"user": name})) == {"own", "all"}
    assert seen(recall(db, "w", "heron", scopes={"user": name + "x"})) == {"all"}


@pytest.mark.parametrize(
    ("scopes", "code", "detail"),
    [
        ({"team": "core"}, "RM002", {"option": "scopes.team"}),
        ({"global": "x"}, "RM002", {"option": "scopes.global"}),
        ({"user": 5}, "RM001", {"argument": "scopes.user"}),
        ({"user": {"name": "ann"}}, "RM001", {"argument": "scopes.user"}),
        ({"user": ["ann", 5]}, "RM001", {"argument": "scopes.user"}),
        ({"project": ["p"] * 101}, "RM001", {"argument": "scopes.project", "limit": 100}),
    ],
)
def test_what_names_no_owner_is_refused(
    db: Connection, scopes: Any, code: str, detail: dict[str, Any]
) -> None:
    remember(db, "w", "heron")
    with refused(code, **detail):
        recall(db, "w", "heron", scopes=scopes)
    with refused(code, **detail):
        db.execute(
            "select remem.recall_cached('w', 'heron', null, 8, %s)", [Jsonb({"scopes": scopes})]
        )


def test_a_workspace_without_owners_checks_nobody(db: Connection) -> None:
    """The flag on its row is set by the first row that is not global, however it comes."""

    def scoped(workspace: str) -> bool:
        found: bool = value(
            db, "select scoped from remem.workspace where workspace = %s", [workspace]
        )
        return found

    for workspace in ("plain", "corrected", "batch"):
        remember(db, workspace, "heron", ref="h")
        assert not scoped(workspace)
        assert explain(db, workspace, "heron", scopes={"user": "ann"})["filtered_to"] is None
    changes = {"scope": "user", "scope_ref": "ann"}
    change(db, "correct", "corrected", body="heron", ref="h", changes=Jsonb(changes))
    remember_many(db, "batch", [{"body": "one"}, {"body": "two", **changes}])
    assert [scoped(name) for name in ("plain", "corrected", "batch")] == [False, True, True]
    assert recall(db, "corrected", "heron") == []
    assert len(recall(db, "corrected", "heron", scopes={"user": "ann"})) == 1
    assert explain(db, "batch", "heron")["filtered_to"] == 2


def test_a_cached_answer_ends_when_the_first_owner_appears(db: Connection) -> None:
    remember(db, "w", "heron")
    call = "select jsonb_array_length(remem.recall_cached('w', 'heron') -> 'hits')"
    assert value(db, call) == 1
    remember(db, "w", "heron of ann", scope="user", scope_ref="ann")
    assert value(db, call) == 1
    assert json.dumps(value(db, "select remem.recall_cached('w', 'heron')")).count("of ann") == 0
