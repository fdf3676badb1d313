"""C10: doctor names a missing, invalid or unused vector index and too little memory for one."""

from __future__ import annotations

import pytest

from tests.support.jobs import register
from tests.support.memories import Connection, recall, remember, value
from tests.support.operations import checks, flush, heals, log, vectors

CHECK = "vector_index:hash"


@pytest.fixture
def large(db: Connection) -> Connection:
    """A workspace of so many vectors that recall takes the index."""
    remember(db, "w", "We retry three times.")
    vectors(db, "w", 1200)
    db.execute("vacuum analyze remem.embedding_1")
    return db


def test_a_missing_index_is_an_error_until_it_is_built(large: Connection) -> None:
    assert checks(large)[CHECK].status == "ok"
    large.execute("drop index remem.embedding_1_hnsw_idx")
    found = heals(large, CHECK)
    assert found.status == "error" and "compares all of its 1201 vectors" in found.detail
    assert value(large, "select remem._space_index(1)") == "valid"


def test_an_invalid_index_is_an_error_until_it_is_rebuilt(
    large: Connection, su: Connection
) -> None:
    su.execute(
        "update pg_index set indisvalid = false"
        " where indexrelid = 'remem.embedding_1_hnsw_idx'::regclass"
    )
    found = heals(large, CHECK)
    assert found.status == "error" and found.detail.startswith("invalid")


def test_a_space_in_building_needs_no_index_yet(large: Connection) -> None:
    register(large)
    assert checks(large)["vector_index:new"].status == "ok"
    assert value(large, "select remem._space_index(2)") == "missing"


def test_an_index_that_recalls_go_past_is_named(large: Connection) -> None:
    log(large, "w", "now()", arms='{"vector": {"state": "completed"}}')
    found = checks(large)[CHECK]
    assert found.status == "warning" and found.detail.startswith("valid but not used")
    assert found.remedy == "analyze remem.embedding_1;"
    # A recall that takes it ends that.
    large.execute(found.remedy.encode())
    recall(large, "w", "how often do we retry?")
    flush(large)
    used = checks(large)[CHECK]
    assert used.status == "ok" and "used 0 times" not in used.detail


def test_an_index_that_nobody_needed_so_far_is_not_named(large: Connection) -> None:
    assert checks(large)[CHECK].status == "ok"  # nobody asked
    log(large, "w", "now()", arms='{"vector": {"state": "completed"}}')
    large.execute("delete from remem.tally where workspace = 'w' and rows_delta > 1")
    assert checks(large)[CHECK].status == "ok"  # a small workspace is compared exactly


def test_too_little_maintenance_work_mem_is_named_with_what_is_enough(large: Connection) -> None:
    role = large.info.user
    large.execute("set maintenance_work_mem = '1MB'")
    try:
        found = heals(large, "maintenance_work_mem")
    finally:
        large.execute(f'alter role "{role}" reset maintenance_work_mem'.encode())
    assert found.status == "warning"
    assert "1201 vectors) takes about 2048 kB" in found.detail
    assert found.remedy is not None and found.remedy.endswith(" set maintenance_work_mem = '4MB';")


def test_what_is_said_to_be_enough_is_enough(large: Connection) -> None:
    """pgvector says when the graph no longer fits: not with the memory that doctor names."""
    said: list[str] = []
    large.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    large.execute("set max_parallel_maintenance_workers = 0")
    enough = int(value(large, "select remem._hnsw_build_bytes(384, 1201) / 1024"))
    for memory, fits in ((enough - 1024, False), (enough, True)):
        said.clear()
        large.execute(f"set maintenance_work_mem = '{memory}kB'".encode())
        large.execute("reindex index remem.embedding_1_hnsw_idx")
        assert any("no longer fits" in line for line in said) is not fits
