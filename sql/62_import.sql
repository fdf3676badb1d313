-- Memories of an export: as they were, with their ids, times and states. What is here already stays as it is, and what
-- was forgotten, superseded or purged here does not come back.

-- One memory record: the item goes the way of remember, the rest is read by the columns of the table.
create or replace function remem._read_import(
  workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], record jsonb, embedding real[],
  item_no int, max_source_class text
) returns remem._import_memory
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_beside constant text[] := '{memory_id,provenance,created_at,updated_at,superseded_at,superseded_by,forgotten_at,freshness}';
  v_result remem._import_memory;
  v_beside jsonb;
  v_problem text;
begin
  if record ? 'embedding' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'embedding'),
      'Leave vectors out, or unpack them into the column embedding of the staging table');
  end if;
  v_beside := (select coalesce(jsonb_object_agg(k, v), '{}') from jsonb_each(record) x (k, v) where k = any (c_beside));
  begin
    v_result.stored := jsonb_populate_record(null::remem.memory, v_beside || jsonb_build_object('content_hash', '\x' || (record ->> 'content_hash')));
  exception when data_exception then
    get stacked diagnostics v_problem = message_text;
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'problem', v_problem),
      'Dates, ids and content_hash have to be as export writes them');
  end;
  v_result.item_no := item_no;
  v_result.prepared := remem._prepare_item(workspace, space, dictionaries, keys,
    record - c_beside - '{type,content_hash,forgotten_by,forgotten_why}'::text[], embedding, item_no, max_source_class);
  -- What history says of who forgot is worth something because who writes cannot choose it.
  v_result.forgotten_by := case when remem._is_granted(workspace.workspace, 'admin') then record ->> 'forgotten_by' end;
  v_result.forgotten_why := remem._check_reason(record ->> 'forgotten_why');
  v_result.stored.memory_id := coalesce((v_result.stored).memory_id, gen_random_uuid());
  v_result.stored.created_at := coalesce((v_result.stored).created_at, now());
  v_result.stored.updated_at := coalesce((v_result.stored).updated_at, (v_result.stored).created_at);
  v_result.stored.freshness := coalesce((v_result.stored).freshness, 'current');
  perform remem._check_member('freshness', (v_result.stored).freshness, '{current,stale,unknown}', item_no);
  perform remem._check_length('provenance', (v_result.stored).provenance::text, 1048576, item_no);
  if jsonb_path_exists((v_result.stored).provenance, '$.**{500}') then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'provenance', 'limit', 500),
      'provenance may be nested at most 500 deep');
  end if;
  if ((v_result.stored).superseded_at is null) <> ((v_result.stored).superseded_by is null) then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'superseded_by'),
      'superseded_at and superseded_by belong together');
  end if;
  if ((v_result.prepared).item).session_ref is not null and ((v_result.prepared).item).turn_no is null then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'turn_no'), 'A turn of a session has its number');
  end if;
  -- What the caller once said decides whether saying it again is news.
  if octet_length((v_result.stored).content_hash) = 16 then
    v_result.prepared.content_hash := (v_result.stored).content_hash;
  end if;
  v_result.prepared.attrs := (v_result.prepared).attrs
    || jsonb_build_object('created_at', (v_result.stored).created_at, 'freshness', (v_result.stored).freshness);
  return v_result;
end
$$;
comment on function remem._read_import(remem.workspace, remem.embedding_space, regdictionary[], text[], jsonb, real[], int, text) is
  'Validates and analyses one memory of an export.';

-- What each meets. Rows of this very import are no obstacle to another: what stood side by side stays side by side.
create or replace function remem._match_imports(workspace text, memories remem._import_memory[])
returns table (pos bigint, memory_id uuid, outcome text)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select i.ordinality, coalesce(e.memory_id, t.memory_id, (i.stored).memory_id), case
    when i.same_id > 1 then 'unchanged'
    when t.memory_id is not null then 'purged'
    when e.memory_id is not null and (e.superseded_at is null, e.forgotten_at is null) = (i.live_version, not i.is_forgotten) then 'unchanged'
    when e.forgotten_at is not null then 'forgotten'
    when e.superseded_at is not null then 'superseded'
    when e.memory_id is not null then 'conflict'
    when not i.is_live then 'created'
    when i.same_ref > 1 or m.outcome = 'new_version' then 'conflict'
    when m.outcome in ('merged', 'forgotten', 'superseded') and h.here then 'created'
    else m.outcome end
  from (
    select u.ordinality, u.prepared, u.stored, (u.stored).superseded_at is null as live_version, (u.stored).forgotten_at is not null as is_forgotten,
      (u.stored).superseded_at is null and (u.stored).forgotten_at is null as is_live,
      row_number() over (partition by (u.stored).memory_id order by u.ordinality) as same_id,
      case when ((u.prepared).item).ref is not null and (u.stored).superseded_at is null and (u.stored).forgotten_at is null then
        row_number() over (partition by ((u.prepared).item).ref, (u.stored).superseded_at is null and (u.stored).forgotten_at is null
          order by u.ordinality) end as same_ref
    from unnest(memories) with ordinality u
  ) i
  left join lateral (select x.memory_id, x.superseded_at, x.forgotten_at from remem.memory x
    where x.workspace = _match_imports.workspace and x.memory_id = (i.stored).memory_id offset 0) e on true
  left join lateral (select x.memory_id from remem.tombstone x
    where x.workspace = _match_imports.workspace and x.memory_id = (i.stored).memory_id offset 0) t on true
  left join remem._match_items(_match_imports.workspace, array(select u.prepared from unnest(memories) with ordinality u order by u.ordinality)) m
    on m.pos = i.ordinality
  left join lateral (select x.changed_xid = pg_current_xact_id_if_assigned() as here from remem.memory x
    where x.workspace = _match_imports.workspace and x.memory_no = m.memory_no offset 0) h on true
$$;
comment on function remem._match_imports(text, remem._import_memory[]) is 'Decides what becomes of each memory of an import.';

create or replace function remem._import_memories(workspace remem.workspace, memories remem._import_memory[])
returns setof remem.import_result
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_new remem._import_memory[];
  v_items remem._prepared_item[];   -- of the new ones; the arrays below run in parallel
  v_nos bigint[];
  v_refs text[];
  v_known int[];
  v_sessions int[];
  v_turns int[];
  v_live int[];
  v_row record;
begin
  v_new := '{}';
  for v_row in select m.*, memories[m.pos] as memory from remem._match_imports(workspace.workspace, memories) m order by m.pos loop
    if v_row.outcome = 'created' then
      v_new := v_new || (v_row.memory)::remem._import_memory;
    end if;
    return next ((v_row.memory).item_no, 'memory', v_row.outcome, v_row.memory_id, (((v_row.memory).prepared).item).ref, null)::remem.import_result;
  end loop;
  if cardinality(v_new) = 0 then
    return;
  end if;
  select l.refs, l.session_nos into v_refs, v_known from remem._lock_sessions(workspace.workspace,
    array(select ((n.prepared).item).session_ref from unnest(v_new) n where ((n.prepared).item).session_ref is not null)) l;
  select array_agg(n.prepared order by n.ordinality), array_agg(nextval('remem.memory_memory_no_seq') order by n.ordinality),
    array_agg(v_known[array_position(v_refs, ((n.prepared).item).session_ref)] order by n.ordinality),
    array_agg(((n.prepared).item).turn_no order by n.ordinality),
    coalesce(array_agg(n.ordinality::int order by n.ordinality) filter (where (n.stored).superseded_at is null and (n.stored).forgotten_at is null), '{}')
  into v_items, v_nos, v_sessions, v_turns, v_live
  from unnest(v_new) with ordinality n;
  v_items := remem._embed_items(remem._space(workspace.space_no), v_items);
  if not workspace.scoped and exists (select from unnest(v_items) p where (p.item).scope <> 'global') then
    update remem.workspace w set scoped = true where w.workspace = workspace.workspace and not w.scoped;
  end if;
  insert into remem.memory (workspace, memory_no, memory_id, ref, kind, scope, scope_ref, title, body, summary, aliases,
    tags, entities, topic_key, subject, attribute, source_class, source_ref, provenance, importance, confidence, pinned, unresolved,
    session_no, turn_no, speaker, occurred_at, valid_from, valid_to, created_at, updated_at, superseded_at, superseded_by, forgotten_at,
    freshness, attrs, fingerprint, content_hash, doc_len, lexemes, analyser_no)
  select workspace.workspace, v_nos[n.ordinality], (n.stored).memory_id, i.ref, i.kind, i.scope, i.scope_ref, i.title, i.body,
    i.summary, i.aliases, i.tags, i.entities, i.topic_key, i.subject, i.attribute, i.source_class, i.source_ref, (n.stored).provenance,
    i.importance, i.confidence, i.pinned, i.unresolved, v_sessions[n.ordinality], v_turns[n.ordinality], i.speaker,
    i.occurred_at, i.valid_from, i.valid_to, (n.stored).created_at, (n.stored).updated_at, (n.stored).superseded_at,
    (n.stored).superseded_by, (n.stored).forgotten_at, (n.stored).freshness, (n.prepared).attrs, (n.prepared).fingerprint,
    (n.prepared).content_hash, (n.prepared).doc_len, (n.prepared).lexemes, workspace.analyser_no
  from unnest(v_new) with ordinality n cross join lateral (select ((n.prepared).item).*) i;
  insert into remem.forgotten (workspace, memory_no, ref, fingerprint, session_no, turn_no, forgotten_at, forgotten_by, reason)
  select m.workspace, m.memory_no, m.ref, m.fingerprint, m.session_no, m.turn_no, m.forgotten_at,
    coalesce(v_new[n.ordinality].forgotten_by, remem._caller()), v_new[n.ordinality].forgotten_why
  from unnest(v_nos) with ordinality n (memory_no, ordinality)
  join remem.memory m on m.workspace = workspace.workspace and m.memory_no = n.memory_no
  where m.forgotten_at is not null;
  if cardinality(v_live) > 0 then
    perform remem._add_live(workspace, array(select v_items[l] from unnest(v_live) l), array(select v_nos[l] from unnest(v_live) l),
      array(select v_sessions[l] from unnest(v_live) l), array(select v_turns[l] from unnest(v_live) l));
  end if;
  perform remem._import_past(workspace, v_items, v_nos, v_sessions, v_turns, v_live);
end
$$;
comment on function remem._import_memories(remem.workspace, remem._import_memory[]) is 'Writes the memories of an import.';

-- Postings and vectors of the versions that are over, where only as_of and unforget look.
create or replace function remem._import_past(
  workspace remem.workspace, items remem._prepared_item[], memory_nos bigint[], session_nos int[], turn_nos int[], live int[]
) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if cardinality(live) = cardinality(items) then
    return;
  end if;
  insert into remem.posting_past (workspace_key, word, memory_no, session_no, doc_len, tf)
  select workspace.workspace_key, remem._word(l.lexeme), m.memory_no, m.session_no, least(p.doc_len, 32767), least(l.tf, 32767)
  from unnest(items) with ordinality p
  join unnest(memory_nos, session_nos, turn_nos) with ordinality m (memory_no, session_no, turn_no, ordinality) on m.ordinality = p.ordinality
  cross join lateral unnest(p.lexemes, p.tfs) l (lexeme, tf)
  where p.ordinality <> all (live)
  on conflict do nothing;
  execute format(
    'insert into remem.embedding_%s_past (workspace, memory_no, embedding)
     select $1, ($2)[p.ordinality], remem._unit((p.item).embedding)
     from unnest($3) with ordinality p where (p.item).embedding is not null and p.ordinality <> all ($4)', workspace.space_no)
  using workspace.workspace, memory_nos, items, live;
  update remem.session s set last_turn = greatest(s.last_turn, d.last_turn)
  from (select m.session_no, max(m.turn_no) as last_turn from unnest(session_nos, turn_nos) m (session_no, turn_no)
    where m.session_no is not null group by m.session_no) d
  where s.workspace = workspace.workspace and s.session_no = d.session_no;
end
$$;
comment on function remem._import_past(remem.workspace, remem._prepared_item[], bigint[], int[], int[], int[]) is
  'Writes the indexes of versions that are over.';
