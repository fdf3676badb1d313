"""``doctor`` and ``maintain`` of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.operating import calls as operations_calls

if TYPE_CHECKING:
    from remem_pg.operating.models import CheckRow, MaintainRow


class OperationsMethods(Carries):
    """The methods of ``Remem``."""

    def doctor(self, *, everything: bool = False) -> list[CheckRow]:
        """What is wrong about this workspace and what to do about it; it only reports.

        ``everything``: about the whole database, for its administrators.
        """
        scope = None if everything else self._session.workspace
        return self._call(operations_calls.doctor(scope))

    def maintain(self, budget: float = 30.0) -> list[MaintainRow]:
        """Upkeep of the whole database, for its administrators, at most about ``budget`` seconds.

        Commands that no function can run come back with the state ``due``; ``remem maintain`` runs
        them too.
        """
        return self._call(operations_calls.maintain(budget))


class AsyncOperationsMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def doctor(self, *, everything: bool = False) -> list[CheckRow]:
        """What is wrong about this workspace and what to do about it; it only reports.

        ``everything``: about the whole database, for its administrators.
        """
        scope = None if everything else self._session.workspace
        return await self._call(operations_calls.doctor(scope))

    async def maintain(self, budget: float = 30.0) -> list[MaintainRow]:
        """Upkeep of the whole database, for its administrators, at most about ``budget`` seconds.

        Commands that no function can run come back with the state ``due``; ``remem maintain`` runs
        them too.
        """
        return await self._call(operations_calls.maintain(budget))
