"""``remem explain`` and ``remem recall --rerank``: the funnel in words, as JSON, and unabridged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remem_pg.cli.explaining import funnel
from tests.client.cli_runner import Cli
from tests.server import Server
from tests.support.databases import fresh


@pytest.fixture(scope="module")
def two_memories(server: Server) -> Iterator[str]:
    """A database with what the command itself has stored; each test gets a copy of it."""
    with fresh(server) as name:
        cli = Cli(server.owner_dsn(name))
        cli.json("remember", "We retry a failed charge three times, then page.", "--ref", "retries")
        cli.json("remember", "Mei wants mornings free of meetings.", "--ref", "mornings")
        yield name


@pytest.fixture
def filled(server: Server, two_memories: str) -> Iterator[Cli]:
    with fresh(server, template=two_memories) as name:
        yield Cli(server.owner_dsn(name), COLUMNS="160")


@pytest.mark.covers("ME31")
def test_explain_shows_the_funnel_a_person_can_read(filled: Cli) -> None:
    done = filled("explain", "how often do we retry?")
    assert done.returncode == 0, done.stderr
    page = done.stdout
    for line in ("query", "candidates", "rerank gate", "returned", "finish reason", "milliseconds"):
        assert any(row.strip().startswith(line) for row in page.splitlines()), line
    arms = [row.split() for row in page.splitlines() if "completed" in row.split()]
    assert {row[0] for row in arms} >= {"vector", "lexical"}
    assert "retry a failed charge" in page
    assert "ref retries" in page
    assert "score by signal" in page


@pytest.mark.covers("ME31")
def test_explain_as_json_is_the_whole_trace(filled: Cli) -> None:
    document = filled.json("explain", "how often do we retry?", "-k", "1")
    assert [hit["ref"] for hit in document["hits"]] == ["retries"]
    assert {
        "arms",
        "candidates",
        "dropped",
        "finish_reason",
        "policy",
        "ranking_skipped",
        "rerank_gate",
        "tasks",
        "timings",
        "degraded",
    } <= document.keys()
    assert "rerank" not in document


def test_verbose_shows_every_key_and_whole_texts(filled: Cli) -> None:
    body = "A long memory about zebras, " + "whose end matters too, " * 12 + "the end."
    filled("remember", body)
    short, whole = filled("explain", "zebras").stdout, filled("explain", "zebras", "-v").stdout
    assert "the end." not in short
    assert "the end." in " ".join(whole.split())
    document = filled.json("explain", "zebras")
    rows = [row.split()[0] for row in whole.splitlines() if row.strip()]
    assert set(document) - {"hits"} <= set(rows)


def test_explain_passes_options_on_and_refuses_wrong_ones(filled: Cli) -> None:
    document = filled.json("explain", "retry", "--option", "mode=lexical")
    assert set(document["arms"]) == {"lexical"}
    assert filled("explain", "retry", "--option", "frobnicate=1").returncode == 1
    assert filled("explain", "retry", "--rerank", "lat").returncode == 1


def test_explain_of_nothing_says_so(filled: Cli) -> None:
    done = filled("explain", "retry", "-w", "nobody")
    assert done.returncode == 0
    assert "Nothing found." in done.stdout
    assert "unknown_workspace" in done.stderr


@pytest.mark.covers("MN10", "MN11")
def test_a_second_look_is_asked_for_by_name_and_explained(filled: Cli) -> None:
    # the hash embedding has no token vectors: the order stays and the reason is printed
    done = filled("recall", "retry", "--rerank", "late", "--option", "rerank=always")
    assert done.returncode == 0, done.stderr
    assert "retry a failed charge" in done.stdout
    assert "rerank_failed" in done.stderr
    page = filled("explain", "retry", "--rerank", "late", "--option", "rerank=always").stdout
    (line,) = [row for row in page.splitlines() if row.startswith("rerank ") and "late" in row]
    assert "failed" in line
    assert "EmbeddingUnavailable" in line


def test_a_trace_of_an_older_server_is_read_as_far_as_it_goes() -> None:
    old = {"arms": {"vector": {"state": "completed"}}, "candidates": 3, "elapsed_ms": 1.5}
    assert list(funnel("q", old)) == [
        ("query", "q"),
        ("candidates", "3"),
        ("returned", "0"),
        ("milliseconds", "1.5"),
    ]
    assert list(funnel("q", {})) == [("query", "q"), ("returned", "0")]


def test_a_memory_cannot_drive_the_terminal_that_explains_it(filled: Cli) -> None:
    filled("remember", "zebra \x1b[31mred\x1b[0m")
    assert "\x1b" not in filled("explain", "zebra", "-v").stdout
