"""C22: the stored space is of one backend and the process starts with another: it is told apart,
nothing is overwritten, and a switch happens only where somebody asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from remem_pg import EmbeddingUnavailable, InvalidArgument, Remem
from remem_pg.spaces import reembed as reembed_flow
from remem_pg.spaces.worker import Worker
from tests.client.cli_runner import Cli
from tests.support.consistency import problems
from tests.support.jobs import Shares, current, stored
from tests.support.memories import Connection, value

WAYS: dict[str, Any] = {
    "the built-in hash": "hash",
    "a model of the same dimensions": Shares("other", 1),
    "a model of other dimensions": Shares("wide", 1, 32),
    "none": None,
}


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed_flow, "GRACE", 0.1)


@pytest.fixture
def kept(db_dsn: str, su: Connection) -> Callable[[], dict[str, list[float]]]:
    """A workspace of one model; what it has of that model now."""
    with Remem(db_dsn, workspace="w", embedding=Shares("own", 0)) as mem:
        mem.remember_many([{"body": f"memory {n}", "ref": f"r{n}"} for n in range(12)])
    return lambda: stored(su, "own")


@pytest.mark.parametrize("way", WAYS)
def test_using_another_backend_overwrites_nothing_and_is_named(
    db: Connection,
    db_dsn: str,
    kept: Callable[[], Any],
    way: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = kept()
    with (
        caplog.at_level(logging.WARNING, "remem_pg"),
        Remem(db_dsn, workspace="w", embedding=WAYS[way]) as mem,
    ):
        result = mem.recall("memory 7", 3)
        assert result[0].body == "memory 7"
        assert {"space_mismatch", "no_embedding"} & set(result.degraded)
        assert result[0].arms == ["lexical"]
        mem.remember("written by the other one", ref="r1")
        mem.remember_many([{"body": "two"}, {"body": "three"}])
        assert mem.current_space().name == "own"
    assert current(db) == "own"
    after = kept()
    assert after == {text: vector for text, vector in before.items() if text != "memory 1"}
    assert way == "none" or len(caplog.records) == 1
    with Remem(db_dsn, workspace="w", embedding=Shares("own", 0)) as again:
        again.reembed()
        assert again.recall("three", 1, mode="vector")[0].body == "three"
    assert problems(db) == []


@pytest.mark.parametrize("way", ["a model of the same dimensions", "a model of other dimensions"])
def test_a_worker_with_another_backend_has_nothing_to_do_here(
    db: Connection, db_dsn: str, kept: Callable[[], Any], way: str
) -> None:
    before = kept()
    with Remem(db_dsn, workspace="w", embedding=WAYS[way]) as mem:
        for everything in (False, True):
            report = Worker(mem, everything=everything).run(once=True)
            assert (report.claimed, report.activated) == (0, [])
    assert (kept(), current(db)) == (before, "own")


def test_a_switch_is_deliberate_and_complete(
    db: Connection, db_dsn: str, kept: Callable[[], Any]
) -> None:
    with Remem(db_dsn, workspace="w", embedding=WAYS["a model of other dimensions"]) as mem:
        assert mem.reembed().activated
        assert mem.recall("memory 7", 1).degraded == ()
    assert current(db) == "wide"
    assert problems(db) == []


def test_a_model_that_is_missing_today_is_not_replaced_by_the_hash(
    db_dsn: str, db: Connection, kept: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process found no model and fell back to the hash; nobody asked for the hash by name."""
    from remem_pg.embedding import resolve

    hashed = resolve.resolve_embedding("hash")
    monkeypatch.setattr(resolve, "resolve_embedding", lambda spec=None, *a, **k: hashed)
    before = kept()
    with Remem(db_dsn, workspace="w", embedding="auto") as mem:
        assert mem.recall("memory 7", 1)[0].body == "memory 7"
        with pytest.raises((InvalidArgument, EmbeddingUnavailable)):
            mem.reembed()
    assert (kept(), current(db)) == (before, "own")


def test_the_command_line_refuses_and_setting_up_again_moves_no_workspace(
    db: Connection, db_dsn: str, kept: Callable[[], Any]
) -> None:
    before = kept()
    cli = Cli(db_dsn, REMEM_EMBEDDING="hash")
    assert cli("init").returncode == 0
    assert cli("migrate").returncode == 0
    done = cli("recall", "-w", "w", "memory 7")
    assert "memory 7" in done.stdout
    assert "own" in done.stderr
    assert (kept(), current(db)) == (before, "own")
    assert value(db, "select (remem.current_space(null)).name") == "hash"
