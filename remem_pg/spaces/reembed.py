"""One run of the embedding job, written once for the clients, the command and the worker.

Claim a batch in a short transaction, embed it outside, store what still holds; when nothing is
left, build the index, switch, and clear away what the workspace has left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Literal
from uuid import uuid4

from remem_pg import checks
from remem_pg.errors import (
    Conflict,
    EmbeddingUnavailable,
    InvalidArgument,
    NoAccess,
    RememError,
    UnknownSpace,
)
from remem_pg.spaces import calls as reembed_calls
from remem_pg.spaces.embedder import HASH_BACKEND
from remem_pg.spaces.models import Coverage, EmbeddingJob, ReembedResult
from remem_pg.steps import Flow, InTransaction, Run, Session, Work
from remem_pg.tenancy import calls as admin_calls
from remem_pg.vector import Vector

BATCH = 64
"""Texts in one claim: large enough that the round trips are a small part of the time."""
LEASE = 900.0
"""Seconds until an abandoned claim comes back."""
CLOSE_TRIES = 3
"""After so many rounds that ended with new rows again, a switch may leave a few to the next run."""
GRACE = 1.0
"""Seconds between a switch and the drop: recalls that began before it are over by then."""
PAUSE = 0.2
MOST_ROUNDS = 5000
"""Rounds without anything to claim, a quarter of an hour of waiting for others: a lease ends."""
PROBE = "memory"
"""What any model embeds: when it fails too, it is the model and not the texts."""

Start = Literal["always", "from_hash", "never"]
Progress = Callable[[int, int], None]


def reembed(
    session: Session,
    *,
    batch_size: int = BATCH,
    limit: int | None = None,
    lease: float = LEASE,
    start: Start = "always",
    wait: bool = True,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Flow[ReembedResult]:
    """Brings a workspace into the space of this client's model.

    Args:
        batch_size: texts in one claim, 1 to 1000.
        limit: ends the run after about so many texts; None: when nothing is left.
        lease: seconds that a claim holds.
        start: whether a workspace of another space is moved: ``always`` (needs the level admin),
            ``from_hash`` only away from the built-in one, ``never``.
        wait: waits for what other workers hold before it ends.
        progress: called with texts done and texts in all.
        stop: asked between batches; what is held is given back.

    Raises EmbeddingUnavailable without a model or when it embeds nothing at all.
    """
    if not 1 <= checks.integer(batch_size, "batch_size") <= 1000:
        raise InvalidArgument(detail={"argument": "batch_size", "value": batch_size, "limit": 1000})
    began = time.monotonic()
    fingerprint: str | None = yield Work(session.embedder.prepare)
    if fingerprint is None:
        raise EmbeddingUnavailable(session.embedder.reason or None)
    if (yield InTransaction()):
        raise InvalidArgument(
            "a run commits batch by batch", hint="give the client a DSN, a pool, or autocommit"
        )
    result = ReembedResult(uuid4())
    found = yield Run(reembed_calls.embedding_backlog(session.workspace))
    target = yield from _target(session, fingerprint, found, start)
    if target is not None:
        result.space, result.coverage = target.space, target
        job = _Job(session, fingerprint, result, batch_size, lease, progress, stop)
        try:
            yield from _run(job, target, limit, wait)
        except Exception:
            with contextlib.suppress(RememError):
                yield Run(reembed_calls.release_claims(session.workspace, result.run_id))
            raise
        if result.activated:
            session.decision = None
        yield from _clear_away(job, found)
        if result.claimed or result.activated or start == "always":
            yield from _titles(job, limit)
        if result.claimed or result.activated:
            failed = result.errors and not result.reembedded and not result.activated
            result.status = "failed" if failed else "completed"
    result.seconds = time.monotonic() - began
    return result


class _Job:
    """What the parts of a run share."""

    def __init__(
        self,
        session: Session,
        fingerprint: str,
        result: ReembedResult,
        batch_size: int,
        lease: float,
        progress: Progress | None,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.session = session
        self.workspace = session.workspace
        self.fingerprint = fingerprint
        self.result = result
        self.batch_size = batch_size
        self.lease = lease
        self.progress = progress
        self.stop = stop or (lambda: False)


def _target(
    session: Session, fingerprint: str, found: Sequence[Coverage], start: Start
) -> Flow[Coverage | None]:
    """The coverage of the model's space, to which the workspace is moved if that is wanted."""
    for coverage in found:
        if coverage.fingerprint == fingerprint:
            # what is in building is finished first, unless this is a call for the current space
            if coverage.state == "active" and len(found) > 1 and start == "always":
                return (yield from _begin(session, fingerprint))
            return coverage
    if not found or start == "never":
        return None
    current = yield Run(admin_calls.current_space(session.workspace))
    if start == "from_hash" and (current.backend != HASH_BACKEND or len(found) > 1):
        return None
    if session.embedder.descriptor.get("backend") == HASH_BACKEND and not session.embedder.explicit:
        # a model that is missing today must not replace its vectors by those of the hash
        raise InvalidArgument(
            f"the workspace uses {current.name}, and only the built-in hash was found here",
            detail={"argument": "embedding", "space": current.name},
            hint="have the model installed, or ask for the hash by name: --embedding hash",
        )
    try:
        return (yield from _begin(session, fingerprint))
    except UnknownSpace:
        yield Run(admin_calls.register_space(session.embedder.descriptor))
        return (yield from _begin(session, fingerprint))


def _begin(session: Session, fingerprint: str) -> Flow[Coverage | None]:
    begun: Coverage | None = yield Run(reembed_calls.start_reembed(session.workspace, fingerprint))
    return begun


def _run(job: _Job, target: Coverage, limit: int | None, wait: bool) -> Flow[None]:
    rounds = 0
    total = target.pending
    result = job.result
    while not job.stop():
        size = job.batch_size if limit is None else min(job.batch_size, limit - result.claimed)
        batch: list[EmbeddingJob] = []
        if size > 0:
            try:
                batch = yield Run(
                    reembed_calls.claim_embeddings(
                        job.workspace, job.fingerprint, size, job.lease, result.run_id
                    )
                )
            except UnknownSpace:
                return  # somebody turned the workspace to another space meanwhile
        if batch:
            result.claimed += len(batch)
            yield from _embed(job, batch)
            if job.progress is not None:
                job.progress(result.reembedded, max(total, result.claimed))
            continue
        coverage = yield Run(reembed_calls.finish_reembed(job.workspace, rounds >= CLOSE_TRIES))
        rounds += 1
        if coverage is None or coverage.fingerprint != job.fingerprint:
            return  # somebody switched, or turned to another space
        result.coverage = coverage
        result.activated = coverage.activated
        if coverage.activated or coverage.state != "building" or size <= 0:
            return
        total = max(total, result.claimed + coverage.pending)
        few = coverage.total // 100  # what a switch may leave behind, as the server says
        if coverage.set_aside > few or rounds > MOST_ROUNDS:
            return
        if coverage.pending <= few and not (yield from _index(job, wait)):
            return
        if coverage.claimed or coverage.waiting:
            if rounds > CLOSE_TRIES and not (coverage.claimed and wait):
                return  # what is left is not to be tried yet
            yield Work(partial(time.sleep, PAUSE))
    result.stopped = True
    yield Run(reembed_calls.release_claims(job.workspace, result.run_id))


def _titles(job: _Job, limit: int | None) -> Flow[None]:
    """The second vectors of topics, which are no claims: missing, they cost a plan some matches."""
    from remem_pg.context import catalog

    coverage = job.result.coverage
    if coverage is not None and coverage.state == "active" and not job.result.stopped:
        left = None if limit is None else limit - job.result.claimed
        yield from catalog.complete(job.session, left, job.stop)


def _embed(job: _Job, batch: Sequence[EmbeddingJob]) -> Flow[None]:
    """A batch: as a whole, or text by text when the model refuses it."""
    result, claim_id = job.result, batch[0].claim_id
    vectors = yield Work(partial(_vectors, job, [one.text for one in batch]))
    if not isinstance(vectors, Exception):
        yield from _store(job, batch, vectors)
        return
    probe = yield Work(partial(_vectors, job, [PROBE]))
    if isinstance(probe, Exception):
        # not a text but the model: no row is blamed
        yield Run(reembed_calls.release_claims(job.workspace, result.run_id))
        why = type(vectors).__name__
        raise EmbeddingUnavailable(f"the model fails: {why}", detail={"space": result.space})
    failed: list[tuple[EmbeddingJob, str]] = []
    for one in batch:
        single: list[Vector] | Exception = vectors
        if len(batch) > 1:
            single = yield Work(partial(_vectors, job, [one.text]))
        if isinstance(single, Exception):
            failed.append((one, type(single).__name__))
        else:
            yield from _store(job, [one], single)
    for name in sorted({name for _, name in failed}):
        items = [one.item_no for one, why in failed if why == name]
        yield Run(reembed_calls.fail_embeddings(job.workspace, claim_id, name, items))
        result.note(name, len(items))


def _vectors(job: _Job, texts: Sequence[str]) -> list[Vector] | Exception:
    try:
        return job.session.embedder.embed_documents(texts)
    except Exception as error:  # a model is somebody else's code; its class is counted
        return error


def _store(job: _Job, batch: Sequence[EmbeddingJob], vectors: Sequence[Vector]) -> Flow[None]:
    flat = Vector(tuple(chain.from_iterable(vector.values for vector in vectors)))
    outcomes = yield Run(
        reembed_calls.complete_embeddings(
            job.workspace, batch[0].claim_id, [one.item_no for one in batch], flat
        )
    )
    for outcome in outcomes.values():
        if outcome in ("stored", "empty"):
            job.result.reembedded += 1
        else:
            job.result.note(outcome)


def _index(job: _Job, wait: bool) -> Flow[bool]:
    """Builds the index of the loaded space; False when it is not there and not to be waited for."""
    while True:
        index = yield Run(reembed_calls.space_index(job.workspace))
        if index["state"] == "valid" or (index["small"] and index["state"] != "building"):
            return True
        if index["state"] == "building":
            if not wait or job.stop():
                return False
            yield Work(partial(time.sleep, PAUSE))
        elif index["is_owner"]:
            if index["state"] == "invalid":
                yield Run(reembed_calls.command(index["drop"]))
            yield Run(reembed_calls.command(index["create"]))
        else:
            yield Run(reembed_calls.build_space_index(job.workspace))


def _clear_away(job: _Job, before: Sequence[Coverage]) -> Flow[None]:
    """Drops what this workspace has left behind; whatever is in the way is left to a later run."""
    result = job.result
    left = []
    if result.activated:
        left = [c.fingerprint for c in before if c.fingerprint != job.fingerprint]
        yield Work(partial(time.sleep, GRACE))
    elif not result.claimed:
        return
    with contextlib.suppress(RememError):
        spaces = yield Run(reembed_calls.list_spaces(job.workspace))
        left += [
            space.fingerprint
            for space in spaces
            if space.state == "retired" and (space.vectors or space.backend != HASH_BACKEND)
        ]
        for space in dict.fromkeys(left):
            try:
                for _ in range(10):
                    outcome = yield Run(reembed_calls.drop_space(space, job.workspace))
                    if outcome != "busy":
                        result.dropped.append(space)
                        break
                    yield Work(partial(time.sleep, PAUSE))
            except (Conflict, UnknownSpace, NoAccess):
                continue
