"""The lexical arm by itself: exact BM25, and what a bounded amount of work leaves of it."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from tests.support.memories import Connection, remember, remember_many, value
from tests.support.queries import lexical as arm
from tests.support.queries import word_scores

# Robertson and Zaragoza 2009, with the constants that sql/42_arm_lexical.sql states.
K1, B = 1.2, 0.3


def load(db: Connection, documents: list[list[str]]) -> None:
    """Documents as postings and counts alone, which is all that the arm reads."""
    with (
        db.cursor() as cursor,
        cursor.copy(
            "copy remem.posting (workspace, lexeme, memory_no, doc_len, tf) from stdin"
        ) as copy,
    ):
        for number, words in enumerate(documents, start=1):
            for word in set(words):
                copy.write_row(("w", word, number, len(words), words.count(word)))
    db.execute(
        "insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)"
        " values ('w', 0, %s, %s)",
        [len(documents), sum(map(len, documents))],
    )
    db.execute("vacuum analyze remem.posting")


def zipf(random: Random, size: int) -> list[str]:
    return [f"w{min(int(random.paretovariate(1.0)), 3000)}" for _ in range(size)]


def bm25(documents: list[list[str]], query: list[str]) -> dict[int, float]:
    """Scores by document number, written from the formula alone."""
    total = len(documents)
    mean = sum(map(len, documents)) / total
    scores: dict[int, float] = defaultdict(float)
    for word in set(query):
        frequency = sum(word in words for words in documents)
        idf = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
        for number, words in enumerate(documents, start=1):
            if tf := words.count(word):
                norm = K1 * (1 - B + B * len(words) / mean)
                scores[number] += idf * tf * (K1 + 1) / (tf + norm)
    return scores


@pytest.fixture
def corpus(db: Connection) -> list[list[str]]:
    random = Random(25)
    documents = [zipf(random, random.randint(1, 40)) for _ in range(2000)]
    load(db, documents)
    return documents


def test_unbounded_scores_are_bm25(db: Connection, corpus: list[list[str]]) -> None:
    random = Random(1)
    for _ in range(10):
        query = zipf(random, random.randint(1, 8))
        expected = bm25(corpus, query)
        found = arm(db, " ".join(query), n=3000, budget=10**9)
        assert set(found.memory_nos) == set(expected)
        assert found.scores == sorted(found.scores, reverse=True)
        for number, score in zip(found.memory_nos, found.scores, strict=True):
            assert score == pytest.approx(expected[number], abs=1e-6)


def test_the_first_n_are_the_best_n(db: Connection, corpus: list[list[str]]) -> None:
    expected = sorted(bm25(corpus, ["w1", "w7", "w40"]).values(), reverse=True)[:25]
    found = arm(db, "w1 w7 w40", n=25, budget=10**9)
    assert found.scores == pytest.approx(expected, abs=1e-6)


def test_the_matched_mass_is_the_idf_of_the_words_a_row_holds(
    db: Connection, corpus: list[list[str]]
) -> None:
    found = arm(db, "w2 w9", n=3000, budget=10**9)
    idfs = {
        word: math.log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
        for word in ("w2", "w9")
        for n in [sum(word in words for words in corpus)]
    }
    for number, mass in zip(found.memory_nos, found.matched, strict=True):
        assert mass == pytest.approx(
            sum(idf for word, idf in idfs.items() if word in corpus[number - 1]), abs=1e-6
        )


@pytest.mark.parametrize("budget", [1, 10, 100, 1000])
def test_what_a_bounded_search_returns_has_its_complete_score(
    db: Connection, corpus: list[list[str]], budget: int
) -> None:
    random = Random(budget)
    for _ in range(10):
        query = zipf(random, 5)
        expected = bm25(corpus, query)
        found = arm(db, " ".join(query), budget=budget)
        for number, score in zip(found.memory_nos, found.scores, strict=True):
            assert score == pytest.approx(expected[number], abs=1e-6)


@pytest.mark.parametrize("budget", [1, 10, 100, 1000])
def test_a_bounded_search_returns_n_rows_when_n_match(
    db: Connection, corpus: list[list[str]], budget: int
) -> None:
    random = Random(budget)
    for _ in range(10):
        query = zipf(random, 4)
        found = arm(db, " ".join(query), n=30, budget=budget)
        assert len(found.memory_nos) == min(30, len(bm25(corpus, query)))


def test_bounded_and_unbounded_search_agree_on_the_best_ten(db: Connection) -> None:
    """Questions of two words that say something and two that most memories hold.

    Rows count by their scores: which of two equal rows comes first says nothing.
    """
    random = Random(10)
    documents = [zipf(random, 14) for _ in range(8000)]
    load(db, documents)
    good = 0
    for _ in range(40):
        words = [*random.sample(range(1, 5), 2), *random.sample(range(20, 90), 2)]
        query = " ".join(f"w{word}" for word in words)
        best = arm(db, query, budget=10**9)
        bounded = arm(db, query, budget=600)
        good += sum(score > best.scores[9] - 1e-9 for score in bounded.scores[:10])
    assert good / 400 >= 0.95


def test_rows_of_the_other_arm_are_scored_and_marked(
    db: Connection, corpus: list[list[str]]
) -> None:
    expected = bm25(corpus, ["w5", "w60"])
    silent = next(n for n in range(1, 2001) if n not in expected)
    worst = min(expected, key=lambda number: expected[number])
    found = arm(db, "w5 w60", n=5, budget=10**9, also=[silent, worst])
    by_number = dict(zip(found.memory_nos, zip(found.scores, found.own, strict=True), strict=True))
    assert by_number[silent] == (0, False)
    assert by_number[worst] == (pytest.approx(expected[worst], abs=1e-6), False)
    assert sum(found.own) == 5


def test_rows_of_the_other_arm_are_scored_by_unread_words_too(
    db: Connection, corpus: list[list[str]]
) -> None:
    expected = bm25(corpus, ["w1", "w900"])
    other = next(n for n, words in enumerate(corpus, 1) if "w1" in words)
    found = arm(db, "w1 w900", n=5, budget=1, also=[other])
    score = dict(zip(found.memory_nos, found.scores, strict=True))[other]
    assert score == pytest.approx(expected[other], abs=1e-6)


@pytest.mark.parametrize("budget", [1, 100, 10**9])
@pytest.mark.parametrize("step", [1, 7, 400])
def test_a_resolved_filter_finds_every_row_that_matches_any_word(
    db: Connection, corpus: list[list[str]], budget: int, step: int
) -> None:
    allowed = list(range(3, 2001, step))
    random = Random(step)
    for _ in range(5):
        query = zipf(random, 3)
        expected = {n: s for n, s in bm25(corpus, query).items() if n in set(allowed)}
        found = arm(db, " ".join(query), n=3000, budget=budget, allowed=allowed)
        assert dict(zip(found.memory_nos, found.scores, strict=True)) == pytest.approx(
            expected, abs=1e-6
        )


def test_the_scores_of_given_rows_are_those_of_the_search(
    db: Connection, corpus: list[list[str]]
) -> None:
    expected = bm25(corpus, ["w3", "w50"])
    rows = [5, 1, 2000, 1, 77]
    scores = value(
        db,
        """
        select b.scores from remem._count_tally('w', 0) c
        cross join lateral remem._query_terms('w', 'w3 w50',
          remem._language_dictionaries('english'), c.n, 20000) t
        cross join lateral remem._bm25s('w', t.lexemes, t.idfs, c.doc_len::float8 / c.n, %s) b
        """,
        [rows],
    )
    assert scores == pytest.approx([expected.get(row, 0) for row in rows], abs=1e-6)


def test_frequencies_are_exact_up_to_the_cap_and_assumed_beyond(
    db: Connection, corpus: list[list[str]]
) -> None:
    exact = sum("w1" in words for words in corpus)
    for cap, expected in ((exact, exact), (exact - 1, math.sqrt((exact - 1) * 2000))):
        row = db.execute(
            "select frequencies, idfs from remem._query_terms('w', 'w1',"
            " remem._language_dictionaries('english'), 2000, %s)",
            [cap],
        ).fetchone()
        assert row is not None
        assert row[0] == [pytest.approx(expected, abs=1)]
        assert row[1][0] == pytest.approx(
            math.log(1 + (2000 - row[0][0] + 0.5) / (row[0][0] + 0.5)), abs=1e-9
        )


def test_terms_come_rarest_first(db: Connection, corpus: list[list[str]]) -> None:
    row = db.execute(
        "select lexemes, frequencies from remem._query_terms('w', 'w1 w2 w800 w30 nowhere',"
        " remem._language_dictionaries('english'), 2000, 20000)"
    ).fetchone()
    assert row is not None
    assert row[0][0] == "nowher"
    assert row[1] == sorted(row[1])
    assert row[1][0] == 0


def test_an_idf_is_never_negative(db: Connection) -> None:
    for documents, frequency in ((0, 0), (1, 1), (10, 10), (10, 100), (10**9, 1)):
        idf = value(db, "select remem._idf(%s::bigint, %s::bigint)", [documents, frequency])
        assert idf >= 0


def test_the_arm_ranks_real_memories_as_the_formula_does(db: Connection) -> None:
    """The whole way: text, lexemes, postings, tally, arm."""
    random = Random(3)
    words = ["pelican", "zebra", "otter", "falcon", "badger", "walrus"]
    texts = [" ".join(random.choices(words, k=random.randint(1, 9))) for _ in range(150)]
    items: list[dict[str, Any]] = [{"body": text, "ref": f"{n}"} for n, text in enumerate(texts)]
    remember_many(db, "w", items)
    remember(db, "w", texts[0] + " otter", ref="0")
    texts[0] += " otter"
    numbers = dict(
        db.execute("select memory_no, ref::int + 1 from remem.memory where superseded_at is null")
    )
    expected = bm25([text.split() for text in texts], ["otter", "walrus"])
    found = arm(db, "otters and walruses", n=300)
    scores = {numbers[no]: score for no, score in zip(found.memory_nos, found.scores, strict=True)}
    assert scores == pytest.approx(expected, abs=1e-6)
