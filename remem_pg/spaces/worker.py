"""The worker: looks for texts without a vector at intervals and embeds them, until it is stopped.

Polling is the contract. Several workers share the work: a batch belongs to one of them, and what a
worker that died had claimed comes back when its lease ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from remem_pg import checks
from remem_pg.client import Remem
from remem_pg.errors import (
    EmbeddingUnavailable,
    InvalidArgument,
    NoAccess,
    RememError,
    ServerUnavailable,
)
from remem_pg.spaces import calls as reembed_calls
from remem_pg.spaces import reembed as reembed_flow
from remem_pg.spaces.models import ReembedResult

logger = logging.getLogger("remem_pg")

POLL = 5.0
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class WorkerReport:
    """What a worker did in its life."""

    turns: int = 0
    claimed: int = 0
    reembedded: int = 0
    activated: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class Worker:
    """Embeds for one workspace, or for all in which its role may work.

    Args:
        memory: the client whose model and workspace it is; it stays the caller's.
        everything: all workspaces that use the model's space or move to it.
        poll: seconds between two looks when there was nothing to do.
        batch_size: texts in one claim, 1 to 1000.
        lease: seconds until an abandoned claim comes back; longer than a batch takes.
        heard: called with a workspace and the result of each run that did something.
    """

    def __init__(
        self,
        memory: Remem,
        *,
        everything: bool = False,
        poll: float = POLL,
        batch_size: int = reembed_flow.BATCH,
        lease: float = reembed_flow.LEASE,
        heard: Callable[[str, ReembedResult], None] | None = None,
    ) -> None:
        for name, value in (("poll", poll), ("lease", lease)):
            if not 0.1 <= checks.real(value, name) <= 86400:
                raise InvalidArgument(detail={"argument": name, "value": value, "limit": 86400})
        self._memory = memory
        self._everything = everything
        self._poll = poll
        self._batch_size = batch_size
        self._lease = lease
        self._heard = heard
        self._clients: dict[str, Remem] = {}
        self._stop = threading.Event()
        self.report = WorkerReport()

    def stop(self) -> None:
        """Ends ``run`` after the batch at hand; safe in a signal handler."""
        self._stop.set()

    def run(self, *, once: bool = False) -> WorkerReport:
        """Works until ``stop`` (or, with ``once``, until nothing is left to do now).

        A server that goes away and a model that fails are waited for. Raises EmbeddingUnavailable
        when there is no model at all, NoAccess when the role may not work here.
        """
        began = time.monotonic()
        pause = self._poll
        while not self._stop.is_set():
            try:
                worked = self._turn()
                pause = self._poll
            except (NoAccess, InvalidArgument):
                raise
            except RememError as error:
                if once or (
                    isinstance(error, EmbeddingUnavailable)
                    and self._memory._session.embedder.fingerprint is None
                ):
                    raise
                name = type(error).__name__
                self.report.errors[name] = self.report.errors.get(name, 0) + 1
                logger.warning("worker: %s, going on in %.0f s", name, pause)
                worked = False
                pause = min(2 * pause, LONGEST_PAUSE)
                if not isinstance(error, ServerUnavailable | EmbeddingUnavailable):
                    logger.debug("worker: %s", error)
            self.report.turns += 1
            if once and not worked:
                break
            if not worked:
                self._stop.wait(pause)
        self.report.seconds = time.monotonic() - began
        return self.report

    def _turn(self) -> bool:
        worked = False
        for name in self._workspaces():
            if self._stop.is_set():
                break
            client = self._clients.setdefault(name, self._memory.workspace(name))
            result = client._do(
                reembed_flow.reembed(
                    client._session,
                    batch_size=self._batch_size,
                    lease=self._lease,
                    start="never",
                    wait=False,
                    stop=self._stop.is_set,
                )
            )
            self.report.claimed += result.claimed
            self.report.reembedded += result.reembedded
            for error, count in result.errors.items():
                self.report.errors[error] = self.report.errors.get(error, 0) + count
            if result.activated:
                self.report.activated.append(name)
            if result.claimed or result.activated:
                # what only failed or changed is waited for like nothing
                worked = worked or bool(result.reembedded) or result.activated
                if self._heard is not None:
                    self._heard(name, result)
        return worked

    def _workspaces(self) -> Sequence[str]:
        own = self._memory.workspace_name
        if not self._everything:
            return [own]
        fingerprint = self._memory._session.embedder.prepare()
        if fingerprint is None:
            reason = self._memory._session.embedder.reason
            raise EmbeddingUnavailable(reason or None)
        try:
            return self._memory._call(reembed_calls.embedding_work(fingerprint))
        except RememError as error:
            if error.code == "RM202":  # nobody uses this model yet
                return []
            raise
