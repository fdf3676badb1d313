-- Claims: a job takes a bounded batch of texts in a short transaction and embeds them outside it.

-- The space that a job of a workspace works for: the one in building, else the current one, or the named of the two.
create or replace function remem._job_space(workspace remem.workspace, space text) returns remem.embedding_space
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
begin
  if space is null then
    return remem._space(coalesce(workspace.next_space_no, workspace.space_no));
  end if;
  v_space := remem._find_space(space);
  if v_space.space_no not in (workspace.space_no, coalesce(workspace.next_space_no, 0)) then
    perform remem._raise('RM202', jsonb_build_object('space', v_space.name, 'expected', (remem._space(workspace.space_no)).name,
      'next', (remem._space(workspace.next_space_no)).name), 'Begin the move first: select remem.start_reembed(workspace, space)');
  end if;
  return v_space;
end
$$;
comment on function remem._job_space(remem.workspace, text) is 'The space that a job fills.';

-- What is embedded of a live row now; null when there is no such row.
create or replace function remem._source_text(workspace text, kind text, source text) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return case kind
    when 'memory' then (
      select case when m.superseded_at is null and m.forgotten_at is null
        then remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags) end
      from remem.memory m where m.workspace = _source_text.workspace and m.memory_no = source::bigint)
    when 'topic' then (
      select remem._topic_text(t.title, t.aliases, t.summary, t.tags) from remem.topic t
      where t.workspace = _source_text.workspace and t.topic_no = source::bigint and remem._topic_is_live(t))
    else (
      select remem._provider_text(p) from remem.provider p
      where p.workspace = _source_text.workspace and p.provider_id = source) end;
end
$$;
comment on function remem._source_text(text, text, text) is 'The text of a memory, topic or provider that is embedded.';

-- The next memories without a vector and without a claim, after a given one. One probe for each row that is passed
-- over, whatever the statistics say: subqueries are no joins, and nothing but the primary key is left to drive them.
-- Rows that somebody writes at the moment are passed over too.
create or replace function remem._next_memories(workspace text, space_no int, after bigint, n int) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_nos bigint[];
begin
  execute format(
    'select array_agg(s.memory_no) from (
       select m.memory_no from remem.memory m
       where m.workspace = $1 and m.memory_no > $2 and m.superseded_at is null and m.forgotten_at is null
         and (select true from remem.embedding_%1$s e where e.workspace = $1 and e.memory_no = m.memory_no) is null
         and (select true from remem.embedding_claim c where c.workspace = $1 and c.space_no = %1$s and c.kind = ''memory''
           and c.source = m.memory_no::text) is null
       order by m.memory_no limit %2$s for no key update skip locked) s', space_no, n)
  into v_nos using workspace, after;
  return coalesce(v_nos, '{}');
end
$$;
comment on function remem._next_memories(text, int, bigint, int) is 'Memories that lack a vector in a space, oldest first.';

-- The same of topics, most important first, then providers, as kinds and sources in parallel. What was set aside
-- counts again when its text has changed.
create or replace function remem._next_entries(workspace text, space_no int, n int, out kinds text[], out sources text[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  select array_agg(s.kind order by s.place), array_agg(s.source order by s.place) into kinds, sources
  from (
    select c.*, row_number() over (order by c.kind desc, c.weight desc, c.source) as place
    from (
      (select 'topic' as kind, t.topic_no::text as source, t.weight from remem.topic t
       where t.workspace = _next_entries.workspace
         and (select true from remem.topic_embedding e
           where e.workspace = t.workspace and e.space_no = _next_entries.space_no and e.topic_no = t.topic_no) is null
         and (select c.due_at < 'infinity'
             or c.content_hash = sha256(convert_to(remem._topic_text(t.title, t.aliases, t.summary, t.tags), 'UTF8'))
           from remem.embedding_claim c where c.workspace = t.workspace and c.space_no = _next_entries.space_no
             and c.kind = 'topic' and c.source = t.topic_no::text) is not true
         and remem._topic_is_live(t)
       order by t.weight desc, t.topic_no limit n)
      union all
      select 'provider', p.provider_id, 0 from remem.provider p
      where p.workspace = _next_entries.workspace
        and (select true from remem.provider_embedding e
          where e.workspace = p.workspace and e.space_no = _next_entries.space_no and e.provider_id = p.provider_id) is null
        and (select c.due_at < 'infinity' or c.content_hash = sha256(convert_to(remem._provider_text(p), 'UTF8'))
          from remem.embedding_claim c where c.workspace = p.workspace and c.space_no = _next_entries.space_no
            and c.kind = 'provider' and c.source = p.provider_id) is not true
    ) c
    order by place limit n
  ) s;
  kinds := coalesce(kinds, '{}'); sources := coalesce(sources, '{}');
end
$$;
comment on function remem._next_entries(text, int, int) is 'Topics and providers that lack a vector in a space.';

-- Claims rows by kind and source; says how many. Where another job was quicker, nothing happens.
create or replace function remem._claim(workspace text, space_no int, kinds text[], sources text[], claim_id uuid, run_id uuid,
  lease_until timestamptz, taken int) returns int
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  with claimed as (
    insert into remem.embedding_claim as c (workspace, space_no, kind, source, memory_no, state, due_at, claim_id, item_no, run_id)
    select _claim.workspace, _claim.space_no, s.kind, s.source, case s.kind when 'memory' then s.source::bigint end, 'claimed', _claim.lease_until, _claim.claim_id, taken + s.n, _claim.run_id
    from unnest(kinds, sources) with ordinality s (kind, source, n)
    on conflict on constraint embedding_claim_pkey do update
      set state = 'claimed', due_at = excluded.due_at, claim_id = excluded.claim_id, item_no = excluded.item_no,
          run_id = excluded.run_id, failures = 0, abandoned = 0, last_error = null, updated_at = now()
      where c.kind <> 'memory' and c.due_at = 'infinity'
    returning 1
  )
  select count(*)::int from claimed
$$;
comment on function remem._claim(text, int, text[], text[], uuid, uuid, timestamptz, int) is 'Claims rows for a job.';

-- Takes over what waits for another try and what was abandoned. A row that was abandoned three times may be what kills
-- its workers: it is handed out alone, and set aside after ten.
create or replace function remem._claim_due(workspace text, space_no int, claim_id uuid, run_id uuid, lease_until timestamptz, n int, alone boolean)
returns int
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_count int;
begin
  with due as (
    select c.kind, c.source, row_number() over () as place
    from (
      select c.kind, c.source from remem.embedding_claim c
      where c.workspace = _claim_due.workspace and c.space_no = _claim_due.space_no and c.due_at <= v_now
        and (c.abandoned + case c.state when 'claimed' then 1 else 0 end >= 3) = alone
      order by c.due_at limit n for update skip locked
    ) c
  ), taken as (
    update remem.embedding_claim c
    set abandoned = c.abandoned + case c.state when 'claimed' then 1 else 0 end,
        state = case when c.state = 'claimed' and c.abandoned >= 9 then 'set_aside' else 'claimed' end,
        due_at = case when c.state = 'claimed' and c.abandoned >= 9 then 'infinity' else _claim_due.lease_until end,
        last_error = case when c.state = 'claimed' then 'abandoned' else c.last_error end,
        claim_id = case when c.state = 'claimed' and c.abandoned >= 9 then null else _claim_due.claim_id end,
        item_no = d.place, run_id = _claim_due.run_id, updated_at = now()
    from due d
    where c.workspace = _claim_due.workspace and c.space_no = _claim_due.space_no and c.kind = d.kind and c.source = d.source
    returning 1
  )
  select count(*)::int into v_count from taken;
  return v_count;
end
$$;
comment on function remem._claim_due(text, int, uuid, uuid, timestamptz, int, boolean) is 'Claims rows whose time has come again.';

-- What a run did, added to its row. A run without open claims is over until it claims again.
create or replace function remem._note_run(workspace text, run_id uuid, space_no int, claimed int, embedded int, failed int,
  error text, lease_until timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_open boolean := exists (select from remem.embedding_claim c
    where c.workspace = _note_run.workspace and c.space_no = _note_run.space_no and c.run_id = _note_run.run_id and c.state = 'claimed'
      and c.due_at > clock_timestamp());
begin
  insert into remem.job_run as r (workspace, run_id, kind, state, space_no, claimed, embedded, failed, last_error, lease_until)
  values (_note_run.workspace, _note_run.run_id, 'embedding-reembed', 'started', _note_run.space_no, _note_run.claimed,
    _note_run.embedded, _note_run.failed, _note_run.error, _note_run.lease_until)
  on conflict on constraint job_run_pkey do update
    set claimed = r.claimed + excluded.claimed, embedded = r.embedded + excluded.embedded, failed = r.failed + excluded.failed,
        last_error = coalesce(excluded.last_error, r.last_error), updated_at = now(),
        lease_until = coalesce(excluded.lease_until, r.lease_until),
        state = case when v_open then 'started' when r.embedded + excluded.embedded > 0 or r.failed + excluded.failed = 0
          then 'completed' else 'failed' end,
        completed_at = case when not v_open then now() end;
end
$$;
comment on function remem._note_run(text, uuid, int, int, int, int, text, timestamptz) is 'Counts what a run did.';

-- Runs whose holder went away without a word.
create or replace function remem._recover_runs(workspace text) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  with dead as (
    select r.run_id from remem.job_run r
    where r.workspace = _recover_runs.workspace and r.state = 'started' and r.lease_until < clock_timestamp()
    for update skip locked
  )
  update remem.job_run r
  set state = 'failed', last_error = coalesce(r.last_error, 'interrupted'), completed_at = now(),
      metadata = r.metadata || '{"recovery": "interrupted run"}'
  from dead d where r.workspace = _recover_runs.workspace and r.run_id = d.run_id
$$;
comment on function remem._recover_runs(text) is 'Marks runs whose lease ended as failed.';

-- The memories' part of a claim: from the cursor on, and once more from the start when the count says that something
-- was passed over (written late, brought back, skipped while it was locked).
create or replace function remem._claim_memories(workspace text, space_no int, claim_id uuid, run_id uuid, lease_until timestamptz, n int,
  taken int)
returns int
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_after bigint;
  v_nos bigint[];
  v_count int := 0;
  v_missing bigint := (remem._count_tally(workspace, 0)).n - (remem._count_tally(workspace, space_no)).n;
begin
  if v_missing <= 0 then
    return 0;
  end if;
  v_after := coalesce((select c.up_to from remem.embedding_cursor c
    where c.workspace = _claim_memories.workspace and c.space_no = _claim_memories.space_no), 0);
  v_nos := remem._next_memories(workspace, space_no, v_after, n);
  if cardinality(v_nos) = 0 and v_after > 0 then
    delete from remem.embedding_claim c
    where c.workspace = _claim_memories.workspace and c.space_no = _claim_memories.space_no and c.kind = 'memory'
      and (c.state <> 'claimed' or c.due_at <= clock_timestamp())
      and case when c.kind = 'memory' then not remem._is_live_memory(c.workspace, c.source::bigint) end;
    if v_missing > (select count(*) from remem.embedding_claim c
        where c.workspace = _claim_memories.workspace and c.space_no = _claim_memories.space_no and c.kind = 'memory') then
      v_nos := remem._next_memories(workspace, space_no, 0, n);
    end if;
  end if;
  if cardinality(v_nos) > 0 then
    v_count := remem._claim(workspace, space_no, array_fill('memory'::text, array[cardinality(v_nos)]), v_nos::text[], claim_id, run_id,
      lease_until, taken);
    -- Another job may have claimed, embedded and stored one of them since this one began to look.
    execute format('delete from remem.embedding_claim c using remem.embedding_%s e where c.workspace = $1 and c.claim_id = $2'
      ' and c.kind = ''memory'' and e.workspace = $1 and e.memory_no = case when c.kind = ''memory'' then c.source::bigint end', space_no)
    using workspace, claim_id;
    -- One of those that claim first makes the row, and the others do not wait for it.
    if not exists (select from remem.embedding_cursor c
        where c.workspace = _claim_memories.workspace and c.space_no = _claim_memories.space_no)
       and pg_try_advisory_xact_lock(hashtextextended(workspace || E'\n' || space_no, 7290)) then
      insert into remem.embedding_cursor (workspace, space_no, up_to)
      values (_claim_memories.workspace, _claim_memories.space_no, 0) on conflict on constraint embedding_cursor_pkey do nothing;
    end if;
    update remem.embedding_cursor c set up_to = v_nos[cardinality(v_nos)]
    from (select x.ctid from remem.embedding_cursor x
      where x.workspace = _claim_memories.workspace and x.space_no = _claim_memories.space_no for update skip locked) free
    where c.ctid = free.ctid;
  end if;
  return v_count;
end
$$;
comment on function remem._claim_memories(text, int, uuid, uuid, timestamptz, int, int) is 'Claims memories without a vector.';

-- The texts of a claim with their hashes. Rows that are gone lose their claims; texts beyond eight megabytes go back.
create or replace function remem._claimed_texts(workspace text, space remem.embedding_space, claim_id uuid, run_id uuid)
returns setof remem.embedding_job
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  c_most_bytes constant bigint := 8388608;
begin
  return query
    with claims as materialized (
      select c.kind, c.source, c.item_no, c.failures from remem.embedding_claim c
      where c.workspace = _claimed_texts.workspace and c.claim_id = _claimed_texts.claim_id
    ), memories as materialized (
      select m.memory_no::text as source, m.memory_id::text as id,
        remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags) as text
      from (select c.source::bigint as memory_no from claims c where c.kind = 'memory' offset 0) c
      cross join lateral (
        select x.* from remem.memory x where x.workspace = _claimed_texts.workspace and x.memory_no = c.memory_no offset 0) m
      where m.superseded_at is null and m.forgotten_at is null
    ), texts as materialized (
      select c.kind, c.source, c.item_no, c.failures, m.id, m.text
      from claims c left join memories m on m.source = c.source where c.kind = 'memory'
      union all
      select c.kind, c.source, c.item_no, c.failures, case c.kind when 'provider' then c.source else (
          select t.topic_id::text from remem.topic t where t.workspace = _claimed_texts.workspace and t.topic_no = c.source::bigint) end,
        remem._source_text(_claimed_texts.workspace, c.kind, c.source)
      from claims c where c.kind <> 'memory'
    ), sized as (
      select t.*, coalesce(sum(octet_length(t.text)) over (order by t.item_no rows between unbounded preceding and current row), 0)
          - coalesce(octet_length(t.text), 0) as before
      from texts t
    ), gone as (
      delete from remem.embedding_claim c using texts t
      where t.text is null and c.workspace = _claimed_texts.workspace and c.space_no = space.space_no
        and c.kind = t.kind and c.source = t.source
    ), put_back as (
      update remem.embedding_claim c set state = 'waiting', due_at = clock_timestamp(), claim_id = null
      from sized t
      where t.text is not null and t.before > c_most_bytes and c.workspace = _claimed_texts.workspace
        and c.space_no = space.space_no and c.kind = t.kind and c.source = t.source
    ), kept as (
      update remem.embedding_claim c set content_hash = sha256(convert_to(t.text, 'UTF8'))
      from sized t
      where t.text is not null and t.before <= c_most_bytes and c.workspace = _claimed_texts.workspace
        and c.space_no = space.space_no and c.kind = t.kind and c.source = t.source
      returning t.item_no, t.kind, t.id, t.text, t.failures, c.content_hash
    )
    select _claimed_texts.claim_id, k.item_no, k.kind, k.id,
      k.text, encode(k.content_hash, 'hex'), k.failures, space.fingerprint, _claimed_texts.run_id
    from kept k order by k.item_no;
end
$$;
comment on function remem._claimed_texts(text, remem.embedding_space, uuid, uuid) is 'The texts of a claim.';

create or replace function remem.claim_embeddings(
  workspace text, space text default null, "limit" int default 25, lease interval default '15 minutes', run_id uuid default null
) returns setof remem.embedding_job
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
  v_space remem.embedding_space;
  v_claim_id uuid := gen_random_uuid();
  v_run_id uuid := coalesce(run_id, v_claim_id);
  v_lease_until timestamptz;
  v_entries record;
  v_count int;
begin
  perform remem._authorize(workspace, 'worker');
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  if lease is null or lease < interval '0.1 second' or lease > interval '1 day' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'lease', 'value', lease), 'From a tenth of a second to one day');
  end if;
  select w.* into v_row from remem.workspace w where w.workspace = claim_embeddings.workspace;
  if not found then
    return;
  end if;
  -- Kept from a switch and from drop_space until the claim is written.
  perform remem._lock_workspace(workspace);
  select w.* into v_row from remem.workspace w where w.workspace = claim_embeddings.workspace;
  v_space := remem._job_space(v_row, space);
  v_lease_until := clock_timestamp() + lease;
  perform remem._recover_runs(workspace);

  loop
    v_count := remem._claim_due(workspace, v_space.space_no, v_claim_id, v_run_id, v_lease_until, "limit", false);
    if v_count < "limit" then
      v_count := v_count + remem._claim_memories(workspace, v_space.space_no, v_claim_id, v_run_id, v_lease_until, "limit" - v_count, v_count);
    end if;
    if v_count = 0 then
      v_entries := remem._next_entries(workspace, v_space.space_no, "limit");
      v_count := remem._claim(workspace, v_space.space_no, v_entries.kinds, v_entries.sources, v_claim_id, v_run_id, v_lease_until, 0);
    end if;
    if v_count = 0 then
      v_count := remem._claim_due(workspace, v_space.space_no, v_claim_id, v_run_id, v_lease_until, 1, true);
    end if;
    if v_count = 0 then
      return;
    end if;
    return query select t.* from remem._claimed_texts(workspace, v_space, v_claim_id, v_run_id) t;
    get diagnostics v_count = row_count;
    -- Again where all of them are gone by now, or were set aside.
    exit when v_count > 0;
  end loop;
  perform remem._note_run(workspace, v_run_id, v_space.space_no, v_count, 0, 0, null, v_lease_until);
end
$$;
comment on function remem.claim_embeddings(text, text, int, interval, uuid) is
  'Takes up to limit texts that lack a vector in the space in building (else in the current one, or in the one of the two that is named): memories, topics and providers. They are the caller''s for the time of the lease, nobody waits for a lock, and jobs that claim at once get different rows. Commit, embed outside the transaction, then complete_embeddings or fail_embeddings with the claim_id; what is neither comes back after the lease. run_id puts claims of one run together. No row: nothing to do now.';
