"""A client with ``cache`` and ``log``: the same answers, fewer computations, one span a recall."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remem_pg import AsyncRemem, Remem, UnknownOption
from remem_pg.recall import telemetry

QUESTION = "how often do we retry?"


class Counting:
    """A model that counts what it is asked; fails while ``broken``."""

    id = "counting"
    dimensions = 4

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken = False

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        if self.broken:
            raise RuntimeError("no model today")
        return np.array([[1, len(t), t.count("e"), t.count("r")] for t in texts], np.float32)


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def open_client(db_dsn: str, model: Counting) -> Iterator[Callable[..., Remem]]:
    opened: list[Remem] = []

    def make(**arguments: Any) -> Remem:
        opened.append(Remem(db_dsn, workspace="acme", **{"embedding": model, **arguments}))
        return opened[-1]

    plain = make()
    plain.remember_many(
        [
            {"ref": "retries", "body": "We retry three times, then page.", "kind": "decision"},
            {"ref": "deploys", "body": "Deployments happen on Tuesdays."},
            {"ref": "coffee", "body": "Ana prefers oat milk.", "kind": "preference"},
        ]
    )
    model.asked.clear()
    yield make
    for client in opened:
        client.close()


def refs(result: Any) -> list[str | None]:
    return [hit.ref for hit in result]


# -- the vectors of questions


@pytest.mark.covers("MN6", "ME6")
def test_a_question_is_embedded_once_also_by_siblings(
    open_client: Callable[..., Remem], model: Counting
) -> None:
    mem = open_client()
    first = mem.recall(QUESTION)
    assert refs(mem.recall(QUESTION)) == refs(first)
    mem.workspace("acme").recall(QUESTION, k=2)
    assert model.asked == [QUESTION]
    mem.recall("another question")
    assert model.asked == [QUESTION, "another question"]


def test_a_model_that_failed_is_asked_again(
    open_client: Callable[..., Remem], model: Counting
) -> None:
    mem = open_client()
    model.broken = True
    assert "no_embedding" in mem.recall(QUESTION).degraded
    model.broken = False
    assert mem.recall(QUESTION).degraded == ()


# -- answers


@pytest.mark.covers("MN1")
def test_a_cached_recall_is_the_recall(open_client: Callable[..., Remem], db: Any) -> None:
    plain, mem = open_client(), open_client(cache=True)
    expected = plain.recall(QUESTION, k=2)
    cold, hot = mem.recall(QUESTION, k=2), mem.recall(QUESTION, k=2)
    assert [cold.trace["tier"], hot.trace["tier"]] == ["cold", "hot"]
    assert refs(cold) == refs(hot) == refs(expected)
    for hit, other in zip(hot, expected, strict=True):
        assert (hit.memory_id, hit.body, hit.kind) == (other.memory_id, other.body, other.kind)
        assert (hit.arms, hit.occurred_at) == (other.arms, other.occurred_at)
        assert hit.score == pytest.approx(other.score, rel=1e-3)
    assert (hot.space, hot.query, hot.degraded) == (expected.space, QUESTION, ())
    # What the server kept, another client is served too; this one was told that its own holds.
    assert open_client(cache=True).recall(QUESTION, k=2).trace["tier"] == "hot"
    assert db.execute("select count(*) from remem.recall_log").fetchone() == (0,)


@pytest.mark.covers("MN1")
def test_a_kept_answer_is_not_sent_again_and_never_served_after_a_change(
    open_client: Callable[..., Remem], db: Any
) -> None:
    mem, other = open_client(cache=True), open_client()
    mem.recall(QUESTION)
    db.execute("delete from remem.query_cache")
    kept = mem.recall(QUESTION)
    assert kept.trace["tier"] == "hot"
    assert kept[0].body == "We retry three times, then page."
    other.remember("We never retry.", ref="retries", kind="decision")
    changed = mem.recall(QUESTION)
    assert changed.trace["tier"] == "cold"
    assert "We never retry." in [hit.body for hit in changed]
    assert "We retry three times, then page." not in [hit.body for hit in changed]


def test_what_a_caller_does_to_an_answer_stays_with_the_caller(
    open_client: Callable[..., Remem],
) -> None:
    mem = open_client(cache=True)
    for _ in range(3):
        result = mem.recall(QUESTION)
        assert "mine" not in result.trace
        assert "mine" not in result[0].signals
        result[0].signals["mine"] = 1
        result.trace["mine"] = 1


def test_another_k_option_or_vector_is_another_question(open_client: Callable[..., Remem]) -> None:
    mem = open_client(cache=True)
    mem.recall(QUESTION)
    space = mem.current_space().fingerprint
    for arguments in (
        {"k": 1},
        {"kinds": ["decision"]},
        {"query_embedding": [0.0, 0.0, 1.0, -1.0], "space": space},
        {"mode": "lexical"},
    ):
        assert mem.recall(QUESTION, **arguments).trace["tier"] == "cold"
        assert mem.recall(QUESTION, **arguments).trace["tier"] == "hot"
    assert len(mem.recall(QUESTION, k=1)) == 1


def test_a_cached_client_refuses_what_a_plain_one_refuses(
    open_client: Callable[..., Remem],
) -> None:
    with pytest.raises(UnknownOption):
        open_client(cache=True, log=True).recall(QUESTION, frobnicate=1)


def test_an_explanation_is_of_a_fresh_search(open_client: Callable[..., Remem]) -> None:
    mem = open_client(cache=True)
    mem.recall(QUESTION)
    assert "tier" not in mem.recall_explain(QUESTION)


def test_a_callers_transaction_that_has_written_sees_its_own_rows(
    open_client: Callable[..., Remem], db_dsn: str, model: Counting
) -> None:
    with psycopg.connect(db_dsn) as conn:
        mem = Remem(conn, workspace="acme", embedding=model, cache=True)
        mem.recall(QUESTION)
        conn.commit()
        mem.remember("We retry five times.")
        assert "We retry five times." in [hit.body for hit in mem.recall(QUESTION)]
        conn.rollback()
        assert "We retry five times." not in [hit.body for hit in mem.recall(QUESTION)]


async def test_the_asynchronous_client_does_the_same(
    open_client: Callable[..., Remem], db_dsn: str, model: Counting
) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=model, cache=True) as mem:
        tiers = [(await mem.recall(QUESTION)).trace["tier"] for _ in range(2)]
    assert (tiers, model.asked) == (["cold", "hot"], [QUESTION])


def test_a_reranked_recall_can_be_cached(open_client: Callable[..., Remem]) -> None:
    def last_first(query: str, texts: Sequence[str]) -> list[float]:
        return [float(n) for n in range(len(texts))]

    mem = open_client(cache=True, log=True, reranker=last_first, rerank_gate="always")
    cold, hot = mem.recall(QUESTION, k=2), mem.recall(QUESTION, k=2)
    assert [cold.trace["tier"], hot.trace["tier"]] == ["cold", "hot"]
    assert refs(cold) == refs(hot)
    assert hot.trace["rerank"]["state"] == "completed"


# -- the log and the span


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The application's tracer provider; it can be set once in a process."""
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Callable[[], tuple[ReadableSpan, ...]]:
    exporter.clear()
    return exporter.get_finished_spans


@pytest.mark.covers("MN17", "MN18")
def test_a_client_that_logs_leaves_a_row_and_a_span_for_each_recall(
    open_client: Callable[..., Remem], db: Any, spans: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    mem = open_client(cache=True, log=True)
    for _ in range(2):
        mem.recall(QUESTION, k=2)
    rows = db.execute("select tier, returned from remem.recall_log order by at").fetchall()
    assert rows == [("cold", 2), ("hot", 2)]
    cold, hot = spans()
    for span, expected in ((cold, "cold"), (hot, "hot")):
        assert span.name == "remem.recall"
        said = dict(span.attributes or {})
        assert (said["remem.tier"], said["remem.returned"], said["remem.k"]) == (expected, 2, 2)
        assert said["remem.degraded"] == ()
        assert said["remem.arm.lexical.state"] == "completed"
        assert said["remem.stage.total_ms"] >= 0  # type: ignore[operator]


@pytest.mark.covers("MN18")
def test_a_span_has_no_text(
    open_client: Callable[..., Remem], spans: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    mem = open_client(log=True)
    mem.recall(QUESTION)
    with pytest.raises(UnknownOption):
        mem.recall(QUESTION, frobnicate="retry")
    found, failed = spans()
    assert dict(failed.attributes or {})["error.type"] == "RM002"
    for span in (found, failed):
        for text in ("retry", "often", "Tuesdays", "frobnicate"):
            assert text not in span.to_json()


def test_a_client_that_does_not_log_leaves_nothing(
    open_client: Callable[..., Remem], db: Any, spans: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    open_client().recall(QUESTION)
    open_client(cache=True).recall(QUESTION)
    assert spans() == ()
    assert db.execute("select count(*) from remem.recall_log").fetchone() == (0,)


def test_logging_works_without_opentelemetry(
    open_client: Callable[..., Remem], db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_client(log=True).recall(QUESTION)
    assert db.execute("select count(*) from remem.recall_log").fetchone() == (1,)


def test_a_tracer_that_fails_costs_no_answer() -> None:
    class Broken:
        def set_attribute(self, name: str, value: Any) -> None:
            raise RuntimeError("exporter is gone")

    telemetry.describe(Broken(), {"remem.k": 8})


def test_a_plain_recall_is_one_round_trip_and_a_cached_one_too(
    open_client: Callable[..., Remem], monkeypatch: pytest.MonkeyPatch
) -> None:
    from remem_pg.database import connection

    sent: list[str] = []
    execute = connection.execute

    def counted(conn: Any, call: Any, tenant: Any) -> Any:
        sent.append(call.function)
        return execute(conn, call, tenant)

    for arguments, function in (({}, "recall"), ({"cache": True, "log": True}, "recall_cached")):
        mem = open_client(**arguments)
        mem.recall(QUESTION)
        monkeypatch.setattr(connection, "execute", counted)
        sent.clear()
        for _ in range(3):
            mem.recall(QUESTION)
        assert sent == [function] * 3
        monkeypatch.undo()
