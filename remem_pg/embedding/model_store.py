"""Where models lie on disk, what was downloaded and checked, and what the last download came to.

Reads and writes small JSON files only; needs no library and no network. Everything stands below
one directory (``model_cache()``):

    NAME/                 a model, complete and checked; NAME/remem-model.json says what was checked
    .partial/NAME/        what has arrived of a model, to be gone on with
    .locks/NAME.lock      held while somebody downloads it
    .records/NAME.json    the last download's outcome, and the checksums of the first one
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from remem_pg.errors import InvalidArgument

MANIFEST = "remem-model.json"
RETRY = "remem embeddings download"


def model_cache() -> Path:
    """Where models are kept: `$XDG_CACHE_HOME/remem/models` (default `~/.cache`)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "remem" / "models"


def checked_name(name: str) -> str:
    """The name of a model, which becomes a directory's. Raises InvalidArgument."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise InvalidArgument(
            f"{name!r} is no name of a model",
            detail={"argument": "model", "value": name},
            hint="letters, digits, dots, dashes and underscores",
        )
    return name


def partial(name: str) -> Path:
    return model_cache() / ".partial" / name


def lock_file(name: str) -> Path:
    return model_cache() / ".locks" / f"{name}.lock"


def cached_models() -> list[Path]:
    """The models in the cache, by name. No cache, or one that cannot be read, is an empty one."""
    try:
        found = [path for path in model_cache().iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(path for path in found if not path.name.startswith("."))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty without one, and for one that is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2, sort_keys=True)
            file.write("\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def digest(path: Path) -> str:
    """SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(directory: Path) -> dict[str, Any]:
    """What was checked of a downloaded model; empty for one that somebody put there."""
    return read_json(directory / MANIFEST)


def broken_files(directory: Path) -> list[str]:
    """The files of a downloaded model that are missing or no longer what was checked."""
    return [
        name
        for name, said in manifest(directory).get("files", {}).items()
        if not (directory / name).is_file() or digest(directory / name) != said.get("sha256")
    ]


def record(name: str) -> dict[str, Any]:
    """The last download of a model: ``status`` (completed, failed), ``at``, ``source``, ``error``
    (code, reason, message, hint), and ``files`` with the checksums of the first download. Empty
    when there was none."""
    return read_json(model_cache() / ".records" / f"{name}.json")


def note(name: str, status: str, **facts: Any) -> None:
    """Records how a download ended; checksums noted before stay. A cache that cannot be written
    is what the download itself reports."""
    document = {"files": record(name).get("files", {})} | facts
    document |= {"model": name, "status": status, "at": datetime.now(UTC).isoformat()}
    write_json(model_cache() / ".records" / f"{name}.json", document)


def last_download() -> dict[str, Any]:
    """The newest record of all models: for a doctor. Empty when nothing was ever downloaded."""
    try:
        paths = sorted((model_cache() / ".records").glob("*.json"))
    except OSError:
        return {}
    found = [read_json(path) for path in paths]
    return max(found, key=lambda one: str(one.get("at", "")), default={})


def status() -> dict[str, Any]:
    """What a doctor wants to know of the models on this machine, without loading one:

    ``cache`` and ``models`` (name, path, bytes, ``checked``: pinned, recorded, first_use, or None
    for one that somebody put there; ``complete``), ``weights_present``, ``last_download`` (see
    ``record``, without the files), and ``retry``, the command that tries again, where the last
    download failed.
    """
    models = [_described(path) for path in cached_models()]
    last = {key: value for key, value in last_download().items() if key != "files"}
    return {
        "cache": str(model_cache()),
        "models": models,
        "weights_present": any(model["complete"] for model in models),
        "last_download": last or None,
        "retry": RETRY if last.get("status") == "failed" else None,
    }


def _described(directory: Path) -> dict[str, Any]:
    said = manifest(directory)
    expected = said.get("files", {})
    sizes = {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file()
    }
    complete = all(sizes.get(name) == about.get("size") for name, about in expected.items())
    return {
        "name": directory.name,
        "path": str(directory),
        "bytes": sum(sizes.values()),
        "checked": said.get("checked"),
        "source": said.get("source"),
        "licence": said.get("licence"),
        "complete": complete and any(name.endswith(".onnx") for name in sizes),
    }
