"""What the behavioural evaluation has to show, on both halves of its prompts and with both models.

The bounds are targets and not what was measured; docs/planner.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evals.behaviour.run import run
from evals.behaviour.texts import HALVES, LOW_OVERLAP, NEAR_MISS, UNRELATED, load
from evals.models import open_model
from tests.server import Server

MODELS = ("hash", "minilm")


@pytest.fixture(scope="module")
def measured(server: Server) -> Iterator[dict[str, Any]]:
    """The whole evaluation, once."""
    pytest.importorskip("onnxruntime")
    name = server.new_database()
    try:
        models = {name: open_model(name) for name in MODELS}
        yield run(server.owner_dsn(name), load(), models, lambda _: None)
    finally:
        server.drop_database(name)


def test_the_texts_are_as_many_and_as_various_as_they_have_to_be() -> None:
    texts = load()
    assert len(texts.topics) >= 30
    halves = {half: [p for p in texts.prompts if p.half == half] for half in HALVES}
    for prompts in halves.values():
        assert len(prompts) >= 24
        assert {LOW_OVERLAP, NEAR_MISS, UNRELATED, "german"} <= {p.category for p in prompts}
    asked = [set().union(*(p.topics for p in prompts)) for prompts in halves.values()]
    assert asked[0].isdisjoint(asked[1])


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_injected_and_nothing_superseded_is_shown(
    measured: dict[str, Any], model: str, half: str
) -> None:
    figures = measured["models"][model]["halves"][half]
    assert figures["negative"] >= 8
    assert (figures["injected"], figures["forbidden"]) == (0, 0)
    assert figures["stray"] <= 0.15 * figures["positive"]
    assert figures["false_positives"] <= 0.4 * figures["negative"]


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize("half", HALVES)
def test_what_is_relevant_arrives(measured: dict[str, Any], half: str) -> None:
    """Questions in wholly other words are beyond the hash, and beyond a small model in part: the
    whole is short of 0.8 and 1.0, which docs/planner.md says and explains."""
    for model, least in (("hash", 0.8), ("minilm", 0.97)):
        own = measured["models"][model]["by_category"][half]
        rest = [row for name, row in own.items() if row["positive"] and name != LOW_OVERLAP]
        recall = sum(row["relevant_recall"] * row["positive"] for row in rest)
        assert recall / sum(row["positive"] for row in rest) >= least
    neural = measured["models"]["minilm"]["halves"][half]
    assert neural["relevant_recall"] >= 0.9


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize("model", MODELS)
def test_prompts_of_another_world_are_answered_by_nothing(
    measured: dict[str, Any], model: str
) -> None:
    """Among them are questions of work that some memory is near to: one in fifty may be shown."""
    strangers = measured["models"][model]["strangers"]
    assert strangers["prompts"] >= 130
    assert strangers["injected"] <= 0.02 * strangers["prompts"]
    assert strangers["planned"] <= 0.15 * strangers["prompts"]


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize(("model", "least"), [("hash", 0.15), ("minilm", 0.5)])
def test_memories_alone_are_a_reason_to_recall(
    measured: dict[str, Any], model: str, least: float
) -> None:
    bare = measured["models"][model]["bare"]
    assert (bare["injected"], bare["strangers"]["injected"]) == (0, 0)
    assert min(bare["recall"].values()) >= least


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize("half", HALVES)
def test_the_neural_model_is_better_at_paraphrases_of_low_overlap(
    measured: dict[str, Any], half: str
) -> None:
    hashed, neural = (measured["models"][model]["halves"][half] for model in MODELS)
    assert neural["low_overlap_recall"] > hashed["low_overlap_recall"]
    assert neural["relevant_recall"] > hashed["relevant_recall"]


@pytest.mark.covers("RP53", "RP54")
@pytest.mark.parametrize("model", MODELS)
def test_the_question_about_aws_finds_the_failure_with_bedrock(
    measured: dict[str, Any], model: str
) -> None:
    mistakes = measured["models"][model]["mistakes"]
    assert not any("AWS" in mistake["prompt"] for mistake in mistakes)


@pytest.mark.covers("RP46", "RP48", "RP53", "RP54")
@pytest.mark.parametrize("model", MODELS)
def test_no_budget_is_exceeded_and_no_call_is_slow(measured: dict[str, Any], model: str) -> None:
    figures = measured["models"][model]["all"]
    assert figures["over_budget"] == 0
    assert figures["p95_ms"] < 500


@pytest.mark.covers("RP37", "RP53", "RP54")
@pytest.mark.parametrize("model", MODELS)
def test_a_record_of_two_providers_is_one_body_with_both_sources(
    measured: dict[str, Any], model: str
) -> None:
    assert measured["models"][model]["all"]["copies_shown_once"]


@pytest.mark.covers("RP50", "RP53", "RP54")
@pytest.mark.parametrize("model", MODELS)
def test_a_dead_and_a_slow_provider_take_nothing_from_the_others(
    measured: dict[str, Any], model: str
) -> None:
    failure = measured["models"][model]["failure"]
    assert failure["kept"] == failure["expected"] == 2
    assert failure["status"] == {
        "postgres": "ok",
        "notes": "ok",
        "dead": "failed",
        "slow": "timed_out",
    }
    assert set(failure["diagnostics"]) == {
        "provider dead failed: ConnectionError",
        "provider slow timed_out",
    }
