"""The policy around the calls, without a database: a script answers the steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from remem_pg import calls, steps
from remem_pg.errors import (
    DatabaseNewer,
    DimensionMismatch,
    InvalidArgument,
    NoAccess,
    UnknownSpace,
)
from remem_pg.models import Hit, MemoryRef, RecallResult, SpaceInfo, Version
from remem_pg.recall import flow as recall_flow
from remem_pg.spaces.embedder import Embedder, document_text
from remem_pg.writing import remember as remember_flow
from tests.support.scripted import HASH, OTHER, Ready, Server, Toy, embed_nothing, session, stored

# which space


def test_with_the_workspaces_model_the_client_embeds_and_names_the_space() -> None:
    server = Server(current_space=SpaceInfo("toy", "toy-print", 3), remember=MemoryRef())
    server.drive(remember_flow.remember(session(), "text", {"title": "Title", "tags": ["a", "b"]}))
    assert server.names() == ["current_space", "remember"]
    assert server.sent[1].params["space"] == "toy-print"
    assert server.sent[1].params["embedding"].values == (1.0, 1.0, 1.0)


def test_the_space_is_looked_up_once() -> None:
    server = Server(current_space=SpaceInfo("toy", "toy-print", 3), recall=RecallResult([]))
    client = session()
    for _ in range(3):
        server.drive(recall_flow.recall(client, calls.recall, "q", 8, None, {}))
    assert server.names() == ["current_space", "recall", "recall", "recall"]


def test_an_empty_workspace_moves_to_the_model_at_the_first_write() -> None:
    server = Server(
        current_space=HASH,
        count=0,
        activate_space=[UnknownSpace(), OTHER],
        register_space=OTHER,
        remember=MemoryRef(),
    )
    server.drive(remember_flow.remember(session(), "text", {}))
    assert server.names() == [
        "current_space",
        "count",
        "activate_space",
        "register_space",
        "activate_space",
        "remember",
    ]
    assert server.transactions == 2
    assert server.sent[-1].params["space"] == "toy-print"


def test_a_read_of_an_empty_workspace_changes_nothing_and_warns_of_nothing() -> None:
    server = Server(current_space=HASH, count=0, recall=RecallResult([]))
    result = server.drive(recall_flow.recall(session(), calls.recall, "q", 8, None, {}))
    assert server.names() == ["current_space", "count", "recall"]
    assert result.degraded == ()


def test_a_model_that_was_not_chosen_does_not_take_a_neural_space_over() -> None:
    server = Server(current_space=OTHER, remember=MemoryRef())
    server.drive(remember_flow.remember(session(Ready(Toy(), explicit=False)), "text", {}))
    assert server.names() == ["current_space", "remember"]
    assert "embedding" not in server.sent[-1].params


@pytest.mark.parametrize("space", [HASH, OTHER], ids=["hash", "neural"])
def test_a_workspace_with_memories_keeps_its_space_and_results_say_so(
    space: SpaceInfo, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(current_space=space, count=5, recall=RecallResult([]), remember=MemoryRef())
    client = session()
    with caplog.at_level(logging.WARNING, "remem_pg"):
        for _ in range(2):
            result = server.drive(recall_flow.recall(client, calls.recall, "q", 8, None, {}))
            server.drive(remember_flow.remember(client, "text", {}))
            assert result.degraded == ("space_mismatch",)
    assert all("embedding" not in c.params and "space" not in c.params for c in server.sent)
    assert "register_space" not in server.names()
    assert len(caplog.records) == 1


def test_without_the_right_to_administer_the_workspace_stays_as_it_is() -> None:
    server = Server(current_space=HASH, count=0, activate_space=NoAccess(), remember=MemoryRef())
    server.drive(remember_flow.remember(session(), "text", {}))
    assert server.names() == ["current_space", "count", "activate_space", "remember"]
    assert "embedding" not in server.sent[-1].params


def test_a_client_without_a_model_asks_nothing_and_sends_no_vector() -> None:
    server = Server(remember=MemoryRef(), recall=RecallResult([], ["no_embedding"]))
    client = session(embed_nothing())
    server.drive(remember_flow.remember(client, "text", {}))
    result = server.drive(recall_flow.recall(client, calls.recall, "q", 8, None, {}))
    assert server.names() == ["remember", "recall"]
    assert result.degraded == ("no_embedding",)


def test_a_vector_of_the_callers_own_is_sent_as_it_is_without_asking_for_the_space() -> None:
    server = Server(remember=MemoryRef(), recall=RecallResult([]))
    server.drive(remember_flow.remember(session(), "text", {"embedding": [1, 2]}))
    server.drive(recall_flow.recall(session(), calls.recall, "q", 8, [1.0, 2.0], {}))
    assert server.names() == ["remember", "recall"]
    assert "space" not in server.sent[0].params
    assert server.sent[1].params["query_embedding"].values == (1.0, 2.0)


@pytest.mark.parametrize("options", [{"mode": "lexical"}, {"arms": ["lexical"]}])
def test_a_lexical_recall_embeds_nothing(options: dict[str, Any]) -> None:
    model = Toy()
    server = Server(recall=RecallResult([]))
    server.drive(recall_flow.recall(session(Ready(model)), calls.recall, "q", 8, None, options))
    assert server.names() == ["recall"]
    assert model.texts == []


# trouble


@pytest.mark.parametrize("error", [DimensionMismatch(), UnknownSpace()])
def test_when_the_space_changed_the_client_looks_again_and_sends_once_more(
    error: Exception,
) -> None:
    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(
        current_space=[toy, OTHER],
        count=9,
        remember=[error, MemoryRef()],
    )
    server.drive(remember_flow.remember(session(), "text", {}))
    assert server.names() == ["current_space", "remember", "current_space", "count", "remember"]
    assert "embedding" not in server.sent[-1].params


def test_a_second_refusal_is_raised() -> None:
    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(current_space=toy, remember=lambda call: DimensionMismatch())
    with pytest.raises(DimensionMismatch):
        server.drive(remember_flow.remember(session(), "text", {}))
    assert server.names().count("remember") == 2


def test_in_a_transaction_of_the_caller_nothing_is_sent_again() -> None:
    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(current_space=toy, remember=lambda call: DimensionMismatch())
    server.aborts = True
    with pytest.raises(DimensionMismatch):
        server.drive(remember_flow.remember(session(), "text", {}))
    assert server.names().count("remember") == 1


def test_a_wrong_vector_of_the_callers_own_is_raised_at_once() -> None:
    server = Server(remember=lambda call: DimensionMismatch(), recall=lambda call: UnknownSpace())
    with pytest.raises(DimensionMismatch):
        server.drive(remember_flow.remember(session(), "text", {"embedding": [1.0]}))
    with pytest.raises(UnknownSpace):
        server.drive(recall_flow.recall(session(), calls.recall, "q", 8, [1.0], {"space": "x"}))
    assert len(server.sent) == 2


def test_a_recall_that_says_space_mismatch_is_asked_again_in_the_new_space() -> None:
    toy = SpaceInfo("toy", "toy-print", 3)
    answers = [RecallResult([], ["space_mismatch"]), RecallResult([])]
    server = Server(current_space=[toy, OTHER], count=9, recall=answers)
    result = server.drive(recall_flow.recall(session(), calls.recall, "q", 8, None, {}))
    assert server.names() == ["current_space", "recall", "current_space", "count", "recall"]
    assert result.degraded == ("space_mismatch",)
    assert "query_embedding" not in server.sent[-1].params


class Broken(Toy):
    def embed(self, texts: Sequence[str]) -> Any:
        raise RuntimeError("out of memory")


class Wrong(Toy):
    def embed(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 4), dtype="f4")


class NotFinite(Toy):
    def embed(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 3), np.nan)


class Few(Toy):
    def embed(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts) - 1, 3))


@pytest.mark.covers("RE2")
@pytest.mark.parametrize("model", [Broken, Wrong, NotFinite, Few])
def test_a_failing_model_never_raises_on_the_live_path(
    model: type[Toy], caplog: pytest.LogCaptureFixture
) -> None:
    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(
        current_space=toy, remember=MemoryRef(), recall=RecallResult([]), remember_many=stored
    )
    client = session(Ready(model()))
    with caplog.at_level(logging.WARNING, "remem_pg"):
        server.drive(remember_flow.remember(client, "text", {}))
        server.drive(remember_flow.remember_many(client, [{"body": "x"}], "abort", 10))
        result = server.drive(recall_flow.recall(client, calls.recall, "q", 8, None, {}))
    assert result.degraded == ("no_embedding",)
    assert all("embedding" not in call.params for call in server.sent)
    assert len(caplog.records) == 1


def test_a_text_without_features_is_sent_without_its_zero_vector() -> None:
    class Zero(Toy):
        def embed(self, texts: Sequence[str]) -> Any:
            return np.zeros((len(texts), 3))

    toy = SpaceInfo("toy", "toy-print", 3)
    server = Server(current_space=toy, remember=MemoryRef(), recall=RecallResult([]))
    client = session(Ready(Zero()))
    server.drive(remember_flow.remember(client, "...", {}))
    result = server.drive(recall_flow.recall(client, calls.recall, "...", 8, None, {}))
    assert result.degraded == ("zero_vector",)
    assert all("embedding" not in call.params for call in server.sent)


def test_a_model_that_cannot_be_resolved_is_no_model_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = Embedder("/no/such/model/directory")
    with caplog.at_level(logging.WARNING, "remem_pg"):
        server = Server(remember=MemoryRef())
        server.drive(remember_flow.remember(session(embedder), "text", {}))
    assert server.names() == ["remember"]
    assert "/no/such/model/directory" in caplog.text


def test_a_spec_that_is_no_model_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidArgument, match="embedding"):
        Server().drive(remember_flow.remember(session(Embedder("minilmm")), "text", {}))


def test_a_model_named_in_the_environment_counts_as_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("REMEM_EMBEDDING", raising=False)
    assert [Embedder(spec).explicit for spec in ("auto", None, "hash", Toy())] == [
        False,
        False,
        True,
        True,
    ]
    monkeypatch.setenv("REMEM_EMBEDDING", "hash")
    assert Embedder("auto").explicit


def test_prompts_of_the_model_are_put_before_questions_and_documents() -> None:
    model = Toy()
    embedder = Ready(model, query_prompt="query: ", document_prompt="passage: ")
    embedder.embed(["a"], query=True)
    embedder.embed(["b"], query=False)
    assert model.texts == ["query: a", "passage: b"]


def test_the_document_text_joins_what_describes_a_memory() -> None:
    item = {
        "body": "We retry three times.",
        "title": "Retries",
        "summary": "",
        "speaker": "Ana",
        "aliases": ["backoff", "retry policy"],
        "tags": ["ops"],
    }
    assert document_text(item) == "Retries\nAna: We retry three times.\nbackoff retry policy\nops"
    assert document_text({"body": "e\u0301"}) == "\u00e9"


# results and handshake


def test_a_trace_gets_the_clients_degraded_states_too() -> None:
    server = Server(current_space=OTHER, count=1, recall_explain={"hits": [], "degraded": ["x"]})
    trace = server.drive(recall_flow.recall(session(), calls.recall_explain, "q", 8, None, {}))
    assert trace == {"hits": [], "degraded": ["space_mismatch", "x"]}


def test_hits_are_kept_when_degraded_states_are_added() -> None:
    from uuid import UUID

    hit = Hit(rank=1, memory_id=UUID(int=1), body="b")
    server = Server(current_space=OTHER, count=1, recall=RecallResult([hit]))
    result = server.drive(recall_flow.recall(session(), calls.recall, "q", 8, None, {}))
    assert list(result) == [hit]


def test_a_database_of_a_newer_compatibility_is_refused_before_the_first_call() -> None:
    handshake = steps.Handshake()
    server = Server(version=Version("9.0.0", 2), count=0)
    flow = steps.after_handshake(handshake, steps.run(calls.count("acme", None)))
    with pytest.raises(DatabaseNewer, match=r"9\.0\.0"):
        server.drive(flow)
    assert server.names() == ["version"]


def test_the_compatibility_is_looked_at_once() -> None:
    handshake = steps.Handshake()
    server = Server(version=Version("0.1.0", 1), count=0)
    for _ in range(2):
        server.drive(steps.after_handshake(handshake, steps.run(calls.count("acme", None))))
    assert server.names() == ["version", "count", "count"]
