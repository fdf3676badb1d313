"""``remem reembed``, ``remem worker`` and ``remem spaces`` as a person or a script runs them."""

from __future__ import annotations

import pytest

from tests.client.cli_runner import Cli
from tests.support.jobs import claim, current, drain, finish, register, start, state
from tests.support.memories import Connection, remember_many, value


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    return Cli(db_dsn, REMEM_WORKSPACE="w")


@pytest.fixture
def third(db: Connection) -> Connection:
    """Eight memories in a space that no command has a model for."""
    remember_many(db, "w", [{"body": f"memory {n}"} for n in range(8)])
    register(db)
    start(db)
    drain(db)
    assert finish(db)
    assert value(db, "select remem.drop_space('hash', 'w')") == "emptied"
    return db


@pytest.mark.covers("RE22")
def test_reembed_moves_the_workspace_and_says_what_it_did(third: Connection, cli: Cli) -> None:
    done = cli("reembed", "--embedding", "hash", "--batch", "3")
    assert done.returncode == 0, done.stderr
    assert "completed: 8 embedded" in done.stdout
    assert "hash: 8 of 8 covered, active" in done.stdout
    assert "switched to hash" in done.stdout
    assert (current(third), state(third, "new")) == ("hash", None)
    again = cli.json("reembed")
    assert (again["status"], again["coverage"]["cutover"]) == ("no-op", "completed")


def test_reembed_as_a_document_and_in_parts(third: Connection, cli: Cli) -> None:
    first = cli.json("reembed", "--embedding", "hash", "--limit", "5")
    assert (first["claimed"], first["activated"], first["coverage"]["pending"]) == (5, False, 3)
    rest = cli.json("reembed", "--embedding", "hash")
    assert (rest["reembedded"], rest["activated"]) == (3, True)
    assert set(rest["coverage"]) >= {"total", "embedded", "pending", "set_aside", "cutover"}


def test_a_run_that_leaves_something_ends_with_four(third: Connection, cli: Cli) -> None:
    third.execute("select remem.start_reembed('w', 'hash')")
    (job,) = claim(third, 1)
    third.execute("select remem.fail_embeddings('w', %s, 'TimeoutError')", [job.claim_id])
    done = cli("reembed", "--embedding", "hash")
    assert done.returncode == 4
    assert "not switched yet" in done.stderr
    assert current(third) == "new"


@pytest.mark.covers("RE24")
def test_a_model_that_is_not_there_is_an_error(third: Connection, cli: Cli) -> None:
    done = cli("reembed", "--embedding", "/nowhere/at/all")
    assert done.returncode == 1
    assert current(third) == "new"


def test_the_fallback_does_not_replace_a_model(third: Connection, db_dsn: str) -> None:
    done = Cli(db_dsn, REMEM_WORKSPACE="w", REMEM_EMBEDDING="none")("reembed")
    assert done.returncode == 1
    assert current(third) == "new"


def test_a_worker_once_empties_the_backlog(third: Connection, cli: Cli) -> None:
    third.execute("select remem.start_reembed('w', 'hash')")
    report = cli.json("worker", "--once", "--embedding", "hash", "--all")
    assert (report["reembedded"], report["activated"]) == (8, ["w"])
    assert current(third) == "hash"


def test_spaces_are_listed(third: Connection, cli: Cli) -> None:
    done = cli("spaces")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        *("space", "dims", "state", "here", "vectors", "coverage", "index", "size")
    ]
    assert lines[1].split()[:4] == ["hash", "384", "active", "-"]
    assert lines[2].split()[:6] == ["new", "3", "active", "active", "8", "100.0%"]
    document = cli.json("spaces")
    assert [(s["name"], s["vectors"], s["coverage"]) for s in document] == [
        ("hash", 0, 0.0),
        ("new", 8, 1.0),
    ]
    assert value(third, "select count(*) from remem.list_spaces()") == 2
