"""Recall, writes and jobs of callers in plain SQL, with a model inside the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

Connection = psycopg.Connection[Any]
Embed = Callable[[Sequence[str]], NDArray[np.float32]]

BODIES = [
    "The physician prescribed antibiotics for the infection.",
    "Our cat sleeps on the warm windowsill every afternoon.",
    "The quarterly invoice was paid late by the customer.",
    "Kubernetes pods restart when the liveness probe fails.",
]
QUESTION = "which medicine was recommended by a doctor?"
"""Shares no word with the first body but stop words."""


def write(conn: Connection, bodies: Sequence[str] = BODIES) -> None:
    for body in bodies:
        conn.execute("select remem.remember('acme', %s)", (body,))


def embedded(conn: Connection) -> int:
    row = conn.execute(
        "select embedded from remem.embedding_backlog('acme') where space = 'minilm'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def drain(conn: Connection) -> None:
    while conn.execute("select remem.reembed('acme')").fetchone() != (0,):
        pass


def recall(conn: Connection, query: str = QUESTION) -> tuple[list[str], list[str]]:
    rows = conn.execute(
        "select body, degraded, arms from remem.recall('acme', %s)", (query,)
    ).fetchall()
    return [row[0] for row in rows], list(rows[0][1]) if rows else []


@pytest.mark.covers("MN7")
def test_recall_without_a_vector_finds_by_meaning(db: Connection) -> None:
    write(db)
    drain(db)
    trace = db.execute("select remem.recall_explain('acme', %s)", (QUESTION,)).fetchone()
    assert trace is not None
    assert trace[0]["hits"][0]["body"] == BODIES[0]
    assert trace[0]["degraded"] == []
    assert trace[0]["arms"]["vector"]["state"] == "completed"
    assert trace[0]["timings"]["embedding"] > 0


def test_the_callers_own_vector_is_used_before_the_servers(db: Connection, minilm: Embed) -> None:
    write(db)
    drain(db)
    given = minilm(["a cat on a windowsill"])[0].tolist()
    best = db.execute(
        "select body from remem.recall('acme', %s, %s::real[], options => "
        """'{"arms": ["vector"]}')""",
        (QUESTION, given),
    ).fetchone()
    assert best == (BODIES[1],)


def test_later_calls_of_a_session_and_read_only_transactions_answer_alike(db: Connection) -> None:
    write(db)
    drain(db)
    answers = []
    for _ in range(8):
        with db.transaction():
            db.execute("set transaction read only")
            answers.append(recall(db))
    assert answers == [answers[0]] * 8
    assert answers[0][0][0] == BODIES[0]


@pytest.mark.covers("RE2", "RE11", "RE23")
def test_a_model_that_fails_leaves_the_words_and_is_named(db: Connection, su: Connection) -> None:
    write(db)
    drain(db)
    su.execute(
        "create or replace function remem_plpython.embed(texts text[]) returns real[] "
        "language plpython3u stable strict as $$ raise MemoryError('no room') $$"
    )
    notices: list[str | None] = []
    db.add_notice_handler(lambda said: notices.append(said.sqlstate))
    bodies, degraded = recall(db, "antibiotics")
    assert bodies[0] == BODIES[0]
    assert degraded == ["embed_failed", "no_embedding"]
    assert notices == ["RM501"]
    with pytest.raises(psycopg.Error) as refused:
        db.execute("select remem.embed('x')")
    assert refused.value.sqlstate == "RM501"
    assert "no room" in str(refused.value.diag.message_detail)
    db.execute("select remem.configure('embed_on_write', 'on')")
    written = db.execute(
        "select outcome from remem.remember('acme', 'Written without a vector.')"
    ).fetchone()
    assert written == ("created",)
    assert embedded(db) == len(BODIES)


@pytest.mark.covers("RE3", "RE8")
def test_a_model_of_another_space_is_not_asked(db: Connection, su: Connection) -> None:
    write(db)
    drain(db)
    su.execute(
        "create or replace function remem_plpython.describe() returns jsonb language sql "
        """immutable as $$ select '{"name": "other", "backend": "onnx", "asset": "x"}'::jsonb $$"""
    )
    bodies, degraded = recall(db, "antibiotics")
    assert bodies[0] == BODIES[0]
    assert degraded == ["no_embedding"]
    with pytest.raises(psycopg.Error) as refused:
        db.execute("select remem.reembed('acme')")
    assert refused.value.sqlstate == "RM501"
    assert "another space" in str(refused.value.diag.message_detail)


def test_writers_wait_for_vectors_only_when_told_to(db: Connection, minilm: Embed) -> None:
    write(db, BODIES[:2])
    assert embedded(db) == 0
    db.execute("select remem.configure('embed_on_write', 'on')")
    write(db, BODIES[2:])
    db.execute(
        "select remem.remember_many('acme', jsonb_build_array("
        "jsonb_build_object('body', 'One of many.'), "
        "jsonb_build_object('body', 'Given.', 'embedding', %s::real[]), "
        "jsonb_build_object('body', 'Another of many.', 'title', 'T')))",
        (minilm(["something else"])[0].tolist(),),
    )
    assert embedded(db) == 5
    space = db.execute("select space_no from remem.embedding_space where name = 'minilm'")
    row = space.fetchone()
    assert row is not None
    stored = db.execute(
        f"select m.body, e.embedding::real[] from remem.embedding_{row[0]} e "
        "join remem.memory m using (workspace, memory_no)".encode()
    ).fetchall()
    for body, vector in stored:
        text = {"Given.": "something else", "Another of many.": "T\nAnother of many."}.get(
            body, body
        )
        assert float(np.asarray(vector) @ minilm([text])[0]) > 0.999, body


def test_the_backlog_drains_by_the_three_calls_of_any_job(db: Connection) -> None:
    write(db)
    db.execute("create temp table job as select * from remem.claim_embeddings('acme', null, 100)")
    outcomes = db.execute(
        """
        select o.outcome from (
          select claim_id, array_agg(item_no order by item_no) as item_nos,
            remem.embed_many(array_agg(text order by item_no)) as vectors
          from job group by claim_id) j
        cross join lateral remem.complete_embeddings('acme', j.claim_id, j.item_nos, j.vectors) o
        """
    ).fetchall()
    assert outcomes == [("stored",)] * len(BODIES)
    assert recall(db) == ([BODIES[0], *recall(db)[0][1:]], [])


def test_a_workspace_of_the_hash_space_moves_to_the_model_in_plain_sql(db: Connection) -> None:
    db.execute("select remem.activate_space('hash')")
    write(db)
    db.execute("select remem.start_reembed('acme', 'minilm')")
    drain(db)
    assert embedded(db) == len(BODIES)
    db.execute("select remem.build_space_index('acme')")
    db.execute("select remem.finish_reembed('acme')")
    current = db.execute("select (remem.current_space('acme')).name").fetchone()
    assert current == ("minilm",)
    bodies, degraded = recall(db)
    assert (bodies[0], degraded) == (BODIES[0], [])


def test_texts_that_widen_a_question_are_embedded_too(db: Connection) -> None:
    write(db)
    drain(db)
    best = db.execute(
        "select body from remem.recall('acme', 'zzz', options => "
        """'{"arms": ["vector"], "expanded": ["The doctor gave her antibiotics."]}')"""
    ).fetchone()
    assert best == (BODIES[0],)


def test_a_client_without_a_model_recalls_by_the_servers(db: Connection, db_dsn: str) -> None:
    from remem_pg import Remem

    write(db)
    drain(db)
    with Remem(db_dsn, workspace="acme", embedding=None) as memory:
        result = memory.recall(QUESTION)
    assert result[0].body == BODIES[0]
    assert list(result.degraded) == []
