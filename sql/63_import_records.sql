-- The other records of an export, and the door of the import.

-- One record that is no memory. The public writers check what they are given and who gives it.
create or replace function remem._import_record(workspace remem.workspace, record jsonb, embedding real[], item_no int) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  case record ->> 'type'
    when 'header' then
      if record -> 'format' is distinct from '1' then
        perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'format', 'got', record -> 'format', 'expected', 1),
          'This file was written by a later version: upgrade remem first');
      end if;
      return 'read';
    when 'end' then
      return 'read';
    when 'source_class' then
      if exists (select from remem.source_class c where c.name = record ->> 'name') then
        return 'unchanged';
      end if;
      perform remem.put_source_class(record ->> 'name', (record ->> 'trust')::real, (record ->> 'half_life')::interval,
        (record ->> 'pinned')::boolean, record ->> 'description');
      return 'created';
    when 'session' then
      return remem._import_session(workspace.workspace, jsonb_populate_record(null::remem.session, record));
    when 'tombstone' then
      return remem._import_tombstone(workspace.workspace, jsonb_populate_record(null::remem.tombstone, record));
    when 'version' then
      return remem._import_version(workspace.workspace, (record ->> 'old')::uuid, (record ->> 'new')::uuid,
        jsonb_populate_record(null::remem.lineage, record - 'fingerprint'), item_no);
    when 'relation' then
      return remem._import_relation(workspace.workspace, (record ->> 'src')::uuid, (record ->> 'dst')::uuid,
        jsonb_populate_record(null::remem.relation, record), item_no);
    when 'topic' then
      return remem._import_topic(workspace, record, embedding);
    when 'provider' then
      perform remem.put_provider(workspace.workspace, record ->> 'provider_id', record ->> 'name', record ->> 'summary',
        remem._text_array(record -> 'aliases'), remem._text_array(record -> 'categories'), (record ->> 'enabled')::boolean,
        (record ->> 'result_limit')::int, embedding);
      update remem.provider p set created_at = coalesce((record ->> 'created_at')::timestamptz, p.created_at),
        updated_at = coalesce((record ->> 'updated_at')::timestamptz, p.updated_at)
      where p.workspace = workspace.workspace and p.provider_id = record ->> 'provider_id';
    when 'route' then
      perform remem.put_route(record ->> 'kind', remem._text_array(record -> 'arms'), workspace.workspace, record ->> 'pool',
        remem._text_array(record -> 'fallback_pools'), coalesce((record ->> 'graph_depth')::int, 1), coalesce(record -> 'signals', '{}'),
        remem._text_array(record -> 'keywords'));
    when 'plan_setting' then
      if record ? 'space' and not exists (select from remem.embedding_space s where s.fingerprint = record ->> 'space') then
        return 'skipped';  -- of a model that is not known here
      end if;
      perform remem.put_plan_setting(workspace.workspace, record ->> 'name', record -> 'value', record ->> 'space');
    when 'continuity_phrase' then
      perform remem.put_continuity_phrase(workspace.workspace, record ->> 'language', record ->> 'phrase');
    when 'generic_word' then
      perform remem.put_generic_word(workspace.workspace, record ->> 'language', record ->> 'word');
  end case;
  return 'written';
end
$$;
comment on function remem._import_record(remem.workspace, jsonb, real[], int) is 'Writes one record of an export that is no memory.';

create or replace function remem._text_array(value jsonb) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select array(select e from jsonb_array_elements_text(coalesce(value, '[]')) with ordinality x (e, n) order by n)
$$;
comment on function remem._text_array(jsonb) is 'A JSON array of texts as an array.';

create or replace function remem._import_session(workspace text, session remem.session) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._check_length('session_ref', session.session_ref, 500, null);
  -- The next turn is counted from the last one: the limit is that of turns.
  if session.last_turn not between 0 and 1000000000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'last_turn', 'value', session.last_turn, 'limit', 1000000000),
      'A turn number lies between 0 and 1000000000');
  end if;
  insert into remem.session as s (workspace, session_ref, last_turn, first_at, last_at)
  values (_import_session.workspace, session.session_ref, coalesce(session.last_turn, 0), session.first_at, session.last_at)
  on conflict on constraint session_ref_unique do update
    set last_turn = greatest(s.last_turn, excluded.last_turn), first_at = least(s.first_at, excluded.first_at),
        last_at = greatest(s.last_at, excluded.last_at);
  return 'written';
end
$$;
comment on function remem._import_session(text, remem.session) is 'Finds or makes a session of an import.';

-- A purge elsewhere keeps its text from coming back here, but purges nothing here. As purge, it is an administrator's.
create or replace function remem._import_tombstone(workspace text, tombstone remem.tombstone) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'admin');
  perform remem._check_length('ref', tombstone.ref, 500, null);
  if exists (select from remem.memory m where m.workspace = _import_tombstone.workspace and m.memory_id = tombstone.memory_id) then
    return 'conflict';
  end if;
  insert into remem.tombstone (workspace, memory_id, memory_no, ref, replaced_by, created_at, purged_at, purged_by, blocks)
  values (_import_tombstone.workspace, tombstone.memory_id, nextval('remem.memory_memory_no_seq'), tombstone.ref, tombstone.replaced_by,
    coalesce(tombstone.created_at, now()), coalesce(tombstone.purged_at, now()), coalesce(tombstone.purged_by, remem._caller()),
    coalesce(tombstone.blocks, true) and not exists (select from remem.memory m where m.workspace = _import_tombstone.workspace
      and m.ref = tombstone.ref and m.superseded_at is null and m.forgotten_at is null))
  on conflict on constraint tombstone_pkey do nothing;
  return case when found then 'created' else 'unchanged' end;
end
$$;
comment on function remem._import_tombstone(text, remem.tombstone) is 'Notes what was purged elsewhere.';

create or replace function remem._import_version(workspace text, old uuid, new uuid, version remem.lineage, item_no int) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._check_member('how', version.how, '{new_version,corrected,superseded}', item_no);
  insert into remem.lineage (workspace, old_no, new_no, how, reason, ref, fingerprint, replaced_at, replaced_by)
  select o.workspace, o.memory_no, n.memory_no, version.how, remem._check_reason(version.reason), o.ref, o.fingerprint,
    coalesce(version.replaced_at, o.superseded_at), version.replaced_by
  from remem.memory o join remem.memory n on n.workspace = o.workspace and n.memory_id = _import_version.new
  where o.workspace = _import_version.workspace and o.memory_id = _import_version.old and o.superseded_by = n.memory_id
  on conflict on constraint lineage_pkey do nothing;
  if found then
    return 'created';
  end if;
  return case when exists (select from remem.lineage l join remem.memory o on o.workspace = l.workspace and o.memory_no = l.old_no
    where l.workspace = _import_version.workspace and o.memory_id = _import_version.old) then 'unchanged' else 'skipped' end;
end
$$;
comment on function remem._import_version(text, uuid, uuid, remem.lineage, int) is 'Says which version replaced which.';

create or replace function remem._import_relation(workspace text, src uuid, dst uuid, relation remem.relation, item_no int) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_no bigint;
begin
  perform remem._check_member('kind', relation.kind, remem._relation_kinds(), item_no);
  perform remem._check_member('provenance', coalesce(relation.provenance, 'verified'), '{verified,llm,heuristic,pending,unverified}', item_no);
  if not coalesce(relation.weight, 1) between 0 and 1 or src = dst then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', case when src = dst then 'dst' else 'weight' end),
      'A link joins two memories with a weight between 0 and 1');
  end if;
  insert into remem.relation (workspace, src_no, dst_no, kind, weight, provenance, created_at)
  select s.workspace, s.memory_no, d.memory_no, relation.kind, coalesce(relation.weight, 1), coalesce(relation.provenance, 'verified'),
    coalesce(relation.created_at, now())
  from remem.memory s join remem.memory d on d.workspace = s.workspace and d.memory_id = _import_relation.dst
  where s.workspace = _import_relation.workspace and s.memory_id = _import_relation.src
    and remem._same_scope(s.scope, s.scope_ref, d.scope, d.scope_ref)
  on conflict on constraint relation_pkey do nothing
  returning src_no into v_no;
  if found then
    perform remem._touch_relation(workspace, v_no);
    return 'created';
  end if;
  return case when exists (
    select from remem.relation r join remem.memory s on s.workspace = r.workspace and s.memory_no = r.src_no
    join remem.memory d on d.workspace = r.workspace and d.memory_no = r.dst_no
    where r.workspace = _import_relation.workspace and r.kind = relation.kind and s.memory_id = _import_relation.src
      and d.memory_id = _import_relation.dst) then 'unchanged' else 'skipped' end;
end
$$;
comment on function remem._import_relation(text, uuid, uuid, remem.relation, int) is 'Links two memories of an import.';

-- What callers said of a topic is said again; what memories say of it was derived when they came. A new entry keeps its id.
create or replace function remem._import_topic(workspace remem.workspace, record jsonb, embedding real[]) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_part record;
  v_hash bytea := remem._entry_hash(remem._owner(record ->> 'scope', record ->> 'scope_ref'),
    btrim(remem._phrase_words(remem._fold(btrim(record ->> 'title')))));
  v_topic remem.topic;
begin
  for v_part in select p.source, p.part from jsonb_each(coalesce(record -> 'parts', '{}')) p (source, part) order by p.source loop
    perform remem.put_topic(workspace.workspace, v_part.part ->> 'title', remem._text_array(v_part.part -> 'aliases'),
      remem._text_array(v_part.part -> 'tags'), v_part.part ->> 'summary', (v_part.part ->> 'importance')::real,
      (v_part.part ->> 'unresolved')::boolean, remem._text_array(v_part.part -> 'providers'), record ->> 'scope', record ->> 'scope_ref',
      v_part.part ->> 'parent', coalesce(v_part.part ->> 'freshness', 'current'), v_part.source);
  end loop;
  select t.* into v_topic from remem.topic t where t.workspace = workspace.workspace and t.entry_hash = v_hash;
  if not found then
    return 'skipped';
  end if;
  if v_topic.created_at = now() and not exists (select from remem.topic t
      where t.workspace = workspace.workspace and t.topic_id = (record ->> 'topic_id')::uuid and t.topic_no <> v_topic.topic_no) then
    update remem.topic t set topic_id = coalesce((record ->> 'topic_id')::uuid, t.topic_id),
      created_at = coalesce((record ->> 'created_at')::timestamptz, t.created_at),
      updated_at = coalesce((record ->> 'updated_at')::timestamptz, t.updated_at)
    where t.workspace = workspace.workspace and t.topic_no = v_topic.topic_no;
  end if;
  if embedding is not null then
    perform remem._check_vector(embedding, remem._space(workspace.space_no), 1);
    perform remem._set_topic_vector(v_topic, workspace.space_no, embedding);
  end if;
  return 'written';
end
$$;
comment on function remem._import_topic(remem.workspace, jsonb, real[]) is 'Puts a topic of an import into the catalog.';

-- The keys of a record are those that this version knows; what it does not know it would lose.
create or replace function remem._check_record(record jsonb, item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_keys text[];
  v_unknown text[];
begin
  if jsonb_typeof(record) is distinct from 'object' or jsonb_typeof(record -> 'type') is distinct from 'string'
      or not remem._export_keys() ? (record ->> 'type') then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'type', 'value', record -> 'type',
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(remem._export_keys()) k)),
      'A record of an export has a type; one that is not known here belongs to a later version');
  end if;
  v_keys := remem._text_array(remem._export_keys() -> (record ->> 'type')) || 'type'::text;
  v_unknown := array(select k from jsonb_object_keys(record) k where k <> all (v_keys) order by k);
  if cardinality(v_unknown) > 0 then
    perform remem._raise('RM002', jsonb_build_object('item', item_no, 'option', v_unknown[1], 'valid', to_jsonb(v_keys)),
      format('A %s has no %s here: the file was written by a later version, upgrade remem first', record ->> 'type', v_unknown[1]));
  end if;
end
$$;
comment on function remem._check_record(jsonb, int) is 'Refuses a record that this version does not know whole.';

create or replace function remem._import(workspace text, on_error text) returns setof remem.import_result
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
  v_memories remem._import_memory[] := '{}';
  v_row record;
  v_outcome text;
  v_code text;
  v_message text;
  v_detail text;
  v_hint text;
begin
  perform remem._lock_workspace(workspace, exclusive => true);
  -- A new workspace gets the language of the file.
  v_workspace := remem._ensure_workspace(workspace, coalesce((
    select s.item ->> 'language' from pg_temp.remem_staged s where s.item ->> 'type' = 'header' order by s.item_no limit 1), 'english'));
  v_space := remem._space(v_workspace.space_no);
  v_dictionaries := remem._language_dictionaries(v_workspace.language);
  for v_row in select s.item_no, s.item, s.embedding, s.item ->> 'type' as type from pg_temp.remem_staged s order by s.item_no loop
    if cardinality(v_memories) >= c_chunk or cardinality(v_memories) > 0 and v_row.type is distinct from 'memory' then
      return query select r.* from remem._import_memories(v_workspace, v_memories) r;
      v_memories := '{}';
    end if;
    begin
      perform remem._check_record(v_row.item, v_row.item_no);
      if v_row.type = 'memory' then
        v_memories := v_memories || remem._read_import(v_workspace, v_space, v_dictionaries, v_keys, v_row.item, v_row.embedding,
          v_row.item_no, v_cap);
      else
        v_outcome := remem._import_record(v_workspace, remem._normalize_json(v_row.item), v_row.embedding, v_row.item_no);
        return next (v_row.item_no, v_row.type, v_outcome, (v_row.item ->> 'memory_id')::uuid, v_row.item ->> 'ref', null)::remem.import_result;
      end if;
    exception when others then
      -- 'others' because plpgsql has no name for our error class; besides that only what a value of the wrong type raises.
      get stacked diagnostics v_code = returned_sqlstate, v_message = message_text, v_detail = pg_exception_detail, v_hint = pg_exception_hint;
      if left(v_code, 2) in ('22', '23') then
        v_detail := jsonb_build_object('item', v_row.item_no, 'type', v_row.type, 'problem', v_message)::text;
        v_hint := 'The record is not as export writes it';
        v_code := 'RM001';
        v_message := (select c.message from remem._error_catalog() c where c.code = v_code);
      elsif v_code not like 'RM%' then
        raise;
      end if;
      v_detail := (jsonb_build_object('item', v_row.item_no) || coalesce(v_detail, '{}')::jsonb)::text;
      if on_error = 'abort' then
        perform remem._raise(v_code, v_detail::jsonb, v_hint);
      end if;
      return next (v_row.item_no, v_row.type, 'refused', null, v_row.item ->> 'ref',
        remem._error_value(v_code, v_message, v_detail, v_hint))::remem.import_result;
    end;
  end loop;
  if cardinality(v_memories) > 0 then
    return query select r.* from remem._import_memories(v_workspace, v_memories) r;
  end if;
end
$$;
comment on function remem._import(text, text) is 'Takes the records in the staging table; the caller has authorised.';

create or replace function remem.import_staged(workspace text, on_error text default 'abort') returns setof remem.import_result
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  perform remem._check_member('on_error', on_error, '{abort,report}', null);
  perform remem._begin_staged();
  if not remem._staged_is_ours() then
    return;  -- nothing was staged in this transaction
  end if;
  return query select r.* from remem._import(workspace, on_error) r order by r.item_no;
  truncate pg_temp.remem_staged;
end
$$;
comment on function remem.import_staged(text, text) is
  'Takes the records of an export that were copied into the staging table, with their ids and times; vectors go into its column embedding. What is here stays as it is: a memory is created, unchanged (it is here), merged (an equal text is here), conflict (its ref has other content here, or it ended elsewhere only), forgotten, superseded or purged (it was here). Everything but tombstones, providers, routes and settings, which need admin, takes the level write. All in one transaction: other writers of the workspace wait.';
