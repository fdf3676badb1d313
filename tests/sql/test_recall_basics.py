"""What recall returns: how many, in which order, with which numbers, in which transactions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import (
    Connection,
    bodies,
    explain,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)

NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
]  # fmt: skip


def spelled(number: int) -> str:
    return " ".join(NUMBERS[int(digit)] for digit in str(number))


@pytest.fixture(scope="module")
def machines_name(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def machines(server: Server, machines_name: str) -> Iterator[Connection]:
    """The connection to a database that these tests only read."""
    with owner(server, machines_name) as conn:
        yield conn


def fill(db: Connection) -> None:
    """400 memories about machines and 50 about something else."""
    items = [{"body": f"Machine {spelled(n)} was serviced.", "ref": f"m{n}"} for n in range(400)]
    items += [{"body": f"The garden has {spelled(n)} trees.", "ref": f"g{n}"} for n in range(50)]
    remember_many(db, "w", items)


@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
@pytest.mark.parametrize("k", [1, 8, 300])
def test_k_memories_come_back_when_k_match(machines: Connection, k: int, mode: str) -> None:
    hits = recall(machines, "w", "which machine was serviced?", k=k, mode=mode)
    assert [hit.rank for hit in hits] == list(range(1, k + 1))
    assert len({hit.memory_id for hit in hits}) == k


def test_what_does_not_match_lexically_is_no_lexical_hit(machines: Connection) -> None:
    hits = recall(machines, "w", "garden", k=300, mode="lexical")
    assert len(hits) == 50
    assert {hit.ref[0] for hit in hits} == {"g"}


def test_fewer_memories_than_k_are_all_there_is(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    remember(db, "w", "The garden has trees.")
    assert len(recall(db, "w", "queue", k=1000)) == 2


@pytest.mark.parametrize("k", [0, -1, 1001, None, -2147483648])
def test_an_impossible_k_is_refused(db: Connection, k: int | None) -> None:
    remember(db, "w", "x")
    with refused("RM001", argument="k", limit=1000):
        recall(db, "w", "x", k=k)


def test_a_null_query_is_refused(db: Connection) -> None:
    with refused("RM001", argument="query"):
        recall(db, "w", None)


def test_null_options_are_the_defaults(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    rows = db.execute("select body from remem.recall('w', 'queue', null, 8, null)").fetchall()
    assert rows == [("The queue retries.",)]


def test_named_arguments_and_defaults_work_from_plain_sql(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    rows = db.execute(
        "select rank, body from remem.recall(workspace => 'w', query => 'queue', k => 3)"
    ).fetchall()
    assert rows == [(1, "The queue retries.")]


def test_scores_start_at_one_and_never_rise(machines: Connection) -> None:
    for fusion in ("weighted", "rrf", "max"):
        scores = [
            hit.score for hit in recall(machines, "w", "machine three serviced", fusion=fusion)
        ]
        assert scores[0] == 1
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_relevance_lies_between_zero_and_one(machines: Connection) -> None:
    for query in ("machine three serviced", "three", "entirely unrelated wording", "tree"):
        for hit in recall(machines, "w", query, k=50):
            assert 0 <= hit.relevance <= 1


def test_the_best_hit_of_a_good_question_is_relevant_and_that_of_a_bad_one_is_not(
    machines: Connection,
) -> None:
    (good,) = recall(machines, "w", "the garden has three trees", k=1)
    (bad,) = recall(machines, "w", "pelican migration", k=1)
    assert good.relevance > 0.9
    assert bad.relevance < 0.1
    assert good.score == bad.score == 1  # the score only orders


def test_relevance_is_of_the_hit_and_not_of_the_company_it_keeps(db: Connection) -> None:
    """With a hundred unrelated memories more, relevance moves by what the word statistics drift."""
    query = "how often do we retry the payment webhook?"
    remember(db, "w", "We retry the payment webhook three times.", ref="hit")
    remember_many(db, "w", [{"body": f"Note {spelled(n)} on gardens."} for n in range(20)])
    (before,) = recall(db, "w", query, k=1)
    remember_many(db, "w", [{"body": f"Note {spelled(n)} on gardens."} for n in range(20, 120)])
    (after,) = recall(db, "w", query, k=1)
    assert before.ref == after.ref == "hit"
    assert before.signals["cosine"] == after.signals["cosine"]
    assert abs(before.relevance - after.relevance) < 0.05


def test_with_the_vector_alone_relevance_does_not_depend_on_other_memories(
    db: Connection,
) -> None:
    remember(db, "w", "We retry the payment webhook three times.", ref="hit")
    query = "payment webhook retry"
    (before,) = recall(db, "w", query, k=1, mode="vector")
    remember_many(db, "w", [{"body": f"Note {spelled(n)} on gardens."} for n in range(100)])
    (after,) = recall(db, "w", query, k=1, mode="vector")
    assert before.relevance == after.relevance > 0


def test_relevance_by_words_is_the_share_of_their_weight_that_matches(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    remember(db, "w", "The garden.")
    whole, half = (
        recall(db, "w", query, k=1, mode="lexical")[0] for query in ("queue", "queue pelican")
    )
    assert whole.relevance == whole.signals["matched"] == 1
    assert half.relevance == pytest.approx(half.signals["matched"], abs=1e-4)
    assert 0 < half.relevance < 0.5  # an unknown word weighs more than one that occurs
    assert recall(db, "w", "queue pelican", mode="lexical", min_relevance=0.5) == []


@pytest.mark.covers("RP29")
def test_relevance_by_the_vector_follows_the_thresholds_of_the_space(db: Connection) -> None:
    open_space(db, cosine_floor=0.2, cosine_full=0.8)
    cosines = [1.0, 0.8, 0.5, 0.2, 0.0, -1.0]
    for number, cosine in enumerate(cosines):
        sine = (1 - cosine**2) ** 0.5
        remember(db, "w", f"memory {number}", embedding=[cosine, sine])
    hits = recall(db, "w", "?", embedding=[1, 0], mode="vector")
    assert bodies(hits) == [f"memory {number}" for number in range(6)]
    expected = [1, 1, 0.5, 0, 0, 0]
    assert [hit.relevance for hit in hits] == pytest.approx(expected, abs=2e-3)


def test_memories_that_point_the_other_way_come_back_in_order_with_no_relevance(
    db: Connection,
) -> None:
    open_space(db, "t", 2)
    for number, vector in enumerate([[-1, 0], [-0.6, 0.8], [-0.8, 0.6]]):
        remember(db, "w", f"memory {number}", embedding=vector)
    for mode in ("vector", "auto", "retrieval_only"):
        hits = recall(db, "w", "?", embedding=[1, 0], mode=mode)
        assert bodies(hits) == ["memory 1", "memory 2", "memory 0"]
        assert {hit.relevance for hit in hits} == {0}
        assert all(hit.score >= 0 for hit in hits)


@pytest.mark.covers("RP28", "ME25")
def test_signals_say_where_a_hit_comes_from(db: Connection) -> None:
    remember(db, "w", "The queue retries three times.")
    (hit,) = recall(db, "w", "queue retries")
    assert hit.arms == ["vector", "lexical"]
    assert hit.signals["matched"] == 1
    assert hit.signals["cosine"] > 0
    assert hit.signals["bm25"] > 0
    assert hit.degraded == []


def test_a_hit_carries_what_was_remembered(db: Connection) -> None:
    said: dict[str, Any] = {
        "ref": "r",
        "kind": "decision",
        "title": "Retries",
        "source_class": "user_stated",
        "source_ref": "chat:7",
        "session_ref": "s",
        "occurred_at": datetime(2026, 3, 1, tzinfo=UTC),
    }
    ref = remember(db, "w", "The queue retries three times.", **said)
    (hit,) = recall(db, "w", "queue")
    assert {key: getattr(hit, key) for key in said} == said
    assert (hit.memory_id, hit.freshness) == (ref.memory_id, "current")
    assert (hit.duplicates, hit.expanded_from) == (None, None)


def test_expired_and_future_memories_do_not_come_back(db: Connection) -> None:
    now = datetime.now(UTC)
    day = timedelta(days=1)
    spans = {
        "always": (None, None),
        "expired": (None, now - day),
        "long past": (now - 9 * day, now - 8 * day),
        "current": (now - day, now + day),
        "since": (now - day, None),
        "until": (None, now + day),
        "future": (now + day, None),
    }
    for name, (start, end) in spans.items():
        remember(db, "w", f"The queue is {name}.", ref=name, valid_from=start, valid_to=end)
    for mode in ("auto", "lexical", "vector", "retrieval_only"):
        refs = {hit.ref for hit in recall(db, "w", "queue", k=20, mode=mode)}
        assert refs == {"always", "current", "since", "until"}
        refs = {
            hit.ref
            for hit in recall(db, "w", "queue", k=20, mode=mode, filter='$.kind == "semantic"')
        }
        assert refs == {"always", "current", "since", "until"}


def test_expired_memories_do_not_use_up_the_k(db: Connection) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    remember_many(
        db, "w", [{"body": f"The queue {spelled(n)}.", "valid_to": past} for n in range(300)]
    )
    remember_many(db, "w", [{"body": f"The queue, {spelled(n)} still open."} for n in range(12)])
    for mode in ("auto", "lexical", "vector"):
        hits = recall(db, "w", "the queue", k=12, mode=mode)
        assert len(hits) == 12
        assert all("open" in body for body in bodies(hits))


def test_superseded_memories_never_come_back(db: Connection) -> None:
    for n in range(3):
        remember(db, "w", f"We deploy on day {spelled(n)}.", ref="deploy")
    for mode in ("auto", "lexical", "vector", "retrieval_only"):
        assert bodies(recall(db, "w", "deploy day", mode=mode)) == ["We deploy on day two."]


def test_a_turn_beside_a_hit_that_was_superseded_does_not_join(db: Connection) -> None:
    remember(db, "w", "An apple a day.", session_ref="s", ref="1")
    remember(db, "w", "The queue retries.", session_ref="s")
    remember(db, "w", "A pear a day.", session_ref="s", ref="1")
    hits = recall(db, "w", "queue retries", mode="lexical")
    assert "An apple a day." not in bodies(hits)
    assert "A pear a day." in bodies(hits)


def test_workspaces_do_not_see_each_other(db: Connection) -> None:
    remember(db, "a", "The queue of a.")
    remember(db, "b", "The queue of b.")
    for mode in ("auto", "lexical", "vector"):
        assert bodies(recall(db, "a", "queue", mode=mode)) == ["The queue of a."]


def test_an_unknown_workspace_has_no_memories_and_says_so(db: Connection) -> None:
    with warnings(db) as seen:
        assert recall(db, "nowhere", "queue") == []
    assert seen == [("RM501", ["unknown_workspace"])]
    assert value(db, "select count(*) from remem.workspace") == 0


def test_an_empty_workspace_is_not_an_unknown_one(db: Connection) -> None:
    db.execute("select remem.create_workspace('w')")
    with warnings(db) as seen:
        assert recall(db, "w", "queue") == []
    assert seen == []


def test_recall_explain_has_the_same_hits_and_the_states(machines: Connection) -> None:
    hits = recall(machines, "w", "machine three", k=5)
    explained = explain(machines, "w", "machine three", k=5)
    assert [hit["memory_id"] for hit in explained["hits"]] == [str(h.memory_id) for h in hits]
    assert [hit["score"] for hit in explained["hits"]] == [h.score for h in hits]
    assert [hit["signals"] for hit in explained["hits"]] == [h.signals for h in hits]
    assert explained["degraded"] == []
    assert explained["query"]["text"] == "machine three"
    assert explained["memories"] == explained["vectors"] == 450
    assert explained["arms"]["vector"]["state"] == "completed"
    assert explained["arms"]["lexical"]["state"] == "completed"
    assert explained["candidates"] >= 5
    assert explained["timings"]["total"] > 0


def test_recall_explain_of_an_unknown_workspace_says_so(db: Connection) -> None:
    explained = explain(db, "nowhere", "queue")
    assert (explained["hits"], explained["degraded"]) == ([], ["unknown_workspace"])


def test_equal_scores_are_ordered_the_same_way_every_time(db: Connection) -> None:
    remember_many(db, "w", [{"body": "The queue.", "session_ref": f"s{n}"} for n in range(20)])
    first = [hit.memory_id for hit in recall(db, "w", "queue", k=20, mode="retrieval_only")]
    assert len(first) == 20
    for _ in range(3):
        again = recall(db, "w", "queue", k=20, mode="retrieval_only")
        assert [hit.memory_id for hit in again] == first


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_recall_works_in_a_read_only_transaction(machines: Connection, level: str) -> None:
    expected = [hit.memory_id for hit in recall(machines, "w", "machine three")]
    with machines.transaction():
        machines.execute(f"set transaction isolation level {level} read only")
        for _ in range(2):
            hits = recall(machines, "w", "machine three")
            assert [hit.memory_id for hit in hits] == expected


def test_repeatable_read_recalls_what_its_snapshot_holds(db: Connection, db_dsn: str) -> None:
    remember(db, "w", "The queue is old.", ref="q")
    with psycopg.connect(db_dsn) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert bodies(recall(reader, "w", "queue")) == ["The queue is old."]
        remember(db, "w", "The queue is new.", ref="q")
        remember(db, "w", "Another queue.")
        assert bodies(recall(reader, "w", "queue")) == ["The queue is old."]


def test_recall_works_after_a_savepoint_was_rolled_back(db: Connection) -> None:
    remember(db, "w", "The queue is kept.")
    with db.transaction():
        with refused("RM001"), db.transaction():
            remember(db, "w", "The queue is lost.", ref="lost")
            recall(db, "w", "queue", k=0)
        assert bodies(recall(db, "w", "queue")) == ["The queue is kept."]


def test_recall_sees_what_its_own_transaction_wrote(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        remember(db, "w", "The queue of this transaction.")
        assert bodies(recall(db, "w", "queue")) == ["The queue of this transaction."]
    assert value(db, "select count(*) from remem.memory") == 0


def test_recall_changes_no_setting(machines: Connection) -> None:
    query = "select name, setting from pg_settings where name <> 'transaction_read_only'"
    recall(machines, "w", "machine")
    before = machines.execute(query).fetchall()
    with machines.transaction():
        recall(machines, "w", "machine three", filter='$.kind == "semantic"')
        explain(machines, "w", "machine three")
        assert machines.execute(query).fetchall() == before
    assert machines.execute(query).fetchall() == before


def test_recall_is_not_moved_by_the_settings_of_its_caller(machines: Connection) -> None:
    expected = [(h.memory_id, h.score) for h in recall(machines, "w", "machine three four")]
    for setting in (
        "enable_indexscan = off", "enable_seqscan = off", "enable_sort = off",
        "enable_hashagg = off", "timezone = 'Asia/Tokyo'", "datestyle = 'German'",
        "search_path = ''", "plan_cache_mode = force_custom_plan",
        "hnsw.ef_search = 1", "hnsw.iterative_scan = off", "row_security = off",
        "jit = on", "default_text_search_config = 'german'",
    ):  # fmt: skip
        with machines.transaction():
            machines.execute(f"set local {setting}")
            hits = recall(machines, "w", "machine three four")
            assert [(h.memory_id, h.score) for h in hits] == expected, setting
