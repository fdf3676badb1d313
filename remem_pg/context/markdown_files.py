"""The Markdown files below a folder: which there are, which changed, and their text; never a file
outside of it, whatever links say."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".md", ".markdown")
DEPTH = 32
"""Folders below the first that are looked into."""

RACY_NS = 2_000_000_000
"""A file that changed so short before it was read may change again without looking different."""

Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was found: its path below the folder, with slashes, and what shows a change."""

    name: str
    path: str
    signature: Signature


def signature_of(status: os.stat_result) -> Signature:
    """Size, times of change of content and of entry in nanoseconds, and the file's number."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def is_racy(signature: Signature, read_at_ns: int) -> bool:
    """Whether the file changed so shortly before it was read that it has to be read again."""
    return max(signature[1], signature[2]) > read_at_ns - RACY_NS


def scan(root: Path, most: int) -> Iterator[Seen]:
    """At most so many files, in the order of their names. Hidden ones, links and what may not be
    looked at are passed over. Raises OSError when the folder itself cannot be read."""
    top = os.path.realpath(root)
    folders = [(top, "", 0)]
    found = 0
    while folders:
        folder, prefix, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            if not prefix:
                raise
            continue
        below: list[tuple[str, str, int]] = []
        for entry in ordered:
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            name = prefix + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < DEPTH:
                        below.append((entry.path, f"{name}/", depth + 1))
                    continue
                if not entry.name.lower().endswith(SUFFIXES):
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield Seen(name, entry.path, signature_of(status))
                found += 1
                if found >= most:
                    return
        folders += reversed(below)


def read(root: Path, path: str, most: int) -> tuple[str, Signature, int]:
    """The text of a file, what it looked like, and when that was, in nanoseconds.

    A byte order mark is dropped, what is not UTF-8 is U+FFFD. Raises OSError for what is no file of
    at most ``most`` bytes within the folder, also when a link was put in its way meanwhile.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        read_at = time.time_ns()
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise OSError("no file, or too large")
        _check_inside(root, path, status)
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError("too large")
    return content.decode("utf-8-sig", "replace"), signature_of(status), read_at


def _check_inside(root: Path, path: str, opened: os.stat_result) -> None:
    """A folder on the way may have become a link since it was seen."""
    real = os.path.realpath(path)
    top = os.path.realpath(root)
    if os.path.commonpath([top, real]) != top or not os.path.samestat(Path(real).stat(), opened):
        raise OSError("outside of the folder")
