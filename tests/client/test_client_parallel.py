"""AsyncRemem.recall(parallel=True): the arms on connections of their own, the answer the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from remem_pg import (
    AsyncRemem,
    InvalidArgument,
    NoAccess,
    RecallResult,
    Remem,
    ServerUnavailable,
    UnknownOption,
)
from remem_pg.calls import Call, Reply
from remem_pg.database import async_connection

WORKSPACE = "acme"

ITEMS: list[dict[str, Any]] = [
    {"ref": "tz", "body": "Mei works from Lisbon.", "subject": "Mei", "attribute": "city"},
    {"ref": "deploy", "body": "We deploy on Tuesdays.", "kind": "decision", "pinned": True},
    {"ref": "t1", "body": "Shall we freeze deploys?", "session_ref": "s-1", "speaker": "Ana"},
    {"ref": "t2", "body": "Only before holidays.", "session_ref": "s-1", "speaker": "Bo"},
    {"ref": "t3", "body": "Then the pager rests.", "session_ref": "s-1", "speaker": "Ana"},
    {"ref": "err", "body": "ERR_4071 means the disk of the build machine is full."},
    *(
        {"ref": f"n{n}", "body": f"note {n}: the {word} of machine {n % 7} was replaced"}
        for n, word in enumerate(["disk", "fan", "pager", "build", "deploy", "retry"] * 15)
    ),
    # Equal texts fill what the arms find at first, so that they have to look deeper.
    *({"ref": f"c{n}", "body": "The zebra crossed the road again."} for n in range(45)),
    *({"ref": f"z{n}", "body": f"A zebra was seen in street {n}."} for n in range(9)),
]

QUERIES = [
    "in which city does Mei deploy?",
    '"deploy on Tuesdays" when does the pager rest?',
    "\N{LEFT DOUBLE QUOTATION MARK}build machine\N{RIGHT DOUBLE QUOTATION MARK} disk",
    "disk -fan replaced",
    "zebra crossed road",
    "what did we decide about deploys?",
    "what was said in s-1 by Ana yesterday",
    "the of and",
    "",
]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"filter": '$.kind == "decision"'},
    {"filter": '$.kind == "semantic"'},
    {"kinds": ["decision"]},
    {"kind": "decision"},
    {"arms": ["vector"]},
    {"arms": ["lexical", "phrase"]},
    {"arms": ["pointer", "attribute", "lexical"]},
    {"arms": ["fusion"]},
    {"arms": ["fusion", "pointer"]},
    {"mode": "lexical"},
    {"mode": "vector"},
    {"mode": "simple"},
    {"mode": "retrieval_only"},
    {"fusion": "rrf"},
    {"fusion": "max"},
    {"min_relevance": 0.3},
    {"graph": "always"},
    {"deadline_ms": 0},
    {"deadline_ms": 60000},
    {"expanded": ["the fan of a machine"]},
    {"weights": {"session": 0, "pointer": 1}},
]


@pytest.fixture
async def mem(db_dsn: str) -> AsyncIterator[AsyncRemem]:
    async with AsyncRemem(db_dsn, workspace=WORKSPACE, embedding="hash") as client:
        await client.remember_many(ITEMS)  # type: ignore[arg-type]
        yield client


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`breaks("vector")`: every connection dies that this arm is sent on."""

    def arrange(arm: str) -> None:
        execute = async_connection.execute

        async def broken(
            conn: async_connection.Connection, call: Call[Any], tenant: str | None
        ) -> Reply:
            if call.params.get("arm") == arm:
                conn.pgconn.finish()
            return await execute(conn, call, tenant)

        monkeypatch.setattr(async_connection, "execute", broken)

    return arrange


def ran(result: RecallResult) -> dict[str, str]:
    """The states of the arms that ran side by side."""
    assert result.trace["parallel"]["ran"] is True
    states: dict[str, str] = result.trace["parallel"]["arms"]
    return states


@pytest.mark.covers("ME22", "MN8")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
async def test_arms_side_by_side_give_what_arms_in_a_row_give(
    mem: AsyncRemem, options: dict[str, Any]
) -> None:
    for number, query in enumerate(QUERIES):
        k = (8, 3)[number % 2]
        together = await mem.recall(query, k, parallel=True, **options)
        assert together == await mem.recall(query, k, **options), query
        assert together.trace["parallel"]["ran"]


@pytest.mark.covers("ME24", "MN8")
async def test_the_explanation_tells_the_same_story(mem: AsyncRemem) -> None:
    for query in QUERIES:
        told = [await mem.recall_explain(query, parallel=p) for p in (True, False)]
        for document in told:
            document.pop("timings")
            for arm in document["arms"].values():
                arm.pop("elapsed_ms", None)
        assert told[0].pop("parallel")["arms"].keys() == told[1]["arms"].keys()
        assert told[0] == told[1], query


async def test_a_reranker_looks_at_the_same_pool(db_dsn: str, mem: AsyncRemem) -> None:
    def longest(query: str, texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]

    async with AsyncRemem(
        db_dsn, workspace=WORKSPACE, embedding="hash", reranker=longest, rerank_gate="always"
    ) as client:
        together = await client.recall("machine disk", parallel=True)
        assert together == await client.recall("machine disk")
        assert together.trace["rerank"]["state"] == "completed"
        assert together.trace["arms"]["vector"]["state"] == "completed"
        assert ran(together)["lexical"] == "completed"


@pytest.mark.covers("ME22", "ME24")
@pytest.mark.parametrize("arm", ["vector", "lexical"])
async def test_an_arm_whose_connection_breaks_leaves_the_others(
    mem: AsyncRemem, breaks: Callable[[str], None], arm: str
) -> None:
    breaks(arm)
    result = await mem.recall("in which city does Mei deploy?", parallel=True)
    assert ran(result) | {arm: "failed"} == ran(result)
    assert set(result.degraded) == {f"arm_failed:{arm}"}
    assert len(result) == 8
    assert result[0].ref == "tz"
    assert all(arm not in hit.arms for hit in result)
    document = await mem.recall_explain("in which city does Mei deploy?", parallel=True)
    assert document["arms"][arm]["state"] == "failed"
    assert document["finish_reason"] == "arm_failed"
    assert document["tasks"]["completed"] == document["tasks"]["submitted"] - 1


async def test_an_arm_whose_connection_breaks_once_is_sent_again(
    mem: AsyncRemem, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = await mem.recall("machine disk")
    execute = async_connection.execute
    broken: set[str] = set()

    async def once(conn: async_connection.Connection, call: Call[Any], tenant: str | None) -> Reply:
        arm = call.params.get("arm")
        if arm is not None and arm not in broken:
            broken.add(arm)
            conn.pgconn.finish()
        return await execute(conn, call, tenant)

    monkeypatch.setattr(async_connection, "execute", once)
    result = await mem.recall("machine disk", parallel=True)
    assert result == usual
    assert set(ran(result).values()) == {"completed"}
    assert broken >= {"vector", "lexical"}


@pytest.mark.covers("ME22")
async def test_an_arm_that_fails_in_the_server_is_the_same_failed_arm(
    db: psycopg.Connection[Any], mem: AsyncRemem
) -> None:
    db.execute("alter table remem.embedding_1 rename to elsewhere")
    together = await mem.recall("disk of the machine", parallel=True)
    assert together == await mem.recall("disk of the machine")
    assert together.degraded == ("arm_failed:vector",)
    assert len(together) == 8


@pytest.mark.covers("ME22", "ME23")
async def test_what_is_late_is_cancelled_and_never_merged_and_the_vector_arm_is_waited_for(
    mem: AsyncRemem, db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lexical never answers by itself; the vector arm answers when the time is long over."""
    execute = async_connection.execute
    gone = asyncio.Event()
    limits: dict[str, float] = {}

    async def slow(conn: async_connection.Connection, call: Call[Any], tenant: str | None) -> Reply:
        limits[call.function] = json.loads(call.params.get("options") or "{}").get("deadline_ms")
        if call.params.get("arm") == "lexical":
            try:
                await conn.execute("select pg_sleep(600)")
            finally:
                gone.set()
        if call.params.get("arm") == "vector":
            await gone.wait()
        return await execute(conn, call, tenant)

    monkeypatch.setattr(async_connection, "execute", slow)
    result = await mem.recall("machine disk", parallel=True, deadline_ms=300)
    assert limits["recall_arm"] == 300
    assert limits["recall_from"] == 0  # no time is left to look deeper in all arms
    assert ran(result)["vector"] == "completed"
    assert "lexical" not in ran(result)
    assert "arm_pending:lexical" in result.degraded
    assert result[0].arms == ["vector"]
    async with await psycopg.AsyncConnection.connect(db_dsn, autocommit=True) as conn:
        left = await conn.execute(
            "select from pg_stat_activity where query = 'select pg_sleep(600)' and state = 'active'"
        )
        assert await left.fetchall() == []
    monkeypatch.undo()
    assert (await mem.recall("machine disk", parallel=True)).degraded == ()


@pytest.mark.covers("ME22")
async def test_what_is_wrong_with_the_call_is_raised_as_ever(mem: AsyncRemem) -> None:
    with pytest.raises(UnknownOption):
        await mem.recall("x", parallel=True, colour="red")
    for wrong in (
        {"k": 0},
        {"mode": "none"},
        {"arms": ["nose"]},
        {"deadline_ms": -1},
        {"arms": ["lexical"], "deadline_ms": -1},
        {"deadline_ms": "soon"},
        {"filter": "$.x =="},
        {"parallel": "yes"},
    ):
        with pytest.raises(InvalidArgument):
            await mem.recall("x", **{"parallel": True, **wrong})
    result = await mem.workspace("nobody").recall("the machine", parallel=True)
    assert (len(result), result.degraded) == (0, ("unknown_workspace",))


async def test_when_no_connection_is_to_be_had_the_call_fails(
    mem: AsyncRemem, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(conn: async_connection.Connection, *rest: Any) -> Reply:
        raise ServerUnavailable

    await mem.count()
    monkeypatch.setattr(async_connection, "execute", broken)
    with pytest.raises(ServerUnavailable):
        await mem.recall("x", parallel=True)


async def test_a_role_without_a_grant_is_refused(
    server: Any, database: str, make_role: Callable[..., str], mem: AsyncRemem
) -> None:
    dsn = server.dsn(make_role(), database)
    async with AsyncRemem(dsn, workspace=WORKSPACE, embedding=None) as stranger:
        with pytest.raises(NoAccess):
            await stranger.recall("machine", parallel=True)


# connections


async def test_many_parallel_recalls_share_a_pool_of_two(db_dsn: str, mem: AsyncRemem) -> None:
    usual = {query: await mem.recall(query) for query in QUERIES}
    kwargs = {"autocommit": True}
    async with AsyncConnectionPool(
        db_dsn, min_size=1, max_size=2, kwargs=kwargs, open=False
    ) as pool:
        client = AsyncRemem(pool, workspace=WORKSPACE, embedding="hash")
        results = await asyncio.gather(*(client.recall(q, parallel=True) for q in QUERIES * 3))
        for query, result in zip(QUERIES * 3, results, strict=True):
            assert result == usual[query]
            assert result.trace["parallel"]["ran"]
        assert pool.get_stats()["pool_size"] <= 2


async def test_with_one_connection_the_arms_run_in_a_row_and_the_trace_says_so(
    db_dsn: str, mem: AsyncRemem
) -> None:
    usual = await mem.recall("machine disk")
    alone = {"ran": False, "reason": "one connection"}
    async with await psycopg.AsyncConnection.connect(db_dsn) as conn:
        inside = AsyncRemem(conn, workspace=WORKSPACE, embedding="hash")
        await inside.remember("The machine disk is new.", ref="mine")
        result = await inside.recall("machine disk", parallel=True)
        assert result.trace["parallel"] == alone
        assert "mine" in {hit.ref for hit in result}  # it sees what its transaction wrote
        await conn.rollback()
    async with AsyncConnectionPool(db_dsn, min_size=1, max_size=1, open=False) as pool:
        result = await AsyncRemem(pool, workspace=WORKSPACE, embedding="hash").recall(
            "machine disk", parallel=True
        )
        assert (result, result.trace["parallel"]) == (usual, alone)
    with Remem(db_dsn, workspace=WORKSPACE, embedding="hash") as twin:
        result = twin.recall("machine disk", parallel=True)
        assert (result, result.trace["parallel"]) == (usual, alone)
        assert "parallel" not in twin.recall("machine disk").trace


async def test_a_client_with_cache_or_log_recalls_through_them(
    db_dsn: str, mem: AsyncRemem
) -> None:
    async with AsyncRemem(db_dsn, workspace=WORKSPACE, embedding="hash", cache=True) as client:
        result = await client.recall("machine disk", parallel=True)
        assert result.trace["parallel"] == {"ran": False, "reason": "cache or log"}
        assert result == await mem.recall("machine disk")


async def test_the_tenant_holds_on_every_connection_and_stays_on_none(
    db_dsn: str, mem: AsyncRemem
) -> None:
    usual = await mem.recall("machine disk")
    await mem.configure("tenant_mode", "strict")
    kwargs = {"autocommit": True}
    async with AsyncConnectionPool(
        db_dsn, min_size=4, max_size=4, kwargs=kwargs, open=False
    ) as pool:
        client = AsyncRemem(pool, workspace=WORKSPACE, embedding="hash", tenant=True)
        result = await client.recall("machine disk", parallel=True)
        assert result == usual
        assert ran(result)["lexical"] == "completed"
        for _ in range(4):
            async with pool.connection() as conn:
                cursor = await conn.execute("select current_setting('remem.workspace', true)")
                assert await cursor.fetchone() in [("",), (None,)]
