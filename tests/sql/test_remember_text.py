"""Texts and times as they are stored: composition, sizes, zones."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from random import Random

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.memories import (
    Connection,
    bodies,
    get,
    recall,
    remember,
    remember_many,
    value,
)


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def test_every_text_is_stored_composed(db: Connection) -> None:
    word = "café Ångström 각"
    said = {
        "title": word,
        "summary": word,
        "ref": word,
        "subject": word,
        "speaker": word,
        "tags": [word],
        "aliases": [word],
        "session_ref": word,
        "source_ref": word,
        "metadata": {word: [word, {"deep": word}]},
    }
    given = {key: decomposed(text) if isinstance(text, str) else text for key, text in said.items()}
    given["tags"] = given["aliases"] = [decomposed(word)]
    given["metadata"] = {decomposed(word): [decomposed(word), {"deep": decomposed(word)}]}
    ref = remember(db, "w", decomposed(word), **given)
    memory = get(db, "w", memory_id=ref.memory_id)
    assert {key: getattr(memory, key) for key in said} == said
    assert memory.body == word


def test_composed_and_decomposed_content_is_the_same_content(db: Connection) -> None:
    remember(db, "w", "naïve café", ref="r")
    assert remember(db, "w", decomposed("naïve café"), ref="r").outcome == "unchanged"
    assert remember(db, "w", decomposed("naïve café")).outcome == "merged"


@pytest.mark.parametrize("before", ["\n", "\t", "\r", "\b", "\f", "\x1a", "\x1f", '"', "\\", "/"])
@pytest.mark.parametrize("mark", ["\u0301", "\u0303", "\u0307", "\u0327", "\u0338"])
def test_a_mark_behind_a_character_that_json_escapes_stays_behind_it(
    file_db: Connection, own_name: str, before: str, mark: str
) -> None:
    body = f"n{before}{mark}e\u0301\\n\u0303 {before}\\{before}{mark}"
    ref = remember(file_db, own_name, body, metadata={body: body})
    memory = get(file_db, own_name, memory_id=ref.memory_id)
    assert memory.body == unicodedata.normalize("NFC", body)
    assert memory.metadata == {memory.body: memory.body}


def test_texts_of_every_kind_come_back_as_their_composed_form(db: Connection) -> None:
    random = Random(15)
    alphabet = [
        *map(chr, range(1, 0x180)),
        *map(chr, range(0x300, 0x370)),
        *"\u1100\u1161\u11a8\u0915\u093c\ufb01\u212b\u037e\u1fef\u2126\U0001d15e😀字",
    ]
    texts = ["x" + "".join(random.choices(alphabet, k=60)) for _ in range(200)]
    refs = remember_many(db, "w", [{"body": text, "session_ref": "s"} for text in texts])
    for ref, text in zip(refs, texts, strict=True):
        assert get(db, "w", memory_id=ref.memory_id).body == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("2026-03-01T12:00:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00+13:00", datetime(2026, 2, 28, 23, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def test_a_datetime_without_a_zone_is_utc_whatever_the_session_says(
    db: Connection, said: str, stored: datetime, zone: str
) -> None:
    db.execute(f"set timezone = '{zone}'")
    (ref,) = remember_many(db, "w", [{"body": "x", "occurred_at": said, "valid_from": said}])
    memory = get(db, "w", memory_id=ref.memory_id)
    assert (memory.occurred_at, memory.valid_from) == (stored, stored)


@pytest.mark.parametrize("style", ["ISO, MDY", "German", "SQL, DMY", "Postgres, YMD"])
def test_a_date_in_json_means_the_same_under_every_date_style(db: Connection, style: str) -> None:
    db.execute(f"set datestyle = '{style}'")
    (ref,) = remember_many(db, "w", [{"body": "x", "occurred_at": "03/04/2026"}])
    stored = value(
        db,
        "select occurred_at = '2026-03-04 00:00+00' from remem.memory where memory_id = %s",
        [ref.memory_id],
    )
    assert stored


def test_filters_see_times_in_utc(db: Connection) -> None:
    db.execute("set timezone = 'Pacific/Auckland'")
    remember(db, "w", "x", occurred_at=datetime(2026, 3, 1, 23, tzinfo=UTC))
    assert value(db, "select remem.count('w', '$.occurred_at starts with \"2026-03-01T23\"')") == 1


def test_remember_leaves_the_session_s_settings_alone(db: Connection) -> None:
    db.execute("set timezone = 'Pacific/Auckland'")
    db.execute("set datestyle = 'German'")
    remember(db, "w", "The first call loads pgvector, which brings settings of its own.")
    before = db.execute("select name, setting from pg_settings order by name").fetchall()
    with db.transaction():
        remember(db, "w", "x", session_ref="s", ref="r")
        within = db.execute("select name, setting from pg_settings order by name").fetchall()
    assert within == before


def test_a_body_of_two_megabytes_is_kept_whole_and_found_by_its_first_and_last_word(
    db: Connection,
) -> None:
    random = Random(2)
    filler = ["retry", "page", "deploy", "queue", "kafka", "login", "token"]
    words = random.choices(filler, k=350_000)
    body = "aardvark " + " ".join(words)[: 2 * 1024 * 1024 - 20]
    ref = remember(db, "w", body)
    assert get(db, "w", memory_id=ref.memory_id).body == body
    remember(db, "w", "something else")
    assert recall(db, "w", "aardvark", mode="lexical")[0].memory_id == ref.memory_id
    assert problems(db) == []


def test_a_memory_of_sixty_thousand_distinct_words_is_found_by_each_of_them(
    db: Connection,
) -> None:
    words = [f"word{n:05d}" for n in range(60_000)]
    ref = remember(db, "w", " ".join(words))
    assert value(db, "select count(*) from remem.posting") == 60_000
    for word in (words[0], words[31_337], words[-1]):
        assert [hit.memory_id for hit in recall(db, "w", word, mode="lexical")] == [ref.memory_id]
    remember(db, "w", " ".join(reversed(words)), ref="other")
    assert problems(db) == []


def test_a_batch_of_a_thousand_is_stored_in_one_call(db: Connection) -> None:
    items = [
        {"body": f"Fact number {n} about the {n % 7}th machine.", "ref": f"r{n}"}
        for n in range(1000)
    ]
    refs = remember_many(db, "w", items)
    assert {ref.outcome for ref in refs} == {"created"}
    assert [ref.ref for ref in refs] == [item["ref"] for item in items]
    assert value(db, "select remem.count('w')") == 1000
    assert {ref.outcome for ref in remember_many(db, "w", items)} == {"unchanged"}
    assert problems(db) == []


def test_metacharacters_of_sql_json_and_regular_expressions_are_only_text(
    db: Connection,
) -> None:
    nasty = "'; drop table remem.memory; -- \" $1 %s {} \\ \\' $$ [^a] (?i) </x> \\u0041 \x1f"
    said = {
        "ref": nasty,
        "title": nasty,
        "tags": [nasty],
        "speaker": nasty,
        "session_ref": nasty,
        "metadata": {nasty: nasty},
        "source_ref": nasty,
        "topic_key": nasty,
        "subject": nasty,
    }
    remember(db, "w ' \" \\ $", nasty, **said)
    memory = get(db, "w ' \" \\ $", ref=nasty)
    assert {key: getattr(memory, key) for key in said} == said
    assert bodies(recall(db, "w ' \" \\ $", nasty)) == [nasty]


@pytest.mark.parametrize(
    "json",
    [
        r'[{"body": "a\u0000b"}]',
        r'[{"body": "x", "metadata": {"a\u0000": 1}}]',
        r'[{"body": "a\ud800b"}]',
        r'[{"body": "a\udc00\ud800b"}]',
    ],
)
def test_json_with_a_nul_or_half_a_surrogate_pair_is_refused_by_the_type_itself(
    db: Connection, json: str
) -> None:
    with pytest.raises(psycopg.DataError) as caught:
        db.execute("select remem.remember_many('w', %s::jsonb)", [json])
    assert caught.value.sqlstate in ("22P05", "22P02")
    assert value(db, "select count(*) from remem.workspace") == 0
