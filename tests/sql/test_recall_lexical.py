"""The lexical arm by itself: exact BM25, and what a bounded amount of work leaves of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, remember, remember_many, value
from tests.support.queries import lexical as arm
from tests.support.queries import word_scores

# Robertson and Zaragoza 2009, with the constants that sql/42_arm_lexical.sql states.
K1, B = 1.2, 0.3


def load(db: Connection, documents: list[list[str]]) -> None:
    """Documents as postings and counts alone, which is all that the arm reads."""
    key = value(db, "select remem._workspace_key('w')")
    lexemes = sorted({word for words in documents for word in words})
    numbers = dict(
        db.execute("select l, remem._word(l) from unnest(%s::text[]) l", [lexemes]).fetchall()
    )
    with (
        db.cursor() as cursor,
        cursor.copy(
            "copy remem.posting (workspace_key, word, memory_no, doc_len, tf) from stdin"
        ) as copy,
    ):
        for number, words in enumerate(documents, start=1):
            for word in set(words):
                copy.write_row((key, numbers[word], number, len(words), words.count(word)))
    db.execute(
        "insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)"
        " values ('w', 0, %s, %s)",
        [len(documents), sum(map(len, documents))],
    )
    db.execute("vacuum analyze remem.posting")


def zipf(random: Random, size: int) -> list[str]:
    return [f"w{min(int(random.paretovariate(1.0)), 3000)}" for _ in range(size)]


def extent(db: Connection, last: int) -> None:
    """The first and the last memory, from which frequencies beyond the cap are estimated."""
    for number in (1, last):
        db.execute(
            """
            insert into remem.memory (workspace, memory_no, kind, scope, body, source_class, attrs,
              fingerprint, content_hash, doc_len, lexemes, analyser_no)
            values ('w', %s, 'semantic', 'global', '', 'unspecified', '{}', '', '', 1, '{}', 1)
            """,
            [number],
        )


Postings = dict[str, dict[int, int]]


def postings(documents: list[list[str]]) -> Postings:
    """How often each word stands in which document."""
    held: Postings = defaultdict(dict)
    for number, words in enumerate(documents, start=1):
        for word, times in Counter(words).items():
            held[word][number] = times
    return held


def bm25(
    documents: list[list[str]], query: list[str], held: Postings | None = None
) -> dict[int, float]:
    """Scores by document number, written from the formula alone."""
    held = held or postings(documents)
    total = len(documents)
    mean = sum(map(len, documents)) / total
    scores: dict[int, float] = defaultdict(float)
    for word in set(query):
        frequency = len(held.get(word, {}))
        idf = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
        for number, tf in held.get(word, {}).items():
            norm = K1 * (1 - B + B * len(documents[number - 1]) / mean)
            scores[number] += idf * tf * (K1 + 1) / (tf + norm)
    return scores


def terms(db: Connection, query: str, documents: int, cap: int) -> tuple[list[str], list[int]]:
    """The lexemes of a query and their frequencies."""
    row = db.execute(
        "select lexemes, frequencies from remem._query_terms('w', %s,"
        " remem._language_dictionaries('english'), %s, null, %s)",
        [query, documents, cap],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


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


def test_common_words_bring_up_the_rows_that_they_would(db: Connection) -> None:
    """They are looked up for a part of the rows only: of the best, none is missing or short."""
    random = Random(7)
    documents = [
        ["rare"] * (random.choice([1, 4]) if n % 8 == 0 else 0)
        + [w for w in ("often", "usual") if random.random() < 0.4]
        + ["filler"] * random.randint(1, 30)
        for n in range(4000)
    ]  # fmt: skip
    load(db, documents)
    expected = bm25(documents, ["rare", "often", "usual"])
    found = arm(db, "rare often usual", n=16, budget=10000)
    assert found.scores == pytest.approx(sorted(expected.values(), reverse=True)[:16], abs=1e-6)
    for number, score in zip(found.memory_nos, found.scores, strict=True):
        assert score == pytest.approx(expected[number], abs=1e-6)


@pytest.mark.parametrize("filtered", [False, True])
def test_rows_with_two_of_the_words_that_are_left_are_found(db: Connection, filtered: bool) -> None:
    """The first look reads the rarest word's list; only rows with both others beat its rows."""
    documents = [["filler"] for _ in range(20000)]
    for word, start, stop in (("rare", 0, 400), ("second", 1000, 1800), ("third", 1788, 2688)):
        for n in range(start, stop):
            documents[n] = [*documents[n], word] + ["rare"] * (word == "rare")
    load(db, documents)
    expected = bm25(documents, ["rare", "second", "third"])
    fields: dict[str, Any] = {}
    if filtered:  # the seventh of the twelve with both words does not pass
        db.execute(
            """
            insert into remem.memory (workspace, memory_no, kind, scope, body, source_class, attrs,
              fingerprint, content_hash, doc_len, lexemes, analyser_no)
            select 'w', n, 'semantic', 'global', '', 'unspecified',
              jsonb_build_object('passes', n <> 1795), '', '', 1, '{}', 1
            from generate_series(1, 2688) n
            """
        )
        fields = {"row_filter": "$.passes == true", "selective": False}
        del expected[1795]
    found = arm(db, "rare second third", n=16, budget=10000, **fields)
    assert found.scores == pytest.approx(sorted(expected.values(), reverse=True)[:16], abs=1e-6)
    assert set(range(1789, 1801)) & set(expected) <= set(found.memory_nos)


@pytest.mark.parametrize("budget", [1, 10, 100, 1000])
def test_a_bounded_search_returns_n_rows_when_n_match(
    db: Connection, corpus: list[list[str]], budget: int
) -> None:
    random = Random(budget)
    for _ in range(10):
        query = zipf(random, 4)
        found = arm(db, " ".join(query), n=30, budget=budget)
        assert len(found.memory_nos) == min(30, len(bm25(corpus, query)))


Question = tuple[str, dict[int, float]]


@pytest.fixture(scope="module")
def many() -> list[list[str]]:
    random = Random(10)
    return [zipf(random, 14) for _ in range(8000)]


@pytest.fixture(scope="module")
def questions(many: list[list[str]]) -> dict[str, list[Question]]:
    """Forty questions of two words that say something and two that most memories hold, and forty
    of three words of any kind (mostly such as half of the memories hold), with the scores of an
    exhaustive search.
    """
    random = Random(10)
    said = [[*random.sample(range(1, 5), 2), *random.sample(range(20, 90), 2)] for _ in range(40)]
    words = {
        "telling": [[f"w{number}" for number in numbers] for numbers in said],
        "any": [zipf(random, 3) for _ in range(40)],
    }
    held = postings(many)
    return {
        kind: [(" ".join(query), bm25(many, query, held)) for query in queries]
        for kind, queries in words.items()
    }


@pytest.fixture(scope="module")
def large(server: Server, many: list[list[str]]) -> Iterator[Connection]:
    """The 8,000 documents in a database that its tests only read."""

    def fill(db: Connection) -> None:
        load(db, many)
        extent(db, len(many))

    with filled(server, fill) as name, owner(server, name) as conn:
        yield conn


def share_of_the_best(db: Connection, questions: list[Question], **bounds: Any) -> float:
    """How many of the ten best a search finds.

    Rows count by their scores: which of two equal rows comes first says nothing.
    """
    good = total = 0
    for query, scores in questions:
        best = sorted(scores.values(), reverse=True)[:10]
        found = arm(db, query, **bounds).memory_nos[:10]
        total += len(best)
        good += sum(scores[number] > best[-1] - 1e-9 for number in found)
    return good / total


@pytest.mark.parametrize(
    ("kind", "budget", "share"),
    [
        ("telling", 300, 0.98),
        ("telling", 600, 0.98),
        ("telling", 3000, 0.98),
        ("telling", 10000, 0.99),
        ("telling", 10**9, 0.99),
        # Of two words that half of all memories hold, this budget reads less than one list.
        ("any", 3000, 0.8),
        ("any", 10000, 0.99),
        ("any", 10**9, 0.99),
    ],
)
def test_a_bounded_search_finds_the_ten_best_of_an_exhaustive_one(
    large: Connection,
    questions: dict[str, list[Question]],
    kind: str,
    budget: int,
    share: float,
) -> None:
    assert share_of_the_best(large, questions[kind], budget=budget) >= share


@pytest.mark.parametrize("kind", ["telling", "any"])
def test_frequencies_that_are_only_estimated_find_the_ten_best_too(
    large: Connection, questions: dict[str, list[Question]], kind: str
) -> None:
    """With the cap and the budget of recall."""
    found = share_of_the_best(large, questions[kind], n=30, budget=10000, cap=1000)
    assert found >= 0.97


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
    """Also of rows that no list in reach holds, of rows twice and of rows that hold no word."""
    expected = bm25(corpus, ["w3", "w50"])
    rows = [5, 1, 2000, 1, 77, *[n for n in range(1, 2001) if n not in expected][:1]]
    scores, matched = word_scores(db, "w3 w50", rows)
    assert scores == pytest.approx([expected.get(row, 0) for row in rows], abs=1e-6)
    assert [mass > 0 for mass in matched] == [row in expected for row in rows]
    found = arm(db, "w3 w50", n=3000, budget=10**9)
    again = word_scores(db, "w3 w50", found.memory_nos)
    assert again[0] == pytest.approx(found.scores, abs=1e-6)
    assert again[1] == pytest.approx(found.matched, abs=1e-6)


def test_frequencies_are_exact_up_to_the_cap(db: Connection, corpus: list[list[str]]) -> None:
    exact = sum("w1" in words for words in corpus)
    for cap in (exact, 20000):
        assert terms(db, "w1", 2000, cap) == (["w1"], [exact])
    # Beyond, it is never less than what was counted, nor more than there are memories.
    (frequency,) = terms(db, "w1", 2000, exact // 2)[1]
    assert exact // 2 < frequency <= 2000


# Where the rows that hold a word lie, as a share of all places, and by what factor the estimate may
# be off.
SPREADS: dict[str, tuple[str, float]] = {
    "all": ("true", 1.01),
    "every third": ("n % 3 = 0", 1.05),
    "at random": ("abs(hashint8(n)) % 7 = 0", 1.25),
    "in sessions of twenty": ("abs(hashint8(n / 20)) % 6 = 0", 2.0),
    "in bursts of five hundred": ("n / 500 % 5 = 1", 2.0),
    "in the first half": ("n <= 20000", 1.05),
    "in the middle": ("n between 14000 and 26000", 2.0),
    "in the newest fifth": ("n > 32000", 1.3),
    "in the newest tenth": ("n > 36000 and n % 2 = 0", 1.3),
    "in one burst at the start": ("n between 101 and 700", 1.1),
    "in one burst": ("n between 22001 and 25000", 2.6),
}


@pytest.fixture(scope="module")
def spread(server: Server) -> Iterator[Connection]:
    """40,000 memories of whose words one lies as each of SPREADS says."""

    def fill(db: Connection) -> None:
        db.execute("select remem.create_workspace('w')")
        extent(db, 40000)
        for number, (condition, _) in enumerate(SPREADS.values()):
            db.execute(
                "insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)"
                f" select remem._workspace_key('w'), remem._word('w{number}'), n, 9, 1"
                " from generate_series(1, 40000) n"
                f" where {condition}"
            )
        db.execute("vacuum analyze remem.posting")

    with filled(server, fill) as name, owner(server, name) as conn:
        yield conn


@pytest.mark.parametrize("where", SPREADS)
def test_a_frequency_beyond_the_cap_is_estimated_from_how_close_the_rows_lie(
    spread: Connection, where: str
) -> None:
    number = list(SPREADS).index(where)
    exact = value(
        spread, "select count(*) from remem.posting where word = remem._word(%s)", [f"w{number}"]
    )
    (frequency,) = terms(spread, f"w{number}", 40000, 1000)[1]
    factor = SPREADS[where][1]
    assert exact / factor <= frequency <= exact * factor


def test_an_estimated_frequency_gives_the_idf_and_the_mass(spread: Connection) -> None:
    row = spread.execute(
        "select frequencies, idfs, idf_mass from remem._query_terms('w', 'w0 w1 nowhere',"
        " remem._language_dictionaries('english'), 40000, null, 1000)"
    ).fetchone()
    assert row is not None
    frequencies, idfs, mass = row
    assert frequencies == sorted(frequencies)
    assert idfs == pytest.approx(
        [math.log(1 + (40000 - f + 0.5) / (f + 0.5)) for f in frequencies], abs=1e-9
    )
    assert mass == pytest.approx(sum(idfs))


def test_of_a_long_query_the_rarest_words_that_occur_are_asked(spread: Connection) -> None:
    words = " ".join(["w0", *(f"none{n}x" for n in range(100)), "w5"])
    lexemes, frequencies = terms(spread, words, 40000, 1000)
    assert len(lexemes) == 64
    assert {"w0", "w5"} <= set(lexemes)
    assert frequencies == sorted(frequencies)


def test_terms_come_rarest_first(db: Connection, corpus: list[list[str]]) -> None:
    row = db.execute(
        "select lexemes, frequencies from remem._query_terms('w', 'w1 w2 w800 w30 nowhere',"
        " remem._language_dictionaries('english'), 2000, null, 20000)"
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
