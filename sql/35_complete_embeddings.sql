-- What becomes of claims: vectors, failures, given back.

-- A failed row waits, longer each time; after five failures it is set aside.
create or replace function remem._fail_claims(workspace text, claim_id uuid, item_nos int[], error text, retry_after interval) returns int
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 5;
  v_count int;
begin
  update remem.embedding_claim c
  set failures = c.failures + 1, last_error = left(error, 200), claim_id = null, updated_at = now(),
      state = case when c.failures + 1 >= c_most then 'set_aside' else 'waiting' end,
      due_at = case when c.failures + 1 >= c_most then 'infinity'
        else clock_timestamp() + coalesce(retry_after, least(interval '30 seconds' * 4 ^ c.failures, interval '1 hour')) end
  where c.workspace = _fail_claims.workspace and c.claim_id = _fail_claims.claim_id and c.state = 'claimed'
    and (item_nos is null or c.item_no = any (item_nos));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function remem._fail_claims(text, uuid, int[], text, interval) is 'Counts a failure of claimed rows.';

-- Whether the text that was embedded is still the row's. The row is held until the transaction ends, without waiting:
-- one that is being written counts as changed, and nobody can wait in a circle.
create or replace function remem._holds_source(claim remem.embedding_claim) returns boolean
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  case claim.kind
    when 'memory' then
      perform from remem.memory m where m.workspace = claim.workspace and m.memory_no = claim.source::bigint
        and m.superseded_at is null and m.forgotten_at is null for share skip locked;
    when 'topic' then
      perform from remem.topic t where t.workspace = claim.workspace and t.topic_no = claim.source::bigint for share skip locked;
    else
      perform from remem.provider p where p.workspace = claim.workspace and p.provider_id = claim.source for share skip locked;
  end case;
  return found and claim.content_hash = sha256(convert_to(remem._source_text(claim.workspace, claim.kind, claim.source), 'UTF8'));
end
$$;
comment on function remem._holds_source(remem.embedding_claim) is 'Whether a claimed row still has the text that was handed out.';

-- The vector of one claimed topic or provider.
create or replace function remem._set_entry_vector(claim remem.embedding_claim, vector real[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if claim.kind = 'topic' then
    perform remem._set_topic_vector(t, claim.space_no, vector) from remem.topic t
    where t.workspace = claim.workspace and t.topic_no = claim.source::bigint;
  else
    perform remem._set_provider_vector(p, claim.space_no, vector) from remem.provider p
    where p.workspace = claim.workspace and p.provider_id = claim.source;
  end if;
end
$$;
comment on function remem._set_entry_vector(remem.embedding_claim, real[]) is 'Stores the vector of a topic or provider.';

-- The vectors of claimed memories out of one flat array, in one statement: rows that are held and still have the text
-- get theirs, and a row that has one by now keeps it. Rows are looked up one by one, and whether
-- they live is asked afterwards: before ANALYZE the planner thinks that the partial indexes of live rows are tiny, takes
-- one of them for a list of numbers or for a number and that condition, and reads the workspace. Says of each place in the array what became of it.
create or replace function remem._store_memories(workspace text, space remem.embedding_space, claims remem.embedding_claim[],
  item_nos int[], embeddings real[], out places int[], out outcomes text[])
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  v_nos bigint[] := array(select c.source::bigint from unnest(claims) c where c.kind = 'memory');
  v_count bigint;
begin
  -- A claim that looks for work holds rows for a moment: that is waited for, without a lock that could close a circle.
  for i in 1 .. 5 loop
    select count(*) into v_count
    from unnest(v_nos) n cross join lateral (
      select from remem.memory m where m.workspace = _store_memories.workspace and m.memory_no = n offset 0 for share skip locked) s;
    exit when v_count = cardinality(v_nos) or v_count = (
      select count(*)
      from unnest(v_nos) n cross join lateral (
        select from remem.memory m where m.workspace = _store_memories.workspace and m.memory_no = n offset 0) s);
    perform pg_sleep(0.01);
  end loop;
  execute format(
    'with claim as materialized (
       select g.place::int, c.source::bigint as memory_no, c.content_hash
       from unnest($2) c join unnest($3) with ordinality g (item_no, place) on g.item_no = c.item_no
       where c.kind = ''memory''
     ), held as materialized (
       select m.memory_no, sha256(convert_to(remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags), ''UTF8'')) as hash
       from claim k cross join lateral (
         select m.* from remem.memory m
         where m.workspace = $1 and m.memory_no = k.memory_no offset 0 for share skip locked) m
       where m.superseded_at is null and m.forgotten_at is null
     ), found as materialized (
       select k.place, k.memory_no, h.hash = k.content_hash as same,
         $4[(k.place - 1) * %2$s + 1 : k.place * %2$s]::@extschema:vector@.vector as embedding
       from claim k left join held h on h.memory_no = k.memory_no
     ), judged as materialized (
       select f.*, case when f.same is not true then ''changed''
         when @extschema:vector@.vector_norm(f.embedding) = 0 then ''empty'' else ''stored'' end as outcome
       from found f
     ), stored as (
       insert into remem.embedding_%1$s (workspace, memory_no, embedding)
       select $1, j.memory_no, @extschema:vector@.l2_normalize(j.embedding)::@extschema:vector@.halfvec
       from judged j where j.outcome = ''stored'' order by j.memory_no
       on conflict do nothing returning 1
     )
     select array_agg(j.place), array_agg(j.outcome), (select count(*) from stored) from judged j', space.space_no, space.dimensions)
  into places, outcomes, v_count using workspace, claims, item_nos, embeddings;
  perform remem._add_tally(workspace, space.space_no, coalesce(v_count, 0));
end
$$;
comment on function remem._store_memories(text, remem.embedding_space, remem.embedding_claim[], int[], real[]) is
  'Stores the vectors of claimed memories that still have their text.';

-- The same of claimed topics and providers, one by one: they are few.
create or replace function remem._store_entries(workspace text, space remem.embedding_space, claims remem.embedding_claim[],
  item_nos int[], embeddings real[], out places int[], out outcomes text[])
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_claim remem.embedding_claim;
  v_place int;
  v_vector real[];
begin
  foreach v_claim in array claims loop
    continue when v_claim.kind = 'memory';
    v_place := array_position(item_nos, v_claim.item_no);
    v_vector := embeddings[(v_place - 1) * space.dimensions + 1 : v_place * space.dimensions];
    places := places || v_place;
    if not remem._holds_source(v_claim) then
      outcomes := outcomes || 'changed'::text;
    elsif 0 = all (v_vector) then
      outcomes := outcomes || 'empty'::text;
    else
      outcomes := outcomes || 'stored'::text;
      perform remem._set_entry_vector(v_claim, v_vector);
    end if;
  end loop;
end
$$;
comment on function remem._store_entries(text, remem.embedding_space, remem.embedding_claim[], int[], real[]) is
  'Stores the vectors of claimed topics and providers that still have their text.';

-- The places of vectors that are not finite, with zeros in their stead in the array.
create or replace function remem._take_out_refused(dimensions int, inout embeddings real[], out places int[])
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if array_position(embeddings, null) is null
     and not ('NaN' = any (embeddings) or 'Infinity' = any (embeddings) or '-Infinity' = any (embeddings)) then
    return;
  end if;
  select array_agg(distinct ((u.n - 1) / dimensions + 1)::int) filter (where u.bad),
    array_agg(case when u.bad then 0 else u.e end order by u.n)
  into places, embeddings
  from (select x.e, x.n, x.e is null or x.e in ('NaN', 'Infinity', '-Infinity') as bad
    from unnest(embeddings) with ordinality x (e, n)) u;
end
$$;
comment on function remem._take_out_refused(int, real[]) is 'Finds vectors that are not finite.';

create or replace function remem.complete_embeddings(workspace text, claim_id uuid, item_nos int[], embeddings real[])
returns setof remem.embedding_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_claims remem.embedding_claim[];
  v_refused record;
  v_memories record;
  v_entries record;
  v_outcomes text[];
begin
  perform remem._authorize(workspace, 'worker');
  if claim_id is null or item_nos is null or embeddings is null or array_ndims(item_nos) > 1 or array_position(item_nos, null) is not null
     or cardinality(item_nos) > 1000 or cardinality(item_nos) <> (select count(distinct i) from unnest(item_nos) i) then
    perform remem._raise('RM001', '{"argument": "claim_id, item_nos, embeddings"}',
      'Pass the claim_id, the item_no of each text, and all vectors one after the other in one array');
  end if;
  perform remem._lock_workspace(workspace);
  select array_agg(c order by c.item_no) into v_claims
  from (
    select c.* from remem.embedding_claim c
    where c.workspace = complete_embeddings.workspace and c.claim_id = complete_embeddings.claim_id
      and c.state = 'claimed' and c.item_no = any (complete_embeddings.item_nos)
    order by c.item_no for update
  ) c;
  if v_claims is null then
    return query select i, 'lost' from unnest(item_nos) i;
    return;
  end if;
  v_space := remem._space(v_claims[1].space_no);
  if cardinality(embeddings) <> cardinality(item_nos) * v_space.dimensions then
    perform remem._raise('RM201', jsonb_build_object('space', v_space.name, 'expected', v_space.dimensions,
      'got', round(cardinality(embeddings)::numeric / cardinality(item_nos), 2)), 'Each vector has the dimensions of the space');
  end if;
  if array_ndims(embeddings) > 1 then
    embeddings := array(select e from unnest(embeddings) e);
  end if;
  v_refused := remem._take_out_refused(v_space.dimensions, embeddings);
  v_memories := remem._store_memories(workspace, v_space, v_claims, item_nos, v_refused.embeddings);
  v_entries := remem._store_entries(workspace, v_space, v_claims, item_nos, v_refused.embeddings);
  v_outcomes := array(
    select case when g.n = any (v_refused.places) and o.outcome is not null then 'refused' else coalesce(o.outcome, 'lost') end
    from unnest(item_nos) with ordinality g (item_no, n)
    left join (select * from unnest(v_memories.places, v_memories.outcomes) union all select * from unnest(v_entries.places, v_entries.outcomes))
      o (place, outcome) on o.place = g.n
    order by g.n);
  delete from remem.embedding_claim c using unnest(item_nos, v_outcomes) o (item_no, outcome)
  where o.outcome = 'stored' and c.workspace = complete_embeddings.workspace and c.claim_id = complete_embeddings.claim_id
    and c.item_no = o.item_no;
  if v_outcomes && '{empty,changed}' then
    update remem.embedding_claim c
    set state = case o.outcome when 'empty' then 'empty' else 'waiting' end, claim_id = null, updated_at = now(),
        due_at = case o.outcome when 'empty' then 'infinity' else clock_timestamp() end
    from unnest(item_nos, v_outcomes) o (item_no, outcome)
    where o.outcome in ('empty', 'changed') and c.workspace = complete_embeddings.workspace
      and c.claim_id = complete_embeddings.claim_id and c.item_no = o.item_no;
  end if;
  if 'refused' = any (v_outcomes) then
    perform remem._fail_claims(workspace, claim_id,
      array(select o.item_no from unnest(item_nos, v_outcomes) o (item_no, outcome) where o.outcome = 'refused'), 'vector_refused', null);
  end if;
  perform remem._note_run(workspace, v_claims[1].run_id, v_space.space_no, 0,
    (select count(*)::int from unnest(v_outcomes) o where o in ('stored', 'empty')),
    (select count(*)::int from unnest(v_outcomes) o where o = 'refused'),
    case when 'refused' = any (v_outcomes) then 'vector_refused' end, null);
  return query select o.item_no, o.outcome from unnest(item_nos, v_outcomes) o (item_no, outcome);
end
$$;
comment on function remem.complete_embeddings(text, uuid, int[], real[]) is
  'Stores the vectors of claimed texts, given as one array in the order of item_nos, and says of each what became of it: stored; empty (a zero vector: the text has no direction and is not asked for again); changed (the row has another text by now, is no longer there, or is being written: it comes back by itself); lost (the claim is no longer the caller''s); refused (not finite, counted as a failure). Each commit stands for itself.';

-- The space and the run of a claim.
create or replace function remem._claim_of(workspace text, claim_id uuid, out space_no int, out run_id uuid)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select c.space_no, c.run_id from remem.embedding_claim c
  where c.workspace = _claim_of.workspace and c.claim_id = _claim_of.claim_id limit 1
$$;
comment on function remem._claim_of(text, uuid) is 'The space and the run of a claim.';

create or replace function remem.fail_embeddings(
  workspace text, claim_id uuid, error text, item_nos int[] default null, retry_after interval default null
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_claim record;
  v_count int;
begin
  perform remem._authorize(workspace, 'worker');
  if claim_id is null or coalesce(error, '') = '' or retry_after < interval '0' or retry_after > interval '1 day' then
    perform remem._raise('RM001', '{"argument": "claim_id, error, retry_after"}',
      'Pass the claim_id, what went wrong in a word, and at most a day until the next try');
  end if;
  v_claim := remem._claim_of(workspace, claim_id);
  v_count := remem._fail_claims(workspace, claim_id, item_nos, error, retry_after);
  if v_count > 0 then
    perform remem._note_run(workspace, v_claim.run_id, v_claim.space_no, 0, 0, v_count, left(error, 200), null);
  end if;
  return v_count;
end
$$;
comment on function remem.fail_embeddings(text, uuid, text, int[], interval) is
  'Says that claimed texts (all of the claim, or these item_nos) could not be embedded: they wait 30 seconds and four times as long after each further failure, at most an hour (or retry_after), and are set aside after the fifth. error is kept, in at most 200 characters: name a class, not the text. Returns how many rows the caller still held.';

create or replace function remem.release_claims(workspace text, claim_id uuid default null, run_id uuid default null) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_run record;
  v_count int;
begin
  perform remem._authorize(workspace, 'worker');
  if claim_id is null and run_id is null then
    perform remem._raise('RM001', '{"argument": "claim_id, run_id"}', 'Say which claim, or which run');
  end if;
  select c.space_no, c.run_id into v_run from remem.embedding_claim c
  where c.workspace = release_claims.workspace and c.state = 'claimed'
    and (release_claims.claim_id is null or c.claim_id = release_claims.claim_id)
    and (release_claims.run_id is null or c.run_id = release_claims.run_id) limit 1;
  update remem.embedding_claim c set state = 'waiting', claim_id = null, due_at = clock_timestamp(), updated_at = now()
  where c.workspace = release_claims.workspace and c.state = 'claimed'
    and (release_claims.claim_id is null or c.claim_id = release_claims.claim_id)
    and (release_claims.run_id is null or c.run_id = release_claims.run_id);
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform remem._note_run(workspace, v_run.run_id, v_run.space_no, 0, 0, 0, null, null);
  end if;
  return v_count;
end
$$;
comment on function remem.release_claims(text, uuid, uuid) is
  'Gives a claim, or all claims of a run, back at once and without counting a failure: what a worker does when it is stopped. Returns how many rows it still held.';

create or replace function remem.retry_embeddings(workspace text, space text default null) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_count int;
begin
  perform remem._authorize(workspace, 'worker');
  if space is not null then
    v_space := remem._find_space(space);
  end if;
  update remem.embedding_claim c
  set state = 'waiting', failures = 0, abandoned = 0, due_at = clock_timestamp(), updated_at = now()
  where c.workspace = retry_embeddings.workspace and c.state in ('waiting', 'set_aside')
    and (v_space.space_no is null or c.space_no = v_space.space_no);
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function remem.retry_embeddings(text, text) is
  'Brings back at once what was set aside or waits for another try, as if it had never failed; says how many rows.';
