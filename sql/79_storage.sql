-- What of the storage is due: statistics, vacuum, indexes. The facts behind doctor, maintain and the views.

-- How long a logged recall took. A client says it: any number that JSON has may stand there.
create or replace function remem._total_ms(timings jsonb) returns float8
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select round(least(greatest((timings ->> 'total')::numeric, 0), 1e9), 3)::float8
$$;
comment on function remem._total_ms(jsonb) is 'Milliseconds of a logged recall; null where nobody said.';

-- Bytes that building an HNSW index needs per vector, measured on pgvector 0.8 with the default m = 16 (16, 384 and
-- 1536 dimensions: 748, 1484 and 3790), taken by the megabyte; beyond maintenance_work_mem a build takes many times as
-- long.
create or replace function remem._hnsw_build_bytes(dimensions int, vectors bigint) returns bigint
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select ceil(vectors * (716 + 2 * dimensions) / 1048576.0)::bigint * 1048576
$$;
comment on function remem._hnsw_build_bytes(int, bigint) is 'Memory in which an HNSW index is built at full speed.';

-- Tables that want a VACUUM or an ANALYZE. Later than autovacuum would come with its defaults, so that a row here
-- means that it did not. On a standby only what the catalog says is known, and nothing can be done.
create or replace function remem._storage_due(out task text, out relation text, out reason text, out command text) returns setof record
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_table record;
begin
  for v_table in
    select c.relname::text as name, greatest(c.reltuples, s.n_live_tup, 0) as rows, greatest(c.reltuples, 0) as known,
      coalesce(s.n_dead_tup, 0) as dead, coalesce(s.n_ins_since_vacuum, 0) as inserted, coalesce(s.n_mod_since_analyze, 0) as changed,
      c.relpages as pages, c.relallvisible as visible, age(c.relfrozenxid) as age, pg_relation_size(c.oid) as bytes,
      exists (select from pg_stats p where p.schemaname = 'remem' and p.tablename = c.relname) as analysed
    from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
    where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p'
    order by pg_relation_size(c.oid) desc, c.relname
  loop
    relation := format('remem.%I', v_table.name);
    task := 'vacuum';
    reason := case
      when v_table.age > 0.9 * current_setting('autovacuum_freeze_max_age')::bigint
        then format('its oldest transaction is %s ago', v_table.age)
      when v_table.dead > 1000 + 0.25 * v_table.rows then format('%s dead rows beside %s', v_table.dead, v_table.rows)
      when v_table.inserted > 1000 + 0.3 * v_table.known then format('%s rows since the last vacuum: no index-only scans', v_table.inserted)
      when v_table.pages > 1000 and v_table.visible < 0.5 * v_table.pages
        then format('%s of %s pages are in the visibility map', v_table.visible, v_table.pages) end;
    if reason is not null then
      command := format('vacuum (analyze) %s;', relation);
      return next;
      continue;
    end if;
    task := 'analyze';
    reason := case
      when not v_table.analysed and (v_table.rows >= 1000 or v_table.bytes >= 1048576) then 'never analysed'
      when v_table.changed > 1000 + 0.3 * v_table.known then format('%s rows changed since the last analyze', v_table.changed) end;
    if reason is not null then
      command := format('analyze %s;', relation);
      return next;
    end if;
  end loop;
end
$$;
comment on function remem._storage_due() is 'Tables with a vacuum or an analyze due, and why.';

-- Indexes that are not there as they should be, but for the vector indexes of spaces.
create or replace function remem._index_faults(out index text, out reason text, out command text) returns setof record
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return query
  select x.name, 'missing', x.definition || ';' from remem._expected_indexes() x
  where to_regclass(format('remem.%I', x.name)) is null
  union all
  select c.relname::text, 'invalid',
    -- What REINDEX CONCURRENTLY left behind is not rebuilt but dropped.
    format(case when c.relname ~ '_ccnew[0-9]*$|_ccold[0-9]*$' then 'drop index concurrently remem.%I;' else 'reindex index concurrently remem.%I;' end, c.relname)
  from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = 'remem'::regnamespace and not (i.indisvalid and i.indisready)
    and c.relname !~ '^embedding_[0-9]+_hnsw_idx$'
    and not exists (select from pg_stat_progress_create_index p where p.index_relid = i.indexrelid)
  order by 1;
end
$$;
comment on function remem._index_faults() is 'Missing and invalid indexes with what repairs them.';

-- The vector index of every space that somebody uses or moves to, with what has to be known of it.
create or replace function remem._vector_indexes(
  out space_no int, out space text, out dimensions int, out state text, out used boolean, out vectors bigint, out largest bigint,
  out largest_workspace text, out scans bigint, out index_bytes bigint
) returns setof record
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select s.space_no, s.name, s.dimensions, remem._space_index(s.space_no), u.used, coalesce(v.n, 0)::bigint, coalesce(v.largest, 0)::bigint,
    v.workspace, coalesce(i.idx_scan, 0), coalesce(pg_relation_size(i.indexrelid), 0)
  from remem.embedding_space s
  cross join lateral (select exists (select from remem.workspace w where w.space_no = s.space_no)) u (used)
  left join (
    select t.space_no, sum(t.n) as n, max(t.n) as largest, (array_agg(t.workspace order by t.n desc))[1] as workspace
    from (select t.space_no, t.workspace, sum(t.rows_delta) as n from remem.tally t where t.space_no > 0 group by 1, 2) t group by 1
  ) v on v.space_no = s.space_no
  left join pg_stat_all_indexes i on i.schemaname = 'remem' and i.indexrelname = format('embedding_%s_hnsw_idx', s.space_no)
  order by s.space_no
$$;
comment on function remem._vector_indexes() is 'The HNSW indexes of all spaces.';
