"""The async client: the same answers, from coroutines and from functions that block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from remem_pg import FunctionProvider, Record
from tests.context.fakes import AsyncClient, Client, Database, Fails, Shelf, memory, plan

RETRY = memory("We retry three times, then page.")
NOTE = Record("n1", "The runbook says to page Mei.", score=0.8)
ROOT = Path(__file__).parents[2]


async def search(query: str, scope: Any, limit: int) -> list[Record]:
    await asyncio.sleep(0.01)
    return [NOTE]


@pytest.mark.covers("RP26", "RP50")
async def test_both_clients_give_the_same_answer() -> None:
    def database() -> Database:
        return Database(plan("postgres", "notes", "wiki"), [RETRY])

    providers = [FunctionProvider("notes", search), Fails("wiki", OSError())]
    one = await AsyncClient(database(), providers=providers).context("retries?")
    other = await asyncio.to_thread(Client(database(), providers=providers).context, "retries?")
    assert one.text.split("\n")[1:-1] == other.text.split("\n")[1:-1]
    assert one.diagnostics == other.diagnostics == ("provider wiki failed: OSError",)
    assert (await AsyncClient(database()).plan("retries?")).should_retrieve


@pytest.mark.covers("RP26")
async def test_a_function_that_blocks_does_not_block_the_loop() -> None:
    def blocks(query: str, scope: Any, limit: int) -> list[Record]:
        time.sleep(0.3)
        return [NOTE]

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    client = AsyncClient(Database(plan("notes")), providers=[FunctionProvider("notes", blocks)])
    result = await client.context("x")
    ticking.cancel()
    assert result.retrieved
    assert ticks > 5


@pytest.mark.covers("RP26", "RP50")
async def test_a_coroutine_that_is_late_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def late(query: str, scope: Any, limit: int) -> list[Record]:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return []

    providers = [FunctionProvider("late", late), Shelf("notes", NOTE)]
    client = AsyncClient(
        Database(plan("late", "notes")), providers=providers, provider_timeout_ms=60
    )
    result = await client.context("x")
    assert result.diagnostics == ("provider late timed_out",)
    assert result.retrieved
    await asyncio.wait_for(cancelled.wait(), 2)


@pytest.mark.covers("RP26")
async def test_a_coroutine_that_will_not_be_cancelled_is_left_behind() -> None:
    let_go = asyncio.Event()

    async def stubborn(query: str, scope: Any, limit: int) -> list[Record]:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return []

    client = AsyncClient(
        Database(plan("s")), providers=[FunctionProvider("s", stubborn)], provider_timeout_ms=60
    )
    started = time.monotonic()
    assert (await client.context("x")).diagnostics == ("provider s timed_out",)
    assert time.monotonic() - started < 1
    let_go.set()


async def test_a_coroutine_that_cancels_itself_has_failed() -> None:
    async def cancels(query: str, scope: Any, limit: int) -> list[Record]:
        raise asyncio.CancelledError

    providers = [FunctionProvider("c", cancels), Shelf("notes", NOTE)]
    result = await AsyncClient(Database(plan("c", "notes")), providers=providers).context("x")
    assert result.retrieved
    assert result.diagnostics == ("provider c failed: RuntimeError",)


async def test_cancelling_the_call_cancels_what_it_waits_for() -> None:
    running, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(query: str, scope: Any, limit: int) -> list[Record]:
        running.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()
        return []

    client = AsyncClient(Database(plan("w")), providers=[FunctionProvider("w", waits)])
    call = asyncio.create_task(client.context("x"))
    await asyncio.wait_for(running.wait(), 2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(cancelled.wait(), 2)


@pytest.mark.covers("RP25")
async def test_planner_and_synthesiser_may_be_coroutine_functions() -> None:
    async def planner(request: Any) -> Any:
        return plan("notes")

    async def synthesizer(request: Any) -> str:
        return f"{len(request.results)} results"

    client = AsyncClient(
        Database(plan(confidence=0.4)),
        providers=[Shelf("notes", NOTE)],
        planner=planner,
        synthesizer=synthesizer,
    )
    result = await client.context("x")
    assert result.trace.planner == "used"
    assert "\n1 results\n" in result.text
    assert result.diagnostics == ()


@pytest.mark.covers("RP26")
async def test_many_calls_at_once_keep_apart() -> None:
    async def echo(query: str, scope: Any, limit: int) -> list[Record]:
        await asyncio.sleep(0.001)
        return [Record("1", f"for {scope.user}")]

    client = AsyncClient(Database(plan("echo")), providers=[FunctionProvider("echo", echo)])
    users = [f"user{n}" for n in range(30)]
    results = await asyncio.gather(*(client.context("x", scope={"user": user}) for user in users))
    for user, result in zip(users, results, strict=True):
        assert [item.record.body for item in result.results] == [f"for {user}"]


SCRIPT = """
import asyncio, sys, threading, time
from tests.context.fakes import AsyncClient, Client, Database, plan

class Hangs:
    id = "hangs"
    def search(self, query, scope, limit):
        threading.Event().wait()

settings = dict(providers=[Hangs()], provider_timeout_ms=50)
if sys.argv[1] == "sync":
    result = Client(Database(plan("hangs")), **settings).context("x")
else:
    result = asyncio.run(AsyncClient(Database(plan("hangs")), **settings).context("x"))
print(result.diagnostics)
"""


@pytest.mark.covers("RP26", "RP50")
@pytest.mark.parametrize("client", ["sync", "async"])
def test_a_provider_that_never_returns_does_not_keep_the_interpreter(client: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, client],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == "('provider hangs timed_out',)\n"
    assert done.stderr == ""


LATE = """
import sys, threading, time
from tests.context.fakes import Client, Database, plan

class Late:
    id = "late"
    def search(self, query, scope, limit):
        time.sleep(0.5)
        sys.stdout.write("done after all\\n")
        return []

settings = dict(providers=[Late()], provider_timeout_ms=50)
print(Client(Database(plan("late")), **settings).context("x").diagnostics)
"""


@pytest.mark.covers("RP50")
def test_the_end_of_the_interpreter_waits_a_moment_for_what_is_late() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == "('provider late timed_out',)\ndone after all\n"
    assert done.stderr == ""
