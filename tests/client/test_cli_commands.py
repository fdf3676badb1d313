"""The commands against a database: what they print, as tables and as JSON, and their exit codes."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.client.cli_runner import Cli, open_directory
from tests.conftest import Psql
from tests.server import Server
from tests.support.databases import fresh


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    return Cli(db_dsn)


@pytest.fixture(scope="module")
def three_memories(server: Server) -> Iterator[str]:
    """A database with what the command itself has stored; each test gets a copy of it."""
    with fresh(server) as name:
        cli = Cli(server.owner_dsn(name))
        for text, options in (
            (
                "We retry a failed charge three times, then page.",
                "--ref retries --kind decision --tag payments",
            ),
            ("Mei wants mornings free of meetings.", "--kind preference --subject Mei"),
            (
                "The scanner freezes on old phones.",
                "--session s1 --turn 1 --speaker Tomás --kind episodic",
            ),
        ):
            cli.json("remember", text, *options.split())
        yield name


@pytest.fixture
def filled(server: Server, three_memories: str) -> Iterator[Cli]:
    with fresh(server, template=three_memories) as name:
        yield Cli(server.owner_dsn(name))


@pytest.fixture
def directory() -> Iterator[Path]:
    with open_directory() as made:
        yield made


def test_remember_prints_the_reference_in_words_and_as_json(cli: Cli) -> None:
    done = cli("remember", "Amounts are whole cents.", "--ref", "cents")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("created ")
    assert "(ref cents)" in done.stdout
    again = cli.json("remember", "Amounts are whole cents.", "--ref", "cents")
    assert again["outcome"] == "unchanged"
    assert again["memory_id"] in done.stdout


def test_remember_reads_standard_input_for_a_dash(cli: Cli) -> None:
    cli("remember", "-", "--ref", "piped", stdin="From a pipe.\n")
    assert cli.json("get", "piped")["body"].strip() == "From a pipe."


def test_remember_keeps_every_field_it_takes(cli: Cli) -> None:
    given = shlex.split(
        "--title T --summary S --tag a --tag b --alias x --scope project --scope-ref p1"
        " --topic-key k --subject su --attribute at --source-class user_stated"
        " --source-ref file.md --importance 0.75 --confidence 0.5 --pinned --unresolved"
        " --occurred-at 2025-03-04T05:06:07+00:00"
    )
    cli.json("remember", "Body.", "--ref", "all", "--metadata", '{"n": 1}', *given)
    memory = cli.json("get", "all")
    wanted = {
        "title": "T",
        "summary": "S",
        "tags": ["a", "b"],
        "aliases": ["x"],
        "scope": "project",
        "scope_ref": "p1",
        "topic_key": "k",
        "subject": "su",
        "attribute": "at",
        "source_class": "user_stated",
        "source_ref": "file.md",
        "importance": 0.75,
        "confidence": 0.5,
        "pinned": True,
        "unresolved": True,
        "metadata": {"n": 1},
    }
    assert {key: memory[key] for key in wanted} == wanted
    assert memory["occurred_at"].startswith("2025-03-04T05:06:07")


def test_recall_shows_score_relevance_and_why(filled: Cli) -> None:
    done = filled("recall", "how often do we retry a charge?")
    assert done.returncode == 0, done.stderr
    head, _rule, first, *rest = done.stdout.splitlines()
    assert head.split() == ["#", "score", "relev.", "memory"]
    assert first.split()[0] == "1"
    assert "retry a failed charge" in first
    assert "ref retries" in done.stdout
    assert "lexical" in " ".join(rest)


def test_recall_as_json_is_one_document_with_every_field(filled: Cli) -> None:
    document = filled.json("recall", "how often do we retry a charge?", "-k", "2")
    assert set(document) == {"workspace", "query", "degraded", "hits"}
    first = document["hits"][0]
    assert first["ref"] == "retries"
    assert {"rank", "memory_id", "score", "relevance", "signals", "arms", "why"} <= set(first)
    assert 0 < first["relevance"] <= 1
    assert len(document["hits"]) <= 2


def test_recall_options_reach_the_server(filled: Cli) -> None:
    kinds = filled.json("recall", "mornings retry", "--kind", "preference")["hits"]
    assert {hit["kind"] for hit in kinds} == {"preference"}
    lexical = filled.json("recall", "retry", "--mode", "lexical")["hits"]
    assert {arm for hit in lexical for arm in hit["arms"]} == {"lexical"}
    said = filled.json("recall", "scanner", "--filter", '$.speaker == "Tomás"')["hits"]
    assert [hit["session_ref"] for hit in said] == ["s1"]
    refused = filled("recall", "retry", "--option", "no_such=1")
    assert refused.returncode == 1
    assert "RM002" in refused.stderr


def test_recall_explain_prints_the_trace(filled: Cli) -> None:
    trace = json.loads(filled("recall", "retry", "--explain").stdout)
    assert trace["hits"][0]["ref"] == "retries"


def test_an_empty_workspace_says_what_is_degraded_and_what_to_do(cli: Cli) -> None:
    done = cli("recall", "anything?", "-w", "nobody")
    assert done.returncode == 0
    assert "Nothing found." in done.stdout
    assert "unknown_workspace" in done.stderr
    assert "remem remember" in done.stderr
    assert cli.json("recall", "anything?", "-w", "nobody")["degraded"] == ["unknown_workspace"]


def test_a_question_without_a_searchable_word_is_answered_and_says_so(filled: Cli) -> None:
    assert filled.json("recall", "the")["degraded"] == ["zero_vector", "no_lexemes"]
    done = filled("recall", "the")
    assert done.returncode == 0
    assert "no_lexemes" in done.stderr


def test_get_takes_an_id_or_a_ref_and_refuses_what_is_not_there(filled: Cli) -> None:
    by_ref = filled.json("get", "retries")
    assert filled.json("get", by_ref["memory_id"]) == by_ref
    missing = filled("get", "no-such-ref")
    assert missing.returncode == 1
    assert "no memory" in missing.stderr


def test_list_pages_newest_first(filled: Cli) -> None:
    first = filled.json("list", "-n", "2")
    rest = filled.json("list", "-n", "2", "--after", first["after"])
    bodies = [memory["body"] for memory in first["memories"] + rest["memories"]]
    assert [body.split()[0] for body in bodies] == ["The", "Mei", "We"]
    assert rest["after"] is None
    assert "Tomás: The scanner" in filled("list").stdout


def test_count_counts_with_a_filter(filled: Cli) -> None:
    assert filled("count").stdout.strip() == "3"
    assert filled.json("count", "--filter", '$.kind == "decision"')["count"] == 1


def test_common_options_work_before_and_after_the_command(cli: Cli) -> None:
    cli.json("-w", "team-a", "remember", "One.")
    cli.json("remember", "-w", "team-b", "Two.")
    assert cli.json("count", "-w", "team-a")["count"] == 1
    assert json.loads(cli("--json", "-w", "team-b", "count").stdout) == {
        "workspace": "team-b",
        "count": 1,
    }


def test_the_workspace_comes_from_the_environment(db_dsn: str) -> None:
    named = Cli(db_dsn, REMEM_WORKSPACE="from-env")
    named.json("remember", "One.")
    assert named.json("count")["workspace"] == "from-env"
    assert named.json("count", "-w", "other")["count"] == 0


def test_version_names_role_versions_and_embedding(cli: Cli) -> None:
    document = cli.json("version")
    assert document["database"]["version"] == document["client"]["version"]
    assert document["role"] == "remem_owner"
    assert document["space"]["name"] == "hash"
    assert "remem_owner" in cli("version").stdout


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_a_database_without_the_schema_says_remem_init(
    bare_database: str, flag: tuple[str]
) -> None:
    done = Cli(bare_database)("recall", "anything?", *flag)
    assert done.returncode == 3
    assert "remem init" in (done.stdout if flag else done.stderr)
    with psycopg.connect(bare_database) as conn:
        assert conn.execute("select to_regnamespace('remem')").fetchone() == (None,)


def test_init_dry_run_changes_nothing_and_shows_everything(bare_database: str) -> None:
    done = Cli(bare_database)("init", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "0001_core" in done.stdout
    assert "schema public" in done.stdout
    assert "Nothing was changed" in done.stdout
    with psycopg.connect(bare_database) as conn:
        assert conn.execute("select to_regnamespace('remem')").fetchone() == (None,)


def test_init_installs_and_ends_with_a_select_that_works(bare_database: str) -> None:
    cli = Cli(bare_database)
    done = cli("init")
    assert done.returncode == 0, done.stderr
    paste = done.stdout.strip().splitlines()[-1]
    assert paste.startswith("select ")
    with psycopg.connect(bare_database) as conn:
        assert conn.execute(paste.encode()).fetchall() == []
    again = cli.json("init")
    assert again["report"]["applied"] == []
    assert again["report"]["previous_version"] == again["report"]["version"]


def test_init_strict_makes_the_tenant_setting_mandatory(bare_database: str) -> None:
    assert Cli(bare_database)("init", "--strict").returncode == 0
    with psycopg.connect(bare_database, autocommit=True) as conn:
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("select remem.count('default')")
        assert refused.value.sqlstate == "RM302"


def test_init_without_pgvector_says_who_runs_what(server: Server) -> None:
    name = server.new_database(install=False)
    try:
        with psycopg.connect(server.superuser_dsn(name), autocommit=True) as conn:
            conn.execute("drop extension vector")
        done = Cli(server.owner_dsn(name))("init")
        assert done.returncode == 1
        assert "create extension vector" in done.stderr
        assert "superuser" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        server.drop_database(name)


def test_migrate_print_is_a_script_that_installs(bare_database: str, psql: Psql) -> None:
    script = Cli(bare_database)("migrate", "--print")
    assert script.returncode == 0, script.stderr
    with psycopg.connect(bare_database) as conn:
        assert conn.execute("select to_regnamespace('remem')").fetchone() == (None,)
    psql(bare_database, "--quiet", stdin=script.stdout)
    assert Cli(bare_database).json("count")["count"] == 0


def test_uninstall_says_what_it_drops_and_wants_a_yes(filled: Cli) -> None:
    asked = filled("uninstall")
    assert asked.returncode == 1
    assert "3 memories" in asked.stderr
    assert "--yes" in asked.stderr
    assert filled.json("count")["count"] == 3
    assert filled.json("uninstall", "--yes")["dropped"]["memories"] == 3
    assert filled("count").returncode == 3


def test_serve_prints_a_dsn_that_answers_and_stops_on_sigterm(directory: Path) -> None:
    cli = Cli(None)
    command = cli.command("serve", "--json", "--data-dir", str(directory / "data"))
    with subprocess.Popen(
        command, env=cli.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        text = ""
        while line := process.stdout.readline():
            text += line
            if line.startswith("}"):
                break
        dsn = json.loads(text)["dsn"]
        assert Cli(dsn).json("count")["count"] == 0
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn, connect_timeout=5)


LOOKING = (
    ["recall", "anything"],
    ["recall", "anything", "--explain"],
    ["explain", "anything"],
    ["get", "r"],
    ["list"],
    ["count"],
    ["history", "r"],
    ["topics"],
    ["route", "anything"],
    ["workspaces"],
    ["spaces"],
    ["grants"],
    ["maintain", "--dry-run"],
    ["export", "-"],
    ["backup"],
    ["forget", "r"],
    ["drop-workspace", "--yes"],
    ["uninstall", "--yes"],
    ["worker", "--once"],
)


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_only_looks_makes_no_server(command: list[str], directory: Path) -> None:
    data = directory / "data"
    done = Cli(None)(*command, "--data-dir", str(data))
    assert done.returncode == 3
    assert done.stderr.endswith(
        f"there is no embedded Postgres in {data} yet.\nHint: install it with: remem init\n"
    )
    assert not data.exists()


def test_version_and_context_do_without_a_server(directory: Path) -> None:
    data = directory / "data"
    cli = Cli(None, REMEM_DATA_DIR=str(data))
    done = cli("version")
    assert done.returncode == 0
    assert f"no embedded Postgres in {data} yet: remem init" in done.stdout
    document = cli.json("version")
    assert (document["database"], document["space"]) == (None, None)
    assert document["client"]["version"]
    assert cli.json("embeddings", "status")["database"]["problem"] == "none yet: remem init"
    context = cli("context", "let's go on with the retries")
    assert (context.returncode, context.stdout) == (0, "")
    assert "plan failed: ServerUnavailable" in context.stderr
    assert cli.json("plan", "let's go on")["diagnostics"]
    assert not data.exists()


def test_without_a_dsn_the_embedded_server_is_set_up_at_first_use(directory: Path) -> None:
    data_dir = ("--data-dir", str(directory / "data"))
    cli = Cli(None)
    stored = cli.json("remember", "Kept between runs.", "--ref", "r", *data_dir)
    assert stored["outcome"] == "created"
    assert cli.json("get", "r", *data_dir)["body"] == "Kept between runs."
