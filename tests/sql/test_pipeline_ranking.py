"""Routes, the relevance pool, trust and the gate before a reranker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.support.memories import explain, recall, remember, remember_many

Connection = psycopg.Connection[Any]
NOW = datetime.now(UTC)


@pytest.mark.covers("ME7", "ME8")
def test_the_words_of_a_query_choose_the_route(db: Connection) -> None:
    remember(db, "w", "we chose Postgres", kind="decision")
    route = explain(db, "w", "what did we decide about the database?")["route"]
    assert (route["kind"], route["pool"]) == ("decision", "decision")
    assert explain(db, "w", "database")["route"]["kind"] == "general"


@pytest.mark.covers("ME8", "ME9")
def test_a_workspace_may_have_a_route_of_its_own_and_a_call_decides_before_it(
    db: Connection,
) -> None:
    remember(db, "w", "we chose Postgres", kind="decision")
    remember(db, "other", "we chose Postgres", kind="decision")
    db.execute("select remem.put_route('general', '{lexical}', workspace => 'w')")
    assert set(explain(db, "w", "postgres")["arms"]) == {"lexical"}
    assert "vector" in explain(db, "other", "postgres")["arms"]
    assert set(explain(db, "w", "postgres", arms=["vector"])["arms"]) == {"vector"}


@pytest.mark.covers("ME11", "ME12")
def test_pinned_memories_of_the_kind_join_and_the_kind_stands_in_for_them(db: Connection) -> None:
    remember(db, "w", "alpha", kind="decision", ref="plain")
    note = explain(db, "w", "what did we decide?")["pool"]
    assert note == {"note": "joined", "rows": 1}
    remember(db, "w", "beta", kind="decision", ref="pinned", pinned=True)
    remember(db, "w", "gamma", kind="decision", ref="second")
    assert explain(db, "w", "what did we decide?")["pool"] == {"note": "joined", "rows": 1}
    assert explain(db, "w", "alpha")["pool"]["note"] == "none"


@pytest.mark.covers("ME11")
def test_a_pool_is_looked_up_in_a_table_that_was_never_analysed(db: Connection) -> None:
    remember_many(db, "large", [{"body": f"note {n}"} for n in range(3000)])
    remember(db, "w", "we chose Postgres")
    blocks = []
    for _ in range(7):
        ((plan,),) = db.execute(
            "explain (analyze, buffers, format json) select remem._pool("
            '  jsonb_populate_record(null::remem._query, \'{"workspace": "w"}\'),'
            "  remem._route('w', 'decision'))"
        ).fetchall()
        blocks.append(plan[0]["Plan"]["Shared Hit Blocks"])
    assert max(blocks[1:]) < 1500  # every live row of all workspaces: at least one each


@pytest.mark.covers("ME11", "ME12")
def test_a_pool_without_pinned_rows_takes_the_newest_of_the_kind(db: Connection) -> None:
    notes: list[dict[str, Any]] = [
        {"body": f"note {n}", "kind": "decision", "ref": f"r{n}"} for n in range(150)
    ]
    remember_many(db, "w", notes)
    # A hundred rows are in the pool; which ones shows where no arm finds any.
    db.execute(
        "select remem.put_route('decision', '{phrase}', workspace => 'w', pool => 'decision')"
    )
    hits = recall(db, "w", "what?", k=100, kind="decision", graph="never")
    assert {hit.ref for hit in hits} == {f"r{n}" for n in range(50, 150)}
    assert {tuple(hit.arms) for hit in hits} == {("pool",)}


@pytest.mark.covers("ME13")
def test_a_pool_that_answers_by_itself_replaces_the_arms_and_says_so(db: Connection) -> None:
    for n in range(3):
        remember(db, "w", f"decided: blue paint for wall {n}", kind="decision", pinned=True)
    remember_many(db, "w", [{"body": f"blue paint note {n}"} for n in range(30)])
    trace = explain(db, "w", "blue paint wall decided", k=3, kind="decision")
    assert trace["pool"] == {"note": "replaced the arms", "rows": 3}
    assert {arm["state"] for arm in trace["arms"].values()} == {"skipped"}
    assert trace["tasks"] == {
        "submitted": len(trace["arms"]),
        "skipped": len(trace["arms"]),
        "completed": 0,
        "pending": 0,
        "failed": 0,
    }
    assert trace["finish_reason"] == "pool_satisfied"
    assert all(hit["kind"] == "decision" for hit in trace["hits"])
    # A question that the pool does not answer goes to the arms.
    assert explain(db, "w", "green grass", k=3, kind="decision")["pool"]["note"] == "joined"


@pytest.mark.covers("ME28")
def test_the_kind_asked_for_is_preferred_and_never_empties_the_answer(db: Connection) -> None:
    remember(db, "w", "deploys are on Tuesday", kind="decision", ref="decision")
    remember(db, "w", "deploys on Tuesday take an hour", kind="semantic", ref="fact")
    assert [hit.ref for hit in recall(db, "w", "deploys on Tuesday", kind="decision")] == [
        "decision"
    ]
    assert {hit.ref for hit in recall(db, "w", "deploys on Tuesday", kind="task")} == {
        "decision",
        "fact",
    }


@pytest.mark.covers("MN12", "MN13")
def test_an_old_trusted_fact_stands_before_a_fresh_guess(db: Connection) -> None:
    old, fresh = NOW - timedelta(days=200), NOW - timedelta(days=100)
    remember(
        db,
        "w",
        "the api limit is 500 calls",
        ref="code",
        source_class="codebase_verified",
        occurred_at=old,
    )
    remember(
        db,
        "w",
        "the api limit is 900 calls",
        ref="guess",
        source_class="llm_generated",
        occurred_at=fresh,
    )
    hits = recall(db, "w", "what is the api limit?")
    assert [hit.ref for hit in hits] == ["code", "guess"]
    assert hits[0].signals["trust"] > hits[1].signals["trust"]


@pytest.mark.covers("MN12")
def test_what_the_user_said_does_not_decay(db: Connection) -> None:
    remember(
        db,
        "w",
        "I am allergic to nuts",
        source_class="user_stated",
        occurred_at=NOW - timedelta(days=3650),
    )
    assert recall(db, "w", "allergic")[0].signals["trust"] == 1


@pytest.mark.covers("RP34")
def test_neither_trust_nor_importance_rescues_an_irrelevant_memory(db: Connection) -> None:
    remember(
        db,
        "w",
        "the canteen serves soup",
        ref="soup",
        source_class="user_stated",
        importance=1,
        pinned=True,
    )
    remember(
        db,
        "w",
        "the build cache is on host seven",
        ref="cache",
        source_class="inferred",
        importance=0,
        occurred_at=NOW - timedelta(days=900),
    )
    hits = recall(db, "w", "where is the build cache?")
    assert hits[0].ref == "cache"
    assert hits[0].relevance > 0.5 > hits[1].relevance


@pytest.mark.covers("RP33")
def test_importance_freshness_and_scope_order_equal_matches(db: Connection) -> None:
    remember(db, "w", "the gate opens at nine", ref="low", importance=0)
    remember(db, "w", "the gate opens at ten", ref="high", importance=1)
    assert [hit.ref for hit in recall(db, "w", "when does the gate open?")] == ["high", "low"]


@pytest.mark.covers("MN9", "MN12")
def test_source_classes_can_be_changed_by_an_administrator(db: Connection) -> None:
    db.execute("select remem.put_source_class('rumour', 0.1, interval '1 day')")
    remember(db, "w", "the office moves", source_class="rumour")
    assert recall(db, "w", "office")[0].signals["trust"] == pytest.approx(0.1, abs=1e-3)
    with pytest.raises(psycopg.Error) as refused:
        db.execute("select remem.put_source_class('rumour', 2)")
    assert refused.value.sqlstate == "RM001"


@pytest.mark.covers("MN11")
def test_the_gate_skips_a_cluster_and_asks_for_a_contradiction(db: Connection) -> None:
    for n in range(6):
        remember(db, "w", f"the lamp in hall {'abcdef'[n]} is broken")
    gate = explain(db, "w", "which lamp is broken?")["rerank_gate"]
    assert gate["rerank"] is False
    assert "cluster" in gate["reason"]
    remember(db, "w", "the lamp price is ten", subject="lamp", attribute="price")
    remember(db, "w", "the lamp price is twelve", subject="lamp", attribute="price")
    gate = explain(db, "w", "what is the lamp price?")["rerank_gate"]
    assert (gate["rerank"], gate["contradictions"]) == (True, 1)


@pytest.mark.covers("ME27")
def test_no_more_than_two_hundred_candidates_are_ranked(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"report {n} on pumps"} for n in range(600)])
    assert explain(db, "w", "report on pumps", k=50)["candidates"] <= 200
