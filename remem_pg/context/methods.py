"""``plan`` and ``context`` of both clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from remem_pg.errors import InvalidArgument

if TYPE_CHECKING:
    from remem_pg.context.flow import Asked, Memory
    from remem_pg.context.result import ContextResult, Trace
    from remem_pg.context.scope import Scope
    from remem_pg.context.settings import ContextSettings
    from remem_pg.steps import Flow, Handshake, Session

T = TypeVar("T")

Prompt = str | Sequence[Mapping[str, Any]]


class Opened:
    """What both clients know for a context call; the settings are looked at when one is made."""

    _session: Session
    _handshake: Handshake
    _context: Memory | None
    _context_settings: ContextSettings | None

    def _asked(
        self,
        prompt: Prompt | None,
        messages: Sequence[Mapping[str, Any]] | None,
        scope: Scope | Mapping[str, Any] | None,
        refresh: bool,
        options: Mapping[str, Any],
    ) -> Asked:
        from remem_pg.context import flow
        from remem_pg.context.prompt import prompt_of
        from remem_pg.context.scope import as_scope
        from remem_pg.context.settings import ContextSettings

        if (prompt is None) == (messages is None):
            raise InvalidArgument(
                "give either a prompt or messages", detail={"argument": "prompt, messages"}
            )
        if self._context is None:
            self._context = flow.Memory(self._context_settings or ContextSettings())
        if refresh:
            self._context.snapshots.clear()
        text = prompt_of(prompt if messages is None else messages)
        checked = as_scope(self._session.workspace, scope)
        return flow.opened(self._session, self._handshake, self._context, text, checked, options)


class ContextMethods(Opened):
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
            refresh: forget the catalogs kept for a moment without a database.
            options: fields of ``ContextSettings``, for this call.

        A model, a provider, a database that fails never raises here: the text gets smaller and
        ``result.diagnostics`` says why. Raises InvalidArgument and UnknownOption for wrong
        arguments.
        """
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, messages, scope, refresh, options)
        return self._drive(observing.observed(asked, flow.context(asked)))

    def _drive(self, flow: Flow[T]) -> T:
        raise NotImplementedError


class AsyncContextMethods(Opened):
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
        refresh: bool = False,
        **options: Any,
    ) -> ContextResult:
        """What to put before a model call; see ``Remem.context``. Providers, planner and
        synthesiser may be coroutine functions; functions run in threads."""
        from remem_pg.context import flow, observing

        asked = self._asked(prompt, messages, scope, refresh, options)
        return await self._drive(observing.observed(asked, flow.context(asked)))

    async def _drive(self, flow: Flow[T]) -> T:
        raise NotImplementedError
