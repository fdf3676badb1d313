"""From what the arms found to what is ranked: merged, capped, gated, and what ranking may do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.memories import (
    EVERY_SCOPE,
    Connection,
    bodies,
    explain,
    recall,
    remember,
    remember_many,
    value,
)

NOW = datetime.now(UTC)


def space(db: Connection, name: str = "t", floor: float = 0.2, full: float = 0.8) -> None:
    """A space of two dimensions, current from now on."""
    db.execute(
        "select remem.register_space(jsonb_build_object('name', %s::text, 'backend', 't',"
        " 'asset', %s::text, 'dimensions', 2, 'cosine_floor', %s::real, 'cosine_full', %s::real))",
        [name, name, floor, full],
    )
    db.execute("select remem.activate_space(%s)", [name])


def stand(db: Connection, **fields: Any) -> None:
    """A memory, with a freshness that no writing function sets yet, and said so many days ago."""
    freshness = fields.pop("freshness", "current")
    if "days_ago" in fields:
        fields["occurred_at"] = NOW - timedelta(days=fields.pop("days_ago"))
    made = remember(db, "w", **fields)
    db.execute(
        "update remem.memory set freshness = %s where memory_id = %s", [freshness, made.memory_id]
    )


def at(cosine: float) -> list[float]:
    """A vector of that cosine to [1, 0]."""
    return [cosine, (1 - cosine**2) ** 0.5]


# -- candidates


@pytest.mark.covers("ME26")
def test_a_memory_that_every_source_finds_is_one_candidate_and_one_hit(db: Connection) -> None:
    remember(
        db, "w", "Mei decided: deploy on Tuesdays.", ref="all", kind="decision", pinned=True,
        subject="Mei", attribute="city", session_ref="s",
    )  # fmt: skip
    remember(db, "w", "Deploy on Fridays too.", ref="turn", session_ref="s")
    query = '"deploy on Tuesdays" city of Mei, what did we decide?'
    trace = explain(db, "w", query, arms=["vector", "lexical", "phrase", "attribute", "pointer"])
    assert {name: arm["found"] for name, arm in trace["arms"].items()} == {
        "vector": 2, "lexical": 2, "phrase": 1, "attribute": 1, "pointer": 1,
    }  # fmt: skip
    assert trace["pool"] == {"note": "joined", "rows": 1}
    assert trace["candidates"] == 2
    hits = trace["hits"]
    assert [hit["ref"] for hit in hits] == ["all", "turn"]
    assert set(hits[0]["arms"]) == {"vector", "lexical", "phrase", "attribute", "pointer"}
    assert len({hit["memory_id"] for hit in hits}) == 2


@pytest.mark.covers("ME25")
def test_a_candidate_keeps_the_score_of_each_source_that_found_it(db: Connection) -> None:
    space(db)
    remember(db, "w", "The garden has trees.", ref="vector", embedding=at(0.9))
    remember(db, "w", "The queue retries.", ref="words", embedding=at(0.3))
    remember(db, "w", "the retry budget", ref="phrase", embedding=at(0.1))
    remember(db, "w", "Green.", ref="fact", subject="Mei", attribute="colour", embedding=at(0.0))
    remember(db, "w", "Lunch.", ref="names", entities=["Mei"], embedding=at(-0.2))
    query = '"retry budget" queue, colour of Mei'
    every = ["vector", "lexical", "phrase", "attribute", "pointer"]
    trace = explain(db, "w", query, embedding=[1, 0], arms=every)
    signals = {hit["ref"]: hit["signals"] for hit in trace["hits"]}
    assert {ref: signals[ref]["cosine"] for ref in signals} == pytest.approx(
        {"vector": 0.9, "words": 0.3, "phrase": 0.1, "fact": 0.0, "names": -0.2}, abs=2e-3
    )
    for ref in signals:
        distance = 1 - signals[ref]["cosine"]
        assert signals[ref]["distance_score"] == pytest.approx(1 / (1 + distance), abs=1e-3)
    assert signals["words"]["bm25"] > 0 == signals["vector"]["bm25"]
    for signal, holders in (
        ("phrase", {"phrase"}),
        ("attribute", {"fact"}),
        ("pointer", {"fact", "names"}),
    ):
        assert {ref for ref in signals if signal in signals[ref]} == holders, signal


@pytest.mark.covers("ME2", "ME27")
def test_the_funnel_narrows_in_its_order(db: Connection) -> None:
    """Excluded words go before the cap, the cap before ranking, the kind before the answer."""
    space(db)
    remember_many(
        db,
        "w",
        [
            *(
                {
                    "body": f"queue {'x' * n}",
                    "embedding": [-1, 0],
                    "kind": "decision" if n <= 7 else "semantic",
                }
                for n in range(1, 251)
            ),
            *({"body": f"garden {'x' * n}", "embedding": at(0.9)} for n in range(1, 251)),
            *({"body": f"queue staging {'x' * n}", "embedding": [1, 0]} for n in range(1, 31)),
        ],
    )
    trace = explain(db, "w", "queue -staging", embedding=[1, 0], k=100)
    assert {name: arm["found"] for name, arm in trace["arms"].items()} == {
        "vector": 200,
        "lexical": 200,
    }
    dropped = trace["dropped"]
    # Of 400 finds, those with the excluded word are out first; then the best 200 are ranked.
    assert dropped["excluded_word"] == 30
    assert trace["candidates"] == 200
    assert dropped["cap"] == 400 - 30 - 200
    assert trace["returned"] == len(trace["hits"]) == 100
    assert dropped["below_k_or_gate"] == 100
    assert all(hit["body"].startswith("queue x") for hit in trace["hits"])
    # The kind narrows what was ranked; what was found and ranked is the same.
    trace = explain(db, "w", "queue", embedding=[1, 0], k=100)
    narrowed = explain(db, "w", "queue", embedding=[1, 0], k=100, kind="decision")
    assert trace["candidates"] == narrowed["candidates"] == 200
    assert {hit["kind"] for hit in narrowed["hits"]} == {"decision"}
    assert 0 < narrowed["returned"] <= 7


@pytest.mark.covers("ME30", "ME1")
def test_retrieval_only_orders_by_what_was_found_and_by_nothing_else(db: Connection) -> None:
    space(db)
    say: list[dict[str, Any]] = [
        {"ref": "near", "body": "one", "embedding": at(0.9), "source_class": "inferred",
         "occurred_at": (NOW - timedelta(days=900)).isoformat(), "importance": 0},
        {"ref": "middle", "body": "two", "embedding": at(0.88), "source_class": "user_stated",
         "importance": 1, "pinned": True, "session_ref": "s", "speaker": "Mei"},
        {"ref": "far", "body": "three", "embedding": at(0.5), "session_ref": "s"},
    ]  # fmt: skip
    remember_many(db, "w", say)
    question = "what does Mei say?"
    options: dict[str, Any] = {"embedding": [1, 0], "arms": ["vector"], "graph": "never"}
    plain = recall(db, "w", question, mode="retrieval_only", **options)
    assert recall(db, "w", question, **options)[0].ref == "middle"
    assert [hit.ref for hit in plain] == ["near", "middle", "far"]
    assert [hit.score for hit in plain] == pytest.approx([1, 0.88 / 0.9, 0.5 / 0.9], abs=2e-3)
    heavy = {"speaker": 10, "session": 10, "neighbour": 10, "trust": 1, "rank": 10, "length": 10}
    again = recall(db, "w", question, mode="retrieval_only", weights=heavy, **options)
    assert [(hit.ref, hit.score) for hit in again] == [(hit.ref, hit.score) for hit in plain]
    assert explain(db, "w", question, mode="retrieval_only", **options)["ranking_skipped"] is True


@pytest.mark.covers("ME20")
@pytest.mark.parametrize(("share", "best"), [(0.0, "words"), (0.3, "words"), (0.9, "vector")])
def test_the_fusion_arm_alone_weighs_vector_and_words(
    db: Connection, share: float, best: str
) -> None:
    space(db)
    remember(db, "w", "queue", ref="words", embedding=at(0.5))
    remember(db, "w", "garden", ref="vector", embedding=at(1.0))
    options: dict[str, Any] = {"arms": ["fusion"], "weights": {"vector": share}}
    trace = explain(db, "w", "queue", embedding=[1, 0], mode="retrieval_only", **options)
    base = {hit["ref"]: hit["signals"]["base"] for hit in trace["hits"]}
    assert base == pytest.approx({"words": share * 0.5 + (1 - share), "vector": share}, abs=2e-3)
    assert trace["hits"][0]["ref"] == best
    assert trace["weights"]["vector"] == pytest.approx(share)
    assert trace["route"]["arms"] == ["fusion"]
    # It needs both: without a vector it is not submitted, and that is named.
    alone = explain(db, "w", "queue", arms=["fusion"])
    assert (alone["arms"], alone["degraded"]) == ({}, ["no_embedding"])


# -- gates


@pytest.mark.covers("RP29")
def test_the_floor_of_a_space_is_where_a_vector_starts_to_count(db: Connection) -> None:
    """The same vectors in two spaces: what passes a gate follows the space's own floor."""
    cosines = [0.5, 0.35, 0.33, 0.1]
    for name, floor, passing in (("low", 0.34, 2), ("high", 0.4, 1)):
        space(db, name, floor, 0.8)
        workspace = f"in-{name}"
        for cosine in cosines:
            remember(db, workspace, f"memory {cosine}", embedding=at(cosine))
        hits = recall(db, workspace, "?", embedding=[1, 0], mode="vector", min_relevance=1e-6, k=8)
        assert bodies(hits) == [f"memory {cosine}" for cosine in cosines[:passing]]
        # Without a gate they come too, and say that they are worth nothing.
        ungated = recall(db, workspace, "?", embedding=[1, 0], mode="vector")
        assert [hit.relevance > 0 for hit in ungated] == [n < passing for n in range(4)]


@pytest.mark.covers("RP29")
def test_the_floor_of_the_built_in_space(db: Connection) -> None:
    assert value(db, "select (remem.current_space()).cosine_floor::text") == "0.34"


@pytest.mark.covers("RP28")
def test_words_and_vector_both_find_and_either_suffices(db: Connection) -> None:
    """A question whose words no memory holds all of: not one arm's AND, but the union of both."""
    space(db)
    remember(db, "w", "The queue retries thrice.", ref="words", embedding=at(-1.0))
    remember(db, "w", "An automobile.", ref="vector", embedding=at(1.0))
    remember(db, "w", "The queue of cars.", ref="both", embedding=at(0.9))
    hits = recall(db, "w", "how long is the queue for a car wash?", embedding=[1, 0], k=3)
    assert hits[0].ref == "both"
    assert set(hits[0].arms) == {"vector", "lexical"}
    by_ref = {hit.ref: hit for hit in hits}
    assert by_ref["words"].signals["cosine"] == pytest.approx(-1, abs=2e-3)
    assert by_ref["vector"].signals["bm25"] == 0
    assert min(hit.relevance for hit in hits) > 0


# -- ranking


@pytest.mark.covers("RP33")
@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"importance": 1}, {"importance": 0}),
        ({"pinned": True}, {"pinned": False}),
        ({"freshness": "current"}, {"freshness": "stale"}),
        ({"freshness": "current"}, {"freshness": "unknown"}),
        ({"freshness": "unknown"}, {"freshness": "stale"}),
        ({"days_ago": 2}, {"days_ago": 200}),
        ({"days_ago": 200}, {"days_ago": 900}),
        ({"confidence": 1}, {"confidence": 0}),
        ({"confidence": 1}, {}),
        ({}, {"confidence": 0}),
        ({"scope": "project", "scope_ref": "p"}, {"scope": "global"}),
        ({"scope": "session", "session_ref": "s"}, {"scope": "project", "scope_ref": "p"}),
        ({"source_class": "codebase_verified"}, {"source_class": "llm_generated"}),
    ],
    ids=str,
)
def test_each_signal_orders_equal_matches_and_can_be_switched_off(
    db: Connection, better: dict[str, Any], worse: dict[str, Any]
) -> None:
    space(db)
    # The worse first and last: the order of writing decides nothing.
    for ref, fields in (("w1", worse), ("good", better), ("w2", worse)):
        stand(db, body=f"the gate opens {ref}", ref=ref, embedding=[1, 0], **fields)
    question = "gate opens"
    sober = {"session": 0, "neighbour": 0, "neighbour2": 0}
    call = {"embedding": [1, 0], "scopes": EVERY_SCOPE}
    hits = recall(db, "w", question, weights=sober, **call)
    assert hits[0].ref == "good"
    assert hits[0].score > hits[1].score == pytest.approx(hits[2].score)
    # None of it moves the relevance.
    assert len({hit.relevance for hit in hits}) == 1
    off = recall(db, "w", question, weights={**sober, "trust": 0, "rank": 0}, **call)
    assert len({round(hit.score, 9) for hit in off}) == 1


@pytest.mark.covers("RP33")
def test_the_score_of_the_match_stands_above_everything_beside_it(db: Connection) -> None:
    space(db)
    remember(db, "w", "the gate opens at nine", ref="match", embedding=[1, 0], importance=0.2)
    remember(db, "w", "the gate", ref="half", embedding=at(0.6), importance=1, pinned=True)
    hits = recall(db, "w", "when does the gate open?", embedding=[1, 0])
    assert [hit.ref for hit in hits] == ["match", "half"]


@pytest.mark.covers("RP33")
def test_a_superseded_memory_is_out_and_not_only_lower(db: Connection) -> None:
    remember(db, "w", "the gate opens at nine", ref="gate")
    remember(db, "w", "the gate opens at ten", ref="gate")
    assert bodies(recall(db, "w", "gate", k=50)) == ["the gate opens at ten"]


@pytest.mark.covers("RP34")
def test_no_weight_and_no_standing_makes_an_irrelevant_memory_relevant(db: Connection) -> None:
    space(db)
    remember(
        db, "w", "the canteen serves soup", ref="soup", embedding=at(0.1), importance=1,
        pinned=True, source_class="user_stated", confidence=1, scope="session", session_ref="s",
    )  # fmt: skip
    remember(db, "w", "the build cache", ref="cache", embedding=at(0.9), source_class="inferred")
    question = "where is the build cache?"
    loud = dict.fromkeys(("neighbour", "session", "length", "topic", "time", "rank"), 10)
    plain, pushed = (
        {
            h.ref: h
            for h in recall(
                db, "w", question, embedding=[1, 0], weights=weights, scopes=EVERY_SCOPE
            )
        }
        for weights in ({}, loud)
    )
    for hits in (plain, pushed):
        assert hits["soup"].relevance == 0
        assert hits["cache"].relevance == 1
        assert all(0 <= hit.score <= 1 for hit in hits.values())
    gated = recall(
        db, "w", question, embedding=[1, 0], weights=loud, min_relevance=0.1, graph="never",
        scopes=EVERY_SCOPE,
    )  # fmt: skip
    assert [hit.ref for hit in gated] == ["cache"]


@pytest.mark.covers("RP34")
def test_trust_and_worth_are_bounded_factors(db: Connection) -> None:
    space(db)
    extremes: list[dict[str, Any]] = [
        {"source_class": "inferred", "importance": 0, "freshness": "stale",
         "occurred_at": NOW - timedelta(days=9000)},
        {"source_class": "user_stated", "importance": 1, "pinned": True, "freshness": "current",
         "scope": "session", "session_ref": "s"},
    ]  # fmt: skip
    for n, fields in enumerate(extremes):
        stand(db, body=f"the gate {n}", ref=str(n), embedding=[1, 0], **fields)
    sober = {"session": 0, "neighbour": 0, "neighbour2": 0}
    hits = recall(db, "w", "gate", embedding=[1, 0], weights=sober, scopes=EVERY_SCOPE)
    assert [hit.ref for hit in hits] == ["1", "0"]
    # The worst standing there is costs a third of the score, and never the hit.
    assert 0.6 < hits[1].score / hits[0].score < 1
    assert all(0 <= hit.signals["trust"] <= 1 for hit in hits)
    assert all(0.8 <= hit.signals["worth"] <= 1.2 for hit in hits)


# -- copies


@pytest.mark.covers("RP36", "RP38")
@pytest.mark.parametrize(
    ("one", "other", "hits"),
    [
        ("The office moved.", "the  OFFICE moved.", 1),
        ("Café crème", "Cafe\u0301 cre\u0300me", 1),
        ("The office moved to Rome.", "The office moved to Oslo.", 2),
        ("The office moved.", "The office has moved.", 2),
        ("The office did move.", "The office did not move.", 2),
        ("build 41 failed", "build 42 failed", 2),
        ("It cost 1.5 euros.", "It cost 15 euros.", 2),
    ],
)
def test_equal_texts_collapse_and_similar_ones_stay_apart(
    db: Connection, one: str, other: str, hits: int
) -> None:
    remember(db, "w", one, session_ref="a", source_ref="mail:1")
    remember(db, "w", other, session_ref="b", source_ref="mail:2")
    found = recall(db, "w", one, graph="never")
    assert len(found) == hits
    said = [hit.source_ref for hit in found]
    said += [copy["source_ref"] for hit in found for copy in hit.duplicates or []]
    assert sorted(said) == ["mail:1", "mail:2"]
    assert all(bool(hit.duplicates) is (hits == 1) for hit in found)
