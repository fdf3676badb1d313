"""Whatever fails, there is a bounded answer, and it says what failed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from remem_pg import Record, SynthesisRequest
from remem_pg.context.provider import MOST_STUCK
from remem_pg.errors import (
    DimensionMismatch,
    NoAccess,
    ServerUnavailable,
    UnknownSpace,
)
from tests.context.fakes import Client, Database, Fails, Shelf, memory, plan, space_of

RETRY = memory("We retry three times, then page.")
NOTE = Record("n1", "The runbook says to page Mei.", score=0.8)


class Hangs:
    """A provider that does not come back."""

    def __init__(self, id: str = "slow", seconds: float = 30.0) -> None:
        self.id = id
        self.seconds = seconds
        self.calls = 0

    def search(self, query: str, scope: Any, limit: int) -> Any:
        self.calls += 1
        time.sleep(self.seconds)
        return [NOTE]


class Broken:
    """A model that cannot embed."""

    id = "broken"
    dimensions = 384

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def embed(self, texts: Any) -> Any:
        time.sleep(self.seconds)
        raise RuntimeError("the prompt was: secret")


def bodies(result: Any) -> set[str]:
    return {item.record.body for item in result.results}


@pytest.mark.covers("RP26", "RP50", "RP64")
def test_one_provider_that_raises_leaves_the_others() -> None:
    providers = [Fails("wiki", ValueError("secret")), Shelf("notes", NOTE)]
    database = Database(plan("postgres", "wiki", "notes"), [RETRY])
    result = Client(database, providers=providers).context("retries?")
    assert bodies(result) == {RETRY.body, NOTE.body}
    assert result.diagnostics == ("provider wiki failed: ValueError",)
    runs = {run.provider_id: (run.status, run.error) for run in result.trace.providers}
    assert runs == {
        "postgres": ("ok", None),
        "wiki": ("failed", "ValueError"),
        "notes": ("ok", None),
    }


@pytest.mark.covers("RP26", "RP50", "RP64")
def test_a_provider_that_hangs_costs_its_own_time_and_no_more() -> None:
    slow = Hangs()
    slow.timeout_ms = 100  # type: ignore[attr-defined]
    database = Database(plan("postgres", "slow", "notes"), [RETRY])
    started = time.monotonic()
    result = Client(database, providers=[slow, Shelf("notes", NOTE)]).context("retries?")
    assert time.monotonic() - started < 1.5
    assert bodies(result) == {RETRY.body, NOTE.body}
    assert result.diagnostics == ("provider slow timed_out",)


@pytest.mark.covers("RP26")
def test_providers_work_at_the_same_time() -> None:
    providers = [Hangs(f"p{n}", 0.2) for n in range(5)]
    started = time.monotonic()
    result = Client(Database(plan(*(p.id for p in providers))), providers=providers).context("x")
    assert time.monotonic() - started < 0.8
    assert [run.status for run in result.trace.providers] == ["ok"] * 5
    assert len(result.results) == 1
    assert len(result.results[0].record.duplicates) == 4


@pytest.mark.covers("RP26", "RP50")
def test_a_provider_that_never_returns_is_not_asked_again_and_again() -> None:
    slow = Hangs()
    client = Client(Database(plan("slow")), providers=[slow], provider_timeout_ms=50)
    said = [client.context("x").diagnostics for _ in range(MOST_STUCK + 4)]
    assert said[0] == ("provider slow timed_out",)
    assert said[-1] == ("provider slow failed: TimeoutError",)
    assert MOST_STUCK <= slow.calls <= MOST_STUCK + 1


def endless(query: str, scope: Any, limit: int) -> Iterator[Record]:
    number = 0
    while True:
        number += 1
        yield Record(str(number), f"body {number}")


@pytest.mark.covers("RP32")
@pytest.mark.parametrize(
    ("found", "error"),
    [("a text", "TypeError"), ({"id": "1"}, "TypeError"), (5, "TypeError"), (None, "TypeError")],
)
def test_an_answer_that_is_no_list_is_a_failure(found: Any, error: str) -> None:
    shelf = Shelf("notes")
    shelf.records = found
    result = Client(Database(plan("notes")), providers=[shelf]).context("x")
    assert result.diagnostics == (f"provider notes failed: {error}",)


@pytest.mark.covers("RP32")
def test_no_more_is_read_of_an_answer_than_was_asked_for() -> None:
    shelf = Shelf("notes")
    shelf.search = endless  # type: ignore[method-assign]
    result = Client(Database(plan("notes")), providers=[shelf]).context("x")
    assert result.trace.raw == 8


@pytest.mark.covers("RP32", "RP56", "RP64")
def test_malformed_and_foreign_records_are_dropped_and_counted() -> None:
    shelf = Shelf("notes", NOTE, {"id": "x"}, Record("2", "b", scope="user", scope_ref="ana"), None)
    result = Client(Database(plan("notes")), providers=[shelf]).context("x", scope={"user": "mei"})
    assert bodies(result) == {NOTE.body}
    assert (result.trace.raw, result.trace.invalid, result.trace.selected) == (4, 3, 1)
    assert result.diagnostics == ("3 invalid or out-of-scope result(s) omitted",)


@pytest.mark.covers("RP27", "RP52")
def test_every_provider_is_told_the_scope() -> None:
    notes, wiki = Shelf("notes"), Shelf("wiki")
    client = Client(Database(plan("notes", "wiki")), providers=[notes, wiki])
    client.context("x", scope={"project": "phoenix"})
    for shelf in (notes, wiki):
        scope = shelf.asked[0][1]
        assert (scope.workspace, scope.project, scope.user) == ("acme", "phoenix", None)


@pytest.mark.covers("RP32")
def test_a_provider_may_bound_its_bodies_itself() -> None:
    shelf = Shelf("notes", Record("1", "x" * 500), body_limit=200)
    result = Client(Database(plan("notes")), providers=[shelf]).context("x")
    assert len(result.results[0].record.body) == 200


@pytest.mark.covers("RP64")
def test_two_providers_of_one_name_are_named_and_the_first_is_asked() -> None:
    first, second = Shelf("notes", NOTE), Shelf("notes", Record("2", "second"))
    result = Client(Database(plan("notes")), providers=[first, second]).context("x")
    assert bodies(result) == {NOTE.body}
    assert result.diagnostics == ("providers.duplicate_id: notes",)


def test_a_provider_that_nobody_has_is_named() -> None:
    result = Client(Database(plan("wiki"))).context("x")
    assert result.diagnostics == ("provider wiki failed: unknown",)
    said = plan(degraded=["provider_unavailable:wiki"])
    assert Client(Database(said)).context("x").diagnostics == ("provider wiki failed: unavailable",)


@pytest.mark.covers("RP49")
@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_a_dead_model_leaves_the_deterministic_plan_and_the_search_by_words(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    started = time.monotonic()
    database = Database(plan("postgres"), [RETRY])
    client = Client(database, Broken(seconds), embed_timeout_ms=100)
    database.answers["current_space"] = lambda call: space_of(client)
    result = client.context("retries?")
    assert time.monotonic() - started < 2
    assert bodies(result) == {RETRY.body}
    why = "timed_out" if seconds else "no_embedding"
    assert result.diagnostics == (f"semantic recognition failed: {why}",)
    assert '"mode":"lexical"' in database.calls("recall")[0].params["options"]
    assert "prompt_embedding" not in database.calls("plan")[0].params
    assert "secret" not in caplog.text


@pytest.mark.covers("RP49", "RP64")
def test_a_comparison_that_failed_in_the_database_is_named() -> None:
    result = Client(Database(plan("postgres", degraded=["semantic_failed"]), [RETRY])).context("x")
    assert bodies(result) == {RETRY.body}
    assert result.diagnostics == ("semantic recognition failed: semantic_failed",)


@pytest.mark.covers("RP51", "RP59")
def test_a_dead_database_leaves_the_catalog_of_a_moment_ago() -> None:
    database = Database(plan("postgres"), [RETRY])
    client = Client(database)
    assert client.context("retries?").retrieved
    database.answers |= dict.fromkeys(("plan", "recall"), ServerUnavailable("gone"))
    result = client.context("retries?")
    assert not result.retrieved
    assert "Known topics:" in result.text
    assert result.trace.catalog_cached
    assert result.diagnostics == ("plan failed: ServerUnavailable",)
    other = client.context("retries?", scope={"project": "p"})
    assert other.text == ""
    assert client.context("retries?", refresh=True).text == ""


@pytest.mark.covers("RP51")
def test_a_database_that_was_never_there_is_named_and_nothing_is_said() -> None:
    error = ServerUnavailable("gone")
    database = Database(error, version=error, current_space=error)
    result = Client(database, providers=[Shelf("notes", NOTE)]).context("retries?")
    assert result.text == ""
    assert "plan failed: ServerUnavailable" in result.diagnostics


@pytest.mark.covers("RP51")
def test_a_database_that_does_not_answer_is_not_waited_for() -> None:
    def never(call: Any) -> Any:
        time.sleep(30)

    started = time.monotonic()
    result = Client(Database(never), plan_timeout_ms=100).context("retries?")
    assert time.monotonic() - started < 2
    assert result.diagnostics == ("plan failed: timed_out",)


@pytest.mark.covers("RP52")
def test_without_access_not_even_an_old_catalog_is_shown() -> None:
    database = Database(plan("postgres"), [RETRY])
    client = Client(database)
    client.context("retries?")
    database.answers["plan"] = NoAccess()
    result = client.context("retries?")
    assert result.text == ""
    assert result.diagnostics == ("plan failed: NoAccess",)


@pytest.mark.covers("RP51", "RP64")
@pytest.mark.parametrize("document", [{"shouldRetrieve": 1}, {"shouldRetrieve": True, "topics": 3}])
def test_a_plan_that_is_none_is_named(document: Any) -> None:
    result = Client(Database(document)).context("x")
    assert result.diagnostics == ("plan failed: malformed",)


@pytest.mark.covers("RP51", "RP64")
def test_what_nobody_thought_of_leaves_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr("remem_pg.context.searching.deduplicated", broken)
    result = Client(Database(plan("postgres"), [RETRY])).context("retries?")
    assert "Known topics:" in result.text
    assert result.diagnostics == ("orchestration failed: KeyError",)


# writing


def test_a_synthesiser_of_ones_own_is_fenced_and_escaped() -> None:
    seen: list[SynthesisRequest] = []

    def short(request: SynthesisRequest) -> str:
        seen.append(request)
        return "\n".join(f"* {item.record.body} </memory>" for item in request.results)

    result = Client(Database(plan("postgres"), [RETRY]), synthesizer=short).context("x")
    assert f"\n* {RETRY.body} &lt;/memory&gt;\n</memory-" in result.text
    assert result.diagnostics == ()
    assert (seen[0].budget, seen[0].unit, seen[0].count("é")) == (1400, "bytes", 2)


@pytest.mark.covers("RP64", "RP65")
@pytest.mark.parametrize(
    ("synthesizer", "why"),
    [
        (lambda request: 1 / 0, "ZeroDivisionError"),
        (lambda request: "x" * 1401, "over budget"),
        (lambda request: "&" * 400, "over budget"),
        (lambda request: None, "no text"),
        (lambda request: time.sleep(20), "timed_out"),
    ],
)
def test_a_synthesiser_that_fails_is_replaced(synthesizer: Any, why: str) -> None:
    client = Client(
        Database(plan("postgres"), [RETRY]), synthesizer=synthesizer, synthesis_timeout_ms=80
    )
    result = client.context("x")
    assert f"\n{RETRY.body}\n" in result.text
    assert result.diagnostics == (f"synthesis strategy failed: {why}",)


@pytest.mark.covers("RP47")
def test_a_tokenizer_that_fails_half_way_does_not_mix_its_numbers_with_bytes() -> None:
    left = [4]

    def tokenizer(text: str) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError
        return 1

    shelf = Shelf("notes", *(Record(str(n), f"{n} " * 300) for n in range(8)))
    client = Client(Database(plan("notes")), providers=[shelf], tokenizer=tokenizer)
    result = client.context("x")
    assert result.diagnostics == ("tokenizer failed: RuntimeError",)
    assert result.trace.unit == "bytes"
    assert len(result.text.encode()) <= 2000


@pytest.mark.covers("RP63")
def test_the_trace_says_how_the_answer_came_about() -> None:
    shelf = Shelf("notes", Record("1", "we retry three times,  then PAGE."), {"id": 1})
    database = Database(plan("postgres", "notes"), [RETRY])
    result = Client(database, providers=[shelf]).context("retries?", scope={"session": "s1"})
    told = result.trace.document()
    assert told["prompt"] == "retries?"
    assert told["sessionId"] == "s1"
    assert told["recognitionStage"] == "deterministic"
    assert (told["shouldRetrieve"], told["confidence"]) == (True, 0.9)
    assert told["topics"] == ["Retries"]
    assert told["catalogEntries"] == 2
    assert (told["rawResults"], told["deduplicatedResults"], told["selectedResults"]) == (3, 1, 1)
    assert [run["status"] for run in told["providers"]] == ["ok", "ok"]
    assert all(run["durationMs"] >= 0 for run in told["providers"])
    assert told["catalogTokens"] + told["recallTokens"] == told["totalBytes"]
    assert told["totalBytes"] == len(result.text.encode())
    assert set(told["timings"]) == {"catalog", "embedding", "planning", "recall", "synthesis"}
    duplicates = result.document()["results"][0]["duplicateSources"]
    assert duplicates == [{"providerId": "notes", "id": "1", "source": None}]


@pytest.mark.covers("RP66")
def test_logs_hold_neither_prompts_nor_bodies(caplog: pytest.LogCaptureFixture) -> None:
    secret = "zanzibar"
    shelf = Shelf("notes", Record("1", f"{secret} body", title=secret))
    providers = [shelf, Fails("wiki", ValueError(secret))]

    def planner(request: Any) -> Any:
        raise ValueError(request.prompt)

    def synthesizer(request: Any) -> Any:
        raise ValueError(request.results)

    with caplog.at_level(logging.DEBUG, logger="remem_pg"):
        client = Client(
            Database(plan("notes", "wiki", query=secret, confidence=0.4), [memory(secret)]),
            providers=providers,
            planner=planner,
            synthesizer=synthesizer,
        )
        result = client.context(f"about {secret}")
    assert secret in result.text
    assert caplog.records
    assert secret not in caplog.text
    assert secret not in " ".join(result.diagnostics)
    assert secret not in repr(result.trace)


@pytest.mark.covers("RP49", "RP51")
@pytest.mark.parametrize("error", [DimensionMismatch(), UnknownSpace()])
def test_a_workspace_that_moved_to_another_space_is_planned_by_words(error: Exception) -> None:
    class Model:
        id = "model"
        dimensions = 384

        def embed(self, texts: Any) -> Any:
            return [[1.0] * 384 for _ in texts]

    def moved(call: Any) -> Any:
        if "prompt_embedding" in call.params:
            raise error
        return plan("postgres")

    database = Database(moved, [RETRY])
    client = Client(database, Model())
    database.answers["current_space"] = lambda call: space_of(client)
    result = client.context("retries?")
    assert bodies(result) == {RETRY.body}
    assert result.diagnostics == (f"semantic recognition failed: {type(error).__name__}",)
    sent = database.calls("plan")
    assert ["space" in json.loads(call.params["options"]) for call in sent] == [True, False]
