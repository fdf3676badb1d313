"""Write the frozen Unicode 14.0 tables that the SQL and the Python text analysis share.

    python scripts/generate_unicode.py           # write the files
    python scripts/generate_unicode.py --check   # exit 1 when a file is stale

Outputs: sql/12_text_tables.sql, sql/12_text_case.sql, remem_pg/embedding/_unicode_tables.py.

The tables never change with the interpreter: they are Unicode 14.0 for ever, because postings and
hash vectors that are already stored were made with them. A Python whose unicodedata is 14.0
(3.11) derives them afresh; any other Python reads them back from the generated Python module.
Either way the content must have the digest below, so a wrong table cannot be written or pass.
"""

from __future__ import annotations

import argparse
import hashlib
import runpy
import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

UNICODE_VERSION = "14.0.0"
TABLES_SHA256 = "2131b071da02b243e3d6a15e3e3fabf8a03a7a1c9cf0da08a8971832f9e6ba42"

ROOT = Path(__file__).resolve().parent.parent
CLASSES_PATH = ROOT / "sql" / "12_text_tables.sql"
CASE_PATH = ROOT / "sql" / "12_text_case.sql"
PYTHON_PATH = ROOT / "remem_pg" / "embedding" / "_unicode_tables.py"

CODE_POINTS = 0x110000
# Postgres before 18 (and minor releases of 2025) composes this vowel with a preceding syllable
# although the standard does not, so it is treated like an unassigned code point: a separator.
JUNGSEONG_O_YAE = 0x11A7

Ranges = list[tuple[int, int]]
# (first, last, step, offset): every step-th code point of the range is lowered by adding offset
LowerRuns = list[tuple[int, int, int, int]]


class Tables:
    """The three range tables and the lower-case runs, all sorted by code point."""

    def __init__(self, excluded: Ranges, alnum: Ranges, word: Ranges, lower: LowerRuns) -> None:
        self.excluded = excluded
        self.alnum = alnum
        self.word = word
        self.lower = lower

    def encoded(self) -> dict[str, str]:
        """Name of a constant -> its text: hexadecimal numbers, runs separated by spaces."""
        return {
            "EXCLUDED": encode_ranges(self.excluded),
            "ALNUM": encode_ranges(self.alnum),
            "WORD": encode_ranges(self.word),
            "LOWER": " ".join(
                f"{a:x},{b:x},{step:x},{offset:x}" for a, b, step, offset in self.lower
            ),
        }

    def digest(self) -> str:
        lines = [UNICODE_VERSION, *(f"{name}={text}" for name, text in self.encoded().items())]
        return hashlib.sha256("\n".join(lines).encode("ascii")).hexdigest()

    def lower_pairs(self) -> list[tuple[int, int]]:
        return [
            (code, code + offset)
            for first, last, step, offset in self.lower
            for code in range(first, last + 1, step)
        ]


def encode_ranges(ranges: Ranges) -> str:
    return " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in ranges)


def decode_ranges(text: str) -> Ranges:
    ranges: Ranges = []
    for item in text.split():
        first, _, last = item.partition("-")
        ranges.append((int(first, 16), int(last or first, 16)))
    return ranges


def ranges_where(wanted: Callable[[int], bool], ignored: Callable[[int], bool]) -> Ranges:
    """Maximal ranges of wanted code points; ignored ones may fill a gap: half as many ranges."""
    ranges: Ranges = []
    open_range = False
    for code in range(CODE_POINTS):
        if wanted(code):
            first = ranges.pop()[0] if open_range else code
            ranges.append((first, code))
            open_range = True
        elif not ignored(code):
            open_range = False
    return ranges


def lower_runs(pairs: Iterable[tuple[int, int]]) -> LowerRuns:
    """Group (upper, lower) pairs by equal offset and step (1 for blocks, 2 for Latin pairs)."""
    runs: LowerRuns = []
    for code, lowered in pairs:
        offset = lowered - code
        if runs:
            first, last, step, run_offset = runs[-1]
            gap = code - last
            if offset == run_offset and gap <= 2 and (gap == step or first == last):
                runs[-1] = (first, code, gap, offset)
                continue
        runs.append((code, code, 1, offset))
    return runs


def simple_lower(code: int) -> int:
    """Simple (one to one) lower-case mapping; only U+0130 has a longer full mapping: i + U+0307."""
    return ord(chr(code).lower()[0])


def derive() -> Tables:
    """The tables from the running interpreter, whose unicodedata must be UNICODE_VERSION."""
    category = [unicodedata.category(chr(code)) for code in range(CODE_POINTS)]

    def excluded(code: int) -> bool:
        return category[code] in ("Cn", "Cs") or code == JUNGSEONG_O_YAE

    def never(_: int) -> bool:
        return False

    def in_major(majors: str) -> Callable[[int], bool]:
        return lambda code: category[code][0] in majors and not excluded(code)

    return Tables(
        excluded=ranges_where(excluded, never),
        alnum=ranges_where(in_major("LN"), excluded),
        word=ranges_where(in_major("LNM"), excluded),
        lower=lower_runs(
            (code, simple_lower(code))
            for code in range(0x80, CODE_POINTS)
            if simple_lower(code) != code
        ),
    )


def load() -> Tables:
    """The tables stored in the generated Python module."""
    stored = runpy.run_path(str(PYTHON_PATH))
    runs: LowerRuns = []
    for item in stored["LOWER"].split():
        first, last, step, offset = (int(number, 16) for number in item.split(","))
        runs.append((first, last, step, offset))
    return Tables(
        excluded=decode_ranges(stored["EXCLUDED"]),
        alnum=decode_ranges(stored["ALNUM"]),
        word=decode_ranges(stored["WORD"]),
        lower=runs,
    )


def wrap(pieces: Iterable[str], width: int) -> list[str]:
    """Join pieces into lines of at most width characters, never splitting a piece."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def render_python(tables: Tables) -> str:
    out = [
        '"""Generated by scripts/generate_unicode.py from Unicode 14.0; do not edit.',
        "",
        "Hexadecimal code points. EXCLUDED: unassigned in 14.0, surrogates and U+11A7. ALNUM:",
        "letters and numbers. WORD: letters, numbers and marks (ranges may run over excluded code",
        "points). LOWER: first,last,step,offset runs of the simple mapping beyond ASCII.",
        '"""',
        "",
        f'UNICODE_VERSION = "{UNICODE_VERSION}"',
        f'SHA256 = "{TABLES_SHA256}"',
    ]
    for name, text in tables.encoded().items():
        words = text.split()
        pieces = [word + " " for word in words[:-1]] + words[-1:]
        out += [f"{name} = (", *(f'    "{line}"' for line in wrap(pieces, 92)), ")"]
    return "\n".join(out) + "\n"


def sql_char(code: int) -> str:
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def sql_ranges(ranges: Ranges) -> list[str]:
    """Bracket items for characters that a Postgres text can hold (no NUL, no surrogate)."""
    pieces: list[str] = []
    for first, last in ranges:
        for a, b in ((max(first, 1), min(last, 0xD7FF)), (max(first, 0xE000), last)):
            if a < b:
                pieces.append(f"{sql_char(a)}-{sql_char(b)}")
            elif a == b:
                pieces.append(sql_char(a))
    return pieces


def sql_function(name: str, header: str, comment: str, pieces: list[str]) -> list[str]:
    lines = wrap(pieces, 90)
    return [
        "",
        f"-- {header}",
        f"create or replace function remem.{name}() returns text",
        "language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp",
        "as $body$",
        f"  select E'{lines[0]}'",
        *(f"    '{line}'" for line in lines[1:]),
        "$body$;",
        f"comment on function remem.{name}() is '{comment}';",
    ]


SQL_HEADER = [
    "-- Generated by scripts/generate_unicode.py from Unicode 14.0; do not edit.",
    "-- Frozen character tables, so that text analysis is the same in every locale and under every",
    "-- Postgres and Python version. Immutable constants: the planner folds each call away.",
    f"-- Content digest: {TABLES_SHA256}",
]


def render_classes(tables: Tables) -> str:
    out = SQL_HEADER + sql_function(
        "_chars_excluded",
        "Unassigned in 14.0, and U+11A7: replaced by a space before anything else by _assigned.",
        "Inside of a regex bracket: code points that Unicode 14.0 does not assign, and U+11A7.",
        sql_ranges(tables.excluded),
    )
    out += sql_function(
        "_chars_alnum",
        "Categories L and N. Called by _hash_tokens.",
        "Inside of a regex bracket: letters and numbers of Unicode 14.0.",
        sql_ranges(tables.alnum),
    )
    out += sql_function(
        "_chars_word",
        "Categories L, N and M. Called by _lexemes.",
        "Inside of a regex bracket: letters, numbers and marks of Unicode 14.0.",
        sql_ranges(tables.word),
    )
    return "\n".join(out) + "\n"


def render_case(tables: Tables) -> str:
    pairs = tables.lower_pairs()
    out = SQL_HEADER + sql_function(
        "_chars_upper",
        "Every character beyond ASCII with a simple lower-case mapping. Called by _lower.",
        "Characters beyond ASCII that have a simple lower-case mapping, in code point order.",
        [sql_char(code) for code, _ in pairs],
    )
    out += sql_function(
        "_chars_lower",
        "What the characters of _chars_upper become, in the same order. Called by _lower.",
        "Simple lower-case mappings of _chars_upper(), in the same order.",
        [sql_char(lowered) for _, lowered in pairs],
    )
    return "\n".join(out) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write or check the files; 0 when they are (now) right, 1 when stale or of a wrong digest."""
    parser = argparse.ArgumentParser(description="Generate the frozen Unicode tables.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when stale")
    arguments = parser.parse_args(argv)

    tables = derive() if unicodedata.unidata_version == UNICODE_VERSION else load()
    if tables.digest() != TABLES_SHA256:
        print(f"tables have digest {tables.digest()}, expected {TABLES_SHA256}", file=sys.stderr)
        return 1
    stale = 0
    for path, content in (
        (CLASSES_PATH, render_classes(tables)),
        (CASE_PATH, render_case(tables)),
        (PYTHON_PATH, render_python(tables)),
    ):
        current = path.read_text(encoding="ascii") if path.exists() else None
        if current == content:
            continue
        if arguments.check:
            print(
                f"{path.relative_to(ROOT)} is stale: run scripts/generate_unicode.py",
                file=sys.stderr,
            )
            stale = 1
        else:
            path.write_text(content, encoding="ascii")
            print(f"wrote {path.relative_to(ROOT)}")
    return stale


if __name__ == "__main__":
    sys.exit(main())
