"""The two ends of a request for embeddings: texts in batches, and vectors out of an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from remem_pg.errors import EmbeddingUnavailable

BATCH_BYTES = 200_000
"""Texts of one request, in UTF-8: well below the limits of bodies and tokens in common use."""
ANSWER_BYTES = 128_000_000
_FORM = "it has to answer as OpenAI's /v1/embeddings does"


class Trouble(Exception):
    """A try that failed: with what error, and whether (and when) another one may do better."""

    def __init__(
        self, error: EmbeddingUnavailable, *, again: bool = True, retry_after: str | None = None
    ) -> None:
        super().__init__(error.message)
        self.error, self.again, self.retry_after = error, again, retry_after


class Refused(Exception):
    """The endpoint's answer is a refusal: its status, and what it says about it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


def vectors_of(document: Any, count: int, before: int = 0) -> list[list[float]]:
    """The vectors of an answer in the order of the texts, whatever the order they came in.

    Raises EmbeddingUnavailable unless there is exactly one for each of ``count`` texts, with the
    first item that has none (``before`` texts stood in earlier requests).
    """
    rows = document.get("data") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise _no_answer("it has no list `data`", None)
    found: dict[int, list[float]] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("embedding"), list):
            raise _no_answer("a row has no list `embedding`", before + place + 1)
        index = row.get("index", place)
        if not isinstance(index, int) or not 0 <= index < count or index in found:
            raise _no_answer(f"an index is wrong: {index!r}", None)
        try:
            found[index] = [float(value) for value in row["embedding"]]
        except (TypeError, ValueError):
            raise _no_answer(
                "a vector holds something else than numbers", before + index + 1
            ) from None
    for index in range(count):
        if index not in found:
            raise _no_answer(f"{len(found)} vectors for {count} texts", before + index + 1)
    return [found[index] for index in range(count)]


def _no_answer(why: str, item: int | None) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        f"the embedding endpoint's answer cannot be used: {why}",
        detail={} if item is None else {"item": item},
        hint=_FORM,
    )


def batches(texts: Sequence[str], size: int) -> list[list[str]]:
    batches: list[list[str]] = []
    used = 0
    for text in texts:
        weight = len(text.encode(errors="replace"))
        if not batches or len(batches[-1]) >= size or used + weight > BATCH_BYTES:
            batches.append([])
            used = 0
        batches[-1].append(text)
        used += weight
    return batches


def read(response: Any, until: float, place: str) -> bytes:
    """The whole answer: bounded in bytes, and in time also when it trickles. Raises Trouble."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        late = time.monotonic() > until
        if late or size > ANSWER_BYTES:
            why = "took too long" if late else "sends more than 128 MB"
            reason = "timeout" if late else "size"
            raise Trouble(
                EmbeddingUnavailable(
                    f"the embedding endpoint {place} {why}",
                    detail={"endpoint": place, "reason": reason},
                ),
                again=False,
            )
    return b"".join(parts)


def document_of(content: bytes, place: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise EmbeddingUnavailable(
            f"the embedding endpoint {place} answered something else than JSON",
            hint=_FORM,
        ) from error


def message_of(content: bytes) -> str:
    """What an answer of refusal says, in one short line."""
    try:
        document = json.loads(content)
        error = document.get("error", document) if isinstance(document, dict) else document
        said = error.get("message", error.get("detail", "")) if isinstance(error, dict) else error
    except ValueError:
        said = ""
    return " ".join(str(said).split())[:200]
