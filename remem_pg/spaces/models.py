"""What the embedding jobs take and return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from remem_pg.models import _Record

__all__ = ["Coverage", "EmbeddingJob", "ReembedResult", "SpaceStatus"]


@dataclass(frozen=True, slots=True)
class Coverage(_Record):
    """How much of a workspace has a vector in one space: memories, topics and providers.

    ``embedded + empty + pending + set_aside == total``; of the pending, ``claimed`` are being
    embedded and ``waiting`` are to be tried again. ``empty`` texts have no direction and need no
    vector. ``cutover`` is ``completed`` for the space that recall uses, else ``building``.
    """

    space: str = ""
    fingerprint: str = ""
    state: str = ""
    total: int = 0
    embedded: int = 0
    empty: int = 0
    pending: int = 0
    claimed: int = 0
    waiting: int = 0
    set_aside: int = 0
    index_state: str = ""
    cutover: str = "building"
    activated: bool = False


@dataclass(frozen=True, slots=True)
class EmbeddingJob(_Record):
    """One claimed text."""

    claim_id: UUID
    item_no: int = 0
    kind: str = ""
    id: str = ""
    text: str = ""
    content_hash: str = ""
    failures: int = 0
    space: str = ""
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class SpaceStatus(_Record):
    """An embedding space as ``remem spaces`` lists it; what is unknown to the role is None.

    ``state`` is the space's in the database, ``workspace_state`` that in the workspace (None: it
    has nothing there); ``coverage`` lies between 0 and 1, sizes are in bytes.
    """

    name: str = ""
    fingerprint: str = ""
    backend: str = ""
    dimensions: int = 0
    state: str = ""
    workspace_state: str | None = None
    memories: int = 0
    vectors: int = 0
    coverage: float | None = None
    set_aside: int = 0
    workspaces: int | None = None
    index_state: str = ""
    index_bytes: int | None = None
    table_bytes: int | None = None


@dataclass(slots=True)
class ReembedResult:
    """What one run did.

    ``status`` is ``no-op`` (nothing was there to do), ``completed`` (something was embedded, or
    nothing had to be) or ``failed`` (nothing could be). ``errors`` names classes and states with
    their counts, no texts. ``activated`` says that this run switched the workspace; ``coverage``
    is that of the model's space afterwards, None for a workspace without anything in it.
    """

    run_id: UUID
    status: str = "no-op"
    space: str | None = None
    claimed: int = 0
    reembedded: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    coverage: Coverage | None = None
    activated: bool = False
    dropped: list[str] = field(default_factory=list)
    stopped: bool = False
    seconds: float = 0.0

    def note(self, error: str, count: int = 1) -> None:
        """One more of an error's class or an outcome."""
        self.errors[error] = self.errors.get(error, 0) + count

    def as_dict(self) -> dict[str, Any]:
        """The result as a document."""
        from dataclasses import asdict

        return asdict(self)
