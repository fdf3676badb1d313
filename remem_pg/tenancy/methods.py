"""Workspaces, languages and access: the administration of tenants, of both clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.steps import Flow, Run
from remem_pg.tenancy import calls as admin_calls

if TYPE_CHECKING:
    from remem_pg.tenancy.models import Grant, Level, ReindexReport, WorkspaceInfo

PAGE = 1000
"""Workspaces in one answer."""


def _workspaces() -> Flow[list[WorkspaceInfo]]:
    found: list[WorkspaceInfo] = []
    after = None
    while True:
        page = yield Run(admin_calls.list_workspaces(after, PAGE))
        found += page
        if len(page) < PAGE:
            return found
        after = page[-1].workspace


class TenancyMethods(Carries):
    """The methods of ``Remem``."""

    def set_language(self, language: str) -> bool:
        """Sets the language of this workspace; says whether that changed anything.

        What is written from now on is analysed by it; ``reindex_text`` does the same for what is
        there, and until then recall is ``degraded`` by ``analyser_mix``.
        """
        return self._call(admin_calls.set_language(self._session.workspace, language))

    def reindex_text(
        self,
        budget: float | None = None,
        *,
        progress: Callable[[float, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> ReindexReport:
        """Analyses the memories anew that another language or version analysed.

        ``budget``: seconds after which the rest is left to the next run; None: until done. Recall
        and writers go on meanwhile. ``progress`` is called with the part that is done (0 to 1) and
        the memories done by this run; ``stop`` is asked between calls.
        """
        from remem_pg.tenancy import reindex as reindex_flow

        flow = reindex_flow.reindex_text(self._session, budget, progress=progress, stop=stop)
        return self._do(flow)

    def workspaces(self) -> list[WorkspaceInfo]:
        """The workspaces that this role may see (in strict mode: in which it may work)."""
        return self._do(_workspaces())

    def grant_access(
        self,
        role: str,
        workspace: str | None = None,
        level: Level = "read",
        max_source_class: str | None = None,
    ) -> None:
        """Lets a database role into one workspace, or into all when ``workspace`` is None."""
        self._call(admin_calls.grant_access(role, workspace, level, max_source_class))

    def revoke_access(self, role: str, workspace: str | None = None) -> bool:
        """Takes a grant back; says whether there was one."""
        return self._call(admin_calls.revoke_access(role, workspace))

    def grants(self, role: str | None = None, workspace: str | None = None) -> list[Grant]:
        """The grants of a role or of all, in every workspace or those that hold in one."""
        return self._call(admin_calls.list_grants(role, workspace))

    def configure(self, name: str, value: str) -> None:
        """Changes a setting of the whole database."""
        self._call(admin_calls.configure(name, value))


class AsyncTenancyMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def set_language(self, language: str) -> bool:
        """Sets the language of this workspace; see ``Remem.set_language``."""
        return await self._call(admin_calls.set_language(self._session.workspace, language))

    async def reindex_text(
        self,
        budget: float | None = None,
        *,
        progress: Callable[[float, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> ReindexReport:
        """Analyses anew what another language or version analysed; see ``Remem.reindex_text``."""
        from remem_pg.tenancy import reindex as reindex_flow

        flow = reindex_flow.reindex_text(self._session, budget, progress=progress, stop=stop)
        return await self._do(flow)

    async def workspaces(self) -> list[WorkspaceInfo]:
        """The workspaces that this role may see (in strict mode: in which it may work)."""
        return await self._do(_workspaces())

    async def grant_access(
        self,
        role: str,
        workspace: str | None = None,
        level: Level = "read",
        max_source_class: str | None = None,
    ) -> None:
        """Lets a database role into one workspace, or into all when ``workspace`` is None."""
        await self._call(admin_calls.grant_access(role, workspace, level, max_source_class))

    async def revoke_access(self, role: str, workspace: str | None = None) -> bool:
        """Takes a grant back; says whether there was one."""
        return await self._call(admin_calls.revoke_access(role, workspace))

    async def grants(self, role: str | None = None, workspace: str | None = None) -> list[Grant]:
        """The grants of a role or of all, in every workspace or those that hold in one."""
        return await self._call(admin_calls.list_grants(role, workspace))

    async def configure(self, name: str, value: str) -> None:
        """Changes a setting of the whole database."""
        await self._call(admin_calls.configure(name, value))
