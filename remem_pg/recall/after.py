"""Re-embedding after a recall: at most once in a while per workspace, never waited for, never
seen to fail."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument
from remem_pg.spaces import reembed as reembed_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from remem_pg.spaces.models import ReembedResult
    from remem_pg.steps import Flow, Session

logger = logging.getLogger("remem_pg")

CLOSING_SECONDS = 2.0
"""How long closing a client waits for a batch to be given back."""


class AfterRecall:
    """When the last attempt of each workspace was; shared by the clients of one pool."""

    def __init__(self, cooldown: float | None) -> None:
        if cooldown is not None and checks.real(cooldown, "reembed_cooldown") < 0:
            raise InvalidArgument(
                detail={"argument": "reembed_cooldown", "value": cooldown, "minimum": 0}
            )
        self._cooldown = cooldown
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def due(self, workspace: str) -> bool:
        """Whether an attempt may begin now; if so, the next one is a cooldown away."""
        if self._cooldown is None or self._closed.is_set():
            return False
        now = time.monotonic()
        with self._lock:
            last = self._last.get(workspace)
            if last is not None and now - last < self._cooldown:
                return False
            self._last[workspace] = now
            return True

    def in_thread(self, session: Session, drive: Callable[[Flow[ReembedResult]], Any]) -> None:
        """One bounded batch in a daemon thread."""

        def work() -> None:
            try:
                drive(self._flow(session))
            except BaseException as error:  # the recall is answered: whatever it is, it is nobody's
                self._note(session, error)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=work, name="remem-reembed", daemon=True)
        try:
            with self._lock:
                self._threads.add(thread)
            thread.start()
        except RuntimeError as error:  # no more threads to be had
            with self._lock:
                self._threads.discard(thread)
            self._note(session, error)

    def in_task(
        self,
        session: Session,
        drive: Callable[[Flow[ReembedResult]], Coroutine[Any, Any, Any]],
    ) -> None:
        """The same as a task of the running loop."""

        async def work() -> None:
            try:
                await drive(self._flow(session))
            except Exception as error:  # as above
                self._note(session, error)

        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _flow(self, session: Session) -> Flow[ReembedResult]:
        batch = reembed_flow.BATCH
        return reembed_flow.reembed(
            session, limit=batch, start="from_hash", wait=False, stop=self._closed.is_set
        )

    @staticmethod
    def _note(session: Session, error: BaseException) -> None:
        logger.debug("no re-embedding in %r: %s", session.workspace, type(error).__name__)

    def close(self) -> None:
        """Begins nothing more, and waits a little for what runs."""
        self._closed.set()
        with self._lock:
            threads = list(self._threads)
        until = time.monotonic() + CLOSING_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    async def aclose(self) -> None:
        """As ``close``, for tasks; those that are not done in time are cancelled."""
        self._closed.set()
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
