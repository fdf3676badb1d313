"""stage and remember_staged: the same as remember one by one, from a table of the transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from remem_pg.install import migrate
from tests.access.doors import grant
from tests.server import Server
from tests.support.bulk import copy_in, load
from tests.support.consistency import problems
from tests.support.memories import (
    EVERY_FIELD,
    Connection,
    get,
    open_space,
    refused,
    remember,
    value,
)
from tests.support.tables import contents

TIMES = ("created_at", "updated_at", "superseded_at", "replaced_at", "forgotten_at", "topic_id")

ITEMS: list[dict[str, Any]] = [
    {"body": "We retry three times, then page Ana.", "ref": "retries", "topic_key": "retries"},
    {"body": "The office cat is called Turing."},
    {"body": "The office cat is called Turing.", "source_ref": "again"},
    {"body": "We retry five times.", "ref": "retries", "topic_key": "retries"},
    {"body": "Then I will be away.", "session_ref": "standup", "speaker": "Ben"},
    {"body": "The deployment is on Tuesday.", "session_ref": "standup", "speaker": "Ana"},
    {"body": "納期は金曜日です。", "title": "納期", "aliases": ["deadline"], "pinned": True},
    {"body": "The log says ERR_4071.", "metadata": {"n": [1, None]}, "tags": ["a", "b"]},
    {"body": "We retry five times.", "ref": "retries", "topic_key": "retries"},
    {**{k: v for k, v in EVERY_FIELD.items() if k not in ("occurred_at", "valid_from", "valid_to")},
     "body": "Everything that can be said.", "occurred_at": "2026-03-01T09:30:00Z"},
]  # fmt: skip


def one_by_one(db: Connection, workspace: str, items: list[dict[str, Any]]) -> list[str]:
    outcomes = []
    for item in items:
        rest = {key: value for key, value in item.items() if key != "body"}
        outcomes.append(remember(db, workspace, item["body"], **rest).outcome)
    return outcomes


def test_all_tables_hold_what_remember_one_by_one_would_have_written(db: Connection) -> None:
    single = one_by_one(db, "single", ITEMS)
    bulk = [ref.outcome for ref in load(db, "bulk", ITEMS)]
    assert bulk == single
    assert {"created", "merged", "new_version", "unchanged"} <= set(bulk)
    # what merged is noted with its moment
    with db.transaction(force_rollback=True):
        db.execute("update remem.memory set provenance = provenance #- '{also,0,at}'")
        kept = contents(db, "bulk", without=TIMES, ids=False)
        expected = contents(db, "single", without=TIMES, ids=False)
    assert len(expected["memory"]) == 8
    for table in expected:
        assert kept[table] == expected[table], table
    assert problems(db) == []


def test_vectors_beside_the_items_are_those_of_remember(db: Connection) -> None:
    open_space(db, dimensions=3)
    vectors = [[1.0, 2.0, 2.0], None, [0.6, 0.8, 0.0]]
    items = [{"body": body, "ref": body} for body in ("one", "two", "three")]
    load(db, "bulk", items, vectors=vectors)
    for item, vector in zip(items, vectors, strict=True):
        remember(db, "single", item["body"], ref=item["ref"], embedding=vector)
    query = (
        "select jsonb_object_agg(m.ref, e.embedding::text) from remem.embedding_2 e"
        " join remem.memory m using (workspace, memory_no) where workspace = %s"
    )
    assert value(db, query, ["bulk"]) == value(db, query, ["single"])
    assert value(db, query, ["bulk"]).keys() == {"one", "three"}


def test_more_items_than_a_chunk_keep_their_order_and_meet_each_other(db: Connection) -> None:
    items = [{"body": f"Note {n % 600}.", "ref": f"r{n % 600}"} for n in range(1100)]
    refs = load(db, "w", items)
    assert [ref.item_no for ref in refs] == list(range(1, 1101))
    assert [ref.outcome for ref in refs] == ["created"] * 600 + ["unchanged"] * 500
    assert problems(db) == []


def test_abort_stores_nothing_and_names_the_item_by_the_callers_number(db: Connection) -> None:
    with refused("RM001", item=70, argument="kind"), db.transaction():
        db.execute("select remem.stage('w')")
        copy_in(db, [(7, {"body": "good"}, None), (70, {"body": "x", "kind": "poem"}, None)])
        db.execute("select * from remem.remember_staged('w')")
    assert value(db, "select count(*) from remem.memory") == 0


def test_report_stores_the_others(db: Connection) -> None:
    open_space(db, dimensions=2)
    items = [{"body": "good"}, {"body": ""}, {"body": "long"}, {"body": "also good"}]
    refs = load(db, "w", items, "report", [[1.0, 0.0], None, [1.0, 2.0, 3.0], None])
    assert [ref.outcome for ref in refs] == ["created", "refused", "refused", "created"]
    assert [(ref.error or {}).get("code") for ref in refs] == [None, "RM001", "RM201", None]


def test_the_table_can_be_filled_again_and_ends_with_the_transaction(db: Connection) -> None:
    with db.transaction():
        for body in ("one", "two"):
            db.execute("select remem.stage('w')")
            copy_in(db, [(1, {"body": body}, None)])
            assert len(db.execute("select * from remem.remember_staged('w')").fetchall()) == 1
            assert db.execute("select * from remem.remember_staged('w')").fetchall() == []
    assert value(db, "select to_regclass('pg_temp.remem_staged')") is None
    assert value(db, "select remem.count('w')") == 2


def test_without_a_staging_table_nothing_is_stored(db: Connection) -> None:
    assert db.execute("select * from remem.remember_staged('w')").fetchall() == []
    assert value(db, "select count(*) from remem.workspace") == 0


@pytest.fixture
def writer(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> Connection:
    role = make_role("writer")
    grant(db, role, "acme", "write")
    return connect(role)


def test_a_granted_role_copies_and_stores(writer: Connection, db: Connection) -> None:
    assert [ref.outcome for ref in load(writer, "acme", ITEMS[:2])] == ["created", "created"]
    assert get(db, "acme", ref="retries").body.startswith("We retry three")


def test_a_granted_role_may_only_add_to_the_table(writer: Connection) -> None:
    for query in (
        "select * from pg_temp.remem_staged",
        "update pg_temp.remem_staged set item = null",
        "create trigger t before insert on pg_temp.remem_staged"
        " execute function suppress_redundant_updates_trigger()",
        "alter table pg_temp.remem_staged enable row level security",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), writer.transaction():
            writer.execute("select remem.stage('acme')")
            writer.execute(query.encode())


@pytest.mark.parametrize(
    "made",
    [
        "create temporary table remem_staged (item_no int, item jsonb, embedding real[])",
        "create temporary view remem_staged as select 1 as item_no,"
        " jsonb_build_object('body', current_user::text) as item, null::real[] as embedding",
    ],
)
@pytest.mark.parametrize("function", ["stage", "remember_staged", "import_staged"])
def test_what_the_caller_made_under_that_name_is_not_read_with_the_owners_rights(
    writer: Connection, made: str, function: str
) -> None:
    writer.execute(made.encode())
    with refused("RM102", table="pg_temp.remem_staged"):
        writer.execute(f"select * from remem.{function}('acme')".encode())


def test_staged_rows_reach_no_workspace_without_a_grant(writer: Connection) -> None:
    with refused("RM301"), writer.transaction():
        writer.execute("select remem.stage('acme')")
        copy_in(writer, [(1, {"body": "x"}, None)])
        writer.execute("select * from remem.remember_staged('other')")


def test_an_owner_whose_name_has_capitals_can_stage_and_ask_the_doctor(server: Server) -> None:
    owner, name = server.new_role("Owner"), server.new_database(install=False)
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute(
            sql.SQL("alter database {} owner to {}").format(
                sql.Identifier(name), sql.Identifier(owner)
            )
        )
    dsn = server.dsn(owner, name)
    migrate(dsn)
    with psycopg.connect(dsn) as conn:
        conn.execute("select remem.stage('w')")
        conn.execute('insert into pg_temp.remem_staged (item) values (\'{"body": "x"}\')')
        stored = conn.execute("select outcome from remem.remember_staged('w')").fetchall()
        assert stored == [("created",)]
        assert conn.execute("select count(*) from remem.doctor()").fetchone() != (0,)
    server.drop_database(name)
    server.drop_role(owner)
