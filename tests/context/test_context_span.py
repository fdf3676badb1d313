"""The span and the log line of a context call: counts and states, nothing that was said."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remem_pg import Record
from remem_pg.recall.result_cache import Tiers
from tests.context.fakes import Client, Database, Shelf, plan


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


@pytest.mark.covers("RP66")
def test_a_client_that_logs_writes_a_span_of_numbers_and_states(
    spans: InMemorySpanExporter,
) -> None:
    shelf = Shelf("notes", Record("1", "zanzibar body", title="zanzibar"))
    client = Client(Database(plan("notes", query="zanzibar")), providers=[shelf])
    client.context("about zanzibar")
    assert spans.get_finished_spans() == ()
    client._session = dataclasses.replace(client._session, tiers=Tiers(None, True))
    client.context("about zanzibar")
    (span,) = spans.get_finished_spans()
    told = dict(span.attributes or {})
    assert span.name == "remem.context"
    assert told["remem.workspace"] == "acme"
    assert told["remem.context.stage"] == "deterministic"
    assert told["remem.context.selected"] == 1
    assert told["remem.context.providers.ok"] == 1
    assert told["remem.context.diagnostics"] == 0
    assert "zanzibar" not in str(told)
