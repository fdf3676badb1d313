"""``plan`` and ``context`` of both clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from remem_pg.client_base import AsyncCarries, Carries
from remem_pg.errors import InvalidArgument

if TYPE_CHECKING:
    from remem_pg.context.asked import Asked, Kept
    from remem_pg.context.catalog_models import Topic
    from remem_pg.context.result import ContextResult, Trace
    from remem_pg.context.scope import Scope
    from remem_pg.context.settings import ContextSettings
    from remem_pg.steps import Handshake, Session

T = TypeVar("T")

Prompt = str | Sequence[Mapping[str, Any]]


class Opened:
    """What both clients know for a context call; the settings are looked at when one is made."""

    _session: Session
    _handshake: Handshake
    _context: Kept | None
    _context_settings: ContextSettings | None

    def _asked(
        self,
        prompt: Prompt | None,
        messages: Sequence[Mapping[str, Any]] | None,
        scope: Scope | Mapping[str, Any] | None,
        refresh: bool,
        options: Mapping[str, Any],
        where: str | None = None,
    ) -> Asked:
        from remem_pg.context import flow
        from remem_pg.context.asked import Kept
        from remem_pg.context.prompt import prompt_of
        from remem_pg.context.scope import as_scope
        from remem_pg.context.settings import ContextSettings

        if (prompt is None) == (messages is None):
            raise InvalidArgument(
                "give either a prompt or messages", detail={"argument": "prompt, messages"}
            )
        if self._context is None:
            self._context = Kept(self._context_settings or ContextSettings())
        if refresh:
            self._context.snapshots.clear()
        text = prompt_of(prompt if messages is None else messages)
        checked = as_scope(self._session.workspace, scope)
        return flow.opened(
            self._session, self._handshake, self._context, text, checked, options, where
        )


class ContextMethods(Opened, Carries):
    """The methods of ``Remem``."""

    def plan(
        self, prompt: Prompt, *, scope: Scope | Mapping[str, Any] | None = None, **options: Any
    ) -> Trace:
        """Whether a prompt needs memories, which topics it is about and who would be asked; nothing
        is searched. Arguments as of ``context``; ``trace.diagnostics`` names what failed."""
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, None, scope, False, options)
        return self._drive(observing.observed(asked, flow.planned(asked)))

    def context(
        self,
        prompt: Prompt | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        where: str | None = None,
        refresh: bool = False,
        **options: Any,
    ) -> ContextResult:
        """What to put before a model call: ``str(result)``, '' when there is nothing to say.

        Args:
            prompt: what the user says, or a list of messages, of which the user's last one counts.
            messages: the same list by its own name.
            scope: the active context, ``{"project": "phoenix", "session": "s-12", "user": "mei"}``.
                Memories of other projects, sessions and users are never shown; without a scope,
                only global ones.
            where: a condition in SQL that memories have to meet; see ``recall``. Other providers
                cannot judge it and are not asked.
            refresh: forget the catalogs kept for a moment without a database.
            options: fields of ``ContextSettings``, for this call.

        A model, a provider, a database that fails never raises here: the text gets smaller and
        ``result.diagnostics`` says why. Raises InvalidArgument and UnknownOption for wrong
        arguments.
        """
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, messages, scope, refresh, options, where)
        return self._drive(observing.observed(asked, flow.context(asked)))

    def put_topic(self, title: str, **fields: Any) -> UUID:
        """Puts a topic into the catalog, by which prompts are recognised; answers its id.

        ``fields``: aliases, tags, summary, importance (0 to 1), unresolved, providers (ids of those
        to ask; none: Postgres), scope, scope_ref, parent, freshness, source. A second put of the
        same title and source replaces what the first said.
        """
        from remem_pg.context import catalog

        return self._do(catalog.put_topic(self._session, {"title": title, **fields}))

    def topics(self, after: UUID | str | None = None, limit: int = 100) -> list[Topic]:
        """A page of the catalog's topics, the weightiest first, after the topic ``after``.

        ``limit``: 1 to 1000. Raises NotFound for an ``after`` that is no topic (any more).
        """
        from remem_pg.context import calls as context_calls

        return self._call(context_calls.list_topics(self._session.workspace, after, limit))

    def drop_topic(self, topic_id: UUID | str, source: str | None = None) -> bool:
        """Takes a topic out of the catalog, or only what one ``source`` said of it; says whether
        there was one. Its memories stay, and one that is written later with that title or
        topic_key brings a derived topic back."""
        from remem_pg.context import calls as context_calls

        return self._call(context_calls.drop_topic(self._session.workspace, topic_id, source))

    def put_provider(self, provider_id: str, **fields: Any) -> None:
        """Describes a provider, so that prompts lead to it by meaning: name, summary, aliases,
        categories, enabled, result_limit. For administrators of the workspace."""
        from remem_pg.context import catalog

        self._do(catalog.put_provider(self._session, {"provider_id": provider_id, **fields}))

    def embed_catalog(self, limit: int = 1000) -> int:
        """Makes vectors for topics and providers that have none in the workspace's space, such as
        those that came of memories, and for titles beside their topics; answers how many. The
        hash space needs no help."""
        from remem_pg.context import catalog

        return self._do(catalog.embed(self._session, limit))


class AsyncContextMethods(Opened, AsyncCarries):
    """The methods of ``AsyncRemem``."""

    async def plan(
        self, prompt: Prompt, *, scope: Scope | Mapping[str, Any] | None = None, **options: Any
    ) -> Trace:
        """Whether a prompt needs memories, which topics it is about and who would be asked; nothing
        is searched. Arguments as of ``context``; ``trace.diagnostics`` names what failed."""
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, None, scope, False, options)
        return await self._drive(observing.observed(asked, flow.planned(asked)))

    async def context(
        self,
        prompt: Prompt | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        where: str | None = None,
        refresh: bool = False,
        **options: Any,
    ) -> ContextResult:
        """What to put before a model call; see ``Remem.context``. Providers, planner and
        synthesiser may be coroutine functions; functions run in threads."""
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, messages, scope, refresh, options, where)
        return await self._drive(observing.observed(asked, flow.context(asked)))

    async def put_topic(self, title: str, **fields: Any) -> UUID:
        """Puts a topic into the catalog, answers its id; see ``Remem.put_topic``."""
        from remem_pg.context import catalog

        return await self._do(catalog.put_topic(self._session, {"title": title, **fields}))

    async def topics(self, after: UUID | str | None = None, limit: int = 100) -> list[Topic]:
        """A page of the catalog's topics, the weightiest first; see ``Remem.topics``."""
        from remem_pg.context import calls as context_calls

        return await self._call(context_calls.list_topics(self._session.workspace, after, limit))

    async def drop_topic(self, topic_id: UUID | str, source: str | None = None) -> bool:
        """Takes a topic out of the catalog; see ``Remem.drop_topic``."""
        from remem_pg.context import calls as context_calls

        return await self._call(context_calls.drop_topic(self._session.workspace, topic_id, source))

    async def put_provider(self, provider_id: str, **fields: Any) -> None:
        """Describes a provider, so that prompts lead to it by meaning: name, summary, aliases,
        categories, enabled, result_limit. For administrators of the workspace."""
        from remem_pg.context import catalog

        await self._do(catalog.put_provider(self._session, {"provider_id": provider_id, **fields}))

    async def embed_catalog(self, limit: int = 1000) -> int:
        """Makes vectors for topics and providers that have none in the workspace's space, such as
        those that came of memories, and for titles beside their topics; answers how many. The
        hash space needs no help."""
        from remem_pg.context import catalog

        return await self._do(catalog.embed(self._session, limit))
