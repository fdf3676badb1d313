"""recall_arm and recall_from: a recall in parts, and what a reader could forge between them."""

from __future__ import annotations

import json
import random
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from tests.support.memories import (
    Vector,
    explain,
    floats,
    recall,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)

Connection = psycopg.Connection[Any]
Result = dict[str, Any]

ARMS = ("vector", "lexical", "attribute", "phrase", "pointer")
QUERY = '"deploy on Tuesdays" in which city does Mei deploy?'


def run_arm(
    conn: Connection,
    query: str | None,
    arm: str | None,
    *,
    embedding: Vector | None = None,
    k: int | None = 8,
    **options: Any,
) -> Result | None:
    """Call remem.recall_arm."""
    found: Result | None = value(
        conn,
        "select remem.recall_arm('acme', %s, %s, %s::real[], %s, %s)",
        [query, arm, floats(embedding), k, Jsonb(options)],
    )
    return found


def run_arms(conn: Connection, query: str, **arguments: Any) -> list[Result | None]:
    return [run_arm(conn, query, arm, **arguments) for arm in ARMS]


def recall_from(
    conn: Connection,
    query: str | None,
    given: Any,
    *,
    embedding: Vector | None = None,
    k: int | None = 8,
    **options: Any,
) -> list[Any]:
    """Call remem.recall_from; `given` is anything JSON can say, a text is JSON as it stands."""
    sent = given if isinstance(given, str) else json.dumps(given)
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(
            "select * from remem.recall_from('acme', %s, %s::jsonb, %s::real[], %s, %s)",
            [query, sent, floats(embedding), k, Jsonb(options)],
        )
        return cursor.fetchall()


def completed(arm: str, *memory_nos: int, **changes: Any) -> Result:
    """A result as recall_arm could have made it, with the best scores there are."""
    scores = [1.0] * len(memory_nos)
    made = {"arm": arm, "state": "completed", "memory_nos": list(memory_nos), "scores": scores}
    return made | ({"matched": scores} if arm == "lexical" else {}) | changes


def number(conn: Connection, ref: str, workspace: str = "acme") -> int:
    """The memory number of the latest row with a ref, live or not."""
    found: int = value(
        conn,
        "select max(memory_no) from remem.memory where workspace = %s and ref = %s",
        [workspace, ref],
    )
    return found


# one arm, and all of them together


@pytest.mark.covers("ME24", "MN8")
def test_an_arm_says_its_state_its_finds_and_its_time(team: Connection) -> None:
    found = run_arm(team, QUERY, "lexical")
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
    team: Connection, query: str, arm: str, options: dict[str, Any]
) -> None:
    assert run_arm(team, query, arm, **options) is None
    assert arm not in explain(team, "acme", query, **options)["arms"]


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
def test_the_parts_make_the_whole(team: Connection, options: dict[str, Any]) -> None:
    arms = run_arms(team, QUERY, k=4, **options)
    assert recall_from(team, QUERY, arms, k=4, **options) == recall(
        team, "acme", QUERY, k=4, **options
    )
    random.Random(1).shuffle(arms)
    assert recall_from(team, QUERY, arms, k=4, **options) == recall(
        team, "acme", QUERY, k=4, **options
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


def test_a_vector_of_the_callers_is_searched_with(team: Connection) -> None:
    given = value(team, "select remem.hash_embed('pager')")
    arms = run_arms(team, "when", embedding=given)
    hits = recall_from(team, "when", arms, embedding=given)
    assert hits == recall(team, "acme", "when", embedding=given)
    assert hits[0].ref == "t3"


def test_the_explanation_has_the_arms_of_the_other_connections(team: Connection) -> None:
    arms = run_arms(team, QUERY)
    told = value(team, "select remem.recall_from_explain('acme', %s, %s)", [QUERY, Jsonb(arms)])
    usual = explain(team, "acme", QUERY)
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
def test_a_missing_arm_is_pending_and_said_so_once(team: Connection) -> None:
    arms = [arm for arm in run_arms(team, QUERY) if arm and arm["arm"] != "lexical"]
    with warnings(team) as seen:
        hits = recall_from(team, QUERY, arms)
    assert seen == [("RM501", ["arm_pending:lexical"])]
    assert hits
    assert all("lexical" not in hit.arms for hit in hits)
    told = value(team, "select remem.recall_from_explain('acme', %s, '[]')", [QUERY])
    assert {arm["state"] for arm in told["arms"].values()} == {"pending"}
    assert told["finish_reason"] == "deadline"


@pytest.mark.covers("ME23")
@pytest.mark.parametrize("state", ["pending", "failed"])
def test_what_an_arm_found_that_did_not_complete_is_not_merged(
    team: Connection, state: str
) -> None:
    late = completed("lexical", number(team, "err"), state=state, error="too late")
    with warnings(team) as seen:
        assert recall_from(team, "deploy", [late], arms=["lexical"]) == []
    assert seen == [("RM501", [f"arm_{state}:lexical"])]


@pytest.mark.covers("ME22", "ME24")
def test_an_arm_that_fails_is_the_same_failure_in_parts(team: Connection) -> None:
    team.execute("alter table remem.embedding_1 rename to elsewhere")
    arms = run_arms(team, QUERY)
    assert arms[0] is not None
    assert arms[0]["state"] == "failed"
    assert "embedding_1" in arms[0]["error"]
    assert recall_from(team, QUERY, arms) == recall(team, "acme", QUERY)


def test_an_arm_that_the_query_does_not_submit_is_not_wanted(team: Connection) -> None:
    err = number(team, "err")
    hits = recall_from(
        team, "deploy", [completed("pointer", err), completed("vector", err)], arms=["lexical"]
    )
    assert hits == []


# what a reader could forge


def test_rows_of_other_workspaces_and_dead_rows_do_not_come_back(team: Connection) -> None:
    remember(team, "other", "the secret of another tenant", ref="secret")
    remember(team, "acme", "superseded words", ref="old")
    old = number(team, "old")
    remember(team, "acme", "the new words", ref="old")
    remember(team, "acme", "forgotten words", ref="gone")
    team.execute("update remem.memory set forgotten_at = now() where ref = 'gone'")
    remember(team, "acme", "expired words", ref="over", valid_to="2001-01-01T00:00:00Z")
    remember(team, "acme", "words of later", ref="later", valid_from="2999-01-01T00:00:00Z")
    dead = [
        number(team, "secret", "other"),
        old,
        number(team, "gone"),
        number(team, "over"),
        number(team, "later"),
        999999999,
        9223372036854775807,
    ]
    live = number(team, "err")
    for options in ({}, {"fusion": "rrf"}, {"fusion": "max"}, {"mode": "retrieval_only"}):
        for arms in (ARMS, ("vector",), ("lexical", "pointer")):
            forged = [completed(arm, *dead, live) for arm in arms]
            query = f"{QUERY} s"
            hits = recall_from(team, query, forged, arms=[*ARMS], graph="always", **options)
            assert "err" in {hit.ref for hit in hits}
            assert {hit.ref for hit in hits} <= {"tz", "deploy", "t1", "t2", "t3", "err"}
            assert recall_from(team, query, [completed(a, *dead) for a in arms]) == []


def test_what_the_filter_keeps_out_stays_out(team: Connection) -> None:
    everything = [
        n for (n,) in team.execute("select memory_no from remem.memory where workspace = 'acme'")
    ]
    forged = [completed(arm, *everything) for arm in ARMS]
    for options in (
        {"kinds": ["decision"]},
        {"filter": '$.kind == "decision"'},
        {"filter": '$.ref == "deploy"'},
    ):
        hits = recall_from(team, QUERY, forged, **options)
        assert [hit.ref for hit in hits] == ["deploy"]
    assert recall_from(team, QUERY, forged, scopes=["user"]) == []
    # the same with a filter that too many rows pass to be resolved beforehand
    remember_many(team, "acme", [{"body": f"filler {n}", "kind": "task"} for n in range(5200)])
    hits = recall_from(team, QUERY, forged, kinds=["task"], k=20)
    assert {hit.kind for hit in hits} <= {"task"}


def test_an_excluded_word_stays_excluded(team: Connection) -> None:
    forged = [completed("lexical", number(team, "deploy"), number(team, "err"))]
    hits = recall_from(team, "build -tuesdays", forged)
    assert [hit.ref for hit in hits] == ["err"]


def lexical(**changes: Any) -> list[Any]:
    return [completed("lexical", 1, 2, **changes)]


@pytest.mark.parametrize(
    "arms",
    [
        None,
        "null",
        {},
        1,
        '"vector"',
        [1],
        ["vector"],
        [[]],
        [{}],
        [None, {"arm": "vector"}],
        [completed("fusion", 1)],
        [completed("nose", 1)],
        [completed("vector", 1) | {"arm": ["vector"]}],
        [completed("vector", 1), completed("vector", 2)],
        [None] * 21,
        lexical(state="late"),
        lexical(state=None),
        lexical(state=1),
        lexical(elapsed_ms="1"),
        lexical(error=["x"]),
        lexical(memory_nos=None),
        lexical(memory_nos={}),
        lexical(memory_nos="12"),
        lexical(memory_nos=[1]),
        lexical(memory_nos=[1, 2, 3]),
        lexical(memory_nos=[1, 1]),
        lexical(memory_nos=[1, None]),
        lexical(memory_nos=[1, "2"]),
        lexical(memory_nos=[1, [2]]),
        lexical(memory_nos=[1, True]),
        lexical(memory_nos=[1, 2.5]),
        lexical(memory_nos=[1, 0]),
        lexical(memory_nos=[1, -2]),
        lexical(memory_nos=[1, 2**63]),
        lexical(memory_nos=[1, 10**400]),
        lexical(scores=None),
        lexical(scores=[1]),
        lexical(scores=[1, None]),
        lexical(scores=[1, "NaN"]),
        lexical(scores=[1, -1]),
        lexical(scores=[1, 1e300]),
        lexical(scores=[1, 10**400]),
        lexical(scores=[1, 1e-200]),
        lexical(matched=[]),
        lexical(matched=[1, -1]),
        lexical(matched=[1, 1e7]),
        [completed("vector", 1, scores=[1.01])],
        [completed("vector", 1, scores=[-1.01])],
        [completed("vector", *range(1, 102))],
        '[{"arm": "vector", "state": "completed", "memory_nos": [1], "scores": [1e-9999]}]',
        '[{"arm": "vector", "state": "completed", "memory_nos": [1e9999], "scores": [1]}]',
    ],
    ids=lambda arms: str(arms)[:70],
)
def test_what_recall_arm_cannot_have_returned_is_refused(team: Connection, arms: Any) -> None:
    with refused("RM001", argument="arms"):
        recall_from(team, "deploy disk", arms)
    with refused("RM001", argument="arms"):
        team.execute(
            "select remem.recall_from_explain('acme', 'deploy', %s::jsonb)",
            [arms if isinstance(arms, str) else json.dumps(arms)],
        )


def test_a_huge_list_is_refused_and_a_full_one_is_answered(team: Connection) -> None:
    with refused("RM001", argument="arms", got=999_999):
        recall_from(team, "deploy", [completed("lexical", *range(1, 1_000_000))])
    most = value(team, "select remem._arm_rows(1000)")
    full = [completed(arm, *range(1, most + 1)) for arm in ARMS]
    hits = recall_from(team, QUERY, full, k=1000, arms=[*ARMS])
    assert {hit.ref for hit in hits} == {"tz", "deploy", "t1", "t2", "t3", "err"}


def test_extreme_scores_make_no_error_and_no_score_out_of_range(team: Connection) -> None:
    nos = [number(team, ref) for ref in ("err", "tz")]
    for scores in ([0, 0], [1e6, 1e-100], [1e-100, 1e6], [1e-100, 0], [0, 1e6], [1e-17, 1.0]):
        forged = [
            completed(arm, *nos, scores=[min(s, 1) if arm == "vector" else s for s in scores])
            for arm in ARMS
        ]
        forged[1]["matched"] = scores
        for options in ({}, {"fusion": "rrf"}, {"fusion": "max"}, {"min_relevance": 0.1}):
            hits = recall_from(
                team, QUERY, forged, arms=[*ARMS], weights={"pointer": 10}, **options
            )
            assert all(0 <= hit.score <= 1 and 0 <= hit.relevance <= 1 for hit in hits)
    worst = [completed("vector", *nos, scores=[-1, -1])]
    assert all(0 <= hit.relevance <= 1 for hit in recall_from(team, QUERY, worst))


def test_the_arguments_are_checked_as_those_of_recall(team: Connection) -> None:
    def one(query: str | None, **arguments: Any) -> Any:
        return run_arm(team, query, "vector", **arguments)

    def whole(query: str | None, **arguments: Any) -> Any:
        return recall_from(team, query, [], **arguments)

    for call in (one, whole):
        with refused("RM001", argument="query"):
            call(None)
        for k in (None, 0, 1001, 2**31 - 1):
            with refused("RM001", argument="k"):
                call("deploy", k=k)
        with refused("RM002", option="colour"):
            call("deploy", colour="red")
        with refused("RM001", argument="mode"):
            call("deploy", mode="none")
        with refused("RM201"):
            call("deploy", embedding=[1.0, 2.0])
    for arm in (None, "", "fusion", "nose"):
        with refused("RM001", argument="arm"):
            run_arm(team, "deploy", arm)
    with refused("RM001"):
        run_arm(team, "deploy", "phrase", filter="$.x ==")
