"""A model that has to be loaded first."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from remem_pg.context import planning
from tests.context.fakes import AsyncClient, Client, Database, memory, plan, space_of

RETRY = memory("We retry three times, then page.")


def bodies(result: Any) -> set[str]:
    return {item.record.body for item in result.results}


class Cold:
    """A model that is loaded when it is first looked at."""

    id = "cold"

    def __init__(self, loaded: Callable[[], object]) -> None:
        self.loaded = loaded

    @property
    def dimensions(self) -> int:
        self.loaded()
        return 384

    def embed(self, texts: Any) -> Any:
        return [[1.0] * 384 for _ in texts]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_loading_a_model_takes_nothing_of_the_time_for_the_plan(kind: str) -> None:
    database = Database(plan("postgres"), [RETRY])
    cold = Cold(lambda: time.sleep(0.5))
    if kind == "sync":
        client: Any = Client(database, cold, plan_timeout_ms=200)
        database.answers["current_space"] = lambda call: space_of(client)
        result = client.context("retries?")
    else:
        client = AsyncClient(database, cold, plan_timeout_ms=200)
        database.answers["current_space"] = lambda call: space_of(client)
        result = asyncio.run(client.context("retries?"))
    assert (result.diagnostics, bodies(result)) == ((), {RETRY.body})
    assert "prompt_embedding" in database.calls("plan")[0].params


def test_a_model_that_never_loads_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LOAD_SECONDS", 0.2)
    there, loads = threading.Event(), []

    def load() -> None:
        loads.append(threading.get_ident())
        there.wait()

    database = Database(plan("postgres"), [RETRY])
    client = Client(database, Cold(load))
    database.answers["current_space"] = lambda call: space_of(client)
    for _ in range(3):
        result = client.context("retries?")
        assert result.diagnostics == ("semantic recognition failed: timed_out",)
        assert bodies(result) == {RETRY.body}
    assert len(loads) == 1
    there.set()
    assert client._session.embedder.prepare()
    assert client.context("retries?").diagnostics == ()
