"""What Postgres is searched for: hits, the plan's own finds, memories of topics, events."""

from __future__ import annotations

from typing import Any

import pytest

from remem_pg.errors import InvalidArgument
from tests.context.fakes import Client, Database, memory, plan

RETRY = memory("We retry three times, then page.")


def bodies(result: Any) -> set[str]:
    return {item.record.body for item in result.results}


SURE = {
    "id": "7d2f1a52-5a63-4a5e-9f0e-0c6a3f4d9a11",
    "title": "Retries",
    "score": 0.9,
    "sure": True,
    "providers": ["postgres"],
}


@pytest.mark.covers("RP64")
def test_a_topic_whose_memories_cannot_be_had_is_named_and_leaves_the_hits() -> None:
    database = Database(plan("postgres", topics=[SURE]), [RETRY])
    database.answers["topic_memories"] = InvalidArgument("secret")
    result = Client(database).context("retries?")
    assert bodies(result) == {RETRY.body}
    assert result.diagnostics == ("topic_memories failed: InvalidArgument",)


def test_where_no_topic_is_sure_the_plans_own_finds_are_shown_and_no_other() -> None:
    other = memory("The pager changes hands on Mondays.")
    answers = [{"id": str(RETRY.memory_id), "score": 0.6, "signal": "memory similarity"}]
    found = plan(
        "postgres",
        topics=[],
        stage="memory",
        memories=answers,
        signals={"memories": {"attempted": True}},
    )
    database = Database(found, [other, RETRY])
    database.answers["get"] = lambda call: [
        m for m in (other, RETRY) if str(m.memory_id) in str(call.params)
    ]
    result = Client(database).context("how often do we retry?")
    assert bodies(result) == {RETRY.body}
    assert result.trace.stage == "memory"
    database.answers["plan"] = {**found, "memories": []}
    assert bodies(Client(database).context("run the tests")) == set()


@pytest.mark.covers("RP64", "RP67")
def test_a_plane_that_fails_leaves_the_other() -> None:
    event = memory("We fixed the flaky test.", kind="episodic")
    document = plan("postgres", stage="continuity", topics=[])
    database = Database(document, [RETRY], list=[event])
    both = Client(database, episodic=True).context("where were we?")
    assert bodies(both) == {RETRY.body, event.body}
    assert both.diagnostics == ()
    database.answers["list"] = InvalidArgument("no")
    one = Client(database, episodic=True).context("where were we?")
    assert bodies(one) == {RETRY.body}
    assert one.diagnostics == (
        "provider postgres:episodic failed: InvalidArgument",
        "one retrieval plane failed; available results retained",
    )


@pytest.mark.covers("RP67")
@pytest.mark.parametrize(("episodic", "stage"), [(False, "continuity"), (True, "deterministic")])
def test_events_are_searched_only_when_asked_for_and_on_a_continuity(
    episodic: bool, stage: str
) -> None:
    database = Database(plan("postgres", stage=stage), [RETRY])
    Client(database, episodic=episodic).context("where were we?")
    assert database.calls("list") == []
