"""A recall whose kinds are searched apart and share its limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories import Connection, explain, recall, remember

QUERY = "Which database do we use for billing?"


@pytest.fixture
def talk(db: Connection) -> Connection:
    """Eighty turns that repeat the question's words, two decisions that hardly do."""
    for i in range(80):
        remember(
            db, "w", f"Which database do we use for billing, asked {i} today", ref=f"turn{i}",
            kind="episodic",
        )  # fmt: skip
    remember(db, "w", "Invoices live in Postgres; billing agreed", ref="decided", kind="decision")
    remember(db, "w", "Backups of the billing store: weekly", ref="backups", kind="decision")
    remember(db, "w", "Postgres runs in Frankfurt", ref="place", kind="semantic")
    return db


def kinds(document: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for hit in document["hits"]:
        counts[hit["kind"]] = counts.get(hit["kind"], 0) + 1
    return counts


@pytest.mark.covers("ME14")
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
def test_a_kind_of_few_rows_is_not_crowded_out(talk: Connection, mode: str) -> None:
    whole = explain(talk, "w", QUERY, k=30, mode=mode)
    apart = explain(talk, "w", QUERY, k=30, mode=mode, shard_by="kind")
    assert whole["shards"] is None
    assert {hit["kind"] for hit in whole["hits"]} == {"episodic"}
    assert apart["shards"] == ["decision", "episodic", "semantic"]
    assert "decided" in {hit["ref"] for hit in apart["hits"]}


@pytest.mark.covers("ME14")
@pytest.mark.parametrize("k", [1, 8, 60])
@pytest.mark.parametrize("arm", ["vector", "lexical"])
def test_the_shards_share_the_limit_of_an_arm(talk: Connection, arm: str, k: int) -> None:
    document = explain(talk, "w", QUERY, k=k, arms=[arm], shard_by="kind")
    rows = max(16, 2 * k)
    found = document["arms"][arm]["found"]
    # Two decisions, one fact, and a third of the rows in talk: no kind has more than its share.
    assert found == min(80, -(-rows // 3)) + 3 - (arm == "lexical")
    assert kinds(document)["episodic"] <= -(-rows // 3) + 20  # neighbours may join


@pytest.mark.covers("ME14")
def test_the_limit_of_the_graph_is_shared_too(talk: Connection) -> None:
    def ref(name: str) -> Any:
        row = talk.execute(
            "select memory_id from remem.memory where workspace = 'w' and ref = %s", [name]
        ).fetchone()
        assert row is not None
        return row[0]

    for i in range(12):
        remember(talk, "w", f"zephyr note {i}", ref=f"note{i}", kind="procedure")
        talk.execute("select remem.relate('w', %s, %s, 'part_of', 1.0::real, 'verified')",
                     [ref("decided"), ref(f"note{i}")])  # fmt: skip
    remember(talk, "w", "zephyr fact", ref="fact", kind="semantic")
    talk.execute("select remem.relate('w', %s, %s, 'related', 0.1::real, 'heuristic')",
                 [ref("decided"), ref("fact")])  # fmt: skip
    options: dict[str, Any] = {"k": 4, "graph": "always", "kinds": ["decision"]}
    document = explain(talk, "w", "invoices billing agreed", **options)
    assert document["graph"]["added"] == 0  # the filter holds for neighbours
    options["kinds"] = ["decision", "procedure", "semantic"]
    whole = explain(talk, "w", "invoices billing agreed", **options)
    apart = explain(talk, "w", "invoices billing agreed", **options, shard_by="kind")
    assert whole["graph"]["added"] == 8
    # A third of the eight each, rounded up, as far as there are any: three notes and one fact.
    assert apart["graph"]["added"] == 4


@pytest.mark.covers("ME14")
def test_one_kind_is_one_shard_and_changes_nothing(talk: Connection) -> None:
    plain = recall(talk, "w", QUERY, kinds=["decision"])
    assert recall(talk, "w", QUERY, kinds=["decision"], shard_by="kind") == plain
    assert explain(talk, "w", QUERY, kinds=["decision"], shard_by="kind")["shards"] is None
    remember(talk, "single", "billing lives in Postgres", kind="decision")
    assert len(recall(talk, "single", QUERY, shard_by="kind")) == 1
    assert recall(talk, "nowhere", QUERY, shard_by="kind") == []


@pytest.mark.covers("ME14")
def test_a_filter_and_a_pool_hold_in_every_shard(talk: Connection) -> None:
    remember(talk, "w", "billing database secret", ref="other", kind="decision", scope="project",
             scope_ref="p2")  # fmt: skip
    hits = recall(talk, "w", QUERY, k=60, filter='$.scope == "global"', shard_by="kind")
    assert "other" not in {hit.ref for hit in hits}
    assert {"decided", "backups"} <= {hit.ref for hit in hits}
    pool = recall(talk, "w", QUERY, k=2, kind="decision", shard_by="kind")
    assert {hit.kind for hit in pool} == {"decision"}


def test_a_shard_by_something_else_is_refused(talk: Connection) -> None:
    with pytest.raises(Exception, match="shard_by") as refused:
        recall(talk, "w", QUERY, shard_by="speaker")
    assert getattr(refused.value, "sqlstate", None) == "RM001"
