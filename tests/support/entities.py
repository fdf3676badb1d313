"""What the tests of names ask, and memories made of chance."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.memories import Connection


def pointer(
    db: Connection,
    query: str,
    n: int = 10,
    workspace: str = "w",
    *,
    allowed: list[int] | None = None,
    row_filter: str | None = None,
    sessions: list[int] | None = None,
) -> list[tuple[str, float]]:
    """Bodies and scores of the pointer arm, best first."""
    return db.execute(
        """
        select m.body, a.score
        from jsonb_populate_record(null::remem._query, jsonb_build_object(
          'workspace', %(w)s::text,
          'entities', remem._query_entities(%(w)s, remem._fold(%(q)s)),
          'session_nos', %(sessions)s::int[], 'allowed', %(allowed)s::bigint[],
          'row_filter', %(filter)s::text, 'check_validity', true,
          'documents', (remem._count_tally(%(w)s, 0)).n)) q
        cross join lateral remem._arm_pointer(q, %(n)s) with ordinality a (memory_no, score, place)
        join remem.memory m on m.workspace = %(w)s and m.memory_no = a.memory_no
        order by a.place
        """,
        {
            "w": workspace,
            "q": query,
            "n": n,
            "sessions": sessions,
            "allowed": allowed,
            "filter": row_filter,
        },
    ).fetchall()


BODIES = [
    "we met {} in {}",
    "{} likes {}",
    "ask @{} about #{}",
    "no name here",
    'she read "{}" in src/{}.py',
]
NAMES = ["Alice", "Bob", "Mei Tanaka", "Köln", "ERR_4071", "Stripe", "Bank of England"]


def item(random: Random) -> dict[str, Any]:
    body = random.choice(BODIES).format(random.choice(NAMES), random.choice(NAMES))
    made: dict[str, Any] = {"body": body}
    if random.random() < 0.7:
        made["ref"] = f"ref-{random.randint(1, 15)}"
    if random.random() < 0.3:
        made |= {"title": random.choice(NAMES), "aliases": random.sample(NAMES, 2)}
    if random.random() < 0.3:
        made["entities"] = random.sample(NAMES, 2)
    if random.random() < 0.3:
        made["speaker"] = random.choice(NAMES)
    return made
