-- correct, supersede, and the small changes: pin, resolve, importance, confidence, freshness.

-- What the caller said of a memory, as an item that could be said again. Its turn stays where it is.
create or replace function remem._item_of(memory remem.memory) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select jsonb_strip_nulls(jsonb_build_object('body', memory.body, 'ref', memory.ref, 'kind', memory.kind, 'title', memory.title,
      'summary', memory.summary, 'tags', to_jsonb(memory.tags), 'aliases', to_jsonb(memory.aliases), 'scope', memory.scope,
      'scope_ref', memory.scope_ref, 'topic_key', memory.topic_key, 'subject', memory.subject, 'attribute', memory.attribute,
      'source_class', memory.source_class, 'source_ref', memory.source_ref, 'importance', memory.importance,
      'confidence', memory.confidence, 'pinned', memory.pinned, 'unresolved', memory.unresolved,
      'session_ref', (select s.session_ref from remem.session s
        where s.workspace = memory.workspace and s.session_no = memory.session_no),
      'speaker', memory.speaker, 'occurred_at', memory.occurred_at, 'valid_from', memory.valid_from, 'valid_to', memory.valid_to,
      'entities', to_jsonb(memory.entities)))
    || case when memory.attrs ? 'metadata' then jsonb_build_object('metadata', memory.attrs -> 'metadata') else '{}' end
$$;
comment on function remem._item_of(remem.memory) is 'A memory as the item of remember_many that says it.';

create or replace function remem._correct(
  workspace text, body text, memory_id uuid, ref text, reason text, changes jsonb, embedding real[], space text
) returns remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set extra_float_digits = 1
as $$
#variable_conflict use_column
declare
  c_keys constant text[] := '{kind,title,summary,tags,aliases,scope,scope_ref,topic_key,subject,attribute,source_class,source_ref,importance,confidence,pinned,unresolved,speaker,occurred_at,valid_from,valid_to,entities,metadata}';
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_old remem.memory;
  v_said jsonb;
  v_item jsonb;
  v_no bigint;
  v_prepared remem._prepared_item;
  v_reply remem.memory_ref;
begin
  reason := remem._check_reason(reason);
  if jsonb_typeof(coalesce(changes, '{}')) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'changes', 'got', jsonb_typeof(changes)), 'changes is a JSON object');
  end if;
  v_said := coalesce(changes, '{}');
  perform remem._raise('RM002', jsonb_build_object('option', k, 'valid', to_jsonb(c_keys)), 'Valid keys: ' || array_to_string(c_keys, ', '))
  from jsonb_object_keys(v_said) k where k <> all (c_keys);
  if body is null then
    perform remem._raise('RM001', '{"argument": "body"}', 'Give the whole new text');
  end if;
  if embedding is not null and exists (select from unnest(embedding) e where e is null or e in ('NaN', 'Infinity', '-Infinity')) then
    perform remem._raise('RM203', '{"item": 1, "problem": "not finite"}', 'Every component must be a finite number');
  end if;
  perform remem._lock_workspace(workspace);
  v_no := remem._find_memory(_correct.workspace, _correct.memory_id, _correct.ref, false);
  if v_no is null then
    perform remem._refuse_unknown(_correct.memory_id, _correct.ref);
  end if;
  perform remem._lock_memories(_correct.workspace, array[v_no]);
  if remem._find_memory(_correct.workspace, _correct.memory_id, _correct.ref, false) is distinct from v_no then
    return remem._outcome(_correct.workspace, v_no, 'conflict');  -- the ref means another memory by now
  end if;
  perform remem._lock_rows(_correct.workspace, array[v_no]);
  select m.* into v_old from remem.memory m where m.workspace = _correct.workspace and m.memory_no = v_no;
  if remem._state(v_old) <> 'current' then
    return remem._outcome(_correct.workspace, v_no, 'conflict');
  end if;
  select w.* into v_workspace from remem.workspace w where w.workspace = _correct.workspace;
  v_space := remem._space(v_workspace.space_no);
  v_said := remem._normalize_json(v_said || jsonb_build_object('body', body));
  v_item := remem._item_of(v_old);
  if v_item || v_said = v_item then
    return remem._outcome(_correct.workspace, v_no, 'unchanged');
  end if;
  v_item := v_item || v_said || jsonb_strip_nulls(jsonb_build_object('embedding', to_jsonb(embedding), 'space', space));
  v_prepared := remem._prepare_item(v_workspace, v_space, remem._language_dictionaries(v_workspace.language),
    c_keys || '{body,ref,session_ref,embedding,space}'::text[], v_item, null, 1, remem._max_source_class(_correct.workspace));
  select r.* into v_reply from remem._insert_rows(v_workspace, array[v_prepared], array[v_no], array[v_old.session_no],
    array[v_old.turn_no], 'corrected', reason) r;
  v_reply.outcome := 'corrected';
  v_reply.item_no := null;
  return v_reply;
end
$$;
comment on function remem._correct(text, text, uuid, text, text, jsonb, real[], text) is 'Replaces a memory by a corrected version; the caller has authorised.';

create or replace function remem.correct(
  workspace text, body text, memory_id uuid default null, ref text default null, reason text default null,
  changes jsonb default '{}', embedding real[] default null, space text default null
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
set extra_float_digits = 1
as $$
begin
  perform remem._authorize(workspace, 'write');
  return remem._correct(workspace, body, memory_id, ref, reason, changes, embedding, space);
end
$$;
comment on function remem.correct(text, text, uuid, text, text, jsonb, real[], text) is
  'Replaces what a current memory (by its id or ref) says by a new version, which takes over everything that changes does not name; the former one stays in history and in as_of, and the same words under its ref do not come back by remember. changes: an object with any of kind, title, summary, tags, aliases, scope, scope_ref, topic_key, subject, attribute, source_class, source_ref, importance, confidence, pinned, unresolved, speaker, occurred_at, valid_from, valid_to, entities, metadata. Outcome: corrected (with the id of the new version), unchanged, or conflict (it is no longer current: another change came first).';

create or replace function remem.supersede(workspace text, old uuid, new uuid, reason text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_old remem.memory;
  v_new remem.memory;
  v_workspace remem.workspace;
begin
  perform remem._authorize(workspace, 'write');
  reason := remem._check_reason(reason);
  perform remem._lock_workspace(workspace);
  v_old := remem._relation_end(workspace, 'old', old, false);
  v_new := remem._relation_end(workspace, 'new', new, false);
  if v_old.memory_no = v_new.memory_no then
    perform remem._raise('RM001', jsonb_build_object('argument', 'new', 'value', new), 'A memory does not supersede itself');
  end if;
  perform remem._lock_memories(workspace, array[v_old.memory_no, v_new.memory_no]);
  perform remem._lock_rows(workspace, array[v_old.memory_no, v_new.memory_no]);
  v_old := remem._relation_end(workspace, 'old', old, false);
  v_new := remem._relation_end(workspace, 'new', new, false);
  if v_old.superseded_by = new and v_old.forgotten_at is null then
    return remem._outcome(workspace, v_old.memory_no, 'unchanged');
  elsif remem._state(v_old) <> 'current' then
    return remem._outcome(workspace, v_old.memory_no, 'conflict');
  elsif remem._state(v_new) <> 'current' then
    return remem._outcome(workspace, v_new.memory_no, 'conflict');
  end if;
  update remem.memory m
  set superseded_at = now(), superseded_by = new, updated_at = now(), changed_xid = pg_current_xact_id()
  where m.workspace = supersede.workspace and m.memory_no = v_old.memory_no;
  perform remem._retire(workspace, array[v_old.memory_no]);
  insert into remem.lineage (workspace, old_no, new_no, how, reason, ref, fingerprint, replaced_by)
  values (supersede.workspace, v_old.memory_no, v_new.memory_no, 'superseded', supersede.reason, v_old.ref, v_old.fingerprint, remem._caller());
  select w.* into v_workspace from remem.workspace w where w.workspace = supersede.workspace;
  perform remem._add_topics(v_workspace, array[v_new.memory_no]);  -- a topic of the former one goes over to it
  return remem._outcome(workspace, v_old.memory_no, 'superseded');
end
$$;
comment on function remem.supersede(text, uuid, uuid, text) is
  'Says that one current memory takes the place of another, both by their memory_ids: the old one leaves recall and stays in history and in as_of. Outcome: superseded, unchanged (it was superseded by this one already), or conflict with the state of the memory that is no longer current: another change came first.';

-- What a memory is worth, changed in its row; its version stays. Of the arguments, null changes nothing.
create or replace function remem._set_fields(
  workspace text, memory_id uuid, ref text, pinned boolean default null, unresolved boolean default null, importance real default null,
  freshness text default null, reinforce real default null
) returns remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_workspace remem.workspace;
  v_no bigint;
  v_old remem.memory;
  v_new remem.memory;
begin
  perform remem._lock_workspace(workspace);
  v_no := remem._find_memory(_set_fields.workspace, _set_fields.memory_id, _set_fields.ref, false);
  if v_no is null then
    perform remem._refuse_unknown(_set_fields.memory_id, _set_fields.ref);
  end if;
  perform remem._lock_memories(_set_fields.workspace, array[v_no]);
  perform remem._lock_rows(_set_fields.workspace, array[v_no]);
  select m.* into v_old from remem.memory m where m.workspace = _set_fields.workspace and m.memory_no = v_no;
  if v_old.memory_no is null or remem._state(v_old) <> 'current' then
    return remem._outcome(_set_fields.workspace, v_no, 'conflict');
  end if;
  v_new := v_old;
  v_new.pinned := coalesce(_set_fields.pinned, v_old.pinned);
  v_new.unresolved := coalesce(_set_fields.unresolved, v_old.unresolved);
  v_new.importance := coalesce(_set_fields.importance, v_old.importance);
  v_new.freshness := coalesce(_set_fields.freshness, v_old.freshness);
  if reinforce is not null then
    v_new.confidence := coalesce(v_old.confidence, 0.5) + reinforce * (1 - coalesce(v_old.confidence, 0.5));
    v_new.provenance := coalesce(v_old.provenance, '{}') || jsonb_build_object('reinforced', jsonb_build_object(
      'count', coalesce((v_old.provenance #>> '{reinforced,count}')::int, 0) + 1, 'last', now()));
  elsif v_new = v_old then
    return remem._outcome(_set_fields.workspace, v_no, 'unchanged');
  end if;
  update remem.memory m
  set pinned = v_new.pinned, unresolved = v_new.unresolved, importance = v_new.importance, freshness = v_new.freshness,
      confidence = v_new.confidence, provenance = v_new.provenance,
      attrs = jsonb_strip_nulls(m.attrs - 'metadata' || jsonb_build_object('pinned', v_new.pinned, 'unresolved', v_new.unresolved,
          'importance', v_new.importance, 'confidence', v_new.confidence, 'freshness', v_new.freshness,
          'important', case when v_new.pinned or v_new.importance >= 0.8 then true end))
        || case when m.attrs ? 'metadata' then jsonb_build_object('metadata', m.attrs -> 'metadata') else '{}' end,
      updated_at = now(), changed_xid = pg_current_xact_id()
  where m.workspace = _set_fields.workspace and m.memory_no = v_no;
  if (v_old.pinned, v_old.unresolved, v_old.importance, v_old.freshness)
     is distinct from (v_new.pinned, v_new.unresolved, v_new.importance, v_new.freshness) then
    select w.* into v_workspace from remem.workspace w where w.workspace = _set_fields.workspace;
    perform remem._rederive_topics(v_workspace, v_old);
    perform remem._add_topics(v_workspace, array[v_no]);
  end if;
  return remem._outcome(_set_fields.workspace, v_no, 'updated');
end
$$;
comment on function remem._set_fields(text, uuid, text, boolean, boolean, real, text, real) is 'Changes what a current memory is worth.';

create or replace function remem.pin(workspace text, memory_id uuid default null, ref text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  return remem._set_fields(workspace, memory_id, ref, pinned => true);
end
$$;
comment on function remem.pin(text, uuid, text) is
  'Pins a current memory: it counts as important, and the pools of its kind hold it. A new version says for itself whether it is pinned; correct takes the pin over. Outcome: updated, unchanged or conflict (it is no longer current).';

create or replace function remem.unpin(workspace text, memory_id uuid default null, ref text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  return remem._set_fields(workspace, memory_id, ref, pinned => false);
end
$$;
comment on function remem.unpin(text, uuid, text) is 'Takes the pin of a current memory away. Outcome: updated, unchanged or conflict.';

create or replace function remem.resolve(workspace text, memory_id uuid default null, ref text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  return remem._set_fields(workspace, memory_id, ref, unresolved => false);
end
$$;
comment on function remem.resolve(text, uuid, text) is
  'Says that the unresolved work of a current memory is done: it is no longer offered when earlier work is continued. Outcome: updated, unchanged or conflict.';

create or replace function remem.set_importance(
  workspace text, importance real, memory_id uuid default null, ref text default null
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  if importance is null or not importance between 0 and 1 then
    perform remem._raise('RM001', '{"argument": "importance"}', 'importance lies between 0 and 1');
  end if;
  return remem._set_fields(workspace, memory_id, ref, importance => set_importance.importance);
end
$$;
comment on function remem.set_importance(text, real, uuid, text) is 'Sets the importance (0 to 1) of a current memory. Outcome: updated, unchanged or conflict.';

create or replace function remem.reinforce(
  workspace text, memory_id uuid default null, ref text default null, strength real default 0.5
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  if strength is null or not strength between 0 and 1 then
    perform remem._raise('RM001', '{"argument": "strength"}', 'strength lies between 0 and 1');
  end if;
  return remem._set_fields(workspace, memory_id, ref, freshness => 'current', reinforce => strength);
end
$$;
comment on function remem.reinforce(text, uuid, text, real) is
  'Says that a current memory was found true again: its confidence (0.5 where none was given) goes up by `strength` of what it lacks to 1, and it is current again if it was stale. How often and when stands in its provenance. Outcome: updated or conflict.';

create or replace function remem.set_freshness(
  workspace text, freshness text, memory_id uuid default null, ref text default null
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  perform remem._check_member('freshness', freshness, '{current,stale,unknown}', null);
  return remem._set_fields(workspace, memory_id, ref, freshness => set_freshness.freshness);
end
$$;
comment on function remem.set_freshness(text, text, uuid, text) is
  'Labels a current memory as current, stale or unknown: the label comes with every hit, lowers its rank a little, and stale halves the place of its topics in the catalog. Outcome: updated, unchanged or conflict.';
