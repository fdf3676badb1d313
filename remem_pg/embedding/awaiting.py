"""Awaiting a model's answer from code that is not asynchronous."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

CALLERS_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "remem_callers_loop", default=None
)
"""The loop of the asynchronous client on whose behalf a thread works."""

_own: asyncio.AbstractEventLoop | None = None
_lock = threading.Lock()


def awaited(answer: Any) -> Any:
    """The answer, awaited if it has to be: in the loop of the asynchronous client that waits for
    this thread, else in a loop in a thread of its own. Never called in a running loop's thread
    that it would wait for."""
    if not inspect.isawaitable(answer):
        return answer
    loop = CALLERS_LOOP.get()
    if loop is None or loop.is_closed() or _current() is loop:
        loop = _own_loop()
    return asyncio.run_coroutine_threadsafe(_coroutine(answer), loop).result()


async def _coroutine(answer: Awaitable[T]) -> T:
    return await answer


def _current() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _own_loop() -> asyncio.AbstractEventLoop:
    global _own
    with _lock:
        if _own is None or _own.is_closed():
            _own = asyncio.new_event_loop()
            thread = threading.Thread(target=_own.run_forever, name="remem-await", daemon=True)
            thread.start()
        return _own
