"""Who writes while things break, and the count of what they were told was stored."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from evals.faults.servers import until
from remem_pg import Remem, RememError

WORKSPACE = "faults"
BATCH = 3
"""Memories of one ``remember_many``, which is stored whole or not at all."""

INSPECTIONS: list[Callable[[str], list[str]]] = []
"""What else is asked of a database (its DSN) after a fault; each says what is wrong there."""


@dataclass
class Outcome:
    """What one fault did. Lost is what was acknowledged and is not there with its text."""

    fault: str
    what: str
    acknowledged: int = 0
    found: int = 0
    lost: int = 0
    halves: int = 0
    """Batches of which some memories are there and some are not."""

    failed_calls: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Calls that failed, by the class of what they raised."""

    untyped: list[str] = field(default_factory=list)
    """Errors that are not remem's, or say no next step."""

    unconfirmed: int = 0
    """Refs whose call failed although they had been stored; the retry said so."""

    recovered: bool = False
    """Whether the client that met the fault went on by itself."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return (
            self.acknowledged > 0
            and self.lost == 0
            and self.halves == 0
            and self.recovered
            and not self.untyped
            and not self.problems
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def expect(self, holds: bool, otherwise: str) -> None:
        """Notes what is wrong unless ``holds``."""
        if not holds:
            self.problems.append(otherwise)


def body_of(ref: str) -> str:
    """A memory's text, with a word that no other has."""
    return f"Entry {ref} of the ledger says word{ref.replace('-', 'x')}."


class Writers:
    """Threads that write through one client until they are told to stop.

    A failed call is repeated with the same ref, as a program would that may write twice safely.
    """

    def __init__(self, client: Remem, outcome: Outcome, threads: int = 3) -> None:
        self._client = client
        self._outcome = outcome
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._acknowledged: list[str] = []
        self._batches: list[list[str]] = []
        self._errors: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._write, args=(f"t{number}",), daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return len(self._acknowledged)

    @property
    def failures(self) -> int:
        return sum(self._errors.values())

    def wait_for(self, more: int, seconds: float = 30) -> bool:
        """Until so many more were acknowledged; False when that takes too long."""
        goal = self.count + more
        return until(lambda: self.count >= goal, seconds)

    def wait_for_failure(self, seconds: float = 60, before: int = 0) -> bool:
        """Until more than ``before`` calls failed; False when that takes too long."""
        return until(lambda: self.failures > before, seconds)

    def finish(self) -> None:
        """Stops the threads, and writes into the outcome what they met."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        stuck = sum(thread.is_alive() for thread in self._threads)
        self._outcome.expect(stuck == 0, f"{stuck} of the writers hang")
        self._outcome.errors = dict(sorted(self._errors.items()))
        self._outcome.failed_calls = self.failures

    def _write(self, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            if number % 4:
                refs = [f"{name}-{number}"]
            else:
                refs = [f"{name}-{number}-{part}" for part in range(BATCH)]
                self._batches.append(refs)
            if self._until_stored(refs):
                with self._lock:
                    self._acknowledged += refs

    def _until_stored(self, refs: list[str]) -> bool:
        tries = 0
        while True:
            try:
                if len(refs) == 1:
                    stored = [self._client.remember(body_of(refs[0]), ref=refs[0])]
                else:
                    stored = self._client.remember_many(
                        {"body": body_of(ref), "ref": ref} for ref in refs
                    )
            except Exception as error:  # whatever it is, it is counted
                tries += 1
                self._note(error)
                if self._stop.wait(0.02):
                    return False
                continue
            there = [ref for ref in stored if ref.outcome == "unchanged"]
            with self._lock:
                if tries:
                    self._outcome.unconfirmed += len(there)
                elif there:
                    self._outcome.problems.append(f"{refs} was there before it was written")
            return True

    def _note(self, error: Exception) -> None:
        note_error(self._outcome, error)
        with self._lock:
            self._errors[type(error).__name__] += 1

    def settle(self, dsn: str) -> None:
        """Counts in the database what was acknowledged, by a client that met no fault."""
        outcome = self._outcome
        with Remem(dsn, workspace=WORKSPACE, embedding="hash") as client:
            there = {memory.ref: memory.body for memory in client.iterate()}
            outcome.acknowledged = len(self._acknowledged)
            outcome.found = sum(there.get(ref) == body_of(ref) for ref in self._acknowledged)
            outcome.lost = outcome.acknowledged - outcome.found
            for refs in self._batches:
                stored = sum(ref in there for ref in refs)
                outcome.halves += 0 < stored < len(refs)
            outcome.expect(client.count() == len(there), "a ref is there twice")
            for ref in self._acknowledged[:: max(1, len(self._acknowledged) // 20)]:
                word = body_of(ref).split()[-1]
                hits = client.recall(word, k=1)
                outcome.expect(
                    [hit.ref for hit in hits] == [ref], f"{ref} is there and not recalled"
                )
        for inspect in INSPECTIONS:
            outcome.problems += inspect(dsn)


def note_error(outcome: Outcome, error: BaseException) -> None:
    """An error of a call during a fault: remem's own with a next step, or it is noted."""
    if not isinstance(error, RememError):
        outcome.untyped.append(f"{type(error).__name__}: {str(error).strip()[:200]}")
    elif not error.hint:
        outcome.untyped.append(f"{type(error).__name__} without a next step: {error}")


@contextmanager
def writing(
    dsn: str, outcome: Outcome, verify_at: Callable[[], str] | None = None
) -> Iterator[Writers]:
    """Writers on one client of ``dsn``; at the end they are stopped and the count is made.

    ``verify_at``: a function that gives the DSN to count at, where it is another one then.
    """
    with Remem(dsn, workspace=WORKSPACE, embedding="hash") as client:
        writers = Writers(client, outcome)
        writers.start()
        try:
            outcome.expect(writers.wait_for(20), "nothing was written before the fault")
            yield writers
            outcome.recovered = writers.wait_for(20)
        finally:
            writers.finish()
    writers.settle(verify_at() if verify_at else dsn)
