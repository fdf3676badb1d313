"""A rerank endpoint over HTTP, in the JSON form that most of them share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from remem_pg.embedding.http_client import authorization, hide
from remem_pg.errors import EmbeddingUnavailable

KEY = "REMEM_RERANK_KEY"
"""The environment variable that holds the endpoint's key; read at each call, kept nowhere."""


class HttpReranker:
    """Posts ``{"query", "documents", "top_n", "model"?}`` and reads ``results[{"index",
    "relevance_score"}]``, the answer of Cohere, Jina and many servers of one's own (``data`` and
    ``score`` are understood too).

    ``model`` is REMEM_RERANK_MODEL unless given. The texts of the best hits leave this machine:
    that is why nothing but an address turns it on. Redirects are not followed, so that the key
    goes nowhere else. ``timeout`` is for the whole answer, in seconds.
    """

    name = "http"
    weight: float | None = None

    def __init__(
        self, url: str, *, model: str | None = None, key_variable: str = KEY, timeout: float = 4.0
    ) -> None:
        self._url = url
        hide(url)
        self._model = model
        self._key_variable = key_variable
        self.timeout = timeout

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text. Raises EmbeddingUnavailable for a refusal or another form of answer;
        errors of the connection stay httpx's."""
        try:
            import httpx
        except ImportError as error:
            raise EmbeddingUnavailable(
                "an HTTP reranker needs httpx", hint="pip install 'remem-pg[http]'"
            ) from error
        model = self._model or os.environ.get("REMEM_RERANK_MODEL")
        body = {"query": query, "documents": list(texts), "top_n": len(texts)}
        answer = httpx.post(
            self._url,
            json=body | ({"model": model} if model else {}),
            headers=authorization(self._key_variable),
            timeout=self.timeout,
            follow_redirects=False,
        )
        if answer.status_code != 200:
            raise EmbeddingUnavailable(f"the rerank endpoint answered {answer.status_code}")
        return scores_of(answer.json(), len(texts))


def scores_of(document: Any, count: int) -> list[float]:
    """The scores in the order of the documents, each of which has to have one."""
    rows = document
    if isinstance(document, Mapping):
        rows = document.get("results", document.get("data"))
    try:
        found = {
            int(row["index"]): float(
                row["relevance_score" if "relevance_score" in row else "score"]
            )
            for row in rows
        }
        return [found[index] for index in range(count)]
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingUnavailable(
            f"the rerank endpoint's answer has no score for each of {count} documents"
        ) from error
