"""One download of a model at a time on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remem_pg.embedding import model_store
from remem_pg.embedding.http_client import HTTP_HINT
from remem_pg.errors import EmbeddingUnavailable

LOCK_SECONDS = 1800.0


@contextmanager
def only_one(
    name: str, say: Callable[[str], None], seconds: float = LOCK_SECONDS
) -> Iterator[None]:
    """Held by one process for one model; the others wait, and find it done. The lock of a process
    that dies is free. Raises EmbeddingUnavailable after ``seconds``."""
    try:
        from filelock import FileLock, Timeout
    except ImportError as error:
        raise EmbeddingUnavailable(f"a download needs filelock: {error}", hint=HTTP_HINT) from error
    path = model_store.lock_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"Another process downloads {name}: waiting for it")
        try:
            lock.acquire(timeout=seconds)
        except Timeout as error:
            raise EmbeddingUnavailable(
                f"another process has been downloading {name} for too long",
                detail={"reason": "locked", "file": str(path)},
                hint="end it, and try again",
            ) from error
    try:
        yield
    finally:
        lock.release()
