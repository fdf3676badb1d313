"""Bringing a model to this machine: said first, gone on with, checked, and there all at once.

Only a command or a call that names it gets here; nothing else in the package downloads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from remem_pg.embedding import model_store
from remem_pg.embedding.download_lock import only_one
from remem_pg.embedding.http_client import hide, open_client, place_of
from remem_pg.embedding.known_models import ANY, DEFAULT, KNOWN, KnownModel, Part
from remem_pg.embedding.transfer import DISK, Absent, Patience, Wanted, failed, fetch
from remem_pg.errors import InvalidArgument, RememError

HUB = "https://huggingface.co"
SOURCE = "REMEM_MODEL_SOURCE"
"""The environment variable that names a mirror of the hub."""


@dataclass(frozen=True)
class Downloaded:
    """A model on disk: where, how it was checked (``pinned``, ``recorded`` on an earlier download,
    ``first_use``), and the bytes that were fetched for it now (0: it was there)."""

    model: str
    path: Path
    checked: str
    fetched: int
    source: str


def download(
    model: str = DEFAULT,
    *,
    source: str | None = None,
    url: str | None = None,
    trust_new: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[str, int, int | None], None] | None = None,
    check: Callable[[Path], Mapping[str, Any] | None] = lambda path: None,
    patience: Patience | None = None,
    known: KnownModel | None = None,
) -> Downloaded:
    """Bring a model into the cache, or find that it is there and whole.

    Args:
        model: a known model's name, or with ``url`` any name that it shall have here.
        source: a mirror that has the hub's paths; else REMEM_MODEL_SOURCE, else the hub.
        url: the address of a directory with the model's files, instead of a hub.
        trust_new: take other content than that of the first download.
        say: gets one line with size, source and place before anything is asked of the network.
        progress: called with file, bytes there and bytes in all.
        check: looks at the complete model before it takes its place, and may answer with its
            relevance thresholds, which are kept with it; what it raises ends the download.
        patience: how long the source may take.
        known: the model itself, instead of the one of that name.

    Raises:
        EmbeddingUnavailable: with the ``reason`` in its detail, see ``transfer.fetch``; also
            ``locked`` when another process downloads the same for half an hour. It is recorded,
            see ``model_store.record``.
        InvalidArgument: an unknown model, or an address that is none.
    """
    chosen = known or _chosen(model_store.checked_name(model), url)
    base = _base(url or source or os.environ.get(SOURCE) or HUB)
    job = _Job(
        chosen, base, url is not None, trust_new, say, progress, check, patience or Patience()
    )
    try:
        return job.run()
    except RememError as error:
        job.note_failure(error)
        raise
    except OSError as error:
        failure = failed(
            Wanted(base, model_store.model_cache()), "disk", f"it cannot be kept: {error}", DISK
        )
        job.note_failure(failure)
        raise failure from error


def announcement(model: KnownModel, base: str) -> str:
    """One line: what comes from where, how large it is, and where it goes."""
    size = "of unknown size" if model.megabytes is None else f"{model.megabytes:.1f} MB"
    licence = f", licence {model.licence}" if model.licence else ""
    place = model_store.model_cache() / model.name
    return f"Downloading {model.name}, {size}{licence}, from {place_of(base)} to {place}"


def _chosen(name: str, url: str | None) -> KnownModel:
    if url is not None:
        found = KNOWN.get(name)
        # the same files in one directory: still the same checksums
        return found or KnownModel(name, ANY)
    if name not in KNOWN:
        raise InvalidArgument(
            f"unknown model {name!r}",
            detail={"argument": "model", "value": name, "valid": sorted(KNOWN)},
            hint=f"one of {', '.join(sorted(KNOWN))}, or say with --url where its files are",
        )
    return KNOWN[name]


def _base(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgument(
            "a source is an address with http:// or https://",
            detail={"argument": "source", "value": place_of(address)},
            hint="a directory on this machine needs no download: name it in REMEM_MODEL_PATH",
        )
    hide(address)
    return address.rstrip("/")


@dataclass
class _Job:
    """One download."""

    model: KnownModel
    base: str
    flat: bool
    trust_new: bool
    say: Callable[[str], None]
    progress: Callable[[str, int, int | None], None] | None
    check: Callable[[Path], Mapping[str, Any] | None]
    patience: Patience
    fetched: int = 0
    final: Path = field(init=False)
    partial: Path = field(init=False)

    def __post_init__(self) -> None:
        self.final = model_store.model_cache() / self.model.name
        self.partial = model_store.partial(self.model.name)

    def run(self) -> Downloaded:
        there = self._there()
        if there is not None:
            return there
        self.say(announcement(self.model, self.base))
        with only_one(self.model.name, self.say):
            there = self._there()  # another process was quicker
            if there is not None:
                return there
            self.partial.mkdir(parents=True, exist_ok=True)
            with open_client(self.patience.silence, redirects=True) as client:
                files = self._files(client)
            recorded = model_store.record(self.model.name).get("files", {})
            thresholds = dict(self.check(self.partial) or {})
            checked = self._checked(files, recorded)
            document = {
                "model": self.model.name,
                "licence": self.model.licence,
                "source": place_of(self.base),
                "checked": checked,
                "files": files,
                "thresholds": thresholds,
            }
            model_store.write_json(self.partial / model_store.MANIFEST, document)
            self._take_place(files)
            model_store.note(
                self.model.name,
                "completed",
                files=files,
                source=place_of(self.base),
                bytes=self.fetched,
            )
        source = place_of(self.base)
        return Downloaded(self.model.name, self.final, checked, self.fetched, source)

    def note_failure(self, error: RememError) -> None:
        """Keeps the error for who asks later; a cache that cannot be written is said already."""
        facts = {
            "code": error.code,
            "reason": error.detail.get("reason"),
            "message": error.message,
            "hint": error.hint,
        }
        try:
            model_store.note(self.model.name, "failed", source=place_of(self.base), error=facts)
        except OSError:
            return

    def _there(self) -> Downloaded | None:
        said = model_store.manifest(self.final)
        if not said or model_store.broken_files(self.final):
            return None
        for part in self.model.parts:
            about = said["files"].get(part.path, {})
            if part.sha256 is not None and about.get("sha256") != part.sha256:
                return None
        return Downloaded(
            self.model.name, self.final, said["checked"], 0, str(said.get("source", ""))
        )

    def _files(self, client: Any) -> dict[str, dict[str, Any]]:
        """Every file of the model in the partial directory, with size and checksum."""
        files: dict[str, dict[str, Any]] = {}
        for part in self.model.parts:
            found = self._first(client, part)
            if found is not None:
                path, size, sha256 = found
                files[path] = {"size": size, "sha256": sha256}
        return files

    def _first(self, client: Any, part: Part) -> tuple[str, int, str] | None:
        """The file at the first place that has it; None for one that may be missing."""
        for path in (part.path, *part.instead):
            wanted = self._wanted(replace(part, path=path))
            known = self._have(wanted, path)
            if known is not None:
                return (path, *known)
            try:
                size, sha256 = fetch(
                    client,
                    wanted,
                    self.patience,
                    None if self.progress is None else partial(self.progress, path),
                )
            except Absent:
                continue
            self.fetched += size
            return path, size, sha256
        if part.optional:
            return None
        raise failed(
            self._wanted(part),
            "http",
            "it has no such file",
            "look at the address, or use another --source",
            status=404,
        )

    def _wanted(self, part: Part) -> Wanted:
        if self.flat:
            url = f"{self.base}/{quote(part.path)}"
        else:
            url = f"{self.base}/{part.repository}/resolve/{part.revision}/{quote(part.path)}"
        return Wanted(url, self.partial / part.path, part.size, part.sha256)

    def _have(self, wanted: Wanted, path: str) -> tuple[int, str] | None:
        """A file of an earlier try, or of a damaged model, that is known to be right."""
        about = model_store.manifest(self.final).get("files", {}).get(path, {})
        expected = wanted.sha256 or about.get("sha256")
        if expected is None:
            wanted.path.unlink(missing_ok=True)
            return None
        kept = self.final / path
        if not wanted.path.is_file() and kept.is_file():
            wanted.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, wanted.path)
        if wanted.path.is_file():
            if model_store.digest(wanted.path) == expected:
                return wanted.path.stat().st_size, expected
            wanted.path.unlink()
        return None

    def _checked(self, files: dict[str, Any], recorded: dict[str, Any]) -> str:
        """How the files were checked; refuses other content than that of the first download."""
        if all(part.sha256 is not None for part in self.model.parts):
            return "pinned"
        for path, about in files.items():
            before = recorded.get(path, about)["sha256"]
            if before != about["sha256"] and not self.trust_new:
                shutil.rmtree(self.partial, ignore_errors=True)
                raise failed(
                    Wanted(self.base, self.partial / path),
                    "checksum",
                    "it is not the file of the first download",
                    "if the source was changed on purpose, say --trust-new",
                    got=about["sha256"],
                    expected=before,
                )
        return "recorded" if recorded and not self.trust_new else "first_use"

    def _take_place(self, files: Mapping[str, Any]) -> None:
        """The complete model gets its name; one that stood there goes."""
        for path in [path for path in self.partial.rglob("*") if path.is_file()]:
            name = path.relative_to(self.partial).as_posix()
            if name not in files and name != model_store.MANIFEST:
                path.unlink()  # left of an earlier try
        old = self.partial.with_name(f"{self.partial.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.final.exists():
            self.final.replace(old)
        self.partial.replace(self.final)
        shutil.rmtree(old, ignore_errors=True)
