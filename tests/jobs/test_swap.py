"""From the hash to a neural model and back, while others write and ask."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest

from remem_pg import Remem
from remem_pg.embedding.base import EmbeddingModel
from remem_pg.embedding.resolve import resolve_embedding
from remem_pg.spaces import policy as embedding_policy
from tests.support.consistency import problems
from tests.support.jobs import coverage, current, state, stored
from tests.support.memories import Connection, value
from tests.support.trap import HASH_AND_NEURAL, set_trap
from tests.support.waiting import until

MEMORIES = int(os.environ.get("REMEM_SWAP_MEMORIES", "300"))


@pytest.fixture(scope="module")
def minilm() -> EmbeddingModel:
    found = resolve_embedding("minilm").model
    assert found is not None
    return found


def body(number: int) -> str:
    kinds = ("decision about the queue", "incident of the database", "preference for coffee")
    return f"Note {number}: a {kinds[number % 3]}, written for team {number % 7}."


class Traffic:
    """Programs that write and ask as long as the block runs; what they met is looked at after."""

    def __init__(self, dsn: str, *models: Any) -> None:
        self.errors: list[BaseException] = []
        self.degraded: set[str] = set()
        self.recalls = 0
        self._stop = threading.Event()
        self._dsn = dsn
        jobs = [(self._write, "hash"), *((self._recall, model) for model in models)]
        self._threads = [threading.Thread(target=self._safe, args=job) for job in jobs]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _safe(self, work: Any, model: Any) -> None:
        try:
            with Remem(self._dsn, workspace="w", embedding=model) as client:
                work(client)
        except BaseException as error:
            self.errors.append(error)

    def _write(self, client: Remem) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            client.remember(f"{body(number)} Seen {number} times.", ref=f"r{number % MEMORIES}")
            if number % 5 == 0:
                client.remember(f"A new note, number {number}, about deployments.")
            time.sleep(0.01)

    def _recall(self, client: Remem) -> None:
        while not self._stop.is_set():
            found = client.recall("which decision was about the queue?", k=5)
            assert len(found) == 5
            self.degraded.update(found.degraded)
            self.recalls += 1


@pytest.mark.covers("RE3", "RE4", "RE23", "RE31")
def test_hash_to_minilm_and_back_under_writes_and_recalls(
    db: Connection, su: Connection, db_dsn: str, minilm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_policy, "MISMATCH_SECONDS", 0.2)
    with (
        Remem(db_dsn, workspace="w", embedding="hash") as with_hash,
        Remem(db_dsn, workspace="w", embedding=minilm) as with_minilm,
    ):
        items = [{"body": body(n), "ref": f"r{n}"} for n in range(MEMORIES)]
        with_hash.remember_many(items)  # type: ignore[arg-type]
        with_hash.put_topic("The queue", summary="How messages are sent")
        set_trap(su, HASH_AND_NEURAL)
        for client, name, before in (
            (with_minilm, "minilm", "hash"),
            (with_hash, "hash", "minilm"),
        ):
            with Traffic(db_dsn, "hash", minilm) as traffic:
                result = client.reembed()
                seen = traffic.recalls
                until(lambda: traffic.errors or traffic.recalls > seen + 10)  # noqa: B023
            assert traffic.errors == []
            assert traffic.recalls > 5
            assert result.activated
            assert "stale_rows" in traffic.degraded
            assert not {code for code in traffic.degraded if "failed" in code}
            assert current(db) == name
            client.reembed()
            assert [(c.space, c.pending, c.set_aside) for c in coverage(db)] == [(name, 0, 0)]
            if before == "minilm":
                assert state(db, "minilm") is None
            else:
                assert value(su, "select count(*) from remem.embedding_1") == 0
    activations = "select count(*) from remem.embedding_runs('w', 1000) where kind = %s"
    assert value(db, activations, ["space-activation"]) == 2
    vectors = stored(su, "hash")
    assert len(vectors) == value(db, "select remem.count('w')")
    for text, vector in list(vectors.items())[:40]:
        expected = json.loads(value(db, "select to_json(remem.hash_embed(%s))::text", [text]))
        assert vector == pytest.approx(expected, abs=1e-3)
    assert problems(su) == []
