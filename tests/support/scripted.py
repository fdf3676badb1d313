"""A database that answers a flow's steps from a table, and models of known vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from remem_pg import calls, steps
from remem_pg.models import MemoryRef, SpaceInfo
from remem_pg.spaces.embedder import Embedder

HASH = SpaceInfo(name="hash", fingerprint="hash-print", dimensions=384, backend="remem-local-hash")
OTHER = SpaceInfo(name="minilm", fingerprint="other-print", dimensions=384, backend="onnx")


class Toy:
    """A model of three dimensions that counts its work."""

    id = "toy"
    dimensions = 3

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return np.ones((len(texts), 3), dtype="f4")


class Ready(Embedder):
    """An embedder whose model is found already."""

    def __init__(self, model: Any, *, explicit: bool = True, **descriptor: Any) -> None:
        super().__init__("toy" if explicit else "auto")
        self._model = model
        self._resolved = True
        self.fingerprint = "toy-print"
        self.descriptor = {"name": "toy", "dimensions": 3, **descriptor}


class Server:
    """Answers a flow's steps as a database would, from a table; keeps what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.sent: list[calls.Call[Any]] = []
        self.transactions = 0
        self.aborts = False

    def drive(self, flow: steps.Flow[Any]) -> Any:
        return steps.carry(flow, self.answer)

    def answer(self, step: steps.Step) -> Any:
        match step:
            case steps.Work(function):
                return function()
            case steps.InTransaction():
                return self.aborts
            case steps.Together(flow):
                self.transactions += 1
                return self.drive(flow)
            case steps.Run(call):
                self.sent.append(call)
                answer = self.answers.get(call.function)
                if isinstance(answer, list):
                    answer = answer.pop(0)
                if callable(answer):
                    answer = answer(call)
                if isinstance(answer, Exception):
                    raise answer
                return answer

    def names(self) -> list[str]:
        return [call.function for call in self.sent]


def stored(call: calls.Call[Any]) -> list[MemoryRef]:
    items = json.loads(call.params["items"])
    return [MemoryRef(ref=i.get("ref"), item_no=n) for n, i in enumerate(items, 1)]


def session(embedder: Embedder | None = None) -> steps.Session:
    return steps.Session("acme", embedder or Ready(Toy()))


def embed_nothing() -> Embedder:
    return Embedder(None)
