"""One file over HTTP: gone on with where it stopped, and checked before anybody sees it.

What has arrived stands in ``FILE.part``, with ``FILE.part.json`` beside it, which says of what
version of the source it is. The next try asks for the rest of that very version, so that the two
halves of two versions never become one file.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remem_pg.embedding import model_store
from remem_pg.embedding.http_client import RETRIED, httpx_library, place_of, wait_seconds, why_not
from remem_pg.errors import EmbeddingUnavailable

MOST_BYTES = 4_000_000_000
"""No file of a model that is meant here is larger; a source that never ends is."""
OFFLINE = "without a network: put the files in a directory and name it in REMEM_MODEL_PATH"

DISK = "make room, or let XDG_CACHE_HOME name a directory that can be written"

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Patience:
    """How long a source may take.

    Attributes:
        silence: seconds without a byte before a connection is given up.
        slow: bytes a second, over ``slow_seconds``, below which it is given up as well.
        attempts: tries without any new byte; a try that brought some does not count.
        pause: seconds before the second try when the source names none; doubled each time.
        waits: seconds to wait at most for one new try, whatever the source asks for.
    """

    silence: float = 30.0
    slow: float = 1024.0
    slow_seconds: float = 60.0
    attempts: int = 5
    pause: float = 1.0
    waits: float = 60.0


@dataclass(frozen=True)
class Wanted:
    """A file: where it is, where it goes, and what it has to be as far as that is known."""

    url: str
    path: Path
    size: int | None = None
    sha256: str | None = None


class Absent(Exception):
    """The source has no such file (404 or 410)."""


class _Again(Exception):
    """The connection ended early, or the source asks to come back later."""

    def __init__(self, error: EmbeddingUnavailable, retry_after: str | None = None) -> None:
        super().__init__(error.message)
        self.error, self.retry_after = error, retry_after


def fetch(
    client: Any, wanted: Wanted, patience: Patience, progress: Progress | None = None
) -> tuple[int, str]:
    """Bring a file to its place, and say its size and SHA-256.

    ``progress`` is called with bytes there and bytes in all (None: not known). Raises Absent;
    EmbeddingUnavailable with the ``reason`` in its detail: size, checksum, truncated, tls, proxy,
    timeout, connect, broken, request, http, disk. What has arrived is kept for the next call,
    unless it is known to be wrong.
    """
    part = wanted.path.with_name(wanted.path.name + ".part")
    # by the most that ever arrived: a source that begins anew each time must come to an end
    idle, most = 0, _size(part)
    while True:
        try:
            _receive(client, wanted, part, patience, progress)
            break
        except _Again as again:
            size = _size(part)
            idle = 0 if size > most else idle + 1
            most = max(most, size)
            # an address that cannot be reached stays so: an installation waits for this
            offline = again.error.detail["reason"] in ("connect", "proxy")
            if idle >= min(patience.attempts, 2 if offline else patience.attempts):
                raise again.error from again.__cause__
            seconds = wait_seconds(idle + 1, again.retry_after)
            if again.retry_after is None:
                seconds *= patience.pause
            time.sleep(min(seconds, patience.waits))
        except OSError as error:
            raise failed(wanted, "disk", f"it cannot be written: {error}", DISK) from error
    return _check(wanted, part)


def failed(wanted: Wanted, reason: str, why: str, hint: str, **facts: Any) -> EmbeddingUnavailable:
    """The error of a download, which names file, source and reason."""
    name = wanted.path.name
    return EmbeddingUnavailable(
        f"{name} could not be downloaded from {place_of(wanted.url)}: {why}",
        detail={"file": name, "source": place_of(wanted.url), "reason": reason, **facts},
        hint=hint,
    )


def _receive(
    client: Any, wanted: Wanted, part: Path, patience: Patience, progress: Progress | None
) -> None:
    """One request: appends to the part, or begins it anew where the source has another version."""
    httpx = httpx_library()
    have = _size(part)
    if wanted.size is not None and have >= wanted.size:
        if have == wanted.size:
            return
        _drop(part)
        have = 0
    # a compressed answer would have other lengths and other places
    headers = {"Accept-Encoding": "identity"}
    version = model_store.read_json(_about(part)).get("version")
    if have and (version or wanted.sha256):
        headers["Range"] = f"bytes={have}-"
        if version:
            headers["If-Range"] = version
    elif have:
        _drop(part)
        have = 0
    try:
        with client.stream("GET", wanted.url, headers=headers) as response:
            start, total = _begin(wanted, part, response, have)
            _write(wanted, part, response, start, total, patience, progress)
    except httpx.HTTPError as error:
        kind, hint = why_not(error)
        said = str(error) or type(error).__name__
        reason = "truncated" if kind == "broken" else kind
        failure = failed(wanted, reason, said, hint if kind == "tls" else f"{hint}; {OFFLINE}")
        if kind in ("tls", "request"):
            raise failure from error
        raise _Again(failure) from error


def _begin(wanted: Wanted, part: Path, response: Any, have: int) -> tuple[int, int | None]:
    """From where the answer goes on, and how long the whole file is; refuses what is not it."""
    status, headers = response.status_code, response.headers
    if wanted.url.startswith("https:") and response.url.scheme != "https":
        raise failed(wanted, "http", "it redirects to an address without TLS", "use another source")
    if status in (404, 410):
        raise Absent(wanted.url)
    if status == 416:
        _drop(part)  # what has arrived is not a beginning of what is there now
        raise _Again(failed(wanted, "http", "it has no such range", "try again"))
    if status not in (200, 206):
        failure = failed(
            wanted, "http", f"it answered {status}", f"try again later; {OFFLINE}", status=status
        )
        if status in RETRIED:
            raise _Again(failure, headers.get("retry-after"))
        raise failure
    if headers.get("content-encoding", "identity") != "identity":
        raise failed(wanted, "http", "it sends the file compressed", "use another source")
    length = headers.get("content-length")
    length = int(length) if length is not None and length.isdecimal() else None
    start, total = 0, length
    if status == 206:
        said = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", headers.get("content-range", "").strip())
        if said is None or int(said[1]) != have:
            _drop(part)
            raise _Again(failed(wanted, "http", "it sent another range", "use another source"))
        start, total = have, None if said[3] == "*" else int(said[3])
    if wanted.size is not None and total is not None and total != wanted.size:
        _drop(part)
        raise failed(
            wanted,
            "size",
            f"it says {total} bytes, the file has {wanted.size}",
            "the source has another file, or something between changes it: use another --source",
            got=total,
            expected=wanted.size,
        )
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    if total is None and wanted.size is None and not chunked and response.http_version != "HTTP/2":
        # cut off it would look complete
        raise failed(wanted, "size", "it does not say how long it is", "use another source")
    return start, total if total is not None else wanted.size


def _write(
    wanted: Wanted,
    part: Path,
    response: Any,
    start: int,
    total: int | None,
    patience: Patience,
    progress: Progress | None,
) -> None:
    if start == 0:
        model_store.write_json(_about(part), {"version": _version(response.headers)})
    most = total if total is not None else MOST_BYTES
    size = mark = start
    since = time.monotonic()
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        file.truncate()
        for chunk in response.iter_raw():  # as it arrives: what waits for more is lost, and unseen
            size += len(chunk)
            if size > most:
                raise failed(wanted, "size", f"it sends more than {most} bytes", "another source")
            file.write(chunk)
            if progress is not None:
                progress(size, total)
            now = time.monotonic()
            if now - since > patience.slow_seconds:
                if size - mark < patience.slow * (now - since):
                    raise _Again(failed(wanted, "timeout", "it is too slow", OFFLINE))
                since, mark = now, size
        file.flush()
        os.fsync(file.fileno())
    if total is not None and size < total:
        raise _Again(
            failed(wanted, "truncated", f"{size} of {total} bytes arrived", "try again", got=size)
        )


def _check(wanted: Wanted, part: Path) -> tuple[int, str]:
    """The whole file against what it has to be; only then it gets its name."""
    size, sha256 = _size(part), model_store.digest(part)
    if wanted.sha256 is not None and sha256 != wanted.sha256:
        _drop(part)
        raise failed(
            wanted,
            "checksum",
            "it is not the file that was expected",
            "the source has another file, or something between changes it: nothing was kept",
            got=sha256,
            expected=wanted.sha256,
        )
    part.replace(wanted.path)
    _about(part).unlink(missing_ok=True)
    return size, sha256


def _version(headers: Any) -> str | None:
    """What If-Range may name: a strong ETag, else the date of the last change."""
    etag: str = headers.get("etag", "")
    changed: str | None = headers.get("last-modified")
    return etag if etag.startswith('"') else changed


def _about(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)
    _about(part).unlink(missing_ok=True)
