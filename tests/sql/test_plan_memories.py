"""The memory stage of plan: the memories themselves, where no topic is surely meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories import Connection, remember, remember_many, value
from tests.support.planner import call, flat_space, plan, providers, put_topic, titles

W = "w"
UP = [1.0, 0.0]


def at(cosine: float) -> list[float]:
    """A vector with this cosine to UP."""
    return [cosine, (1 - cosine**2) ** 0.5]


@pytest.fixture
def notes(db: Connection) -> Connection:
    """Memories without a title or a key."""
    for body in (
        "We retry three times, then page.",
        "The pager changes hands on Mondays at ten.",
        "Vera bakes bread on Sundays.",
        "The offsite is in Lisbon, flights are booked by the office.",
    ):
        remember(db, W, body)
    return db


@pytest.fixture
def flat(db: Connection) -> Connection:
    """A space of two dimensions whose model starts to mean something at 0.2 and is sure at 0.7."""
    flat_space(db, W)
    db.execute(
        "update remem.embedding_space set cosine_floor = 0.2, cosine_full = 0.7 where name = 'flat'"
    )
    return db


def found_memories(found: dict[str, Any]) -> list[str]:
    return [memory["id"] for memory in found["memories"]]


@pytest.mark.covers("RP1", "RP22")
def test_untitled_memories_are_a_reason_to_recall(notes: Connection) -> None:
    found = plan(notes, W, "who bakes the bread?")
    assert (found["stage"], found["topics"]) == ("memory", [])
    (memory,) = found["memories"]
    assert memory["signal"] == "memory token coverage"
    assert found["confidence"] == memory["score"] > 0.7
    assert found["requests"] == [
        {
            "providerId": "postgres",
            "query": "who bakes the bread?",
            "reason": f"memory {memory['id']}: memory token coverage {memory['score']:.3f}",
            "limit": 8,
        }
    ]


@pytest.mark.covers("RP1", "RP6")
@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("how often do we retry?", True),
        ("retry", False),  # one word that says nothing of whose retries are meant
        ("how do I retry a jump in Super Mario?", False),
        ("bread", False),
        ("which flights to Tokyo are cheap?", False),
        ("write a poem about Mondays", False),
        ("thanks, that looks good", False),
    ],
)
def test_a_word_in_common_is_no_reason(notes: Connection, prompt: str, asks: bool) -> None:
    found = plan(notes, W, prompt)
    assert found["shouldRetrieve"] is asks
    assert (found["stage"], bool(found["memories"])) == (
        ("memory", True) if asks else ("none", False)
    )


def test_a_memory_leads_to_the_topic_it_names(db: Connection) -> None:
    put_topic(db, W, "Holidays", providers=["calendar"])
    remember(db, W, "The shop is closed between Christmas and Epiphany.", topic_key="holidays")
    found = plan(db, W, "is the shop closed at Christmas?", providers=["postgres", "calendar"])
    assert (found["stage"], titles(found)) == ("memory", ["Holidays"])
    assert found["topics"][0]["sure"] is False
    assert providers(found) == ["calendar", "postgres"]


@pytest.mark.covers("RP56")
def test_memories_of_others_are_no_reason_and_hide_none(db: Connection) -> None:
    for number in range(20):
        remember(
            db,
            W,
            f"Kiln nine fires stoneware slowly, batch {number}.",
            scope="project",
            scope_ref="p",
        )
    assert plan(db, W, "how does kiln nine fire stoneware?")["stage"] == "none"
    own = remember(db, W, "Kiln nine was repaired.").memory_id
    assert found_memories(plan(db, W, "was kiln nine repaired?")) == [str(own)]
    inside = plan(db, W, "how does kiln nine fire stoneware?", context={"project": "p"})
    assert (inside["stage"], len(inside["memories"])) == ("memory", 3)


@pytest.mark.covers("RP56")
def test_an_owner_of_few_rows_is_not_looked_for_among_all(db: Connection) -> None:
    many = [
        {"body": f"The kiln fires stoneware, batch {n}.", "scope": "user", "scope_ref": f"u{n % 9}"}
        for n in range(2000)
    ]
    remember_many(db, W, many)
    own = remember(db, W, "Olga repaired the kiln.", scope="user", scope_ref="ann").memory_id
    shared = remember(db, W, "Repaired stoneware is sold in the kiln shop.").memory_id
    prompts = {
        "who repaired the kiln?": [own, shared],
        "is repaired stoneware sold in the shop?": [shared],
        "how does the kiln fire a batch?": [],
    }
    db.execute("vacuum analyze remem.memory")
    read = (
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_all_tables"
        " where relid = 'remem.memory'::regclass"
    )
    for prompt, expected in prompts.items():
        with db.transaction():
            before = value(db, read)
            found = plan(db, W, prompt, context={"user": "ann"})
            assert sorted(found_memories(found)) == sorted(map(str, expected)), prompt
            assert value(db, read) - before < 500, prompt


@pytest.mark.parametrize(
    ("cosine", "body", "asks"),
    [
        (0.45, "Quince jelly sets slowly.", True),
        (0.40, "Quince jelly sets slowly.", False),
        # A word in common may be why they are alike, so more is asked.
        (0.45, "The gate of the quince orchard.", False),
        (0.55, "The gate of the quince orchard.", True),
    ],
)
def test_a_model_finds_what_shares_no_word(
    flat: Connection, cosine: float, body: str, asks: bool
) -> None:
    memory_id = remember(flat, W, body, embedding=at(cosine)).memory_id
    found = plan(flat, W, "who painted the gate of heaven purple?", embedding=UP)
    assert found_memories(found) == ([str(memory_id)] if asks else [])
    assert found["stage"] == ("memory" if asks else "none")
    assert plan(flat, W, "who painted the gate?", embedding=UP, memories=False)["memories"] == []


@pytest.mark.covers("RP18")
@pytest.mark.parametrize(("memory", "sure"), [(0.40, True), (0.30, False)])
def test_topic_and_memory_together_are_enough(flat: Connection, memory: float, sure: bool) -> None:
    put_topic(flat, W, "Quince jelly", embedding=at(0.34))
    remember(flat, W, "It sets slowly.", topic_key="Quince jelly", embedding=at(memory))
    prompt = "why is the marmalade runny?"
    assert titles(plan(flat, W, prompt, embedding=UP)) == []
    found = plan(flat, W, prompt, embedding=UP, supported_similarity=0.36)
    assert titles(found) == (["Quince jelly"] if sure else [])
    if sure:
        assert (found["stage"], found["confidence"]) == ("memory", pytest.approx(0.37, abs=1e-3))
        assert found["topics"][0]["signal"] == "similarity of topic and memory"
        assert found["topics"][0]["sure"] is True


@pytest.mark.covers("RP18")
def test_title_and_memory_are_compared_as_one_text_too(flat: Connection) -> None:
    """Neither is like the prompt, nor like the other: together they are."""
    topic_id = put_topic(flat, W, "Quince jelly", summary="what sets", embedding=at(0.34))
    other = [0.35, -at(0.35)[1]]
    remember(flat, W, "It takes a day.", topic_key="Quince jelly", embedding=other)
    prompt = "why is the marmalade runny?"
    assert titles(plan(flat, W, prompt, embedding=UP)) == []
    put = {"workspace": W, "topic_id": topic_id, "text": "Quince jelly", "embedding": at(0.35)}
    assert call(flat, "put_topic_embedding", **put) == [(True,)]
    (topic,) = plan(flat, W, prompt, embedding=UP)["topics"]
    assert (topic["signal"], topic["sure"]) == ("similarity of topic and memory", True)
    assert topic["score"] == pytest.approx(1, abs=0.01)
    assert titles(plan(flat, W, prompt, embedding=UP, memories=False)) == []
    call(flat, "put_topic_embedding", **{**put, "embedding": at(0.2)})
    assert titles(plan(flat, W, prompt, embedding=UP, joined_similarity=0.5)) == ["Quince jelly"]
    assert titles(plan(flat, W, prompt, embedding=UP, joined_similarity=0.999)) == []


@pytest.mark.covers("RP18")
def test_opposite_title_and_memory_say_nothing(flat: Connection) -> None:
    """Their sum has no direction: it neither fails nor means anything."""
    topic_id = put_topic(flat, W, "Quince jelly", summary="what sets", embedding=at(0.34))
    title = at(0.35)
    # Like the prompt, of no topic: only with it the topic's own memory is looked for.
    remember(flat, W, "Nobody knows.", embedding=[0.42, -at(0.42)[1]])
    for away in (0.0, 1e-3, -1e-3):
        other = [-title[0] + away, -title[1] + away]
        remember(flat, W, "It takes a day.", ref="m", topic_key="Quince jelly", embedding=other)
        put = {"workspace": W, "topic_id": topic_id, "text": "Quince jelly", "embedding": title}
        assert call(flat, "put_topic_embedding", **put) == [(True,)]
        found = plan(flat, W, "why is the marmalade runny?", embedding=UP)
        assert (titles(found), found["degraded"]) == ([], [])


def test_a_topic_is_not_sure_where_its_memories_are_far(flat: Connection) -> None:
    put_topic(flat, W, "Quince jelly", embedding=at(0.45))
    remember(flat, W, "It sets slowly.", topic_key="Quince jelly", embedding=at(0.1))
    found = plan(flat, W, "why is the marmalade runny?", embedding=UP)
    assert [(t["title"], t["sure"]) for t in found["topics"]] == [("Quince jelly", False)]


@pytest.mark.covers("RP18")
def test_a_space_says_whether_its_model_knows_languages(flat: Connection) -> None:
    remember(flat, W, "Quince jelly sets slowly.", embedding=at(0.5))
    prompt = "warum ist die Marmelade nicht fest?"
    assert plan(flat, W, prompt, embedding=UP)["memories"] == []
    assert plan(flat, W, prompt, embedding=UP)["signals"]["memories"]["foreign"] is True
    call(flat, "put_plan_setting", workspace=None, name="multilingual", value="true", space="flat")
    found = plan(flat, W, prompt, embedding=UP)
    assert (len(found["memories"]), found["signals"]["memories"]["foreign"]) == (1, False)
    assert plan(flat, W, prompt, embedding=UP, multilingual=False)["memories"] == []


def test_every_threshold_is_an_option(flat: Connection) -> None:
    memory_id = str(remember(flat, W, "Quince jelly sets slowly.", embedding=at(0.45)).memory_id)
    for prompt, option, low, high in (
        ("why is the marmalade runny?", "memory_similarity", 0.44, 0.46),
        ("does quince taste of roses and honey?", "memory_explained_similarity", 0.44, 0.46),
        ("warum ist die Marmelade nicht fest?", "memory_clear_similarity", 0.44, 0.46),
        ("do quince and jelly sell?", "memory_coverage", 0.25, 0.8),
        ("does quince jelly set?", "memory_support", 0.44, 0.46),
        ("have we quince left?", "memory_word_coverage", 0.1, 0.9),
    ):
        others = {"memory_explained_similarity": 0.9, option: low}
        assert found_memories(plan(flat, W, prompt, embedding=UP, **others)) == [memory_id], prompt
        others[option] = high
        assert found_memories(plan(flat, W, prompt, embedding=UP, **others)) == [], prompt


@pytest.mark.covers("RP49")
def test_without_a_vector_words_have_to_say_more(flat: Connection) -> None:
    remember(flat, W, "Quince jelly sets slowly.")
    found = plan(flat, W, "does quince jelly set?")
    assert (found["stage"], found["degraded"]) == ("memory", ["no_embedding"])
    assert plan(flat, W, "does quince jelly keep in the freezer?")["stage"] == "none"


@pytest.mark.covers("RP49", "RP51")
def test_a_broken_index_costs_the_memories_and_no_more(notes: Connection) -> None:
    notes.execute("alter table remem.memory_entity rename to gone")
    assert plan(notes, W, "who bakes the bread?")["stage"] == "memory"
    notes.execute("alter table remem.posting rename to gone_too")
    put_topic(notes, W, "Orchard")
    found = plan(notes, W, "who bakes the bread?")
    assert (found["stage"], found["degraded"]) == ("none", ["memories_failed"])
    assert found["catalog"]["entries"] == 2


def test_it_works_in_a_read_only_transaction_ten_times(notes: Connection) -> None:
    """From the sixth call on, statements have their generic plans."""
    with notes.transaction():
        notes.execute("set transaction read only")
        first = plan(notes, W, "how often do we retry?")["memories"]
        assert first
        for _ in range(9):
            assert plan(notes, W, "how often do we retry?")["memories"] == first


def test_what_is_out_of_time_or_replaced_speaks_for_nothing(db: Connection) -> None:
    remember(db, W, "Quince jelly sets slowly.", ref="q", valid_to="2020-01-01")
    assert plan(db, W, "does quince jelly set?")["stage"] == "none"
    remember(db, W, "Plum jam keeps for years.", ref="p")
    remember(db, W, "Pear must turns sour.", ref="p")
    assert plan(db, W, "does plum jam keep?")["stage"] == "none"
    assert plan(db, W, "does pear must turn sour?")["stage"] == "memory"
    assert value(db, "select count(*) from remem.memory") == 3
