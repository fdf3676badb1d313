"""remem.embed on a server without a model, and beside a schema that only pretends to be one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, refused

DESCRIPTOR = {"name": "tiny", "backend": "callable", "asset": "tiny", "dimensions": 3}


@pytest.fixture
def tiny(db: Connection) -> Connection:
    """A database whose new workspaces are of a space of three dimensions, with one memory."""
    db.execute("select remem.register_space(%s)", (Jsonb(DESCRIPTOR),))
    db.execute("select remem.activate_space('tiny')")
    db.execute("select remem.remember('acme', 'We retry three times.')")
    return db


@pytest.mark.parametrize(
    "query", ["select remem.embed('x')", "select remem.embed_many(array['x', 'y'])"]
)
def test_without_a_model_embedding_says_what_to_do(db: Connection, query: str) -> None:
    with refused("RM501", problem="there is no model in this database") as error:
        db.execute(query.encode())
    assert "remem install-plpython" in error.hint


@pytest.mark.covers("RE23")
def test_without_a_model_recall_and_writes_are_as_ever(tiny: Connection) -> None:
    tiny.execute("select remem.configure('embed_on_write', 'on')")
    tiny.execute("select remem.remember('acme', 'Then we page.')")
    rows = tiny.execute("select degraded from remem.recall('acme', 'retry')").fetchall()
    assert rows[0] == (["no_embedding", "stale_rows"],)
    assert tiny.execute("select count(*) from remem.embedding_2").fetchone() == (0,)
    with refused("RM501"):
        tiny.execute("select remem.reembed('acme')")


def test_a_job_in_sql_fills_the_built_in_space(tiny: Connection) -> None:
    tiny.execute("select remem.remember('acme', 'Then we page.')")
    tiny.execute("select remem.start_reembed('acme', 'hash')")
    taken: list[Any] = []
    while not taken or taken[-1]:
        taken.append((tiny.execute("select remem.reembed('acme', 1)").fetchone() or (0,))[0])
    assert taken == [1, 1, 0]
    row = tiny.execute("select activated from remem.finish_reembed('acme')").fetchone()
    assert row == (True,)
    rows = tiny.execute("select degraded from remem.recall('acme', 'retry')").fetchall()
    assert rows[0] == ([],)


def pretend(conn: Connection, vector: str = "array[1, 0, 0]::real[]") -> None:
    """What the superuser's part looks like, made by whoever is connected."""
    conn.execute("create schema remem_plpython")
    conn.execute(
        "create function remem_plpython.describe() returns jsonb language sql as "
        f"$$ select '{json.dumps(DESCRIPTOR)}'::jsonb $$".encode()
    )
    conn.execute(
        "create function remem_plpython.embed(texts text[]) returns real[] language plpgsql as "
        f"$$ begin return (select array_agg({vector}) from unnest(texts)); end $$".encode()
    )
    conn.execute("grant usage on schema remem_plpython to public")


def answered(conn: Connection) -> list[str]:
    row = conn.execute("select remem.recall_explain('acme', 'retry')").fetchone()
    assert row is not None
    degraded: list[str] = row[0]["degraded"]
    return degraded


def test_a_schema_of_that_name_that_is_nobody_special_s_is_not_called(
    tiny: Connection, su: Connection
) -> None:
    pretend(tiny)  # by the owner of the database, who is no superuser
    assert answered(tiny) == ["no_embedding", "stale_rows"]
    with refused("RM501"):
        tiny.execute("select remem.embed('x')")
    # Nor is it where only a part is a superuser's.
    su.execute("alter schema remem_plpython owner to current_user")
    su.execute("alter function remem_plpython.describe() owner to current_user")
    assert answered(tiny) == ["no_embedding", "stale_rows"]
    su.execute("alter function remem_plpython.embed(text[]) owner to current_user")
    assert answered(tiny) == ["stale_rows"]


def test_a_schema_that_may_not_be_used_does_not_stop_a_recall(
    tiny: Connection, su: Connection
) -> None:
    pretend(su)
    assert answered(tiny) == ["stale_rows"]
    su.execute("revoke usage on schema remem_plpython from public")
    assert answered(tiny) == ["embed_failed", "no_embedding", "stale_rows"]


def test_vectors_that_the_space_cannot_hold_are_a_failure_and_not_an_answer(
    tiny: Connection, su: Connection
) -> None:
    pretend(su, "array[1, 0]::real[]")
    assert answered(tiny) == ["embed_failed", "no_embedding", "stale_rows"]
    notices: list[str | None] = []
    tiny.add_notice_handler(lambda said: notices.append(said.sqlstate))
    tiny.execute("select remem.configure('embed_on_write', 'on')")
    tiny.execute("select remem.remember('acme', 'Then we page.')")
    assert notices == ["RM501"]
    assert tiny.execute("select remem.count('acme')").fetchone() == (2,)


def test_a_text_that_its_model_cannot_take_is_set_aside_and_the_others_are_not(
    tiny: Connection, su: Connection
) -> None:
    tiny.execute("select remem.remember('acme', 'Poison.')")
    tiny.execute("select remem.remember('acme', 'Then we page.')")
    pretend(su)
    su.execute(
        """
        create or replace function remem_plpython.embed(texts text[]) returns real[]
        language plpgsql as $$
        begin
          if 'Poison.' = any (texts) then raise exception 'cannot'; end if;
          return (select array_agg(array[1, 0, 0]::real[]) from unnest(texts));
        end $$
        """
    )
    assert tiny.execute("select remem.reembed('acme')").fetchone() == (3,)
    assert tiny.execute("select count(*) from remem.embedding_2").fetchone() == (2,)
    problems = tiny.execute(
        "select state, last_error from remem.embedding_problems('acme')"
    ).fetchall()
    assert problems == [("waiting", "embed_failed")]
    su.execute(
        "create or replace function remem_plpython.embed(texts text[]) returns real[] "
        "language plpgsql as $$ begin raise exception 'broken'; end $$"
    )
    tiny.execute("select remem.remember('acme', 'One more.')")
    with refused("RM501"):  # blames no text
        tiny.execute("select remem.reembed('acme')")
    found = tiny.execute("select count(*) from remem.embedding_problems('acme')").fetchone()
    assert found == (1,)


def test_a_plan_asks_the_model_in_the_database_too(tiny: Connection, su: Connection) -> None:
    def degraded() -> list[str]:
        row = tiny.execute("select remem.plan('acme', 'what about pears?')").fetchone()
        assert row is not None
        found: list[str] = row[0]["degraded"]
        return found

    tiny.execute("select remem.put_topic('acme', 'Apples')")
    assert "no_embedding" in degraded()
    pretend(su)
    assert "no_embedding" not in degraded()
