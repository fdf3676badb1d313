"""Names: found without a language model, kept in step with the memories, looked up in queries."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.entities import NAMES, item, pointer
from tests.support.memories import Connection, remember, remember_many, value


def extract(
    db: Connection,
    text: str,
    also: list[str | None] | None = None,
    names: list[str] | None = None,
) -> list[str]:
    return [
        name
        for (name,) in db.execute(
            "select name from remem._extract_entities(%s, %s::text[], %s::text[])",
            [text, also, names],
        )
    ]


def names(db: Connection, workspace: str = "w") -> set[str]:
    rows = db.execute(
        "select distinct name from remem.memory_entity where workspace = %s", [workspace]
    )
    return {name for (name,) in rows}


def asked(db: Connection, query: str, workspace: str = "w") -> list[str]:
    return list(value(db, "select remem._query_entities(%s, remem._fold(%s))", [workspace, query]))


@pytest.mark.covers("MN5")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("yesterday we met Bob O'Brien at Stripe", ["bob o'brien", "stripe"]),
        ("The Bank of England raised rates", ["bank of england"]),
        ("Alice prefers tabs", ["alice"]),
        ("Luna's bowl is empty", ["luna"]),
        ("Deploys happen at noon", []),
        ("Deploys happen. Nobody minds Deploys", ["deploys"]),
        ("NASA launched", ["nasa"]),
        ("When Alice left on Friday, I slept", ["alice"]),
        ("Yes! Thanks. What? Monday it is. In May we did.", []),
        ("a Very Long Title In Every Word Of It", []),
        ("ask @mei about #infra", ["mei", "infra"]),
        ("it says ERR_4071 again", ["err_4071"]),
        ("see ABC-123 and parseUrl and max_tokens", ["abc-123", "parseurl", "max_tokens"]),
        ("from v1.2 to 1.10.3", ["v1.2", "1.10.3"]),
        ("on 12/05/2026 at 10:30 for 3.50, 24/7", []),
        ("in src/net/tls.rs:12.", ["src/net/tls.rs", "tls.rs"]),
        ("mail jane.doe@example.com", ["jane.doe@example.com"]),
        (
            "(https://docs.example.com/a?b=1)",
            ["https://docs.example.com/a?b=1", "docs.example.com"],
        ),
        ('she read "Charlotte Gray", he said "come here."', ["charlotte gray"]),
        ("wir sahen Élodie und Ülkü Öz", ["elodie", "ulku oz"]),
        ("говорил Иван Петров", ["иван петров"]),
        ("「田中太郎」さんは東京に住んでいる", ["田中太郎"]),
        ("nothing to see here", []),
        ("", []),
    ],
)
def test_names_are_found_by_rules(file_db: Connection, text: str, found: list[str]) -> None:
    assert extract(file_db, text) == found


def test_names_are_the_same_in_a_database_with_locale_c(
    db: Connection, c_locale_db: Connection
) -> None:
    text = "wir sahen Élodie und Ülkü Öz; говорил Иван Петров in src/a.py, K8s, 「田中」"
    assert extract(c_locale_db, text) == extract(db, text)
    assert len(extract(db, text)) == 7


@pytest.mark.covers("MN5")
def test_what_the_caller_passes_comes_first_and_is_marked(db: Connection) -> None:
    rows = db.execute(
        "select name, given from remem._extract_entities(%s, %s, %s)",
        ["We met Bob", ["Mei Tanaka", None, "#infra"], ["  Acme,  Inc. ", "Bob"]],
    ).fetchall()
    assert rows == [("acme inc", True), ("bob", True), ("mei tanaka", False), ("infra", False)]


def test_a_memory_has_at_most_32_names_of_2_to_128_bytes(db: Connection) -> None:
    given = ["x", "y" * 129, "é" * 65, *(f"Name {n}" for n in range(50))]
    found = extract(db, "", None, given)
    assert len(found) == 32
    assert found[:2] == ["e" * 65, "name 0"]
    assert extract(db, "", None, ["x", "", " ", "!!!"]) == []


@pytest.mark.covers("MN5")
def test_speaker_subject_topic_key_tags_aliases_and_entities_of_a_memory_are_names(
    db: Connection,
) -> None:
    remember(
        db,
        "w",
        "it is slow",
        title="PostgreSQL",
        aliases=["PG"],
        tags=["db"],
        speaker="Mei",
        subject="vacuum",
        topic_key="storage/engine",
        entities=["Acme"],
    )
    assert names(db) == {"postgresql", "pg", "db", "mei", "vacuum", "storage/engine", "acme"}
    assert problems(db) == []


def test_names_go_with_a_version_and_come_with_the_next(db: Connection) -> None:
    remember(db, "w", "we chose Kafka", ref="queue", title="Queue", aliases=["Q1"])
    remember(db, "w", "we chose Nats", ref="queue")
    assert names(db) == {"nats"}
    assert db.execute("select from remem.entity_alias").fetchall() == []
    assert problems(db) == []


def test_names_are_looked_up_by_runs_of_one_to_four_words(db: Connection) -> None:
    remember(db, "w", "we met Bob O'Brien of the Bank of England", entities=["src/net/tls.rs"])
    assert asked(db, "Where is BOB O’BRIEN’S desk in the Bank of England?") == [
        "bank of england",
        "bob o'brien",
    ]
    assert asked(db, "what is wrong in `src/net/tls.rs`?") == ["src/net/tls.rs"]
    assert asked(db, "where is the bank") == []
    assert asked(db, "") == []
    assert asked(db, "Bank of England", workspace="v") == []


def test_a_long_query_looks_up_64_runs_and_a_script_without_spaces_its_parts(
    db: Connection,
) -> None:
    remember(db, "w", "x", entities=["田中", "word 3", "late"])
    assert asked(db, "田中さんは何が好きですか") == ["田中"]
    long = " ".join(["word", "3", *(f"filler{n}" for n in range(5000)), "late"])
    assert "late" not in asked(db, long)
    assert asked(db, " ".join(["the of"] * 20 + ["late"])) == ["late"]


@pytest.mark.covers("MN8")
def test_an_alias_that_a_memory_declares_leads_to_the_other_name(db: Connection) -> None:
    remember(db, "w", "our database", title="PostgreSQL", aliases=["PG"])
    remember(db, "w", "we tuned PostgreSQL")
    assert asked(db, "is pg slow?") == ["pg", "postgresql"]
    assert {body for body, _ in pointer(db, "is PG slow?")} == {
        "our database",
        "we tuned PostgreSQL",
    }


@pytest.mark.covers("MN8")
def test_the_pointer_arm_finds_memories_by_shared_names_rare_ones_first(db: Connection) -> None:
    for n in range(20):
        remember(db, "w", f"lunch {n} with Alice")
    remember(db, "w", "lunch with Alice and Bob")
    remember(db, "w", "nobody was there")
    found = pointer(db, "what did Alice and Bob eat?")
    assert found[0][0] == "lunch with Alice and Bob"
    assert [body for body, _ in found[1:4]] == [f"lunch {n} with Alice" for n in (19, 18, 17)]
    assert found[0][1] > 2 * found[1][1] > 0
    assert pointer(db, "what did we eat?") == []


def test_a_name_that_the_caller_attached_counts_more_than_one_that_is_mentioned(
    db: Connection,
) -> None:
    remember(db, "w", "attached", entities=["Bob"])
    remember(db, "w", "mentions Bob")
    assert [body for body, _ in pointer(db, "bob")] == ["attached", "mentions Bob"]


@pytest.mark.covers("MN5")
def test_a_session_that_the_query_names_brings_its_turns(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"turn {n}", "session_ref": "ep-7"} for n in range(3)])
    number = value(db, "select session_no from remem.session where session_ref = 'ep-7'")
    assert {body for body, _ in pointer(db, "?", sessions=[number])} == {
        "turn 0",
        "turn 1",
        "turn 2",
    }


def test_the_pointer_arm_keeps_to_allowed_rows_filters_and_validity(db: Connection) -> None:
    for n in range(5):
        remember(db, "w", f"note {n} on Bob", kind="task" if n == 2 else "semantic")
    remember(db, "w", "Bob was here", valid_to="2020-01-01T00:00:00Z")
    remember(db, "v", "elsewhere is Bob")
    rows = dict(db.execute("select body, memory_no from remem.memory").fetchall())
    allowed = [rows["note 1 on Bob"], rows["elsewhere is Bob"]]
    assert len(pointer(db, "Bob")) == 5
    assert [b for b, _ in pointer(db, "Bob", allowed=allowed)] == ["note 1 on Bob"]
    assert pointer(db, "Bob", allowed=[]) == []
    assert [b for b, _ in pointer(db, "Bob", row_filter='$.kind == "task"')] == ["note 2 on Bob"]
    assert len(pointer(db, "Bob", n=2)) == 2


def test_a_hub_finds_only_what_a_filter_left_and_counts_where_a_rarer_name_found(
    db: Connection,
) -> None:
    first = remember(db, "w", "the first of Bob")
    remember_many(db, "w", [{"body": f"note {n} on Bob"} for n in range(1200)])
    number = value(db, "select memory_no from remem.memory where memory_id = %s", [first.memory_id])
    assert [b for b, _ in pointer(db, "Bob", allowed=[number])] == ["the first of Bob"]
    assert pointer(db, "Bob") == []
    remember(db, "w", "we like Alice and Bob")
    remember(db, "w", "we like Alice")
    found = pointer(db, "Bob and Alice")
    assert [body for body, _ in found] == ["we like Alice and Bob", "we like Alice"]
    assert found[0][1] > found[1][1]


@pytest.mark.covers("ME16")
@pytest.mark.parametrize("seed", range(3))
def test_after_random_writes_the_names_are_those_that_the_texts_have(
    db: Connection, seed: int
) -> None:
    random = Random(seed)
    for _ in range(25):
        remember_many(db, "w", [item(random) for _ in range(random.randint(1, 5))])
    assert problems(db) == []
    assert len(names(db)) >= len(NAMES)


@pytest.mark.parametrize("calls", [1, 4], ids=["one call", "four calls a transaction"])
def test_writers_of_the_same_names_in_any_order_do_not_wait_in_a_circle(
    db: Connection, db_dsn: str, calls: int
) -> None:
    value(db, "select remem.create_workspace('w')")
    start = threading.Barrier(8)

    def write(number: int) -> None:
        random = Random(number)
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            start.wait(timeout=30)
            for turn in range(15):
                with conn.transaction():
                    for call in range(calls):
                        order = random.sample(NAMES, len(NAMES))
                        fresh = random.sample([f"New Name{turn}", f"Other Name{turn}"], 2)
                        body = f"{number} {turn} {call}: we met " + ", ".join(order + fresh)
                        remember(conn, "w", body)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(write, number) for number in range(8)]:
            future.result(timeout=120)
    assert problems(db) == []
    assert value(db, "select count(*) from remem.memory_entity where name = 'alice'") == (
        8 * 15 * calls
    )
