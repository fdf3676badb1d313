"""The conversation evaluation from file to report, on a small file and a real database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.dataset import load
from evals.locomo import item, refs_of, run, workspace_names
from evals.models import ClockedModel, open_model
from remem_pg import Hit, Remem

FIXTURE = Path(__file__).parent / "evals_conversations.json"
MODES = ("lexical", "vector", "fused")


class CountingModel:
    """Counts what it is asked to embed."""

    id = "counting"
    dimensions = 3

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked.append(list(texts))
        return [[1.0, 0.0, 0.0] for _ in texts]


def test_a_question_is_embedded_once_and_timed_once() -> None:
    inner = CountingModel()
    model = ClockedModel(inner)
    first = model.embed(["why?"])
    assert model.embed(["why?"]) is first
    model.embed(["one", "two"])
    assert inner.asked == [["why?"], ["one", "two"]]
    assert len(model.milliseconds) == 1
    assert model.spent >= model.milliseconds[0] / 1000
    assert (model.id, model.dimensions) == ("counting", 3)


def test_a_turn_becomes_a_memory_with_its_place_in_the_conversation() -> None:
    turn = load(FIXTURE).conversations[0].turns[1]
    assert item(turn) == {
        "body": "Yes, we settled on RabbitMQ because the team knows it.",
        "ref": "D1:2",
        "kind": "episodic",
        "speaker": "Tom",
        "session_ref": "session_1",
        "turn_no": 2,
        "occurred_at": turn.occurred_at,
    }


def test_a_hit_stands_for_the_duplicates_folded_into_it() -> None:
    folded = [{"ref": "D2:1"}, {"ref": None}]
    hit = Hit(rank=1, memory_id=uuid4(), body="same", ref="D1:1", duplicates=folded)
    assert refs_of(hit) == {"D1:1", "D2:1"}


def test_every_mode_is_measured_and_a_second_run_measures_the_same_memories(db_dsn: str) -> None:
    dataset = load(FIXTURE)
    said: list[str] = []
    runs = [run(db_dsn, dataset, open_model("hash"), MODES, said.append) for _ in range(2)]
    for mode in MODES:
        row = runs[0][mode]
        assert row["questions"] == 4
        assert set(row["by_category"]) == {"1", "2", "4"}
        assert 0 < row["p50_ms"] <= row["p95_ms"]
        assert {k: v for k, v in row.items() if "@" in k or k == "MRR"} == {
            k: v for k, v in runs[1][mode].items() if "@" in k or k == "MRR"
        }
    # every question shares a word with the turn that answers it, so its words alone find it
    assert runs[0]["lexical"]["hit@5"] == 1
    assert runs[0]["fused"]["hit@5"] == 1
    assert runs[0]["questions"] == 4
    assert runs[0]["left_out"]["unanswerable questions"] == 1
    with Remem(db_dsn, workspace=workspace_names(dataset, open_model("hash"))[0]) as memory:
        assert memory.count() == 9
    assert any("lexical: platform-team" in line for line in said)


def test_a_reranker_that_cannot_work_is_counted_as_failed_and_changes_nothing(db_dsn: str) -> None:
    # the hash embedding has no token vectors
    arguments = ["locomo", str(FIXTURE), "--json", "--model", "hash", "--modes", "fused"]
    arguments += ["--dsn", db_dsn]
    plain = json.loads(CliRunner().invoke(app, arguments).stdout)
    looked = [*arguments, "--rerank", "late", "--gate", "always"]
    document = json.loads(CliRunner().invoke(app, looked).stdout)
    assert (plain["rerank"], document["rerank"]) == (None, {"spec": "late", "gate": "always"})
    assert sum(document["fused"]["rerank"].values()) == 4
    assert document["fused"]["rerank"]["failed"] > 0
    assert document["fused"]["MRR"] == plain["fused"]["MRR"]
    page = CliRunner().invoke(app, [a for a in looked if a != "--json"]).stdout
    assert "Reranked by late (gate always) in fused: " in page


def test_the_command_prints_one_json_document_and_nothing_else(db_dsn: str) -> None:
    done = CliRunner().invoke(
        app, ["locomo", str(FIXTURE), "--json", "--model", "hash", "--dsn", db_dsn]
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert {"fused", "lexical", "vector", "model", "questions"} <= set(document)
    wanted = {f"{name}@{k}" for name in ("R", "hit") for k in (1, 5, 10, 20, 50)} | {"MRR"}
    assert wanted <= set(document["fused"])
    assert wanted <= set(document["fused"]["by_category"]["4"])
    assert document["model"] == "remem-local-hash-v1"
    assert document["questions"] == 4
    assert "questions" in done.stderr


def test_the_command_prints_tables_by_default(db_dsn: str) -> None:
    arguments = ["locomo", str(FIXTURE), "--model", "hash", "--modes", "lexical", "--limit", "1"]
    done = CliRunner().invoke(app, [*arguments, "--dsn", db_dsn])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("3 questions over 9 turns of 1 conversations")
    assert "\n| lexical |" in done.stdout
    assert "| vector" not in done.stdout
    assert "1 unanswerable questions" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["locomo", "no-such-file.json"], 1, "no-such-file.json"),
        (["locomo", str(FIXTURE), "--modes", "best"], 2, "best"),
        (["locomo", str(FIXTURE), "--limit", "0"], 2, "limit"),
        (["locomo", str(FIXTURE), "--model", "/no/such/model"], 1, "/no/such/model"),
        (["locomo", str(FIXTURE), "--dsn", "host=/no/such/place", "--model", "hash"], 1, "no "),
    ],
)
def test_what_cannot_be_measured_says_why(arguments: list[str], code: int, said: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code
    assert said in done.stderr
    assert done.stdout == ""


def test_a_file_without_an_answerable_question_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "silent.json"
    path.write_text(json.dumps([{"conversation": {"session_1": [{"text": "hello"}]}}]))
    done = CliRunner().invoke(app, ["locomo", str(path)])
    assert done.exit_code == 1
    assert "no question with evidence" in " ".join(done.stderr.split())  # lines are wrapped
