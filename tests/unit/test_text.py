"""Folding, tokens and document text in Python, and the generated tables behind them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from remem_pg.embedding import _unicode_tables as tables
from remem_pg.text import decode_ranges, document_text, fold, hash_tokens, lower_mapping
from scripts import generate_unicode
from tests.sql.unicode_corpus import corpus

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ÉCOLE Normale", "ecole normale"),
        ("İstanbul IĞDIR", "istanbul igdir"),
        ("ΟΔΟΣ ὁδός", "οδοσ οδος"),
        ("ﬁne Ａｂｃ ①", "fine abc 1"),
        ("\u1112\u1161\u11ab", "한"),
        ("a\u0328\u0301", "a"),
        ("Straße ẞ", "straße ß"),
        ("ﾊﾟ が", "パ が"),
        ("𐐀 𞤀", "𐐨 𞤢"),
    ],
)
def test_folding_removes_case_width_accents_and_composition(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_folding_twice_changes_nothing() -> None:
    for text in corpus():
        assert fold(fold(text)) == fold(text)


def test_folding_is_nfkc_then_lower_case_then_accents_stripped() -> None:
    """The short way (decompose, strip, lower, compose) gives what the definition gives."""
    excluded = {c for a, b in decode_ranges(tables.EXCLUDED) for c in range(a, b + 1)}
    for code in range(0x110000):
        if code in excluded:
            continue
        lowered = unicodedata.normalize("NFKC", chr(code)).translate(lower_mapping())
        stripped = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", lowered))
        assert fold(chr(code)) == unicodedata.normalize("NFC", stripped), hex(code)


def test_code_points_newer_than_the_tables_become_spaces() -> None:
    newer = "\U0001e030"  # assigned in 15.0, with a compatibility decomposition
    assert fold(f"a{newer}b") == "a b"
    assert hash_tokens(f"left{newer}right") == ["left", "right"]


def test_tokens_are_distinct_in_order_without_stop_words_and_single_units() -> None:
    assert hash_tokens("The retry: of a RETRY, x, queue-retry 7 42 𝔘 𠀀") == [
        "retry",
        "queue",
        "42",
        "𠀀",
    ]


def test_the_tables_are_of_unicode_14() -> None:
    assert tables.UNICODE_VERSION == "14.0.0"
    assert tables.SHA256 == generate_unicode.TABLES_SHA256 == generate_unicode.load().digest()


def test_lower_case_is_one_code_point_for_one() -> None:
    mapping = lower_mapping()
    assert mapping[0x130] == ord("i")
    assert mapping[ord("Σ")] == ord("σ")
    assert not set(mapping) & set(mapping.values())


def test_the_generated_files_are_fresh() -> None:
    assert generate_unicode.main(["--check"]) == 0


def test_the_check_fails_on_a_changed_file(tmp_path: Path) -> None:
    for name in ("scripts/generate_unicode.py", "sql/12_text_tables.sql", "sql/12_text_case.sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "remem_pg" / "embedding"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "remem_pg/embedding/_unicode_tables.py", package)

    def check() -> int:
        script = tmp_path / "scripts" / "generate_unicode.py"
        command = [sys.executable, str(script), "--check"]
        return subprocess.run(command, check=False, capture_output=True).returncode

    assert check() == 0
    with (tmp_path / "sql/12_text_case.sql").open("a", encoding="ascii") as file:
        file.write("-- edited\n")
    assert check() == 1


def test_another_unicode_version_reads_the_stored_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_unicode.unicodedata, "unidata_version", "99.0.0")
    monkeypatch.setattr(generate_unicode, "derive", lambda: pytest.fail("derived afresh"))
    assert generate_unicode.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"body": "b"}, "b"),
        ({"title": "t", "summary": "s", "body": "b"}, "t\ns\nb"),
        ({"body": "b", "speaker": "Ann"}, "Ann: b"),
        ({"body": "b", "speaker": ""}, "b"),
        ({"title": "", "body": "b", "aliases": ["x", None, "y"], "tags": []}, "b\nx y"),
        ({"title": "t", "speaker": "Ann", "tags": ["p", "q"]}, "t\np q"),
        ({}, ""),
    ],
)
def test_document_text_joins_the_parts_that_are_there(
    arguments: dict[str, object], expected: str
) -> None:
    assert document_text(**arguments) == expected  # type: ignore[arg-type]
