-- maintain: what nobody waits for. Bounded by a budget, in batches, past rows that somebody holds, one at a time.
-- Plans are made while the tables are small and kept for the session: without enable_seqscan = off they would read
-- whole tables later.
--
-- Nothing has to be done about memories past their valid_to: recall leaves them out by itself, and as_of finds them.

create or replace function remem._recall_log_days() returns int
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce((select s.value::int from remem.setting s where s.name = 'recall_log_days'), 30)
$$;
comment on function remem._recall_log_days() is 'How many days of recall_log are kept.';

-- Claims whose lease ended: as the next job would, but for workspaces in which none runs. Counted as abandoned, and
-- set aside after the tenth time.
create or replace function remem._maintain_claims(until timestamptz, out n bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_batch constant int := 1000;
  v_count bigint;
begin
  n := 0; done := false;
  while clock_timestamp() < until loop
    with lost as materialized (
      select c.workspace, c.space_no, c.kind, c.source from remem.embedding_claim c
      where c.state = 'claimed' and c.due_at < clock_timestamp() limit c_batch for update skip locked
    )
    update remem.embedding_claim c
    set abandoned = c.abandoned + 1, state = case when c.abandoned >= 9 then 'set_aside' else 'waiting' end,
        due_at = case when c.abandoned >= 9 then 'infinity' else clock_timestamp() end, last_error = 'abandoned', claim_id = null, updated_at = now()
    from lost l
    where c.workspace = l.workspace and c.space_no = l.space_no and c.kind = l.kind and c.source = l.source;
    get diagnostics v_count = row_count;
    n := n + v_count;
    done := v_count < c_batch;
    exit when done;
  end loop;
end
$$;
comment on function remem._maintain_claims(timestamptz) is 'Frees claims that were abandoned.';

-- Runs whose holder went away, and runs that nobody asks for any more: the latest twenty of each outcome stay, and
-- all of the last ninety days.
create or replace function remem._maintain_runs(until timestamptz, out n bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  c_batch constant int := 1000;
  v_count bigint;
  v_workspace record;
begin
  n := 0; done := false;
  for v_workspace in
    select w.workspace, r.runs from remem.workspace w cross join lateral (
      select array_agg(x.run_id) as runs from remem.job_run x
      where x.workspace = w.workspace and x.state = 'started' and x.lease_until < clock_timestamp()) r
    where r.runs is not null
  loop
    perform remem._recover_runs(v_workspace.workspace);
    n := n + (select count(*) from remem.job_run r
      where r.workspace = v_workspace.workspace and r.run_id = any (v_workspace.runs) and r.state = 'failed');
  end loop;
  while clock_timestamp() < until loop
    delete from remem.job_run r where r.ctid = any (array(
      select o.ctid from remem.workspace w cross join unnest(array['completed', 'failed']) s (state)
      cross join lateral (
        select x.run_id, x.started_at from remem.job_run x where x.workspace = w.workspace and x.state = s.state
        order by x.started_at desc offset 20 limit c_batch) f
      cross join lateral (
        select x.ctid from remem.job_run x where x.workspace = w.workspace and x.run_id = f.run_id for update skip locked) o
      where f.started_at < now() - interval '90 days' limit c_batch));
    get diagnostics v_count = row_count;
    n := n + v_count;
    done := v_count < c_batch;
    exit when done;
  end loop;
end
$$;
comment on function remem._maintain_runs(timestamptz) is 'Ends interrupted runs and prunes old ones.';

-- Answers that are not served any more; writers prune the cache of the workspace that they write to, nobody the others'.
create or replace function remem._maintain_cache(until timestamptz, out n bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  c_batch constant int := 5000;
  v_count bigint;
begin
  n := 0; done := false;
  while clock_timestamp() < until loop
    delete from remem.query_cache q where q.ctid = any (array(
      select o.ctid from remem.workspace w cross join lateral (
        select x.ctid from remem.query_cache x
        where x.workspace = w.workspace and x.made_at < now() - interval '5 minutes' order by x.made_at limit 1000 for update skip locked) o
      limit c_batch));
    get diagnostics v_count = row_count;
    n := n + v_count;
    done := v_count < c_batch;
    exit when done;
  end loop;
end
$$;
comment on function remem._maintain_cache(timestamptz) is 'Deletes expired answers.';

-- The next day of a workspace's log that is not in numbers yet and is over for an hour (who logs may commit late).
create or replace function remem._next_log_day(workspace text) returns date
language sql stable
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
  select (l.at at time zone 'UTC')::date
  from remem.recall_log l
  where l.workspace = _next_log_day.workspace
    and l.at >= coalesce((select max(d.day) + 1 from remem.recall_day d where d.workspace = _next_log_day.workspace), '-infinity')::timestamp at time zone 'UTC'
    and l.at < date_trunc('day', (now() - interval '1 hour') at time zone 'UTC') at time zone 'UTC'
  order by l.at limit 1
$$;
comment on function remem._next_log_day(text) is 'The first day of the log that is to be folded.';

-- One workspace's finished days in numbers. The workspace is kept from being dropped meanwhile; one that somebody
-- holds, or that is no more, has its turn another time, or none.
create or replace function remem._fold_log(workspace text, until timestamptz, out n bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  v_day date;
  v_count bigint;
begin
  n := 0; done := true;
  v_day := remem._next_log_day(workspace);
  if v_day is null then
    return;
  end if;
  perform from remem.workspace w where w.workspace = _fold_log.workspace for key share skip locked;
  if not found then
    return;
  end if;
  while v_day is not null loop
    if clock_timestamp() >= until then
      done := false;
      return;
    end if;
    insert into remem.recall_day (workspace, day, tier, recalls, empty, degraded, failed, p50_ms, p95_ms, max_ms)
    select _fold_log.workspace, v_day, l.tier, count(*), count(*) filter (where l.returned = 0), count(*) filter (where l.degraded <> '{}'),
      count(*) filter (where exists (select from jsonb_each(l.arms) a where a.value ->> 'state' = 'failed')),
      percentile_cont(0.5) within group (order by remem._total_ms(l.timings)),
      percentile_cont(0.95) within group (order by remem._total_ms(l.timings)), max(remem._total_ms(l.timings))
    from remem.recall_log l
    where l.workspace = _fold_log.workspace and l.at >= v_day::timestamp at time zone 'UTC' and l.at < (v_day + 1)::timestamp at time zone 'UTC'
    group by l.tier
    on conflict on constraint recall_day_pkey do nothing;
    get diagnostics v_count = row_count;
    n := n + v_count;
    v_day := remem._next_log_day(workspace);
  end loop;
end
$$;
comment on function remem._fold_log(text, timestamptz) is 'Sums up the finished days of a workspace''s log.';

-- Folds and prunes the log, one workspace after the other: found in the log itself, which may have rows of a workspace
-- that never was or is no more. What is pruned has been folded before.
create or replace function remem._maintain_log(until timestamptz, out folded bigint, out pruned bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  c_batch constant int := 5000;
  v_before timestamptz := now() - make_interval(days => remem._recall_log_days());
  v_workspace text := '';
  v_fold record;
  v_upto timestamptz;
  v_count bigint;
begin
  folded := 0; pruned := 0; done := false;
  loop
    v_workspace := (select l.workspace from remem.recall_log l where l.workspace > v_workspace order by l.workspace limit 1);
    if v_workspace is null then
      done := true;
      return;
    end if;
    v_fold := remem._fold_log(v_workspace, until);
    folded := folded + v_fold.n;
    v_upto := case when exists (select from remem.workspace w where w.workspace = v_workspace)
      then least(v_before, remem._next_log_day(v_workspace)::timestamp at time zone 'UTC') else v_before end;
    delete from remem.recall_day d where d.workspace = v_workspace and d.day < current_date - 730;
    loop
      if clock_timestamp() >= until then
        return;
      end if;
      delete from remem.recall_log l where l.ctid = any (array(
        select x.ctid from remem.recall_log x where x.workspace = v_workspace and x.at < v_upto order by x.at limit c_batch for update skip locked));
      get diagnostics v_count = row_count;
      pruned := pruned + v_count;
      exit when v_count < c_batch;
    end loop;
  end loop;
end
$$;
comment on function remem._maintain_log(timestamptz) is 'Sums up and prunes the log of recalls.';

-- The statistics of frequent words that are missing or old.
create or replace function remem._maintain_words(until timestamptz, out n bigint, out done boolean)
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  v_workspace text := '';
begin
  n := 0; done := false;
  while clock_timestamp() < until loop
    v_workspace := (select w.workspace from remem.workspace w where w.workspace > v_workspace order by w.workspace limit 1);
    if v_workspace is null then
      done := true;
      return;
    end if;
    n := n + case when remem._count_words(v_workspace) is null then 0 else 1 end;
  end loop;
end
$$;
comment on function remem._maintain_words(timestamptz) is 'Renews the statistics of words.';

create or replace function remem.maintain(budget interval default '30 seconds') returns setof remem.maintain_row
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_until timestamptz;
  v_done record;
  v_finished boolean := true;
  v_rows jsonb := '{}';
  v_row remem.maintain_row;
begin
  perform remem._authorize_admin();
  if budget is null or budget <= interval '0' or budget > interval '1 day' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'budget', 'value', budget), 'More than nothing, at most a day');
  end if;
  if not pg_try_advisory_xact_lock(7284, 3) then
    return next ('maintain', 'busy', 0, 'another session maintains this database at the moment', null)::remem.maintain_row;
    return;
  end if;
  v_until := v_started + budget;
  for v_row in
    select 'claims', case when t.done then 'done' else 'partial' end, t.n, 'abandoned claims were freed', null from remem._maintain_claims(v_until) t
    union all
    select 'runs', case when t.done then 'done' else 'partial' end, t.n, 'runs without a holder were ended, old ones deleted', null from remem._maintain_runs(v_until) t
    union all
    select 'cache', case when t.done then 'done' else 'partial' end, t.n, 'expired answers were deleted', null from remem._maintain_cache(v_until) t
    union all
    select 'words', case when t.done then 'done' else 'partial' end, t.n, 'statistics of frequent words were renewed', null from remem._maintain_words(v_until) t
  loop
    v_finished := v_finished and v_row.state = 'done';
    v_rows := v_rows || jsonb_build_object(v_row.task, v_row.rows);
    return next v_row;
  end loop;
  v_done := remem._maintain_log(v_until);
  v_finished := v_finished and v_done.done;
  v_rows := v_rows || jsonb_build_object('recall_day', v_done.folded, 'recall_log', v_done.pruned);
  return next ('recall_day', case when v_done.done then 'done' else 'partial' end, v_done.folded, 'days and tiers of the log were summed up', null)::remem.maintain_row;
  return next ('recall_log', case when v_done.done then 'done' else 'partial' end, v_done.pruned,
    format('rows of more than %s days ago were deleted', remem._recall_log_days()), null)::remem.maintain_row;

  delete from remem.maintenance_run m where m.started_at < (
    select o.started_at from remem.maintenance_run o order by o.started_at desc offset 99 limit 1);
  insert into remem.maintenance_run (started_at, caller, finished, rows, seconds)
  values (v_started, remem._caller(), v_finished, v_rows, extract(epoch from clock_timestamp() - v_started));
  return query
    select d.task, 'due', 0::bigint, d.relation || ': ' || d.reason, d.command from remem._storage_due() d
    union all
    select 'reindex', 'due', 0, format('%s is %s', f.index, f.reason), f.command from remem._index_faults() f
    union all
    select 'reindex', 'due', 0, format('embedding_%s_hnsw_idx is invalid', i.space_no), format('reindex index concurrently remem.embedding_%s_hnsw_idx;', i.space_no)
    from remem._vector_indexes() i where i.state = 'invalid';
end
$$;
comment on function remem.maintain(interval) is
  'Upkeep for administrators of the database, at most for about the budget: frees abandoned claims, ends interrupted runs, deletes expired answers, renews the statistics of frequent words, deletes old rows of the log (after the setting recall_log_days), whose days it sums up in recall_day before. Says of each task whether it is done or partial (call again), or busy when another session maintains. Rows with state due hold a VACUUM, ANALYZE or REINDEX that no function can run: remem maintain runs them too. Never part of a recall; run it once a day.';
