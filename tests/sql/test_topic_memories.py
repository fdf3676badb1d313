"""topic_memories: what is remembered of a topic; and which topics of a plan are surely meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import inspected
from tests.support.memories import Connection, remember
from tests.support.planner import call, flat_space, plan, put_topic
from tests.support.plans import looked_at, nodes, plans

W = "w"


def memories(conn: Connection, *topics: Any, **options: Any) -> dict[str, float]:
    """The refs of the memories with their relevance."""
    rows = conn.execute(
        "select m.ref, (f ->> 'relevance')::float8"
        " from jsonb_array_elements(remem.topic_memories(%s, %s::uuid[], 8, %s)) f"
        " cross join lateral remem.get(%s, memory_id => (f ->> 'memory_id')::uuid) m",
        [W, list(topics), Jsonb(options), W],
    ).fetchall()
    return dict(rows)  # type: ignore[arg-type]


@pytest.fixture
def churn(db: Connection) -> UUID:
    """A topic with a memory of its key, one of its words, and one of another topic."""
    remember(db, W, "They leave after two months.", ref="keyed", topic_key="Customer churn")
    remember(db, W, "Why subscribers cancel: the price after the trial.", ref="words")
    remember(db, W, "Lunch is at noon.", ref="lunch")
    return put_topic(db, W, "Customer churn", summary="Why subscribers cancel after the trial")


def test_a_topic_holds_what_names_it_and_what_its_text_finds(db: Connection, churn: UUID) -> None:
    found = memories(db, churn)
    assert set(found) == {"keyed", "words"}
    assert found["keyed"] == 1


def test_what_is_superseded_or_filtered_out_does_not_belong_to_it(
    db: Connection, churn: UUID
) -> None:
    remember(db, W, "They leave after three months.", ref="keyed", topic_key="Customer churn")
    assert set(memories(db, churn)) == {"keyed", "words"}
    assert memories(db, churn, filter='$.scope == "project"') == {}
    assert memories(db, churn, filter='$.ref == "keyed"') == {"keyed": 1}


def test_an_unknown_topic_and_one_of_another_workspace_are_passed_over(
    db: Connection, churn: UUID
) -> None:
    assert memories(db, UUID(int=7)) == {}
    call(db, "create_workspace", workspace="other")
    with db.transaction():
        row = db.execute(
            "select remem.topic_memories('other', array[%s]::uuid[])", [churn]
        ).fetchone()
    assert row == ([],)
    with pytest.raises(psycopg.Error) as refused:
        db.execute("select remem.topic_memories(%s, null)", [W])
    assert refused.value.sqlstate == "RM001"


def test_signs_of_the_query_language_in_a_title_are_text(db: Connection) -> None:
    remember(db, W, "The build of the client is red.", ref="build")
    topic = put_topic(db, W, 'Client -build "red')
    assert set(memories(db, topic)) == {"build"}


@pytest.mark.covers("RP6", "RP34")
@pytest.mark.parametrize(
    ("prompt", "sure"),
    [
        ("what about the Rust compiler upgrade?", True),
        ("upgrade the compiler again, where did we stop?", True),
        ("upgrade the rust", True),
        ("does the upgrade of a compiler of Rust need much water in hot countries?", True),
        ("does a compiler for Rust need much water in hot countries?", False),
        ("upgrade my flight to business class and compile a packing list", False),
    ],
)
def test_a_topic_is_sure_only_beyond_a_shared_word(db: Connection, prompt: str, sure: bool) -> None:
    put_topic(db, W, "Rust compiler upgrade")
    topics = plan(db, W, prompt, minimum_confidence=0.2)["topics"]
    assert [topic["sure"] for topic in topics] == [sure]


def test_two_words_may_be_one_in_a_title(db: Connection) -> None:
    put_topic(db, W, "Editor setup")
    (topic,) = plan(db, W, "set up my new editor the way I like it", semantic=False)["topics"]
    assert (topic["signal"], topic["sure"]) == ("title token overlap", True)
    assert plan(db, W, "set the table up for an editor", semantic=False)["topics"] == []
    # Joined words are no evidence of their own where a continuity phrase holds them.
    put_topic(db, W, "Lasttime")
    assert plan(db, W, "as we said last time", semantic=False)["topics"] == []


def test_a_memory_belongs_to_the_topic_that_it_is_most_like(db: Connection) -> None:
    flat_space(db, W)
    jam = put_topic(db, W, "Quince jam", embedding=[1.0, 0.0])
    pie = put_topic(db, W, "Quince pie", embedding=[0.8, 0.6])
    remember(db, W, "It sets slowly.", ref="jam", embedding=[1.0, 0.0])
    remember(db, W, "It bakes slowly.", ref="pie", embedding=[0.8, 0.6])
    assert (set(memories(db, jam)), set(memories(db, pie))) == ({"jam"}, {"pie"})
    # As near to the one as to the other: it belongs to both.
    remember(db, W, "Both are sweet.", ref="both", embedding=[0.95, 0.31])
    assert set(memories(db, jam)) == {"jam", "both"}
    assert set(memories(db, pie)) == {"pie", "both"}
    # One that only somebody else sees takes nothing away.
    topic = {"scope": "user", "scope_ref": "ann", "embedding": [0.0, 1.0]}
    put_topic(db, W, "Ann's quinces", **topic)
    remember(db, W, "Ann picks them.", ref="ann", embedding=[0.6, 0.8])
    assert "ann" in memories(db, pie)


def test_words_are_shared_in_any_inflection(db: Connection) -> None:
    put_topic(db, W, "Feature flag store")
    put_topic(db, W, "Offene Rechnungen")
    assert plan(db, W, "where are feature flags stored", semantic=False)["confidence"] == 0.76
    (topic,) = plan(db, W, "offene Rechnung", semantic=False)["topics"]
    assert topic["title"] == "Offene Rechnungen"


def test_the_built_in_space_is_asked_where_the_model_sees_nothing(db: Connection) -> None:
    flat = {"name": "flat", "backend": "test", "asset": "a", "dimensions": 2, "pooling": "none"}
    flat |= {"normalization": "none", "dtype": "float32"}
    thresholds = {"cosine_floor": 0.2, "cosine_full": 0.7}
    db.execute("select remem.register_space(%s)", [Jsonb(flat | thresholds)])
    call(db, "create_workspace", workspace=W)
    call(db, "activate_space", space="flat", workspace=W)
    title = "Bedrock Claude credential passthrough failure"
    put_topic(db, W, title, embedding=[1.0, 0.0])
    prompt = "what did we do about that AWS auth problem?"
    found = plan(db, W, prompt, embedding=[0.0, 1.0], space="flat")
    assert [topic["title"] for topic in found["topics"]] == [title]
    assert found["stage"] == "semantic"


TOPICS = 300


def fill(db: Connection) -> None:
    """300 topics of two memories each, 600 that speak of them, another's 6,000 memories."""
    items = [{"body": f"Note {n}", "topic_key": f"topic {n % TOPICS}"} for n in range(2 * TOPICS)]
    items += [{"body": f"What topic {n % TOPICS} says, {n}"} for n in range(2 * TOPICS)]
    db.execute("select count(*) from remem.remember_many(%s, %s)", [W, Jsonb(items)])
    db.execute("select remem.create_workspace('other')")
    db.execute(
        """
        insert into remem.memory (workspace, kind, scope, body, source_class, attrs, fingerprint,
          content_hash, doc_len, lexemes, analyser_no)
        select 'other', 'semantic', 'global', n::text, 'unspecified', '{"workspace": "other"}',
          sha256(n::text::bytea), '', 1, '{}', 1
        from generate_series(1, 6000) n
        """
    )


@pytest.fixture(scope="module")
def many(server: Server) -> Iterator[Connection]:
    with inspected(server, fill) as su:
        yield su


@pytest.fixture(scope="module", params=["never analysed", "analysed"])
def crowd(many: Connection, request: pytest.FixtureRequest) -> Connection:
    """The one database, first as it was filled: a scope of a module has its tests in this order."""
    if request.param == "analysed":
        many.execute("analyze")
    return many


def test_of_many_topics_those_that_are_nearer_are_looked_at(crowd: Connection) -> None:
    with plans(crowd, log_analyze="on", log_timing="off") as seen:
        (found,) = crowd.execute(
            "select jsonb_array_length(remem.topic_memories(%s, array(select topic_id"
            " from remem.topic where workspace = %s order by topic_no limit 20), 100))",
            [W, W],
        ).fetchone() or (0,)
    assert found >= 40
    every = [node for entry in seen for node in nodes(entry["Plan"])]
    compared = [node for node in every if node.get("Relation Name") == "topic_embedding"]
    assert compared
    # Fewer are sorted than were compared, and none for a memory that has the topic's name.
    sorted_ = sum(node["Actual Rows"] * node["Actual Loops"] for node in compared)
    assert sorted_ <= looked_at(seen, "topic_embedding") / 10


def test_memories_of_a_name_are_found_by_the_index_of_attributes(crowd: Connection) -> None:
    with plans(crowd, log_analyze="on", log_timing="off") as seen:
        crowd.execute(
            "select remem.topic_memories(%s, array(select topic_id from remem.topic"
            " where workspace = %s order by topic_no limit 20), 100)",
            [W, W],
        )
    named = [entry for entry in seen if "v_path" in entry["Query Text"]]
    assert 0 < looked_at(named, "memory") <= 20 * 4
