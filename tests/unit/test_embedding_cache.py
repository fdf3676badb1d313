"""Vectors and answers that a client keeps: how many, how long, and one computation at a time."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from remem_pg.embedding.cache import ENTRIES, SECONDS, EmbeddingCache, key
from remem_pg.recall.result_cache import ENTRIES as RESULTS
from remem_pg.recall.result_cache import SECONDS as RESULT_SECONDS
from remem_pg.recall.result_cache import ResultCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Model:
    """Counts how often it is asked."""

    def __init__(self, answer: Any = 1) -> None:
        self.calls = 0
        self.answer = answer

    def __call__(self) -> Any:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.covers("MN6")
def test_the_same_text_is_computed_once_per_workspace_and_model() -> None:
    cache: EmbeddingCache[int] = EmbeddingCache()
    model = Model()
    for _ in range(3):
        assert cache.get(key("w", "m", "a text"), model) == 1
    assert model.calls == 1
    for other in (key("x", "m", "a text"), key("w", "n", "a text"), key("w", "m", "a text ")):
        cache.get(other, model)
    assert model.calls == 4


@pytest.mark.covers("MN6")
def test_no_text_is_kept() -> None:
    workspace, model, digest = key("w", "m", "a text")
    assert (workspace, model) == ("w", "m")
    assert digest == hashlib.sha256(b"a text").digest()


@pytest.mark.covers("MN6")
def test_the_least_recently_used_goes_first_and_all_go_after_an_hour() -> None:
    assert (ENTRIES, SECONDS) == (10_000, 3600)
    clock, model = Clock(), Model()
    cache: EmbeddingCache[int] = EmbeddingCache(entries=2, clock=clock)
    one, two, three = (key("w", "m", text) for text in "123")
    for at in (one, two, one, three):
        cache.get(at, model)
    assert (model.calls, len(cache)) == (3, 2)
    cache.get(one, model)
    assert model.calls == 3
    cache.get(two, model)
    assert model.calls == 4
    clock.now = 3600.0
    cache.get(two, model)
    assert model.calls == 5


@pytest.mark.covers("MN6")
def test_a_workspace_can_be_forgotten() -> None:
    cache: EmbeddingCache[int] = EmbeddingCache()
    model = Model()
    cache.get(key("w", "m", "t"), model)
    cache.get(key("x", "m", "t"), model)
    cache.invalidate("w")
    cache.get(key("x", "m", "t"), model)
    assert model.calls == 2
    cache.get(key("w", "m", "t"), model)
    assert model.calls == 3


def test_what_is_computed_while_its_workspace_is_forgotten_is_not_kept() -> None:
    cache: EmbeddingCache[int] = EmbeddingCache()
    at = key("w", "m", "t")

    def compute() -> int:
        cache.invalidate("w")
        return 7

    assert cache.get(at, compute) == 7
    assert len(cache) == 0


@pytest.mark.parametrize("answer", [None, ValueError("no model")])
def test_a_failure_is_not_remembered(answer: Any) -> None:
    cache: EmbeddingCache[int] = EmbeddingCache()
    model = Model(answer)
    for _ in range(2):
        if answer is None:
            assert cache.get(key("w", "m", "t"), model) is None
        else:
            with pytest.raises(ValueError, match="no model"):
                cache.get(key("w", "m", "t"), model)
    assert model.calls == 2
    model.answer = 5
    assert cache.get(key("w", "m", "t"), model) == 5


@pytest.mark.parametrize("outcome", [3, None, ValueError("no model")])
def test_callers_that_miss_together_share_one_computation(outcome: Any) -> None:
    cache: EmbeddingCache[int] = EmbeddingCache()
    running, release = threading.Event(), threading.Event()
    model = Model(outcome)

    def slow() -> Any:
        running.set()
        assert release.wait(10)
        return model()

    def ask() -> Any:
        try:
            return cache.get(key("w", "m", "t"), slow)
        except ValueError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask)
        assert running.wait(10)
        others = [pool.submit(ask) for _ in range(7)]
        # Another text does not wait for this one.
        assert cache.get(key("w", "m", "other"), Model(9)) == 9
        release.set()
        answers = [future.result(10) for future in (first, *others)]
    if outcome == 3:
        assert (answers, model.calls) == ([3] * 8, 1)
    else:  # a failure is shared by those who waited; who came later has tried again
        assert answers == [outcome] * 8
        assert 1 <= model.calls <= 8


@pytest.mark.covers("MN6")
def test_kept_answers_end_after_a_minute_and_beyond_their_number() -> None:
    assert (RESULTS, RESULT_SECONDS) == (5_000, 60)
    clock = Clock()
    cache = ResultCache(entries=2, clock=clock)
    for name in (b"1", b"2"):
        cache.put(name, {"token": name})
    assert cache.get(b"1") == {"token": b"1"}
    cache.put(b"3", {"token": b"3"})
    assert cache.get(b"2") is None
    assert len(cache) == 2
    clock.now = 60.0
    assert cache.get(b"1") is None
    assert len(cache) == 1
