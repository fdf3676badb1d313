"""The log of recalls: one row a call, numbers and states, no text unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, refused, remember, value

QUESTION = "how often do we retry?"
BODY = "We retry three times, then page."


def cached(conn: Connection, **options: Any) -> dict[str, Any]:
    query = "select remem.recall_cached('w', %s, null, 8, %s)"
    return dict(value(conn, query, [QUESTION, Jsonb(options)]))


def rows(conn: Connection) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("select * from remem.recall_log order by at").fetchall()


@pytest.fixture
def filled(db: Connection) -> Connection:
    remember(db, "w", BODY, ref="retries", session_ref="s1")
    return db


@pytest.mark.covers("MN17", "MN18")
def test_a_cached_recall_writes_one_row_a_call(filled: Connection) -> None:
    answers = [cached(filled, session_ref="s1") for _ in range(2)]
    cold, hot = rows(filled)
    assert (cold["tier"], hot["tier"]) == ("cold", "hot")
    for row, answer in zip((cold, hot), answers, strict=True):
        assert (row["workspace"], row["k"], row["returned"]) == ("w", 8, 1)
        assert (row["session_ref"], row["caller"]) == ("s1", filled.info.user)
        assert [str(i) for i in row["memory_ids"]] == [h["memory_id"] for h in answer["hits"]]
        assert row["query_hash"] == sha256(QUESTION.encode()).digest()
        assert row["timings"] == answer["timings"]
        assert row["arms"]["lexical"]["state"] == "completed"
        assert row["degraded"] == answer["degraded"]
    # milliseconds of every stage of the search, and of the cache around it
    assert {"cache", "total"} < set(cold["timings"])
    assert all(elapsed >= 0 for elapsed in cold["timings"].values())


@pytest.mark.covers("MN17")
def test_a_row_has_no_text_of_the_question_or_of_a_memory(filled: Connection) -> None:
    cached(filled)
    cached(filled)
    said = value(filled, "select string_agg(l::text, ' ') from remem.recall_log l")
    for text in ("retry", "often", "page"):
        assert text not in said


def test_the_question_is_kept_when_asked_for(filled: Connection) -> None:
    cached(filled, log_text=True)
    assert [row["query_text"] for row in rows(filled)] == [QUESTION]


def test_the_log_can_be_left_out(filled: Connection) -> None:
    cached(filled, log=False)
    assert rows(filled) == []


def test_an_answer_that_a_client_kept_counts_its_hits(filled: Connection) -> None:
    token = cached(filled)["token"]
    assert cached(filled, token=token)["unchanged"]
    assert [(row["tier"], row["returned"]) for row in rows(filled)] == [("cold", 1), ("hot", 1)]


@pytest.mark.covers("MN17")
def test_a_client_logs_what_it_did_itself(filled: Connection) -> None:
    row_id = value(
        filled,
        """select remem.log_recall('w', 'cold', 8, 3, query => %s, degraded => '{no_embedding}',
          arms => %s, timings => %s, session_ref => 's')""",
        [
            QUESTION,
            Jsonb({"vector": {"state": "failed", "found": 0, "error": BODY}, "x y": {}, "z": 1}),
            Jsonb({"embed": 3.5, "note": BODY, "total": 9}),
        ],
    )
    (row,) = rows(filled)
    assert row["recall_id"] == row_id
    assert (row["tier"], row["k"], row["returned"]) == ("cold", 8, 3)
    assert row["degraded"] == ["no_embedding"]
    assert row["arms"] == {"vector": {"state": "failed", "found": 0}}
    assert row["timings"] == {"embed": 3.5, "total": 9}
    assert row["query_text"] is None


@pytest.mark.covers("MN17")
def test_no_field_of_a_row_takes_a_sentence(filled: Connection) -> None:
    filled.execute(
        "select remem.log_recall('w', 'cold', 8, 3, degraded => %s, arms => %s, timings => %s)",
        [[BODY], Jsonb({"vector": {"state": BODY}, BODY: {"found": 1}}), Jsonb({BODY: 1})],
    )
    said = value(filled, "select string_agg(l::text, ' ') from remem.recall_log l")
    assert "retry" not in said


def test_a_failed_arm_is_in_the_log_and_a_number_that_nobody_can_reckon_with_is_not(
    filled: Connection,
) -> None:
    filled.execute(
        "select remem.log_recall('w', 'cold', 8, 3, degraded => '{arm_failed:lexical}',"
        ' timings => \'{"total": 1.5, "query": 1e400}\','
        ' arms => \'{"vector": {"state": "completed", "found": 1e400, "elapsed_ms": 2}}\')'
    )
    (row,) = rows(filled)
    assert row["degraded"] == ["arm_failed:lexical"]
    assert row["timings"] == {"total": 1.5}
    assert row["arms"] == {"vector": {"state": "completed", "elapsed_ms": 2}}


@pytest.mark.covers("MN17")
def test_in_a_read_only_transaction_nothing_is_logged_and_nothing_raised(
    filled: Connection,
) -> None:
    with filled.transaction():
        filled.execute("set transaction read only")
        assert value(filled, "select remem.log_recall('w', 'cold', 8, 3)") is None
    assert rows(filled) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "'w', null, 8, 3",
        "'w', 'a sentence', 8, 3",
        "'w', 'cold', 0, 3",
        "'w', 'cold', 8, -1",
        "'w', 'cold', null, 3",
        "'w', 'cold', 8, 3, memory_ids => array_fill(gen_random_uuid(), array[1001])",
        "'w', 'cold', 8, 3, session_ref => repeat('x', 1001)",
        "'w', 'cold', 8, 3, degraded => array_fill('x'::text, array[101])",
    ],
)
def test_what_is_no_recall_is_refused(filled: Connection, arguments: str) -> None:
    with refused("RM001"):
        filled.execute(f"select remem.log_recall({arguments})".encode())


def test_a_reader_may_log_and_only_where_it_may_read(
    filled: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    role = make_role("reader")
    filled.execute("select remem.grant_access(%s, 'w', 'read')", [role])
    reader = connect(role)
    reader.execute("select remem.log_recall('w', 'cold', 8, 3)")
    with refused("RM301"):
        reader.execute("select remem.log_recall('x', 'cold', 8, 3)")
    assert [row["caller"] for row in rows(filled)] == [role]
