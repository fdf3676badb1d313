"""C13: a two-character word inside a Chinese, Japanese or Korean sentence is found."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, bodies, recall, remember_many

SENTENCES = {
    "我们把支付网关迁移到了新加坡的机房": ["支付", "网关", "迁移", "新加坡", "机房"],
    "他喜欢在早上喝一杯不加糖的咖啡": ["早上", "咖啡", "喜欢"],
    "本番のデータベースは毎晩バックアップされます": ["本番", "毎晩", "データベース"],
    "彼女は犬より猫の方が好きです": ["彼女", "好き"],
    "결제 서버는 매주 화요일에 재시작됩니다": ["결제", "서버", "화요일"],
    "그는 설탕 없는 커피를 좋아합니다": ["설탕", "커피"],
}


def fill(db: Connection) -> None:
    remember_many(db, "w", [{"body": body} for body in SENTENCES])


@pytest.fixture(scope="module")
def sentences_name(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def sentences(server: Server, sentences_name: str) -> Iterator[Connection]:
    with owner(server, sentences_name) as conn:
        yield conn


@pytest.mark.parametrize(
    ("sentence", "word"),
    [(sentence, word) for sentence in SENTENCES for word in SENTENCES[sentence]],
)
@pytest.mark.parametrize("question", ["{}", "tell me about {}", "「{}」？"])
def test_a_word_inside_a_sentence_is_found(
    sentences: Connection, sentence: str, word: str, question: str
) -> None:
    for mode in ("auto", "lexical"):
        assert recall(sentences, "w", question.format(word), mode=mode)[0].body == sentence


def test_halfwidth_and_composed_forms_meet(db: Connection) -> None:
    remember_many(db, "w", [{"body": "新しいサーバーへ移行"}, {"body": "古い話"}])
    assert recall(db, "w", "ｻｰﾊﾞｰ", mode="lexical")[0].body == "新しいサーバーへ移行"
    remember_many(db, "w", [{"body": "서버 재시작"}])
    decomposed = "\u1109\u1165\u1107\u1165"
    assert recall(db, "w", decomposed, mode="lexical")[0].body == "서버 재시작"


CJK = re.compile(r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3]{2,}")
LANGUAGES = ["english", "german", "simple", "russian"]
MIXED = {
    "We moved the 支付网关 to Singapore": ["支付", "网关"],
    "Redis在生产环境崩溃了三次": ["生产", "崩溃", "Redis"],
    "本番DBのバックアップ": ["本番", "DB"],
    "새벽에 Kafka 클러스터가 멈췄다": ["새벽", "Kafka"],
    "東京・大阪・名古屋": ["東京", "大阪", "古屋"],
    "「東京」と（大阪）": ["東京", "大阪"],
    "価格は１２３円です": ["価格"],
    "𠮷野家で食べた": ["𠮷野"],
    "การชำระเงินล้มเหลวเมื่อวาน": ["ชำระ"],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_two_characters_that_stand_together_are_found_in_any_language(
    db: Connection, language: str
) -> None:
    db.execute("select remem.create_workspace('w', %s)", [language])
    remember_many(db, "w", [{"body": body} for body in SENTENCES])
    tried = 0
    for sentence in SENTENCES:
        for run in CJK.findall(sentence):
            for at in range(len(run) - 1):
                word = run[at : at + 2]
                holders = [body for body in SENTENCES if word in body]
                found = bodies(recall(db, "w", word, mode="lexical", k=20))
                assert sorted(found) == sorted(holders), word
                tried += 1
    assert tried > 60


@pytest.mark.parametrize("sentence", MIXED)
def test_a_word_among_others_scripts_digits_and_marks_is_found(
    db: Connection, sentence: str
) -> None:
    remember_many(db, "w", [{"body": sentence}, {"body": "没有关系的句子"}, {"body": "unrelated"}])
    for word in MIXED[sentence]:
        for question in (word, f"{word}？", f'"{word}"', f"what about {word}, please?"):
            hits = recall(db, "w", question, mode="lexical")
            assert hits[0].body == sentence, question


@pytest.mark.parametrize("field", ["title", "summary", "aliases", "tags", "speaker"])
def test_other_fields_are_found_by_two_characters_too(db: Connection, field: str) -> None:
    text = "支付网关"
    value = [text] if field in ("aliases", "tags") else text
    remember_many(db, "w", [{"body": "x", field: value}, {"body": "y"}])
    assert recall(db, "w", "网关", mode="lexical")[0].body == "x"


def test_a_change_of_language_does_not_lose_them(db: Connection) -> None:
    remember_many(db, "w", [{"body": body} for body in SENTENCES])
    db.execute("select remem.set_language('w', 'german')")
    assert recall(db, "w", "网关", mode="lexical")[0].body.startswith("我们")
    db.execute("select remem.reindex_text('w')")
    for sentence, words in SENTENCES.items():
        for word in words:
            hits = recall(db, "w", word, mode="lexical")
            assert hits[0].body == sentence
            assert hits[0].degraded == []
