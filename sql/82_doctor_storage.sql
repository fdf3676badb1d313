-- doctor: indexes, memory, tables, the log of recalls, upkeep. About the whole database only.

create or replace function remem._doctor_vector_indexes(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_index record;
  v_status text;
  v_detail text;
  v_remedy text;
begin
  for v_index in select * from remem._vector_indexes() loop
    v_status := 'ok';
    v_detail := format('%s, %s, used %s times since the statistics were reset', v_index.state, pg_size_pretty(v_index.index_bytes), v_index.scans);
    v_remedy := null;
    if v_index.state = 'invalid' then
      v_status := 'error';
      v_detail := 'invalid: its build failed or was interrupted, and no recall can use it';
      v_remedy := format('reindex index concurrently remem.embedding_%s_hnsw_idx;', v_index.space_no);
    elsif v_index.state = 'missing' and v_index.used then
      v_status := 'error';
      v_detail := format('missing: every recall in this space compares all of its %s vectors', v_index.vectors);
      v_remedy := format('create index concurrently embedding_%1$s_hnsw_idx on remem.embedding_%1$s using hnsw'
        ' (embedding @extschema:vector@.halfvec_cosine_ops);', v_index.space_no);
    elsif v_index.state = 'missing' then
      v_detail := 'not built yet: that comes after the load, before the space is used';
    -- Where an index pays by the rule of remem._arm_vectors, and vectors were asked for.
    elsif v_index.state = 'valid' and v_index.scans = 0 and v_index.largest > 900
        and v_index.largest::float8 * v_index.largest > 900.0 * v_index.vectors and remem._compares_vectors(v_index.space_no, v_index.largest_workspace) then
      v_status := 'warning';
      v_detail := format('valid but not used: recalls in %s (%s vectors) went past it; without statistics the planner does not know what it is worth',
        v_index.largest_workspace, v_index.largest);
      v_remedy := format('analyze remem.embedding_%s;', v_index.space_no);
    end if;
    return next ('vector_index:' || v_index.space, v_status, v_detail, v_remedy)::remem.check_row;
  end loop;
end
$$;
comment on function remem._doctor_vector_indexes(text) is 'The HNSW index of each space.';

-- Whether recalls have looked for vectors in a workspace lately, as far as the log or the server's statistics say.
create or replace function remem._compares_vectors(space_no int, workspace text) returns boolean
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select exists (
      select from (
        select l.arms from remem.recall_log l
        where l.workspace = _compares_vectors.workspace and l.at > now() - interval '7 days' order by l.at desc limit 100) l
      where l.arms -> 'vector' ->> 'state' = 'completed')
    or coalesce((select s.seq_scan >= 50 from pg_stat_all_tables s
      where s.schemaname = 'remem' and s.relname = format('embedding_%s', _compares_vectors.space_no)), false)
$$;
comment on function remem._compares_vectors(int, text) is 'Whether vectors of a workspace were asked for lately.';

create or replace function remem._doctor_indexes(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return query select 'indexes', case when count(*) > 0 then 'error' else 'ok' end,
    case when count(*) > 0 then string_agg(format('%s is %s', f.index, f.reason), ', ' order by f.index)
      else format('all %s of the tables are there and valid', (select count(*) from remem._expected_indexes())) end,
    (array_agg(f.command order by f.index))[1]
  from remem._index_faults() f;
end
$$;
comment on function remem._doctor_indexes(text) is 'Missing and invalid indexes.';

-- What the owner's sessions have, for it is the owner who builds indexes; the caller's otherwise.
create or replace function remem._owner_setting(name text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce((
    select split_part(c, '=', 2)
    from pg_db_role_setting s cross join lateral unnest(s.setconfig) c
    where s.setrole in (0, (select r.oid from pg_roles r where r.rolname = current_user))
      and s.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
      and split_part(c, '=', 1) = _owner_setting.name
    order by s.setrole = 0, s.setdatabase = 0 limit 1), current_setting(_owner_setting.name))
$$;
comment on function remem._owner_setting(text) is 'A setting as new sessions of the owner have it.';

-- A search reads a few hundred places of its index, all over it.
create or replace function remem._hnsw_memory(indexes bigint, buffers bigint) returns remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_large boolean := indexes > buffers;
  v_enough text := format('%sMB', (2 ^ ceil(log(2, greatest(indexes * 1.25 / 1048576, 1)::numeric)))::bigint);
begin
  return ('hnsw_memory', case when v_large then 'warning' else 'ok' end,
    format('vector indexes in use take %s, shared_buffers %s%s', pg_size_pretty(indexes), pg_size_pretty(buffers),
      case when v_large then ': recalls read from disk; raise it and restart the server' end),
    case when v_large then format('alter system set shared_buffers = %L;', v_enough) end)::remem.check_row;
end
$$;
comment on function remem._hnsw_memory(bigint, bigint) is 'Whether vector indexes fit into the server''s memory.';

create or replace function remem._doctor_memory(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_has bigint := pg_size_bytes(remem._owner_setting('maintenance_work_mem'));
  v_need record;
  v_enough text;
begin
  select i.space, i.vectors, remem._hnsw_build_bytes(i.dimensions, i.vectors) as bytes into v_need
  from remem._vector_indexes() i order by 3 desc, i.space_no limit 1;
  -- The next power of two above what is needed and a tenth more.
  v_enough := format('%sMB', (2 ^ ceil(log(2, greatest(v_need.bytes * 1.1 / 1048576, 1)::numeric)))::bigint);
  return next ('maintenance_work_mem', case when v_need.bytes > v_has then 'warning' else 'ok' end,
    format('%s; building the vector index of %s (%s vectors) takes about %s%s', pg_size_pretty(v_has), v_need.space, v_need.vectors,
      pg_size_pretty(v_need.bytes), case when v_need.bytes > v_has then ': with less it takes many times as long' end),
    case when v_need.bytes > v_has then format('alter role %I set maintenance_work_mem = %L;', current_user, v_enough) end)::remem.check_row;

  return next remem._hnsw_memory((select coalesce(sum(i.index_bytes), 0)::bigint from remem._vector_indexes() i where i.used),
    pg_size_bytes(current_setting('shared_buffers')));
end
$$;
comment on function remem._doctor_memory(text) is 'Memory for building and for searching vector indexes.';

create or replace function remem._doctor_tables(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_due record;
  v_bytes bigint;
  v_big text;
begin
  for v_due in
    select k.check_name, k.fine, d.n, d.what, k.verb || d.relations || ';' as command
    from (values ('statistics', 'analyze', 'analyze ', 'the planner has statistics of every table'),
      ('vacuum', 'vacuum', 'vacuum (analyze) ', 'no table waits for a vacuum')) k (check_name, task, verb, fine)
    cross join lateral (
      select count(*) as n, string_agg(s.relation || ': ' || s.reason, '; ') as what, string_agg(s.relation, ', ') as relations
      from remem._storage_due() s where s.task = k.task) d
  loop
    return next (v_due.check_name, case when v_due.n > 0 then 'warning' else 'ok' end, case when v_due.n > 0
      then left(v_due.what, 300) else v_due.fine end, v_due.command)::remem.check_row;
  end loop;
  if current_setting('autovacuum') = 'off' or current_setting('track_counts') = 'off' then
    return next ('autovacuum', 'warning', 'autovacuum or track_counts is off: tables are never cleaned and no statistics are kept',
      'alter system set autovacuum = on;')::remem.check_row;
  end if;
  select sum(pg_total_relation_size(c.oid)) into v_bytes from pg_class c where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r';
  select string_agg(format('%s %s', t.relname, pg_size_pretty(t.bytes)), ', ' order by t.bytes desc) into v_big
  from (select c.relname, pg_total_relation_size(c.oid) as bytes from pg_class c
    where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r' order by 2 desc limit 4) t;
  return next ('size', 'ok', format('%s of the database''s %s: %s', pg_size_pretty(v_bytes), pg_size_pretty(pg_database_size(current_database())), v_big),
    null)::remem.check_row;
end
$$;
comment on function remem._doctor_tables(text) is 'Statistics, vacuum, sizes.';

-- From a sample of the log: the latest rows of each workspace, fewer the more workspaces there are.
create or replace function remem._doctor_recalls(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_slow constant float8 := 500;
  v_each int := greatest(20000 / greatest((select count(*) from remem.workspace), 1), 4)::int;
  v_log record;
begin
  select count(*) as n, count(*) filter (where l.tier in ('hot', 'warm')) as cached, count(*) filter (where l.tier = 'hot') as hot,
    count(*) filter (where l.failed) as failed, mode() within group (order by l.workspace) filter (where l.failed) as failing,
    percentile_cont(0.5) within group (order by l.ms) filter (where l.tier = 'cold') as p50,
    percentile_cont(0.95) within group (order by l.ms) filter (where l.tier = 'cold') as p95
  into v_log
  from (
    select w.workspace, r.tier, remem._total_ms(r.timings) as ms,
      exists (select from jsonb_each(r.arms) a where a.value ->> 'state' = 'failed') as failed
    from remem.workspace w cross join lateral (
      select l.tier, l.timings, l.arms from remem.recall_log l
      where l.workspace = w.workspace and l.at > now() - interval '1 day' order by l.at desc limit v_each) r) l;
  return next ('recall_latency', case when v_log.p95 > c_slow then 'warning' else 'ok' end, case
    when v_log.n = 0 then 'no recall was logged in the last 24 hours'
    when v_log.p95 is null then format('%s recalls in the last 24 hours (a sample), none of them timed and cold', v_log.n)
    else format('half of the cold recalls of the last 24 hours took %s ms or less, 95 in 100 %s ms or less (a sample of %s)',
      round(v_log.p50::numeric, 1), round(v_log.p95::numeric, 1), v_log.n) end,
    case when v_log.p95 > c_slow then 'select * from remem.recall_latency order by p95_ms desc limit 20;' end)::remem.check_row;
  return next ('recall_failures', case when v_log.failed > 0 then 'warning' else 'ok' end, case when v_log.failed > 0
    then format('an arm failed in %s of %s recalls of the last 24 hours (a sample), mostly in %s', v_log.failed, v_log.n, v_log.failing)
    else 'no arm failed in the recalls of the last 24 hours' end,
    case when v_log.failed > 0 then format('select at, arms from remem.recall_log where workspace = %L and arms::text like ''%%failed%%'' order by at desc limit 5;', v_log.failing) end)::remem.check_row;
  return next ('cache', 'ok', format('%s; the cache takes %s', case when v_log.n = 0 then 'nothing asked of it in the last 24 hours'
    else format('answers %s in 100 recalls of the last 24 hours (%s the same question, %s a similar one; a sample of %s)',
      round(100.0 * v_log.cached / v_log.n), v_log.hot, v_log.cached - v_log.hot, v_log.n) end,
    pg_size_pretty(pg_total_relation_size('remem.query_cache'))), null)::remem.check_row;
end
$$;
comment on function remem._doctor_recalls(text) is 'Latency, failures and hit rate of the logged recalls.';

create or replace function remem._doctor_upkeep(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_days int := remem._recall_log_days();
  v_oldest timestamptz;
  v_overdue boolean;
  v_last record;
begin
  v_oldest := (select min(l.at) from remem.workspace w cross join lateral (
    select l.at from remem.recall_log l where l.workspace = w.workspace order by l.at limit 1) l);
  v_overdue := coalesce(v_oldest < now() - make_interval(days => v_days + 2), false);
  return next ('recall_log', case when v_overdue then 'warning' else 'ok' end, format('%s, %s, kept for %s days%s',
    pg_size_pretty(pg_total_relation_size('remem.recall_log')), coalesce('since ' || v_oldest::date, 'empty'), v_days,
    case when v_overdue then ': older rows wait for upkeep' end), case when v_overdue then 'remem maintain' end)::remem.check_row;
  select m.* into v_last from remem.maintenance_run m order by m.started_at desc limit 1;
  return next ('upkeep', case when v_last.finished = false then 'warning' else 'ok' end, case when v_last.run_id is null then 'remem.maintain has not run yet'
    else format('remem.maintain last ran at %s, for %s s%s', v_last.started_at, round(v_last.seconds::numeric, 1),
      case when not v_last.finished then ', which was not enough' end) end,
    case when v_last.finished = false then 'remem maintain --budget 300' end)::remem.check_row;
end
$$;
comment on function remem._doctor_upkeep(text) is 'Retention of the log, the last maintain.';
