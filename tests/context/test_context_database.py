"""The whole path on a real database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remem_pg import (
    AsyncRemem,
    ContextResult,
    ContextSettings,
    InvalidArgument,
    MarkdownProvider,
    Record,
    Remem,
)
from tests.context.fakes import Shelf

Connection = psycopg.Connection[Any]
Opened = Callable[..., Remem]


def sources(result: ContextResult) -> list[str | None]:
    return [item.record.source for item in result.results]


@pytest.mark.covers("RP1", "RP22", "RP24", "RP32")
def test_a_known_topic_is_recalled_and_an_unknown_one_is_not(opened: Opened) -> None:
    mem = opened()
    result = mem.context("what is our retry policy for charges?")
    assert sources(result) == ["three"]
    assert result.trace.stage == "deterministic"
    assert "[current; decision; rank 0." in result.text
    assert "(three, user_stated)" in result.text
    assert "- Retry policy" in result.text
    assert result.diagnostics == ()
    nothing = mem.context("a pasta recipe for the weekend")
    assert not nothing.retrieved
    assert "- Retry policy" in nothing.text
    assert nothing.trace.stage == "none"


@pytest.mark.covers("RP27", "RP52", "RP56")
def test_what_belongs_to_a_project_is_seen_only_there(opened: Opened) -> None:
    mem = opened()
    question = "what is the Phoenix budget?"
    assert mem.context(question).trace.should_retrieve
    for scope in (None, {"project": "other"}, {"user": "phoenix"}):
        assert "million" not in mem.context(question, scope=scope).text
    assert sources(mem.context(question, scope={"project": "phoenix"})) == ["budget"]


@pytest.mark.covers("RP52")
def test_another_workspace_is_never_looked_into(opened: Opened) -> None:
    mem = opened()
    for prompt in ("the rival's secret retry policy", "continue where we left off with the rival"):
        assert "rival" not in mem.context(prompt, min_relevance=0).text
    rival = mem.workspace("rival").context("continue with the secret retry policy")
    assert "five million" not in rival.text
    assert "- Retry policy" not in rival.text


@pytest.mark.covers("RP8", "RP31", "RP67")
def test_a_continuity_asks_everyone_and_the_latest_events(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "log.md").write_text("# Importer\nThe flaky importer test is continued here.\n")
    notes = MarkdownProvider("notes", tmp_path)
    mem = opened(context=ContextSettings(providers=(notes,), episodic=True))
    result = mem.context("let's continue where we left off")
    assert result.trace.stage == "continuity"
    assert result.trace.topics == ()
    assert "flaky" in sources(result)
    runs = [run.provider_id for run in result.trace.providers]
    assert runs == ["postgres", "postgres:episodic", "notes"]
    without = mem.context("let's continue where we left off", episodic=False)
    assert "flaky" not in sources(without)


@pytest.mark.covers("RP19")
def test_a_topic_goes_to_its_own_provider(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "food.md").write_text("# Office lunches\nWe eat at noon.\n")
    mem = opened(context=ContextSettings(providers=(MarkdownProvider("notes", tmp_path),)))
    result = mem.context("when are the office lunches?")
    assert sources(result) == ["food.md#office-lunches"]
    assert [run.provider_id for run in result.trace.providers] == ["notes"]
    missing = opened().context("when are the office lunches?")
    assert missing.diagnostics == ("provider notes failed: unavailable",)


@pytest.mark.covers("RP36", "RP37")
def test_copies_in_two_stores_are_one_result_with_both_sources(
    opened: Opened, db: Connection
) -> None:
    db.execute(
        "select remem.put_topic('acme', 'Retry policy', providers => array['postgres', 'notes'])"
    )
    copy = Record("n1", "we retry a failed charge three times, then page.", score=0.4)
    result = opened().context("our retry policy for charges", providers=[Shelf("notes", copy)])
    (item,) = result.results
    assert item.record.provider == "postgres"
    assert [(other.provider, other.id) for other in item.record.duplicates] == [("notes", "n1")]
    assert "same text: notes/n1" in result.text


@pytest.mark.covers("RP44")
@pytest.mark.parametrize("kind", ["contradicts", "compatible"])
def test_linked_contradictions_are_shown_side_by_side(
    opened: Opened, db: Connection, kind: str
) -> None:
    mem = opened()
    fact = {"subject": "retries", "attribute": "count"} if kind == "compatible" else {}
    one = mem.remember("Our retry policy: a charge is retried four times.", **fact)  # type: ignore[arg-type]
    two = mem.remember("Our retry policy: a charge is retried nine times.", **fact)  # type: ignore[arg-type]
    db.execute("select remem.relate('acme', %s, %s, %s)", [one.memory_id, two.memory_id, kind])
    text = mem.context("what is our retry policy for charges?").text
    assert "four times" in text
    assert "nine times" in text
    assert ("Conflict, 2 results, not settled here" in text) is (kind == "contradicts")


def test_links_tell_what_contradicts_among_current_memories(db: Connection, db_dsn: str) -> None:
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        ids = [mem.remember(f"memory {n}", ref=str(n)).memory_id for n in range(3)]
        other = mem.workspace("rival").remember("x").memory_id
        for src, dst, kind in ((0, 1, "contradicts"), (1, 2, "related"), (2, 0, "compatible")):
            db.execute("select remem.relate('acme', %s, %s, %s)", [ids[src], ids[dst], kind])
        call = "select remem.links_between('acme', %s)"
        found = db.execute(call, [[*ids, other]]).fetchone()
        assert found is not None
        assert {(link["src"], link["dst"], link["kind"]) for link in found[0]} == {
            (str(ids[0]), str(ids[1]), "contradicts"),
            (str(ids[2]), str(ids[0]), "compatible"),
        }
        mem.remember("memory 1, corrected", ref="1")
        assert db.execute(call, [ids]).fetchone() == (
            [{"src": str(ids[2]), "dst": str(ids[0]), "kind": "compatible"}],
        )
        assert db.execute(call, [[]]).fetchone() == ([],)


# failures


@pytest.mark.covers("RP51")
def test_a_plan_that_fails_leaves_a_transaction_of_the_caller_usable(
    filled: str, db: Connection
) -> None:
    db.execute("alter function remem.plan(text, text, real[], jsonb) rename to plan_gone")
    with psycopg.connect(filled) as conn:
        mem = Remem(conn, workspace="acme", embedding="hash")
        mem.remember("written in the transaction", ref="kept")
        result = mem.context("what is our retry policy?")
        assert result.text == ""
        assert [said.split(":")[0] for said in result.diagnostics] == ["plan failed"]
        assert mem.get(ref="kept") is not None
        conn.commit()
    with Remem(filled, workspace="acme", embedding=None) as mem:
        assert mem.get(ref="kept") is not None


@pytest.mark.covers("RP50")
def test_a_recall_that_fails_leaves_the_other_providers(opened: Opened, db: Connection) -> None:
    db.execute(
        "select remem.put_topic('acme', 'Retry policy', providers => array['postgres', 'notes'])"
    )
    db.execute("alter function remem.recall(text, text, real[], int, jsonb) rename to recall_gone")
    notes = Shelf("notes", Record("n1", "From the notes.", score=0.4))
    result = opened().context("our retry policy", providers=[notes])
    assert [item.record.body for item in result.results] == ["From the notes."]
    assert result.diagnostics[0].startswith("provider postgres failed: ")


@pytest.mark.covers("RP26", "RP51")
def test_a_database_that_is_busy_is_left_after_its_time(opened: Opened, db: Connection) -> None:
    mem = opened()
    before = mem.context("our retry policy for charges")
    assert before.retrieved
    with db.transaction():
        db.execute("lock table remem.memory in access exclusive mode")
        started = time.monotonic()
        result = mem.context("our retry policy for charges", provider_timeout_ms=200)
        assert time.monotonic() - started < 4.5
    assert not result.retrieved
    assert len(result.text.encode()) <= 2000
    assert result.diagnostics
    assert mem.context("our retry policy for charges").retrieved


@pytest.mark.covers("RP51")
def test_a_server_that_cannot_be_reached_is_named() -> None:
    mem = Remem("postgresql://nobody@127.0.0.1:1/none", workspace="acme", embedding="hash")
    result = mem.context("our retry policy")
    assert result.text == ""
    assert "plan failed: ServerUnavailable" in result.diagnostics
    mem.close()


@pytest.mark.covers("RP51")
def test_a_server_that_goes_away_leaves_the_catalog(
    filled: str, server: Any, database: str
) -> None:
    with psycopg.connect(filled, autocommit=True) as conn:
        mem = Remem(conn, workspace="acme", embedding="hash")
        assert mem.context("our retry policy for charges").retrieved
        conn.close()
        result = mem.context("our retry policy for charges")
    assert not result.retrieved
    assert "- Retry policy" in result.text
    assert result.trace.catalog_cached
    assert result.diagnostics


@pytest.mark.covers("RP52")
def test_a_role_without_a_grant_gets_nothing(
    filled: str, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    conn = connect(make_role("stranger"))
    result = Remem(conn, workspace="acme", embedding="hash").context("our retry policy")
    assert result.text == ""
    assert "plan failed: NoAccess" in result.diagnostics


def test_strict_mode_and_a_read_only_transaction_will_do(filled: str, db: Connection) -> None:
    db.execute("select remem.configure('tenant_mode', 'strict')")
    with psycopg.connect(filled) as conn:
        conn.read_only = True
        mem = Remem(conn, workspace="acme", embedding="hash", tenant=True)
        assert sources(mem.context("our retry policy for charges")) == ["three"]
    refused = Remem(filled, workspace="acme", embedding="hash", tenant=False)
    assert "plan failed: TenantNotSet" in refused.context("our retry policy").diagnostics
    refused.close()


def test_threads_share_a_client(opened: Opened) -> None:
    mem = opened()
    answers: list[list[str | None]] = []

    def work() -> None:
        answers.append(sources(mem.context("our retry policy for charges")))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["three"]] * 8


@pytest.mark.covers("RP26")
async def test_the_async_client_gives_the_same(filled: str, opened: Opened) -> None:
    sync = await asyncio.to_thread(opened().context, "our retry policy for charges")
    async with AsyncRemem(filled, workspace="acme", embedding="hash") as mem:
        one = await mem.context("our retry policy for charges")
        many = await asyncio.gather(*(mem.context("our retry policy") for _ in range(8)))
        plan = await mem.plan("our retry policy")
    assert one.text.split("\n")[1:-1] == sync.text.split("\n")[1:-1]
    assert all(sources(result) == ["three"] for result in many)
    assert plan.should_retrieve
    async with await psycopg.AsyncConnection.connect(filled) as conn:
        own = AsyncRemem(conn, workspace="acme", embedding="hash")
        await own.remember("written in the transaction", ref="kept")
        assert sources(await own.context("our retry policy for charges")) == ["three"]
        assert await own.get(ref="kept") is not None


@pytest.mark.covers("RP26", "RP51")
async def test_what_is_late_is_cancelled_on_the_server(filled: str, db: Connection) -> None:
    running = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and state = 'active'"
    )
    async with AsyncRemem(filled, workspace="acme", embedding="hash") as mem:
        assert (await mem.context("our retry policy for charges")).retrieved
        with db.transaction(), psycopg.connect(filled, autocommit=True) as watch:
            db.execute("lock table remem.memory in access exclusive mode")
            result = await mem.context("our retry policy for charges", plan_timeout_ms=200)
            assert not result.retrieved
            assert result.diagnostics
            deadline = time.monotonic() + 10
            while watch.execute(running).fetchone() != (0,):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
        assert (await mem.context("our retry policy for charges")).retrieved


@pytest.mark.covers("RP52", "RP56")
def test_a_condition_narrows_what_the_context_brings(opened: Opened) -> None:
    mem = opened()
    question = "what is our retry policy for charges?"
    assert sources(mem.context(question, where="source_class = 'user_stated'")) == ["three"]
    assert sources(mem.context(question, where="source_class <> 'user_stated'")) == []
    other = Shelf("notes", Record("n1", "our retry policy for charges", score=0.9))
    mem.put_topic("Retry policy", providers=["postgres", "notes"], source="test")
    without = mem.context(question, providers=[other])
    assert "notes" in {item.record.provider for item in without.results}
    narrowed = mem.context(question, providers=[other], where="source_class = 'user_stated'")
    assert {item.record.provider for item in narrowed.results} == {"postgres"}
    assert "provider notes was not asked: it cannot judge where" in narrowed.diagnostics
    with pytest.raises(InvalidArgument):
        mem.context(question, where="colour = 'red'")
