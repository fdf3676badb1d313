"""A client without a database: its plan, its memories and its failures are what a test says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from remem_pg import steps
from remem_pg.calls import Call
from remem_pg.context.methods import AsyncContextMethods, ContextMethods
from remem_pg.context.settings import ContextSettings
from remem_pg.database import settle
from remem_pg.models import Hit, Memory, RecallResult, SpaceInfo, Version
from remem_pg.spaces.embedder import Embedder

HASH = SpaceInfo(name="hash", fingerprint="hash-print", dimensions=384, backend="remem-local-hash")
CATALOG = "Retries: how failed charges are tried again\nOffice: where people sit"


def plan(*providers: str, query: str = "retry policy", **changed: Any) -> dict[str, Any]:
    """The document of a plan that asks these providers about a known topic."""
    document = {
        "shouldRetrieve": bool(providers),
        "confidence": 0.9 if providers else 0.0,
        "topics": [{"id": "t1", "title": "Retries", "score": 0.9}] if providers else [],
        "requests": [
            {"providerId": name, "query": query, "reason": "Retries: title phrase", "limit": 8}
            for name in providers
        ],
        "stage": "deterministic" if providers else "none",
        "signals": {},
        "catalog": {"text": CATALOG, "entries": 2, "omitted": 0, "bytes": len(CATALOG)},
        "degraded": [],
    }
    return document | changed


def memory(body: str, **fields: Any) -> Memory:
    """A memory of the workspace acme."""
    fields = {"memory_id": uuid.uuid5(uuid.NAMESPACE_OID, body), **fields}
    return Memory(workspace="acme", body=body, **fields)


class Database:
    """Answers calls by the name of their function. An answer may be an error, or a function of the
    call."""

    def __init__(self, plan: Any, memories: Iterable[Memory] = (), **answers: Any) -> None:
        self.memories = list(memories)
        self.sent: list[Call[Any]] = []
        self.answers: dict[str, Any] = {
            "plan": plan,
            "version": Version("0.2.0", 1),
            "current_space": HASH,
            "count": 1,
            "recall": self._recall,
            "get": lambda call: self.memories,
            "list": [],
            "links_between": [],
            **answers,
        }

    def __call__(self, call: Call[Any]) -> Any:
        self.sent.append(call)
        answer = self.answers[call.function]
        if isinstance(answer, BaseException):
            raise answer
        return answer(call) if callable(answer) else answer

    def calls(self, function: str) -> list[Call[Any]]:
        return [call for call in self.sent if call.function == function]

    def _recall(self, call: Call[Any]) -> RecallResult:
        hits = [
            Hit(rank=i, memory_id=m.memory_id, body=m.body, score=1 / i, relevance=0.8)
            for i, m in enumerate(self.memories, 1)
        ]
        return RecallResult(hits)


class Client(ContextMethods):
    """``Remem`` as far as ``plan`` and ``context`` are concerned, in front of a ``Database``."""

    def __init__(
        self,
        database: Callable[[Call[Any]], Any],
        embedding: Any = None,
        borrowed: bool = False,
        **settings: Any,
    ) -> None:
        self.database = database
        self.borrowed = borrowed
        self._session = steps.Session("acme", Embedder(embedding))
        self._handshake = steps.Handshake()
        self._context = None
        self._context_settings = ContextSettings(**settings)

    def _drive(self, flow: Any) -> Any:
        return steps.carry(flow, self._perform)

    def _perform(self, step: Any) -> Any:
        match step:
            case steps.Run(call):
                return self.database(call)
            case steps.Work(function):
                return function()
            case steps.Ask(function):
                return settle.ask(function)
            case steps.Settle():
                return settle.in_threads(step, self._drive, alone=self.borrowed)
            case steps.InTransaction():
                return self.borrowed
            case steps.Together(flow):
                return self._drive(flow)
        raise AssertionError(step)


class AsyncClient(AsyncContextMethods):
    """``AsyncRemem``, likewise."""

    def __init__(
        self, database: Callable[[Call[Any]], Any], embedding: Any = None, **settings: Any
    ) -> None:
        self.database = database
        self._session = steps.Session("acme", Embedder(embedding))
        self._handshake = steps.Handshake()
        self._context = None
        self._context_settings = ContextSettings(**settings)

    async def _drive(self, flow: Any) -> Any:
        return await steps.carry_async(flow, self._perform)

    async def _perform(self, step: Any) -> Any:
        match step:
            case steps.Run(call):
                return self.database(call)
            case steps.Work(function):
                return await settle.in_daemon(function)
            case steps.Ask(function):
                return await settle.ask_async(function)
            case steps.Settle():
                return await settle.in_tasks(step, self._drive, alone=False)
            case steps.InTransaction():
                return False
        raise AssertionError(step)


class Shelf:
    """A provider that gives what it was made with, and remembers what it was asked."""

    def __init__(self, id: str, *records: Mapping[str, Any] | Any, **attributes: Any) -> None:
        self.id = id
        self.records = records
        self.asked: list[tuple[str, Any, int]] = []
        for name, value in attributes.items():
            setattr(self, name, value)

    def search(self, query: str, scope: Any, limit: int) -> Any:
        self.asked.append((query, scope, limit))
        return self.records


class Fails:
    """A provider that raises."""

    def __init__(self, id: str, error: BaseException) -> None:
        self.id = id
        self.error = error

    def search(self, query: str, scope: Any, limit: int) -> Any:
        raise self.error


def space_of(client: Client | AsyncClient) -> SpaceInfo:
    """The space of the client's own model, as the workspace's."""
    print_ = client._session.embedder.prepare()
    return SpaceInfo(name="own", fingerprint=str(print_), dimensions=384, backend="callable")
