"""`remem.hash_embed` against the published fixtures and, text by text, against Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest

from remem_pg.embedding.hash import HashEmbedding
from tests.sql.unicode_corpus import corpus
from tests.support.memories import refused
from tests.unit.test_hash_embedding import COSINES

Connection = psycopg.Connection[Any]


def sql_vectors(db: Connection, texts: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    rows = db.execute(
        "select remem._hash_embed(t) from unnest(%s::text[]) with ordinality as u (t, n)"
        " order by n",
        (texts,),
        binary=True,
    ).fetchall()
    return np.array([row[0] for row in rows], dtype=np.float32)


@pytest.mark.covers("RP13")
@pytest.mark.parametrize(("left", "right", "expected"), COSINES)
def test_published_cosines(db: Connection, left: str, right: str, expected: float) -> None:
    row = db.execute(
        "select sum(a::float8 * b)"
        " from unnest(remem.hash_embed(%s), remem.hash_embed(%s)) as v (a, b)",
        (left, right),
    ).fetchone()
    assert row is not None
    assert row[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.covers("RP13")
def test_published_vector(db: Connection) -> None:
    rows = db.execute(
        "select n - 1, v from unnest(remem.hash_embed('Remem doctor')) with ordinality as u (v, n)"
        " where v <> 0 order by n"
    ).fetchall()
    assert len(rows) == 14
    assert [row[0] for row in rows[:4]] == [18, 34, 46, 49]
    assert [row[1] for row in rows[:4]] == pytest.approx(
        [0.447214, 0.223607, 0.223607, -0.447214], abs=1e-6
    )


@pytest.mark.covers("RP11", "RP12", "RP13", "RP14")
@pytest.mark.parametrize("fixture", ["db", "c_locale_db"])
def test_sql_and_python_agree_on_every_script(request: pytest.FixtureRequest, fixture: str) -> None:
    texts = corpus()
    difference = sql_vectors(request.getfixturevalue(fixture), texts) - HashEmbedding().embed(texts)
    worst = np.abs(difference).max(axis=1)
    assert worst.max() < 1e-6, ascii(texts[int(worst.argmax())])


def test_a_text_without_features_is_all_zero(db: Connection) -> None:
    assert not sql_vectors(db, ["", " ", "the of and", "x y", "!?"]).any()
    assert sql_vectors(db, [""]).shape == (1, 384)


def test_null_gives_null(db: Connection) -> None:
    assert db.execute("select remem.hash_embed(null)").fetchone() == (None,)


def test_many_distinct_tokens_take_linear_time(db: Connection) -> None:
    """60,000 tokens: a quadratic step would take minutes."""
    db.execute("set statement_timeout = '30s'")
    text = " ".join(f"token{number:x}" for number in range(60_000))
    assert sql_vectors(db, [text])[0] == pytest.approx(HashEmbedding().embed([text])[0], abs=1e-6)


def test_a_role_without_a_grant_is_refused(
    db: Connection, connect: Callable[[str], Connection], make_role: Callable[..., str]
) -> None:
    stranger = connect(make_role())
    with pytest.raises(psycopg.Error) as refused:
        stranger.execute("select remem.hash_embed('text')")
    assert refused.value.sqlstate == "RM301"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("select remem._hash_embed('text')")


def test_a_text_beyond_what_a_memory_may_hold_is_refused(db: Connection) -> None:
    """Its work grows with the text: without a limit one call could keep a server busy for hours."""
    limit = 10 * 1024 * 1024
    # a text without a token, at the limit: long, and quick
    row = db.execute("select remem.hash_embed(repeat(' ', %s)) @> '{0}'", [limit]).fetchone()
    assert row == (True,)
    calls = {
        "hash_embed": "select remem.hash_embed(repeat('é', %s))",
        "embed": "select remem.embed(repeat('é', %s))",
        "embed_many": "select remem.embed_many(array['x', repeat('é', %s)])",
    }
    for name, call in calls.items():
        with refused("RM003", argument="texts" if name == "embed_many" else "text", limit=limit):
            db.execute(call, [limit // 2 + 1])
    assert db.execute("select remem.hash_embed(null)").fetchone() == (None,)
