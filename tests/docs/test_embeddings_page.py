"""What docs/embeddings.md says can be typed and is true."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from remem_pg import Remem
from remem_pg.embedding import http, http_answer
from remem_pg.embedding.hash import DIMENSIONS
from remem_pg.embedding.known_models import BGE_SMALL
from remem_pg.embedding.onnx import OnnxEmbedding
from tests.client.cli_runner import Cli
from tests.support.models import NETWORK, minilm_files
from tests.support.web import Files, Handler, Request, Web, serving

PAGE = Path(__file__).parents[2] / "docs" / "embeddings.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.DOTALL)


def answer(handler: Handler, request: Request) -> None:
    rows = [{"index": i, "embedding": [1.0] * 768} for i, _ in enumerate(request.json["input"])]
    handler.send_json(200, {"data": rows})


@pytest.fixture
def endpoint() -> Iterator[Web]:
    with serving(answer) as web:
        yield web


@pytest.fixture
def model(tmp_path: Path) -> Path:
    for name, content in minilm_files().items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(content)
    return tmp_path / "model"


@pytest.mark.covers("RE32")
def test_every_way_to_name_a_model_on_the_page_works(
    db_dsn: str, model: Path, endpoint: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*NETWORK, "REMEM_EMBEDDING", "REMEM_MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent))
    (code,) = blocks("Backends", "python")
    for written in ("/models/bge-small-en-v1.5", "/models/mine"):
        assert written in code
        code = code.replace(written, str(model))
    code = code.replace("https://models.example.org", endpoint.url)
    mine = SimpleNamespace(id="m", dimensions=1, embed=lambda texts: np.ones((len(texts), 1)))
    for line in [line for line in code.splitlines() if line.startswith("Remem(")]:
        names = {"Remem": Remem, "dsn": db_dsn, "my_model": mine}
        with eval(compile(line.split("  #")[0], str(PAGE), "eval"), names) as client:
            client._session.embedder.prepare()
            assert (client._session.embedder.fingerprint is None) == ("none" in line), line


@pytest.mark.covers("RE32")
async def test_the_models_of_ones_own_on_the_page_work(
    endpoint: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)
    (code,) = blocks("Endpoints", "python")
    names: dict[str, Any] = {}
    exec(code.replace("https://models.example.org", endpoint.url), names)
    rows = await asyncio.to_thread(names["model"].embed, ["a", "b"])
    assert rows.shape == (2, 768)

    async def vectors(texts: list[str]) -> list[list[float]]:
        return [[0.5] * 768 for _ in texts]

    (code,) = blocks("Models of your own", "python")
    names = {"my_service": SimpleNamespace(vectors=vectors)}
    exec(code, names)
    assert len((await names["Mine"]().embed(["a"]))[0]) == names["Mine"].dimensions


@pytest.mark.covers("RE32", "RE33")
def test_the_commands_of_the_page_run(db_dsn: str, tmp_path: Path) -> None:
    with serving(Files(minilm_files("mine/"))) as web:
        cli = Cli(db_dsn, XDG_CACHE_HOME=str(tmp_path))
        for name in (*NETWORK, "REMEM_EMBEDDING"):
            cli.environment.pop(name, None)
        (status,) = blocks("Which model is used", "sh")
        assert "minilm" in typed(cli, status).stdout
        assert f"cache       {tmp_path}/remem/models" in typed(cli, status).stdout
        plain, other = blocks("Downloading a model", "sh")
        done = typed(cli, other.replace("https://models.example.org", web.url))
        assert done.returncode == 0, done.stderr
        assert "mine: the model in" in typed(cli, status).stdout
        cli.environment["REMEM_MODEL_SOURCE"] = web.url
        refused = typed(cli, plain)
        assert refused.returncode == 1
        assert f"{BGE_SMALL.megabytes:.1f} MB" in refused.stderr
        moved = typed(cli, blocks("Switching models", "sh")[0].splitlines()[0])
        assert moved.returncode == 0, moved.stderr


def typed(cli: Cli, line: str) -> Any:
    program, *words = shlex.split(line, comments=True)
    assert program == "remem"
    return cli(*words)


@pytest.mark.covers("RE32", "RP16")
def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert BGE_SMALL.parts[0].size is not None
    assert f"| bge-small-en-v1.5, int8 | 384 | {BGE_SMALL.parts[0].size / 1e6:.0f} MB" in TEXT
    assert f"| hash | {DIMENSIONS} |" in TEXT
    weights = len(minilm_files()["model.onnx"]) / 1e6
    assert f"| all-MiniLM-L6-v2, int8 | 384 | {weights:.0f} MB" in TEXT
    assert BGE_SMALL.licence == "MIT"
    batch = http_answer.BATCH_BYTES // 1000
    assert f"64 texts or {batch} kB a request" in SECTIONS["Endpoints"]
    assert "a recall or a write five seconds" in SECTIONS["Endpoints"]
    assert http.LIVE_SECONDS == 5
    assert "first token" in TEXT
    assert "`NO_PROXY`" in SECTIONS["Downloading a model"]
    for word in ("share", "collide", "Paraphrases without a common word are not found"):
        assert word in SECTIONS["Limits of the hash embedding"]


def test_the_directory_of_the_page_is_a_model(model: Path) -> None:
    assert OnnxEmbedding(model).dimensions == 384
