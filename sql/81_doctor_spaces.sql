-- doctor: embedding spaces, backlog and jobs.

-- Topics and providers without a vector in a workspace's current space; null where the catalog is too large to be
-- looked through in passing.
create or replace function remem._missing_entries(scope text) returns bigint
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 20000;
begin
  if _missing_entries.scope is null and (exists (select from remem.topic offset c_most) or exists (select from remem.provider offset c_most)) then
    return null;
  end if;
  return (
    select count(*) from (
      select t.workspace from remem.topic t join remem.workspace w on w.workspace = t.workspace
      where (_missing_entries.scope is null or t.workspace = _missing_entries.scope)
        and case when (select exists (select from remem.topic_embedding e  -- see catalog_without_embedding
            where e.workspace = t.workspace and e.space_no = w.space_no and e.topic_no = t.topic_no))
          then false else remem._topic_is_live(t) end
        and not (select exists (select from remem.embedding_claim c where c.workspace = t.workspace and c.space_no = w.space_no
          and c.kind = 'topic' and c.source = t.topic_no::text and c.due_at = 'infinity'))
      union all
      select p.workspace from remem.provider p join remem.workspace w on w.workspace = p.workspace
      where (_missing_entries.scope is null or p.workspace = _missing_entries.scope)
        and not (select exists (select from remem.provider_embedding e
          where e.workspace = p.workspace and e.space_no = w.space_no and e.provider_id = p.provider_id))
        and not (select exists (select from remem.embedding_claim c where c.workspace = p.workspace and c.space_no = w.space_no
          and c.kind = 'provider' and c.source = p.provider_id and c.due_at = 'infinity'))
    ) m);
end
$$;
comment on function remem._missing_entries(text) is 'Topics and providers that lack a vector.';

-- A word as a shell takes it.
create or replace function remem._shell_word(word text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when word ~ '^[A-Za-z0-9_./:@%+=,][A-Za-z0-9_./:@%+=,-]*$' then word else '''' || replace(word, '''', '''\''''') || '''' end
$$;
comment on function remem._shell_word(text) is 'A word, quoted for a shell where that is needed.';

create or replace function remem._doctor_spaces(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_row record;
  v_status text;
  v_detail text;
  v_remedy text;
  v_missing bigint := remem._missing_entries(scope);
  v_work text := case when scope is null then 'remem worker --all --once' else 'remem reembed --workspace ' || remem._shell_word(scope) end;
begin
  select s.* into v_space from remem.embedding_space s
  where s.space_no = coalesce((select w.space_no from remem.workspace w where w.workspace = scope),
    (select d.value::int from remem.setting d where d.name = 'default_space'));
  return next ('space', 'ok', format('%s: %s (%s), %s dimensions, %s, fingerprint %s%s',
    case when exists (select from remem.workspace w where w.workspace = scope) then 'current' else 'default of new workspaces' end,
    v_space.name, v_space.backend, v_space.dimensions, v_space.asset, left(v_space.fingerprint, 12),
    case when v_space.space_no = 1 then '; it compares words, not meaning' end), null)::remem.check_row;

  for v_row in
    select s.name, s.state, s.space_no, p.*, remem._is_used(s.space_no) as used,
      pg_total_relation_size(to_regclass(format('remem.embedding_%s', s.space_no))) as bytes
    from remem.embedding_space s
    left join lateral (
      select count(*) as workspaces, count(*) filter (where not e.current) as moving, sum(e.memories) as memories, sum(e.vectors) as vectors,
        -- The built-in space lacks only texts without features, but for a workspace that moves to it.
        coalesce(sum(e.pending) filter (where s.space_no <> 1 or not e.current), 0) as pending,
        count(*) filter (where e.pending > 0 and (s.space_no <> 1 or not e.current)) as behind,
        (array_agg(e.workspace order by e.pending desc))[1] as worst
      from remem.embedding_progress e where e.space_no = s.space_no and (scope is null or e.workspace = scope)
    ) p on true
    where scope is null or p.workspaces > 0
    order by s.space_no
  loop
    v_status := 'ok'; v_remedy := null;
    v_detail := format('%s memories, %s vectors in %s workspaces%s', v_row.memories, v_row.vectors, v_row.workspaces,
      case when v_row.moving > 0 then format('; %s move to this space', v_row.moving) end);
    -- The built-in space stays with nobody in it: drop_space refuses it.
    if v_row.workspaces = 0 and v_row.state = 'retired' and v_row.space_no <> 1 then
      v_status := 'warning';
      v_detail := format('nobody uses this space any more; it takes %s', pg_size_pretty(v_row.bytes));
      v_remedy := format('select remem.drop_space(%L);', v_row.name);
    elsif v_row.workspaces = 0 then
      v_detail := 'no workspace uses this space';
    elsif v_row.pending > 0 then
      v_status := 'warning';
      v_detail := format('%s of %s memories wait for their vector (%s workspaces, most in %s): recall finds them by words only%s', v_row.pending,
        v_row.memories, v_row.behind, v_row.worst, case when v_row.moving > 0 then format('; %s move to this space', v_row.moving) end);
      v_remedy := v_work;
    elsif v_row.moving > 0 then
      v_remedy := v_work;
    end if;
    return next ('embeddings:' || v_row.name, v_status, v_detail, v_remedy)::remem.check_row;
  end loop;
  return next ('catalog_embeddings', case when v_missing > 0 then 'warning' else 'ok' end, case when v_missing > 0
    then format('%s topics and providers wait for their vector', v_missing) when v_missing is null
    then 'too many topics to be counted here: ask for one workspace' else 'every topic and provider has its vector' end,
    case when v_missing > 0 then v_work end)::remem.check_row;
end
$$;
comment on function remem._doctor_spaces(text) is 'Identity, coverage and backlog of embedding spaces.';

-- The model inside the database, where somebody put one there.
create or replace function remem._doctor_model(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_model jsonb := remem._server_model();
  v_space remem.embedding_space;
  v_others bigint;
begin
  if v_model is null then
    return next case when exists (select from pg_namespace n where n.nspname = 'remem_plpython')
      then ('server_model', 'warning', 'the schema remem_plpython is not used: superusers have to own all of it', 'remem install-plpython')::remem.check_row
      else ('server_model', 'ok', 'no model in the database: clients and workers embed', null)::remem.check_row end;
    return;
  end if;
  select s.* into v_space from remem.embedding_space s where s.fingerprint = remem._fingerprint(v_model);
  v_others := (select count(*) from remem.workspace w
    where (scope is null or w.workspace = scope) and w.space_no not in (1, coalesce(v_space.space_no, 0)));
  return next ('server_model', case when v_space.space_no is null then 'warning' else 'ok' end,
    format('%s, %s dimensions: %s', v_model ->> 'name', v_model ->> 'dimensions', case
      when v_space.space_no is null then 'its space is not known any more'
      when v_others > 0 then format('SQL embeds with it where the space is %s; %s workspaces are in another', v_space.name, v_others)
      else format('SQL embeds with it in the space %s', v_space.name) end),
    case when v_space.space_no is null then 'select remem.register_space(remem_plpython.describe());' end)::remem.check_row;
end
$$;
comment on function remem._doctor_model(text) is 'The model inside the database.';

-- The last runs, what is stuck and what was set aside. The laterals are probes of job_run_state_idx, three a workspace.
create or replace function remem._doctor_jobs(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_repeatedly constant int := 3;
  v_row record;
begin
  select max(r.last_at) as last_at, (array_agg(r.state order by r.last_at desc nulls last))[1] as state, (array_agg(r.kind order by r.last_at desc nulls last))[1] as kind,
    (array_agg(r.workspace order by r.last_at desc nulls last))[1] as workspace,
    count(*) filter (where r.running) as running, count(*) filter (where r.failures >= c_repeatedly) as failing,
    (array_agg(r.workspace order by r.failures desc, r.workspace))[1] as worst, (array_agg(r.error order by r.failures desc, r.workspace))[1] as error,
    max(r.failures) as failures
  into v_row
  from (
    select w.workspace, greatest(done.started_at, failed.started_at) as last_at,
      case when failed.started_at > done.started_at or done.started_at is null then 'failed' else 'completed' end as state,
      case when failed.started_at > done.started_at or done.started_at is null then failed.kind else done.kind end as kind,
      failed.last_error as error, since.failures,
      exists (select from remem.job_run r where r.workspace = w.workspace and r.state = 'started') as running
    from remem.workspace w
    left join lateral (select r.started_at, r.kind from remem.job_run r where r.workspace = w.workspace and r.state = 'completed'
      order by r.started_at desc limit 1) done on true
    left join lateral (select r.started_at, r.kind, r.last_error from remem.job_run r where r.workspace = w.workspace and r.state = 'failed'
      order by r.started_at desc limit 1) failed on true
    cross join lateral (select count(*) as failures from (select from remem.job_run r where r.workspace = w.workspace and r.state = 'failed'
      and r.started_at > coalesce(done.started_at, '-infinity') limit 100) f) since
    where scope is null or w.workspace = scope
  ) r;
  return next ('jobs', case when v_row.failing > 0 then 'warning' else 'ok' end, case
    when v_row.failing > 0 then format('the last %s runs in %s failed, at last with %s%s', case v_row.failures when 100 then 'hundred' else v_row.failures::text end,
      v_row.worst, coalesce(v_row.error, 'no word'), case when v_row.failing > 1 then format('; so it is in %s workspaces', v_row.failing) end)
    when v_row.last_at is null then 'none has run yet'
    else format('%s running; the last one that ended: %s in %s, started %s, %s', v_row.running, v_row.kind, v_row.workspace, v_row.last_at, v_row.state) end,
    case when v_row.failing > 0 then format('select * from remem.embedding_runs(%L);', v_row.worst) end)::remem.check_row;

  select count(*) as n, min(s.workspace) as workspace, min(s.since) as since into v_row from (
    select c.workspace, c.due_at as since from remem.embedding_claim c
    where c.state = 'claimed' and c.due_at < clock_timestamp() - interval '5 minutes' and (scope is null or c.workspace = scope)
    union all
    select r.workspace, r.lease_until from remem.workspace w cross join lateral (
      select r.* from remem.job_run r where r.workspace = w.workspace and r.state = 'started' order by r.started_at limit 20) r
    where r.lease_until < clock_timestamp() - interval '5 minutes' and (scope is null or w.workspace = scope)
  ) s;
  return next ('stuck_jobs', case when v_row.n > 0 then 'warning' else 'ok' end, case when v_row.n > 0
    then format('%s claims and runs were left by jobs that went away, the oldest at %s (%s); the next job takes them over', v_row.n, v_row.since, v_row.workspace)
    else 'nothing was left by a job that went away' end,
    case when v_row.n = 0 then null when scope is null then 'remem maintain' else 'remem reembed --workspace ' || remem._shell_word(scope) end)::remem.check_row;

  select coalesce(sum(c.n), 0) as n, sum(c.trying) as trying, (array_agg(c.workspace order by c.n desc))[1] as workspace,
    (array_agg(c.error order by c.n desc))[1] as error, count(*) filter (where c.n > 0) as workspaces into v_row
  from (
    select c.workspace, count(*) filter (where c.state = 'set_aside') as n, count(*) filter (where c.state = 'waiting' and c.failures > 0) as trying,
      mode() within group (order by c.last_error) filter (where c.state = 'set_aside') as error
    from remem.embedding_claim c
    where c.state in ('set_aside', 'waiting') and (scope is null or c.workspace = scope)
    group by c.workspace) c;
  return next ('set_aside', case when v_row.n > 0 then 'warning' else 'ok' end, case
    when v_row.n > 0 then format('%s texts were set aside after too many failures (%s workspaces, most in %s: %s); they are found by words only', v_row.n,
      v_row.workspaces, v_row.workspace, coalesce(v_row.error, 'no word'))
    when v_row.trying > 0 then format('nothing was set aside; %s texts failed and are tried again', v_row.trying)
    else 'nothing was set aside' end,
    case when v_row.n > 0 then format('select remem.retry_embeddings(%L);', v_row.workspace) end)::remem.check_row;
end
$$;
comment on function remem._doctor_jobs(text) is 'Last runs, stuck jobs, poison rows.';
