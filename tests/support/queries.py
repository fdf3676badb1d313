"""Prepared queries as the arms take them, made without the rest of a recall."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from tests.support.memories import Connection

# A remem._query of the words of %(query)s; cap bounds the counting, fields say the rest.
PREPARED = """
remem._count_tally(%(workspace)s, 0) c
cross join lateral remem._query_terms(%(workspace)s, %(query)s,
  remem._language_dictionaries('english'), c.n, null, %(cap)s) t
cross join lateral (
  select q from jsonb_populate_record(null::remem._query, to_jsonb(t) || jsonb_build_object(
    'workspace', %(workspace)s::text, 'documents', c.n, 'check_validity', false,
    'mean_len', c.doc_len::float8 / greatest(c.n, 1)) || %(fields)s::jsonb) q) p
"""


class Words(NamedTuple):
    """What the lexical arm found, best first."""

    memory_nos: list[int]
    scores: list[float]
    matched: list[float]


def lexical(
    db: Connection,
    query: str,
    *,
    n: int = 50,
    budget: int = 20000,
    cap: int | None = None,
    workspace: str = "w",
    **fields: Any,
) -> Words:
    """Call the lexical arm as recall does, with bounds of the test's choice.

    `cap` is up to where frequencies are counted, by default beyond all that a test writes.
    """
    row = db.execute(
        f"select a.memory_nos, a.scores, a.matched from {PREPARED}"
        " cross join lateral remem._arm_lexical(p.q, %(n)s, %(budget)s) a",
        {
            "workspace": workspace,
            "query": query,
            "n": n,
            "budget": budget,
            "cap": cap or max(budget, 20000),
            "fields": Jsonb({key: value for key, value in fields.items() if value is not None}),
        },
    ).fetchone()
    assert row is not None
    return Words(*(list(column or []) for column in row))


def word_scores(
    db: Connection, query: str, memory_nos: list[int], workspace: str = "w"
) -> tuple[list[float], list[float]]:
    """The scores and the matched idf mass of given rows."""
    row = db.execute(
        f"select s.scores, s.matched from {PREPARED}"
        " cross join lateral remem._word_scores(p.q, %(rows)s) s",
        {
            "workspace": workspace,
            "query": query,
            "rows": memory_nos,
            "cap": 20000,
            "fields": Jsonb({}),
        },
    ).fetchone()
    assert row is not None
    return row[0], row[1]
