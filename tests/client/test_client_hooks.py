"""Hooks around routing and the expander: what they may change, and that they never harm."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from remem_pg import (
    AsyncRemem,
    Hooks,
    InvalidArgument,
    RecallRequest,
    RecallResult,
    Remem,
    UnknownOption,
)
from remem_pg.recall import hooks


@pytest.fixture
def filled(db_dsn: str) -> str:
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        client.remember_many(
            [
                {"ref": "retries", "body": "We retry three times, then page.", "kind": "decision"},
                {"ref": "coffee", "body": "Ana prefers oat milk.", "kind": "preference"},
                {"ref": "deploys", "body": "Deployments happen on Tuesdays before noon."},
            ]
        )
    return db_dsn


@pytest.fixture
def opened(filled: str) -> Iterator[Callable[..., Remem]]:
    clients: list[Remem] = []

    def open_with(**options: Any) -> Remem:
        options = {"embedding": None, **options}
        clients.append(Remem(filled, workspace="acme", **options))
        return clients[-1]

    yield open_with
    for client in clients:
        client.close()


def refs(result: RecallResult) -> list[str | None]:
    return [hit.ref for hit in result]


# before routing


@pytest.mark.covers("ME10")
def test_a_hook_before_routing_may_change_query_k_and_options(
    opened: Callable[..., Remem],
) -> None:
    seen: list[RecallRequest] = []

    def before(request: RecallRequest) -> RecallRequest:
        seen.append(request)
        return dataclasses.replace(
            request, query="oat milk", k=1, options={**request.options, "kinds": ["preference"]}
        )

    mem = opened(hooks=Hooks(before_route=before))
    result = mem.recall("retry", k=5, mode="lexical")
    assert [hit.ref for hit in result] == ["coffee"]
    assert result.query == "oat milk"
    assert seen == [RecallRequest("retry", 5, {"mode": "lexical"})]
    assert result.trace["before_route"] == {"changed": True}
    document = mem.recall_explain("retry")
    assert [hit["ref"] for hit in document["hits"]] == ["coffee"]
    assert document["before_route"] == {"changed": True}


@pytest.mark.covers("ME10")
def test_a_hook_that_returns_nothing_changes_nothing(opened: Callable[..., Remem]) -> None:
    quiet = Hooks(before_route=lambda request: None, after_route=lambda request, route: None)
    result = opened(hooks=quiet).recall("retry")
    assert refs(result) == refs(opened().recall("retry"))
    assert result.trace["before_route"] == {"changed": False}
    assert result.trace["after_route"]["overrides"] == {}


# after routing


@pytest.mark.covers("ME10", "ME9")
def test_a_hook_after_routing_sees_the_route_and_may_change_its_arms(
    opened: Callable[..., Remem],
) -> None:
    seen: list[Mapping[str, Any]] = []

    def lexical_only(request: RecallRequest, route: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(route)
        return {**route, "arms": ["lexical"]}

    mem = opened(hooks=Hooks(after_route=lexical_only))
    document = mem.recall_explain("retry")
    assert set(document["arms"]) == {"lexical"}
    assert document["after_route"]["overrides"] == {"arms": ["lexical"]}
    assert {"kind", "arms", "pool", "graph_depth", "weights"} <= seen[0].keys()
    assert "vector" in seen[0]["arms"]
    assert set(opened().recall_explain("retry")["arms"]) > {"lexical"}


@pytest.mark.covers("ME10")
def test_a_hook_after_routing_may_change_weights_and_the_caller_stands_above_it(
    opened: Callable[..., Remem],
) -> None:
    def heavy(request: RecallRequest, route: Mapping[str, Any]) -> dict[str, Any]:
        weights = {**route["weights"], "phrase": 0.25, "session": 0.125}
        return {**route, "weights": weights, "graph_depth": 0}

    mem = opened(hooks=Hooks(after_route=heavy))
    weights = mem.recall_explain("retry", weights={"session": 0.5})["weights"]
    assert (weights["phrase"], weights["session"]) == (0.25, 0.5)
    overrides = mem.recall("retry").trace["after_route"]["overrides"]
    assert overrides["weights"] == {"phrase": 0.25, "session": 0.125}
    assert overrides.get("graph", "never") == "never"


@pytest.mark.covers("ME10")
@pytest.mark.parametrize("wrong", [None, 3, {"query": "x"}, RecallRequest("x", "five")])  # type: ignore[arg-type]
def test_a_hook_that_raises_or_answers_nonsense_is_left_out_and_named(
    opened: Callable[..., Remem], wrong: Any
) -> None:
    def before(request: RecallRequest) -> Any:
        if wrong is None:
            raise RuntimeError("my bug")
        return wrong

    result = opened(hooks=Hooks(before_route=before)).recall("retry")
    plain = opened().recall("retry")
    assert refs(result) == refs(plain)
    assert result.degraded == ("hook_failed", *plain.degraded)
    assert result.trace["before_route"]["error"]


@pytest.mark.covers("ME10")
@pytest.mark.parametrize("wrong", [None, 3, {"arms": object()}])
def test_a_hook_after_routing_that_fails_is_left_out_and_named(
    opened: Callable[..., Remem], wrong: Any
) -> None:
    def after(request: RecallRequest, route: Mapping[str, Any]) -> Any:
        if wrong is None:
            raise RuntimeError("my bug")
        return wrong

    result = opened(hooks=Hooks(after_route=after)).recall("retry")
    assert refs(result) == refs(opened().recall("retry"))
    assert "hook_failed" in result.degraded
    assert result.trace["after_route"]["error"]


def test_wrong_options_are_the_callers_error_also_with_hooks(opened: Callable[..., Remem]) -> None:
    mem = opened(hooks=Hooks(after_route=lambda request, route: None))
    with pytest.raises(UnknownOption):
        mem.recall("retry", frobnicate=1)
    with pytest.raises(InvalidArgument):
        mem.recall("retry", k="many")  # type: ignore[arg-type]


async def test_the_async_client_calls_the_same_hooks(filled: str) -> None:
    def before(request: RecallRequest) -> RecallRequest:
        return dataclasses.replace(request, query="oat milk")

    chosen = Hooks(
        before_route=before, after_route=lambda request, route: {**route, "arms": ["lexical"]}
    )
    async with AsyncRemem(filled, workspace="acme", embedding=None, hooks=chosen) as mem:
        result = await mem.recall("retry")
        assert result[0].ref == "coffee"
        assert result.trace["after_route"]["overrides"] == {"arms": ["lexical"]}


# expansion


@pytest.mark.covers("MN4", "ME5")
def test_an_expanders_texts_are_searched_beside_the_query(opened: Callable[..., Remem]) -> None:
    mem = opened(expander=lambda query: ["Ana likes oat milk in her coffee."])
    result = mem.recall("breakfast habits")
    assert "coffee" in [hit.ref for hit in result]
    assert result.trace["expansion"] == {"texts": 1}
    assert "coffee" not in [hit.ref for hit in opened().recall("breakfast habits", mode="lexical")]
    asked = mem.recall_explain("breakfast habits")["query"]
    assert {"oat", "milk"} <= set(asked["expanded_terms"])
    assert not {"oat", "milk"} & set(asked["terms"])


class Toy:
    """A model of 384 dimensions that keeps what it was asked."""

    id = "toy"
    dimensions = 384

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[int("oat" in text)] = 1
        return rows


@pytest.mark.covers("MN4")
def test_an_expansion_is_embedded_beside_the_query(db_dsn: str) -> None:
    model = Toy()
    with Remem(
        db_dsn, workspace="toys", embedding=model, expander=lambda query: ["oat milk"]
    ) as mem:
        mem.remember("Ana drinks oat milk.", ref="coffee")
        mem.remember("Deployments happen on Tuesdays.", ref="deploys")
        model.texts.clear()
        result = mem.recall("breakfast", mode="vector", k=2)
        assert model.texts == ["breakfast", "oat milk"]
        assert {hit.ref for hit in result} == {"coffee", "deploys"}
        assert result.degraded == ()
        model.texts.clear()
        mem.recall("supper", expanded=["my own"])
        assert model.texts == ["supper", "my own"]


@pytest.mark.covers("MN4")
def test_an_expansion_is_clipped_to_four_texts_of_two_hundred_characters() -> None:
    texts = hooks.clipped(["", "  ", "x" * 500, *(f"text {n}" for n in range(9))])
    assert texts == ["x" * 200, "text 0", "text 1", "text 2"]
    for wrong in ("one text", None, 3, [3], ["a\0b"]):
        with pytest.raises(InvalidArgument.__mro__[1]):
            hooks.clipped(wrong)


def hangs(query: str) -> list[str]:
    time.sleep(5)
    return []


def raises(query: str) -> list[str]:
    raise RuntimeError("the language model is away")


@pytest.mark.covers("MN4")
@pytest.mark.parametrize("expander", [hangs, raises, lambda query: "no list", lambda query: [1]])
def test_an_expander_that_fails_leaves_the_raw_query_and_is_named(
    opened: Callable[..., Remem], expander: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remem_pg.recall.stages.EXPAND_SECONDS", 0.2)
    started = time.monotonic()
    result = opened(expander=expander).recall("retry")
    assert time.monotonic() - started < 3
    plain = opened().recall("retry")
    assert [hit.ref for hit in result] == [hit.ref for hit in plain]
    assert result.degraded == ("expansion_failed", *plain.degraded)
    assert result.trace["expansion"]["error"]
