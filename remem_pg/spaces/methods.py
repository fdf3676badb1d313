"""``reembed``, ``spaces``, ``drop_space`` and ``embedding_backlog`` of both clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.spaces import calls as reembed_calls
from remem_pg.tenancy import calls as admin_calls

if TYPE_CHECKING:
    from remem_pg.spaces.models import Coverage, ReembedResult, SpaceStatus

T = TypeVar("T")


class ReembedMethods(Carries):
    """The methods of ``Remem``."""

    def reembed(
        self,
        *,
        batch_size: int = 64,
        limit: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> ReembedResult:
        """Embeds everything of the workspace with this client's model, and switches to it.

        A workspace of another model is moved: the new space is filled beside the old one, which
        recall uses until the switch (needs the level admin; going on needs worker). Several
        processes may run this at once. ``limit`` ends the run after so many texts; ``progress`` is
        called with texts done and in all; ``stop`` is asked between batches.
        """
        from remem_pg.spaces import reembed as reembed_flow

        flow = reembed_flow.reembed(
            self._session, batch_size=batch_size, limit=limit, progress=progress, stop=stop
        )
        return self._do(flow)

    def embedding_backlog(self) -> list[Coverage]:
        """How much has a vector, in the current space and in the one in building."""
        return self._call(reembed_calls.embedding_backlog(self._session.workspace))

    def spaces(self) -> list[SpaceStatus]:
        """Every embedding space with its state, rows and sizes."""
        return self._call(reembed_calls.list_spaces(self._session.workspace))

    def drop_space(self, space: str, workspace: str | None = None) -> str:
        """Drops a space, by name or fingerprint, that no workspace uses, with its vectors.

        Answers ``dropped``, or ``busy`` when writers held it for more than a second: try again.
        With a ``workspace``: clears away what that one left there, and answers ``emptied`` when
        others still use the space. Raises Conflict for a space in use, the default and the
        built-in one, UnknownSpace, NoAccess.
        """
        return self._call(admin_calls.drop_space(space, workspace))


class AsyncReembedMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def reembed(
        self,
        *,
        batch_size: int = 64,
        limit: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> ReembedResult:
        """Embeds everything with this client's model, and switches to it; see ``Remem.reembed``."""
        from remem_pg.spaces import reembed as reembed_flow

        flow = reembed_flow.reembed(
            self._session, batch_size=batch_size, limit=limit, progress=progress, stop=stop
        )
        return await self._do(flow)

    async def embedding_backlog(self) -> list[Coverage]:
        """How much has a vector, in the current space and in the one in building."""
        return await self._call(reembed_calls.embedding_backlog(self._session.workspace))

    async def spaces(self) -> list[SpaceStatus]:
        """Every embedding space with its state, rows and sizes."""
        return await self._call(reembed_calls.list_spaces(self._session.workspace))

    async def drop_space(self, space: str, workspace: str | None = None) -> str:
        """Drops a space that no workspace uses; see ``Remem.drop_space``."""
        return await self._call(admin_calls.drop_space(space, workspace))
