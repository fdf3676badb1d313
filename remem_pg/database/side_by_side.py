"""How the async client sends several calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from remem_pg.calls import Call
from remem_pg.errors import ServerUnavailable
from remem_pg.steps import SideBySide

GRACE = 1.0
"""Seconds that the others have to end by themselves when one call ends all: what is wrong with one
is as a rule wrong with all, and a query that fails as it is cancelled costs its connection."""


async def perform(step: SideBySide, run: Callable[[Call[Any]], Awaitable[Any]]) -> dict[str, Any]:
    """The answers of the step's calls by name, each made by ``run`` on a connection of its own.

    A call whose connection broke is answered with its error. What is not there when the time is up
    is cancelled, on the server as well, and left out, whatever it might still have answered; only
    the mandatory call is waited for. Any other error ends all calls and is raised.
    """

    async def answer(call: Call[Any]) -> Any:
        try:
            return await run(call)
        except ServerUnavailable as error:
            return error

    tasks = {name: asyncio.create_task(answer(call)) for name, call in step.calls.items()}
    mandatory = tasks.get(step.mandatory)
    try:
        if tasks:
            done, late = await asyncio.wait(
                tasks.values(), timeout=step.seconds, return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                if task.exception() is not None:
                    await asyncio.wait(tasks.values(), timeout=GRACE)
                task.result()  # raises what ends the call
            for task in late - {mandatory}:
                task.cancel()
            if mandatory in late:
                await mandatory
                done.add(mandatory)
        return {name: task.result() for name, task in tasks.items() if task in done}
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
