"""Which words find which memories: identifiers, long questions, scripts, any query at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import (
    Connection,
    bodies,
    explain,
    recall,
    refused,
    remember,
    remember_many,
    warnings,
)

IDENTIFIERS = {
    "ERR_4071": "The importer stops with ERR_4071 when the header is missing.",
    "src/net/tls.rs": "The handshake lives in src/net/tls.rs and nowhere else.",
    "ana.silva@example.org": "Ask ana.silva@example.org about the invoices.",
    "#3141": "The flaky login was reported as #3141.",
    "PROJ-77": "PROJ-77 is the ticket of the new dashboard.",
    "v2.13.4": "Production runs v2.13.4 since Monday.",
    "https://wiki.example.org/runbook?page=7": (
        "The runbook is https://wiki.example.org/runbook?page=7 for all."
    ),
    "f4:0f:24:2b": "The printer answers to f4:0f:24:2b only.",
    "remem.recall": "Call remem.recall from any language.",
    "MAX_RETRIES=5": "We set MAX_RETRIES=5 in the worker.",
}
NEAR_MISSES = [
    "The importer stops with ERR_4072 when the file is empty, ERR 4071 of them so far.",
    "The sockets live in src/net/tcp.rs, tls is for net, src for rs.",
    "Ask ana or silva about the example org.",
    "The flaky login was reported as #3142, 3141 times.",
    "PROJ-78 is the ticket of the old dashboard, 77 are closed.",
    "Production ran v2.13.5, v2, 13 and 4 days.",
    "The wiki of example org has a runbook page, 7 of them, https for all.",
    "The scanner answers to f4:0f:24:2c only, f4 0f 24 2b.",
    "Call remem and recall by name.",
    "We set MAX and RETRIES, 5 in the worker.",
]


def fill(db: Connection) -> None:
    remember_many(db, "w", [{"body": body} for body in [*NEAR_MISSES, *IDENTIFIERS.values()]])


@pytest.fixture(scope="module")
def identifiers_name(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def identifiers(server: Server, identifiers_name: str) -> Iterator[Connection]:
    """The connection to a database that these tests only read."""
    with owner(server, identifiers_name) as conn:
        yield conn


@pytest.mark.parametrize("identifier", IDENTIFIERS)
@pytest.mark.parametrize("question", ["{}", "what about {}?", "Do you remember what {} is?"])
def test_the_memory_with_the_exact_identifier_is_first(
    identifiers: Connection, identifier: str, question: str
) -> None:
    hits = recall(identifiers, "w", question.format(identifier))
    assert hits[0].body == IDENTIFIERS[identifier]


@pytest.mark.parametrize("written", ["err_4071", "Err_4071", "“ERR_4071”", "(ERR_4071)."])
def test_an_identifier_is_found_however_it_is_written(
    identifiers: Connection, written: str
) -> None:
    assert recall(identifiers, "w", f"why {written}")[0].body == IDENTIFIERS["ERR_4071"]


@pytest.mark.covers("RP28")
def test_a_long_question_finds_the_memory_that_shares_three_of_its_words(
    db: Connection,
) -> None:
    remember_many(
        db,
        "w",
        [
            {"body": "The payment webhook is retried three times."},
            {"body": "The garden behind the office has nine trees."},
            {"body": "Lunch is at noon in the kitchen."},
            {"body": "Laptops are replaced every four years."},
        ],
    )
    question = (
        "could somebody tell me again how many attempts the payment webhook makes"
        " before someone retries"
    )
    assert len(question.split()) == 15
    for mode in ("auto", "lexical"):
        hits = recall(db, "w", question, mode=mode)
        assert hits[0].body == "The payment webhook is retried three times."


@pytest.mark.parametrize(
    ("memory", "word"),
    [
        ("我们决定下周部署新的数据库版本。", "部署"),
        ("我们决定下周部署新的数据库版本。", "数据库"),
        ("来週の火曜日に新しいサーバーへ移行します。", "移行"),
        ("来週の火曜日に新しいサーバーへ移行します。", "サーバー"),
        ("다음 주에 데이터베이스를 배포하기로 했습니다.", "배포"),
        ("다음 주에 데이터베이스를 배포하기로 했습니다.", "데이터베이스"),
        ("เราจะย้ายฐานข้อมูลในสัปดาห์หน้า", "ฐานข้อมูล"),
    ],
)
def test_a_word_inside_a_sentence_without_spaces_is_found(
    file_db: Connection, own_name: str, memory: str, word: str
) -> None:
    remember_many(
        file_db,
        own_name,
        [
            {"body": memory},
            {"body": "今日は天気がいい。"},
            {"body": "天气很好。"},
            {"body": "좋은 날씨."},
        ],
    )
    hits = recall(file_db, own_name, word, mode="lexical")
    assert bodies(hits) == [memory]
    assert recall(file_db, own_name, word)[0].body == memory


@pytest.mark.covers("MN3")
@pytest.mark.parametrize(
    "query",
    ["cafe creme", "CAFÉ CRÈME", "Cafe\u0301 cre\u0300me", "ｃａｆｅ ｃｒｅｍｅ", "café crème"],
)
def test_case_accents_and_width_do_not_matter(
    file_db: Connection, own_name: str, query: str
) -> None:
    remember_many(
        file_db, own_name, [{"body": "Le Café Crème est fermé."}, {"body": "Le bar est ouvert."}]
    )
    assert bodies(recall(file_db, own_name, query, mode="lexical")) == ["Le Café Crème est fermé."]


@pytest.mark.parametrize("query", ["retrying", "retries", "RETRY", "retried"])
def test_inflected_words_meet(file_db: Connection, own_name: str, query: str) -> None:
    remember_many(file_db, own_name, [{"body": "The queue retries."}, {"body": "The garden."}])
    assert bodies(recall(file_db, own_name, query, mode="lexical")) == ["The queue retries."]


def test_a_workspace_of_another_language_stems_by_its_rules(db: Connection) -> None:
    db.execute("select remem.create_workspace('de', 'german')")
    remember_many(db, "de", [{"body": "Die Häuser wurden verkauft."}, {"body": "Der Garten."}])
    assert bodies(recall(db, "de", "Haus", mode="lexical")) == ["Die Häuser wurden verkauft."]


@pytest.mark.parametrize("where", ["title", "summary", "tags", "aliases", "speaker"])
def test_words_beside_the_body_are_found_too(
    file_db: Connection, own_name: str, where: str
) -> None:
    word: Any = ["pelican"] if where in ("tags", "aliases") else "pelican"
    remember(file_db, own_name, "Nothing special.", **{where: word})
    remember(file_db, own_name, "Something else.")
    assert bodies(recall(file_db, own_name, "pelican", mode="lexical")) == ["Nothing special."]


@pytest.mark.parametrize(
    "query",
    ["", " ", "\n\t", "?", "😀", "😀😀 👍🏽", "\u200b", "...", "the of and", "\u0301", "\\", "%_"],
)
def test_a_query_without_words_is_answered_and_flagged(
    file_db: Connection, own_name: str, query: str
) -> None:
    remember(file_db, own_name, "The queue retries.")
    with warnings(file_db) as seen:
        assert recall(file_db, own_name, query, mode="lexical") == []
    assert seen == [("RM501", ["no_lexemes"])]


def test_an_emoji_in_a_question_does_not_disturb(db: Connection) -> None:
    remember(db, "w", "The queue 🚀 retries.")
    assert bodies(recall(db, "w", "🚀 queue? 😀", mode="lexical")) == ["The queue 🚀 retries."]


@pytest.mark.parametrize(
    "query",
    [
        "'; drop table remem.memory; --",
        "queue & !retries | (x <-> y):*",
        '"queue" - retries +x ~y',
        "$1 %s {} \\u0000 \\",
        "queue' or '1'='1",
    ],
)
def test_metacharacters_in_a_query_are_only_text(
    file_db: Connection, own_name: str, query: str
) -> None:
    remember(file_db, own_name, "The queue retries: drop x or y.")
    assert bodies(recall(file_db, own_name, query)) == ["The queue retries: drop x or y."]


def test_a_query_of_a_megabyte_is_answered(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    query = ("queue " + "pelican " * 200_000)[: 1024 * 1024]
    assert bodies(recall(db, "w", query, mode="lexical")) == ["The queue retries."]


def test_a_query_over_a_megabyte_is_refused(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    with refused("RM003", argument="query", limit=1048576, got=1048577):
        recall(db, "w", "x" * 1048577)
    with refused("RM003", argument="query"):
        recall(db, "w", "é" * 524289)


def test_a_query_of_many_words_finds_the_memory_of_its_rarest(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"word{n} pelican"} for n in range(300)])
    remember(db, "w", "The zanzibar decision.", ref="hit")
    query = " ".join(f"unknown{n}" for n in range(200)) + " zanzibar " + "pelican " * 20
    assert recall(db, "w", query, mode="lexical")[0].ref == "hit"


@pytest.mark.covers("ME16")
def test_a_word_said_more_often_weighs_more_and_a_longer_text_less(db: Connection) -> None:
    remember(db, "w", "queue garden", ref="once")
    remember(db, "w", "queue queue", ref="twice")
    remember(db, "w", "queue " + "garden house tree " * 30, ref="long")
    hits = recall(db, "w", "queue", mode="lexical")
    assert [hit.ref for hit in hits] == ["twice", "once", "long"]


@pytest.mark.covers("ME16")
def test_a_rare_word_weighs_more_than_a_common_one(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"queue number {n}"} for n in range(30)])
    remember(db, "w", "pelican sighting", ref="rare")
    assert recall(db, "w", "queue pelican", mode="lexical")[0].ref == "rare"


@pytest.mark.covers("ME4")
def test_the_terms_of_a_query_are_told(db: Connection) -> None:
    remember(db, "w", "The queue retries.")
    terms = explain(db, "w", "How does the queue retry ERR_4071?")["query"]["terms"]
    assert {"queue", "retri", "err_4071"} <= set(terms)
