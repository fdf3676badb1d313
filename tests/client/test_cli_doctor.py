"""``remem doctor`` and ``remem maintain`` as a person or a script runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.cli_runner import Cli, Done, open_directory
from tests.server import Server
from tests.support.memories import Connection, remember, value
from tests.support.operations import flush, log, vectors

CLIENT = {"client", "client_driver", "client_embedding", "client_models", "client_download"}


@pytest.fixture
def cli(db_dsn: str, tmp_path: Path) -> Cli:
    return Cli(db_dsn, REMEM_WORKSPACE="w", XDG_CACHE_HOME=str(tmp_path))


def document(done: Done) -> dict[str, Any]:
    found = json.loads(done.stdout)
    return found | {"checks": {row["check_name"]: row for row in found["checks"]}}


@pytest.mark.covers("RE30")
def test_a_sound_installation_ends_with_zero(db: Connection, cli: Cli, tmp_path: Path) -> None:
    remember(db, "w", "We retry three times.")
    done = cli("doctor")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout
    found = document(cli("doctor", "--json"))
    assert found["status"] == "ok"
    checks = found["checks"]
    assert set(checks) > CLIENT | {"server", "client_clock", "installation", "client_space"}
    assert "hash (remem-local-hash), 384 dimensions" in checks["client_embedding"]["detail"]
    assert f"cache {tmp_path}/remem/models: no weights" in checks["client_models"]["detail"]
    assert checks["client_download"]["detail"] == "nothing was downloaded"
    assert set(checks) > {"postgres", "embeddings:hash", "upkeep"}
    for row in checks.values():
        assert f"ok      {row['check_name']}" in done.stdout


def test_a_warning_ends_with_four_and_its_command_stands_on_a_line_of_its_own(
    db: Connection, cli: Cli
) -> None:
    remember(db, "w", "We retry three times.")
    log(db, "w", "now() - interval '50 days'")
    done = cli("doctor")
    assert done.returncode == 4
    assert "warning recall_log" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.endswith("run: remem maintain")]
    assert document(cli("doctor", "--json"))["status"] == "warning"


def test_an_error_ends_with_one(db: Connection, cli: Cli) -> None:
    db.execute("alter table remem.posting drop constraint posting_pkey")
    done = cli("doctor", "--json")
    assert done.returncode == 1
    row = document(done)["checks"]["indexes"]
    assert row["status"] == "error"
    db.execute(row["remedy"].encode())
    assert cli("doctor").returncode == 0


@pytest.mark.covers("RE21")
def test_it_changes_nothing_and_starts_nothing(db: Connection, cli: Cli) -> None:
    written = (
        "select tup_inserted + tup_updated + tup_deleted from pg_stat_database"
        " where datname = current_database()"
    )
    before = value(db, written)
    assert cli("doctor").returncode == 0
    flush(db)
    assert value(db, written) == before
    with open_directory() as directory:
        elsewhere = directory / "none"
        done = Cli(None)("doctor", "--data-dir", str(elsewhere), "--json")
        assert done.returncode == 3
        checks = document(done)["checks"]
        assert checks["server"]["remedy"] == "remem init"
        assert "does not exist yet" in checks["server"]["detail"]
        assert not elsewhere.exists()


@pytest.mark.parametrize("bad", ["nothing", "elsewhere"])
def test_without_a_database_the_client_is_looked_at(bare_database: str, bad: str) -> None:
    dsn = bare_database if bad == "nothing" else "postgresql://nobody@127.0.0.1:1/x"
    done = Cli(dsn)("doctor", "--json")
    assert done.returncode == 3
    found = document(done)
    assert (found["status"], found["reached"]) == ("error", False)
    assert set(found["checks"]) >= CLIENT
    if bad == "nothing":
        assert found["checks"]["installation"]["remedy"] == "remem init"
    else:
        assert "no answer from Postgres" in found["checks"]["server"]["detail"]
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_had_is_an_error_and_the_rest_is_still_told(
    db: Connection, cli: Cli
) -> None:
    done = cli("doctor", "--embedding", "/nowhere/at/all", "--json")
    assert done.returncode == 1
    checks = document(done)["checks"]
    assert checks["client_embedding"]["status"] == "error"
    assert "/nowhere/at/all" in checks["client_embedding"]["detail"]
    assert checks["upkeep"]["status"] == "ok"


@pytest.mark.covers("RE27", "RE30")
def test_a_workspace_of_another_model_is_named(db: Connection, cli: Cli) -> None:
    remember(db, "w", "We retry three times.")
    done = cli("doctor", "--embedding", "minilm", "--json")
    row = document(done)["checks"]["client_space"]
    assert done.returncode == 4
    assert row["remedy"] == "remem reembed --workspace w"
    moved = cli("reembed", "--embedding", "minilm")
    assert moved.returncode == 0, moved.stderr
    assert cli("doctor", "--embedding", "minilm").returncode == 0
    back = document(cli("doctor", "--json"))["checks"]["client_space"]
    assert back["remedy"] == "remem doctor --workspace w --embedding auto"
    # A workspace that is not there yet has no model that could differ.
    assert cli("doctor", "--workspace", "new", "--embedding", "minilm").returncode == 0


def test_a_database_of_another_version_is_named(db: Connection, cli: Cli) -> None:
    db.execute("update remem.setting set value = '0.0.1' where name = 'version'")
    db.execute("delete from remem.schema_migration where version = 7")
    row = document(cli("doctor", "--json"))["checks"]["installation"]
    assert (row["status"], row["remedy"]) == ("warning", "remem migrate")
    assert "pending: 0007_operations" in row["detail"]
    db.execute("insert into remem.schema_migration values (99, '0099_later', '')")
    row = document(cli("doctor", "--json"))["checks"]["installation"]
    assert row["remedy"] == "pip install --upgrade remem-pg"


def test_who_is_no_administrator_hears_of_the_workspace(
    db: Connection, server: Server, database: str, make_role: Callable[..., str]
) -> None:
    remember(db, "w", "We retry three times.")
    role = make_role("reader")
    cli = Cli(server.dsn(role, database), REMEM_WORKSPACE="w")
    stranger = cli("doctor", "--json")
    assert stranger.returncode == 1
    row = document(stranger)["checks"]["access"]
    db.execute(row["remedy"].encode())
    db.execute("select remem.configure('tenant_mode', 'strict')")
    done = cli("doctor", "--json")
    assert done.returncode == 0, done.stdout
    checks = document(done)["checks"]
    assert checks["role"]["detail"] == f"{role}: read in this workspace; it reads no table itself"
    assert "size" not in checks and "embeddings:hash" in checks
    other = cli("doctor", "--workspace", "other", "--json")
    assert other.returncode == 1
    assert document(other)["checks"]["access"]["status"] == "error"


# -- maintain --------------------------------------------------------------------------------------


@pytest.fixture
def neglected(db: Connection) -> Connection:
    remember(db, "w", "We retry three times.")
    log(db, "w", "now() - interval '50 days'")
    vectors(db, "w", 2000)
    flush(db)
    return db


def test_maintain_runs_what_no_function_can(neglected: Connection, cli: Cli) -> None:
    preview = cli("maintain", "--dry-run")
    assert preview.returncode == 0
    assert "due     vacuum      vacuum (analyze) remem.embedding_1;" in preview.stdout
    assert "Nothing was changed." in preview.stdout
    assert value(neglected, "select count(*) from remem.recall_log") == 1
    assert value(neglected, "select count(*) from remem.maintenance_run") == 0
    done = cli("maintain")
    assert done.returncode == 0, done.stdout
    assert "done    recall_log  1 rows of more than 30 days ago" in done.stdout
    assert "done    vacuum      vacuum (analyze) remem.embedding_1;" in done.stdout
    vacuumed = "select vacuum_count from pg_stat_all_tables where relname = 'embedding_1'"
    assert value(neglected, vacuumed) == 1
    assert cli("doctor").returncode == 0


def test_maintain_leaves_to_the_owner_what_only_the_owner_may(
    neglected: Connection, server: Server, database: str, make_role: Callable[..., str]
) -> None:
    role = make_role("admin")
    neglected.execute("select remem.grant_access(%s, null, 'admin')", [role])
    done = Cli(server.dsn(role, database))("maintain", "--json")
    assert done.returncode == 4
    tasks = {row["task"]: row for row in json.loads(done.stdout)["tasks"]}
    assert (tasks["recall_log"]["rows"], tasks["recall_log"]["state"]) == (1, "done")
    assert (tasks["vacuum"]["state"], tasks["vacuum"]["command"]) == (
        "due",
        "vacuum (analyze) remem.embedding_1;",
    )
    neglected.execute("select remem.revoke_access(%s)", [role])
    refused = Cli(server.dsn(role, database))("maintain", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "RM301"


def test_maintain_goes_on_in_short_transactions_until_nothing_is_left(
    db: Connection, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from remem_pg.operating import upkeep

    remember(db, "w", "We retry three times.")
    db.execute(
        "insert into remem.recall_log (workspace, at, tier, caller, k, returned, query_hash)"
        " select 'w', now() - interval '1 hour' - make_interval(days => d), 'cold', 'x', 8, 1, ''"
        " from generate_series(1, 600) d"
    )
    monkeypatch.setattr(upkeep, "SLICE", 0.02)
    rows = {row.task: row for row in upkeep.maintain(db, 120)}
    assert (rows["recall_log"].state, rows["recall_day"].rows) == ("done", 600)
    assert value(db, "select count(*) from remem.maintenance_run") > 1


def test_a_command_that_fails_is_told_and_the_others_run(
    neglected: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from remem_pg.operating import upkeep
    from remem_pg.operating.models import MaintainRow

    asked = [
        MaintainRow("vacuum", "due", 0, "x", "vacuum remem.nowhere;"),
        MaintainRow(
            "reindex", "due", 0, "x", "alter table remem.tally add primary key (workspace);"
        ),
        MaintainRow("analyze", "due", 0, "x", "analyze remem.tally;"),
    ]
    monkeypatch.setattr(upkeep, "_ask", lambda conn, seconds: asked)
    rows = upkeep.maintain(neglected, 30)
    assert [row.state for row in rows] == ["failed", "due", "done"]
    assert "nowhere" in rows[0].detail
