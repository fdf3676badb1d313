"""Embedding spaces: registered once, never mixed, switched only when complete."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.memories import (
    Connection,
    recall,
    refused,
    remember,
    value,
    warnings,
)

MODEL: dict[str, Any] = {
    "name": "minilm",
    "backend": "onnx",
    "asset": "sha256:1234",
    "dimensions": 3,
    "pooling": "mean",
    "normalization": "l2",
    "dtype": "int8",
    "query_prompt": "",
    "document_prompt": "",
}
IDENTITY = [
    "backend",
    "asset",
    "dimensions",
    "pooling",
    "normalization",
    "dtype",
    "query_prompt",
    "document_prompt",
]


def register(db: Connection, **changes: Any) -> Any:
    return db.execute(
        "select space_no, name, fingerprint, state from remem.register_space(%s)",
        [json.dumps({**MODEL, **changes})],
    ).fetchone()


def current(db: Connection, workspace: str | None = None) -> str:
    return str(value(db, "select (remem.current_space(%s)).name", [workspace]))


def test_the_hash_space_is_there_and_current_from_the_start(db: Connection) -> None:
    row = db.execute(
        "select space_no, name, backend, dimensions, state from remem.current_space()"
    ).fetchone()
    assert row == (1, "hash", "remem-local-hash", 384, "active")
    assert current(db, "a workspace that does not exist") == "hash"


def test_a_fingerprint_is_the_hash_of_the_identity(db: Connection) -> None:
    expected = hashlib.sha256("\n".join(str(MODEL[key]) for key in IDENTITY).encode())
    assert register(db)[2] == expected.hexdigest()


def test_a_missing_part_of_the_identity_counts_as_empty(db: Connection) -> None:
    short = {key: MODEL[key] for key in ("name", "backend", "asset", "dimensions")}
    expected = hashlib.sha256(b"onnx\nsha256:1234\n3\n\n\n\n\n").hexdigest()
    fingerprint = value(db, "select (remem.register_space(%s)).fingerprint", [json.dumps(short)])
    assert fingerprint == expected


def test_registering_the_same_model_again_gives_the_same_space(db: Connection) -> None:
    first = register(db)
    assert register(db) == first
    assert register(db, name="another name", cosine_floor=0.1) == first
    assert value(db, "select count(*) from remem.embedding_space") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"asset": "sha256:5678"},
        {"backend": "http"},
        {"pooling": "cls"},
        {"dtype": "float32"},
        {"normalization": "none"},
        {"query_prompt": "query: "},
        {"document_prompt": "passage: "},
        {"dimensions": 4},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_model_is_another_space_with_a_table_of_its_own(
    db: Connection, change: dict[str, Any]
) -> None:
    first, second = register(db), register(db, **change)
    assert first[0] != second[0]
    assert first[2] != second[2]
    assert first[1] != second[1]
    assert second[1].startswith("minilm-")
    for number in (first[0], second[0]):
        assert value(db, f"select count(*) from remem.embedding_{number}") == 0


@pytest.mark.parametrize(
    "broken",
    [
        {"name": ""},
        {"backend": None},
        {"asset": ""},
        {"dimensions": 0},
        {"dimensions": -3},
        {"dimensions": 4001},
        {"dimensions": "many"},
        {"dimensions": 1.5},
        {"dimensions": 99999999999},
        {"cosine_floor": 0.8, "cosine_full": 0.2},
        {"cosine_floor": "low"},
        {"vector_weight": 2},
        {"cosine_floor": "NaN"},
        {"cosine_full": "NaN"},
        {"cosine_floor": -1e39},
    ],
    ids=str,
)
def test_a_descriptor_that_describes_nothing_is_refused(
    db: Connection, broken: dict[str, Any]
) -> None:
    with refused("RM001"):
        register(db, **broken)
    assert value(db, "select count(*) from remem.embedding_space") == 1


@pytest.mark.parametrize("descriptor", ["null", "5", "[]", '"hash"'])
def test_a_descriptor_that_is_no_object_is_refused(db: Connection, descriptor: str) -> None:
    with refused("RM001", argument="descriptor"):
        db.execute("select remem.register_space(%s)", [descriptor])


def test_clients_that_register_at_once_agree(db: Connection, db_dsn: str) -> None:
    def one(number: int) -> Any:
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            return register(conn)

    with ThreadPoolExecutor(6) as pool:
        spaces = set(pool.map(one, range(6)))
    assert len(spaces) == 1


def test_a_default_space_is_that_of_new_workspaces_only(db: Connection) -> None:
    remember(db, "old", "x")
    register(db)
    db.execute("select remem.activate_space('minilm')")
    remember(db, "new", "x", embedding=[1, 0, 0])
    assert (current(db, "old"), current(db, "new"), current(db)) == ("hash", "minilm", "minilm")


def test_a_space_can_be_activated_by_its_fingerprint(db: Connection) -> None:
    fingerprint = register(db)[2]
    db.execute("select remem.activate_space(%s)", [fingerprint])
    assert current(db) == "minilm"


@pytest.mark.parametrize("workspace", [None, "w"])
def test_an_unknown_space_cannot_be_activated(db: Connection, workspace: str | None) -> None:
    with refused("RM202", space="gpt"):
        db.execute("select remem.activate_space('gpt', %s)", [workspace])


def test_a_workspace_with_memories_that_lack_vectors_cannot_switch(db: Connection) -> None:
    remember(db, "w", "x y")
    register(db)
    with refused("RM102", workspace="w", space="minilm", got=0, expected=1):
        db.execute("select remem.activate_space('minilm', 'w')")
    assert current(db, "w") == "hash"


def test_an_empty_workspace_can_switch_back_and_forth(db: Connection) -> None:
    register(db)
    for space in ("minilm", "hash", "minilm"):
        db.execute("select remem.activate_space(%s, 'w')", [space])
        assert current(db, "w") == space


def test_a_workspace_whose_memories_all_have_vectors_can_switch(db: Connection) -> None:
    number = register(db)[0]
    remember(db, "w", "x y")
    db.execute(
        f"insert into remem.embedding_{number} select workspace, memory_no, '[1,0,0]'"
        " from remem.memory"
    )
    db.execute("select remem._add_tally('w', %s, 1)", [number])
    db.execute("select remem.activate_space('minilm', 'w')")
    (hit,) = recall(db, "w", "x", embedding=[1, 0, 0], mode="vector")
    assert hit.signals["cosine"] == 1


@pytest.mark.covers("RE8")
def test_vectors_of_another_model_with_the_same_dimensions_are_never_compared(
    db: Connection,
) -> None:
    register(db)
    register(db, asset="sha256:5678", name="other")
    db.execute("select remem.activate_space('minilm')")
    remember(db, "w", "the queue retries", embedding=[1, 0, 0], space="minilm")
    with refused("RM202", item=1, space="other", expected="minilm"):
        remember(db, "w", "another", embedding=[1, 0, 0], space="other")
    with warnings(db) as seen:
        hits = recall(db, "w", "queue", embedding=[1, 0, 0], space="other")
    assert seen == [("RM501", ["space_mismatch", "no_embedding"])]
    assert [hit.arms for hit in hits] == [["lexical"]]
    assert "cosine" not in hits[0].signals


def test_only_an_administrator_changes_spaces(db: Connection, make_role: Any, connect: Any) -> None:
    role = make_role()
    db.execute("select remem.grant_access(%s, 'w', 'write')", [role])
    user = connect(role)
    with refused("RM301"):
        register(user)
    with refused("RM301"):
        user.execute("select remem.activate_space('hash')")
    with refused("RM301"):
        user.execute("select remem.activate_space('hash', 'w')")
    assert current(user, "w") == "hash"


def test_an_administrator_of_one_workspace_switches_that_one(
    db: Connection, make_role: Any, connect: Any
) -> None:
    register(db)
    role = make_role()
    db.execute("select remem.grant_access(%s, 'w', 'admin')", [role])
    admin = connect(role)
    admin.execute("select remem.activate_space('minilm', 'w')")
    assert current(admin, "w") == "minilm"
    with refused("RM301"):
        admin.execute("select remem.activate_space('minilm', 'v')")


def test_the_descriptor_of_a_space_registers_the_same_space(db: Connection) -> None:
    register(db, query_prompt="query: ")
    descriptor = value(db, "select to_json((s).descriptor) from remem.activate_space('minilm') s")
    again = value(db, "select (remem.register_space(%s)).name", [json.dumps(descriptor)])
    assert again == "minilm"
    assert {key: descriptor[key] for key in IDENTITY} == {
        **{key: MODEL[key] for key in IDENTITY},
        "query_prompt": "query: ",
    }


def test_every_table_in_use_has_a_valid_index_and_no_rights_for_others(db: Connection) -> None:
    number = register(db)[0]
    db.execute("select remem.activate_space('minilm')")
    indexed = value(
        db,
        "select i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid"
        " where c.relname = %s",
        [f"embedding_{number}_hnsw_idx"],
    )
    assert indexed
    for table in (f"embedding_{number}", f"embedding_{number}_past"):
        assert value(
            db,
            "select relrowsecurity and not exists (select from aclexplode(relacl) a"
            " where a.grantee <> relowner) from pg_class where relname = %s",
            [table],
        )


@pytest.mark.parametrize("look", ["list_spaces()", "doctor()"])
def test_a_space_that_is_dropped_meanwhile_disturbs_nobody(
    db: Connection, db_dsn: str, look: str
) -> None:
    register(db)
    with psycopg.connect(db_dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert value(other, "select count(*) from remem.embedding_space") == 2
        assert value(db, "select remem.drop_space('minilm')") == "dropped"
        assert other.execute(f"select * from remem.{look}".encode()).fetchall()


FUNCTIONS = ("_nearest_by_index", "_nearest_of_all", "_cosines")


def body(db: Connection, function: str) -> str:
    return str(
        value(db, "select pg_get_functiondef(format('remem.%%I', %s::text)::regproc)", [function])
    )


def test_a_new_space_has_its_statements_in_the_functions_of_the_spaces(db: Connection) -> None:
    number = register(db)[0]
    for function in FUNCTIONS:
        for space_no in (1, number):
            assert f"when {space_no} then" in body(db, function)
            assert f"remem.embedding_{space_no} e" in body(db, function)


@pytest.mark.parametrize("exact", [True, False])
def test_a_space_without_its_statements_answers_alike(db: Connection, exact: bool) -> None:
    """As one that was restored beside the extension, whose functions come from its script."""
    number = register(db)[0]
    db.execute("select remem.activate_space('minilm')")
    for n in range(40):
        remember(db, "w", f"memory {n}", ref=f"r{n}", embedding=[1, n, 40 - n], space="minilm")
    db.execute("select remem._require_space_index(remem._space(%s))", [number])

    def answers() -> list[Any]:
        return db.execute(
            "select a.memory_nos, a.cosines,"
            " remem._cosines('w', %(space)s::int, %(query)s::real[], array[3, 999, 1])"
            " from remem._arm_vector('w', %(space)s::int, %(query)s::real[], 5, %(exact)s,"
            " null, null, false) a",
            {"space": int(number), "query": [1.0, 7.0, 30.0], "exact": exact},
        ).fetchall()

    before = answers()
    for function in FUNCTIONS:
        lines = body(db, function).splitlines()
        db.execute("\n".join(line for line in lines if f"when {number} then" not in line).encode())
        assert f"remem.embedding_{number} e" not in body(db, function)
    assert answers() == before
    assert before[0][2][1] is None
    db.execute("select remem._write_space_functions()")
    assert answers() == before


def test_a_small_workspace_beside_a_large_one_is_compared_by_its_own_rows(db: Connection) -> None:
    """Few workspaces, one of which has nearly all rows: a plan for any of them would read them."""
    number = int(register(db, dimensions=384)[0])
    for workspace, first, rows in (("tiny", 1, 20), ("small", 100, 20), ("large", 1000, 9000)):
        db.execute(
            sql.SQL(
                "insert into remem.{} select %s, %s + g,"
                " ('[' || repeat('1,', 383) || '1]')::halfvec from generate_series(1, %s) g"
            ).format(sql.Identifier(f"embedding_{number}")),
            [workspace, first, rows],
        )
    db.execute(sql.SQL("vacuum analyze remem.{}").format(sql.Identifier(f"embedding_{number}")))
    blocks = []
    for _ in range(7):
        ((plan,),) = db.execute(
            "explain (analyze, buffers, format json) select remem._nearest_of_all("
            " 'tiny', %s, ('[' || repeat('2,', 383) || '1]')::halfvec, 5)",
            [number],
        ).fetchall()
        blocks.append(plan[0]["Plan"]["Shared Hit Blocks"])
    assert max(blocks[1:]) < 50  # the first call reads catalogs; the table has a thousand pages
