"""The asynchronous client: ``Remem`` with ``await``. A model runs in a thread, not in the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack
from uuid import UUID

import psycopg

from remem_pg import calls, checks, steps
from remem_pg.context.methods import AsyncContextMethods
from remem_pg.database import async_connection, async_driver, wire
from remem_pg.models import (
    Memory,
    MemoryFields,
    MemoryInput,
    MemoryRef,
    RecallResult,
    SpaceInfo,
    Version,
)
from remem_pg.operating.methods import AsyncOperationsMethods
from remem_pg.recall import flow as recall_flow
from remem_pg.recall import restrict, stages
from remem_pg.recall.after import AfterRecall
from remem_pg.recall.methods import AsyncRecallMethods
from remem_pg.recall.result_cache import ResultCache, Tiers
from remem_pg.spaces.embedder import Embedder
from remem_pg.spaces.methods import AsyncReembedMethods
from remem_pg.tenancy import calls as admin_calls
from remem_pg.tenancy.methods import AsyncTenancyMethods
from remem_pg.writing import remember as remember_flow
from remem_pg.writing.bulk_methods import AsyncBulkMethods
from remem_pg.writing.lifecycle import AsyncLifecycleMethods

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg_pool import AsyncConnectionPool

    from remem_pg.context.scope import Scope
    from remem_pg.context.settings import ContextSettings
    from remem_pg.embedding.base import EmbeddingModel
    from remem_pg.install import MigrateReport
    from remem_pg.models import Vector
    from remem_pg.recall.hooks import Expander, Hooks
    from remem_pg.rerank.rerankers import Reranker

T = TypeVar("T")
Memories = list[Memory]
Refs = list[MemoryRef]


class AsyncRemem(
    AsyncContextMethods,
    AsyncRecallMethods,
    AsyncLifecycleMethods,
    AsyncReembedMethods,
    AsyncTenancyMethods,
    AsyncOperationsMethods,
    AsyncBulkMethods,
):
    """The memories of one workspace.

    Args:
        source: a DSN (a small pool is opened at the first call), your own async psycopg pool, or
            your own async connection, which is used inside your transaction and never committed
            or closed. None takes the environment's REMEM_DSN, else the embedded server.
        workspace: the tenant whose memories these are, 1 to 200 bytes.
        embedding: ``auto`` (a local model if there is one, else the built-in hash), a name or a
            model directory, an ``EmbeddingModel``, or None for no vectors from this client.
        tenant: set ``remem.workspace`` in the transaction of every call, as strict mode wants.
            None: where the database is in strict mode and no setting of yours is there. False:
            never.
        reranker: what looks again at the best hits: ``late`` (the embedding model's own token
            vectors), a cross-encoder's directory, an ``https://`` endpoint, or a function
            ``(query, texts) -> scores``. None: nothing does.
        rerank_pool: how many hits it looks at.
        rerank_gate: when: ``cluster`` (not when the top scores lie close together and nothing
            contradicts), ``top`` (not when the first hit is certain), ``always``.
        expander: a function from a query to texts that might answer it (HyDE); searched beside it.
        hooks: functions called before and after routing; see ``Hooks``.
        cache: recall through the server's cache (``remem.recall_cached``): an answer is served
            again for up to five minutes, only while nothing in the workspace changed. In a
            read-only transaction and on a standby it is computed anew.
        log: a row in the server's log and an OpenTelemetry span (extra ``otel``) for each recall:
            tier, counts, states, milliseconds; no text.
        context: budgets, providers and limits of ``context`` and ``plan``; see
            ``ContextSettings``.
        reembed_cooldown: after a recall, and at most once in so many seconds per workspace, embed
            a batch of what lacks its vector, beside the program and never waited for; a workspace
            of the built-in hash is moved to this client's model where the role may. None: never;
            300 is a good value for a program without a ``remem worker``.

    The constructor does no I/O. Errors are ``remem_pg.RememError`` and its classes; what is
    neither remem's nor the connection's (a cancelled query, a lock timeout) stays psycopg's.
    """

    def __init__(
        self,
        source: str | AsyncConnectionPool[Any] | psycopg.AsyncConnection[Any] | None = None,
        *,
        workspace: str,
        embedding: str | EmbeddingModel | Any | None = "auto",
        tenant: bool | None = None,
        reranker: str | Path | Reranker | Any | None = None,
        rerank_pool: int = stages.RERANK_POOL,
        rerank_gate: Literal["cluster", "top", "always"] = "cluster",
        expander: Expander | None = None,
        hooks: Hooks | None = None,
        cache: bool = False,
        log: bool = False,
        context: ContextSettings | None = None,
        reembed_cooldown: float | None = None,
    ) -> None:
        self._source = async_connection.open_source(source)
        self._owner = True
        self._handshake = steps.Handshake()
        self._context, self._context_settings = None, context
        self._after_recall = AfterRecall(reembed_cooldown)
        name = checks.text(workspace, "workspace")
        embedder = Embedder(embedding)
        opened = stages.open_stages(embedder, reranker, rerank_pool, rerank_gate, hooks, expander)
        tiers = Tiers(ResultCache() if cache else None, log)
        self._session = steps.Session(
            name, embedder, tenant, stages=opened, tiers=tiers, handshake=self._handshake
        )

    @property
    def workspace_name(self) -> str:
        """The workspace whose memories these are."""
        return self._session.workspace

    def workspace(self, name: str) -> Self:
        """A client for another workspace over the same connections and model; costs nothing."""
        sibling = object.__new__(type(self))
        sibling.__dict__.update(self.__dict__)
        sibling._owner = False
        sibling._session = self._session.sibling(name)
        return sibling

    async def close(self) -> None:
        """Closes the pool this client opened; a client made by ``workspace`` closes nothing."""
        if self._owner:
            await self._after_recall.aclose()
            await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # write

    async def remember(self, body: str, **fields: Unpack[MemoryFields]) -> MemoryRef:
        """Stores one memory; see ``MemoryFields`` for what can be said about it."""
        return await self._do(remember_flow.remember(self._session, body, fields))

    async def remember_many(
        self,
        items: Iterable[MemoryInput],
        on_error: Literal["abort", "report"] = "abort",
        batch_size: int = 500,
    ) -> Refs:
        """Stores many, each a dict with ``body`` and the fields of ``remember``.

        ``abort`` stores all or nothing and raises naming the item (from 1); ``report`` stores what
        it can and says of each item, in input order, what became of it.
        """
        return await self._do(
            remember_flow.remember_many(self._session, items, on_error, batch_size)
        )

    # read

    async def get(
        self, memory_id: UUID | str | None = None, ref: str | None = None
    ) -> Memory | None:
        """One memory by its id or by your own ref; None when there is none."""
        return await self._call(calls.get(self.workspace_name, memory_id, ref))

    async def list(
        self,
        filter: str | None = None,
        after: UUID | str | None = None,
        limit: int = 50,
        state: Literal["current", "superseded", "forgotten", "all"] = "current",
        *,
        where: str | None = None,
    ) -> Memories:
        """A page, newest first: those that match a jsonpath or a condition in SQL, after the memory
        ``after``, of every scope.

        ``state``: what is no longer current too; forgotten ones are for those who may write.
        ``where``: see ``recall``; ``scope = 'user' and scope_ref = 'ann'`` for one owner's.
        """
        filter = restrict.as_filter(filter, where)
        return await self._call(
            calls.list_memories(self.workspace_name, filter, after, limit, state)
        )

    async def iterate(
        self, filter: str | None = None, page: int = 200, *, where: str | None = None
    ) -> AsyncIterator[Memory]:
        """All of them, newest first, read page by page."""
        filter = restrict.as_filter(filter, where)
        after: UUID | None = None
        while memories := await self.list(filter, after, page):
            for memory in memories:
                yield memory
            after = memories[-1].memory_id

    async def count(self, filter: str | None = None, *, where: str | None = None) -> int:
        """How many current memories there are, or match a jsonpath or a condition in SQL."""
        filter = restrict.as_filter(filter, where)
        return await self._call(calls.count(self.workspace_name, filter))

    # recall

    async def recall(
        self,
        query: str,
        k: int = 8,
        *,
        query_embedding: Vector | None = None,
        where: str | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RecallResult:
        """The ``k`` memories that matter for a question, best first, each with its reasons.

        ``where`` is a condition in SQL over the fields of a memory, such as ``kind = 'decision' and
        metadata.team = 'core' and occurred_at > '2026-01-01'`` (docs/filters.md). ``scope`` is the
        active context, ``{"project": "phoenix", "user": "mei"}``: memories of other projects,
        sessions and users are never found; without it, only global ones.
        ``options`` are those of ``remem.recall``: filter, kinds, scopes, kind, arms, mode, fusion,
        weights, min_relevance, graph, deadline_ms, rerank_pool, expanded, session_ref, explain,
        space, shard_by, as_of (an aware time: what was known then); ``rerank``: False for no second
        look this time, or the name of a gate; and ``parallel``: True runs the arms at once on
        connections of the pool, with the same answer; with one connection they run as usual
        (``trace["parallel"]`` says so).
        ``result.degraded`` names what was missing, ``result.trace`` what the client's stages did;
        a model that fails never raises here.
        """
        options |= {"where": where, "scope": scope}
        flow = recall_flow.recall(self._session, calls.recall, query, k, query_embedding, options)
        result = await self._do(flow)
        if self._source.own_transactions and self._after_recall.due(self.workspace_name):
            self._after_recall.in_task(self._session, self._drive)
        return result

    async def recall_explain(
        self,
        query: str,
        k: int = 8,
        *,
        query_embedding: Vector | None = None,
        where: str | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The same recall as a document: hits, arms, candidates, timings, degraded states."""
        options |= {"where": where, "scope": scope}
        build = calls.recall_explain
        return await self._do(
            recall_flow.recall(self._session, build, query, k, query_embedding, options)
        )

    # administration

    async def create_workspace(
        self, workspace: str | None = None, language: str = "english"
    ) -> bool:
        """Creates this (or another) workspace with its language; says whether it is new."""
        client = self if workspace is None else self.workspace(workspace)
        return await client._call(admin_calls.create_workspace(client.workspace_name, language))

    async def register_space(self, descriptor: dict[str, Any]) -> SpaceInfo:
        """Makes an embedding model known; the same model is the same space."""
        return await self._call(admin_calls.register_space(descriptor))

    async def activate_space(self, space: str, workspace: str | None = None) -> SpaceInfo:
        """Makes a space current in one workspace, or the default when ``workspace`` is None."""
        result = await self._call(admin_calls.activate_space(space, workspace))
        self._session.decision = None
        return result

    async def current_space(self) -> SpaceInfo:
        """The embedding space of this workspace."""
        return await self._call(admin_calls.current_space(self.workspace_name))

    async def version(self) -> Version:
        """What is installed in the database."""
        return await self._drive(steps.run(admin_calls.version()))

    async def migrate(self) -> MigrateReport:
        """Installs or upgrades remem in the database this client talks to, over a connection of
        its own: not inside a transaction of yours."""
        from remem_pg import install

        async with async_connection.acquire(self._source) as conn:
            return await asyncio.to_thread(install.migrate, wire.conninfo_of(conn))

    # how a flow is carried out

    async def _drive(self, flow: steps.Flow[T]) -> T:
        return await async_driver.drive(self._source, self._session, flow)
