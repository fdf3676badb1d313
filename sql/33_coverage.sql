-- How far the spaces are: coverage, what is left to do, what could not be done. Readers only.

-- By its number alone: with the condition that it lives, the planner takes the partial indexes of live rows for tiny
-- before ANALYZE, and would read one of them instead of the row.
create or replace function remem._is_live_memory(workspace text, memory_no bigint) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return coalesce((
    select m.superseded_at is null and m.forgotten_at is null from remem.memory m
    where m.workspace = _is_live_memory.workspace and m.memory_no = _is_live_memory.memory_no), false);
end
$$;
comment on function remem._is_live_memory(text, bigint) is 'Whether a memory is there, not superseded and not forgotten.';

-- How many live memories of a space are known to have no direction, and so no vector.
create or replace function remem._empty_texts(workspace text, space_no int) returns bigint
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select count(*)
  from remem.embedding_claim c
  where c.workspace = _empty_texts.workspace and c.space_no = _empty_texts.space_no and c.kind = 'memory' and c.state = 'empty'
    and case when c.kind = 'memory' then remem._is_live_memory(c.workspace, c.source::bigint) end
$$;
comment on function remem._empty_texts(text, int) is 'Live memories whose text has no vector in a space.';

-- What a space is for one workspace.
create or replace function remem._space_state(workspace remem.workspace, space_no int) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case space_no when workspace.space_no then 'active' when workspace.next_space_no then 'building' else 'retired' end
$$;
comment on function remem._space_state(remem.workspace, int) is 'active, building or retired, as one workspace sees a space.';

-- Two sums over the ledger of counts, the claims, and a probe for each topic and provider.
create or replace function remem._coverage(workspace text, space_no int) returns remem.embedding_coverage
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space := remem._space(space_no);
  v_result remem.embedding_coverage;
  v_row remem.workspace;
begin
  if v_space.space_no is null then
    return null;
  end if;
  select w.* into v_row from remem.workspace w where w.workspace = _coverage.workspace;
  v_result.space := v_space.name;
  v_result.fingerprint := v_space.fingerprint;
  v_result.state := remem._space_state(v_row, space_no);
  v_result.cutover := case v_result.state when 'active' then 'completed' else 'building' end;
  v_result.activated := false;
  v_result.index_state := remem._space_index(space_no);
  select count(*), count(*) filter (where has) into v_result.total, v_result.embedded
  from (
    select exists (select from remem.topic_embedding e
      where e.workspace = t.workspace and e.space_no = _coverage.space_no and e.topic_no = t.topic_no)
    from remem.topic t where t.workspace = _coverage.workspace and remem._topic_is_live(t)
    union all
    select exists (select from remem.provider_embedding e
      where e.workspace = p.workspace and e.space_no = _coverage.space_no and e.provider_id = p.provider_id)
    from remem.provider p where p.workspace = _coverage.workspace
  ) c (has);
  v_result.total := v_result.total + (remem._count_tally(workspace, 0)).n;
  v_result.embedded := v_result.embedded + (remem._count_tally(workspace, space_no)).n;
  select count(*) filter (where c.state = 'claimed' and c.due_at > clock_timestamp()),
    count(*) filter (where c.state = 'waiting' or c.state = 'claimed' and c.due_at <= clock_timestamp()),
    count(*) filter (where c.state = 'set_aside'), count(*) filter (where c.state = 'empty')
  into v_result.claimed, v_result.waiting, v_result.set_aside, v_result.empty
  from remem.embedding_claim c
  where c.workspace = _coverage.workspace and c.space_no = _coverage.space_no
    and case c.kind
      when 'memory' then remem._is_live_memory(c.workspace, c.source::bigint)
      when 'topic' then exists (select from remem.topic t where t.workspace = c.workspace and t.topic_no = c.source::bigint
        and remem._topic_is_live(t))
      else exists (select from remem.provider p where p.workspace = c.workspace and p.provider_id = c.source) end;
  v_result.pending := greatest(v_result.total - v_result.embedded - v_result.empty - v_result.set_aside, 0);
  return v_result;
end
$$;
comment on function remem._coverage(text, int) is 'How much of a workspace has a vector in a space.';

create or replace function remem.embedding_backlog(workspace text, space text default null) returns setof remem.embedding_coverage
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_space_no int;
begin
  perform remem._authorize(workspace, 'read');
  if space is not null then
    v_space := remem._find_space(space);
  end if;
  for v_space_no in
    select n from remem.workspace w cross join lateral unnest(array[w.space_no, w.next_space_no]) with ordinality u (n, place)
    where w.workspace = embedding_backlog.workspace and space is null and n is not null
    union all
    select v_space.space_no where v_space.space_no is not null
  loop
    return next remem._coverage(workspace, v_space_no);
  end loop;
end
$$;
comment on function remem.embedding_backlog(text, text) is
  'How much of a workspace has a vector, in its current space and in the one in building (or in the named one): total memories, topics and providers; embedded; empty (texts without a direction, which have no vector); pending, of which claimed are being embedded and waiting for another try; set_aside after too many failures. cutover is completed for the current space, building otherwise.';

create or replace function remem.embedding_work(space text default null, "limit" int default 1000) returns setof text
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tenant text;
  v_space remem.embedding_space;
begin
  perform remem._authorize_any();
  -- Names only, and of workspaces in which the caller works: strict mode asks for the setting when it works there.
  v_tenant := nullif(current_setting('remem.workspace', true), '');
  if "limit" is null or "limit" not between 1 and 100000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 100000), 'Between 1 and 100000');
  end if;
  if space is not null then
    v_space := remem._find_space(space);
  end if;
  return query
    select w.workspace
    from remem.workspace w cross join lateral (select coalesce(w.next_space_no, w.space_no) as space_no offset 0) t
    where (v_tenant is null or w.workspace = v_tenant)
      and remem._is_granted(w.workspace, 'worker')
      and (v_space.space_no is null or v_space.space_no in (w.space_no, w.next_space_no))
      and (w.next_space_no is not null
        or (select coalesce(sum(case y.space_no when 0 then y.rows_delta else -y.rows_delta end), 0) from remem.tally y
            where y.workspace = w.workspace and y.space_no in (0, w.space_no))
          > (select count(*) from remem.embedding_claim c
             where c.workspace = w.workspace and c.space_no = w.space_no and c.kind = 'memory' and c.due_at = 'infinity')
        or exists (select from remem.topic p where p.workspace = w.workspace
          -- A look-up a topic, also without statistics; what it stands for is looked at where there is none.
          and case when (select exists (select from remem.topic_embedding e
              where e.workspace = p.workspace and e.space_no = w.space_no and e.topic_no = p.topic_no))
            then false else remem._topic_is_live(p) end
          and not (select exists (select from remem.embedding_claim c where c.workspace = p.workspace and c.space_no = w.space_no
            and c.kind = 'topic' and c.source = p.topic_no::text and c.due_at = 'infinity')))
        or exists (select from remem.provider p where p.workspace = w.workspace
          and not exists (select from remem.provider_embedding e
            where e.workspace = p.workspace and e.space_no = w.space_no and e.provider_id = p.provider_id)
          and not exists (select from remem.embedding_claim c where c.workspace = p.workspace and c.space_no = w.space_no
            and c.kind = 'provider' and c.source = p.provider_id and c.due_at = 'infinity')))
    order by w.workspace
    limit "limit";
end
$$;
comment on function remem.embedding_work(text, int) is
  'The workspaces in which the caller may work and something lacks its vector, or a move to another space is not finished: what a worker for several workspaces asks at each turn. space leaves only those that use it or move to it. With remem.workspace set only that workspace; strict mode does not ask for it here, because names are all this tells.';

create or replace function remem.embedding_problems(workspace text, space text default null, "limit" int default 100)
returns setof remem.embedding_problem
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
begin
  perform remem._authorize(workspace, 'read');
  if "limit" is null or "limit" not between 1 and 10000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 10000), 'Between 1 and 10000');
  end if;
  if space is not null then
    v_space := remem._find_space(space);
  end if;
  return query
    select s.name, c.kind,
      case c.kind
        when 'memory' then (select m.memory_id::text from remem.memory m where m.workspace = c.workspace and m.memory_no = c.source::bigint)
        when 'topic' then (select t.topic_id::text from remem.topic t where t.workspace = c.workspace and t.topic_no = c.source::bigint)
        else c.source end,
      c.state, c.failures, c.abandoned, c.last_error, nullif(c.due_at, 'infinity'), c.updated_at
    from remem.embedding_claim c join remem.embedding_space s on s.space_no = c.space_no
    where c.workspace = embedding_problems.workspace and (v_space.space_no is null or c.space_no = v_space.space_no)
      and (c.state = 'set_aside' or c.state = 'waiting' and c.failures + c.abandoned > 0)
    order by c.state, c.updated_at desc, c.kind, c.source
    limit "limit";
end
$$;
comment on function remem.embedding_problems(text, text, int) is
  'Rows that could not be embedded: set_aside after too many failures, waiting for another try. retry_embeddings brings those set aside back.';

create or replace function remem.embedding_runs(workspace text, "limit" int default 20) returns setof remem.job_run_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  if "limit" is null or "limit" not between 1 and 10000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 10000), 'Between 1 and 10000');
  end if;
  return query
    select r.run_id, r.kind, r.state, s.name, r.claimed, r.embedded, r.failed, r.last_error, r.metadata, r.started_at, r.updated_at,
      r.completed_at
    from remem.job_run r left join remem.embedding_space s on s.space_no = r.space_no
    where r.workspace = embedding_runs.workspace
    order by r.started_at desc, r.run_id
    limit "limit";
end
$$;
comment on function remem.embedding_runs(text, int) is
  'The latest runs of the jobs (embedding-reembed, text-reindex) and switches of space (space-activation), newest first; space is null where it was dropped, and of jobs about no space.';

create or replace function remem.list_spaces(workspace text default null) returns setof remem.space_status
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
  v_whole boolean;
begin
  if workspace is null then
    perform remem._authorize_admin();
  else
    perform remem._authorize(workspace, 'read');
  end if;
  -- Sizes and other workspaces are nobody's business who may not read them all.
  v_whole := remem._is_granted('', 'read');
  select w.* into v_row from remem.workspace w where w.workspace = list_spaces.workspace;
  return query
    select s.name, s.fingerprint, s.backend, s.dimensions, s.state,
      case when u.state <> 'retired' or v.n > 0 then u.state end, m.n, v.n,
      case when m.n > 0 then least(v.n::float8 / m.n, 1) end,
      (select count(*) from remem.embedding_claim c where c.space_no = s.space_no and c.state = 'set_aside'
        and (list_spaces.workspace is null or c.workspace = list_spaces.workspace)),
      case when v_whole then (select count(*) from remem.workspace w where w.space_no = s.space_no or w.next_space_no = s.space_no) end,
      remem._space_index(s.space_no),
      case when v_whole then coalesce(pg_relation_size(to_regclass(format('remem.embedding_%s_hnsw_idx', s.space_no))), 0) end,
      case when v_whole then pg_table_size(to_regclass(format('remem.embedding_%s', s.space_no))) end
    from remem.embedding_space s
    cross join lateral (select remem._space_state(v_row, s.space_no) as state where v_row.workspace is not null
      union all select null where v_row.workspace is null) u
    cross join lateral (select coalesce(sum(t.rows_delta), 0)::bigint as n from remem.tally t
      where t.space_no = s.space_no and (list_spaces.workspace is null or t.workspace = list_spaces.workspace)) v
    cross join lateral (select coalesce(sum(t.rows_delta), 0)::bigint as n from remem.tally t
      where t.space_no = 0 and (t.workspace = list_spaces.workspace
        or list_spaces.workspace is null and t.workspace in (select w.workspace from remem.workspace w
          where w.space_no = s.space_no or w.next_space_no = s.space_no))) m
    order by s.space_no;
end
$$;
comment on function remem.list_spaces(text) is
  'Every embedding space: its state in the database (building, active, retired) and in one workspace, memories that should have a vector there and those that have one, rows set aside, how many workspaces use it or move to it, its index and its sizes in bytes (null for a role that may not read all workspaces). workspace null counts all of them, for administrators of the database.';
