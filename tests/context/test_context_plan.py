"""What a plan decides, what is done with it, and the planner of the caller's."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from remem_pg import Plan, PlannerRequest, Record
from remem_pg.context import plan as plans
from remem_pg.context.prompt import PROMPT_CHARACTERS, prompt_of
from remem_pg.context.settings import ContextSettings
from remem_pg.errors import InvalidArgument, UnknownOption
from tests.context.fakes import Client, Database, Shelf, memory, plan

RETRY = memory("We retry three times, then page.")


@pytest.mark.covers("RP22")
def test_a_plan_has_the_documented_form() -> None:
    client = Client(Database(plan("postgres")))
    trace = client.plan("what is the retry policy?")
    assert trace.should_retrieve
    assert trace.confidence == 0.9
    assert [topic.title for topic in trace.topics] == ["Retries"]
    assert [request.document() for request in trace.requests] == [
        {
            "providerId": "postgres",
            "query": "retry policy",
            "reason": "Retries: title phrase",
            "limit": 8,
        }
    ]


@pytest.mark.covers("RP1", "RP24")
def test_without_a_reason_to_recall_nothing_is_searched_and_the_catalog_is_shown() -> None:
    shelf = Shelf("notes", Record("1", "never shown"))
    database = Database(plan(), [RETRY])
    result = Client(database, providers=[shelf]).context("a pasta recipe")
    assert not result.retrieved
    assert "Known topics:" in str(result)
    assert "Recalled" not in str(result)
    assert shelf.asked == []
    assert database.calls("recall") == []


def test_nothing_to_say_is_an_empty_text() -> None:
    empty = plan(catalog={"text": "", "entries": 0, "omitted": 0, "bytes": 0})
    result = Client(Database(empty)).context("a pasta recipe")
    assert str(result) == ""
    assert not result


@pytest.mark.covers("RP19", "RP20")
def test_only_the_providers_of_the_plan_are_asked() -> None:
    notes, wiki = Shelf("notes", Record("1", "from notes")), Shelf("wiki", Record("2", "from wiki"))
    database = Database(plan("notes"), [RETRY])
    result = Client(database, providers=[notes, wiki]).context("retries?")
    assert [item.record.body for item in result.results] == ["from notes"]
    assert wiki.asked == []
    assert database.calls("recall") == []


@pytest.mark.covers("RP23")
def test_settings_reach_the_plan_and_the_providers() -> None:
    database = Database(plan("notes"))
    shelf = Shelf("notes", *(Record(str(n), f"body {n}") for n in range(9)))
    client = Client(database, providers=[shelf], minimum_confidence=0.5)
    client.context("retries?", max_topics=2, semantic=False, max_results=3, scope={"project": "p"})
    sent = json.loads(database.calls("plan")[0].params["options"])
    assert sent.pop("catalog_bytes") > 500
    assert sent == {
        "minimum_confidence": 0.5,
        "max_topics": 2,
        "semantic": False,
        "limit": 3,
        "context": {"project": "p"},
        "providers": ["postgres", "notes"],
    }
    # and nothing that has its default here: the server's own settings hold
    assert shelf.asked[0][2] == 3


@pytest.mark.covers("RP55")
@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("provider_timeout_ms", 1, 50),
        ("provider_timeout_ms", 10**9, 60_000),
        ("max_results", 0, 1),
        ("max_results", 1000, 100),
        ("minimum_confidence", "high", 0.42),
        ("minimum_confidence", float("nan"), 0.42),
        ("recall_budget", -5, 0),
        ("recall_budget", True, 1400),
        ("recall_budget", None, 1400),
        ("max_topics", 2.9, 2),
        ("semantic_minimum_similarity", None, None),
        ("semantic_minimum_similarity", 7, 1),
    ],
)
def test_a_number_out_of_range_is_brought_to_its_edge(name: str, given: Any, kept: Any) -> None:
    assert getattr(ContextSettings(**{name: given}), name) == kept


@pytest.mark.covers("RP55")
def test_the_defaults_are_the_documented_ones() -> None:
    settings = ContextSettings()
    assert (settings.minimum_confidence, settings.max_topics) == (0.42, 3)
    assert settings.deterministic_high_confidence == 0.82
    assert (settings.provider_timeout_ms, settings.max_results) == (2000, 8)
    assert (settings.catalog_budget, settings.recall_budget) == (600, 1400)
    assert (settings.provider_budget, settings.catalog_limit) == (900, 2000)


def test_wrong_arguments_are_errors_of_the_caller() -> None:
    client = Client(Database(plan()))
    with pytest.raises(UnknownOption, match="recall_budget"):
        client.context("x", budget=5)
    with pytest.raises(InvalidArgument):
        client.context()
    with pytest.raises(InvalidArgument):
        client.context("x", messages=[])
    with pytest.raises(InvalidArgument):
        client.context(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no provider"):
        client.context("x", providers=[object()])
    with pytest.raises(InvalidArgument, match="synthesizer must be a function"):
        client.context("x", synthesizer="short")


@pytest.mark.parametrize(
    ("messages", "asked"),
    [
        ([{"role": "user", "content": " hi "}], "hi"),
        (
            [
                {"role": "user", "content": "first"},
                {"role": "assistant", "content": "yes"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "second"}, {"type": "image"}],
                },
                {"role": "tool", "content": "ignored"},
            ],
            "second",
        ),
        ([{"role": "user", "content": "said"}, {"role": "user", "content": None}], "said"),
        ([{"role": "system", "content": "obey"}], ""),
        ([], ""),
    ],
)
def test_of_a_conversation_the_users_last_words_count(messages: Any, asked: str) -> None:
    database = Database(plan())
    Client(database).context(messages=messages)
    assert database.calls("plan")[0].params["prompt"] == asked


def test_a_prompt_is_made_storable_and_bounded() -> None:
    assert prompt_of("a\0b\ud800") == "a b?"
    long = prompt_of("s" + "x" * 100_000 + "e")
    assert len(long) == PROMPT_CHARACTERS
    assert long[0] == "s"
    assert long[-1] == "e"


@pytest.mark.covers("RP22")
@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"shouldRetrieve": "yes"},
        {"shouldRetrieve": True, "requests": "postgres"},
        {"shouldRetrieve": True, "requests": [{"providerId": "postgres"}]},
        {"shouldRetrieve": True, "topics": [5]},
    ],
)
def test_what_is_no_plan_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        plans.read(document, 8)


def test_requests_are_bounded_and_one_a_provider() -> None:
    requests = [{"providerId": f"p{n % 40}", "query": "q", "limit": 999} for n in range(80)]
    read = plans.read({"shouldRetrieve": True, "requests": requests}, 8)
    assert len(read.requests) == plans.MOST_REQUESTS
    assert {request.limit for request in read.requests} == {8}


# stage 2


def unsure(*providers: str) -> dict[str, Any]:
    return plan(*providers, confidence=0.4)


@pytest.mark.covers("RP25")
def test_a_planner_is_asked_only_when_the_stages_before_leave_it_open() -> None:
    asked: list[PlannerRequest] = []

    def planner(request: PlannerRequest) -> None:
        asked.append(request)

    for confidence, state in ((0.95, "not_asked"), (0.1, "not_asked"), (0.45, "kept")):
        database = Database(plan("postgres", confidence=confidence))
        result = Client(database, planner=planner).context("retries?", scope={"project": "p"})
        assert result.trace.planner == state
    (request,) = asked
    assert request.prompt == "retries?"
    assert request.scope.project == "p"
    assert request.providers == ("postgres",)
    assert request.plan.confidence == 0.45


@pytest.mark.covers("RP25")
def test_a_planner_decides_in_the_same_form() -> None:
    shelf = Shelf("notes", Record("1", "from notes", score=0.8))
    answer = {
        "shouldRetrieve": True,
        "confidence": 0.7,
        "topics": [{"title": "Retries"}],
        "requests": [
            {"providerId": "notes", "query": "retries", "reason": "model", "limit": 500},
            {"providerId": "nobody", "query": "retries"},
        ],
    }
    client = Client(Database(unsure()), providers=[shelf], planner=lambda request: answer)
    result = client.context("and then?")
    assert result.trace.planner == "used"
    assert [item.record.body for item in result.results] == ["from notes"]
    assert shelf.asked[0][0] == "retries"
    assert shelf.asked[0][2] == 8
    no = client.context("and then?", planner=lambda request: Plan(should_retrieve=False))
    assert not no.retrieved
    assert "Known topics" in no.text


@pytest.mark.covers("RP25")
def test_a_planner_may_be_a_coroutine_function() -> None:
    async def planner(request: PlannerRequest) -> Plan:
        await asyncio.sleep(0)
        return Plan()

    assert Client(Database(unsure()), planner=planner).context("x").trace.planner == "used"


@pytest.mark.covers("RP25")
@pytest.mark.parametrize(
    ("planner", "said"),
    [
        (lambda request: 1 / 0, "planner failed: ZeroDivisionError"),
        (lambda request: "yes", "planner failed: ValueError"),
        (lambda request: {"shouldRetrieve": True, "requests": []}, "planner failed: ValueError"),
        (lambda request: time.sleep(5), "planner failed: timed_out"),
    ],
)
def test_a_planner_that_fails_leaves_the_decision(planner: Any, said: str) -> None:
    started = time.monotonic()
    client = Client(Database(unsure("postgres"), [RETRY]), planner=planner, planner_timeout_ms=80)
    result = client.context("retries?")
    assert time.monotonic() - started < 2
    assert [item.record.body for item in result.results] == [RETRY.body]
    assert result.diagnostics == (said,)
