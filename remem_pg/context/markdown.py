"""A folder of Markdown files as a provider: searched by words alone."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from remem_pg.context import markdown_files as files
from remem_pg.context.markdown_text import Section, missing, sections
from remem_pg.context.record import Record
from remem_pg.context.scope import Scope
from remem_pg.context.words import WordIndex, english_stem, words
from remem_pg.errors import InvalidArgument

TITLE_WEIGHT = 2
"""How often a word of the title or the front matter counts."""


class MarkdownProvider:
    """The Markdown files of a folder and the folders in it, each heading a record.

    Args:
        id: the provider's id.
        folder: it is read at the first search, and at every one what changed since.
        least: share of the question's weight that a record has to contain, 0 to 1.
        most_files: files beyond that are not read.
        most_bytes: a longer file is passed over.

    Front matter (YAML) may give title, aliases, tags, summary, kind, scope with scope_ref (or
    ``project: name``), importance, confidence, freshness, updated, subject, attribute, source.
    Without a scope a file is global. A file whose front matter cannot be read is passed over. Links
    are not followed, hidden files not read. Needs the extra ``markdown``; ``skipped`` says what was
    passed over. Safe to use from several threads.
    """

    def __init__(
        self,
        id: str,
        folder: str | os.PathLike[str],
        *,
        least: float = 0.25,
        most_files: int = 20_000,
        most_bytes: int = 1_000_000,
    ) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise InvalidArgument("a folder is a path", detail={"argument": "folder"})
        self.id = id
        self.skipped: dict[str, str] = {}
        """Files that were passed over, with the reason."""
        self._folder = Path(folder)
        self._least = least
        self._most_files = most_files
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._index = WordIndex()
        self._files: dict[str, _File] = {}
        self._sections: dict[str, Section] = {}

    def search(self, query: str, scope: Scope, limit: int) -> list[Record | dict[str, Any]]:
        """The sections that contain most of what the question's words weigh.

        Raises OSError when the folder cannot be read, InvalidArgument without the extra."""
        try:
            stem = english_stem()
        except ImportError as error:
            raise missing("snowballstemmer") from error
        with self._lock:
            self._refresh()
            found = self._index.search(words(query, stem), len(self._sections), self._least)
            records: list[Record | dict[str, Any]] = []
            for key, score in found:
                fields = self._sections[key].fields
                if _within(scope, fields):
                    records.append({**fields, "score": score})
                    if len(records) >= limit:
                        break
            return records

    def refresh(self) -> int:
        """Reads what changed, as every search does; answers how many sections there are."""
        with self._lock:
            self._refresh()
            return len(self._sections)

    def _refresh(self) -> None:
        stem = english_stem()
        seen: set[str] = set()
        for file in files.scan(self._folder, self._most_files):
            seen.add(file.name)
            known = self._files.get(file.name)
            if known is None or known.changed(file.signature):
                self._read(file, stem)
        for name in self._files.keys() - seen:
            self._forget(name)
            self.skipped.pop(name, None)

    def _read(self, file: files.Seen, stem: Any) -> None:
        self._forget(file.name)
        self.skipped.pop(file.name, None)
        read_at, signature, found = time.time_ns(), file.signature, []
        try:
            text, signature, read_at = files.read(self._folder, file.path, self._most_bytes)
            found = sections(file.name, text)
        except (OSError, ValueError) as error:
            self.skipped[file.name] = str(error) if isinstance(error, ValueError) else _why(error)
        keys = []
        for section in found:
            key = section.fields["id"]
            counts = Counter(words(section.fields["body"], stem))
            for word in words(section.found_by, stem):
                counts[word] += TITLE_WEIGHT
            self._index.put(key, counts)
            self._sections[key] = section
            keys.append(key)
        self._files[file.name] = _File(signature, read_at, tuple(keys))

    def _forget(self, name: str) -> None:
        known = self._files.pop(name, None)
        for key in known.keys if known else ():
            self._index.remove(key)
            del self._sections[key]


class _File:
    """What is known of a file: how it looked when it was read, and its records."""

    __slots__ = ("keys", "read_at", "signature")

    def __init__(self, signature: files.Signature, read_at: int, keys: tuple[str, ...]) -> None:
        self.signature = signature
        self.read_at = read_at
        self.keys = keys

    def changed(self, signature: files.Signature) -> bool:
        return signature != self.signature or files.is_racy(signature, self.read_at)


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def _within(scope: Scope, fields: Any) -> bool:
    """Left out here, so that others' records take no place; what counts is decided afterwards."""
    name = fields.get("scope", "global")
    if not isinstance(name, str):
        return False
    return scope.allows("global" if name == "workspace" else name, fields.get("scope_ref"))
