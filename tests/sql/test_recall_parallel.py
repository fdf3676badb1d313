"""recall_arm and recall_from: a recall in parts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.arms import QUERY, Connection, completed, number, recall_from, run_arm, run_arms
from tests.support.memories import explain, recall, remember_many, value, warnings

# one arm, and all of them together


@pytest.mark.covers("ME24", "MN8")
def test_an_arm_says_its_state_its_finds_and_its_time(file_team: Connection) -> None:
    found = run_arm(file_team, QUERY, "lexical")
    assert found is not None
    assert (found["arm"], found["state"], found["error"]) == ("lexical", "completed", None)
    assert len(found["memory_nos"]) == len(found["scores"]) == len(found["matched"]) > 0
    assert found["elapsed_ms"] > 0


@pytest.mark.parametrize(
    ("query", "arm", "options"),
    [
        ("deploy", "phrase", {}),
        ("the of and", "lexical", {}),
        ("deploy", "pointer", {}),
        ("deploy", "vector", {"mode": "lexical"}),
        ("deploy", "lexical", {"arms": ["vector"]}),
        ("when did it happen", "attribute", {}),
    ],
)
def test_an_arm_that_the_query_does_not_submit_has_no_result(
    file_team: Connection, query: str, arm: str, options: dict[str, Any]
) -> None:
    assert run_arm(file_team, query, arm, **options) is None
    assert arm not in explain(file_team, "acme", query, **options)["arms"]


def test_an_unknown_workspace_has_no_results_and_the_usual_state(db: Connection) -> None:
    assert run_arms(db, QUERY) == [None] * 5
    with warnings(db) as seen:
        assert recall_from(db, QUERY, []) == []
    assert seen == [("RM501", ["unknown_workspace"])]


@pytest.mark.covers("ME22", "MN8")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "decision"},
        {"arms": ["fusion", "pointer"]},
        {"fusion": "rrf"},
        {"fusion": "max"},
        {"kinds": ["semantic"]},
        {"mode": "retrieval_only"},
        {"shard_by": "kind"},
        {"deadline_ms": 0},
    ],
    ids=str,
)
def test_the_parts_make_the_whole(file_team: Connection, options: dict[str, Any]) -> None:
    arms = run_arms(file_team, QUERY, k=4, **options)
    assert recall_from(file_team, QUERY, arms, k=4, **options) == recall(
        file_team, "acme", QUERY, k=4, **options
    )
    random.Random(1).shuffle(arms)
    assert recall_from(file_team, QUERY, arms, k=4, **options) == recall(
        file_team, "acme", QUERY, k=4, **options
    )


@pytest.mark.parametrize("digits", [-15, 0, 1, 3])
def test_scores_survive_json_exactly_whatever_the_session_prints(
    db: Connection, digits: int
) -> None:
    chance = random.Random(7)
    words = ["disk", "fan", "pager", "build", "machine", "retry", "queue"]
    remember_many(
        db, "acme", [{"body": f"{' '.join(chance.choices(words, k=9))} {n}"} for n in range(200)]
    )
    db.execute("select set_config('extra_float_digits', %s, false)", [str(digits)])
    query = "disk of the machine in the queue"
    arms = run_arms(db, query, k=50)
    inside = value(
        db,
        """
        select r.scores from remem.workspace w
        cross join lateral remem._plan_recall(w, remem._space(w.space_no), %s, null, 50,
          remem._check_options('{}')) p
        cross join lateral remem._submit_arm('vector', p.prepared, 100, 10000, null) r
        where w.workspace = 'acme'
        """,
        [query],
    )
    db.execute("reset extra_float_digits")
    assert arms[0] is not None
    if digits > 0:
        assert arms[0]["scores"] == inside
    assert any(len(repr(score)) > 17 for score in arms[0]["scores"])
    hits = recall_from(db, query, arms, k=50)
    assert hits == recall(db, "acme", query, k=50)
    assert len({hit.score for hit in hits}) > 40


def test_a_vector_of_the_callers_is_searched_with(file_team: Connection) -> None:
    given = value(file_team, "select remem.hash_embed('pager')")
    arms = run_arms(file_team, "when", embedding=given)
    hits = recall_from(file_team, "when", arms, embedding=given)
    assert hits == recall(file_team, "acme", "when", embedding=given)
    assert hits[0].ref == "t3"


def test_the_explanation_has_the_arms_of_the_other_connections(file_team: Connection) -> None:
    arms = run_arms(file_team, QUERY)
    told = value(
        file_team, "select remem.recall_from_explain('acme', %s, %s)", [QUERY, Jsonb(arms)]
    )
    usual = explain(file_team, "acme", QUERY)
    assert told["hits"] == usual["hits"]
    assert {a: told["arms"][a]["found"] for a in told["arms"]} == {
        a: usual["arms"][a]["found"] for a in usual["arms"]
    }
    assert [told["arms"][arm["arm"]]["elapsed_ms"] for arm in arms if arm] == [
        round(arm["elapsed_ms"], 3) for arm in arms if arm
    ]
    assert told["finish_reason"] == "all_completed"


# the policy


@pytest.mark.covers("ME22", "ME23", "ME24")
def test_a_missing_arm_is_pending_and_said_so_once(file_team: Connection) -> None:
    arms = [arm for arm in run_arms(file_team, QUERY) if arm and arm["arm"] != "lexical"]
    with warnings(file_team) as seen:
        hits = recall_from(file_team, QUERY, arms)
    assert seen == [("RM501", ["arm_pending:lexical"])]
    assert hits
    assert all("lexical" not in hit.arms for hit in hits)
    told = value(file_team, "select remem.recall_from_explain('acme', %s, '[]')", [QUERY])
    assert {arm["state"] for arm in told["arms"].values()} == {"pending"}
    assert told["finish_reason"] == "deadline"


@pytest.mark.covers("ME23")
@pytest.mark.parametrize("state", ["pending", "failed"])
def test_what_an_arm_found_that_did_not_complete_is_not_merged(
    file_team: Connection, state: str
) -> None:
    late = completed("lexical", number(file_team, "err"), state=state, error="too late")
    with warnings(file_team) as seen:
        assert recall_from(file_team, "deploy", [late], arms=["lexical"]) == []
    assert seen == [("RM501", [f"arm_{state}:lexical"])]


@pytest.mark.covers("ME22", "ME24")
def test_an_arm_that_fails_is_the_same_failure_in_parts(team: Connection) -> None:
    team.execute("alter table remem.embedding_1 rename to elsewhere")
    arms = run_arms(team, QUERY)
    assert arms[0] is not None
    assert arms[0]["state"] == "failed"
    assert "embedding_1" in arms[0]["error"]
    assert recall_from(team, QUERY, arms) == recall(team, "acme", QUERY)


def test_an_arm_that_the_query_does_not_submit_is_not_wanted(file_team: Connection) -> None:
    err = number(file_team, "err")
    hits = recall_from(
        file_team, "deploy", [completed("pointer", err), completed("vector", err)], arms=["lexical"]
    )
    assert hits == []
