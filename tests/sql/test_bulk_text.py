"""One definition: what is stored is the same for a single memory, a small batch and a large one."""

from __future__ import annotations

from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sql.unicode_corpus import WRITTEN
from tests.support.memories import Connection, remember_many, value

PIECES = [
    "The",
    "quick",
    "errors",
    "ERR_4071",
    "src/net/tls.rs:120,",
    "a.b@C.org",
    "https://u:p@ex.org/a?b=1&c=%20#x",
    "C:\\temp\\foo.txt",
    "~/x/y.py",
    "well-known",
    "v1.2.3-rc1+build",
    "k8s",
    "CamelCase",
    "snake_case",
    "#infra",
    "@bob",
    "Luna's",
    "Mei Tanaka",
    "Bank of the West",
    '"Quoted Name"',
    "“Curly Name”",
    "「田中」",
    "東京都に行った",
    "한국어 텍스트",
    "ภาษาไทย",
    "Élodie",
    "говорил Иван Петров",
    "İstanbul",
    "ﬁne",
    "½",
    "😀",
    "👩‍👩‍👧",
    "é",
    "\u00a0",
    "\u3000",
    "\t",
    "\n",
    "\r\n",
    "...",
    "!",
    "can't",
    "IT'S",
    "Monday",
    "ABC-123",
    "README.md:",
    "3.14",
    "x" * 300,
    "é" * 200,
    "{json: [1,2]}",
    "`code`",
    "R&D",
    "Alice prefers",
    "Paris.",
    "//",
    "://",
    "你好",
    "word…Word",
    "Ａｂｃ",
    "क्षत्रिय",
    "עברית",
    "\u0378",
    "𝔘𝔫𝔦",
]

STORED = """
  select m.ref, m.body, m.fingerprint, m.content_hash, m.doc_len, m.kind, m.scope, m.scope_ref,
    m.source_class, m.importance, m.pinned, m.turn_no,
    m.attrs - '{workspace,created_at}'::text[] as attrs,
    (select array_agg(l order by l) from unnest(m.lexemes) l),
    (select array_agg((p.word, p.tf, p.doc_len)::text order by p.word) from remem.posting p
     where p.workspace_key = remem._workspace_key(m.workspace) and p.memory_no = m.memory_no),
    (select array_agg((e.name, e.given)::text order by e.name) from remem.memory_entity e
     where e.workspace = m.workspace and e.memory_no = m.memory_no),
    (select array_agg((a.name, a.other)::text order by a.name, a.other) from remem.entity_alias a
     where a.workspace = m.workspace and a.memory_no = m.memory_no)
  from remem.memory m where m.workspace = %s order by m.ref
"""


def texts(count: int) -> list[str]:
    """Random texts, short to long, each with something that is not blank."""
    random = Random(20)
    found = list(WRITTEN)
    while len(found) < count:
        joint = random.choice([" ", " ", "", "\n", ", ", ". ", "  "])
        length = random.choice([1, 2, 3, 5, 8, 15, 40, 400])
        found.append("x" + joint + joint.join(random.choice(PIECES) for _ in range(length)))
    return found[:count]


def items() -> list[dict[str, Any]]:
    """Sound items with all that analysis looks at."""
    random = Random(21)
    found = []
    for number, text in enumerate(texts(400)):
        one: dict[str, Any] = {"body": text, "ref": f"r{number:04}"}
        if number % 3 == 0:
            one |= {
                "speaker": random.choice(["Ann", "Ülkü Öz", "a  b", ""]),
                "session_ref": f"s{number % 7}",
            }
        if number % 4 == 0:
            one |= {
                "title": random.choice(PIECES),
                "aliases": random.sample(PIECES, 3),
                "tags": ["#x", "Blue Team"],
            }
        if number % 5 == 0:
            one |= {
                "subject": "Mei",
                "attribute": random.choice(["Home Town", "é", "!!"]),
                "entities": ["Acme, Inc."],
            }
        if number % 6 == 0:
            one |= {
                "kind": "decision",
                "scope": "workspace",
                "metadata": {"a": ["é" * 150, number]},
                "importance": 0.9,
            }
        if number % 11 == 0:
            one |= {"scope": "session", "session_ref": "s1"}
        found.append(one)
    return found


def test_a_batch_stores_what_single_memories_would(db: Connection) -> None:
    every = items()
    for one in every:
        remember_many(db, "single", [one])
    remember_many(db, "batch", every)
    with db.transaction():
        db.execute("select remem.stage('staged')")
        with db.cursor().copy("copy pg_temp.remem_staged (item) from stdin") as copy:
            for one in every:
                copy.write_row([Jsonb(one)])
        stored = db.execute("select outcome from remem.remember_staged('staged')").fetchall()
    assert stored == [("created",)] * len(every)
    single = db.execute(STORED, ["single"]).fetchall()
    assert len(single) == len(every)
    assert db.execute(STORED, ["batch"]).fetchall() == single
    assert db.execute(STORED, ["staged"]).fetchall() == single


WRONG: list[Any] = [
    5,
    None,
    "x",
    [],
    ["embedding"],
    {},
    {"body": None},
    {"body": " \u00a0\n"},
    {"body": "x", "bogus": 1},
    {"body": "x", "kind": "fact"},
    {"body": "x", "scope": "galaxy"},
    {"body": "x", "scope": "user"},
    {"body": "x", "scope": "user", "scope_ref": ""},
    {"body": "x", "scope_ref": "u"},
    {"body": "x", "ref": ""},
    {"body": "x", "ref": "r" * 501},
    {"body": "x", "title": "t" * 65537},
    {"body": "x", "session_ref": ""},
    {"body": "x", "scope": "session", "session_ref": "s" * 501},
    {"body": "x", "speaker": "é" * 251},
    {"body": "x", "subject": "s" * 2001},
    {"body": "x", "source_ref": "s" * 4001},
    {"body": "x", "tags": [None]},
    {"body": "x", "tags": ["t" * 1001]},
    {"body": "x", "aliases": ["a"] * 1001},
    {"body": "x", "tags": [["a", "b"], ["c", "d"]]},
    {"body": "x", "entities": "e"},
    {"body": "x", "source_class": "rumour"},
    {"body": "x", "importance": 1.5},
    {"body": "x", "confidence": -1},
    {"body": "x", "turn_no": 1},
    {"body": "x", "turn_no": -1, "session_ref": "s"},
    {"body": "x", "turn_no": "one"},
    {"body": "x", "valid_from": "2024-01-02", "valid_to": "2024-01-01"},
    {"body": "x", "occurred_at": "soon"},
    {"body": "x", "on_conflict": "merge"},
    {"body": "x", "metadata": {"m": "é" * 600_000}},
    {"body": "x", "embedding": [1, 2]},
    {"body": "x", "embedding": [0] * 384},
    {"body": "x", "embedding": "no"},
    {"body": "x", "embedding": [[1] * 384]},
    {"body": "x", "embedding": [1] * 383 + [None]},
    {"body": "x", "embedding": [1] * 384, "space": "another"},
]


def test_a_batch_refuses_what_a_single_memory_would_and_says_the_same(db: Connection) -> None:
    """Items are read by one statement first, which may not let a wrong one pass."""
    others = [{"body": f"sound {n}"} for n in range(10)]
    for number, wrong in enumerate(WRONG):
        alone = report(db, f"a{number}", [wrong])
        assert alone[0][0] == "refused", wrong
        among = report(db, f"b{number}", [wrong, *others])
        assert among == [alone[0], *[("created", None)] * 10]
        with pytest.raises(psycopg.Error) as refused:
            remember_many(db, f"c{number}", [*others, wrong])
        assert refused.value.sqlstate == alone[0][1]["code"]


SOUND: list[dict[str, Any]] = [
    {"body": 5},
    {"body": "x", "tags": ["t" * 999, "u" * 999]},
    {"body": "x", "tags": [], "aliases": None},
    {"body": "x", "metadata": {"m": "é" * 5000}},
    {"body": "x", "scope": "session", "session_ref": "s"},
    {"body": "x", "kind": None, "scope": None, "importance": None, "on_conflict": None},
    {"body": "x", "embedding": None},
    {"body": "x", "embedding": [1] * 384, "space": "hash"},
]


def test_a_batch_takes_what_a_single_memory_may_be(db: Connection) -> None:
    others = [{"body": f"sound {n}"} for n in range(10)]
    query = "select m.content_hash from remem.memory m where m.workspace = %s and m.ref = 'one'"
    for number, sound in enumerate(SOUND):
        one = sound | {"ref": "one"}
        assert report(db, f"a{number}", [one]) == [("created", None)], sound
        assert report(db, f"b{number}", [one, *others]) == [("created", None)] * 11
        assert value(db, query, [f"a{number}"]) == value(db, query, [f"b{number}"])


def report(db: Connection, workspace: str, every: list[Any]) -> list[tuple[str, Any]]:
    """Outcome and error of each item, in order."""
    rows = db.execute(
        "select outcome, error from remem.remember_many(%s, %s, 'report') order by item_no",
        [workspace, Jsonb(every)],
    )
    return [(outcome, error) for outcome, error in rows]
