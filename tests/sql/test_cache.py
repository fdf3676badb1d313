"""recall_cached: which tier answers, where the cache stands aside, and its tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.caching import QUESTION, cached, hits, tier, write_new
from tests.support.memories import Connection, explain, refused, remember, value, warnings

# -- the tiers


@pytest.mark.covers("MN1")
def test_the_same_question_is_hot_and_has_the_same_answer(filled: Connection) -> None:
    cold, hot = cached(filled), cached(filled)
    assert (cold["tier"], hot["tier"]) == ("cold", "hot")
    assert (cold["cache"]["state"], hot["cache"]["state"]) == ("stored", "used")
    assert cold["hits"] == hot["hits"]
    assert hits(hot) == hits(explain(filled, "w", QUESTION))
    assert cold["hits"][0]["ref"] == "retries"
    assert (cold["degraded"], hot["degraded"]) == ([], [])
    assert hot["timings"].keys() == {"cache", "total"}


@pytest.mark.covers("MN1")
def test_an_entry_holds_no_text_of_a_memory_and_none_of_the_question(filled: Connection) -> None:
    cached(filled)
    entry = value(filled, "select to_jsonb(q)::text from remem.query_cache q")
    for text in ("retry", "often", "times", "Tuesdays"):
        assert text not in entry


@pytest.mark.covers("MN1")
def test_a_question_that_means_the_same_is_warm(filled: Connection) -> None:
    first = [1.0] * 384
    near = [1.0] * 383 + [-1.0]  # cosine 0.995
    far = [1.0] * 300 + [-1.0] * 84
    cold = cached(filled, "how often do we retry?", embedding=first)
    warm = cached(filled, "how many times do we retry?", embedding=near)
    assert (cold["tier"], warm["tier"]) == ("cold", "warm")
    assert warm["cache"]["similarity"] == pytest.approx(382 / 384, abs=1e-3)
    assert warm["hits"] == cold["hits"]
    assert warm["token"] is None
    assert tier(filled, "how many times do we try?", embedding=far) == "cold"


def test_similar_questions_of_the_built_in_space_are_warm_without_a_vector(
    filled: Connection,
) -> None:
    assert tier(filled, "deployments happen on tuesdays") == "cold"
    assert tier(filled, "Deployments happen on Tuesdays?") == "warm"
    assert tier(filled, "deployments HAPPEN on tuesdays", cache="exact") == "cold"


@pytest.mark.parametrize(
    "query",
    ["what is in build 42?", 'what is in "build"', "what is in -build", "what is in @build"],
)
def test_numbers_names_and_quotes_make_another_question(filled: Connection, query: str) -> None:
    vector = [1.0] * 384
    assert tier(filled, "what is in build", embedding=vector) == "cold"
    assert tier(filled, query, embedding=vector) == "cold"
    assert tier(filled, query.replace("what is", "what was"), embedding=vector) == "warm"


@pytest.mark.parametrize(
    "given",
    [
        {"k": 3},
        {"kinds": ["decision"]},
        {"filter": '$.kind == "decision"'},
        {"fusion": "rrf"},
        {"mode": "retrieval_only"},
        {"min_relevance": 0.1},
        {"weights": {"session": 0.1}},
        {"workspace": "other"},
    ],
    ids=lambda given: next(iter(given)),
)
@pytest.mark.covers("MN1")
def test_another_k_option_filter_or_workspace_is_another_question(
    filled: Connection, given: dict[str, Any]
) -> None:
    remember(filled, "other", "We retry once.")
    cached(filled)
    assert tier(filled, **given) == "cold"
    assert tier(filled, **given) == "hot"


@pytest.mark.covers("MN1")
def test_lexical_mode_has_no_warm_tier(filled: Connection) -> None:
    for given in ({"mode": "lexical"}, {"arms": ["lexical"]}):
        assert tier(filled, "retry three times", **given) == "cold"
        assert tier(filled, "retry, three times", **given) == "cold"
        assert tier(filled, "retry three times", **given) == "hot"


def test_the_cache_can_be_left_out(filled: Connection) -> None:
    assert tier(filled, cache="off") == tier(filled, cache="off") == "cold"
    assert value(filled, "select count(*) from remem.query_cache") == 0


def test_a_cached_recall_raises_no_warning(filled: Connection) -> None:
    with warnings(filled) as seen:
        assert cached(filled, "of the", mode="lexical")["degraded"] == ["no_lexemes"]
        assert cached(filled, "of the", mode="lexical")["tier"] == "hot"
    assert seen == []


def test_the_degraded_state_is_part_of_a_kept_answer(filled: Connection) -> None:
    filled.execute(
        "select remem.register_space(%s)",
        [json.dumps({"name": "tiny", "backend": "x", "asset": "y", "dimensions": 3})],
    )
    filled.execute("select remem.activate_space('tiny', 'new')")
    filled.execute("select remem.remember('new', 'A fact.', embedding => '{1,2,3}'::real[])")
    for expected in ("cold", "hot"):
        answer = cached(filled, "a fact", workspace="new")
        assert (answer["tier"], answer["degraded"]) == (expected, ["no_embedding"])
    assert tier(filled, "the fact", workspace="new") == "cold"


# -- where the cache stands aside


@pytest.mark.covers("MN17")
def test_a_read_only_transaction_gets_an_answer_and_writes_nothing(filled: Connection) -> None:
    cached(filled)
    with filled.transaction():
        filled.execute("set transaction read only")
        answer = cached(filled)
    assert (answer["tier"], answer["cache"]) == (
        "cold",
        {"state": "skipped", "reason": "read_only"},
    )
    assert answer["hits"]
    assert value(filled, "select count(*) from remem.recall_log") == 1


def test_a_transaction_that_has_written_neither_uses_nor_fills_the_cache(
    filled: Connection, other: Connection
) -> None:
    cached(filled)
    with filled.transaction(force_rollback=True):
        write_new(filled)
        answer = cached(filled)
        assert answer["cache"] == {"state": "skipped", "reason": "transaction_has_written"}
        assert "We retry five times." in [h["body"] for h in answer["hits"]]
    assert "We retry five times." not in [h["body"] for h in cached(other)["hits"]]
    assert value(filled, "select count(*) from remem.query_cache") == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_above_read_committed_every_answer_is_cold(filled: Connection, level: str) -> None:
    cached(filled)
    with filled.transaction():
        filled.execute(f"set transaction isolation level {level}".encode())
        assert cached(filled)["cache"] == {"state": "skipped", "reason": "isolation"}


def test_an_unknown_workspace_leaves_nothing_behind(db: Connection) -> None:
    assert cached(db, workspace="nowhere")["degraded"] == ["unknown_workspace"]
    assert tier(db, workspace="nowhere") == "cold"
    assert value(db, "select count(*) from remem.query_cache") == 0


@pytest.mark.parametrize("damage", ["drop table remem.query_cache",
    "alter table remem.query_cache add constraint broken check (false) not valid"])  # fmt: skip
def test_a_broken_cache_is_named_and_costs_no_answer(filled: Connection, damage: str) -> None:
    filled.execute(damage.encode())
    answer = cached(filled)
    assert (answer["tier"], answer["degraded"]) == ("cold", ["cache_failed"])
    assert hits(answer) == hits(explain(filled, "w", QUESTION))


def test_a_broken_log_is_named_and_costs_no_answer(filled: Connection) -> None:
    filled.execute("drop table remem.recall_log cascade")  # with the view on it
    assert cached(filled)["degraded"] == ["log_failed"]
    assert tier(filled) == "hot"


def test_a_wrong_question_is_refused_as_by_recall(filled: Connection) -> None:
    with refused("RM002"):
        cached(filled, frobnicate=1)
    with refused("RM001", argument="k"):
        cached(filled, k=0)
    with refused("RM001", argument="query"):
        cached(filled, None)
    with refused("RM201", got=2, expected=384):
        cached(filled, embedding=[1.0, 2.0], space="hash")
    with refused("RM001", argument="cache"):
        cached(filled, cache="always")
    with refused("RM001", argument="log"):
        cached(filled, log="yes")
    with refused("RM001", argument="token"):
        cached(filled, token=1)


def test_an_open_transaction_that_stored_an_answer_keeps_nobody_waiting(
    filled: Connection, other: Connection
) -> None:
    filled.execute("set lock_timeout = '2s'")
    other.execute("set lock_timeout = '2s'")
    with other.transaction():
        assert cached(other)["cache"]["state"] == "stored"
        assert cached(filled)["cache"]["state"] == "stored"
        assert tier(filled) == "hot"


@pytest.mark.covers("MN1")
def test_a_workspace_keeps_a_thousand_answers(filled: Connection) -> None:
    cached(filled)
    filled.execute(
        "insert into remem.query_cache select workspace, sha256(n::text::bytea), scope_key, "
        "query_embedding, answer, snapshot, made_at - n * interval '1 ms', expires_at "
        "from remem.query_cache, generate_series(1, 1150) n"
    )
    cached(filled, "another question")
    assert value(filled, "select count(*) from remem.query_cache") == 1000
    assert tier(filled) == "hot"
    filled.execute("update remem.query_cache set made_at = now() - interval '6 min'")
    for n in range(6):
        cached(filled, f"question {n}")
    assert value(filled, "select count(*) from remem.query_cache") == 6


# -- the token


@pytest.mark.covers("MN1")
def test_a_token_asks_whether_a_kept_answer_still_holds(
    filled: Connection, other: Connection
) -> None:
    first = cached(filled)
    again = cached(filled, token=first["token"])
    assert (again["unchanged"], again["tier"], "hits" in again) == (True, "hot", False)
    assert again["token"] == first["token"]
    other_question = cached(filled, "who likes milk?", token=first["token"])
    assert "unchanged" not in other_question
    write_new(other)
    assert cached(filled, token=first["token"])["tier"] == "cold"


@pytest.mark.parametrize("token", ["", "x", "a/b/c/d/e", "0" * 64 + "/1/1/1/1:1:", "é" * 500])
def test_a_token_of_nothing_is_no_answer(filled: Connection, token: str) -> None:
    answer = cached(filled, token=token)
    assert (answer["tier"], answer["degraded"]) == ("cold", [])


def test_a_forged_token_harms_its_owner_only(filled: Connection) -> None:
    token = cached(filled)["token"]
    forged = token[: token.rindex("/")] + "/7:3:9"  # no snapshot
    answer = cached(filled, token=forged)
    assert answer["hits"]
    assert answer["degraded"] in ([], ["cache_failed"])
