"""Several questions in one call, and hits as a text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from remem_pg import AsyncRemem, InvalidArgument, Remem, UnknownOption
from tests.client.test_client_spaces import Letters

FACTS = {
    "retries": "We retry failed payments three times.",
    "oncall": "Mei is on call this week.",
    "cake": "The cake for the party is lemon.",
}
QUESTIONS = ["who is on call?", "how often are payments retried?", "zzz qqq"]


@pytest.fixture
def full(mem: Remem) -> Iterator[Remem]:
    mem.remember_many([{"body": body, "ref": ref} for ref, body in FACTS.items()])
    yield mem


def test_each_question_has_the_hits_that_it_has_alone(full: Remem) -> None:
    together = full.recall_many(QUESTIONS, k=2)
    assert [result.query for result in together] == QUESTIONS
    for question, result in zip(QUESTIONS, together, strict=True):
        assert list(result) == list(full.recall(question, k=2))
    assert together[0][0].ref == "oncall"
    assert together[1][0].ref == "retries"
    assert full.recall_many([]) == []


def test_options_hold_for_every_question(full: Remem) -> None:
    full.remember("Ann is on call in May.", scope="user", scope_ref="ann", ref="ann")
    none, some = full.recall_many(QUESTIONS[:2], where="ref = 'retries'", min_relevance=0.1)
    assert ([h.ref for h in none], [h.ref for h in some]) == ([], ["retries"])
    (mine,) = full.recall_many(["who is on call?"], scope={"user": "ann"})
    assert {hit.ref for hit in mine} >= {"oncall", "ann"}
    with pytest.raises(UnknownOption):
        full.recall_many(QUESTIONS, rerank=False)
    with pytest.raises(InvalidArgument):
        full.recall_many("who is on call?")
    with pytest.raises(InvalidArgument):
        full.recall_many([3])  # type: ignore[list-item]


def test_more_than_the_server_takes_at_once(full: Remem) -> None:
    results = full.recall_many([f"payments {n}" for n in range(101)] + ["who is on call?"], k=1)
    assert len(results) == 102
    assert {result[0].ref for result in results[:101]} == {"retries"}
    assert results[101][0].ref == "oncall"


def test_the_client_s_model_embeds_all_of_them_at_once(db_dsn: str) -> None:
    model = Letters()
    with Remem(db_dsn, workspace="acme", embedding=model) as mem:
        mem.remember("banana bandana", ref="b")
        model.texts.clear()
        first, empty = mem.recall_many(["ananab", "123"], mode="vector")
        assert model.texts == ["ananab", "123"]
        assert (first[0].ref, first[0].arms) == ("b", ["vector"])
        assert first.space == mem.current_space().fingerprint
        assert list(empty) == [] and "zero_vector" in empty.degraded
        model.fail = True
        (failed,) = mem.recall_many(["ananab"])
        assert "no_embedding" in failed.degraded


def test_it_follows_a_workspace_to_another_space(db_dsn: str) -> None:
    ours, theirs = Letters(), Letters("others")
    with (
        Remem(db_dsn, workspace="acme", embedding=ours) as mem,
        Remem(db_dsn, workspace="acme", embedding=theirs) as other,
    ):
        mem.remember("banana", ref="b")
        assert mem.recall_many(["banana"])[0].degraded == ()
        other.reembed()
        (result,) = mem.recall_many(["banana"])
        assert result[0].ref == "b" and "space_mismatch" in result.degraded


@pytest.mark.covers("MN16")
def test_hits_become_a_text_within_a_budget(full: Remem) -> None:
    hits = full.recall("payments retried, who is on call, the cake", k=3)
    assert len(hits) == 3
    text = full.render(hits)
    assert text.startswith("semantic:\n[1] ")
    assert all(body in text for body in FACTS.values())
    assert text.index(hits[0].body) < text.index(hits[1].body) < text.index(hits[2].body)
    assert "relevance" in full.render(hits, "verbose")
    document = json.loads(full.render(hits, "json", 100_000))
    assert [hit["ref"] for hit in document["hits"]] == [hit.ref for hit in hits]
    assert document["hits"][0]["signals"] == hits[0].signals
    short = full.render(hits, budget_bytes=60)
    assert len(short.encode()) <= 60 and "more)" in short
    assert full.render([]) == ""
    assert hits[1].body in full.render(hits[1:2])


def test_what_cannot_be_rendered_is_refused(full: Remem) -> None:
    hits = full.recall("payments")
    wrong: list[dict[str, Any]] = [{"format": "xml"}, {"budget_bytes": 39}]
    for arguments in wrong:
        with pytest.raises(InvalidArgument):
            full.render(hits, **arguments)
    with pytest.raises(InvalidArgument, match="hits\\[0\\]"):
        full.render(["payments"])  # type: ignore[list-item]


def test_in_strict_mode_too(db_dsn: str, full: Remem) -> None:
    full.configure("tenant_mode", "strict")
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        (result,) = mem.recall_many(["who is on call?"], k=1)
        assert result[0].ref == "oncall"
        assert "Mei is on call" in mem.render(result)


async def test_the_asynchronous_client_does_the_same(full: Remem, db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None) as mem:
        results = await mem.recall_many(QUESTIONS, k=2)
        assert results == full.recall_many(QUESTIONS, k=2)
        assert await mem.render(results[0]) == full.render(results[0])
