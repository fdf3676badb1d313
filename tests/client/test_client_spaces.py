"""Whose model embeds: the client's, the server's or nobody's, and how results say so."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest

from remem_pg import AsyncRemem, EmbeddingModel, InvalidArgument, MemoryInput, Remem
from remem_pg.embedding.base import descriptor_of, fingerprint


class Letters:
    """A model that anyone could inject: the frequencies of letters."""

    dimensions = 26

    def __init__(self, model_id: str = "letters", fail: bool = False) -> None:
        self.id = model_id
        self.fail = fail
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fail:
            raise RuntimeError("no memory left")
        self.texts += texts
        rows = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return np.array(rows, dtype="f4")


def vectors(su: psycopg.Connection[Any], space_no: int) -> int:
    row = su.execute(f"select count(*) from remem.embedding_{space_no}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])


@pytest.mark.covers("RP17", "RE6", "MN7")
def test_any_object_with_id_dimensions_and_embed_is_a_model(
    db_dsn: str, su: psycopg.Connection[Any]
) -> None:
    model: EmbeddingModel = Letters()
    with Remem(db_dsn, workspace="acme", embedding=model) as client:
        client.remember("banana bandana", ref="b")
        client.remember_many([{"body": "cherry", "ref": "c"}, {"body": "kiwi", "ref": "k"}])
        space = client.current_space()
        assert (space.dimensions, space.fingerprint) == (26, fingerprint(descriptor_of(model)))
        assert vectors(su, int(space.space_no or 0)) == 3
        hit = client.recall("ananab", mode="vector")[0]
        assert (hit.ref, hit.arms) == ("b", ["vector"])
        assert client.recall("ananab").space == space.fingerprint


@pytest.mark.covers("RE7")
def test_a_row_knows_the_model_and_the_dimensions_of_its_vector(
    db_dsn: str, su: psycopg.Connection[Any]
) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters("model-a")) as client:
        client.remember("banana")
        space = client.current_space()
    assert space.name == "model-a"
    assert space.descriptor["dimensions"] == 26
    assert vectors(su, int(space.space_no or 0)) == 1
    assert vectors(su, 1) == 0


@pytest.mark.covers("RE8")
def test_vectors_of_another_model_of_the_same_dimensions_are_never_compared(
    db_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters("model-a")) as first:
        first.remember("banana bandana")
        space = first.current_space()
    other = Letters("model-b")
    with (
        caplog.at_level(logging.WARNING, "remem_pg"),
        Remem(db_dsn, workspace="acme", embedding=other) as second,
    ):
        for _ in range(2):
            result = second.recall("banana")
            assert "space_mismatch" in result.degraded
            assert result[0].arms == ["lexical"]
            assert result.space is None
        second.remember("cherry")
        assert second.current_space() == space
    assert other.texts == []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("inside", [False, True])
def test_the_log_says_who_embeds_in_a_workspace_of_another_model(
    db_dsn: str, su: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture, inside: bool
) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters("model-a")) as first:
        first.remember("banana bandana")
        space = first.current_space()
    if inside:  # as remem install-plpython leaves it: a superuser's, and the model of the space
        su.execute("create schema remem_plpython")
        descriptor = json.dumps(space.descriptor).replace("'", "''")
        su.execute(
            "create function remem_plpython.describe() returns jsonb language sql immutable"
            f" return '{descriptor}'::jsonb"
        )
        su.execute(
            "create function remem_plpython.embed(texts text[]) returns real[] language sql"
            " return (select array_agg(array_fill(0.5::real, array[26])) from unnest(texts))"
        )
        su.execute("grant usage on schema remem_plpython to public")
    with Remem(db_dsn, workspace="acme", embedding=Letters("model-b")) as second:
        assert second.version().details["server_model"] == (
            {"name": "model-a", "fingerprint": space.fingerprint} if inside else None
        )
        with caplog.at_level(logging.WARNING, "remem_pg"):
            (hit,) = second.recall("bandana")
    assert hit.arms == (["vector", "lexical"] if inside else ["lexical"])
    (record,) = caplog.records
    said = "the model in the database embeds questions" if inside else "searching by words only"
    assert said in record.getMessage()


def test_a_model_in_the_database_that_cannot_be_asked_keeps_no_client_away(
    db_dsn: str, su: psycopg.Connection[Any]
) -> None:
    su.execute("create schema remem_plpython")  # and remem's owner may not use it
    for head in ("describe() returns jsonb", "embed(texts text[]) returns real[]"):
        kind = head.split()[-1]
        su.execute(f"create function remem_plpython.{head} language sql return null::{kind}")
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        assert client.version().details["server_model"] is None
        assert client.remember("banana").outcome == "created"


def test_two_workspaces_of_one_database_may_use_two_models(db_dsn: str) -> None:
    with (
        Remem(db_dsn, workspace="a", embedding=Letters("model-a")) as first,
        Remem(db_dsn, workspace="b", embedding=Letters("model-b")) as second,
    ):
        first.remember("banana")
        second.remember("banana")
        assert first.current_space().name == "model-a"
        assert second.current_space().name == "model-b"
        assert first.recall("banana").degraded == second.recall("banana").degraded == ()


def test_an_empty_workspace_is_not_moved_by_reading(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters()) as client:
        assert client.recall("banana").degraded == ("unknown_workspace",)
        assert client.current_space().name == "hash"


def test_a_writer_who_is_no_administrator_leaves_the_space_and_the_server_embeds(
    db_dsn: str, make_role: Any, server: Any, database: str, su: psycopg.Connection[Any]
) -> None:
    role = make_role()
    with Remem(db_dsn, workspace="acme", embedding=None) as owner:
        owner.grant_access(role, "acme", "write")
    with Remem(server.dsn(role, database), workspace="acme", embedding=Letters()) as client:
        client.remember("banana")
        assert client.current_space().name == "hash"
        assert vectors(su, 1) == 1
        result = client.recall("banana")
        assert "vector" in result[0].arms
        assert result.degraded == ("space_mismatch",)


def test_adoption_inside_the_callers_transaction_does_not_break_it(
    db_dsn: str, make_role: Any, server: Any, database: str
) -> None:
    role = make_role()
    with Remem(db_dsn, workspace="acme", embedding=None) as owner:
        owner.grant_access(role, "acme", "write")
    with psycopg.connect(server.dsn(role, database)) as conn:
        client = Remem(conn, workspace="acme", embedding=Letters())
        client.remember("banana")
        assert client.count() == 1
        conn.rollback()
        assert client.count() == 0


@pytest.mark.covers("RE2")
def test_a_model_that_fails_costs_the_vectors_and_nothing_else(
    db_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Letters()
    with (
        caplog.at_level(logging.WARNING, "remem_pg"),
        Remem(db_dsn, workspace="acme", embedding=model) as client,
    ):
        client.remember("banana bandana")
        model.fail = True
        assert client.remember("cherry pie").outcome == "created"
        assert len(client.remember_many([{"body": "kiwi"}, {"body": "plum"}])) == 2
        result = client.recall("cherry")
        assert result[0].body == "cherry pie"
        assert "no_embedding" in result.degraded
        model.fail = False
        healed = client.recall("cherry")
        assert "no_embedding" not in healed.degraded
        assert "stale_rows" in healed.degraded
    assert len(caplog.records) == 1


def test_a_space_that_changed_under_a_client_is_noticed(db_dsn: str) -> None:
    with (
        Remem(db_dsn, workspace="acme", embedding=Letters("model-a")) as early,
        Remem(db_dsn, workspace="acme", embedding=Letters("model-b")) as late,
    ):
        early.create_workspace()
        early._do(early_decision(early))
        late.remember("banana")
        assert late.current_space().name == "model-b"
        assert early.remember("cherry").outcome == "created"
        result = early.recall("cherry")
        assert result[0].body == "cherry"
        assert "space_mismatch" in result.degraded


def early_decision(client: Remem) -> Any:
    """Makes a client decide now, as its first write would, without writing."""
    from remem_pg.spaces.policy import decide

    return decide(client._session, writing=True)


def test_first_writes_of_many_clients_agree_on_one_space(db_dsn: str, su: Any) -> None:
    def work(n: int) -> str:
        with Remem(db_dsn, workspace=f"w{n % 3}", embedding=Letters()) as client:
            return client.remember(f"banana {n}").outcome

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(12))) == {"created"}
    row = su.execute("select count(*) from remem.embedding_space").fetchone()
    assert row[0] == 2


def test_the_hash_model_of_python_and_the_one_of_the_server_are_one_space(db_dsn: str) -> None:
    text = "We retry three times, then page."
    with (
        Remem(db_dsn, workspace="acme", embedding="hash") as python,
        Remem(db_dsn, workspace="acme", embedding=None) as server,
    ):
        python.remember(text, ref="python")
        server.workspace("other").remember(text)
        ours, theirs = python.recall("retry"), server.recall("retry")
        assert [hit.relevance for hit in ours] == pytest.approx([hit.relevance for hit in theirs])
        assert ours.degraded == theirs.degraded == ()
        assert ours.space == python.current_space().fingerprint


def test_the_text_that_is_embedded_is_the_document_text_of_the_server(
    db: psycopg.Connection[Any],
) -> None:
    from remem_pg.spaces.embedder import document_text

    item: dict[str, Any] = {
        "title": "Retries",
        "summary": "three, then page",
        "body": "We retry.",
        "speaker": "Ana",
        "aliases": ["backoff", "retry policy"],
        "tags": ["ops"],
    }
    for missing in ({}, {"speaker"}, {"title", "tags"}, {"aliases", "summary", "speaker"}):
        part = {k: v for k, v in item.items() if k not in missing}
        row = db.execute(
            "select remem._document_text(%s, %s, %s, %s, %s::text[], %s::text[])",
            [part.get(k) for k in ("title", "summary", "body", "speaker", "aliases", "tags")],
        ).fetchone()
        assert row == (document_text(part),)


def items(count: int) -> list[MemoryInput]:
    return [{"body": f"memory {n}"} for n in range(count)]


def test_a_first_write_of_several_batches_brings_its_model_along(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters()) as mem:
        assert len(mem.remember_many(items(7), batch_size=3)) == 7
        assert mem.count() == 7
        assert mem.current_space().dimensions == Letters.dimensions


async def test_a_first_async_write_of_several_batches_brings_its_model_along(db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=Letters()) as mem:
        assert len(await mem.remember_many(items(7), batch_size=3)) == 7
        assert await mem.count() == 7
        assert (await mem.current_space()).dimensions == Letters.dimensions


@pytest.mark.parametrize("name", ["dimensions", "id"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_that_no_space_can_be_of_is_an_error_of_the_first_call(
    db_dsn: str, name: str, asynchronous: bool
) -> None:
    values: list[Any] = [17000, 4001, 0, -1, None, "26", 26.0, True]
    for value in values if name == "dimensions" else [None, ""]:
        model = Letters()
        setattr(model, name, value)

        async def first(model: Letters = model) -> None:
            async with AsyncRemem(db_dsn, workspace="acme", embedding=model) as client:
                await client.remember("banana")

        with Remem(db_dsn, workspace="acme", embedding=model) as client:
            argument = "dimensions" if name == "dimensions" else "name"
            with pytest.raises(InvalidArgument, match=argument):
                asyncio.run(first()) if asynchronous else client.remember("banana")
            with pytest.raises(InvalidArgument, match=argument):
                client.recall("banana")
            with pytest.raises(InvalidArgument, match=argument):
                client.remember_many([{"body": "banana"}])
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        assert client.count() == 0


def test_what_the_database_refuses_of_a_model_is_an_error_of_the_first_write(db_dsn: str) -> None:
    model = Letters()
    model.descriptor = {"cosine_floor": 3}  # type: ignore[attr-defined]
    with Remem(db_dsn, workspace="acme", embedding=model) as client:
        with pytest.raises(InvalidArgument, match="cosine_floor"):
            client.remember("banana")
        assert client.count() == 0


def test_dimensions_may_be_a_number_of_numpys(db_dsn: str) -> None:
    model = Letters()
    model.dimensions = np.int64(26)  # type: ignore[assignment]
    with Remem(db_dsn, workspace="acme", embedding=model) as client:
        client.remember("banana")
        assert client.current_space().dimensions == 26
