"""Write a generated file, or with ``--check`` prove that the one in the checkout is fresh."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settle(path: Path, text: str, check: bool) -> int:
    """Write ``text`` to ``path``; with ``check`` only compare. Returns the exit code."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    if not check:
        path.write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines())} lines")
        return 0
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    if there == text:
        print(f"{name}: fresh")
        return 0
    diff = difflib.unified_diff(
        there.splitlines(), text.splitlines(), "in the checkout", "generated", lineterm="", n=1
    )
    print(f"{name} is not what its source says; run: ./run docs", file=sys.stderr)
    for line, _ in zip(diff, range(40), strict=False):
        print(f"  {line}", file=sys.stderr)
    return 1
