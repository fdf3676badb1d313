"""Topics and providers from the client, with vectors in spaces that SQL cannot embed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from remem_pg import AsyncRemem, InvalidArgument, Remem, UnknownOption

Connection = psycopg.Connection[Any]


class Toy:
    """A model whose vectors say whether a text is about water or about fire."""

    id = "toy"
    dimensions = 3

    def embed(self, texts: Sequence[str]) -> Any:
        water = [any(word in text.lower() for word in ("sea", "lake", "swim")) for text in texts]
        fire = [any(word in text.lower() for word in ("oven", "grill", "bake")) for text in texts]
        return np.array([[w, f, 0.01] for w, f in zip(water, fire, strict=True)], dtype="f4")


def embedded(db: Connection) -> dict[str, bool]:
    rows = db.execute("select title, embedded from remem.list_topics('acme')").fetchall()
    return dict(rows)


def with_title(db: Connection) -> list[str]:
    rows = db.execute(
        "select t.title from remem.topic t join remem.workspace w using (workspace)"
        " join remem.topic_embedding e using (workspace, space_no, topic_no)"
        " where e.title_embedding is not null order by 1"
    ).fetchall()
    return [title for (title,) in rows]


@pytest.mark.covers("RP10", "RP17", "RP20")
def test_topics_and_providers_get_vectors_of_the_clients_model(
    planning: str, db: Connection
) -> None:
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.", topic_key="lake temperature")
        mem.put_topic("Sea trips", summary="by boat", tags=["boat"], importance=0.9)
        mem.put_provider("kitchen", name="The oven and the grill")
        assert embedded(db) == {"Sea trips": True, "lake temperature": True}
        # A title that is not the whole text of its topic has a vector of its own.
        assert with_title(db) == ["Sea trips"]
        assert mem.plan("shall we swim?").topics[0].title in ("Sea trips", "lake temperature")
        plan = mem.plan("what to bake?", providers=[_Kitchen()])
        assert plan.stage == "semantic"
        assert [request.provider for request in plan.requests] == ["kitchen"]
        assert plan.topics == ()


class _Kitchen:
    id = "kitchen"

    def search(self, query: str, scope: Any, limit: int) -> list[Any]:
        return []


@pytest.mark.covers("RP10", "RP49")
def test_what_has_no_vector_is_named_and_made_up_for(planning: str, db: Connection) -> None:
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.", topic_key="lake temperature")
        assert mem.plan("shall we swim?").diagnostics == [
            "semantic recognition incomplete: stale_topics"
        ]
        assert mem.embed_catalog() == 1
        assert mem.embed_catalog() == 0
        plan = mem.plan("shall we swim?")
        assert plan.diagnostics == []
        assert [topic.title for topic in plan.topics] == ["lake temperature"]


class Other(Toy):
    id = "other"


@pytest.mark.covers("RP10")
@pytest.mark.parametrize("heals", ["embed_catalog", "put", "reembed"])
def test_a_titles_vector_comes_back(planning: str, db: Connection, heals: str) -> None:
    """Whatever made the topic's: an earlier version, a worker, a call that ended half-way."""
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.", topic_key="lake temperature")
        mem.put_topic("Sea trips", summary="by boat")
        db.execute("update remem.topic_embedding set title_embedding = null")
        if heals == "embed_catalog":
            assert (mem.embed_catalog(), mem.embed_catalog()) == (1, 0)
        elif heals == "put":
            mem.put_topic("Lunches")
        else:
            assert mem.reembed().status == "no-op"
        assert with_title(db) == ["Sea trips"]


@pytest.mark.covers("RP10")
def test_a_move_to_another_model_makes_the_titles_vectors(planning: str, db: Connection) -> None:
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.", topic_key="lake temperature")
        mem.put_topic("Sea trips", summary="by boat")
    with Remem(planning, workspace="acme", embedding=Other()) as mem:
        result = mem.reembed()
        assert (result.activated, result.reembedded) == (True, 3)
        assert with_title(db) == ["Sea trips"]
        assert mem.embed_catalog() == 0


def test_without_the_spaces_model_nothing_is_made(planning: str, db: Connection) -> None:
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.", topic_key="lake temperature")
    for other in (None, "hash"):
        with Remem(planning, workspace="acme", embedding=other) as mem:
            assert mem.embed_catalog() == 0
            mem.put_topic("Sea trips")
    assert embedded(db) == {"Sea trips": False, "lake temperature": False}


def test_a_writer_that_may_not_store_vectors_still_puts_a_topic(
    planning: str,
    db: Connection,
    make_role: Callable[..., str],
    connect: Callable[[str], Connection],
) -> None:
    with Remem(planning, workspace="acme", embedding=Toy()) as mem:
        mem.remember("The lake is cold.")
    role = make_role("writer")
    db.execute("select remem.grant_access(%s, 'acme', 'write')", [role])
    mem = Remem(connect(role), workspace="acme", embedding=Toy())
    assert mem.put_topic("Sea trips") is not None
    assert list(embedded(db)) == ["Sea trips"]


def test_wrong_fields_are_named(planning: str) -> None:
    with Remem(planning, workspace="acme", embedding="hash") as mem:
        with pytest.raises(UnknownOption, match="aliases"):
            mem.put_topic("x", alias="y")
        with pytest.raises(InvalidArgument):
            mem.put_topic("x", aliases="y")
        with pytest.raises(InvalidArgument):
            mem.put_topic("x", importance=7)
        with pytest.raises(UnknownOption):
            mem.put_provider("notes", title="y")
        first = mem.put_topic("Lunches", providers=["notes"])
        assert mem.put_topic("lunches", unresolved=True, aliases=["food"]) == first


async def test_the_async_client_does_the_same(planning: str, db: Connection) -> None:
    async with AsyncRemem(planning, workspace="acme", embedding=Toy()) as mem:
        await mem.remember("The lake is cold.", topic_key="lake temperature")
        await mem.put_provider("kitchen", name="The oven")
        await mem.put_topic("Sea trips")
        assert await mem.embed_catalog() == 0
    assert embedded(db) == {"Sea trips": True, "lake temperature": True}
