"""remem install-plpython and uninstall-plpython: what a superuser runs, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import Psql
from tests.server import Server
from tests.support.places import new_directory

Connection = psycopg.Connection[Any]
Remem = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def plain(server: Server) -> Iterator[str]:
    """The name of a database with remem and no model."""
    name = server.new_database()
    yield name
    server.drop_database(name)


def has_schema(server: Server, name: str) -> bool:
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as conn:
        row = conn.execute("select to_regnamespace('remem_plpython') is not null").fetchone()
    return row == (True,)


def test_the_printed_script_is_what_a_superuser_may_run_himself(
    server: Server, plain: str, remem: Remem, psql: Psql
) -> None:
    script = remem(server.owner_dsn(plain), "install-plpython", "--print").stdout
    assert not has_schema(server, plain)
    psql(server.superuser_dsn(plain), "--quiet", stdin=script)
    psql(server.superuser_dsn(plain), "--quiet", stdin=script)  # again changes nothing
    found = psql(server.owner_dsn(plain), "-At", "-c", "select cardinality(remem.embed('x'))")
    assert found.stdout == "384\n"


def test_the_report_names_model_python_and_account(
    server: Server, plain: str, remem: Remem
) -> None:
    done = remem(server.superuser_dsn(plain), "install-plpython", "--embed-on-write", "--json")
    report = json.loads(done.stdout)
    assert report["model"] == "minilm"
    assert report["dimensions"] == 384
    assert report["account"] == "postgres"
    with psycopg.connect(server.owner_dsn(plain)) as conn:
        said = conn.execute(
            "select remem._fingerprint(remem._server_model()), "
            "(select value from remem.setting where name = 'embed_on_write')"
        ).fetchone()
    assert said == (report["fingerprint"], "on")


def test_only_a_superuser_may(server: Server, plain: str, remem: Remem) -> None:
    for command in ("install-plpython", "uninstall-plpython"):
        remem(server.superuser_dsn(plain), "install-plpython")
        done = remem(server.owner_dsn(plain), command, "--json", check=False)
        assert done.returncode == 1
        assert json.loads(done.stdout)["error"]["code"] == "RM301"
        assert has_schema(server, plain)


def test_uninstalling_leaves_everything_else(server: Server, plain: str, remem: Remem) -> None:
    remem(server.superuser_dsn(plain), "install-plpython", "--default-space", "--embed-on-write")
    with psycopg.connect(server.owner_dsn(plain), autocommit=True) as conn:
        conn.execute("select remem.remember('acme', 'We retry three times.')")
        done = remem(server.superuser_dsn(plain), "uninstall-plpython")
        assert done.stdout == "Dropped the model.\n"
        conn.execute("select remem.remember('acme', 'Then we page.')")
        rows = conn.execute("select degraded from remem.recall('acme', 'retry')").fetchall()
        assert rows[0] == (["no_embedding", "stale_rows"],)
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("select remem.embed('x')")
        assert refused.value.sqlstate == "RM501"
    again = remem(server.superuser_dsn(plain), "uninstall-plpython")
    assert again.stdout == "There was no model in it.\n"


def refusal(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 1, done.stderr
    error: dict[str, Any] = json.loads(done.stdout)["error"]
    return error


@pytest.mark.covers("RE24")
def test_files_that_the_servers_account_cannot_read_are_named(
    server: Server, plain: str, remem: Remem
) -> None:
    private = new_directory("remem-test-private-")
    try:
        (private / "site-packages").mkdir()
        private.chmod(0o700)
        done = remem(
            server.superuser_dsn(plain),
            "install-plpython",
            "--json",
            "--site-packages",
            str(private / "site-packages"),
            check=False,
        )
        error = refusal(done)
        assert error["code"] == "RM501"
        assert f"{private} is closed to the server's account postgres" in error["message"]
        assert "python3" in error["hint"]
        assert not has_schema(server, plain)
    finally:
        shutil.rmtree(private)


def test_packages_of_another_python_are_refused_before_anything_stays(
    server: Server, plain: str, remem: Remem
) -> None:
    empty = new_directory("remem-test-empty-")
    try:
        done = remem(
            server.superuser_dsn(plain),
            "install-plpython",
            "--json",
            "--site-packages",
            str(empty),
            check=False,
        )
        # 0711: others may enter and not list it
        assert "is closed to the server's account" in refusal(done)["message"]
        empty.chmod(0o755)
        done = remem(
            server.superuser_dsn(plain),
            "install-plpython",
            "--json",
            "--site-packages",
            str(empty),
            check=False,
        )
        error = refusal(done)
        assert "cannot load the model" in error["message"]
        assert "remem_pg" in error["message"]
        assert not has_schema(server, plain)
    finally:
        shutil.rmtree(empty)


def test_a_place_that_anybody_may_write_to_is_refused(
    server: Server, plain: str, remem: Remem
) -> None:
    done = remem(
        server.superuser_dsn(plain),
        "install-plpython",
        "--json",
        "--site-packages",
        "/tmp",
        check=False,
    )
    assert refusal(done)["code"] == "RM001"


@pytest.mark.covers("RE3")
def test_a_model_whose_files_changed_is_no_longer_used(
    server: Server, plain: str, remem: Remem, programs: Path
) -> None:
    from remem_pg.embedding.onnx import packaged_minilm

    packaged = packaged_minilm()
    assert packaged is not None
    copy = new_directory("remem-test-model-")
    try:
        copy.chmod(0o755)
        for name, source in packaged.arguments.items():
            if name in ("path", "tokenizer"):
                shutil.copyfile(source, copy / Path(source).name)
        remem(
            server.superuser_dsn(plain),
            "install-plpython",
            "--embedding",
            str(copy),
            "--default-space",
        )
        tokenizer = copy / "tokenizer.json"
        tokenizer.write_text(tokenizer.read_text() + "\n")
        with psycopg.connect(server.owner_dsn(plain), autocommit=True) as conn:
            with pytest.raises(psycopg.Error) as refused:
                conn.execute("select remem.embed('x')")
            assert refused.value.sqlstate == "RM501"
            assert "have changed" in str(refused.value.diag.message_detail)
    finally:
        shutil.rmtree(copy)
