"""Recall through the client: hits with reasons, options, and named degraded states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from remem_pg import InvalidArgument, Remem, TextRefused, UnknownOption, UnknownSpace, VectorRefused
from remem_pg.errors import DimensionMismatch


@pytest.fixture
def mem(db_dsn: str) -> Iterator[Remem]:
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        client.remember_many(
            [
                {"ref": "retries", "body": "We retry three times, then page.", "kind": "decision"},
                {"ref": "deploys", "body": "Deployments happen on Tuesdays before noon."},
                {
                    "ref": "coffee",
                    "body": "Ana prefers oat milk in her coffee.",
                    "kind": "preference",
                },
                {"ref": "build-41", "body": "Build 41 failed with ERR_4071."},
            ]
        )
        yield client


def test_the_right_memory_comes_first_with_reasons(mem: Remem) -> None:
    result = mem.recall("how often do we retry?")
    hit = result[0]
    assert (hit.ref, hit.rank, hit.kind) == ("retries", 1, "decision")
    assert 0 < hit.relevance <= 1
    assert hit.score > 0
    assert "lexical" in hit.arms
    assert hit.signals
    assert hit.why.startswith(" + ".join(hit.arms))
    assert (result.degraded, result.query) == ((), "how often do we retry?")
    assert "retry three times" in repr(result)


def test_an_exact_identifier_is_first(mem: Remem) -> None:
    assert mem.recall("ERR_4071")[0].ref == "build-41"


def test_k_and_options_are_passed_on(mem: Remem) -> None:
    assert len(mem.recall("retry deployments coffee build", k=2)) == 2
    only = mem.recall("retry deployments coffee build", kinds=["preference"])
    assert [hit.ref for hit in only] == ["coffee"]
    filtered = mem.recall("coffee", filter='$.kind == "decision"')
    assert {hit.kind for hit in filtered} <= {"decision"}
    lexical = mem.recall("retry", mode="lexical")
    assert {arm for hit in lexical for arm in hit.arms} == {"lexical"}


@pytest.mark.covers("ME20")
def test_a_client_with_a_model_can_ask_the_fusion_arm(db_dsn: str) -> None:
    class Toy:
        id = "toy"
        dimensions = 2

        def embed(self, texts: Sequence[str]) -> Any:
            return np.array([[1, len(text)] for text in texts], np.float32)

    with Remem(db_dsn, workspace="acme", embedding=Toy()) as mem:
        mem.remember("We retry three times.")
        result = mem.recall("retry", arms=["fusion"])
        trace = mem.recall_explain("retry", arms=["fusion"])
    assert (len(result), result.degraded) == (1, ())
    assert set(trace["arms"]) == {"vector", "lexical"}


def test_an_empty_answer_says_whether_it_was_degraded(mem: Remem, db_dsn: str) -> None:
    lexical = mem.recall("zygomorphic", mode="lexical")
    assert (len(lexical), lexical.degraded) == (0, ())
    unknown = mem.workspace("nobody").recall("retry")
    assert (len(unknown), unknown.degraded) == (0, ("unknown_workspace",))
    no_words = mem.recall("the of and", mode="lexical")
    assert (len(no_words), no_words.degraded) == (0, ("no_lexemes",))


def test_degraded_is_about_this_call_only(mem: Remem) -> None:
    assert mem.recall("the of and").degraded
    assert mem.recall("retry").degraded == ()


def test_an_explained_recall_has_the_same_hits(mem: Remem) -> None:
    trace = mem.recall_explain("how often do we retry?", k=3)
    assert [hit["ref"] for hit in trace["hits"]] == [
        hit.ref for hit in mem.recall("how often do we retry?", k=3)
    ]
    assert trace["degraded"] == []
    assert {"vector", "lexical"} <= set(trace["arms"])


@pytest.mark.parametrize(
    ("query", "options", "kind"),
    [
        ("a\0b", {}, TextRefused),
        ("a\ud800", {}, TextRefused),
        (None, {}, InvalidArgument),
        ("x", {"k": -1}, InvalidArgument),
        ("x", {"k": 0}, InvalidArgument),
        ("x", {"k": 2**40}, InvalidArgument),
        ("x", {"frobnicate": 1}, UnknownOption),
        ("x", {"mode": "nonsense"}, InvalidArgument),
        ("x", {"filter": "$.("}, InvalidArgument),
        ("x", {"min_relevance": float("nan")}, InvalidArgument),
        ("x", {"query_embedding": [0.1, 0.2]}, DimensionMismatch),
        ("x", {"query_embedding": [float("nan")] * 384}, VectorRefused),
        ("x", {"query_embedding": "text"}, InvalidArgument),
    ],
)
def test_bad_input_is_a_typed_error(
    mem: Remem, query: Any, options: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        mem.recall(query, **options)
    assert "Hint" in str(caught.value) or kind is InvalidArgument
    with pytest.raises(kind):
        mem.recall_explain(query, **options)


def test_an_unknown_option_lists_the_valid_ones(mem: Remem) -> None:
    with pytest.raises(UnknownOption, match=r'RM002 unknown option "frobnicate".*min_relevance'):
        mem.recall("x", frobnicate=1)


def test_a_wrong_dimension_names_both(mem: Remem) -> None:
    with pytest.raises(DimensionMismatch, match='vector has 2 dimensions, space "hash" has 384'):
        mem.remember("x", embedding=[1.0, 2.0])
    with pytest.raises(UnknownSpace, match='vector is of space "minilm"'):
        mem.remember("x", embedding=[1.0] * 384, space="minilm")
    with pytest.raises(VectorRefused, match="zero vector"):
        mem.remember("x", embedding=[0.0] * 384)


def test_a_vector_of_another_space_is_not_compared_and_the_result_says_so(mem: Remem) -> None:
    result = mem.recall("retry", query_embedding=[1.0] * 384, space="another-model")
    assert "space_mismatch" in result.degraded
    assert result[0].ref == "retries"


@pytest.mark.covers("MN19")
def test_without_any_embedder_recall_still_finds_the_right_memory(
    mem: Remem, db: psycopg.Connection[Any]
) -> None:
    space = mem.register_space(
        {"name": "neural", "backend": "toy", "asset": "sha256:1", "dimensions": 8}
    )
    lexical = mem.workspace("neural")
    lexical.activate_space(space.fingerprint, "neural")
    lexical.remember("We retry three times, then page.", ref="retries")
    lexical.remember("Ana prefers oat milk.", ref="coffee")
    result = lexical.recall("how often do we retry?")
    assert [hit.ref for hit in result][:1] == ["retries"]
    assert "no_embedding" in result.degraded


@pytest.mark.parametrize("prepare", [True, False])
def test_ten_calls_in_one_session_take_about_the_same_time(
    db_dsn: str, mem: Remem, prepare: bool
) -> None:
    import statistics
    import time

    threshold = 0 if prepare else None
    with psycopg.connect(db_dsn, autocommit=True, prepare_threshold=threshold) as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        client.version()
        spent = []
        for _ in range(10):
            started = time.perf_counter()
            assert client.recall("how often do we retry?")[0].ref == "retries"
            spent.append(time.perf_counter() - started)
        later = []
        for _ in range(3):  # the best of three rounds: the machine is shared
            started = time.perf_counter()
            client.recall("how often do we retry?")
            later.append(time.perf_counter() - started)
    assert min(later) < 3 * statistics.median(spent)
