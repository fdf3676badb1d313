"""What an installation consists of, as the catalog says it: two of them can be compared."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

# Each query names what it is about in its first column. No oid, no time: nothing that two equal
# installations would differ in.
_QUERIES = {
    "schema": """
      select n.nspname, n.nspowner::regrole::text, n.nspacl::text,
        obj_description(n.oid, 'pg_namespace')
      from pg_namespace n where n.nspname = 'remem'
    """,
    "relation": """
      select c.relname, c.relkind::text, c.relowner::regrole::text, c.relacl::text,
        c.relrowsecurity, c.relforcerowsecurity, c.reloptions::text, c.relpersistence::text,
        a.amname, obj_description(c.oid, 'pg_class')
      from pg_class c left join pg_am a on a.oid = c.relam
      where c.relnamespace = 'remem'::regnamespace
    """,
    "column": """
      select c.relname || '.' || a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
        a.attnotnull, a.attidentity::text, a.attgenerated::text, a.attstorage::text,
        a.attcompression::text, l.collname, pg_get_expr(d.adbin, d.adrelid), a.attacl::text,
        col_description(c.oid, a.attnum)
      from pg_class c join pg_attribute a on a.attrelid = c.oid
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
      left join pg_collation l on l.oid = a.attcollation
      where c.relnamespace = 'remem'::regnamespace and a.attnum > 0 and not a.attisdropped
    """,
    "constraint": """
      select c.conrelid::regclass::text || '.' || c.conname, pg_get_constraintdef(c.oid),
        c.convalidated
      from pg_constraint c where c.connamespace = 'remem'::regnamespace
    """,
    "index": """
      select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid
      from pg_index i join pg_class c on c.oid = i.indrelid
      where c.relnamespace = 'remem'::regnamespace
    """,
    "sequence": """
      select s.seqrelid::regclass::text, s.seqtypid::regtype::text, s.seqstart, s.seqincrement,
        s.seqmax, s.seqmin, s.seqcache, s.seqcycle
      from pg_sequence s join pg_class c on c.oid = s.seqrelid
      where c.relnamespace = 'remem'::regnamespace
    """,
    "function": """
      select p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proowner::regrole::text,
        p.proacl::text, obj_description(p.oid, 'pg_proc')
      from pg_proc p where p.pronamespace = 'remem'::regnamespace
    """,
    "type": """
      select t.typname, t.typtype::text, t.typowner::regrole::text, t.typacl::text,
        obj_description(t.oid, 'pg_type')
      from pg_type t where t.typnamespace = 'remem'::regnamespace
    """,
    "other": """
      select p.polname, p.polrelid::regclass::text from pg_policy p
      join pg_class c on c.oid = p.polrelid where c.relnamespace = 'remem'::regnamespace
      union all
      select t.tgname, t.tgrelid::regclass::text from pg_trigger t
      join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'remem'::regnamespace
    """,
    "extension": """
      select e.extname, n.nspname, e.extversion
      from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    """,
}
# Rows that an installation puts into its tables.
_ROWS = {
    "remem.setting": "select name, value from remem.setting",
    "remem.source_class": "select name, trust, half_life::text, pinned, description "
    "from remem.source_class",
    "remem.embedding_space": "select name, to_jsonb(s) - 'created_at' from remem.embedding_space s",
    "remem.schema_migration": "select name, version, sha256, applied_by "
    "from remem.schema_migration",
}


def installation(conn: Connection) -> dict[str, tuple[Any, ...]]:
    """Everything in the schema remem, one entry an object; empty where it is not installed."""
    found: dict[str, tuple[Any, ...]] = {}
    if conn.execute("select to_regnamespace('remem') is null").fetchone() == (True,):
        return found
    for kind, query in _QUERIES.items():
        for name, *rest in conn.execute(query.encode()).fetchall():
            found[f"{kind} {name}"] = tuple(rest)
    for table, query in _ROWS.items():
        for name, *rest in conn.execute(query.encode()).fetchall():
            found[f"row of {table} {name}"] = tuple(rest)
    assert len(found) > 300, "an installation has more than this"
    return found


def database(conn: Connection) -> set[tuple[Any, ...]]:
    """Every object of the database that is not the server's own, with the version of its row."""
    rows = conn.execute(
        """
        select 'schema', n.nspname::text, n.oid, n.xmin::text from pg_namespace n
        where n.nspname !~ '^pg_(temp|toast_temp)_'
        union all
        select 'relation', c.oid::regclass::text, c.oid, c.xmin::text from pg_class c
        where c.oid >= 16384
        union all
        select 'function', p.oid::regprocedure::text, p.oid, p.xmin::text from pg_proc p
        where p.oid >= 16384
        union all
        select 'type', t.oid::regtype::text, t.oid, t.xmin::text from pg_type t
        where t.oid >= 16384
        union all
        select 'extension', e.extname::text, e.oid, e.xmin::text from pg_extension e
        union all
        select 'default privilege', d.defaclobjtype::text, d.oid, d.xmin::text from pg_default_acl d
        union all
        select 'setting', s.setconfig::text, s.setdatabase, s.xmin::text from pg_db_role_setting s
        where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        union all
        select 'event trigger', t.evtname::text, t.oid, t.xmin::text from pg_event_trigger t
        union all
        select 'operator', o.oid::regoperator::text, o.oid, o.xmin::text from pg_operator o
        where o.oid >= 16384
        union all
        select 'cast', k.castsource::regtype::text, k.oid, k.xmin::text from pg_cast k
        where k.oid >= 16384
        """
    ).fetchall()
    return set(rows)
