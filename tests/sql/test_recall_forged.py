"""recall_from: what a reader could forge between the parts of a recall."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.arms import ARMS, QUERY, Connection, completed, number, recall_from, run_arm
from tests.support.memories import refused, remember, remember_many, value


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


def test_an_excluded_word_stays_excluded(file_team: Connection) -> None:
    forged = [completed("lexical", number(file_team, "deploy"), number(file_team, "err"))]
    hits = recall_from(file_team, "build -tuesdays", forged)
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
def test_what_recall_arm_cannot_have_returned_is_refused(file_team: Connection, arms: Any) -> None:
    with refused("RM001", argument="arms"):
        recall_from(file_team, "deploy disk", arms)
    with refused("RM001", argument="arms"):
        file_team.execute(
            "select remem.recall_from_explain('acme', 'deploy', %s::jsonb)",
            [arms if isinstance(arms, str) else json.dumps(arms)],
        )


def test_a_huge_list_is_refused_and_a_full_one_is_answered(file_team: Connection) -> None:
    with refused("RM001", argument="arms", got=999_999):
        recall_from(file_team, "deploy", [completed("lexical", *range(1, 1_000_000))])
    most = value(file_team, "select remem._arm_rows(1000)")
    full = [completed(arm, *range(1, most + 1)) for arm in ARMS]
    hits = recall_from(file_team, QUERY, full, k=1000, arms=[*ARMS])
    assert {hit.ref for hit in hits} == {"tz", "deploy", "t1", "t2", "t3", "err"}


def test_extreme_scores_make_no_error_and_no_score_out_of_range(file_team: Connection) -> None:
    nos = [number(file_team, ref) for ref in ("err", "tz")]
    for scores in ([0, 0], [1e6, 1e-100], [1e-100, 1e6], [1e-100, 0], [0, 1e6], [1e-17, 1.0]):
        forged = [
            completed(arm, *nos, scores=[min(s, 1) if arm == "vector" else s for s in scores])
            for arm in ARMS
        ]
        forged[1]["matched"] = scores
        for options in ({}, {"fusion": "rrf"}, {"fusion": "max"}, {"min_relevance": 0.1}):
            hits = recall_from(
                file_team, QUERY, forged, arms=[*ARMS], weights={"pointer": 10}, **options
            )
            assert all(0 <= hit.score <= 1 and 0 <= hit.relevance <= 1 for hit in hits)
    worst = [completed("vector", *nos, scores=[-1, -1])]
    assert all(0 <= hit.relevance <= 1 for hit in recall_from(file_team, QUERY, worst))


def test_the_arguments_are_checked_as_those_of_recall(file_team: Connection) -> None:
    def one(query: str | None, **arguments: Any) -> Any:
        return run_arm(file_team, query, "vector", **arguments)

    def whole(query: str | None, **arguments: Any) -> Any:
        return recall_from(file_team, query, [], **arguments)

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
            run_arm(file_team, "deploy", arm)
    with refused("RM001"):
        run_arm(file_team, "deploy", "phrase", filter="$.x ==")
