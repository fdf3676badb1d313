"""Embeddings from an endpoint in the form of OpenAI's ``/v1/embeddings``, which many servers speak.

The texts leave this machine: nothing but an address turns this on.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from remem_pg.embedding.base import check_texts
from remem_pg.embedding.http_answer import (
    Refused,
    Trouble,
    batches,
    document_of,
    message_of,
    read,
    vectors_of,
)
from remem_pg.embedding.http_client import (
    RETRIED,
    authorization,
    hide,
    httpx_library,
    open_client,
    place_of,
    sleep_within,
    wait_seconds,
    why_not,
    without_secrets,
)
from remem_pg.errors import (
    DimensionMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
    VectorRefused,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEY = "REMEM_EMBEDDING_KEY"
"""The environment variable that holds the endpoint's key; read at each call, kept nowhere."""
MODEL = "REMEM_EMBEDDING_MODEL"
DIMENSIONS = "REMEM_EMBEDDING_DIMENSIONS"

LIVE_SECONDS = 5.0
"""What a recall or a write waits for its vectors, with every try: then it goes on without."""
SPLIT = frozenset({400, 413, 422})
"""Refusals that may be about one text, or about too many of them."""


class HttpEmbedding:
    """The model behind ``url``; ``/embeddings`` is added to an address that does not end so.

    ``model`` is what the endpoint calls it (REMEM_EMBEDDING_MODEL unless given; may be left out for
    a server of one model). ``dimensions`` is what its vectors have (REMEM_EMBEDDING_DIMENSIONS);
    without it one text is embedded to learn it. With ``shorten`` the endpoint is asked for that
    many. ``revision`` tells apart what the endpoint calls by the same name. Name, revision,
    dimensions and prompts make the space; the address only without a name, so that a server may
    move.

    A call takes at most ``patience`` seconds with all its tries; one request is given up after
    ``timeout`` seconds of silence. Redirects are not followed, so that the key goes nowhere else.
    The constructor does no I/O. Safe to use from several threads.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        shorten: bool = False,
        revision: str = "",
        query_prompt: str = "",
        document_prompt: str = "",
        key_variable: str = KEY,
        batch_size: int = 64,
        timeout: float = 20.0,
        patience: float = 60.0,
        attempts: int = 5,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(
                "the address of an endpoint is http://... or https://...",
                detail={"argument": "url", "value": place_of(url)},
            )
        path = parts.path.rstrip("/")
        path = path if path.endswith("/embeddings") else f"{path}/embeddings"
        self._url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        self.place = place_of(self._url)
        hide(self._url)
        self._model = model or os.environ.get(MODEL) or ""
        self._dimensions = _whole(dimensions, os.environ.get(DIMENSIONS))
        if batch_size < 1 or attempts < 1 or timeout <= 0 or patience <= 0:
            raise InvalidArgument(
                "batch_size and attempts are at least 1, timeout and patience more than 0",
                detail={"argument": "batch_size, attempts, timeout, patience"},
            )
        if shorten and self._dimensions is None:
            raise InvalidArgument("shorten needs dimensions", detail={"argument": "shorten"})
        self._shorten = shorten
        self._revision = revision
        self._prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}
        self._key_variable = key_variable
        self._batch_size, self._timeout = batch_size, timeout
        self._patience, self._attempts = patience, attempts
        self._client: Any = None
        self._lock = threading.Lock()

    # -- the model as others see it ---------------------------------------------------------

    @property
    def name(self) -> str:
        return self._model or self.place

    @property
    def id(self) -> str:
        return f"http:{self.name}{'@' if self._revision else ''}{self._revision}"

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            until = time.monotonic() + min(self._patience, LIVE_SECONDS)
            self._dimensions = len(self._answer(["dimensions"], 0, until)[0])
        return self._dimensions

    @property
    def descriptor(self) -> dict[str, Any]:
        """The space's description. An endpoint shows no files, so its asset is the model's name."""
        asset = f"{self.name}{'@' if self._revision else ''}{self._revision}"
        return {
            "name": self.name,
            "backend": "http",
            "asset": asset,
            "dimensions": self.dimensions,
            "pooling": "",
            "normalization": "l2",
            "dtype": "float32",
        } | self._prompts

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed the texts as they are; ``(len(texts), dimensions)``, each row of length 1.

        Raises EmbeddingUnavailable (RM501) when the endpoint cannot be reached or refuses a text,
        DimensionMismatch (RM201) and VectorRefused (RM203) for vectors that cannot be stored; the
        last three name the item.
        """
        return self._embed(texts, self._patience)

    def embed_live(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same within ``LIVE_SECONDS``, for calls that somebody waits for."""
        return self._embed(texts, min(self._patience, LIVE_SECONDS))

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- inside -----------------------------------------------------------------------------

    def _embed(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        import numpy as np

        check_texts(texts)
        until = time.monotonic() + seconds
        rows: list[list[float]] = []
        for batch in batches(texts, self._batch_size):
            rows += self._answer(batch, len(rows), until)
        if rows and self._dimensions is None:
            self._dimensions = len(rows[0])
        expected = self.dimensions
        for number, row in enumerate(rows, 1):
            if len(row) != expected:
                detail = {"got": len(row), "expected": expected, "space": self.name, "item": number}
                raise DimensionMismatch(detail=detail)
        result = np.asarray(rows, dtype=np.float64).reshape(len(texts), expected)
        lengths = np.linalg.norm(result, axis=1, keepdims=True)
        for number, length in enumerate(lengths[:, 0], 1):
            if not (math.isfinite(length) and length > 0):
                why = "is all zero" if length == 0 else "holds NaN or infinity"
                raise VectorRefused(
                    f"the vector of the embedding model {self.name} {why}", detail={"item": number}
                )
        scaled: NDArray[np.float32] = (result / lengths).astype(np.float32)
        return scaled

    def _answer(self, texts: Sequence[str], before: int, until: float) -> list[list[float]]:
        """The vectors of one request. What is refused is asked for in halves: either they were too
        many, or one of them is found and named (``before``: texts of earlier requests)."""
        try:
            return vectors_of(self._post(texts, until), len(texts), before)
        except Refused as refused:
            if refused.status not in SPLIT:
                raise self._failed(refused) from None
            if len(texts) == 1:
                raise self._failed(refused, before + 1) from None
        half = len(texts) // 2
        first = self._answer(texts[:half], before, until)
        return first + self._answer(texts[half:], before + half, until)

    def _post(self, texts: Sequence[str], until: float) -> Any:
        """The document that answers for the texts; asked again while that may help."""
        body: dict[str, Any] = {"input": list(texts)}
        if self._model:
            body["model"] = self._model
        if self._shorten:
            body["dimensions"] = self._dimensions
        attempt = 1
        while True:
            try:
                return document_of(self._once(body, until), self.place)
            except Trouble as trouble:
                again = trouble.again and attempt < self._attempts
                if not again or not sleep_within(wait_seconds(attempt, trouble.retry_after), until):
                    raise trouble.error from trouble.__cause__
            attempt += 1

    def _once(self, body: dict[str, Any], until: float) -> bytes:
        """One request. Raises Trouble for what may pass, Refused for what will not."""
        headers = authorization(self._key_variable)
        try:
            with self._connection().stream(
                "POST",
                self._url,
                json=body,
                headers=headers,
                timeout=max(0.05, min(self._timeout, until - time.monotonic())),
            ) as response:
                content = read(response, until, self.place)
        except httpx_library().HTTPError as error:
            kind, hint = why_not(error)
            said = without_secrets(str(error), self._url, headers) or type(error).__name__
            failure = EmbeddingUnavailable(
                f"the embedding endpoint {self.place} did not answer: {said}",
                detail={"endpoint": self.place, "reason": kind},
                hint=hint,
            )
            raise Trouble(failure, again=kind not in ("tls", "request")) from error
        if response.status_code == 200:
            return content
        said = without_secrets(message_of(content), self._url, headers)
        refused = Refused(response.status_code, said)
        if refused.status in RETRIED:
            raise Trouble(self._failed(refused), retry_after=response.headers.get("retry-after"))
        raise refused

    def _connection(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = open_client(self._timeout, redirects=False)
            return self._client

    def _failed(self, refused: Refused, item: int | None = None) -> EmbeddingUnavailable:
        said = f": {refused.said}" if refused.said else ""
        detail: dict[str, Any] = {"endpoint": self.place, "status": refused.status}
        hint = "look at the endpoint's own log"
        if refused.status in (401, 403):
            hint = f"set {self._key_variable} to the endpoint's key"
        elif refused.status == 404:
            hint = "look at the address and at the model's name"
        elif 300 <= refused.status < 400:
            hint = "give the address it redirects to: redirects are not followed"
        return EmbeddingUnavailable(
            f"the embedding endpoint {self.place} answered {refused.status}{said}",
            detail=detail | ({} if item is None else {"item": item}),
            hint=hint,
        )


def _whole(given: int | None, said: str | None) -> int | None:
    if given is None and said:
        if not said.isdecimal():
            raise InvalidArgument(detail={"argument": DIMENSIONS, "value": said})
        given = int(said)
    if given is not None and (isinstance(given, bool) or given < 1):
        raise InvalidArgument(detail={"argument": "dimensions", "value": given})
    return given
