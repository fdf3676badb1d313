"""Models to download: small made-up ones, and the real MiniLM."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remem_pg.embedding import model_store
from remem_pg.embedding.download import Downloaded, download
from remem_pg.embedding.known_models import KnownModel, Part
from remem_pg.embedding.onnx import packaged_minilm
from remem_pg.embedding.transfer import Patience
from tests.support.web import Handler, Request, Web

WEIGHTS = bytes(range(256)) * 2000
TOKENIZER = b'{"tokenizer": true}'
HURRY = Patience(silence=5.0, attempts=3, pause=0.01)
"""A patience for tests: no pause is longer than a blink."""

NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy"),
    *("all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REMEM_MODEL_SOURCE"),
)
"""Variables that change what a download does."""


def no_network_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pinned(name: str = "tiny", **contents: bytes) -> KnownModel:
    """A model of which sizes and checksums are known."""
    files = {"model.onnx": WEIGHTS, "tokenizer.json": TOKENIZER} | contents
    parts = tuple(
        Part(path, "team/tiny", "v1", len(content), sha256(content))
        for path, content in files.items()
    )
    return KnownModel(name, parts, "MIT")


def hub(**contents: bytes) -> dict[str, bytes]:
    """The files of ``pinned()`` under a hub's paths."""
    files = {"model.onnx": WEIGHTS, "tokenizer.json": TOKENIZER} | contents
    return {f"team/tiny/resolve/v1/{path}": content for path, content in files.items()}


def minilm_files(prefix: str = "") -> dict[str, bytes]:
    """The installed MiniLM as one directory, pooled as its own file says."""
    packaged: Any = packaged_minilm()
    assert packaged is not None
    model, tokenizer = packaged._files.parts
    files = {
        "model.onnx": model.read_bytes(),
        "tokenizer.json": tokenizer.read_bytes(),
        "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    }
    return {f"{prefix}{path}": content for path, content in files.items()}


def bring(web: Web, **more: Any) -> Downloaded:
    """Downloads ``pinned()`` from a server with the paths of a hub."""
    settings = {"known": pinned(), "source": web.url, "patience": HURRY} | more
    return download("tiny", **settings)


def place() -> Path:
    """Where it goes."""
    return model_store.model_cache() / "tiny"


def cut_at(count: int, times: int, *, ranges: bool = True) -> Callable[..., bool]:
    """Promises everything and hangs up after so many bytes, the first ``times`` times."""
    left = [times]

    def trick(handler: Handler, request: Request, content: bytes) -> bool:
        if content != WEIGHTS or left[0] == 0:
            return False
        left[0] -= 1
        start = 0
        headers = {"Content-Length": str(len(content)), "ETag": '"v1"'}
        if ranges and "Range" in request.headers:
            start = int(request.headers["Range"][6:-1])
            headers["Content-Length"] = str(len(content) - start)
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.begin(206 if start else 200, headers)
        handler.wfile.write(content[start : start + count])
        handler.hang_up()
        return True

    return trick
