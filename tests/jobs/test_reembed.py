"""Moving a workspace to another model with the client."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import psycopg
import pytest

from remem_pg import AsyncRemem, EmbeddingUnavailable, InvalidArgument, NoAccess, Remem, RememError
from remem_pg.spaces import policy as embedding_policy
from tests.support.consistency import problems
from tests.support.jobs import Shares, current, state, stored
from tests.support.memories import Connection, value
from tests.support.trap import NO_PRODUCT, set_trap
from tests.support.waiting import until


@pytest.mark.covers("RE4", "RE22", "RE31")
def test_a_run_moves_everything_switches_once_and_leaves_nothing(
    old: Remem, new: Remem, su: Connection
) -> None:
    old.put_topic("Retries", summary="How often")
    seen: list[tuple[int, int]] = []
    result = new.reembed(batch_size=7, progress=lambda done, total: seen.append((done, total)))
    assert (result.status, result.reembedded, result.activated) == ("completed", 31, True)
    assert seen[-1] == (31, 31)
    assert result.coverage is not None
    assert (result.coverage.total, result.coverage.pending) == (31, 0)
    assert result.coverage.cutover == "completed"
    assert current(su) == "new"
    assert state(su, "old") is None
    model = Shares("new", 1)
    vectors = stored(su, "new")
    assert len(vectors) == 30
    for text, vector in vectors.items():
        expected = model.embed([text])[0]
        assert vector == pytest.approx(list(expected / (expected @ expected) ** 0.5), abs=1e-3)
    assert problems(su) == []
    again = new.reembed()
    assert (again.status, again.claimed, again.activated) == ("no-op", 0, False)
    assert new.recall("memory 7", mode="vector")[0].body == "memory 7"


@pytest.mark.covers("RE3")
def test_vectors_of_two_models_never_meet_while_a_workspace_moves(
    old: Remem, new: Remem, su: Connection, db_dsn: str
) -> None:
    set_trap(su, NO_PRODUCT)
    with pytest.raises(psycopg.errors.RaiseException, match="two spaces met"):
        su.execute("select '[1,0]'::halfvec <=> '[0,1]'::halfvec")
    stop = threading.Event()
    errors: list[BaseException] = []
    said: set[str] = set()
    asked: Counter[str] = Counter()

    def recalls(name: str, model: Shares) -> None:
        try:
            with Remem(db_dsn, workspace="w", embedding=model) as client:
                number = 0
                while not stop.is_set():
                    number += 1
                    hits = client.recall(f"memory {number % 30}")
                    assert hits
                    said.update(hits.degraded)
                    asked[name] += 1
        except BaseException as error:
            errors.append(error)

    def writes() -> None:
        try:
            with Remem(db_dsn, workspace="w", embedding=Shares("old", 0)) as client:
                number = 0
                while not stop.is_set():
                    number += 1
                    client.remember(f"memory {number % 30}, again {number}", ref=f"r{number % 30}")
                    client.remember(f"late memory {number}")
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=recalls, args=("old", Shares("old", 0))),
        threading.Thread(target=recalls, args=("new", Shares("new", 1))),
        threading.Thread(target=writes),
    ]
    for thread in threads:
        thread.start()
    try:
        result = new.reembed(batch_size=5)
        assert result.activated
        before = dict(asked)
        until(lambda: errors or all(asked[one] > before.get(one, 0) + 5 for one in ("old", "new")))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert "stale_rows" in said
    assert not {code for code in said if code.startswith("arm_failed")}
    new.reembed()
    assert problems(su) == []
    model = Shares("new", 1)
    for text, vector in stored(su, "new").items():
        expected = model.embed([text])[0]
        assert vector == pytest.approx(list(expected / (expected @ expected) ** 0.5), abs=1e-3)
    assert [c.pending for c in new.embedding_backlog()] == [0]


def test_clients_that_were_open_find_the_new_space(
    old: Remem, new: Remem, db_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_policy, "MISMATCH_SECONDS", 0.0)
    assert old.recall("memory 3").degraded == ()
    assert "space_mismatch" in new.recall("memory 3").degraded
    with Remem(db_dsn, workspace="w", embedding=Shares("new", 1)) as other:
        other.reembed()
    assert new.recall("memory 3").degraded == ()
    assert "space_mismatch" in old.recall("memory 3").degraded
    old.remember("written by the old model's client")


@pytest.mark.covers("RE17")
def test_the_hash_that_is_only_a_fallback_never_replaces_a_model(
    old: Remem, db_dsn: str, monkeypatch: pytest.MonkeyPatch, su: Connection
) -> None:
    with Remem(db_dsn, workspace="w", embedding="hash") as chosen:
        fallback = chosen
        monkeypatch.setattr(fallback._session.embedder, "explicit", False)
        with pytest.raises(InvalidArgument, match="only the built-in hash was found"):
            fallback.reembed()
    assert current(su) == "old"
    with Remem(db_dsn, workspace="w", embedding="hash") as chosen:
        assert chosen.reembed().activated
    assert current(su) == "hash"


def test_a_text_that_the_model_cannot_take_is_counted_and_the_others_are_embedded(
    old: Remem, db_dsn: str, su: Connection
) -> None:
    model = Shares("picky", 1)
    model.bad = {"memory 17"}
    with Remem(db_dsn, workspace="w", embedding=model) as client:
        result = client.reembed(batch_size=10)
    assert (result.status, result.reembedded, result.errors) == ("completed", 29, {"ValueError": 1})
    assert not result.activated
    assert current(su) == "old"
    rows = su.execute(
        "select kind, state, failures, last_error from remem.embedding_problems('w')"
    ).fetchall()
    assert rows == [("memory", "waiting", 1, "ValueError")]


@pytest.mark.covers("RE24")
def test_a_model_that_fails_altogether_blames_no_text_and_is_a_hard_error(
    old: Remem, db_dsn: str, su: Connection
) -> None:
    model = Shares("broken", 1)
    model.bad = {"memory"}
    with (
        Remem(db_dsn, workspace="w", embedding=model) as client,
        pytest.raises(EmbeddingUnavailable, match="ValueError"),
    ):
        client.reembed()
    assert value(su, "select max(failures) from remem.embedding_claim") == 0
    assert value(su, "select count(*) from remem.embedding_claim where state = 'claimed'") == 0
    assert current(su) == "old"


def test_no_model_is_a_hard_error(db_dsn: str) -> None:
    with (
        Remem(db_dsn, workspace="w", embedding=None) as client,
        pytest.raises(EmbeddingUnavailable),
    ):
        client.reembed()


def test_a_run_can_be_limited_and_stopped_and_goes_on_later(old: Remem, new: Remem) -> None:
    limited = new.reembed(batch_size=4, limit=10)
    assert (limited.claimed, limited.activated) == (10, False)
    assert limited.coverage is not None
    assert (limited.coverage.pending, limited.coverage.claimed) == (20, 0)
    rounds: list[int] = []
    stopped = new.reembed(
        batch_size=5, stop=lambda: len(rounds) == 2, progress=lambda *_: rounds.append(1)
    )
    assert (stopped.stopped, stopped.reembedded) == (True, 10)
    rest = new.reembed()
    assert (rest.reembedded, rest.activated) == (10, True)


def test_a_run_inside_a_transaction_is_refused(db_dsn: str, old: Remem) -> None:
    with psycopg.connect(db_dsn) as conn:
        client = Remem(conn, workspace="w", embedding=Shares("new", 1))
        with pytest.raises(InvalidArgument, match="batch by batch"):
            client.reembed()


def test_a_worker_role_goes_on_with_what_an_administrator_began(
    old: Remem, new: Remem, db: Connection, make_role: Any, server: Any, database: str
) -> None:
    role = make_role()
    db.execute("select remem.grant_access(%s, 'w', 'worker')", [role])
    model = Shares("new", 1)
    with Remem(server.dsn(role, database), workspace="w", embedding=model) as worker:
        with pytest.raises(NoAccess):
            worker.reembed()
        new.reembed(limit=1)
        result = worker.reembed()
        assert (result.reembedded, result.activated) == (29, True)
    assert (current(db), state(db, "old")) == ("new", None)


def test_the_async_client_does_the_same(old: Remem, db_dsn: str, su: Connection) -> None:
    async def go() -> Any:
        async with AsyncRemem(db_dsn, workspace="w", embedding=Shares("new", 1)) as client:
            result = await client.reembed(batch_size=8)
            spaces = await client.spaces()
            backlog = await client.embedding_backlog()
            return result, spaces, backlog, await client.recall("memory 4", mode="vector")

    result, spaces, backlog, hits = asyncio.run(go())
    assert (result.reembedded, result.activated) == (30, True)
    assert [(s.name, s.state) for s in spaces if s.workspace_state] == [("new", "active")]
    assert [(c.space, c.pending) for c in backlog] == [("new", 0)]
    assert hits[0].body == "memory 4"


def test_a_large_space_gets_its_index_from_the_client_without_holding_writers_up(
    old: Remem, new: Remem, su: Connection
) -> None:
    new.reembed(limit=1)
    number = value(su, "select space_no from remem.embedding_space where name = 'new'")
    row = "array_fill(0.5, array[16])::real[]::vector::halfvec"
    su.execute(
        f"insert into remem.embedding_{number} select 'x', n, {row} from generate_series(1, 5001) n"
    )
    assert new.reembed().activated
    assert value(su, "select remem._space_index(%s)", [number]) == "valid"
    su.execute(f"delete from remem.embedding_{number} where workspace = 'x'")
    assert problems(su) == []


def test_several_runs_at_once_share_the_work(old: Remem, db_dsn: str, su: Connection) -> None:
    old.remember_many([{"body": f"more {n}"} for n in range(200)])
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with Remem(db_dsn, workspace="w", embedding=Shares("new", 1)) as client:
                results.append(client.reembed(batch_size=9))
        except RememError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(result.activated for result in results) == 1
    assert len(stored(su, "new")) == 230
    assert problems(su) == []
