"""How a space comes to be used and goes: building, active, retired, dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.consistency import problems
from tests.support.jobs import (
    claim,
    complete,
    coverage,
    current,
    drain,
    finish,
    register,
    start,
    state,
)
from tests.support.memories import (
    Connection,
    recall,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)


def index_state(db: Connection, number: int) -> str:
    return str(value(db, "select remem._space_index(%s)", [number]))


@pytest.fixture
def full(db: Connection) -> Connection:
    """Three memories in the hash space, and a registered space of three dimensions."""
    remember_many(db, "w", [{"body": f"memory {word}"} for word in ("one", "two", "three")])
    register(db)
    return db


def test_a_space_is_building_until_somebody_uses_it(full: Connection) -> None:
    assert (state(full, "new"), state(full, "hash")) == ("building", "active")
    start(full)
    assert state(full, "new") == "building"
    assert drain(full) == 3
    assert (current(full), state(full, "new")) == ("hash", "building")
    assert finish(full)
    # the default of new workspaces is the hash space still
    assert (current(full), state(full, "new"), state(full, "hash")) == ("new", "active", "active")


def test_the_index_is_built_after_the_load_and_before_the_first_use(full: Connection) -> None:
    number = int(value(full, "select space_no from remem.embedding_space where name = 'new'"))
    assert index_state(full, number) == "missing"
    start(full)
    drain(full)
    assert index_state(full, number) == "missing"
    assert finish(full)
    assert index_state(full, number) == "valid"


@pytest.mark.covers("RE3")
def test_a_switch_waits_for_the_last_vector_and_happens_once(full: Connection) -> None:
    start(full)
    assert not finish(full)
    jobs = claim(full, 2)
    complete(full, jobs)
    assert not finish(full)
    drain(full)
    assert [finish(full) for _ in range(3)] == [True, False, False]
    kinds = full.execute("select kind, state from remem.embedding_runs('w')").fetchall()
    assert kinds.count(("space-activation", "completed")) == 1
    assert problems(full) == []


def test_workers_that_finish_at_once_switch_once(full: Connection, db_dsn: str) -> None:
    start(full)
    drain(full)
    barrier = threading.Barrier(5)
    said: list[bool] = []

    def work() -> None:
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            barrier.wait()
            said.append(finish(conn))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [False, False, False, False, True]
    assert (
        value(
            full, "select count(*) from remem.embedding_runs('w') where kind = 'space-activation'"
        )
        == 1
    )


def test_recall_stays_in_the_old_space_and_names_stale_rows_until_the_switch(
    full: Connection,
) -> None:
    def said() -> Any:
        with warnings(full) as seen:
            hits = recall(full, "w", "memory two")
        return [codes for _, codes in seen], hits[0].body

    assert said() == ([], "memory two")
    start(full)
    assert said() == ([["stale_rows"]], "memory two")
    drain(full)
    assert said() == ([["stale_rows"]], "memory two")
    assert finish(full)
    with warnings(full) as seen:
        hits = recall(full, "w", "memory two", embedding=[1, 0, 0], space="new")
    assert (seen, len(hits)) == ([], 3)


def test_a_move_can_be_ended_and_taken_up_again(full: Connection) -> None:
    start(full)
    complete(full, claim(full, 2))
    claim(full, 1)
    assert value(full, "select remem.cancel_reembed('w')")
    assert not value(full, "select remem.cancel_reembed('w')")
    assert value(full, "select count(*) from remem.embedding_claim") == 0
    assert [c.space for c in coverage(full)] == ["hash"]
    with refused("RM202", space="new", expected="hash"):
        claim(full, space="new")
    start(full)
    assert drain(full) == 1


def test_naming_the_current_space_ends_a_move(full: Connection) -> None:
    start(full)
    start(full, space="hash")
    assert [c.space for c in coverage(full)] == ["hash"]


def test_a_move_to_a_third_space_leaves_the_second(full: Connection) -> None:
    register(full, "third")
    start(full)
    held = claim(full)
    start(full, space="third")
    assert complete(full, held) == ["lost"] * 3
    assert drain(full) == 3
    assert finish(full)
    assert current(full) == "third"
    assert problems(full) == []


def test_a_space_that_the_last_workspace_leaves_is_retired_and_dropped_whole(
    full: Connection,
) -> None:
    number = value(full, "select space_no from remem.embedding_space where name = 'new'")
    start(full)
    drain(full)
    finish(full)
    start(full, space="hash")
    assert state(full, "new") == "active"
    while jobs := claim(full):
        complete(full, jobs, [1.0] * 384)
    assert finish(full)
    assert state(full, "new") == "retired"
    assert value(full, "select remem.drop_space('new', 'w')") == "dropped"
    assert state(full, "new") is None
    for table in (f"embedding_{number}", f"embedding_{number}_past"):
        assert value(full, "select to_regclass('remem.' || %s)", [table]) is None
    assert value(full, "select count(*) from remem.tally where space_no = %s", [number]) == 0
    assert problems(full) == []


def test_a_number_is_never_used_again(full: Connection) -> None:
    first = value(full, "select space_no from remem.embedding_space where name = 'new'")
    assert value(full, "select remem.drop_space('new')") == "dropped"
    assert register(full, "new") > first


def test_a_space_that_others_use_only_loses_the_vectors_of_the_workspace_that_left(
    full: Connection,
) -> None:
    register(full, "third")
    remember(full, "v", "memory four")
    for workspace in ("w", "v"):
        start(full, workspace)
        drain(full, workspace)
        assert finish(full, workspace)
    start(full, "w", "third")
    drain(full)
    finish(full)
    assert value(full, "select remem.drop_space('new', 'w')") == "emptied"
    assert [c.embedded for c in coverage(full, "v")] == [1]
    assert [c.embedded for c in coverage(full, "w", "new")] == [0]
    assert problems(full) == []


@pytest.mark.parametrize("workspace", [None, "w"])
def test_a_space_in_use_is_not_dropped(full: Connection, workspace: str | None) -> None:
    start(full)
    for space in ("new", "hash"):
        with refused("RM102", space=space):
            full.execute("select remem.drop_space(%s, %s)", [space, workspace])


def test_the_built_in_space_is_emptied_and_never_dropped(full: Connection) -> None:
    full.execute("select remem.activate_space('new')")
    start(full)
    drain(full)
    finish(full)
    assert state(full, "hash") == "retired"
    assert value(full, "select remem.drop_space('hash', 'w')") == "emptied"
    assert value(full, "select count(*) from remem.embedding_1") == 0
    with refused("RM102", space="hash"):
        full.execute("select remem.drop_space('hash')")


def test_a_drop_does_not_hold_writers_up_for_long(full: Connection, db_dsn: str) -> None:
    with psycopg.connect(db_dsn) as writer:
        writer.execute("select remem.remember('w', 'a long transaction')")
        assert value(full, "select remem.drop_space('new')") == "busy"
        writer.commit()
    assert value(full, "select remem.drop_space('new')") == "dropped"


def test_a_writer_that_supersedes_while_a_space_goes_never_meets_a_missing_table(
    full: Connection, db_dsn: str
) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        with psycopg.connect(db_dsn, autocommit=True) as conn:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    remember(conn, "w", f"version {number}", ref="r")
                except psycopg.Error as error:
                    errors.append(error)
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(15):
            name = f"space {number}"
            register(full, name)
            while value(full, "select remem.drop_space(%s)", [name]) == "busy":
                pass
    finally:
        stop.set()
        thread.join()
    assert errors == []
    assert problems(full) == []


def test_an_activation_by_hand_may_leave_a_number_of_memories_behind(full: Connection) -> None:
    start(full)
    complete(full, claim(full, 2))
    with refused("RM102", got=2, expected=3):
        full.execute("select remem.activate_space('new', 'w')")
    full.execute("select remem.activate_space('new', 'w', allow_missing => 1)")
    assert current(full) == "new"
    for wrong in (-1, None):
        with refused("RM001", argument="allow_missing"):
            full.execute("select remem.activate_space('new', 'w', %s)", [wrong])


def test_a_stream_of_writes_does_not_keep_a_workspace_from_switching(db: Connection) -> None:
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(300)])
    register(db)
    start(db)
    drain(db)
    remember_many(db, "w", [{"body": f"late {n}"} for n in range(3)])
    assert not finish(db)
    assert finish(db, nearly=True)
    assert [(c.space, c.pending) for c in coverage(db)] == [("new", 3)]
    with warnings(db) as seen:
        recall(db, "w", "late", embedding=[1, 0, 0])
    assert seen == [("RM501", ["stale_rows"])]
    assert drain(db) == 3
    remember_many(db, "w", [{"body": f"too many {n}"} for n in range(9)])
    register(db, "third")
    start(db, space="third")
    while len(jobs := claim(db)) == 25:
        complete(db, jobs)
    assert not finish(db, nearly=True)


def test_a_large_space_wants_its_index_first(db: Connection) -> None:
    number = register(db)
    remember(db, "w", "x")
    db.execute(
        f"insert into remem.embedding_{number} select 'other', n, '[1,0,0]'"  # type: ignore[arg-type]
        " from generate_series(1, 5001) n"
    )
    start(db)
    drain(db)
    assert not finish(db)
    assert [c.cutover for c in coverage(db)] == ["completed", "building"]
    with refused("RM102", space="new", index="missing"):
        db.execute("select remem.activate_space('new', 'w')")
    told = value(db, "select remem.space_index('w')")
    assert (told["state"], told["small"], told["is_owner"]) == ("missing", False, True)
    assert value(db, "select remem.build_space_index('w')") == "valid"
    assert finish(db)


def test_the_commands_of_space_index_build_it_beside_the_writers(db: Connection) -> None:
    number = register(db)
    remember(db, "w", "x")
    start(db)
    drain(db)
    told = value(db, "select remem.space_index('w')")
    db.execute(told["create"])
    assert index_state(db, number) == "valid"
    db.execute(told["drop"])
    assert index_state(db, number) == "missing"


def test_an_index_that_failed_half_way_is_built_again(db: Connection, su: Connection) -> None:
    number = register(db)
    remember(db, "w", "x")
    start(db)
    drain(db)
    db.execute(value(db, "select remem.space_index('w')")["create"])
    su.execute(
        "update pg_index set indisvalid = false where indexrelid = %s::regclass",
        [f"remem.embedding_{number}_hnsw_idx"],
    )
    assert index_state(db, number) == "invalid"
    assert finish(db)
    assert index_state(db, number) == "valid"


@pytest.mark.covers("RE14")
def test_dimensions_are_the_spaces_and_every_vector_has_them(full: Connection) -> None:
    start(full)
    jobs = claim(full)
    with refused("RM201", space="new", expected=3):
        complete(full, jobs, [1.0, 0.0])
    assert complete(full, jobs) == ["stored"] * 3


def test_spaces_are_listed_with_states_rows_and_sizes(
    full: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    start(full)
    complete(full, claim(full, 2))
    columns = "name, state, workspace_state, memories, vectors, set_aside, workspaces, index_state"
    rows = full.execute(f"select {columns} from remem.list_spaces('w')").fetchall()  # type: ignore[arg-type]
    assert rows == [
        ("hash", "active", "active", 3, 3, 0, 1, "valid"),
        ("new", "building", "building", 3, 2, 0, 1, "missing"),
    ]
    assert value(full, "select coverage from remem.list_spaces('w') where name = 'new'") == (
        pytest.approx(2 / 3)
    )
    assert value(full, "select index_bytes > 0 from remem.list_spaces() where name = 'hash'")
    role = make_role()
    full.execute("select remem.grant_access(%s, 'w', 'read')", [role])
    reader = connect(role)
    assert reader.execute(
        "select name, vectors, workspaces, index_bytes, table_bytes from remem.list_spaces('w')"
    ).fetchall() == [("hash", 3, None, None, None), ("new", 2, None, None, None)]
