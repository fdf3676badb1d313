"""``remember_stream``, ``export`` and ``import_records`` of both clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.writing import remember as remember_flow

if TYPE_CHECKING:
    from remem_pg.models import BulkReport, MemoryInput
    from remem_pg.operating.transfer import ExportReport, ImportReport

OnError = Literal["abort", "report"]


class BulkMethods(Carries):
    """The methods of ``Remem``."""

    def remember_stream(
        self,
        items: Iterable[MemoryInput],
        on_error: OnError = "abort",
        batch_size: int = 500,
        on_batch: Callable[[BulkReport], Any] | None = None,
    ) -> BulkReport:
        """As ``remember_many`` for any number of items, read one batch at a time.

        Keeps counts and the first thousand refusals instead of every result; ``on_batch`` is
        called with them after each batch. With ``abort`` nothing is committed before the end.
        """
        return self._do(
            remember_flow.remember_stream(self._session, items, on_error, batch_size, on_batch)
        )

    def export(
        self,
        write: Callable[[str], Any],
        *,
        vectors: bool = False,
        forgotten: bool | None = None,
    ) -> ExportReport:
        """Writes the whole workspace, as it is at one moment, as JSON lines.

        ``write`` is called with each line, without an end of line. ``vectors``: those of the
        current space too. ``forgotten``: what is forgotten, which needs the level write; None:
        where the role may.
        """
        from remem_pg.operating import transfer

        return self._do(transfer.export(self._session, write, vectors, forgotten))

    def import_records(
        self,
        lines: Iterable[str | bytes],
        on_error: OnError = "abort",
        on_batch: Callable[[ImportReport], Any] | None = None,
    ) -> ImportReport:
        """Takes the lines of an export into this workspace, in one transaction.

        Ids and times stay. What is here already is left as it is; what was forgotten, superseded
        or purged here does not come back, and the report counts it. A file that was cut off, or
        holds what only a later version knows, is refused whole.
        """
        from remem_pg.operating import transfer

        return self._do(transfer.import_records(self._session, lines, on_error, on_batch))


class AsyncBulkMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def remember_stream(
        self,
        items: Iterable[MemoryInput],
        on_error: OnError = "abort",
        batch_size: int = 500,
        on_batch: Callable[[BulkReport], Any] | None = None,
    ) -> BulkReport:
        """As ``remember_many`` for any number of items; see ``Remem.remember_stream``."""
        return await self._do(
            remember_flow.remember_stream(self._session, items, on_error, batch_size, on_batch)
        )

    async def export(
        self,
        write: Callable[[str], Any],
        *,
        vectors: bool = False,
        forgotten: bool | None = None,
    ) -> ExportReport:
        """Writes the whole workspace as JSON lines; see ``Remem.export``."""
        from remem_pg.operating import transfer

        return await self._do(transfer.export(self._session, write, vectors, forgotten))

    async def import_records(
        self,
        lines: Iterable[str | bytes],
        on_error: OnError = "abort",
        on_batch: Callable[[ImportReport], Any] | None = None,
    ) -> ImportReport:
        """Takes the lines of an export, in one transaction; see ``Remem.import_records``."""
        from remem_pg.operating import transfer

        return await self._do(transfer.import_records(self._session, lines, on_error, on_batch))
