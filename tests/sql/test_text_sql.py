"""Folding and lexical analysis in SQL."""

from __future__ import annotations

import hashlib
from typing import Any

import psycopg
import pytest

from remem_pg.embedding import _unicode_tables as tables
from remem_pg.text import decode_ranges, document_text, fold
from tests.sql.unicode_corpus import WRITTEN, corpus

Connection = psycopg.Connection[Any]


def lexemes(db: Connection, text: str, language: str = "english") -> dict[str, tuple[int, bool]]:
    rows = db.execute(
        "select lexeme, tf, extra from remem._lexemes(%s, remem._language_dictionaries(%s))",
        (text, language),
    ).fetchall()
    assert len({row[0] for row in rows}) == len(rows), "a lexeme came twice"
    return {row[0]: (row[1], row[2]) for row in rows}


def words(db: Connection, text: str, language: str = "english") -> set[str]:
    return {word for word, (_, extra) in lexemes(db, text, language).items() if not extra}


def wholes(db: Connection, text: str) -> set[str]:
    return {word for word, (_, extra) in lexemes(db, text).items() if extra}


@pytest.mark.parametrize("fixture", ["db", "c_locale_db"])
def test_sql_and_python_fold_every_script_alike(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    texts = corpus()
    rows = request.getfixturevalue(fixture).execute(
        "select remem._fold(t) from unnest(%s::text[]) with ordinality as u (t, n) order by n",
        (texts,),
    )
    assert [row[0] for row in rows] == [fold(text) for text in texts]


def test_words_are_stemmed_and_stop_words_dropped(file_db: Connection) -> None:
    found = lexemes(file_db, "The errors: an ERROR, and Ratatouille's recipes; recipe")
    assert found == {
        "error": (2, False),
        "ratatouill": (1, False),
        "recip": (2, False),
    }


def test_case_and_accents_do_not_matter(file_db: Connection) -> None:
    assert words(file_db, "CAFÉ Zürich", "simple") == words(file_db, "cafe zurich", "simple")


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("raised ERR_4071 again", {"err_4071"}),
        ("see (src/net/tls.rs).", {"src/net/tls.rs", "tls.rs"}),
        ("in src/net/tls.rs:120, there", {"src/net/tls.rs:120", "src/net/tls.rs", "tls.rs"}),
        ("ask a.b@C.org!", {"a.b@c.org", "a.b", "c.org"}),
        ("repo/name#12", {"repo/name#12", "repo/name"}),
        ("C:\\temp\\foo.txt", {"c:\\temp\\foo.txt", "temp\\foo.txt", "foo.txt"}),
        ("a well-known ~/src/main.py", {"well-known", "src/main.py", "main.py"}),
        ("v1.2.3-rc1+build", {"v1.2.3-rc1+build"}),
        ("#4071, @ann and .env -- --flag ...", set()),
        (
            "see https://x.org/a_b?q=ERR_9&z=1.",
            {
                "https://x.org/a_b?q=err_9&z=1",
                "https://x.org/a_b",
                "x.org/a_b",
                "x.org",
                "a_b",
                "err_9",
            },
        ),
    ],
)
def test_identifiers_are_kept_whole_beside_their_words(
    file_db: Connection, text: str, whole: set[str]
) -> None:
    assert wholes(file_db, text) == whole


def test_a_number_after_a_hash_sign_is_a_word(file_db: Connection) -> None:
    assert lexemes(file_db, "issue #4071")["4071"] == (1, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我们决定重试。猫", {"我们", "们决", "决定", "定重", "重试", "猫"}),
        ("東京都の会議", {"東京", "京都", "都の", "の会", "会議"}),
        ("ｶﾞｲﾄﾞ", {"ガイ", "イド"}),
        ("한국어 말", {"한국", "국어", "말"}),
        ("使用pgvector扩展", {"使用", "pgvector", "扩展"}),
        ("ไทย", {"ไท", "ทย"}),
    ],
)
def test_unspaced_scripts_are_bigrams_within_a_run(
    file_db: Connection, text: str, expected: set[str]
) -> None:
    assert words(file_db, text, "simple") == expected


def test_every_unspaced_character_belongs_to_a_word(file_db: Connection) -> None:
    """Otherwise punctuation inside of a run would take part in bigrams."""
    word = {code for a, b in decode_ranges(tables.WORD) for code in range(a, b + 1)}
    excluded = {code for a, b in decode_ranges(tables.EXCLUDED) for code in range(a, b + 1)}
    rows = file_db.execute(
        "select n from generate_series(1, 1114111) as n"
        " where n not between 55296 and 57343"
        " and chr(n) collate \"C\" ~ ('[' || remem._chars_unspaced() || ']')"
    ).fetchall()
    assert {row[0] for row in rows} - excluded <= word


def test_a_long_lexeme_becomes_a_hash(file_db: Connection) -> None:
    long, short = "9" * 257, "9" * 256
    expected = "h:" + hashlib.sha256(long.encode()).hexdigest()
    assert set(lexemes(file_db, f"{long} {short}")) == {expected, short}


def test_sixty_thousand_distinct_tokens_are_all_analysed(file_db: Connection) -> None:
    text = " ".join(f"{number:x}z" for number in range(60_000))
    assert len(lexemes(file_db, text, "simple")) == 60_000


@pytest.mark.parametrize("unit", ["retry ", "a_b ", "Привет ", "漢字仮名", "x/", "x"])
def test_two_megabytes_are_analysed_up_to_the_limit(db: Connection, unit: str) -> None:
    db.execute("set statement_timeout = '30s'")
    text = unit * (2_000_000 // len(unit.encode()))
    limit = db.execute("select remem._lexeme_limit()").fetchone()
    assert limit == (100_000,)
    found = lexemes(db, text, "simple")
    assert found
    assert sum(tf for tf, extra in found.values() if not extra) <= 100_000
    assert sum(tf for tf, extra in found.values() if extra) <= 100_000


def test_the_analysis_does_not_depend_on_the_locale(
    file_db: Connection, c_locale_db: Connection
) -> None:
    for text in [*WRITTEN, "ERR_4071 in src/net/tls.rs", "Élan-Vital ΟΔΟΣ.ΜΟΥ"]:
        assert lexemes(file_db, text) == lexemes(c_locale_db, text)


def test_all_dictionaries_are_asked_in_order(file_db: Connection) -> None:
    rows = file_db.execute(
        "select array_agg(lexeme order by lexeme) from remem._lexemes(%s, %s::regdictionary[])",
        ("the running", ["simple", "english_stem"]),
    ).fetchone()
    assert rows == (["running", "the"],)
    row = file_db.execute(
        "select array_agg(lexeme order by lexeme) from remem._lexemes('the running', '{}')"
    ).fetchone()
    assert row == (["running", "the"],)


def test_dictionaries_of_a_language(file_db: Connection) -> None:
    row = file_db.execute(
        "select remem._language_dictionaries('english')::text[],"
        " remem._language_dictionaries('pg_catalog.german')::text[]"
    ).fetchone()
    assert row == (["english_stem"], ["german_stem"])


def test_a_chain_of_three_dictionaries_reaches_the_last(file_db: Connection) -> None:
    """`passing` hands every word on, as an ispell or synonym dictionary does."""
    file_db.execute(
        "create text search dictionary public.passing (template = simple, accept = false)"
    )
    row = file_db.execute(
        "select array_agg(lexeme) from remem._lexemes('running', %s::regdictionary[])",
        (["public.passing", "public.passing", "public.passing", "english_stem"],),
    ).fetchone()
    assert row == (["run"],)


@pytest.mark.parametrize("language", ["klingon", "", "pg_catalog.klingon", "english; drop"])
def test_an_unknown_language_is_an_invalid_argument(file_db: Connection, language: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        file_db.execute("select remem._language_dictionaries(%s)", (language,))
    assert refused.value.sqlstate == "RM001"
    assert "pg_ts_config" in (refused.value.diag.message_hint or "")


@pytest.mark.parametrize(
    "memory",
    [
        (None, None, "body", None, None, None),
        ("title", "summary", "body", "Ann", ["x", None, "y z"], ["tag"]),
        ("", "", "body", "", [], [""]),
        ("title", None, "", "Ann", ["", ""], None),
        (None, None, None, None, None, None),
    ],
)
def test_document_text_is_the_same_in_python(file_db: Connection, memory: tuple[Any, ...]) -> None:
    row = file_db.execute(
        "select remem._document_text(%s, %s, %s, %s, %s::text[], %s::text[])", memory
    ).fetchone()
    assert row == (document_text(*memory),)
