"""The lifecycle against a plain Python model: whatever the order of changes, both say the same.

Hypothesis looks for short orders that go wrong; a walk by chance makes a long one, of 150 steps in
the suite and of as many as REMEM_LIFECYCLE_STEPS says.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.support.consistency import problems
from tests.support.lifecycle import change, history, holding
from tests.support.memories import Connection, get, recall, remember, value

STEPS = int(os.environ.get("REMEM_LIFECYCLE_STEPS", "150"))
REFS = ["alpha", "beta", "gamma", None]
WORDS = ["heron", "otter", "badger", "lynx"]


@dataclass
class Row:
    """A memory as the model knows it; times are counted in changes."""

    memory_id: UUID
    ref: str | None
    body: str
    born: int
    ended: int | None = None
    how: str | None = None
    successor: UUID | None = None
    forgotten: int | None = None

    @property
    def live(self) -> bool:
        return self.ended is None and self.forgotten is None


class Lifecycle(RuleBasedStateMachine):
    """Says everything twice: to the database and to a dictionary."""

    dsn = ""
    numbers = itertools.count()
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.conn: Connection = psycopg.connect(self.dsn, autocommit=True)
        self.workspace = f"w{next(self.numbers)}"
        self.rows: dict[UUID, Row] = {}
        self.purged: dict[UUID, tuple[str | None, str]] = {}
        self.blocked: set[str] = set()
        self.moments: list[str] = []
        self.now = 0
        remember(self.conn, self.workspace, "the workspace is there", ref="first")
        self.tick()

    def teardown(self) -> None:
        try:
            assert problems(self.conn) == []
        finally:
            self.conn.close()

    # the model

    def tick(self) -> None:
        """The moment after a change, by the server's clock."""
        moment = value(self.conn, "select clock_timestamp()")
        self.moments.append(moment.astimezone(UTC).isoformat())
        self.now += 1

    def current(self, ref: str | None) -> Row | None:
        found = [r for r in self.rows.values() if ref is not None and r.ref == ref and r.live]
        assert len(found) <= 1
        return found[0] if found else None

    def chain(self, memory_id: UUID) -> list[Row]:
        """A memory and every version that it replaced."""
        row = self.rows[memory_id]
        before = [r.memory_id for r in self.rows.values() if r.successor == memory_id]
        return [row, *itertools.chain.from_iterable(self.chain(b) for b in before)]

    def expected_write(self, ref: str | None, body: str, rewrite: bool) -> str:
        live = self.current(ref)
        if live and live.body == body:
            return "unchanged"
        if ref is None and any(r.live and r.body == body for r in self.rows.values()):
            return "merged"
        if not rewrite:
            if ref in self.blocked and not live:
                return "purged"
            same = [r for r in self.rows.values() if r.body == body]
            if any(r.forgotten is not None and (ref is None or r.ref == ref) for r in same):
                return "forgotten"
            over = [r for r in same if r.how in ("corrected", "superseded")]
            if any(r.ref == ref for r in over):
                return "superseded"
        return "new_version" if live else "created"

    # what a caller does

    @rule(
        target=ids,
        ref=st.sampled_from(REFS),
        word=st.sampled_from(WORDS),
        number=st.integers(0, 3),
        rewrite=st.booleans(),
    )
    def remember(self, ref: str | None, word: str, number: int, rewrite: bool) -> Any:
        body = f"the {word} of number {number}"
        expected = self.expected_write(ref, body, rewrite)
        before = self.current(ref)
        mode = "rewrite" if rewrite else "new_version"
        reply = remember(self.conn, self.workspace, body, ref=ref, on_conflict=mode)
        assert reply.outcome == expected
        if expected not in ("created", "new_version"):
            return multiple()
        assert reply.memory_id is not None
        self.tick()
        self.rows[reply.memory_id] = Row(reply.memory_id, ref, body, self.now)
        self.blocked.discard(ref or "")
        if before:
            self.end(before, "new_version", reply.memory_id)
        return reply.memory_id

    def end(self, row: Row, how: str, successor: UUID) -> None:
        row.ended, row.how, row.successor = self.now, how, successor

    @rule(target=ids, memory_id=ids, word=st.sampled_from(WORDS), number=st.integers(0, 3))
    def correct(self, memory_id: UUID, word: str, number: int) -> Any:
        row = self.rows.get(memory_id)
        body = f"the {word} of number {number}"
        if row is None:
            self.unknown("correct", memory_id=memory_id, body=body)
            return multiple()
        reply = change(self.conn, "correct", self.workspace, memory_id=memory_id, body=body)
        if not row.live:
            assert reply.outcome == "conflict"
            return multiple()
        if row.body == body:
            assert reply.outcome == "unchanged"
            return multiple()
        assert reply.outcome == "corrected"
        assert reply.memory_id is not None
        self.tick()
        self.rows[reply.memory_id] = Row(reply.memory_id, row.ref, body, self.now)
        self.end(row, "corrected", reply.memory_id)
        return reply.memory_id

    @rule(old=ids, new=ids)
    def supersede(self, old: UUID, new: UUID) -> None:
        if old == new:
            return
        left, right = self.rows.get(old), self.rows.get(new)
        if left is None or right is None:
            self.unknown("supersede", old=old, new=new)
            return
        outcome = change(self.conn, "supersede", self.workspace, old=old, new=new).outcome
        if left.successor == new and left.forgotten is None:
            assert outcome == "unchanged"
        elif left.live and right.live:
            assert outcome == "superseded"
            self.tick()
            self.end(left, "superseded", new)
        else:
            assert outcome == "conflict"

    @rule(memory_id=ids)
    def forget(self, memory_id: UUID) -> None:
        if memory_id not in self.rows:
            self.unknown("forget", memory_id=memory_id)
            return
        row = self.rows[memory_id]
        outcome = change(self.conn, "forget", self.workspace, memory_id=memory_id).outcome
        if row.forgotten is not None:
            assert outcome == "unchanged"
        else:
            assert outcome == ("forgotten" if row.ended is None else "forgotten_version")
        self.tick()
        for one in self.chain(memory_id):
            if one.forgotten is None:
                one.forgotten = self.now

    @rule(memory_id=ids)
    def unforget(self, memory_id: UUID) -> None:
        if memory_id not in self.rows:
            self.unknown("unforget", memory_id=memory_id)
            return
        row = self.rows[memory_id]
        outcome = change(self.conn, "unforget", self.workspace, memory_id=memory_id).outcome
        if row.forgotten is None:
            assert outcome == "unchanged"
        elif row.ended is None and self.current(row.ref):
            assert outcome == "conflict"
        else:
            assert outcome == "unforgotten"
            at = row.forgotten
            for one in self.chain(memory_id):
                if one.forgotten == at:
                    one.forgotten = None
            self.tick()

    @rule(memory_id=ids)
    def purge(self, memory_id: UUID) -> None:
        if memory_id in self.purged:
            reply = change(self.conn, "purge", self.workspace, memory_id=memory_id)
            assert reply.outcome == "unchanged"
            return
        assert change(self.conn, "purge", self.workspace, memory_id=memory_id).outcome == "purged"
        for one in self.chain(memory_id):
            del self.rows[one.memory_id]
            self.purged[one.memory_id] = (one.ref, one.body)
            if one.ref and not self.current(one.ref):
                self.blocked.add(one.ref)
        self.tick()

    def unknown(self, function: str, **arguments: Any) -> None:
        try:
            change(self.conn, function, self.workspace, **arguments)
        except psycopg.Error as error:
            assert error.sqlstate == "RM101"
        else:
            raise AssertionError(f"{function} of what was purged")

    # what a caller sees

    @rule(word=st.sampled_from(WORDS), cached=st.booleans())
    def recall_now(self, word: str, cached: bool) -> None:
        expected = {r.body for r in self.rows.values() if r.live and word in r.body}
        if cached:
            answer = value(
                self.conn, "select remem.recall_cached(%s, %s, null, 100)", [self.workspace, word]
            )
            found = {hit["body"] for hit in answer["hits"]}
        else:
            found = {hit.body for hit in recall(self.conn, self.workspace, word, k=100)}
        assert {body for body in found if word in body} == expected

    @rule(word=st.sampled_from(WORDS), back=st.integers(0, 30))
    def recall_then(self, word: str, back: int) -> None:
        at = max(1, self.now - back)
        expected = {
            r.body
            for r in self.rows.values()
            if word in r.body
            and r.forgotten is None
            and r.born <= at
            and (r.ended is None or r.ended > at)
        }
        moment = self.moments[at - 1]
        found = {h.body for h in recall(self.conn, self.workspace, word, k=100, as_of=moment)}
        assert {body for body in found if word in body} == expected

    @rule(memory_id=ids)
    def look(self, memory_id: UUID) -> None:
        row = self.rows.get(memory_id)
        found = get(self.conn, self.workspace, memory_id=memory_id)
        versions = {v.memory_id: v for v in history(self.conn, self.workspace, memory_id=memory_id)}
        if row is None:
            assert found is None
            assert versions[memory_id].state == "purged"
            return
        assert (found.body, found.ref) == (row.body, row.ref)
        state = (
            "forgotten" if row.forgotten is not None else "superseded" if row.ended else "current"
        )
        assert versions[memory_id].state == state
        assert {r.memory_id for r in self.chain(memory_id)} <= set(versions)

    @invariant()
    def refs_lead_to_the_current_ones(self) -> None:
        for ref in REFS[:3]:
            live, found = self.current(ref), get(self.conn, self.workspace, ref=ref)
            assert (found and found.memory_id) == (live and live.memory_id)
        count = value(self.conn, "select remem.count(%s)", [self.workspace])
        assert count == 1 + sum(r.live for r in self.rows.values())


def test_no_order_of_changes_parts_the_database_from_the_model(db_dsn: str) -> None:
    class Here(Lifecycle):
        dsn = db_dsn

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_long_walk_by_chance_parts_them_neither(db_dsn: str, seed: int) -> None:
    class Here(Lifecycle):
        dsn = db_dsn

    random = Random(seed)
    machine = Here()
    known: list[UUID] = []
    moves = [*["remember"] * 6, *["correct"] * 3, *["supersede"] * 3, *["forget"] * 3]
    moves += [*["unforget"] * 3, *["purge"] * 2, "recall_now", *["recall_then"] * 3, "look"]
    done: Counter[str] = Counter()
    for _ in range(STEPS):
        move = random.choice(moves) if known else "remember"
        recent = known[-12:]
        said: dict[str, Any] = {"word": random.choice(WORDS)}
        if move == "remember":
            said |= {"ref": random.choice(REFS), "rewrite": random.random() < 0.4}
        if move in ("remember", "correct"):
            said["number"] = random.randrange(4)
        if move == "recall_now":
            said["cached"] = random.random() < 0.5
        if move == "recall_then":
            said["back"] = random.randrange(40)
        if move in ("supersede", "forget", "unforget", "purge", "look"):
            del said["word"]
        if move == "supersede":
            said |= {"old": random.choice(recent), "new": random.choice(recent)}
        elif move in ("correct", "forget", "unforget", "purge", "look"):
            said["memory_id"] = random.choice(recent)
        made = getattr(machine, move)(**said)
        if isinstance(made, UUID):
            known.append(made)
        machine.refs_lead_to_the_current_ones()
        done[move] += 1
    machine.teardown()
    assert set(done) == set(moves)
    assert machine.purged


def test_what_was_purged_is_found_nowhere(db: Connection) -> None:
    for n in range(3):
        remember(db, "w", f"the zyzzyva of number {n}", ref="r")
    change(db, "purge", "w", ref="r")
    assert holding(db, "zyzzyva") == []
