"""The plan evaluation: its data, and one small run of it."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.plan import KINDS, make_prompts, make_topics, page


def test_topics_and_prompts_are_the_same_in_every_run() -> None:
    topics = make_topics(300)
    assert topics == make_topics(300)
    assert len({topic.title for topic in topics}) == 300
    prompts = make_prompts(topics, 5)
    assert prompts == make_prompts(topics, 5)
    assert [prompt.kind for prompt in prompts] == list(KINDS) * 5
    with pytest.raises(ValueError, match="at most"):
        make_topics(10**6)


def test_a_small_run_reaches_every_stage_it_is_meant_to(
    db: psycopg.Connection[Any], db_dsn: str
) -> None:
    arguments = ["plan", "--topics", "60", "--prompts", "3", "--rounds", "1", "--dsn", db_dsn]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["plan"]["calls"] == 12
    assert document["vectors"]["calls"] == 12
    assert document["by_kind"]["exact"]["stages"] == {"deterministic": 3}
    assert document["by_kind"]["unrelated"]["stages"] == {"none": 3}
    assert set(document["by_kind"]["continuity"]["stages"]) <= {"deterministic", "semantic"}
    shown = page(document)
    assert "| plan, exact prompts" in shown
    assert "times the bare query" in shown
    # A second run in the same database measures a fresh catalog again.
    assert CliRunner().invoke(app, arguments).exit_code == 0
    row = db.execute("select count(*) from remem.topic").fetchone()
    assert row == (60,)
