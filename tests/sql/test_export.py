"""export and import_staged: a workspace goes out whole and comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from psycopg import sql

from tests.server import Server
from tests.support.bulk import export, outcomes, take
from tests.support.consistency import problems
from tests.support.databases import fresh, owner
from tests.support.lifecycle import change, history
from tests.support.memories import (
    EVERY_FIELD,
    Connection,
    get,
    open_space,
    recall,
    refused,
    remember,
    remember_many,
    value,
)
from tests.support.tables import TELEMETRY, contents

# Written anew by whoever imports, or a matter of the database.
DERIVED = {"posting", "posting_past", "memory_entity", "entity_alias", "tally", "topic_token"}
VECTORS = {"topic_embedding", "provider_embedding"}
TAKEN = {
    "session": "session",
    "memory": "memory",
    "forgotten": "memory",
    "tombstone": "tombstone",
    "lineage": "version",
    "relation": "relation",
    "topic": "topic",
    "provider": "provider",
    "route": "route",
    "plan_setting": "plan_setting",
    "continuity_phrase": "continuity_phrase",
    "generic_word": "generic_word",
    "workspace": "header",
}


def fill(db: Connection, workspace: str = "w") -> None:
    """Something of everything that a workspace can have."""
    remember(db, workspace, "Everything that can be said.", **EVERY_FIELD)
    remember_many(
        db,
        workspace,
        [
            {"body": "We retry three times, then page.", "ref": "retries", "topic_key": "Retry"},
            {"body": "The heron is a bird.", "entities": ["Heron"], "title": "Heron",
             "aliases": ["grey bird"], "metadata": {"a": None, "b": [None, {"c": None}]}},
            {"body": "Good morning.", "session_ref": "standup", "speaker": "Ben"},
            {"body": "The deployment is on Tuesday.", "session_ref": "standup", "speaker": "Ana"},
            {"body": "納期は金曜日です。", "valid_to": "infinity", "valid_from": "2026-01-01"},
            {"body": "This is to be forgotten.", "ref": "secret", "session_ref": "standup"},
            {"body": "This was forgotten and said again.", "ref": "again"},
            {"body": "This is erased.", "ref": "erased"},
        ],
    )  # fmt: skip
    remember(db, workspace, "We retry five times.", ref="retries", topic_key="Retry")
    bird = value(
        db, "select memory_id from remem.list(%s) where body like '%%heron%%'", [workspace]
    )
    change(db, "correct", workspace, body="The heron is a big bird.", memory_id=bird, reason="size")
    change(db, "forget", workspace, ref="secret", reason="asked to")
    change(db, "forget", workspace, ref="again")
    remember(
        db, workspace, "This was forgotten and said again.", ref="again", on_conflict="rewrite"
    )
    change(db, "purge", workspace, ref="erased")
    change(db, "pin", workspace, ref="retries")
    old = remember(db, workspace, "The office is in Rome.").memory_id
    new = remember(db, workspace, "The office is in Oslo.").memory_id
    change(db, "supersede", workspace, old=old, new=new, reason="moved")
    db.execute(
        "select remem.relate(%(w)s, %(new)s, (remem.get(%(w)s, ref => 'retries')).memory_id,"
        " 'part_of', 0.25, 'heuristic')",
        {"w": workspace, "new": new},
    )
    db.execute("select remem.put_provider(%s, 'wiki', 'Wiki', 'pages', '{w}')", [workspace])
    db.execute(
        "select remem.put_topic(%s, 'Deploys', '{deploy}', '{ops}', 'how we ship', 0.7, true,"
        " '{wiki}')",
        [workspace],
    )
    db.execute(
        "select remem.put_topic(%s, 'Retry', summary => 'how often', source => 'notes')",
        [workspace],
    )
    db.execute("select remem.put_route('task', '{lexical}', %s, keywords => '{todo}')", [workspace])
    db.execute("select remem.put_plan_setting(%s, 'max_topics', '2')", [workspace])
    db.execute("select remem.put_plan_setting(%s, 'max_topics', '3', 'hash')", [workspace])
    db.execute("select remem.put_continuity_phrase(%s, 'english', 'as before')", [workspace])
    db.execute("select remem.put_generic_word(%s, 'english', 'matter')", [workspace])


@pytest.fixture
def filled(db: Connection) -> Connection:
    fill(db)
    return db


@pytest.fixture
def other(server: Server) -> Iterator[Connection]:
    """An empty database with remem."""
    with fresh(server) as name, owner(server, name) as conn:
        yield conn


@pytest.mark.covers("ME37")
def test_a_workspace_comes_back_in_every_table(filled: Connection, other: Connection) -> None:
    records = export(filled, "w")
    results = take(other, "w", records)
    assert set(outcomes(results)) == {"created"}
    fresh_ = {"workspace": ("created_at",)}
    before, after = contents(filled, "w"), contents(other, "w")
    assert all(before[table] for table in TAKEN)
    for table in before:
        if table in fresh_:
            before |= contents_of(filled, table, fresh_[table])
            after |= contents_of(other, table, fresh_[table])
        assert after[table] == before[table], table
    assert problems(other) == []


def contents_of(db: Connection, table: str, without: tuple[str, ...]) -> dict[str, list[str]]:
    return {table: contents(db, "w", without=without)[table]}


def test_recall_history_and_plans_answer_the_same(filled: Connection, other: Connection) -> None:
    take(other, "w", export(filled, "w"))
    for question in ("how often do we retry?", "heron", "納期はいつですか", "what did Ana say?"):
        said = [
            [
                (h.rank, h.memory_id, h.score, h.relevance, h.signals)
                for h in recall(db, "w", question)
            ]
            for db in (filled, other)
        ]
        assert said[0] == said[1]
        assert said[0]
    assert history(other, "w", ref="retries") == history(filled, "w", ref="retries")
    assert history(other, "w", ref="secret") == history(filled, "w", ref="secret")
    assert history(other, "w", ref="erased") == history(filled, "w", ref="erased")
    plans = [value(db, "select remem.plan('w', 'our Deploys')") for db in (filled, other)]
    assert [p["title"] for p in plans[1]["topics"]] == [p["title"] for p in plans[0]["topics"]]


def test_what_is_forgotten_can_be_brought_back_after_an_import(
    filled: Connection, other: Connection
) -> None:
    take(other, "w", export(filled, "w"))
    for db in (filled, other):
        change(db, "unforget", "w", memory_id=history(db, "w", ref="secret")[0].memory_id)
    assert get(other, "w", ref="secret").body == "This is to be forgotten."
    assert contents(other, "w")["posting"] == contents(filled, "w")["posting"]
    assert problems(other) == []


def test_a_second_import_changes_nothing(filled: Connection, other: Connection) -> None:
    records = export(filled, "w")
    take(other, "w", records)
    before = contents(other, "w", without=("updated_at",))
    results = take(other, "w", records)
    assert set(outcomes(results)) == {"unchanged"}
    assert set(outcomes(results, "version")) == {"unchanged"}
    assert set(outcomes(results, "relation")) == {"unchanged"}
    assert set(outcomes(results, "tombstone")) == {"unchanged"}
    assert contents(other, "w", without=("updated_at",)) == before


def test_it_can_come_back_under_another_name_in_the_same_database(filled: Connection) -> None:
    take(filled, "copy", export(filled, "w"))
    names = {"workspace", "updated_at", "created_at", "topic_id"}
    before, after = (contents(filled, w, without=tuple(names)) for w in ("w", "copy"))
    assert after == before


def test_the_language_of_a_new_workspace_is_that_of_the_file(
    db: Connection, other: Connection
) -> None:
    db.execute("select remem.create_workspace('w', 'german')")
    remember(db, "w", "Die Häuser stehen am Hafen.")
    take(other, "w", export(db, "w"))
    assert value(other, "select language from remem.workspace") == "german"
    assert contents(other, "w")["posting"] == contents(db, "w")["posting"]


def test_a_source_class_of_ones_own_comes_along(db: Connection, other: Connection) -> None:
    db.execute("select remem.put_source_class('rumour', 0.2, '3 days', false, 'Heard somewhere.')")
    remember(db, "w", "They say it rains.", source_class="rumour")
    take(other, "w", export(db, "w"))
    query = "select to_jsonb(c) from remem.source_class c where name = 'rumour'"
    assert value(other, query) == value(db, query)


def test_every_table_of_a_workspace_is_exported_or_known_to_be_derived(filled: Connection) -> None:
    tables = {t for (t,) in filled.execute("select t.name::text from remem._workspace_tables() t")}
    vectors = {t for t in tables if t.startswith("embedding_") and t not in TELEMETRY}
    assert tables == set(TAKEN) | DERIVED | VECTORS | TELEMETRY | vectors
    types = {record["type"] for record in export(filled, "w")}
    assert types == {*TAKEN.values(), "source_class", "end"}


@pytest.mark.parametrize(
    ("table", "derived"),
    [
        ("memory", {"attrs", "fingerprint", "doc_len", "lexemes", "analyser_no", "changed_xid"}),
        ("forgotten", {"fingerprint", "turn_no"}),
        ("session", {"turns", "doc_len"}),
        ("tombstone", set()),
        ("lineage", {"fingerprint"}),
        ("relation", set()),
        ("provider", set()),
        ("route", set()),
        ("continuity_phrase", set()),
        ("generic_word", set()),
    ],
)
def test_every_column_is_a_key_of_its_record(db: Connection, table: str, derived: set[str]) -> None:
    keys = set(value(db, "select remem._export_keys()")[TAKEN[table]])
    columns = {
        name
        for (name,) in db.execute(
            "select attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0"
            " and not attisdropped",
            [f"remem.{table}"],
        ).fetchall()
    }
    # inside they are numbers, outside names
    renamed = {"memory_no", "session_no", "src_no", "dst_no", "old_no", "new_no", "workspace"}
    renamed |= {"forgotten_at", "reason"} if table == "forgotten" else set()
    assert columns - derived - renamed <= keys


def test_the_end_counts_what_was_written(filled: Connection) -> None:
    records = export(filled, "w")
    assert records[0]["type"] == "header"
    counts = records[-1]["counts"]
    for type_, count in counts.items():
        assert len([r for r in records if r["type"] == type_]) == count, type_
    assert sum(counts.values()) == len(records) - 2


def test_an_export_is_of_one_moment(filled: Connection, server: Server) -> None:
    name = value(filled, "select current_database()")
    with owner(server, name) as writer, filled.cursor() as cursor:
        lines = 0
        query = sql.SQL("copy (select e from remem.export('w') e) to stdout")
        with cursor.copy(query) as copy:
            for row in copy.rows():
                if lines == 0:
                    remember(writer, "w", "Written meanwhile.", ref="meanwhile")
                lines += 1
                assert "meanwhile" not in json.dumps(row)
    assert get(filled, "w", ref="meanwhile").body == "Written meanwhile."


def test_with_vectors_the_current_space_comes_along(db: Connection) -> None:
    open_space(db, dimensions=2)
    remember(db, "w", "one", ref="r", embedding=[0.6, 0.8])
    remember(db, "w", "two", ref="r", embedding=[1.0, 0.0])
    records = export(db, "w", vectors=True)
    assert records[0]["space"]["name"] == "t"
    packed = [record["embedding"] for record in records if record["type"] == "memory"]
    assert len(packed) == 2
    assert len(set(packed)) == 2
    with refused("RM001", argument="embedding"):  # they have to be unpacked
        take(db, "copy", records)


def test_an_unknown_workspace_is_not_found(db: Connection) -> None:
    with refused("RM101", argument="workspace"):
        export(db, "nowhere")
