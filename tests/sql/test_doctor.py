"""remem.doctor: each fault is named with a remedy, and the pasted remedy ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.server import Server
from tests.support.jobs import claim, complete, drain, fail, finish, register, start
from tests.support.memories import Connection, refused, remember, remember_many, value
from tests.support.operations import checks, flush, heals, log, many_workspaces, paste, vectors

NAMES = {
    *("postgres", "pgvector", "extensions", "remem", "clock", "role", "tenant_mode", "grants"),
    *("privileges", "space", "embeddings:hash", "catalog_embeddings", "server_model"),
    *("jobs", "stuck_jobs"),
    *("set_aside", "text_index", "vector_index:hash", "indexes", "maintenance_work_mem"),
    *("hnsw_memory", "statistics", "vacuum", "size", "recall_latency", "recall_failures", "cache"),
    *("recall_log", "upkeep"),
}


def test_a_fresh_installation_has_nothing_wrong(db: Connection) -> None:
    found = checks(db)
    assert set(found) == NAMES
    assert {row for row in found.values() if row.status != "ok"} == set()
    remember(db, "w", "We retry three times.")
    db.execute("select remem.recall_cached('w', 'retry')")
    assert {row for row in checks(db).values() if row.status != "ok"} == set()


@pytest.mark.covers("RE30")
def test_it_names_versions_spaces_and_modes(db: Connection) -> None:
    found = checks(db)
    assert str(value(db, "show server_version")) in found["postgres"].detail
    assert str(value(db, "select remem.version() ->> 'version'")) in found["remem"].detail
    assert "hash (remem-local-hash), 384 dimensions" in found["space"].detail
    assert found["tenant_mode"].detail.startswith("shared")
    db.execute("select remem.configure('tenant_mode', 'strict')")
    assert checks(db)["tenant_mode"].detail.startswith("strict")


# -- who asks ------------------------------------------------------------------------------------


def test_it_names_the_role_and_what_it_bypasses(
    db: Connection,
    su: Connection,
    make_role: Callable[..., str],
    connect: Callable[..., Connection],
) -> None:
    assert "is the owner of the schema" in checks(db)["role"].detail
    assert "is a superuser" in checks(su)["role"].detail
    member, admin = make_role("member"), make_role("admin", "login bypassrls")
    su.execute(f'grant {db.info.user} to "{member}"'.encode())
    assert f"a member of its owner {db.info.user}" in checks(connect(member))["role"].detail
    db.execute("select remem.grant_access(%s, null, 'admin')", [admin])
    said = checks(connect(admin))["role"].detail
    assert said.startswith(f"{admin} is one that bypasses row security")


def test_an_administrator_who_owns_nothing_sees_the_whole_database(
    db: Connection, make_role: Callable[..., str], connect: Callable[..., Connection]
) -> None:
    admin = make_role("admin")
    db.execute("select remem.grant_access(%s, null, 'admin')", [admin])
    found = checks(connect(admin))
    assert set(found) == NAMES
    assert found["role"].detail == f"{admin}: admin everywhere; it reads no table itself"


def test_a_reader_sees_its_workspace_and_nothing_of_others(
    db: Connection, make_role: Callable[..., str], connect: Callable[..., Connection]
) -> None:
    remember(db, "w", "We retry three times.")
    remember_many(db, "secret", [{"body": f"memory {n}"} for n in range(30)])
    db.execute("update remem.workspace set analyser = 'old' where workspace = 'secret'")
    register(db)
    start(db, "secret")
    (job,) = claim(db, 1, workspace="secret")
    for _ in range(5):
        db.execute("select remem.fail_embeddings('secret', %s, 'E')", [job.claim_id])
        db.execute("update remem.embedding_claim set due_at = now() where state = 'waiting'")
        claim(db, 1, workspace="secret")
    role = make_role("reader")
    db.execute("select remem.grant_access(%s, 'w', 'read')", [role])
    reader = connect(role)
    found = checks(reader, "w")
    assert {row.status for row in found.values()} == {"ok"}
    assert "secret" not in str(found)
    assert not set(found) & {"size", "grants", "hnsw_memory", "recall_latency", "cache"}
    assert found["embeddings:hash"].detail == "1 memories, 1 vectors in 1 workspaces"
    for workspace in (None, "secret"):
        with refused("RM301"):
            checks(reader, workspace)
    # An administrator of one workspace is none of the database.
    db.execute("select remem.grant_access(%s, 'w', 'admin')", [role])
    with refused("RM301"):
        checks(reader)


def test_the_tenant_setting_keeps_the_whole_database_out_of_sight(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    db.execute("select set_config('remem.workspace', 'w', false)")
    with refused("RM301"):
        checks(db)
    assert "space" in checks(db, "w")


def test_a_grant_that_counts_no_more_is_named(db: Connection, server: Server) -> None:
    role = server.new_role("gone")
    db.execute("select remem.grant_access(%s, 'w''s', 'read')", [role])
    server.drop_role(role)
    assert "of which 1 count no more" in heals(db, "grants").detail


def test_a_table_that_somebody_opened_is_an_error(db: Connection, db_dsn: str) -> None:
    from remem_pg.install import migrate

    db.execute("grant select on remem.memory to public")
    found = checks(db)["privileges"]
    assert (found.status, found.remedy) == ("error", "remem migrate")
    assert "memory is open to everybody" in found.detail
    migrate(db_dsn)
    assert checks(db)["privileges"].status == "ok"


# -- it only reports -----------------------------------------------------------------------------


@pytest.mark.covers("RE21")
def test_it_changes_nothing(db: Connection, moving: Connection) -> None:
    claim(moving, 4)
    moving.execute("update remem.embedding_claim set due_at = now() - interval '1 hour'")
    before = value(db, "select pg_current_xact_id_if_assigned()")
    with db.transaction():
        db.execute("set transaction read only")
        found = checks(db)
        assert value(db, "select pg_current_xact_id_if_assigned()") is before is None
    # There would have been something to do, and it is still there.
    assert found["stuck_jobs"].status == "warning"
    assert found["embeddings:new"].status == "warning"
    assert checks(db)["stuck_jobs"].status == "warning"
    assert value(db, "select count(*) from remem.embedding_claim where state = 'claimed'") == 4


def test_a_check_that_fails_does_not_hide_the_others(db: Connection, su: Connection) -> None:
    su.execute("alter table remem.maintenance_run rename to elsewhere")
    rows = dict(db.execute("select check_name, detail from remem.doctor()").fetchall())
    assert rows["upkeep"].startswith("this check failed: ")
    assert NAMES - {"recall_log"} <= set(rows)


# -- embeddings and jobs ---------------------------------------------------------------------------


def test_the_backlog_is_a_warning_until_it_is_gone(moving: Connection) -> None:
    found = checks(moving)["embeddings:new"]
    assert found.status == "warning"
    assert "10 of 10 memories wait for their vector (1 workspaces, most in w)" in found.detail
    assert found.remedy == "remem worker --all --once"
    assert checks(moving, "w")["embeddings:new"].remedy == "remem reembed --workspace w"
    drain(moving)
    assert finish(moving)
    assert checks(moving)["embeddings:new"].status == "ok"


def test_a_workspace_is_quoted_as_a_shell_wants_it(db: Connection) -> None:
    name = "it's; rm -rf /"
    remember(db, name, "We retry three times.")
    register(db)
    start(db, name)
    said = checks(db, name)["embeddings:new"].remedy
    assert said == "remem reembed --workspace 'it'\\''s; rm -rf /'"


def test_the_built_in_space_is_no_warning_where_nobody_uses_it(moving: Connection) -> None:
    drain(moving)
    finish(moving)
    moving.execute("select remem.activate_space('new')")
    left = checks(moving)["embeddings:hash"]
    assert (left.status, left.remedy) == ("ok", None)


def test_a_space_that_nobody_uses_any_more_is_named(moving: Connection) -> None:
    drain(moving)
    finish(moving)
    moving.execute("select remem.activate_space('new')")
    remember(moving, "w", "to move back", embedding=[1.0, 0.0, 0.0])
    start(moving, space="hash")
    jobs = claim(moving, 20)
    complete(moving, jobs, [1.0] * 384)
    finish(moving)
    moving.execute("select remem.activate_space('hash')")
    found = checks(moving)["embeddings:new"]
    assert found.status == "warning" and "nobody uses this space any more" in found.detail
    paste(moving, found.remedy)
    assert "embeddings:new" not in checks(moving)


@pytest.mark.covers("RE20")
def test_batches_that_fail_again_and_again_are_a_warning(moving: Connection) -> None:
    for turn in range(3):
        assert checks(moving)["jobs"].status == "ok", turn
        (job, *_) = claim(moving, 2)
        fail(moving, job, "TimeoutError")
    found = checks(moving)["jobs"]
    assert found.status == "warning"
    assert found.detail == "the last 3 runs in w failed, at last with TimeoutError"
    paste(moving, found.remedy)
    complete(moving, claim(moving, 2))
    assert checks(moving)["jobs"].status == "ok"
    assert "embedding-reembed in w" in checks(moving)["jobs"].detail


@pytest.mark.covers("RE20")
def test_texts_that_were_set_aside_are_a_warning(moving: Connection) -> None:
    for _ in range(5):
        jobs = claim(moving, 10)
        assert fail(moving, jobs[0], "ModelBroke") == 10
        moving.execute("update remem.embedding_claim set due_at = now() where state = 'waiting'")
    found = checks(moving)["set_aside"]
    assert found.detail.startswith("10 texts were set aside after too many failures")
    assert "most in w: ModelBroke" in found.detail
    assert heals(moving, "set_aside") == found


def test_what_a_dead_worker_left_is_a_warning(moving: Connection) -> None:
    claim(moving, 3)
    assert checks(moving)["stuck_jobs"].status == "ok"
    moving.execute("update remem.embedding_claim set due_at = now() - interval '1 hour'")
    moving.execute("update remem.job_run set lease_until = now() - interval '1 hour'")
    found = checks(moving)["stuck_jobs"]
    assert found.status == "warning" and found.detail.startswith("4 claims and runs were left")
    assert found.remedy == "remem maintain"
    assert checks(moving, "w")["stuck_jobs"].remedy == "remem reembed --workspace w"
    moving.execute("select remem.maintain()")
    assert checks(moving)["stuck_jobs"].status == "ok"


def test_a_topic_without_its_vector_is_named(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    db.execute("select remem.put_topic('w', 'Retries')")
    assert checks(db)["catalog_embeddings"].status == "ok"
    db.execute("delete from remem.topic_embedding")
    for scope in (None, "w"):
        found = checks(db, scope)["catalog_embeddings"]
        assert (found.status, found.detail[:10]) == ("warning", "1 topics a")


def test_the_model_inside_the_database_is_told(db: Connection, su: Connection) -> None:
    assert checks(db)["server_model"].detail.startswith("no model in the database")
    owner = db.info.user
    for query in (
        "create schema remem_plpython",
        "create function remem_plpython.describe() returns jsonb language sql immutable"
        """ as $$select '{"name": "tiny", "backend": "b", "asset": "a",
        "dimensions": 3}'::jsonb$$""",
        "create function remem_plpython.embed(texts text[]) returns real[] language sql"
        " as 'select array[1, 0, 0]::real[]'",
        f"grant usage on schema remem_plpython to {owner}",
    ):
        su.execute(query.encode())
    assert "its space is not known any more" in heals(db, "server_model").detail
    assert checks(db)["server_model"].detail == (
        "tiny, 3 dimensions: SQL embeds with it in the space tiny"
    )
    su.execute(f"alter schema remem_plpython owner to {owner}".encode())
    found = checks(db)["server_model"]
    assert (found.status, found.remedy) == ("warning", "remem install-plpython")


def test_a_workspace_of_other_text_rules_is_named(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    db.execute("update remem.workspace set analyser = 'english/0/pg9'")
    assert heals(db, "text_index").detail.startswith("1 of 1 workspaces")


# -- storage ---------------------------------------------------------------------------------------


def test_tables_without_statistics_and_with_dead_rows_are_named(db: Connection) -> None:
    vectors(db, "w", 2000)
    flush(db)
    found = checks(db)
    assert "remem.embedding_1: 2000 rows since the last vacuum" in found["vacuum"].detail
    heals(db, "vacuum")
    db.execute("delete from remem.embedding_1")
    flush(db)
    assert "remem.embedding_1: 2000 dead rows" in heals(db, "vacuum").detail


def test_a_filled_table_that_was_never_analysed_is_named(db: Connection) -> None:
    db.execute(
        "insert into remem.tally (workspace, space_no, rows_delta)"
        " select 'w', 9, 1 from generate_series(1, 1000)"
    )
    flush(db)
    assert "remem.tally: never analysed" in heals(db, "statistics").detail


@pytest.mark.parametrize("index", ["posting_pkey", "memory_changed_xid_idx", "memory_ref_idx"])
def test_an_index_that_somebody_dropped_is_an_error(db: Connection, index: str) -> None:
    table, key = index.split("_")[0], index.endswith("_pkey")
    db.execute(
        f"alter table remem.{table} drop constraint {index}".encode()
        if key
        else f"drop index remem.{index}".encode()
    )
    found = heals(db, "indexes")
    assert (found.status, found.detail) == ("error", f"{index} is missing")


def test_an_index_whose_build_failed_is_an_error(db: Connection, su: Connection) -> None:
    su.execute(
        "update pg_index set indisvalid = false"
        " where indexrelid = 'remem.memory_attrs_idx'::regclass"
    )
    assert heals(db, "indexes").detail == "memory_attrs_idx is invalid"


def test_vector_indexes_larger_than_the_servers_memory_are_named(db: Connection) -> None:
    found = checks(db)["hnsw_memory"]
    assert found.status == "ok" and "shared_buffers" in found.detail
    buffers = int(value(db, "select pg_size_bytes(current_setting('shared_buffers'))"))
    query = "select (remem._hnsw_memory(%s, %s)).*"
    assert db.execute(query, [buffers, buffers]).fetchone() == found._replace(
        detail=f"vector indexes in use take {pretty(db, buffers)}, "
        f"shared_buffers {pretty(db, buffers)}"
    )
    large = db.execute(query, [900 * 2**20, 128 * 2**20]).fetchone()
    assert large is not None and large[1] == "warning"
    assert large[3] == "alter system set shared_buffers = '2048MB';"


def pretty(db: Connection, size: int) -> str:
    return str(value(db, "select pg_size_pretty(%s::bigint)", [size]))


def test_slow_and_failing_recalls_are_named(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    for n in range(20):
        log(db, "w", f"now() - interval '{n + 1} minutes'", ms=2.0)
    assert "took 2.0 ms or less" in checks(db)["recall_latency"].detail
    for n in range(10):
        log(db, "w", f"now() - interval '{n} seconds'", ms=900.0)
    found = checks(db)
    assert found["recall_latency"].status == "warning"
    paste(db, found["recall_latency"].remedy)
    assert found["recall_failures"].status == "ok"
    log(db, "w", "now()", arms='{"vector": {"state": "failed"}}')
    failing = checks(db)["recall_failures"]
    assert failing.status == "warning" and "1 of 31 recalls" in failing.detail
    paste(db, failing.remedy)


def test_the_hit_rate_of_the_cache_is_told(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    for tier in ("cold", "hot", "hot", "warm"):
        log(db, "w", "clock_timestamp()", tier=tier)
    said = checks(db)["cache"].detail
    assert said.startswith("answers 75 in 100 recalls")
    assert "(2 the same question, 1 a similar one; a sample of 4)" in said


def test_a_log_that_nobody_prunes_is_named(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    log(db, "w", "now() - interval '31 days'")
    assert checks(db)["recall_log"].status == "ok"
    log(db, "w", "now() - interval '33 days'")
    found = checks(db)["recall_log"]
    assert (found.status, found.remedy) == ("warning", "remem maintain")
    db.execute("select remem.configure('recall_log_days', '40')")
    assert checks(db)["recall_log"].status == "ok"


def test_rows_of_the_future_say_that_a_clock_went_back(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    db.execute("update remem.workspace set created_at = now() + interval '1 hour'")
    assert checks(db)["clock"].status == "warning"


def test_it_is_quick_with_many_workspaces(db: Connection) -> None:
    many_workspaces(db, 300)
    found = checks(db)
    assert found["embeddings:hash"].detail == "300 memories, 300 vectors in 300 workspaces"
