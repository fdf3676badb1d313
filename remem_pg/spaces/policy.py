"""Who embeds for a workspace: its space against this client's model, decided in one place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from remem_pg import calls
from remem_pg.errors import Conflict, NoAccess, UnknownSpace
from remem_pg.models import SpaceInfo
from remem_pg.spaces.embedder import HASH_BACKEND, document_text
from remem_pg.steps import Decision, Flow, InTransaction, Run, Session, Together, Work
from remem_pg.tenancy import calls as admin_calls

MISMATCH_SECONDS = 30.0
"""How long a mismatch is believed: a job may move the workspace to this client's model."""


def decide(session: Session, *, writing: bool) -> Flow[Decision]:
    """Compares the model with the workspace's space; made once, then remembered.

    Same fingerprint: the client embeds. Otherwise an empty workspace is moved to the client's
    model, when the caller chose it or the space is the built-in default, and the role may. A
    workspace that has memories is never touched: the server embeds (hash, or the model in the
    database) or the search is lexical, and results say ``space_mismatch``; that is looked at again
    after half a minute.
    """
    known = session.decision
    if known is not None and (known.until is None or time.monotonic() < known.until):
        return known
    fingerprint: str | None = yield Work(session.embedder.prepare)
    if fingerprint is None:
        session.decision = Decision(until=session.embedder.again_at)
        return session.decision
    space = yield Run(admin_calls.current_space(session.workspace))
    if space.fingerprint == fingerprint:
        session.decision = Decision(fingerprint)
        return session.decision
    if session.embedder.explicit or space.backend == HASH_BACKEND:
        memories = yield Run(calls.count(session.workspace, None))
        if memories == 0 and not writing:
            return Decision()  # nothing to find, nothing to warn about; the first write decides
        if memories == 0 and (yield from _adopt(session, fingerprint)):
            session.decision = Decision(fingerprint)
            return session.decision
    session.embedder.log_once(
        f"mismatch {session.workspace}",
        "workspace %r uses the embedding space %r, this client's model is %r: %s",
        session.workspace,
        space.name,
        session.embedder.descriptor.get("name"),
        _instead(session, space),
    )
    until = time.monotonic() + MISMATCH_SECONDS
    session.decision = Decision(degraded=("space_mismatch",), until=until)
    return session.decision


def _instead(session: Session, space: SpaceInfo) -> str:
    """What happens where the client's model is not that of the workspace."""
    if space.backend == HASH_BACKEND:
        return "the server embeds"
    if space.fingerprint == session.handshake.server_model:
        return "the model in the database embeds questions; open the client with it to write"
    return "searching by words only; open the client with the model of the workspace"


def _adopt(session: Session, fingerprint: str) -> Flow[bool]:
    """Points an empty workspace at the client's model; False when the role may not."""

    def activate() -> Flow[None]:
        yield Run(admin_calls.activate_space(fingerprint, session.workspace))

    def register_and_activate() -> Flow[None]:
        yield Run(admin_calls.register_space(session.embedder.descriptor))
        yield from activate()

    try:
        try:
            yield Together(activate())
        except UnknownSpace:
            yield Together(register_and_activate())
    except (NoAccess, Conflict):  # no administrator; somebody wrote meanwhile
        return False
    return True


def forget_space(session: Session, attempt: int) -> Flow[bool]:
    """After RM201 or RM202: forget the space, and say whether the call may be sent again."""
    session.decision = None
    aborted = yield InTransaction()
    return attempt == 0 and not aborted


def with_vectors(session: Session, items: Sequence[dict[str, Any]]) -> Flow[list[dict[str, Any]]]:
    """The items, each without a vector of its own given one if this client may embed."""
    todo = [i for i, item in enumerate(items) if "embedding" not in item]
    result = list(items)
    if not todo:
        return result
    decision = yield from decide(session, writing=True)
    if decision.space is None:
        return result
    texts = [document_text(items[i]) for i in todo]
    vectors = yield Work(partial(session.embedder.embed, texts, query=False))
    for i, vector in zip(todo, vectors or (), strict=False):
        if vector is not None:
            result[i] = {**items[i], "embedding": vector, "space": decision.space}
    return result
