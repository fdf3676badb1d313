"""Who can be asked: the protocol of a provider, and a function as one."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from remem_pg.context.record import Record
from remem_pg.context.scope import Scope

Found = Iterable[Record | Mapping[str, Any]]

POSTGRES = "postgres"
"""The id of the provider that is always there: the memories of the workspace."""

MOST_STUCK = 4
"""Calls of one provider that may hang beyond their time; the next is refused at once, so that a
provider which never returns costs a few threads and not one more with every call."""


@runtime_checkable
class Provider(Protocol):
    """Somewhere else to search: anything with an ``id`` and ``search``.

    ``search`` gives at most ``limit`` records (``Record``, or dictionaries of its fields), or an
    awaitable of them. It may raise and take its time: the answer is made without it. It is called
    in a thread, in several at once when calls overlap. Optional attributes: ``timeout_ms`` and
    ``body_limit``, instead of those of the settings.
    """

    @property
    def id(self) -> str:
        """A name of one's own, the one that topics route to."""
        ...

    def search(self, query: str, scope: Scope, limit: int) -> Found | Awaitable[Found]:
        """What answers ``query``; whatever is not within ``scope`` is dropped afterwards."""
        ...


class FunctionProvider:
    """A function ``(query, scope, limit) -> records`` as a provider; it may be a coroutine
    function."""

    def __init__(
        self, id: str, function: Callable[[str, Scope, int], Found | Awaitable[Found]]
    ) -> None:
        self.id = id
        self._function = function

    def search(self, query: str, scope: Scope, limit: int) -> Found | Awaitable[Found]:
        return self._function(query, scope, limit)


class Stuck:
    """Counts the calls of each provider that are out of their time and have not come back."""

    def __init__(self, most: int = MOST_STUCK) -> None:
        self._most = most
        self._until: dict[str, dict[object, float]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def counted(self, provider: str, seconds: float) -> Iterator[None]:
        """Around a call that has so many seconds. Raises TimeoutError when too many hang."""
        call, now = object(), time.monotonic()
        with self._lock:
            running = self._until.setdefault(provider, {})
            if sum(until < now for until in running.values()) >= self._most:
                raise TimeoutError("earlier calls have not come back")
            running[call] = now + seconds
        try:
            yield
        finally:
            with self._lock:
                del running[call]


def searching(
    provider: Provider, query: str, scope: Scope, limit: int, stuck: Stuck, seconds: float
) -> Callable[[], list[Any] | Awaitable[Any]]:
    """The search as a function without arguments; a lazy answer is read inside it."""

    def search() -> list[Any] | Awaitable[Any]:
        with stuck.counted(provider.id, seconds):
            found = provider.search(query, scope, limit)
            return counted(found) if inspect.isawaitable(found) else taken(found, limit)

    async def counted(found: Awaitable[Any]) -> list[Any]:
        with stuck.counted(provider.id, seconds):
            return taken(await found, limit)

    return search


def taken(found: Any, limit: int) -> list[Any]:
    """The first ``limit`` of an answer. Raises TypeError for what is no list of records."""
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise TypeError(f"search gives a list of records, not a {type(found).__name__}")
    return list(islice(found, limit))


def by_id(providers: Iterable[Provider]) -> tuple[dict[str, Provider], list[str]]:
    """Providers by id, the first of each, and the ids that came again."""
    found: dict[str, Provider] = {}
    again: list[str] = []
    for provider in providers:
        if provider.id == POSTGRES or provider.id in found:
            again.append(provider.id)
        else:
            found[provider.id] = provider
    return found, again
