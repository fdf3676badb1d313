"""Loads a corpus by COPY and set-based SQL; the tables are as ``remember`` would leave them.

The rows go to a staging table, are analysed by remem's own functions, and reach the tables in the
same batches and order in which writers would have brought them. ``difference_to_remember`` proves
it: it remembers a workspace again through ``remember_many`` and compares row by row.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from evals.scale_data import DIMENSIONS, Row

Conn = psycopg.Connection[tuple[Any, ...]]
BATCH = 10_000
_START = datetime(2024, 1, 1, tzinfo=UTC)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # of Postgres

# What remember would be told about a row, as its own type. The keys that stay null are not written.
_ITEM = """
  jsonb_populate_record(null::remem.memory_item, jsonb_build_object(
    'body', i.body, 'ref', i.ref, 'kind', 'episodic', 'scope', 'global', 'speaker', i.speaker,
    'session_ref', i.session_ref, 'turn_no', i.turn_no, 'occurred_at', i.occurred_at,
    'source_class', 'unspecified', 'importance', 0.5, 'pinned', false, 'unresolved', false,
    'on_conflict', 'new_version'))
"""
_ANALYSE = f"""
create table evals_scale.batch as
select nextval('remem.memory_memory_no_seq') as memory_no, i.*, {_ITEM} as item, l.*
from evals_scale.staged i
cross join lateral (
  select array_agg(x.lexeme) as lexemes, array_agg(x.tf) as tfs,
    coalesce(sum(x.tf) filter (where not x.extra), 0)::int as doc_len
  from remem._lexemes(remem._document_text(null, null, i.body, i.speaker, null, null),
    (select remem._language_dictionaries('english'))) x) l
"""
_SESSIONS = """
insert into remem.session as s
  (workspace, session_ref, turns, last_turn, doc_len, first_at, last_at)
select b.workspace, b.session_ref, count(*), max(b.turn_no), sum(b.doc_len), min(b.occurred_at),
  max(b.occurred_at)
from evals_scale.batch b group by b.workspace, b.session_ref
on conflict on constraint session_ref_unique do update
set turns = s.turns + excluded.turns, last_turn = greatest(s.last_turn, excluded.last_turn),
  doc_len = s.doc_len + excluded.doc_len, first_at = least(s.first_at, excluded.first_at),
  last_at = greatest(s.last_at, excluded.last_at)
"""
_MEMORIES = """
insert into remem.memory (workspace, memory_no, ref, kind, scope, body, source_class, session_no,
  turn_no, speaker, occurred_at, attrs, fingerprint, content_hash, doc_len, lexemes, analyser_no)
select b.workspace, b.memory_no, b.ref, 'episodic', 'global', b.body, 'unspecified', s.session_no,
  b.turn_no, b.speaker, b.occurred_at, remem._item_attrs(b.workspace, b.item),
  substr(sha256(convert_to(regexp_replace(remem._fold(concat_ws(E'\\n', b.speaker, b.body)),
    '[\\u0001-\\u0020\\u00a0\\u3000]+', ' ', 'g'), 'UTF8')), 1, 16),
  substr(sha256(convert_to((to_jsonb(b.item) - '{embedding,space,on_conflict}'::text[])::text,
    'UTF8')), 1, 16),
  b.doc_len, b.lexemes, w.analyser_no
from evals_scale.batch b
join remem.workspace w on w.workspace = b.workspace
join remem.session s on s.workspace = b.workspace and s.session_ref = b.session_ref
"""
_POSTINGS = """
insert into remem.posting (workspace_key, word, memory_no, session_no, doc_len, tf)
select w.workspace_key, remem._word(l.lexeme), b.memory_no, s.session_no, least(b.doc_len, 32767),
  least(l.tf, 32767)
from evals_scale.batch b
join remem.workspace w on w.workspace = b.workspace
join remem.session s on s.workspace = b.workspace and s.session_ref = b.session_ref
cross join lateral unnest(b.lexemes, b.tfs) l (lexeme, tf)
"""
_NAMES = """
select remem._add_entities(b.workspace, array_agg(b.memory_no order by b.memory_no))
from evals_scale.batch b group by b.workspace
"""
_TALLIES = """
insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
select b.workspace, 0, count(*), sum(b.doc_len) from evals_scale.batch b group by 1
union all
select b.workspace, %(space)s, count(*), 0 from evals_scale.batch b group by 1
"""


TEXT_INDEX = b"create index if not exists document_tsv_idx on evals_scale.document using gin (tsv)"


def prepare(conn: Conn) -> None:
    """An empty schema of the evaluation's own, for staging and for the baselines' copy.

    Raises ValueError when the database has memories: what is measured is the whole table.
    """
    if conn.execute("select from remem.memory limit 1").fetchone() is not None:
        raise ValueError("the database has memories already; give an empty one")
    conn.execute("set client_min_messages = warning; set timezone = 'UTC'")
    conn.execute("drop schema if exists evals_scale cascade; create schema evals_scale")
    conn.execute("create table evals_scale.run (key text primary key, space_no int not null)")
    conn.execute(
        'create table evals_scale.document (workspace text collate "C" not null, '
        "memory_no bigint not null, tsv tsvector not null, primary key (workspace, memory_no))"
    )


def loaded(conn: Conn, key: str) -> int | None:
    """The space number of the corpus that the database holds complete; None for another one."""
    conn.execute("set client_min_messages = warning; set timezone = 'UTC'")
    if conn.execute("select to_regclass('evals_scale.run')").fetchone() == (None,):
        return None
    row = conn.execute("select space_no from evals_scale.run where key = %s", [key]).fetchone()
    return int(row[0]) if row else None


def remember_loaded(conn: Conn, key: str, space_no: int) -> None:
    conn.execute("insert into evals_scale.run values (%s, %s)", [key, space_no])


def forget_workspace(conn: Conn, workspace: str, space_no: int) -> None:
    """Removes every row of a workspace that an earlier run left, its space's tables whole."""
    for table in ("posting", "posting_past"):
        conn.execute(
            sql.SQL("delete from remem.{} where workspace_key = remem._workspace_key(%s)").format(
                sql.Identifier(table)
            ),
            [workspace],
        )
    for table in ("memory", "memory_entity", "session", "tally", "workspace"):
        conn.execute(
            sql.SQL("delete from remem.{} where workspace = %s").format(sql.Identifier(table)),
            [workspace],
        )
    for table in (f"embedding_{space_no}", f"embedding_{space_no}_past"):
        conn.execute(sql.SQL("truncate remem.{}").format(sql.Identifier(table)))


def new_space(conn: Conn, name: str) -> int:
    """The number of a registered space that stands for a model of DIMENSIONS."""
    descriptor = {
        "name": name,
        "backend": "evals",
        "asset": name,
        "dimensions": DIMENSIONS,
        "pooling": "mean",
        "normalization": "l2",
        "dtype": "float32",
        "cosine_floor": 0.2,
        "cosine_full": 0.7,
    }
    row = conn.execute(
        "select (remem.register_space(%s::jsonb)).space_no", [json.dumps(descriptor)]
    ).fetchone()
    assert row is not None
    return int(row[0])


def open_workspaces(conn: Conn, names: Iterable[str], space: str) -> None:
    conn.execute(
        "select remem.create_workspace(w), remem.activate_space(%s, w) from unnest(%s::text[]) w",
        [space, list(names)],
    )


def load(conn: Conn, rows: Iterable[Row], space_no: int, documents: bool = True) -> int:
    """Adds rows to opened workspaces; says how many. The HNSW index may be absent meanwhile.

    ``documents`` adds them to the baselines' copy too.
    """
    count = 0
    for batch in _batches(rows):
        with conn.transaction():
            conn.execute(
                'create table evals_scale.staged (ref text, workspace text collate "C", '
                'session_ref text collate "C", turn_no int, speaker text, body text, '
                f"occurred_at timestamptz, embedding {vector_schema(conn)}.halfvec({DIMENSIONS}))"
            )
            _copy(conn, batch)
            conn.execute(_ANALYSE.encode())
            conn.execute("analyze evals_scale.batch")
            for statement in (_SESSIONS, _MEMORIES, _POSTINGS, _NAMES, _TALLIES):
                conn.execute(statement.encode(), {"space": space_no} if "%(" in statement else None)
            conn.execute(
                sql.SQL(
                    "insert into remem.{} (workspace, memory_no, embedding) "
                    "select b.workspace, b.memory_no, b.embedding from evals_scale.batch b"
                ).format(sql.Identifier(f"embedding_{space_no}"))
            )
            if documents:
                conn.execute(
                    "insert into evals_scale.document select b.workspace, b.memory_no, "
                    "to_tsvector('english', b.speaker || ': ' || b.body) from evals_scale.batch b"
                )
            conn.execute("drop table evals_scale.batch, evals_scale.staged")
        count += len(batch)
    return count


def vector_schema(conn: Conn) -> str:
    """The quoted schema of pgvector."""
    row = conn.execute(
        "select format('%I', n.nspname) from pg_extension e"
        " join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'"
    ).fetchone()
    assert row is not None
    return str(row[0])


def drop_index(conn: Conn, space_no: int) -> str:
    """Drops the HNSW index of a space; returns the statement that brings it back."""
    name = f"embedding_{space_no}_hnsw_idx"
    row = conn.execute(
        "select indexdef from pg_indexes where schemaname = 'remem' and indexname = %s", [name]
    ).fetchone()
    assert row is not None
    conn.execute(sql.SQL("drop index remem.{}").format(sql.Identifier(name)))
    return str(row[0])


def build_index(conn: Conn, statement: str, memory: str = "1500MB") -> None:
    conn.execute(sql.SQL("set maintenance_work_mem = {}").format(memory))
    conn.execute("set max_parallel_maintenance_workers = 2")
    conn.execute(statement.encode())


def settle(conn: Conn) -> None:
    """What upkeep does for a busy table: VACUUM, ANALYZE, and the words counted as maintain does.

    Again where a page of postings is not marked as visible to all, because some other session had
    an older snapshot: a read by the index alone, as a busy table has after autovacuum, needs that.
    """
    tables = conn.execute(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname in ('remem', 'evals_scale') and c.relkind = 'r'"
    ).fetchall()
    conn.execute("select count(remem.count_words(w.workspace)) from remem.workspace w")
    for _ in range(3):
        for (table,) in tables:
            conn.execute(f"vacuum (analyze) {table}".encode())
        unseen = conn.execute(
            "select relpages - relallvisible from pg_class where oid = 'remem.posting'::regclass"
        ).fetchone()
        if unseen == (0,):
            return
        time.sleep(1)


def item(row: Row) -> dict[str, Any]:
    """The row as ``remember_many`` takes it."""
    return {
        "body": row.body,
        "ref": row.ref,
        "kind": "episodic",
        "speaker": row.speaker,
        "session_ref": row.session,
        "turn_no": row.turn,
        "occurred_at": _moment(row).isoformat(),
        "embedding": [float(x) for x in row.vector],
    }


_COMPARED = {
    "memories": """
      select jsonb_agg(to_jsonb(m) - '{workspace,memory_no,memory_id,session_no,created_at,
        updated_at,changed_xid,attrs,lexemes}'::text[] || jsonb_build_object('attrs',
        m.attrs - '{workspace,created_at}'::text[], 'session', s.session_ref, 'lexemes',
        (select jsonb_agg(l order by l) from unnest(m.lexemes) l)) order by m.ref)
      from remem.memory m join remem.session s using (workspace, session_no)
      where m.workspace = %(workspace)s""",
    "postings": """
      select jsonb_agg(to_jsonb(p) - '{workspace_key,memory_no,session_no}'::text[] ||
        jsonb_build_object('ref', m.ref, 'session', s.session_ref) order by m.ref, p.word)
      from remem.posting p join remem.memory m using (memory_no)
      join remem.session s on s.workspace = m.workspace and s.session_no = p.session_no
      where m.workspace = %(workspace)s
        and p.workspace_key = remem._workspace_key(%(workspace)s)""",
    "names": """
      select jsonb_agg(to_jsonb(e) - '{workspace,memory_no}'::text[] || jsonb_build_object('ref',
        m.ref) order by m.ref, e.name)
      from remem.memory_entity e join remem.memory m using (workspace, memory_no)
      where e.workspace = %(workspace)s""",
    "sessions": """
      select jsonb_agg(to_jsonb(s) - '{workspace,session_no}'::text[] order by s.session_ref)
      from remem.session s where s.workspace = %(workspace)s""",
    "tallies": """
      select jsonb_agg(to_jsonb(t) order by t.space_no) from (
        select t.space_no, sum(t.rows_delta), sum(t.doc_len_delta) from remem.tally t
        where t.workspace = %(workspace)s group by 1) t""",
}


def difference_to_remember(conn: Conn, rows: list[Row], space: str, space_no: int) -> list[str]:
    """What differs between loaded rows (all of one workspace) and the same rows remembered.

    Nothing stays: the second workspace is rolled back. Vectors may differ by the last bit.
    """
    differing = []
    again = "scale:again"
    with conn.transaction(force_rollback=True):
        open_workspaces(conn, [again], space)
        conn.execute(
            "select count(*) from remem.remember_many(%s, %s::jsonb)",
            [again, json.dumps([item(row) for row in rows])],
        )
        for name, query in _COMPARED.items():
            found = [
                conn.execute(query.encode(), {"workspace": w}).fetchone()
                for w in (rows[0].workspace, again)
            ]
            if found[0] != found[1]:
                differing.append(name)
        table = sql.Identifier(f"embedding_{space_no}")
        far = conn.execute(
            sql.SQL(
                "select count(*) filter (where (a.embedding operator({}.<=>) b.embedding) < 1e-4)"
                " from remem.{} a"
                " join remem.memory m using (workspace, memory_no)"
                " join remem.memory n on n.workspace = %s and n.ref = m.ref"
                " join remem.{} b on b.workspace = n.workspace and b.memory_no = n.memory_no"
                " where a.workspace = %s"
            ).format(sql.SQL(vector_schema(conn)), table, table),
            [again, rows[0].workspace],
        ).fetchone()
        if far != (len(rows),):
            differing.append("vectors")
    return differing


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _moment(row: Row) -> datetime:
    return _START + timedelta(minutes=row.number)


def _copy(conn: Conn, rows: list[Row]) -> None:
    """Binary COPY, written by hand: a halfvec has no text form that is cheap to make."""
    header = struct.pack("!hh", DIMENSIONS, 0)
    with conn.cursor().copy("copy evals_scale.staged from stdin (format binary)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for row in rows:
            moment = int((_moment(row) - _EPOCH) / timedelta(microseconds=1))
            values = (
                row.ref.encode(),
                row.workspace.encode(),
                row.session.encode(),
                struct.pack("!i", row.turn),
                row.speaker.encode(),
                row.body.encode(),
                struct.pack("!q", moment),
                header + row.vector.astype(np.dtype(">f2")).tobytes(),
            )
            copy.write(
                struct.pack("!h", len(values))
                + b"".join(struct.pack("!i", len(value)) + value for value in values)
            )
        copy.write(b"\xff\xff")
