"""The scale and ablation evaluations: their data, their arithmetic, and one small run of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from evals import scale_load
from evals.__main__ import app
from evals.ablation import ADDED, POOL, gather, held_out, run, search
from evals.baselines import Taken, ratio, times
from evals.dataset import load
from evals.models import open_model
from evals.scale_data import BIG, CHUNK, TENTH, Corpus, Generated, Layout, Texts
from evals.scale_report import PlotUnavailable, draw, page, require_plot
from remem_pg import Hit

FIXTURE = Path(__file__).parent / "evals_conversations.json"


@pytest.fixture(scope="module")
def source() -> Generated:
    return Generated(words=2000, subjects=50)


def test_half_of_the_rows_are_in_one_workspace_and_a_tenth_in_another() -> None:
    layout = Layout.of(200_000)
    counts = np.bincount(layout.owner)
    assert counts[0] == 100_000
    assert counts[1] == 20_000
    assert len(counts) - 2 == 900
    assert counts[2:].min() >= 80
    assert counts[2:].max() <= 100
    assert layout.workspaces[:2] == (BIG, TENTH)


def test_a_row_is_the_same_whoever_asks_for_it(source: Generated) -> None:
    corpus = Corpus(CHUNK + 50, source)
    whole = list(corpus.rows(CHUNK - 2, CHUNK + 3))
    alone = list(corpus.rows(CHUNK + 1, CHUNK + 2))
    assert [row.number for row in whole] == list(range(CHUNK - 2, CHUNK + 3))
    assert alone[0].body == whole[3].body
    assert np.array_equal(alone[0].vector, whole[3].vector)
    assert np.linalg.norm(alone[0].vector) == pytest.approx(1, abs=1e-5)


def test_turns_of_a_session_are_numbered_without_gaps(source: Generated) -> None:
    rows = [r for r in Corpus(2000, source).rows() if r.workspace == TENTH]
    assert len(rows) == 200
    assert {(r.session, r.turn) for r in rows} == {
        (f"s{n}", turn) for n in range(10) for turn in range(1, 21)
    }


def test_every_question_is_about_a_row_of_its_workspace(source: Generated) -> None:
    corpus = Corpus(3000, source)
    owner = {row.ref: row.workspace for row in corpus.rows()}
    for size in ("big", "tenth", "small"):
        questions = corpus.questions(size, 30)
        assert len(questions) == 30
        for question in questions:
            assert {owner[ref] for ref in question.about} == {question.workspace}
    assert len({q.workspace for q in corpus.questions("small", 30)}) > 5


def test_rows_of_texts_hold_two_turns_and_questions_know_who_holds_the_answer() -> None:
    dataset = load(FIXTURE)
    corpus = Corpus(1000, Texts(dataset, open_model("hash")))
    bodies = {row.ref: row.body for row in corpus.rows()}
    turns = [turn.body for c in dataset.conversations for turn in c.turns]
    assert all(any(body.startswith(turn) for turn in turns) for body in bodies.values())
    asked = corpus.questions("big", 8)
    evidence = {
        question.text: [t.body for t in c.turns if t.ref in question.evidence]
        for c in dataset.conversations
        for question in c.questions
    }
    for question in asked:
        assert question.about
        for ref in question.about:
            assert any(body in bodies[ref] for body in evidence[question.text])


def test_what_is_loaded_is_what_remember_writes(db: psycopg.Connection[Any]) -> None:
    corpus = Corpus(1000, Generated(words=2000, subjects=50))
    scale_load.prepare(db)
    space_no = scale_load.new_space(db, "scale")
    scale_load.open_workspaces(db, corpus.layout.workspaces, "scale")
    rebuild = scale_load.drop_index(db, space_no)
    assert scale_load.load(db, corpus.rows(), space_no) == 1000
    scale_load.build_index(db, rebuild, "64MB")
    rows = [row for row in corpus.rows() if row.workspace == TENTH]
    assert scale_load.difference_to_remember(db, rows, "scale", space_no) == []
    # And the comparison sees what is different.
    db.execute(
        "update remem.posting set tf = tf + 1 where workspace_key = remem._workspace_key(%s)",
        [TENTH],
    )
    assert scale_load.difference_to_remember(db, rows, "scale", space_no) == ["postings"]


def test_a_database_with_memories_is_refused(db: psycopg.Connection[Any]) -> None:
    db.execute("select remem.remember('w', 'something that is here already')")
    with pytest.raises(ValueError, match="has memories"):
        scale_load.prepare(db)


def test_a_small_run_gives_every_figure_and_a_second_one_keeps_the_rows(
    db_dsn: str, tmp_path: Path
) -> None:
    command = ["scale", "--rows", "1000", "--questions", "6", "--rounds", "1", "--dsn", db_dsn]
    plot = tmp_path / "plot.png"
    first = CliRunner().invoke(app, [*command, "--json", "--plot", str(plot)])
    assert first.exit_code == 0, first.output
    document = json.loads(first.stdout)
    assert document["same_as_remember"] is True
    assert document["growth"]["from_rows"] == 250
    for size in ("big", "tenth", "small"):
        assert document[size]["fewest_hits"] == 8
        assert document[size]["hit@8"] > 0.8
        assert document["clients"][size]["recall"]["calls"] == 24
    assert document["agreement"]["top10"] >= 0.95
    for state in ("before_vacuum", "after_vacuum"):
        sides = document["superseded"][state]
        assert sides["half"]["recall@10"] == sides["fresh"]["recall@10"]
    assert plot.read_bytes().startswith(b"\x89PNG")

    second = CliRunner().invoke(app, [*command, "--no-halves"])
    assert second.exit_code == 0, second.output
    assert "| big workspace: recall / bare vector query" in second.stdout
    assert "grows" not in second.stdout
    with psycopg.connect(db_dsn) as conn:
        count = conn.execute(
            "select count(*) from remem.memory where workspace = any (%s)", [[BIG, TENTH]]
        ).fetchone()
    assert count == (600,)


def test_a_plot_without_matplotlib_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(PlotUnavailable, match=r"remem-pg\[evals\]"):
        require_plot()
    refused = CliRunner().invoke(app, ["scale", "--rows", "1000", "--plot", "p.png"])
    assert refused.exit_code == 1


def _figures() -> dict[str, Any]:
    row = {"p50_ms": 2.0, "p95_ms": 3.0, "calls": 4}
    size = {"vector": row, "recall": row, "ratio": 1.0, "fewest_hits": 8, "hit@8": 1.0}
    return {
        "rows": 1000, "source": "generated-1", "same_as_remember": True,
        "settings": {"pgvector": "0.8", "server_version": "18"},
        "big": size, "tenth": {**size, "ratio": 1.8}, "small": {**size, "fewest_hits": 7},
        "slow": {"hybrid": row, "hybrid_indexed": row, "words": row,
                 "faster_than_hybrid": 12.0, "faster_than_words": 3.0},
        "clients": {"clients": 8, "big": size, "tenth": size, "small": size},
        "granted": None, "owned": {"ratio": 1.0}, "agreement": {"top10": 0.96}, "seconds": {},
    }  # fmt: skip


def test_the_page_says_which_targets_are_reached(tmp_path: Path) -> None:
    lines = {
        line.split("|")[1].strip(): line for line in page(_figures()).splitlines() if "|" in line
    }
    assert lines["big workspace: recall / bare vector query"].endswith("|    goal |")
    assert lines["a tenth of the table: the same"].endswith("|   floor |")
    assert lines["faster than OR full-text search"].endswith("|  missed |")
    assert lines["fewest of 8 hits, small workspace"].endswith("|  missed |")
    draw(_figures(), tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_times_are_median_and_ninety_fifth_percentile() -> None:
    taken = Taken()
    taken.wall = [float(n) for n in range(1, 102)]
    assert times(taken) == {"p50_ms": 51, "p95_ms": 96, "calls": 101}
    assert ratio(times(taken), {"p50_ms": 17.0}) == 3
    assert ratio(times(taken), times(taken), "cpu_p50_ms") is None


def test_processor_time_leaves_out_what_the_server_sleeps(db: psycopg.Connection[Any]) -> None:
    taken = Taken(db)
    with taken:
        db.execute("select pg_sleep(0.05)")
    assert taken.wall[0] >= 50
    assert not taken.cpu or taken.cpu[0] < 40  # empty where the server is on another machine


def _hit(ref: str, base: float, **signals: float) -> Hit:
    from uuid import uuid4

    return Hit(rank=1, memory_id=uuid4(), body=ref, ref=ref, signals={"base": base, **signals})


def _pools() -> Any:
    # The answer's own base is the lowest of twelve; its neighbours say it is the one.
    def hits(sign: float) -> list[Hit]:
        others = [_hit(f"x{i}", 1 - i / 100, neighbour=0.1) for i in range(11)]
        return [*others, _hit("answer", 0.5, neighbour=sign)]

    return gather([(n, frozenset({"answer"}), hits(1.0)) for n in range(4)])


def test_a_weight_that_helps_is_found_and_holds_on_an_unseen_conversation() -> None:
    pools = _pools()
    assert pools.base.shape == (4, POOL)
    start = {**dict.fromkeys(ADDED, 0.0), "trust": 0.0, "rank": 0.0}
    assert pools.recall_at_10(start).tolist() == [0, 0, 0, 0]
    found = search(pools, np.ones(4, dtype=bool), start)
    assert found["neighbour"] == pytest.approx(0.6)
    said: list[str] = []
    document = held_out(pools, start, said.append)
    assert (document["in_sample"], document["held_out"], document["loss"]) == (1, 1, 0)
    assert document["default_weights"] == 0


def test_the_pool_orders_as_recall_does_and_every_signal_is_switched_off(db_dsn: str) -> None:
    document = run(db_dsn, load(FIXTURE), open_model("hash"), lambda _: None)
    assert document["pool"] == document["stages"]["as shipped"]["R@10"]
    assert {"neighbour", "session", "speaker", "length"} <= set(document["signals"])
    assert document["stages"]["vector arm alone"]["questions"] == 4
