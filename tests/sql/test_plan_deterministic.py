"""The deterministic stage of plan: phrases, tokens, tags, summaries and continuity."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection
from tests.support.planner import Plan, plan, providers, put_provider, put_topic, titles

W = "w"


def words(conn: Connection, prompt: str, **options: object) -> Plan:
    """A plan by the deterministic stage alone."""
    return plan(conn, W, prompt, semantic=False, **options)


@pytest.fixture(scope="module")
def phoenix(file_db: Connection) -> Connection:
    put_topic(
        file_db,
        W,
        "Project Phoenix",
        aliases=["cluster cutover", "bigbang"],
        tags=["replication", "storage"],
        summary="Old replicas leave before winter, standby first",
    )
    put_topic(file_db, W, "Weekend pasta recipe")
    return file_db


@pytest.mark.covers("RP2")
@pytest.mark.parametrize(
    ("prompt", "score", "signal"),
    [
        ("Where does Project Phoenix stand?", 0.96, "exact title phrase"),
        ("PROJECT-PHOENIX: status", 0.96, "exact title phrase"),
        ("project ph\u00f6enix", 0.96, "exact title phrase"),
        ("is the cluster cutover done", 0.91, "exact alias phrase"),
        ("BigBang?", 0.91, "exact alias phrase"),
    ],
)
def test_a_title_or_alias_as_a_phrase_is_known_for_sure(
    phoenix: Connection, prompt: str, score: float, signal: str
) -> None:
    found = words(phoenix, prompt)
    assert (found["stage"], found["confidence"]) == ("deterministic", score)
    assert [(t["title"], t["score"], t["signal"]) for t in found["topics"]] == [
        ("Project Phoenix", score, signal)
    ]
    assert found["shouldRetrieve"] is True


@pytest.mark.covers("RP2")
@pytest.mark.parametrize("prompt", ["subproject phoenixes", "bigbangs", "weekend pastarecipe"])
def test_a_phrase_begins_and_ends_at_a_word(phoenix: Connection, prompt: str) -> None:
    assert all("phrase" not in t["signal"] for t in words(phoenix, prompt)["topics"])


@pytest.mark.covers("RP3")
@pytest.mark.parametrize(
    ("prompt", "title", "score"),
    [
        # Without generic words the title is one word, and it is there.
        ("phoenix status", "Project Phoenix", 0.76),
        ("pasta weekend", "Weekend pasta recipe", 0.76 * 2 / 3),
        ("the cutover of one cluster", "Project Phoenix", 0.70),
    ],
)
def test_shared_words_count_by_their_part_of_the_title_or_alias(
    phoenix: Connection, prompt: str, title: str, score: float
) -> None:
    found = words(phoenix, prompt)
    assert titles(found) == [title]
    assert found["confidence"] == pytest.approx(score, abs=1e-4)


@pytest.mark.covers("RP3")
def test_a_third_of_a_title_does_not_qualify_and_its_score_is_told(
    phoenix: Connection,
) -> None:
    found = words(phoenix, "a nice recipe")
    assert (found["stage"], found["shouldRetrieve"], found["requests"]) == ("none", False, [])
    assert found["confidence"] == pytest.approx(0.76 / 3, abs=1e-4)
    assert [m["title"] for m in found["trace"]["catalogMatches"]] == ["Weekend pasta recipe"]


@pytest.mark.covers("RP4")
@pytest.mark.parametrize(
    ("prompt", "score", "signal"),
    [
        ("storage and replication", 0.52, "tag token overlap"),
        ("storage", 0.26, "tag token overlap"),
        ("replicas", 0.30, "summary token overlap"),
        ("old replicas", 0.40, "summary token overlap"),
        ("old standby replicas", 0.50, "summary token overlap"),
        ("old standby replicas leave first in winter", 0.58, "summary token overlap"),
    ],
)
def test_tags_count_by_their_part_and_summaries_by_the_number_of_words(
    phoenix: Connection, prompt: str, score: float, signal: str
) -> None:
    (match,) = words(phoenix, prompt)["trace"]["catalogMatches"]
    assert (match["signal"], match["score"]) == (signal, pytest.approx(score, abs=1e-4))


@pytest.mark.covers("RP6")
@pytest.mark.parametrize(
    "prompt", ["project", "the service", "work on the migration", "project service work migration"]
)
def test_generic_words_qualify_nothing(db: Connection, prompt: str) -> None:
    for title in ("Project", "Service Migration", "Work", "Project Atlas", "The migration"):
        put_topic(db, W, title, tags=["project"], summary="work of the service on the project")
    for found in (words(db, prompt), plan(db, W, prompt)):
        assert (found["stage"], found["topics"], found["requests"]) == ("none", [], [])


@pytest.mark.covers("RP5")
@pytest.mark.parametrize(
    "prompt",
    [
        "what was it last time?",
        "We decided that, no?",
        "REMEMBER me",
        "continue",
        "again!",
        "we agreed on something",
        "resume",
        "pick up where you stopped",
        "the thing we built",
        "Was war letztes Mal?",
        "Wei\u00dft du noch",
        "ce que nous avons d\u00e9cid\u00e9",
        "la derni\u00e8re fois",
        "la \u00faltima vez",
        "seguimos donde lo dejamos",
        "\u6211\u4eec\u4e0a\u6b21\u8bf4\u7684",
        "\u524d\u56de\u306e\u8a71",
    ],
)
def test_continuity_is_heard_in_several_languages(db: Connection, prompt: str) -> None:
    found = words(db, prompt)
    assert found["signals"]["continuity"] != []
    assert found["stage"] == "continuity"


@pytest.mark.covers("RP5")
@pytest.mark.parametrize(
    "prompt", ["against", "discontinued", "remembering", "the last timer", "resumed", "we. decide"]
)
def test_continuity_phrases_are_bounded_by_words(db: Connection, prompt: str) -> None:
    found = words(db, prompt)
    assert (found["signals"]["continuity"], found["stage"]) == ([], "none")


@pytest.mark.covers("RP7")
def test_continuity_lifts_a_match_and_unresolved_work_more(db: Connection) -> None:
    put_topic(db, W, "kafka rebalancing storms")
    put_topic(db, W, "kafka rebalancing alerts", unresolved=True)
    plain = words(db, "kafka rebalancing")
    assert [t["score"] for t in plain["topics"]] == [pytest.approx(0.76 * 2 / 3, abs=1e-4)] * 2
    assert titles(plain) == ["kafka rebalancing storms", "kafka rebalancing alerts"]
    lifted = words(db, "continue kafka rebalancing")
    assert titles(lifted) == ["kafka rebalancing alerts", "kafka rebalancing storms"]
    assert [t["score"] for t in lifted["topics"]] == [
        pytest.approx(0.76 * 2 / 3 + boost, abs=1e-4) for boost in (0.16, 0.10)
    ]


@pytest.mark.covers("RP7")
def test_a_boost_makes_no_match_and_no_score_above_one(db: Connection) -> None:
    put_topic(db, W, "Orchard", unresolved=True)
    assert words(db, "continue Orchard")["confidence"] == 1
    assert titles(words(db, "continue elsewhere")) == []


@pytest.mark.covers("RP7")
def test_the_words_of_a_continuity_phrase_are_no_evidence(db: Connection) -> None:
    put_topic(db, W, "time tracking")
    put_topic(db, W, "remember me cookies")
    found = words(db, "what did I say last time, remember?")
    assert (found["stage"], found["topics"]) == ("continuity", [])
    assert titles(words(db, "about the remember me cookies")) == ["remember me cookies"]


@pytest.mark.covers("RP8")
def test_continuity_without_a_match_asks_every_provider_and_claims_nothing(db: Connection) -> None:
    put_topic(db, W, "Orchard")
    put_provider(db, W, "notes", name="Team notes", result_limit=3)
    put_provider(db, W, "off", enabled=False)
    found = words(db, "  what did we say last time?\n")
    assert (found["stage"], found["confidence"], found["topics"]) == ("continuity", 0.62, [])
    assert [(r["providerId"], r["limit"]) for r in found["requests"]] == [
        ("postgres", 8),
        ("notes", 3),
    ]
    assert {r["query"] for r in found["requests"]} == {"what did we say last time?"}
    assert all("no known topic" in r["reason"] for r in found["requests"])


@pytest.mark.covers("RP19")
def test_a_topic_is_asked_for_at_its_own_providers_only(db: Connection) -> None:
    put_provider(db, W, "notes")
    put_provider(db, W, "tickets")
    put_topic(db, W, "Orchard", providers=["notes"])
    put_topic(db, W, "Harbour")
    assert providers(words(db, "Orchard?")) == ["notes"]
    assert providers(words(db, "Harbour?")) == ["postgres"]
    both = words(db, "Orchard or Harbour?")
    assert sorted(providers(both)) == ["notes", "postgres"]


@pytest.mark.covers("RP22")
def test_a_plan_has_the_documented_form(db: Connection) -> None:
    topic_id = put_topic(db, W, "Orchard", providers=["notes", "postgres"])
    found = words(db, " Orchard harvest? ")
    assert {"shouldRetrieve", "confidence", "topics", "memories", "requests", "stage", "signals",
            "catalog", "degraded", "trace"} == set(found)  # fmt: skip
    assert found["topics"][0]["id"] == topic_id
    assert found["requests"] == [
        {
            "providerId": name,
            "query": "Orchard harvest?",
            "reason": "Orchard: exact title phrase 0.960",
            "limit": 8,
        }
        for name in ("notes", "postgres")
    ]


@pytest.mark.covers("RP22")
def test_one_request_a_provider_gives_all_reasons(db: Connection) -> None:
    for title in ("Orchard", "Harbour", "Quarry", "Meadow"):
        put_topic(db, W, title)
    found = words(db, "Orchard, Harbour, Quarry and Meadow")
    assert len(found["topics"]) == 3
    assert providers(found) == ["postgres"]
    assert found["requests"][0]["reason"].count("exact title phrase") == 3


SCRIPTS = {
    "japanese": ("データ移行", "昨日のデータ移行は?"),
    "chinese": ("支付超时", "那个支付超时问题"),
    "korean": ("결제 오류", "어제 결제 오류는?"),
    "thai": ("ชำระเงิน", "การชำระเงิน"),
    "german": ("Straßenbahn Übersicht", "nein, STRAẞENBAHN ubersicht"),
    "russian": ("Платежи", "что с ПЛАТЕЖИ?"),
}


@pytest.mark.parametrize(("title", "prompt"), SCRIPTS.values(), ids=SCRIPTS)
def test_titles_are_found_in_every_script(db: Connection, title: str, prompt: str) -> None:
    put_topic(db, W, title)
    found = words(db, prompt)
    assert titles(found) == [title]
    assert found["topics"][0]["signal"] == "exact title phrase"


@pytest.mark.covers("RP1")
def test_a_prompt_about_something_else_is_answered_with_no(phoenix: Connection) -> None:
    for prompt in ("Write a haiku about autumn", "explain quicksort", "thanks!", "", "???"):
        found = plan(phoenix, W, prompt)
        assert found["shouldRetrieve"] is False, prompt
        assert (found["topics"], found["requests"], found["stage"]) == ([], [], "none")
