"""What the client and the server write into logs: counts, times and states, never a text."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from remem_pg import AsyncRemem, Hooks, Remem, RememError
from remem_pg.spaces.worker import Worker
from tests.support.jobs import Shares
from tests.support.memories import Connection

SECRET = "zyzzyva"
BODY = f"The {SECRET} opens the vault."
PROMPT = f"what opens with the {SECRET}?"


class Quoting:
    """A model that fails and quotes what it was given, as some do."""

    id = "quoting"
    dimensions = 4

    def embed(self, texts: Sequence[str]) -> Any:
        raise ValueError(f"cannot embed {texts!r}")


def quoting(*args: Any, **more: Any) -> Any:
    raise ValueError(f"no, not {PROMPT} nor {BODY}")


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def texts(heard: pytest.LogCaptureFixture) -> list[str]:
    """What was logged by us, with every argument and exception."""
    formatter = logging.Formatter("%(message)s")
    ours = (r for r in heard.records if r.name.startswith("remem"))
    return [formatter.format(record) for record in ours]


def everything(mem: Remem) -> None:
    calls = (
        lambda: mem.remember(BODY, ref=SECRET, title=BODY, tags=[SECRET], source_ref=SECRET),
        lambda: mem.remember_many([{"body": BODY, "kind": SECRET}], "report"),
        lambda: mem.remember_many([{"body": BODY + "\0"}]),
        lambda: mem.recall(PROMPT),
        lambda: mem.recall(PROMPT, filter=f"$.{SECRET} =="),
        lambda: mem.recall_explain(PROMPT),
        lambda: mem.plan(PROMPT),
        lambda: mem.context(PROMPT, min_relevance=0),
        lambda: mem.get(ref=SECRET),
        lambda: mem.correct(f"{BODY} Twice.", ref=SECRET, reason=BODY),
        lambda: mem.forget(ref=SECRET, reason=BODY),
        lambda: mem.forget(ref=f"no {SECRET}"),
        lambda: mem.put_topic(SECRET, summary=BODY),
        lambda: mem.reembed(),
    )
    for call in calls:
        try:
            call()
        except RememError:
            continue


MODELS: dict[str, Any] = {"none": None, "hash": "hash", "fails": Quoting(), "works": Shares("m")}


@pytest.mark.covers("RP66")
@pytest.mark.parametrize("model", MODELS)
def test_the_clients_log_holds_no_text_of_a_prompt_or_a_memory(
    db_dsn: str, db: Connection, heard: pytest.LogCaptureFixture, model: str
) -> None:
    with Remem(
        db_dsn,
        workspace="w",
        embedding=MODELS[model],
        reranker=quoting,
        rerank_gate="always",
        expander=quoting,
        hooks=Hooks(before_route=quoting, after_route=quoting),
        cache=True,
        log=True,
    ) as mem:
        everything(mem)
        if model in ("hash", "works"):
            Worker(mem).run(once=True)
    said = texts(heard)
    assert said, "something has to be logged for this to mean anything"
    assert [line for line in said if SECRET in line] == []
    for table in ("recall_log", "job_run", "embedding_claim"):
        rows = db.execute(f"select t::text from remem.{table} t".encode()).fetchall()
        assert [row for (row,) in rows if SECRET in row] == [], table
    assert db.execute("select count(*) > 0 from remem.recall_log").fetchone() == (True,)


@pytest.mark.covers("RP66")
async def test_nor_does_the_async_clients(db_dsn: str, heard: pytest.LogCaptureFixture) -> None:
    async with AsyncRemem(
        db_dsn, workspace="w", embedding=Quoting(), reranker=quoting, expander=quoting, log=True
    ) as mem:
        await mem.remember(BODY)
        await mem.recall(PROMPT)
        await mem.context(PROMPT, min_relevance=0)
    said = texts(heard)
    assert said
    assert [line for line in said if SECRET in line] == []
