"""C13: a two-character word inside a Chinese, Japanese or Korean sentence is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, recall, remember_many

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
