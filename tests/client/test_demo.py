"""The demo: the expected memory is first for every question, with either embedding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from remem_pg import Remem
from remem_pg.demo import data as demo_data
from remem_pg.demo import run as demo
from tests.client.cli_runner import Cli, open_directory

EMBEDDINGS = ["hash", "minilm"]


@pytest.fixture(scope="module", params=EMBEDDINGS)
def result(request: pytest.FixtureRequest) -> demo.DemoResult:
    return demo.run(request.param)


def test_every_question_finds_its_memory_first(result: demo.DemoResult) -> None:
    wrong = {
        answer.question.text: [(hit.ref, round(hit.score, 3)) for hit in answer.hits]
        for answer in result.answers
        if not answer.ok
    }
    assert wrong == {}
    assert len(result.answers) == len(demo_data.QUESTIONS)
    assert result.ok


def test_nothing_is_degraded_with_a_model(result: demo.DemoResult) -> None:
    assert {code for answer in result.answers for code in answer.degraded} == set()


def test_each_first_answer_carries_scores_and_reasons(result: demo.DemoResult) -> None:
    for answer in result.answers:
        first = answer.hits[0]
        assert first.score > 0
        assert 0 < first.relevance <= 1
        assert first.why


def test_the_memories_hold_versions_and_a_duplicate(result: demo.DemoResult) -> None:
    total = len(demo_data.FIRST) + len(demo_data.LATER)
    assert sum(result.outcomes.values()) == total
    assert result.outcomes["new_version"] == 3
    assert result.outcomes.get("refused", 0) == 0


def test_it_says_which_embedding_was_used(result: demo.DemoResult) -> None:
    assert result.embedding in result.embedding_line


def test_questions_are_not_copied_from_the_memories() -> None:
    bodies = [item["body"].lower() for item in demo_data.FIRST + demo_data.LATER]
    for question in demo_data.QUESTIONS:
        words = question.text.lower().split()
        runs = [" ".join(words[i : i + 4]) for i in range(len(words) - 3)]
        assert not [run for run in runs for body in bodies if run in body]


def test_a_wrong_first_answer_is_noticed(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="demo", embedding="hash") as memory:
        # Only the first versions: the answers that need a correction have to fail.
        memory.remember_many(demo_data.FIRST)
        answers = demo.ask(memory)
    failed = {answer.expected for answer in answers if not answer.ok}
    assert {"retry-policy", "prod-region"} <= failed


@pytest.fixture
def temporary() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


def test_the_command_ignores_the_users_database_and_leaves_nothing(
    db_dsn: str, temporary: Path
) -> None:
    cli = Cli(db_dsn, TMPDIR=str(temporary), REMEM_DATA_DIR=str(temporary / "own"))
    done = cli("demo", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"]
    assert document["embedding"] == "hash"
    assert [q["ok"] for q in document["questions"]] == [True] * len(demo_data.QUESTIONS)
    assert {"start", "load", "recall"} == set(document["seconds"])
    assert list(temporary.glob("remem-demo-*")) == []
    assert not (temporary / "own").exists()
    assert Cli(db_dsn).json("count", "-w", demo_data.WORKSPACE)["count"] == 0


def test_the_kept_demo_can_be_asked_again(temporary: Path) -> None:
    cli = Cli("postgresql://nobody@127.0.0.1:1/none", TMPDIR=str(temporary))
    done = cli("demo", "--keep")
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if "remem " not in line) <= 80
    assert "Embedding: hash" in done.stdout
    (kept,) = temporary.glob("remem-demo-*")
    own = Cli(None)
    found = own.json(
        "recall",
        "where is production hosted?",
        "-w",
        demo_data.WORKSPACE,
        "--data-dir",
        str(kept / "data"),
    )
    assert "Stockholm" in found["hits"][0]["body"]
