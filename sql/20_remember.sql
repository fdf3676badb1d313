-- remember: the public writers. All go through one path; a single memory is a batch of one. Without items it takes
-- those that the caller copied into the staging table (23_stage).

create or replace function remem._remember(workspace text, items jsonb, on_error text) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set extra_float_digits = 1
as $$
declare
  c_chunk constant int := 500;
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_dictionaries regdictionary[];
  v_keys text[] := (select array_agg(a.attname order by a.attnum) from pg_attribute a
    where a.attrelid = 'remem.memory_item'::regclass and a.attnum > 0 and not a.attisdropped);
  v_cap text := remem._max_source_class(workspace);
  v_places tid[];
  v_items jsonb[];
  v_vectors remem.memory_item[];
  v_item_nos int[];
  v_rows bigint;
begin
  perform remem._lock_workspace(workspace);
  v_workspace := remem._ensure_workspace(workspace);
  v_space := remem._space(v_workspace.space_no);
  v_dictionaries := remem._language_dictionaries(v_workspace.language);
  if items is not null then
    v_items := array(select i.item from jsonb_array_elements(items) i (item));
    return query select r.* from remem._remember_batch(v_workspace, v_space, v_dictionaries, v_keys, v_items, null,
      array(select n from generate_series(1, cardinality(v_items)) n), v_cap, on_error) r;
    return;
  end if;
  -- More than a chunk takes its keys chunk by chunk, which is not one order: it takes all of the workspace's at first.
  execute 'select count(*) from (select from pg_temp.remem_staged limit $1) s' into v_rows using c_chunk + 1;
  if v_rows > c_chunk then
    perform remem._lock_all_names(workspace);
  end if;
  -- Where the rows of each chunk lie: the table itself is sorted once and read once.
  for v_places in execute
    'select array_agg(c.place) from (
       select s.ctid as place, (row_number() over (order by s.item_no, s.ctid) - 1) / $1 as chunk from pg_temp.remem_staged s) c
     group by c.chunk order by c.chunk' using c_chunk
  loop
    execute
      'select array_agg(s.item_no order by s.item_no, s.ctid), array_agg(s.item order by s.item_no, s.ctid),
         array_agg(case when s.embedding is not null then remem._default_item(null, s.embedding) end order by s.item_no, s.ctid)
       from pg_temp.remem_staged s where s.ctid = any ($1)'
      into v_item_nos, v_items, v_vectors using v_places;
    return query select r.* from remem._remember_batch(v_workspace, v_space, v_dictionaries, v_keys, v_items, v_vectors, v_item_nos,
      v_cap, on_error) r;
  end loop;
end
$$;
comment on function remem._remember(text, jsonb, text) is 'The one path of every write; the caller has authorised.';

-- Prepared items into the tables, under the locks of everything they touch.
create or replace function remem._store(workspace remem.workspace, items remem._prepared_item[], on_error text) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_incremental_sort = off  -- as in _match_items
as $$
declare
  v_wave remem._prepared_item[];
  v_session_refs text[];
  v_session_nos int[];
begin
  perform remem._lock_keys(workspace.workspace, items);
  -- The sessions written to, and those that a superseded version leaves.
  select l.refs, l.session_nos into v_session_refs, v_session_nos
  from remem._lock_sessions(workspace.workspace, array(
    select (p.item).session_ref from unnest(items) p where (p.item).session_ref is not null
    union
    select s.session_ref
    from (select (p.item).ref from unnest(items) p where (p.item).ref is not null) r
    cross join lateral remem._live_ref(workspace.workspace, r.ref) m
    cross join lateral (select x.session_ref from remem.session x
      where (x.workspace, x.session_no) >= (workspace.workspace, m.session_no)
        and (x.workspace, x.session_no) <= (workspace.workspace, m.session_no)
      order by x.workspace, x.session_no limit 1) s)) l;
  -- Items of one batch that share a ref or a text are stored one after the other. Most batches have none that do.
  if on_error = 'abort' and (
      select pg_catalog.count(distinct coalesce((p.item).ref, encode(p.fingerprint, 'hex')) collate "C") = cardinality(items)
      from unnest(items) p) then
    return query select r.* from remem._insert_wave(workspace, items, v_session_refs, v_session_nos) r;
    return;
  end if;
  for v_wave in
    select array_agg(w.prepared order by w.pos)
    from (
      select items[p.ordinality] as prepared, p.ordinality as pos,
        row_number() over (partition by case
          when (p.item).ref is not null then 'r' || (p.item).ref
          when (p.item).session_ref is not null then 's' || p.ordinality
          else 'f' || encode(p.fingerprint, 'hex') end order by p.ordinality) as wave
      from unnest(items) with ordinality p
    ) w
    group by w.wave order by w.wave
  loop
    if on_error = 'abort' then
      return query select r.* from remem._insert_wave(workspace, v_wave, v_session_refs, v_session_nos) r;
    else
      return query select r.* from remem._insert_wave_reporting(workspace, v_wave, v_session_refs, v_session_nos) r;
    end if;
  end loop;
end
$$;
comment on function remem._store(remem.workspace, remem._prepared_item[], text) is 'Stores prepared items, one result each in no particular order.';

-- In report mode a conflict of one item must not lose the others: those that are refused are taken out.
create or replace function remem._insert_wave_reporting(
  workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos int[]
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem._prepared_item;
  v_message text;
  v_detail text;
  v_hint text;
begin
  begin
    return query select r.* from remem._insert_wave(workspace, items, session_refs, session_nos) r;
    return;
  exception when sqlstate 'RM102' then
    null;  -- rolled back as a whole: store them one by one below
  end;
  foreach v_item in array items loop
    begin
      return query select r.* from remem._insert_wave(workspace, array[v_item], session_refs, session_nos) r;
    exception when sqlstate 'RM102' then
      get stacked diagnostics v_message = message_text, v_detail = pg_exception_detail, v_hint = pg_exception_hint;
      return next (null, (v_item.item).ref, 'refused', v_item.item_no,
        remem._error_value('RM102', v_message, v_detail, v_hint))::remem.memory_ref;
    end;
  end loop;
end
$$;
comment on function remem._insert_wave_reporting(remem.workspace, remem._prepared_item[], text[], int[]) is
  'Stores a wave and reports conflicts per item.';

create or replace function remem.remember(
  workspace text, body text, ref text default null, kind text default 'semantic', title text default null,
  summary text default null, tags text[] default null, aliases text[] default null, scope text default 'global',
  scope_ref text default null, topic_key text default null, subject text default null, attribute text default null,
  source_class text default null, source_ref text default null, importance real default null,
  confidence real default null, pinned boolean default false, unresolved boolean default false,
  session_ref text default null, turn_no int default null, speaker text default null,
  occurred_at timestamptz default null, valid_from timestamptz default null, valid_to timestamptz default null,
  entities text[] default null, metadata jsonb default null, embedding real[] default null,
  on_conflict text default 'new_version', space text default null
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
set extra_float_digits = 1
as $$
declare
  v_item remem.memory_item;
  v_ref remem.memory_ref;
begin
  perform remem._authorize(workspace, 'write');
  -- NaN and infinity do not survive JSON as numbers: they are refused here, by name.
  if embedding is not null and exists (select from unnest(embedding) e where e is null or e in ('NaN', 'Infinity', '-Infinity')) then
    perform remem._raise('RM203', '{"item": 1, "problem": "not finite"}', 'Every component must be a finite number');
  end if;
  if importance in ('NaN', 'Infinity', '-Infinity') or confidence in ('NaN', 'Infinity', '-Infinity') then
    perform remem._raise('RM001', jsonb_build_object('item', 1,
      'argument', case when importance in ('NaN', 'Infinity', '-Infinity') then 'importance' else 'confidence' end),
      'It lies between 0 and 1');
  end if;
  v_item := (body, ref, kind, title, summary, tags, aliases, scope, scope_ref, topic_key, subject, attribute, source_class,
    source_ref, importance, confidence, pinned, unresolved, session_ref, turn_no, speaker, occurred_at, valid_from, valid_to,
    entities, metadata, embedding, on_conflict, space)::remem.memory_item;
  select r.* into v_ref
  from remem._remember(workspace, jsonb_build_array(jsonb_strip_nulls(to_jsonb(v_item) - 'metadata')
    || case when metadata is null then '{}' else jsonb_build_object('metadata', metadata) end), 'abort') r;
  return v_ref;
end
$$;
comment on function remem.remember(text, text, text, text, text, text, text[], text[], text, text, text, text, text, text,
  text, real, real, boolean, boolean, text, int, text, timestamptz, timestamptz, timestamptz, text[], jsonb, real[], text, text) is
  'Stores one memory and says what became of it: created, unchanged (the ref has this content), new_version (the ref had other content, which is superseded) or merged (an equal text is there, and the item has no ref of its own: the row stays as it is, gets the vector it lacked, and its provenance.also takes the source_ref and source_class in; nothing else of the item is kept). embedding is a vector of the workspace''s current space; space may name the model that made it, so that another one is refused. What was forgotten, corrected, superseded or purged is not written again by saying it again: the outcome is then forgotten, superseded or purged, and on_conflict rewrite writes it all the same.';

create or replace function remem.remember_many(workspace text, items jsonb, on_error text default 'abort')
returns setof remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  if jsonb_typeof(items) is distinct from 'array' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'items', 'got', jsonb_typeof(items)), 'Give a JSON array of objects');
  end if;
  perform remem._check_member('on_error', on_error, '{abort,report}', null);
  return query select r.* from remem._remember(workspace, items, on_error) r order by r.item_no;
end
$$;
comment on function remem.remember_many(text, jsonb, text) is
  'Stores an array of items whose keys are the arguments of remember, all or nothing (on_error abort) or reporting refused items (report). One result per item, in order. A datetime without a zone is UTC.';
