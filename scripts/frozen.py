"""Landed migrations never change: their hashes stand in ``migrations/FROZEN``.

The file has the form of sha256sum, so ``cd migrations && sha256sum -c FROZEN`` says the same.
``python -m scripts.frozen`` checks; with ``--freeze`` it adds the migrations not listed yet,
which whoever lands them does once, as the last commit of the change.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

from scripts.generated import ROOT

_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_frozen(directory: Path) -> dict[str, str]:
    """File name to sha256; empty before the first migration has landed."""
    listing = directory / "FROZEN"
    if not listing.exists():
        return {}
    pairs = (line.split(maxsplit=1) for line in listing.read_text().splitlines() if line.strip())
    return {name.strip(): digest for digest, name in pairs}


def problems(directory: Path) -> list[str]:
    """What is wrong: a frozen file changed or gone, a bad name, a number twice or left out."""
    found: list[str] = []
    files = {path.name: path for path in sorted(directory.glob("*.sql"))}
    for name, digest in read_frozen(directory).items():
        if name not in files:
            found.append(f"{name} has landed and is gone")
        elif hash_of(files[name]) != digest:
            found.append(f"{name} has landed and was changed; write a new migration instead")
    numbers: list[int] = []
    for name in files:
        match = _NAME.fullmatch(name)
        if match is None:
            found.append(f"{name} is not named NNNN_what_it_does.sql")
        else:
            numbers.append(int(match[1]))
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"migration numbers are not 1 to {len(numbers)}: {numbers}")
    return found


def freeze(directory: Path) -> list[str]:
    """Add every migration not listed yet; returns their names."""
    frozen = read_frozen(directory)
    fresh = [path for path in sorted(directory.glob("*.sql")) if path.name not in frozen]
    lines = [f"{digest}  {name}\n" for name, digest in frozen.items()]
    lines += [f"{hash_of(path)}  {path.name}\n" for path in fresh]
    (directory / "FROZEN").write_text("".join(sorted(lines, key=lambda line: line.split()[1])))
    return [path.name for path in fresh]


def main() -> int:
    parser = argparse.ArgumentParser(description="check or freeze the landed migrations")
    parser.add_argument("--freeze", action="store_true", help="list the migrations not listed yet")
    arguments = parser.parse_args()
    directory = ROOT / "migrations"
    found = problems(directory)
    for problem in found:
        print(f"migrations: {problem}", file=sys.stderr)
    if found:
        return 1
    if arguments.freeze:
        print(f"frozen: {', '.join(freeze(directory)) or 'nothing new'}")
        return 0
    frozen = read_frozen(directory)
    waiting = [p.name for p in sorted(directory.glob("*.sql")) if p.name not in frozen]
    print(
        f"migrations: {len(frozen)} frozen, unchanged; not landed: {', '.join(waiting) or 'none'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
