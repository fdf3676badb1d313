"""What stands around ``recall`` in both clients: several at once, the text of hits, routes, and the
links that recall follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.recall import calls as recall_calls

if TYPE_CHECKING:
    from remem_pg.context.catalog_models import Route
    from remem_pg.context.scope import Scope
    from remem_pg.models import Hit, RecallResult

Format = Literal["compact", "verbose", "json"]
Provenance = Literal["verified", "llm", "heuristic", "pending", "unverified"]


class RecallMethods(Carries):
    """The methods of ``Remem``."""

    def recall_many(
        self,
        queries: Sequence[str],
        k: int = 8,
        *,
        where: str | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[RecallResult]:
        """Several questions in one call: a result for each, in their order.

        ``where``, ``scope`` and ``options`` are those of ``recall`` and hold for every question.
        The server's pipeline alone answers: no hooks, no second look, no cache. More than a
        hundred questions are asked a hundred at a time. A result without hits has every degraded
        state of its call, since the server says them once. Raises InvalidArgument and
        UnknownOption for wrong arguments; a model that fails never raises.
        """
        from remem_pg.recall import many as recall_many_flow

        options |= {"where": where, "scope": scope}
        return self._do(recall_many_flow.recall_many(self._session, queries, k, options))

    def render(
        self, hits: Iterable[Hit], format: Format = "compact", budget_bytes: int = 4000
    ) -> str:
        """Hits as a text of at most ``budget_bytes`` bytes of UTF-8; '' for none.

        ``compact``: by kind, a line a hit. ``verbose``: with scores, sources and dates. ``json``:
        ``{"hits": [...], "omitted": n}``. Long texts are shortened, the last ranks left out and
        counted. Raises InvalidArgument for another format, fewer than 40 bytes, more than 10,000
        hits.
        """
        call = recall_calls.render(self._session.workspace, hits, format, budget_bytes)
        return self._call(call)

    def route_of(self, query: str, **options: Any) -> Route:
        """The route that ``recall`` would take for a question with these options."""
        return self._call(recall_calls.route_of(self._session.workspace, query, options))

    def put_route(
        self,
        kind: str,
        arms: Sequence[str],
        workspace: str | None = None,
        *,
        pool: str | None = None,
        fallback_pools: Sequence[str] = (),
        graph_depth: int = 1,
        weights: Mapping[str, float] | None = None,
        keywords: Sequence[str] = (),
    ) -> None:
        """Says how questions of a kind (or ``general``) are answered in one workspace, or in all
        when ``workspace`` is None; a second time it replaces what it said. For administrators.

        ``arms``: vector, lexical, pointer, phrase, attribute, fusion. ``pool``: the kind whose
        pinned and important memories are tried first, then ``fallback_pools``. ``graph_depth``: 0
        follows no links. ``weights``: over the defaults. ``keywords``: words of a question that
        hint at the kind. Raises InvalidArgument and NoAccess.
        """
        self._call(
            recall_calls.put_route(
                workspace, kind, arms, pool, fallback_pools, graph_depth, weights, keywords
            )
        )

    def relate(
        self,
        src: UUID | str,
        dst: UUID | str,
        kind: str = "related",
        *,
        weight: float = 1.0,
        provenance: Provenance = "verified",
    ) -> bool:
        """Links two current memories by their ids; says whether anything changed.

        Recall follows derived_from, supersedes, part_of, member_of, contains, contained_by, scoped
        and related in both directions; contradicts, conflicts_with, not_conflict and compatible
        are kept. ``weight`` lies between 0 and 1. Raises NotFound for an id that is no current
        memory here, InvalidArgument for links across scopes and to itself.
        """
        return self._call(
            recall_calls.relate(self._session.workspace, src, dst, kind, weight, provenance)
        )

    def unrelate(self, src: UUID | str, dst: UUID | str, kind: str | None = None) -> bool:
        """Takes the link from ``src`` to ``dst`` back, of one kind or (None) of every kind; says
        whether there was one. Raises NotFound for an id that is no memory here."""
        return self._call(recall_calls.unrelate(self._session.workspace, src, dst, kind))


class AsyncRecallMethods(AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def recall_many(
        self,
        queries: Sequence[str],
        k: int = 8,
        *,
        where: str | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[RecallResult]:
        """Several questions in one call, a result for each; see ``Remem.recall_many``."""
        from remem_pg.recall import many as recall_many_flow

        options |= {"where": where, "scope": scope}
        return await self._do(recall_many_flow.recall_many(self._session, queries, k, options))

    async def render(
        self, hits: Iterable[Hit], format: Format = "compact", budget_bytes: int = 4000
    ) -> str:
        """Hits as a text of at most ``budget_bytes`` bytes; see ``Remem.render``."""
        call = recall_calls.render(self._session.workspace, hits, format, budget_bytes)
        return await self._call(call)

    async def route_of(self, query: str, **options: Any) -> Route:
        """The route that ``recall`` would take for a question with these options."""
        return await self._call(recall_calls.route_of(self._session.workspace, query, options))

    async def put_route(
        self,
        kind: str,
        arms: Sequence[str],
        workspace: str | None = None,
        *,
        pool: str | None = None,
        fallback_pools: Sequence[str] = (),
        graph_depth: int = 1,
        weights: Mapping[str, float] | None = None,
        keywords: Sequence[str] = (),
    ) -> None:
        """Says how questions of a kind are answered; see ``Remem.put_route``."""
        await self._call(
            recall_calls.put_route(
                workspace, kind, arms, pool, fallback_pools, graph_depth, weights, keywords
            )
        )

    async def relate(
        self,
        src: UUID | str,
        dst: UUID | str,
        kind: str = "related",
        *,
        weight: float = 1.0,
        provenance: Provenance = "verified",
    ) -> bool:
        """Links two current memories, says whether anything changed; see ``Remem.relate``."""
        return await self._call(
            recall_calls.relate(self._session.workspace, src, dst, kind, weight, provenance)
        )

    async def unrelate(self, src: UUID | str, dst: UUID | str, kind: str | None = None) -> bool:
        """Takes a link back, says whether there was one; see ``Remem.unrelate``."""
        return await self._call(recall_calls.unrelate(self._session.workspace, src, dst, kind))
