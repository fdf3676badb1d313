"""The options of recall: which there are, what they refuse, what they do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories import (
    Connection,
    bodies,
    explain,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    warnings,
)

KNOWN = {
    "filter", "kinds", "scopes", "arms", "mode", "fusion", "weights", "min_relevance", "space",
}  # fmt: skip


@pytest.fixture(scope="module")
def queue(file_db: Connection) -> Connection:
    """Three memories; the first shares words with "queue retries", all share something."""
    remember_many(
        file_db,
        "w",
        [
            {"body": "The queue retries three times.", "kind": "decision"},
            {"body": "Queues are drained at night.", "kind": "procedure"},
            {
                "body": "The garden has trees.",
                "kind": "episodic",
            },
        ],
    )
    return file_db


@pytest.mark.parametrize("key", ["colour", "Mode", "", "mode ", "'; --", "limit"])
def test_an_unknown_option_is_refused_with_the_known_ones(queue: Connection, key: str) -> None:
    with refused("RM002", option=key) as refusal:
        recall(queue, "w", "queue", **{key: 1})
    assert set(refusal.detail["valid"]) >= KNOWN
    assert all(name in refusal.hint for name in refusal.detail["valid"])


WRONG: dict[str, list[Any]] = {
    "filter": [5, ["$.a == 1"], {}, True],
    "kinds": ["task", 5, {}, ["poem"], [5], [None], [["task"]], True],
    "scopes": ["user", ["galaxy"], ["User"], [{}], 5, True],
    "arms": ["vector", ["graph"], [1], {}, True],
    "mode": [None, "", "fast", 5, ["auto"], True],
    "fusion": [None, "", "sum", 5, {}],
    "weights": [None, 5, "heavy", [0.5]],
    "min_relevance": [None, "0.5", -0.01, 1.01, [0.5], True],
    "space": [5, ["hash"], {}, False],
}


@pytest.mark.parametrize(
    ("option", "wrong"), [(option, wrong) for option in WRONG for wrong in WRONG[option]]
)
def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_option(
    queue: Connection, option: str, wrong: Any
) -> None:
    with refused("RM001", argument=option):
        recall(queue, "w", "queue", **{option: wrong})


@pytest.mark.parametrize("options", ["[]", "5", "null", '"mode"', "[1]"])
def test_options_that_are_no_object_are_refused(queue: Connection, options: str) -> None:
    with refused("RM001", argument="options"):
        queue.execute("select * from remem.recall('w', 'x', options => %s::jsonb)", [options])


def test_options_are_checked_for_an_unknown_workspace_too(file_db: Connection) -> None:
    with refused("RM002", option="colour"):
        recall(file_db, "nowhere", "queue", colour="red")


@pytest.mark.parametrize(
    ("option", "nothing"),
    [("filter", None), ("kinds", None), ("kinds", []), ("scopes", None), ("scopes", []),
     ("scopes", {}), ("arms", None), ("arms", []), ("space", None), ("weights", {}),
     ("min_relevance", 0)],
)  # fmt: skip
def test_an_option_that_says_nothing_changes_nothing(
    queue: Connection, option: str, nothing: Any
) -> None:
    plain = recall(queue, "w", "queue retries")
    assert recall(queue, "w", "queue retries", **{option: nothing}) == plain


@pytest.mark.parametrize(
    ("options", "arms"),
    [
        ({}, ["lexical", "vector"]),
        ({"mode": "auto"}, ["lexical", "vector"]),
        ({"mode": "retrieval_only"}, ["lexical", "vector"]),
        ({"mode": "lexical"}, ["lexical"]),
        ({"mode": "vector"}, ["vector"]),
        ({"arms": ["lexical"]}, ["lexical"]),
        ({"arms": ["vector"]}, ["vector"]),
        ({"arms": ["vector", "lexical", "vector"]}, ["lexical", "vector"]),
    ],
    ids=str,
)
def test_a_mode_and_a_list_of_arms_decide_who_searches(
    queue: Connection, options: dict[str, Any], arms: list[str]
) -> None:
    assert sorted(explain(queue, "w", "queue retries", **options)["arms"]) == arms
    hits = recall(queue, "w", "queue retries", **options)
    assert sorted({arm for hit in hits for arm in hit.arms}) == arms
    assert hits[0].body == "The queue retries three times."


@pytest.mark.parametrize(
    ("mode", "arm"),
    [("lexical", "vector"), ("vector", "lexical"), ("simple", "lexical"), ("simple", "fusion")],
)
def test_a_mode_without_its_arm_is_refused(queue: Connection, mode: str, arm: str) -> None:
    with refused("RM001", argument="arms"):
        recall(queue, "w", "queue", mode=mode, arms=[arm])


def test_the_lexical_mode_needs_no_vector_and_is_not_degraded(queue: Connection) -> None:
    with warnings(queue) as seen:
        hits = recall(queue, "w", "queue", mode="lexical")
    assert seen == []
    assert bodies(hits) == ["Queues are drained at night.", "The queue retries three times."]
    assert all("cosine" not in hit.signals for hit in hits)


@pytest.mark.covers("ME30")
def test_retrieval_only_keeps_every_copy_and_adds_no_context(db: Connection) -> None:
    remember_many(db, "w", [{"body": "The queue.", "session_ref": f"s{n}"} for n in range(5)])
    hits = recall(db, "w", "queue", mode="retrieval_only")
    assert len(hits) == 5
    assert {hit.duplicates for hit in hits} == {None}
    assert {hit.score for hit in hits} == {1}


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "max"])
def test_every_fusion_puts_the_best_of_both_arms_first(queue: Connection, fusion: str) -> None:
    hits = recall(queue, "w", "queue retries", fusion=fusion)
    assert len(hits) == 3
    assert hits[0].body == "The queue retries three times."
    assert hits[0].score == 1


def test_reciprocal_rank_fusion_is_the_published_formula(db: Connection) -> None:
    open_space(db, "t", 2)
    remember(db, "w", "queue queue", ref="both", embedding=[0.8, 0.6])
    remember(db, "w", "queue and something much longer than that", ref="second", embedding=[0, 1])
    remember(db, "w", "garden", ref="near", embedding=[1, 0])
    hits = recall(db, "w", "queue", embedding=[1, 0], fusion="rrf")
    scores = {hit.ref: hit.score for hit in hits}
    both, second, near = 1 / 62 + 1 / 61, 1 / 63 + 1 / 62, 1 / 61
    assert scores == pytest.approx({"both": 1, "second": second / both, "near": near / both})


@pytest.mark.covers("RP30")
def test_max_fusion_takes_the_better_share(db: Connection) -> None:
    open_space(db, "t", 2)
    remember(db, "w", "queue", ref="lexical", embedding=[0.6, 0.8])
    remember(db, "w", "garden", ref="vector", embedding=[1, 0])
    remember(db, "w", "meadow", ref="neither", embedding=[0.8, 0.6])
    hits = recall(db, "w", "queue", embedding=[1, 0], fusion="max")
    scores = {hit.ref: hit.score for hit in hits}
    assert scores == pytest.approx({"lexical": 1, "vector": 1, "neither": 0.8}, abs=1e-3)


@pytest.mark.parametrize(("share", "first"), [(0, "lexical"), (1, "vector")])
def test_the_weight_of_the_vector_decides_between_the_arms(
    db: Connection, share: float, first: str
) -> None:
    open_space(db, "t", 2)
    remember(db, "w", "queue", ref="lexical", embedding=[0.6, 0.8])
    remember(db, "w", "garden", ref="vector", embedding=[1, 0])
    hits = recall(db, "w", "queue", embedding=[1, 0], weights={"vector": share, "session": 0})
    assert hits[0].ref == first
    explained = explain(db, "w", "queue", embedding=[1, 0], weights={"vector": share, "session": 0})
    assert explained["weights"]["vector"] == share


@pytest.mark.parametrize(
    ("code", "weights", "name"),
    [
        ("RM002", {"gravity": 1}, "weights.gravity"),
        ("RM001", {"vector": 1.01}, "weights.vector"),
        ("RM001", {"vector": -0.1}, "weights.vector"),
        ("RM001", {"neighbour": -1}, "weights.neighbour"),
        ("RM001", {"session": 10.5}, "weights.session"),
        ("RM001", {"speaker": "loud"}, "weights.speaker"),
        ("RM001", {"speaker": True}, "weights.speaker"),
        ("RM001", {"speaker": None}, "weights.speaker"),
    ],
)
def test_a_weight_that_cannot_be_used_is_refused_by_name(
    queue: Connection, code: str, weights: dict[str, Any], name: str
) -> None:
    argument = "option" if code == "RM002" else "argument"
    with refused(code, **{argument: name}):
        recall(queue, "w", "queue", weights=weights)


def test_min_relevance_keeps_what_is_relevant_enough(queue: Connection) -> None:
    everything = recall(queue, "w", "queue retries")
    assert len(everything) == 3
    for gate in sorted({hit.relevance for hit in everything}):
        kept = recall(queue, "w", "queue retries", min_relevance=gate)
        assert {hit.memory_id for hit in kept} == {
            hit.memory_id for hit in everything if hit.relevance >= gate
        }


def test_min_relevance_does_not_look_at_the_score(queue: Connection) -> None:
    (hit,) = recall(queue, "w", "pelican", k=1)
    assert hit.score == 1
    assert recall(queue, "w", "pelican", min_relevance=0.3) == []


def test_a_gate_leaves_k_relevant_hits_when_there_are_k(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"queue {'x' * n}"} for n in range(1, 40)])
    remember_many(db, "w", [{"body": f"garden {'y' * n}"} for n in range(1, 40)])
    hits = recall(db, "w", "queue", k=30, min_relevance=0.9)
    assert len(hits) == 30
    assert all(body.startswith("queue") for body in bodies(hits))


def test_the_space_option_names_the_space_by_name_or_fingerprint(queue: Connection) -> None:
    fingerprint = queue.execute(
        "select fingerprint from remem.embedding_space where name = 'hash'"
    ).fetchone()
    assert fingerprint is not None
    vector = queue.execute("select remem.hash_embed('queue retries')").fetchone()
    assert vector is not None
    for space in ("hash", fingerprint[0]):
        hits = recall(queue, "w", "queue retries", embedding=vector[0], space=space)
        assert hits == recall(queue, "w", "queue retries")
