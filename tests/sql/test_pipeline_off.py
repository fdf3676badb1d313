"""Every arm, signal and stage switched off in turn: it is off, the trace says so, the hits hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.memories import (
    Connection,
    explain,
    open_space,
    recall,
    remember,
    remember_many,
    value,
    warnings,
)

QUERY = '"deploy on Tuesdays" what did Ana decide about the city of Mei and zebra on 8 May 2023?'
ARMS = ("vector", "lexical", "phrase", "attribute", "pointer")
SIGNALS = (
    "vector", "neighbour", "neighbour2", "session", "speaker", "length", "phrase", "attribute",
    "pointer", "topic", "time", "trust", "rank",
)  # fmt: skip


@pytest.fixture
def team(db: Connection) -> Connection:
    """Something for every arm, signal and stage to find, and fillers that nothing asks for."""
    fresh = {"occurred_at": "2023-05-08T10:00:00Z"}
    made = remember_many(
        db,
        "acme",
        [
            {"ref": "phrase", "body": "We deploy on Tuesdays.", "kind": "decision", "pinned": True},
            {"ref": "words", "body": "On Tuesdays nobody will deploy anything with a long text."},
            {"ref": "city", "body": "Lisbon.", "subject": "Mei", "attribute": "city"},
            {"ref": "topic", "body": "Stripes are fine.", "topic_key": "zebra"},
            {"ref": "day", "body": "Ana fixed the city map.", "importance": 0.9, **fresh},
            {"ref": "guess", "body": "Ana likes the city.", "source_class": "inferred", **fresh},
            *(
                {"ref": f"t{n}", "body": body, "session_ref": "s", "speaker": speaker}
                for n, (body, speaker) in enumerate(
                    [
                        ("Good morning.", "Bo"),
                        ("The city is loud.", "Ana"),
                        ("Shall we deploy?", "Bo"),
                        ("Not before the city wakes.", "Ana"),
                        ("Fine.", "Bo"),
                    ]
                )
            ),
            {"ref": "linked", "body": "Soup at noon."},
            *(
                {"ref": f"f{n}", "body": f"Filler {'abcdefghij'[n]} of the shelf."}
                for n in range(10)
            ),
        ],
    )
    ids = {ref.ref: ref.memory_id for ref in made}
    db.execute("select remem.relate('acme', %s, %s, 'part_of')", [ids["phrase"], ids["linked"]])
    return db


def check(hits: list[Any]) -> None:
    """What holds for every answer, whichever stages made it."""
    assert hits
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1)
    assert all(0 <= hit.score <= 1 and 0 <= hit.relevance <= 1 for hit in hits)
    assert len({hit.memory_id for hit in hits}) == len(hits)
    assert all(hit.arms and hit.body for hit in hits)
    assert all(("graph" in hit.signals) is (hit.expanded_from is not None) for hit in hits)


def answer(hits: list[Any]) -> list[Any]:
    return [(hit.ref, round(hit.score, 4), sorted(hit.arms)) for hit in hits]


Options = dict[str, Any]
Ran = Callable[[dict[str, Any]], bool]


def arm_off(arm: str) -> tuple[Options, Options, Ran]:
    others = [other for other in ARMS if other != arm]
    return {"arms": others}, {"arms": list(ARMS)}, lambda trace: arm in trace["arms"]


def signal_off(signal: str) -> tuple[Options, Options, Ran]:
    arms = {"arms": list(ARMS)} if signal == "pointer" else {}  # names are not looked for unasked
    on = {"weights": {signal: 1}, **arms} if signal == "pointer" else {}
    return {"weights": {signal: 0}, **arms}, on, lambda trace: trace["weights"][signal] > 0


# How to switch it off, how it is on, and where the trace shows whether it ran.
CASES: dict[str, tuple[Options, Options, Ran]] = {
    **{f"arm {arm}": arm_off(arm) for arm in ARMS},
    **{f"signal {signal}": signal_off(signal) for signal in SIGNALS},
    "graph": ({"graph": "never"}, {"graph": "always"}, lambda t: t["graph"]["ran"]),
    "ranking": ({"mode": "retrieval_only"}, {}, lambda t: not t["ranking_skipped"]),
    "simple path": ({"mode": "simple"}, {}, lambda t: t["policy"] == "all_submitted"),
    "vectors": ({"mode": "lexical"}, {}, lambda t: "vector" in t["arms"]),
    "words": ({"mode": "vector"}, {}, lambda t: "lexical" in t["arms"]),
    "weights": ({"fusion": "rrf"}, {}, lambda t: t["fusion"] == "weighted"),
    "both scores": ({"fusion": "max"}, {}, lambda t: t["fusion"] == "weighted"),
    "expansion": (
        {},
        {"expanded": ["soup on the shelf"]},
        lambda t: bool(t["query"]["expanded_terms"]),
    ),
    "late arms": ({"deadline_ms": 0}, {}, lambda t: t["finish_reason"] == "all_completed"),
    "kind": ({}, {"kind": "task"}, lambda t: t["route"]["kind"] == "task"),
}


@pytest.mark.covers("ME1", "ME21", "ME24", "ME32", "MN2")
@pytest.mark.parametrize("case", CASES)
def test_what_is_switched_off_is_off_and_the_trace_says_so(team: Connection, case: str) -> None:
    off, on, ran = CASES[case]
    with_it, without = (recall(team, "acme", QUERY, k=12, **options) for options in (on, off))
    check(with_it)
    check(without)
    traces = [explain(team, "acme", QUERY, k=12, **options) for options in (on, off)]
    assert [ran(trace) for trace in traces] == [True, False]
    for trace, hits in zip(traces, (with_it, without), strict=True):
        assert [hit["ref"] for hit in trace["hits"]] == [hit.ref for hit in hits]
        tasks = trace["tasks"]
        assert tasks["submitted"] == tasks["completed"] + tasks["pending"] + tasks["failed"]
        assert trace["degraded"] == hits[0].degraded
    if case != "kind":
        assert answer(with_it) != answer(without)  # the stage does something where it is on
    if case.startswith("signal"):
        # A weight moves the score and never the relevance.
        known = {hit.ref: hit.relevance for hit in with_it}
        assert all(known.get(hit.ref, hit.relevance) == hit.relevance for hit in without)
    if case.startswith("arm"):
        arm = case.split()[1]
        assert any(arm in hit.arms for hit in with_it)
        assert not any(arm in hit.arms for hit in without)
    if case == "late arms":
        assert traces[1]["tasks"]["pending"] > 0
        assert {flag.split(":")[0] for flag in without[0].degraded} == {"arm_pending"}


@pytest.mark.covers("ME11", "ME8")
def test_a_route_without_a_pool_has_none(team: Connection) -> None:
    assert explain(team, "acme", QUERY)["pool"] == {"note": "joined", "rows": 1}
    team.execute(
        "select remem.put_route('decision', '{vector,lexical}', workspace => 'acme',"
        " keywords => '{decide}')"
    )
    trace = explain(team, "acme", QUERY)
    assert trace["pool"] == {"note": "none", "rows": 0}
    assert set(trace["arms"]) == {"vector", "lexical"}
    check(recall(team, "acme", QUERY))


@pytest.mark.covers("ME12", "ME8")
def test_an_empty_pool_gives_way_to_the_fallback_pools(team: Connection) -> None:
    route = (
        "select remem.put_route('decision', '{vector,lexical}', workspace => 'acme',"
        " keywords => '{decide}', pool => 'task', fallback_pools => %s)"
    )
    team.execute(route, [["procedure"]])
    assert explain(team, "acme", QUERY)["pool"] == {"note": "empty", "rows": 0}
    check(recall(team, "acme", QUERY))
    team.execute(route, [["procedure", "decision"]])
    assert explain(team, "acme", QUERY)["pool"] == {"note": "joined", "rows": 1}
    remember(team, "acme", "Water the plants.", ref="plants", kind="task")
    remember(team, "acme", "Feed the cat.", ref="cat", kind="task")
    assert explain(team, "acme", QUERY)["pool"] == {"note": "joined", "rows": 2}
    remember(team, "acme", "Pay the rent.", ref="rent", kind="task", importance=0.8)
    assert explain(team, "acme", QUERY)["pool"] == {"note": "joined", "rows": 1}


@pytest.mark.covers("ME32", "MN14")
def test_a_graph_that_cannot_be_followed_costs_nothing_but_the_graph(team: Connection) -> None:
    plain = recall(team, "acme", QUERY, graph="never")
    team.execute("alter table remem.relation rename to elsewhere")
    with warnings(team) as seen:
        hits = recall(team, "acme", QUERY, graph="always")
    assert seen == [("RM501", ["graph_failed"])]
    trace = explain(team, "acme", QUERY, graph="always")
    assert trace["degraded"] == ["graph_failed"]
    assert (trace["graph"]["ran"], trace["graph"]["reason"]) == (False, "failed")
    assert answer(hits) == answer(plain)
    assert {tuple(hit.degraded) for hit in hits} == {("graph_failed",)}


@pytest.mark.covers("ME21")
@pytest.mark.parametrize(
    ("query", "submitted"),
    [
        ("soup", {"vector", "lexical"}),
        ('"soup at noon"', {"vector", "lexical", "phrase"}),
        ("where is Mei?", {"vector", "lexical", "pointer"}),
        ("where is Nobody?", {"vector", "lexical"}),
        ("?", set()),
    ],
)
def test_only_arms_that_have_something_to_look_for_are_submitted(
    team: Connection, query: str, submitted: set[str]
) -> None:
    """Attributes are looked for in every query of a workspace that has any, names when asked."""
    for options, arms in (
        ({}, submitted - {"pointer"} | {"attribute"}),
        ({"arms": list(ARMS)}, submitted | {"attribute"}),
        ({"arms": [arm for arm in ARMS if arm != "attribute"]}, submitted),
    ):
        trace = explain(team, "acme", query, **options)
        assert set(trace["arms"]) == arms
        assert trace["tasks"]["submitted"] == len(arms)


@pytest.mark.covers("ME19")
def test_the_attribute_arm_needs_the_subject_and_the_attribute(team: Connection) -> None:
    remember(team, "acme", "Green.", ref="colour", subject="Mei", attribute="colour")
    for query, found in (
        ("what is the city of Mei?", 1),
        ("what is the shoe size of Mei?", 0),
        ("what is the city and the colour of Mei?", 2),
        ("what is the city of Bo?", 0),
    ):
        arms = explain(team, "acme", query)["arms"]
        assert arms.get("attribute", {"found": 0})["found"] == found, query


@pytest.mark.covers("MN8")
def test_vector_words_and_names_search_side_by_side(db: Connection) -> None:
    open_space(db, "t", 2)
    remember(db, "w", "The garden has trees.", ref="vector", embedding=[1, 0])
    remember(db, "w", "The queue retries.", ref="words", embedding=[-1, 0])
    remember(db, "w", "Lunch at one.", ref="names", embedding=[-1, 0], entities=["Mei Lin"])
    options: dict[str, Any] = {"embedding": [1, 0], "arms": ["vector", "lexical", "pointer"]}
    hits = {h.ref: h for h in recall(db, "w", "queue of mei lin", **options)}
    assert set(hits) == {"vector", "words", "names"}
    only = {
        arm: {h.ref for h in recall(db, "w", "queue of mei lin", embedding=[1, 0], arms=[arm])}
        for arm in ("lexical", "pointer")
    }
    assert only == {"lexical": {"words"}, "pointer": {"names"}}
    assert hits["vector"].arms == ["vector"]
    assert "pointer" in hits["names"].arms
    arms = explain(db, "w", "queue of mei lin", **options)["arms"]
    assert {name: arms[name]["state"] for name in ("vector", "lexical", "pointer")} == {
        "vector": "completed",
        "lexical": "completed",
        "pointer": "completed",
    }
    assert value(db, "select count(*) from remem.memory") == 3
