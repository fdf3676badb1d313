"""What bounded work and dead rows cost: agreement with exhaustive scoring, the superseded half."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evals import scale_load
from evals.baselines import Conn, Taken, cases, interleaved, ratio, times
from evals.scale_data import BIG, Question, Row

if TYPE_CHECKING:
    from evals.scale import Bench

HALF, FRESH = "scale:half", "scale:fresh"

# BM25 of every memory that holds any of the terms, without bound: k1 = 1.2, b = 0.3 as in the arm.
_EXHAUSTIVE = """
select p.memory_no,
  sum(t.idf * p.tf * 2.2 / (p.tf + 1.2 * (0.7 + 0.3 * p.doc_len / c.mean_len))) as score
from (
  select l.lexeme, ln(1 + (c.n - f.n + 0.5) / (f.n + 0.5))::float8 as idf
  from remem._lexemes(%(text)s, remem._language_dictionaries('english')) l,
    (select count(*) as n from remem.memory m where m.workspace = %(workspace)s
      and m.superseded_at is null and m.forgotten_at is null) c,
    lateral (select count(*) as n from remem.posting p
      where p.workspace_key = remem._workspace_key(%(workspace)s)
        and p.word = remem._word(l.lexeme)) f
  where f.n > 0
) t
cross join (select avg(m.doc_len)::float8 as mean_len from remem.memory m
  where m.workspace = %(workspace)s and m.superseded_at is null and m.forgotten_at is null) c
join remem.posting p on p.workspace_key = remem._workspace_key(%(workspace)s)
  and p.word = remem._word(t.lexeme)
group by p.memory_no order by 2 desc, 1
"""
_BOUNDED = """
select m.memory_no from remem.recall(%(workspace)s, %(text)s, null, 10,
  '{"mode": "retrieval_only", "arms": ["lexical"], "fusion": "max"}') h
join remem.memory m on m.workspace = %(workspace)s and m.memory_id = h.memory_id
order by h.rank
"""


def agreement(conn: Conn, questions: Sequence[Question]) -> dict[str, float]:
    """Share of the exhaustive top ten that the lexical arm finds, alone and unranked.

    Mean over questions, and the share of questions with all ten. A memory that ties with the tenth
    is as good as it.
    """
    shares = []
    for question in questions:
        given = {"workspace": question.workspace, "text": question.text}
        scores: dict[int, float] = dict(conn.execute(_EXHAUSTIVE.encode(), given).fetchall())
        if scores:
            tenth = list(scores.values())[:10][-1] * (1 - 1e-6)
            found = [number for (number,) in conn.execute(_BOUNDED.encode(), given)]
            good = sum(scores.get(number, 0) >= tenth for number in found[:10])
            shares.append(good / min(10, len(scores)))
    return {
        "top10": round(sum(shares) / max(1, len(shares)), 4),
        "complete": round(sum(s == 1 for s in shares) / max(1, len(shares)), 4),
        "questions": len(shares),
    }


def owned(bench: Bench, questions: Sequence[Question]) -> dict[str, Any]:
    """recall in the big workspace as if some of its rows had an owner, beside recall as it is.

    Every row is then looked at for whose it is; here all are everybody's.
    """
    known = cases(bench.space_no, bench.vector_schema)["recall"]
    with (
        bench.session() as plain,
        bench.session() as scoped,
        scoped.transaction(force_rollback=True),
    ):
        scoped.execute("update remem.workspace set scoped = true where workspace = %s", [BIG])
        taken = interleaved([("plain", plain, known), ("owned", scoped, known)], questions)
    found: dict[str, Any] = {name: times(values) for name, values in taken.items()}
    return found | {"ratio": ratio(found["owned"], found["plain"])}


def half_and_fresh(bench: Bench, asked: int, rounds: int) -> dict[str, Any]:
    """A copy of the big workspace whose half is superseded, beside a fresh load of what remains.

    Each has a space, and so a vector table and an index, of its own. recall@10 counts the rows
    that questions about remaining rows are about; p50 is measured before and after VACUUM.
    """
    spaces = {}
    for name in (HALF, FRESH):
        space = f"{bench.space}-{name.removeprefix('scale:')}"
        spaces[name] = scale_load.new_space(bench.conn, space)
        scale_load.forget_workspace(bench.conn, name, spaces[name])
        scale_load.open_workspaces(bench.conn, [name], space)
        rebuild = scale_load.drop_index(bench.conn, spaces[name])
        rows = _copy(bench, name)
        bench.timed(f"load {name}", _loader(bench, rows, spaces[name]))
        bench.timed(f"index {name}", _builder(bench, rebuild))
    scale_load.settle(bench.conn)
    bench.timed("supersede", lambda: supersede(bench.conn, HALF, lambda n: not remains(bench, n)))
    questions = [
        q for q in bench.corpus.questions("big", 4 * asked)
        if q.about and all(remains(bench, int(ref[1:])) for ref in q.about)
    ][:asked]  # fmt: skip
    found: dict[str, Any] = {"questions": len(questions)}
    for state in ("before_vacuum", "after_vacuum"):
        if state == "after_vacuum":
            bench.timed("vacuum after superseding", lambda: scale_load.settle(bench.conn))
        found[state] = _compare(bench, spaces, questions, rounds)
    return found


def supersede(conn: Conn, workspace: str, wanted: Callable[[int], bool]) -> int:
    """Supersedes live rows by the number in their ref, in bulk, the way a new version does."""
    rows = conn.execute(
        "select m.memory_no, m.ref from remem.memory m where m.workspace = %s"
        " and m.superseded_at is null and m.forgotten_at is null",
        [workspace],
    ).fetchall()
    numbers = sorted(no for no, ref in rows if wanted(int(ref[1:])))
    for i in range(0, len(numbers), 2000):
        batch = numbers[i : i + 2000]
        with conn.transaction():
            conn.execute(
                "update remem.memory m set superseded_at = now(), superseded_by = m.memory_id,"
                " updated_at = now(), changed_xid = pg_current_xact_id()"
                " where m.workspace = %s and m.memory_no = any (%s::bigint[])",
                [workspace, batch],
            )
            conn.execute("select remem._retire(%s, %s::bigint[])", [workspace, batch])
    return len(numbers)


def remains(bench: Bench, number: int) -> bool:
    """Every other turn of the big workspace remains."""
    return bool(bench.corpus.layout.place[number] % 2 == 0)


def _copy(bench: Bench, workspace: str) -> Iterator[Row]:
    for row in bench.corpus.rows():
        if row.workspace == BIG and (workspace == HALF or remains(bench, row.number)):
            yield replace(row, workspace=workspace)


def _loader(bench: Bench, rows: Iterator[Row], space_no: int) -> Callable[[], Any]:
    return lambda: scale_load.load(bench.conn, rows, space_no, documents=False)


def _builder(bench: Bench, statement: str) -> Callable[[], Any]:
    return lambda: scale_load.build_index(bench.conn, statement)


def _compare(
    bench: Bench, spaces: dict[str, int], questions: Sequence[Question], rounds: int
) -> dict[str, Any]:
    bench.progress("recall over the superseded half and the fresh load")
    sides = {"half": HALF, "fresh": FRESH}
    recall = cases(spaces[HALF], bench.vector_schema)["recall"]
    ten = replace(recall, query=recall.query.replace(b"real[], 8)", b"real[], 10)"))
    taken = {side: Taken() for side in sides}
    found: dict[str, list[set[str]]] = {side: [] for side in sides}
    with bench.session() as conn:
        for question in questions:
            one = {side: [replace(question, workspace=name)] for side, name in sides.items()}
            for side, asked in one.items():
                found[side].append({str(row[2]) for row in ten.ask(conn, asked[0])})
            for _ in range(rounds):
                for side, asked in one.items():
                    taken[side] += interleaved([(side, conn, recall)], asked)[side]
    result: dict[str, Any] = {side: times(values) for side, values in taken.items()}
    for side, hits in found.items():
        shares = [len(q.about & h) / min(10, len(q.about))
                  for q, h in zip(questions, hits, strict=True)]  # fmt: skip
        result[side]["recall@10"] = round(sum(shares) / max(1, len(shares)), 4)
    result["p50_ratio"] = ratio(result["half"], result["fresh"])
    result["cpu_ratio"] = ratio(result["half"], result["fresh"], "cpu_p50_ms")
    result["same_top10"] = round(
        sum(len(a & b) / max(1, len(b)) for a, b in zip(found["half"], found["fresh"], strict=True))
        / max(1, len(questions)),
        4,
    )
    return result
