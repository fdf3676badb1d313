"""Whether the derived tables say the same as the memories; ends tests that write a lot."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

_LIVE = "m.superseded_at is null and m.forgotten_at is null"

# Each query must find nothing. `posting` and `memory` are compared by analysing the text again.
_CHECKS = {
    "posting of a live memory differs from its text": f"""
        with expected as (
          select w.workspace_key, remem._word(l.lexeme), m.memory_no, m.session_no,
            least(l.tf, 32767)::smallint as tf, least(m.doc_len, 32767)::smallint as doc_len
          from remem.memory m
          join remem.workspace w on w.workspace = m.workspace
          cross join lateral remem._lexemes(
            remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags),
            remem._language_dictionaries(w.language)) l
          where {_LIVE}
        ), actual as (
          select p.workspace_key, p.word, p.memory_no, p.session_no, p.tf, p.doc_len
          from remem.posting p
        )
        (select * from expected except select * from actual)
        union all (select * from actual except select * from expected)
    """,
    "doc_len differs from the text": f"""
        select m.workspace, m.memory_no, m.doc_len, a.doc_len
        from remem.memory m
        join remem.workspace w on w.workspace = m.workspace
        cross join lateral (
          select coalesce(sum(l.tf) filter (where not l.extra), 0) as doc_len
          from remem._lexemes(
            remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags),
            remem._language_dictionaries(w.language)) l) a
        where {_LIVE} and m.doc_len <> a.doc_len
    """,
    "past posting of a live or unknown memory": f"""
        select p.workspace_key, p.memory_no from remem.posting_past p
        where not exists (select from remem.memory m join remem.workspace w using (workspace)
          where w.workspace_key = p.workspace_key
          and m.memory_no = p.memory_no and not ({_LIVE}))
    """,
    "past memory whose postings are not the lexemes it had": f"""
        select m.workspace, m.memory_no from remem.memory m
        where not ({_LIVE}) and (
          select array_agg(p.word order by p.word) from remem.posting_past p
          where p.workspace_key = remem._workspace_key(m.workspace) and p.memory_no = m.memory_no
        ) is distinct from (
          select array_agg(distinct remem._word(l) order by remem._word(l))
          from unnest(m.lexemes) l)
    """,
    "name of a live memory differs from its text": f"""
        with expected as (
          select w.workspace, e.name, e.memory_no, e.given from remem.workspace w
          cross join lateral remem._memory_names(w.workspace, array(
            select m.memory_no from remem.memory m where m.workspace = w.workspace and {_LIVE})) e
        ), actual as (select workspace, name, memory_no, given from remem.memory_entity)
        (select * from expected except select * from actual)
        union all (select * from actual except select * from expected)
    """,
    "alias of a live memory differs from its title and aliases": f"""
        with expected as (
          select w.workspace, a.name, a.other, a.memory_no from remem.workspace w
          cross join lateral remem._memory_aliases(w.workspace, array(
            select m.memory_no from remem.memory m where m.workspace = w.workspace and {_LIVE})) a
        ), actual as (select workspace, name, other, memory_no from remem.entity_alias)
        (select * from expected except select * from actual)
        union all (select * from actual except select * from expected)
    """,
    "link to itself or to a memory that does not exist": """
        select r.workspace, r.src_no, r.dst_no from remem.relation r
        where r.src_no = r.dst_no or (select count(*) from remem.memory m
          where m.workspace = r.workspace and m.memory_no in (r.src_no, r.dst_no)) < 2
    """,
    "ref with more than one live memory": f"""
        select m.workspace, m.ref from remem.memory m where m.ref is not null and {_LIVE}
        group by 1, 2 having count(*) > 1
    """,
    "superseded memory without a successor": """
        select m.workspace, m.memory_no from remem.memory m
        where m.superseded_at is not null and not exists (select from remem.memory n
          where n.workspace = m.workspace and n.memory_id = m.superseded_by)
        and not exists (select from remem.tombstone t
          where t.workspace = m.workspace and t.memory_id = m.superseded_by)
    """,
    "lineage differs from what superseded what": """
        with expected as (
          select o.workspace, o.memory_no as old_no, n.memory_no as new_no, o.ref, o.fingerprint
          from remem.memory o join remem.memory n
            on n.workspace = o.workspace and n.memory_id = o.superseded_by
        ), actual as (select workspace, old_no, new_no, ref, fingerprint from remem.lineage)
        (select * from expected except select * from actual)
        union all (select * from actual except select * from expected)
    """,
    "new version under another ref": """
        select o.workspace, o.memory_no from remem.lineage l
        join remem.memory o on o.workspace = l.workspace and o.memory_no = l.old_no
        join remem.memory n on n.workspace = l.workspace and n.memory_no = l.new_no
        where l.how <> 'superseded' and n.ref is distinct from o.ref
    """,
    "list of the forgotten differs from the memories": """
        with expected as (
          select workspace, memory_no, ref, fingerprint, session_no, turn_no, forgotten_at
          from remem.memory where forgotten_at is not null
        ), actual as (
          select workspace, memory_no, ref, fingerprint, session_no, turn_no, forgotten_at
          from remem.forgotten
        )
        (select * from expected except select * from actual)
        union all (select * from actual except select * from expected)
    """,
    "row of another analysis in a workspace whose text index is called current": """
        select m.workspace, m.memory_no, m.analyser_no, w.analyser_no from remem.memory m
        join remem.workspace w on w.workspace = m.workspace and w.reindexed_to is null
        where m.analyser_no <> w.analyser_no
    """,
    "tombstone of a memory that is there": """
        select t.workspace, t.memory_id from remem.tombstone t join remem.memory m
          on m.workspace = t.workspace and (m.memory_id = t.memory_id or m.memory_no = t.memory_no)
    """,
    "attributes differ from the memory's fields": f"""
        select m.workspace, m.memory_no from remem.memory m
        where {_LIVE} and (
          (m.attrs -> 'pinned')::boolean <> m.pinned
          or (m.attrs -> 'unresolved')::boolean <> m.unresolved
          or (m.attrs ->> 'importance')::real <> m.importance
          or (m.attrs ->> 'confidence')::real is distinct from m.confidence
          or coalesce((m.attrs -> 'important')::boolean, false) <>
            (m.pinned or m.importance >= 0.8::real)
          or m.attrs ->> 'freshness' is distinct from m.freshness
          or (m.attrs ->> 'created_at')::timestamptz is distinct from m.created_at)
    """,
    "workspace that does not know of its owners": """
        select w.workspace from remem.workspace w where not w.scoped
          and exists (select from remem.memory m
            where m.workspace = w.workspace and m.scope <> 'global')
    """,
    "topic that stands for a memory which is gone or forgotten": """
        select t.workspace, t.title from remem.topic t where t.memory_no is not null
          and not exists (select from remem.memory m where m.workspace = t.workspace
            and m.memory_no = t.memory_no)
    """,
    "tally differs from the number of live memories or their length": f"""
        select w.workspace, t.n, t.doc_len, c.n, c.doc_len
        from remem.workspace w
        cross join lateral remem._count_tally(w.workspace, 0) t
        cross join lateral (
          select count(*) as n, coalesce(sum(m.doc_len), 0) as doc_len
          from remem.memory m where m.workspace = w.workspace and {_LIVE}) c
        where (t.n, t.doc_len) <> (c.n, c.doc_len)
    """,
    "session counter differs from its live turns": f"""
        select s.workspace, s.session_ref, s.turns, s.doc_len, c.turns, c.doc_len
        from remem.session s
        cross join lateral (
          select count(*) as turns, coalesce(sum(m.doc_len), 0) as doc_len from remem.memory m
          where m.workspace = s.workspace and m.session_no = s.session_no and {_LIVE}) c
        where (s.turns, s.doc_len) <> (c.turns, c.doc_len)
    """,
    "turn number above the session's last": """
        select m.workspace, m.memory_no from remem.memory m
        join remem.session s on s.workspace = m.workspace and s.session_no = m.session_no
        where m.turn_no > s.last_turn
    """,
}

_PER_SPACE = {
    "vector without its live memory": f"""
        select e.workspace, e.memory_no from remem.{{table}} e
        where not exists (select from remem.memory m where m.workspace = e.workspace
          and m.memory_no = e.memory_no and {_LIVE})
    """,
    "past vector of a live or unknown memory": f"""
        select e.workspace, e.memory_no from remem.{{past}} e
        where not exists (select from remem.memory m where m.workspace = e.workspace
          and m.memory_no = e.memory_no and not ({_LIVE}))
    """,
    "tally differs from the number of vectors": """
        select w.workspace, t.n, c.n from remem.workspace w
        cross join lateral remem._count_tally(w.workspace, {number}) t
        cross join lateral (
          select count(*) as n from remem.{table} e where e.workspace = w.workspace) c
        where t.n <> c.n
    """,
}

_HASH_VECTORS = f"""
    select m.workspace, m.memory_no from remem.memory m
    join remem.workspace w on w.workspace = m.workspace and w.space_no = 1
    cross join lateral (select remem._hash_embed(
      remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags)) as v) h
    where {_LIVE} and not 0 = all (h.v)
      and not exists (select from remem.embedding_1 e
        where e.workspace = m.workspace and e.memory_no = m.memory_no)
"""


def problems(conn: psycopg.Connection[Any]) -> list[str]:
    """Everything inconsistent in a database, in words; the owner's or a superuser's connection."""
    checks: dict[str, sql.SQL | sql.Composed] = {k: sql.SQL(v) for k, v in _CHECKS.items()}
    checks["live memory of a hash workspace without its vector"] = sql.SQL(_HASH_VECTORS)
    for (number,) in conn.execute("select space_no from remem.embedding_space").fetchall():
        for name, text in _PER_SPACE.items():
            checks[f"{name} (space {number})"] = sql.SQL(text).format(
                table=sql.Identifier(f"embedding_{number}"),
                past=sql.Identifier(f"embedding_{number}_past"),
                number=sql.Literal(number),
            )
    found = []
    for name, query in checks.items():
        rows = conn.execute(query).fetchall()
        if rows:
            found.append(f"{name}: {len(rows)} rows, e.g. {rows[0]}")
    return found
