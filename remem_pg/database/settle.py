"""How the clients do jobs at the same time, each with a time of its own, and wait for none longer.

What hangs is left behind in a daemon thread: it does not block the answer, and the interpreter's
end for two seconds at most.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from remem_pg.embedding.awaiting import CALLERS_LOOP
from remem_pg.steps import Flow, Job, Settle, Settled

T = TypeVar("T")

LATE = "timed_out"

THREADS = ("remem-job", "remem-work")
"""Names of the threads that may be left behind."""

PATIENCE = 2.0
"""Seconds that the end of the interpreter waits for them, all together."""

_left: set[asyncio.Task[Any]] = set()  # a task that nobody refers to may vanish while it runs


@atexit.register
def _wait_for_the_late() -> None:
    """The interpreter ends daemon threads as they come out of native code, which a model that is
    being loaded answers by aborting the process: most are done in a moment."""
    until = time.monotonic() + PATIENCE
    for thread in threading.enumerate():
        if thread.name in THREADS and thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))


def ask(function: Callable[[], Any]) -> Any:
    """The function's answer; an awaitable is awaited in an event loop of its own."""
    answer = function()
    return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


def in_threads(
    step: Settle, drive: Callable[[Flow[Any]], Any], *, alone: bool
) -> dict[str, Settled]:
    """The jobs in threads. ``alone``: the database's jobs one after the other in this thread,
    because they share a connection of the caller's."""
    started = time.monotonic()
    outcomes: queue.SimpleQueue[tuple[str, Settled]] = queue.SimpleQueue()
    waiting: dict[str, Job] = {}
    settled: dict[str, Settled] = {}
    for name, job in step.jobs.items():
        if alone and job.database:
            continue
        settled[name] = Settled(LATE, job.seconds * 1000)
        context = contextvars.copy_context()
        work = partial(context.run, _work, name, job, drive, outcomes.put)
        try:
            threading.Thread(target=work, name=THREADS[0], daemon=True).start()
        except RuntimeError as error:  # no more threads to be had
            settled[name] = Settled("failed", 0.0, error=error)
        else:
            waiting[name] = job
    for name, job in step.jobs.items():
        if name not in settled:
            settled[name] = _outcome(job, drive)
    while waiting:
        until = started + max(job.seconds for job in waiting.values())
        try:
            name, outcome = outcomes.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        late = outcome.milliseconds > waiting.pop(name).seconds * 1000
        settled[name] = Settled(LATE, outcome.milliseconds) if late else outcome
    return {name: settled[name] for name in step.jobs}


def _work(
    name: str,
    job: Job,
    drive: Callable[[Flow[Any]], Any],
    put: Callable[[tuple[str, Settled]], None],
) -> None:
    put((name, _outcome(job, drive)))


def _outcome(job: Job, drive: Callable[[Flow[Any]], Any]) -> Settled:
    started = time.monotonic()
    try:
        value = drive(job.flow)
    except (KeyboardInterrupt, SystemExit):
        if threading.current_thread() is threading.main_thread():
            raise
        return Settled("failed", _since(started), error=RuntimeError("it wanted to exit"))
    except BaseException as error:
        return Settled("failed", _since(started), error=error)
    return Settled("ok", _since(started), value)


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000


async def ask_async(function: Callable[[], Any]) -> Any:
    """The function's answer, called in a daemon thread; an awaitable is awaited in this loop."""
    answer = await in_daemon(function)
    return await answer if inspect.isawaitable(answer) else answer


async def in_daemon(function: Callable[[], T]) -> T:
    """As ``asyncio.to_thread``, in a thread that the interpreter does not wait for when it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()
    # what the function has to await of somebody else's belongs to the caller's loop
    context.run(CALLERS_LOOP.set, loop)

    def finish(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function)
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, value, failure)

    threading.Thread(target=work, name=THREADS[1], daemon=True).start()
    return await future


async def in_tasks(
    step: Settle, drive: Callable[[Flow[Any]], Coroutine[Any, Any, Any]], *, alone: bool
) -> dict[str, Settled]:
    """The jobs as tasks. One that is late is cancelled, on the server as well, and not waited for.
    ``alone``: the database's jobs are waited for, one after the other: a cancelled statement would
    take the caller's transaction with it."""
    turn = asyncio.Lock()
    tasks: dict[str, asyncio.Task[Settled]] = {}
    for name, job in step.jobs.items():
        own = alone and job.database
        work = _in_turn(turn, job, drive) if own else _settled(job, drive)
        tasks[name] = asyncio.create_task(work)
    started = time.monotonic()
    settled: dict[str, Settled] = {}
    try:
        pending = dict(tasks)
        while pending:
            limits = [
                started + step.jobs[name].seconds
                for name in pending
                if not (alone and step.jobs[name].database)
            ]
            timeout = max(0.0, min(limits) - time.monotonic()) if limits else None
            await asyncio.wait(
                pending.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            now = time.monotonic()
            for name, task in list(pending.items()):
                job = step.jobs[name]
                if task.done():
                    settled[name] = task.result()
                    del pending[name]
                elif now >= started + job.seconds and not (alone and job.database):
                    settled[name] = Settled(LATE, (now - started) * 1000)
                    _leave(pending.pop(name))
    finally:
        for task in tasks.values():
            if not task.done():
                _leave(task)
    return {name: settled[name] for name in step.jobs}


async def _in_turn(
    turn: asyncio.Lock, job: Job, drive: Callable[[Flow[Any]], Coroutine[Any, Any, Any]]
) -> Settled:
    async with turn:
        return await _settled(job, drive)


async def _settled(job: Job, drive: Callable[[Flow[Any]], Coroutine[Any, Any, Any]]) -> Settled:
    started = time.monotonic()
    try:
        value = await drive(job.flow)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # somebody else's coroutine cancelled itself
        return Settled("failed", _since(started), error=RuntimeError("it was cancelled"))
    except Exception as error:
        return Settled("failed", _since(started), error=error)
    return Settled("ok", _since(started), value)


def _leave(task: asyncio.Task[Any]) -> None:
    task.cancel()
    _left.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that nobody warns of it
