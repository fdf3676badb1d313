"""The stages of recall: each can be switched off and leaves valid hits that say what happened."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.memories import explain, recall, remember, remember_many, warnings

Connection = psycopg.Connection[Any]

SIGNALS = (
    "vector",
    "neighbour",
    "neighbour2",
    "session",
    "speaker",
    "length",
    "phrase",
    "attribute",
    "pointer",
    "topic",
    "time",
    "trust",
    "rank",
)
STAGES: list[dict[str, Any]] = [
    {"arms": ["vector"]},
    {"arms": ["lexical"]},
    {"arms": ["pointer"]},
    {"arms": ["fusion"]},
    {"arms": ["lexical", "phrase"]},
    {"arms": ["vector", "attribute"]},
    {"mode": "retrieval_only"},
    {"mode": "simple"},
    {"mode": "lexical"},
    {"mode": "vector"},
    {"fusion": "rrf"},
    {"fusion": "max"},
    {"graph": "never"},
    {"graph": "always"},
    {"deadline_ms": 0},
    *({"weights": {signal: 0}} for signal in SIGNALS),
]


@pytest.mark.covers("ME1", "ME21", "ME24", "MN2")
@pytest.mark.parametrize("options", STAGES, ids=str)
def test_every_stage_can_be_switched_off(team: Connection, options: dict[str, Any]) -> None:
    query = '"deploy on Tuesdays" in which city does Mei deploy?'
    hits = recall(team, "acme", query, k=4, **options)
    assert hits, options
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.relevance <= 1 for hit in hits)
    assert all(hit.arms for hit in hits)
    trace = explain(team, "acme", query, k=4, **options)
    assert [hit["ref"] for hit in trace["hits"]] == [hit.ref for hit in hits]
    tasks = trace["tasks"]
    assert tasks["submitted"] == tasks["completed"] + tasks["pending"] + tasks["failed"]


@pytest.mark.covers("ME31", "ME32")
def test_the_trace_holds_every_diagnostic(team: Connection) -> None:
    trace = explain(team, "acme", "when do we deploy?")
    assert set(trace["timings"]) == {
        "query", "embedding", "retrieval", "retrieval_wait", "candidates", "ranking", "graph",
        "response", "database", "total",
    }  # fmt: skip
    assert all(elapsed >= 0 for elapsed in trace["timings"].values())
    assert trace["timings"]["total"] >= trace["timings"]["retrieval"]
    assert trace["finish_reason"] == "all_completed"
    assert trace["policy"] == "all_submitted"
    assert trace["candidates"] >= trace["returned"] == len(trace["hits"])
    assert trace["ranking_skipped"] is False
    assert {arm["state"] for arm in trace["arms"].values()} == {"completed"}
    assert explain(team, "acme", "deploy", mode="retrieval_only")["ranking_skipped"] is True


@pytest.mark.covers("ME22", "ME23", "ME15", "ME32")
def test_a_deadline_that_has_passed_leaves_the_mandatory_arm(team: Connection) -> None:
    trace = explain(team, "acme", '"deploy on Tuesdays" Mei', deadline_ms=0)
    states = {name: arm["state"] for name, arm in trace["arms"].items()}
    assert states["vector"] == "completed"
    assert states["lexical"] == states["phrase"] == "pending"
    assert trace["finish_reason"] == "deadline"
    assert "arm_pending:lexical" in trace["degraded"]
    assert trace["hits"]


@pytest.mark.covers("ME22", "ME24")
@pytest.mark.parametrize(
    ("broken", "arm", "options"),
    [
        ("alter table remem.embedding_1 rename to elsewhere", "vector", {}),
        ("alter table remem.posting rename to elsewhere", "lexical", {}),
        ("alter table remem.posting rename column tf to elsewhere", "lexical", {}),
        ("alter table remem.memory_entity rename to elsewhere", "attribute", {}),
        ("alter table remem.memory_entity rename column memory_no to elsewhere", "attribute", {}),
        (
            "alter table remem.memory_entity rename column memory_no to elsewhere",
            "pointer",
            {"arms": ["vector", "lexical", "pointer"]},
        ),
    ],
)
def test_an_arm_that_fails_leaves_the_others(
    team: Connection, broken: str, arm: str, options: dict[str, Any]
) -> None:
    team.execute(broken)
    question = "in which city does Mei deploy?"
    with warnings(team) as seen:
        hits = recall(team, "acme", question, k=4, **options)
    assert seen == [("RM501", [f"arm_failed:{arm}"])]
    trace = explain(team, "acme", question, k=4, **options)
    assert [hit["ref"] for hit in trace["hits"]] == [hit.ref for hit in hits]
    assert trace["arms"][arm]["state"] == "failed"
    assert trace["arms"][arm]["error"]
    others = {state["state"] for name, state in trace["arms"].items() if name != arm}
    assert others == {"completed"}
    assert trace["degraded"] == [f"arm_failed:{arm}"]
    assert trace["finish_reason"] == "arm_failed"
    tasks = {"submitted": len(trace["arms"]), "failed": 1, "pending": 0, "skipped": 0}
    assert trace["tasks"] == {**tasks, "completed": len(trace["arms"]) - 1}
    assert {"tz", "deploy"} <= {hit.ref for hit in hits}


@pytest.mark.covers("ME22", "ME24")
@pytest.mark.parametrize("table", ["memory_entity", "entity_alias"])
def test_names_that_cannot_be_looked_up_cost_the_names(team: Connection, table: str) -> None:
    team.execute(f"alter table remem.{table} rename to elsewhere")
    trace = explain(team, "acme", "Mei", arms=["vector", "lexical", "pointer"])
    assert "arm_failed:pointer" in trace["degraded"]
    assert trace["hits"][0]["ref"] == "tz"
    # Nobody asked for names: nothing is missing.
    assert explain(team, "acme", "Mei", arms=["vector", "lexical"])["degraded"] == []


@pytest.mark.covers("ME18")
def test_a_quoted_phrase_finds_only_what_holds_it_word_for_word(db: Connection) -> None:
    remember(db, "w", "the retry budget is spent", ref="phrase")
    remember(db, "w", "the budget for a retry is spent", ref="words")
    trace = explain(db, "w", '"retry budget"')
    assert trace["arms"]["phrase"]["found"] == 1
    assert trace["hits"][0]["ref"] == "phrase"
    assert trace["hits"][0]["signals"]["phrase"] == 1


@pytest.mark.covers("RP28")
def test_an_excluded_word_keeps_its_memories_out(db: Connection) -> None:
    remember(db, "w", "deploys fail at night", ref="night")
    remember(db, "w", "deploys fail in staging", ref="staging")
    assert [hit.ref for hit in recall(db, "w", "deploys fail -staging")] == ["night"]
    assert {hit.ref for hit in recall(db, "w", "deploys fail")} == {"night", "staging"}


@pytest.mark.covers("RP28")
def test_excluded_words_do_not_use_up_the_k(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"deploy {n} failed in staging"} for n in range(150)])
    remember_many(db, "w", [{"body": f"note {n}: deploys are fine"} for n in range(10)])
    hits = recall(db, "w", "deploy failed -staging", k=10)
    assert len(hits) == 10
    assert not any("staging" in hit.body for hit in hits)


@pytest.mark.covers("ME19", "ME4")
def test_subject_and_attribute_find_their_memory(team: Connection) -> None:
    trace = explain(team, "acme", "what city is Mei in?")
    assert trace["arms"]["attribute"]["found"] == 1
    assert trace["hits"][0]["ref"] == "tz"
    assert explain(team, "acme", "what city is it?")["arms"]["attribute"]["found"] == 0


@pytest.mark.covers("ME19")
def test_attributes_are_looked_for_where_a_workspace_has_any(team: Connection) -> None:
    """However the subject is written: no name of the query has to be known."""
    remember(team, "acme", "Green.", ref="colour", subject="the old shed", attribute="Wall Colour")
    trace = explain(team, "acme", "what's the old shed's wall colour?")
    assert trace["query"]["entities"] == []
    assert trace["arms"]["attribute"]["found"] == 1
    assert trace["hits"][0]["signals"]["attribute"] == 1
    remember(team, "bare", "Mei works from Lisbon.", entities=["city"])
    assert "attribute" not in explain(team, "bare", "what city is Mei in?")["arms"]
    for ref in ("tz", "colour"):
        remember(team, "acme", "Nothing is known.", ref=ref)
    assert "attribute" not in explain(team, "acme", "what city is Mei in?")["arms"]


@pytest.mark.covers("ME20", "ME3")
def test_fusion_and_the_simple_path_say_which_arms_ran(team: Connection) -> None:
    assert set(explain(team, "acme", "deploy", arms=["fusion"])["arms"]) == {"vector", "lexical"}
    simple = explain(team, "acme", "deploy", mode="simple")
    assert set(simple["arms"]) == {"vector"}
    assert simple["policy"] == "simple"


@pytest.mark.covers("ME15", "RP30")
def test_a_hit_carries_a_score_derived_from_its_distance(team: Connection) -> None:
    signals = recall(team, "acme", "deploy on Tuesdays")[0].signals
    assert signals["distance_score"] == pytest.approx(1 / (1 + 1 - signals["cosine"]), abs=1e-3)


@pytest.mark.covers("ME5", "MN4")
def test_an_expansion_adds_terms_and_keeps_the_original_ones_apart(db: Connection) -> None:
    remember(db, "w", "the lorry is parked behind the shed", ref="lorry")
    plain = explain(db, "w", "where is the truck?")
    wide = explain(db, "w", "where is the truck?", expanded=["the lorry is parked"])
    assert plain["query"]["expanded_terms"] == []
    assert wide["query"]["terms"] == plain["query"]["terms"] == ["truck"]
    assert set(wide["query"]["expanded_terms"]) == {"lorri", "park"}
    assert "lexical" in wide["hits"][0]["arms"]


@pytest.mark.covers("MN3", "MN5", "ME4")
def test_the_prepared_query_names_what_it_found(team: Connection) -> None:
    question = "Did MÉI decide anything on 8 May 2023?"
    assert explain(team, "acme", question)["query"]["entities"] == []  # names only where wanted
    query = explain(team, "acme", question, arms=["lexical", "pointer"])["query"]
    assert query["normalised"].startswith("did mei decide")
    assert query["entities"] == ["mei"]
    assert query["kind_hint"] == "decision"
    assert query["time_from"].startswith("2023-05-08")
    assert query["statement"] == "MÉI decide anything on 8 May 2023"
