"""The semantic stage of plan: when it runs, what it compares, and what is left when it fails."""

from __future__ import annotations

from math import cos, sin

import pytest

from tests.support.memories import Connection, remember
from tests.support.planner import (
    call,
    flat_space,
    plan,
    providers,
    put_provider,
    put_topic,
    titles,
    topic,
)

W = "w"
UP = [1.0, 0.0]


def at(cosine: float) -> list[float]:
    """A vector with this cosine to UP."""
    return [cosine, (1 - cosine**2) ** 0.5]


@pytest.fixture
def flat(db: Connection) -> Connection:
    flat_space(db, W)
    return db


@pytest.mark.covers("RP10", "RP18", "RP22")
def test_the_built_in_space_finds_a_paraphrase_by_itself(db: Connection) -> None:
    put_topic(db, W, "Bedrock Claude credential passthrough failure")
    put_topic(db, W, "Weekend pasta recipe")
    found = plan(db, W, "what did we do about that AWS auth problem?")
    assert (found["stage"], found["confidence"]) == ("semantic", 0.7559)
    assert found["requests"] == [
        {
            "providerId": "postgres",
            "query": "what did we do about that AWS auth problem?",
            "reason": "Bedrock Claude credential passthrough failure: "
            "semantic catalog similarity 0.756",
            "limit": 8,
        }
    ]
    assert found["trace"]["semanticAttempted"] is True


@pytest.mark.covers("RP6", "RP18")
def test_generic_words_qualify_nothing_by_meaning_either(db: Connection) -> None:
    put_topic(db, W, "Billing service migration project")
    put_topic(db, W, "Project migration")
    for prompt in ("the migration of that service", "project migration service", "working on it"):
        found = plan(db, W, prompt)
        assert (found["stage"], found["topics"]) == ("none", []), prompt


@pytest.mark.covers("RP9")
def test_it_runs_only_without_a_plan_or_below_high_confidence(flat: Connection) -> None:
    put_topic(flat, W, "Orchard harvest", embedding=at(0.9))
    sure = plan(flat, W, "Orchard harvest", embedding=UP)
    assert (sure["stage"], sure["trace"]["semanticAttempted"]) == ("deterministic", False)
    assert sure["signals"]["semantic"]["skipped"] == "high_confidence"
    unsure = plan(flat, W, "harvest in the Orchard", embedding=UP)
    assert (unsure["stage"], unsure["confidence"]) == ("semantic", pytest.approx(0.9, abs=2e-3))
    assert plan(flat, W, "apples", embedding=UP)["stage"] == "semantic"
    never = plan(flat, W, "harvest in the Orchard", embedding=UP, deterministic_high_confidence=0.7)
    assert never["trace"]["semanticAttempted"] is False


@pytest.mark.covers("RP9")
def test_it_replaces_a_plan_only_with_higher_confidence(flat: Connection) -> None:
    put_topic(flat, W, "Orchard harvest", embedding=at(0.0))
    put_topic(flat, W, "Cider press", embedding=at(0.7))
    found = plan(flat, W, "harvest in the Orchard", embedding=UP)
    assert (found["stage"], titles(found)) == ("deterministic", ["Orchard harvest"])
    assert found["trace"]["semanticAttempted"] is True
    assert titles(plan(flat, W, "apples", embedding=UP)) == ["Cider press"]
    assert plan(flat, W, "apples again", embedding=UP)["stage"] == "semantic"
    # Continuity without a match is sure by 0.62.
    put_topic(flat, W, "Cider press", embedding=at(0.6))
    assert plan(flat, W, "apples again", embedding=UP)["stage"] == "continuity"


@pytest.mark.covers("RP18")
def test_the_minimum_belongs_to_the_space(flat: Connection) -> None:
    put_topic(flat, W, "Cider press", embedding=at(0.45))
    found = plan(flat, W, "apples", embedding=UP)
    # Three tenths of the way between the space's thresholds, 0.2 and 0.7.
    assert found["signals"]["semantic"]["minimum"] == pytest.approx(0.35, abs=1e-3)
    assert titles(found) == ["Cider press"]
    put_topic(flat, W, "Cider press", embedding=at(0.33))
    assert plan(flat, W, "apples", embedding=UP)["stage"] == "none"
    call(
        flat,
        "put_plan_setting",
        workspace=None,
        name="semantic_minimum_similarity",
        value="0.32",
        space="flat",
    )
    assert plan(flat, W, "apples", embedding=UP)["stage"] == "semantic"
    assert plan(flat, "elsewhere", "apples")["signals"]["semantic"]["minimum"] == 0.32
    assert plan(flat, W, "apples", embedding=UP, semantic_minimum_similarity=0.5)["topics"] == []


@pytest.mark.covers("RP18")
def test_the_three_most_similar_topics_are_claimed_in_order(flat: Connection) -> None:
    for number in range(6):
        put_topic(flat, W, f"Topic {number}", embedding=[cos(number / 10), sin(number / 10)])
    found = plan(flat, W, "apples", embedding=UP)
    assert titles(found) == ["Topic 0", "Topic 1", "Topic 2"]
    assert found["topics"][1]["score"] == pytest.approx(cos(0.1), abs=2e-3)
    assert len(plan(flat, W, "apples", embedding=UP, max_topics=5)["topics"]) == 5


@pytest.mark.covers("RP10", "RP20")
def test_a_provider_is_found_by_its_descriptor_when_no_topic_qualifies(flat: Connection) -> None:
    put_provider(flat, W, "notes", name="Team notes", embedding=at(0.612))
    put_provider(flat, W, "tickets", embedding=at(0.1))
    put_topic(flat, W, "Cider press", embedding=at(0.3))
    found = plan(flat, W, "apples", embedding=UP)
    assert (found["stage"], found["topics"]) == ("semantic", [])
    assert [(r["providerId"], r["reason"]) for r in found["requests"]] == [
        ("notes", "Team notes: provider awareness similarity 0.612")
    ]
    assert found["confidence"] == pytest.approx(0.612, abs=1e-3)
    put_topic(flat, W, "Cider press", embedding=at(0.5))
    topical = plan(flat, W, "apples", embedding=UP)
    assert (titles(topical), providers(topical)) == (["Cider press"], ["postgres"])


@pytest.mark.covers("RP20")
def test_the_hash_space_embeds_provider_descriptors_by_itself(db: Connection) -> None:
    put_provider(db, W, "queues", name="Queue notes", summary="kafka messaging stream")
    found = plan(db, W, "kafka stream messaging")
    assert (found["stage"], found["topics"], providers(found)) == ("semantic", [], ["queues"])
    assert plan(db, W, "kafka stream messaging", providers=["postgres"])["requests"] == []


@pytest.mark.covers("RP21")
def test_similarity_bypasses_no_scope_and_no_provider(flat: Connection) -> None:
    put_topic(flat, W, "Secret", scope="project", scope_ref="a", embedding=UP)
    put_topic(flat, W, "Mine", scope="project", scope_ref="b", providers=["x"], embedding=UP)
    found = plan(flat, W, "apples", embedding=UP, context={"project": "b"})
    assert (titles(found), providers(found)) == (["Mine"], ["x"])
    assert "Secret" not in str(plan(flat, W, "apples", embedding=UP))
    unreachable = plan(
        flat, W, "apples", embedding=UP, context={"project": "b"}, providers=["postgres"]
    )
    assert (unreachable["shouldRetrieve"], unreachable["requests"]) == (False, [])
    assert unreachable["degraded"] == ["provider_unavailable:x"]


@pytest.mark.covers("RP49")
@pytest.mark.parametrize(
    ("embedding", "options", "state"),
    [
        (None, {}, "no_embedding"),
        ([0.0, 0.0], {}, "zero_vector"),
        ([1.0], {}, "dimension_mismatch"),
        ([1.0] * 384, {}, "dimension_mismatch"),
        ([], {}, "dimension_mismatch"),
        ([1.0, None], {}, "vector_refused"),
        ([1.0, float("nan")], {}, "vector_refused"),
        ([1.0, float("inf")], {}, "vector_refused"),
        (UP, {"space": "hash"}, "space_mismatch"),
    ],
)
def test_without_a_usable_vector_the_deterministic_plan_stands(
    flat: Connection, embedding: list[float] | None, options: dict[str, str], state: str
) -> None:
    put_topic(flat, W, "Orchard harvest", embedding=UP)
    found = plan(flat, W, "harvest in the Orchard", embedding=embedding, **options)
    assert (found["stage"], titles(found)) == ("deterministic", ["Orchard harvest"])
    assert found["degraded"] == [state]
    assert found["signals"]["semantic"]["attempted"] is False


@pytest.mark.covers("RP49")
def test_a_broken_comparison_leaves_the_deterministic_plan(flat: Connection) -> None:
    put_topic(flat, W, "Orchard harvest", embedding=UP)
    flat.execute("alter table remem.topic_embedding rename to gone")
    found = plan(flat, W, "harvest in the Orchard", embedding=UP)
    assert (found["stage"], titles(found)) == ("deterministic", ["Orchard harvest"])
    assert found["degraded"] == ["semantic_failed", "memories_failed"]
    assert found["catalog"]["entries"] == 2


@pytest.mark.covers("RP16")
def test_the_hash_space_knows_nothing_of_words_outside_its_groups(db: Connection) -> None:
    put_topic(db, W, "Invoice reminders")
    assert plan(db, W, "dunning letters to late payers")["stage"] == "none"


def test_vectors_of_another_space_are_not_compared(flat: Connection) -> None:
    put_topic(flat, W, "Cider press", embedding=UP)
    flat.execute("update remem.workspace set space_no = 1")
    found = plan(flat, W, "apples", embedding=[1.0] + [0.0] * 383)
    assert found["stage"] == "none"
    # The built-in space has a vector of every topic, made of its words.
    assert found["signals"]["semantic"]["compared"] == 1
    assert call(flat, "catalog_without_embedding", workspace=W) == []


def test_topics_without_a_vector_are_listed_named_and_filled_in(flat: Connection) -> None:
    topic_id = put_topic(
        flat, W, "Cider press", aliases=["mill"], tags=["apples"], summary="the old one"
    )
    put_provider(flat, W, "notes", summary="of the team")
    assert "stale_topics" in plan(flat, W, "fruit", embedding=UP)["degraded"]
    rows = call(flat, "catalog_without_embedding", workspace=W)
    assert rows == [
        ("provider", "notes", "notes\nof the team"),
        ("topic", topic_id, "Cider press\nmill\nthe old one\napples"),
    ]
    put = {"workspace": W, "topic_id": topic_id, "embedding": UP}
    stale = call(flat, "put_topic_embedding", **put, text="another text")
    assert stale == [(False,)]
    # The title's own vector is kept beside that of the whole, and not without it.
    assert call(flat, "put_topic_embedding", **put, text="Cider press") == [(False,)]
    assert call(flat, "put_topic_embedding", **put, text=rows[1][2]) == [(True,)]
    # Listed as long as it is missing, after what has no vector at all.
    assert call(flat, "catalog_without_embedding", workspace=W) == [
        rows[0],
        ("topic", topic_id, "Cider press"),
    ]
    plum_id = put_topic(flat, W, "Plums", importance=0.1, embedding=UP)
    pear_id = put_topic(flat, W, "Pears", importance=0)
    assert call(flat, "catalog_without_embedding", workspace=W, limit=2)[1][1] == pear_id
    call(flat, "drop_topic", workspace=W, topic_id=plum_id)
    call(flat, "drop_topic", workspace=W, topic_id=pear_id)
    assert call(flat, "put_topic_embedding", **put, text="Cider press") == [(True,)]
    assert call(flat, "put_provider_embedding", workspace=W, provider_id="notes", embedding=UP)
    assert call(flat, "catalog_without_embedding", workspace=W) == []
    found = plan(flat, W, "fruit", embedding=UP)
    assert (titles(found), found["degraded"]) == (["Cider press"], [])
    # A new text needs a new vector.
    put_topic(flat, W, "Cider press", summary="the new one")
    assert topic(flat, W, "Cider press")["embedded"] is False


def test_a_topic_of_a_memory_gets_its_vector_in_the_hash_space(db: Connection) -> None:
    remember(db, W, "Tokens of AWS expire.", topic_key="AWS credential failure")
    found = plan(db, W, "the amazon login problem")
    assert (found["stage"], titles(found)) == ("semantic", ["AWS credential failure"])
