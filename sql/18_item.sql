-- One item of remember: read, defaulted, checked. Every refusal names the item and the argument.

-- A text argument within its limit, or RM003.
create or replace function remem._check_length(argument text, value text, max_bytes int, item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if octet_length(value) > max_bytes then
    perform remem._raise('RM003', jsonb_build_object('item', item_no, 'argument', argument,
      'got', octet_length(value), 'limit', max_bytes), format('%s may have at most %s bytes', argument, max_bytes));
  end if;
end
$$;
comment on function remem._check_length(text, text, int, int) is 'Refuses a text over its limit in bytes.';

-- What a memory may hold, and what may be embedded.
create or replace function remem._text_limit() returns int
language sql immutable parallel safe
return 10485760;
comment on function remem._text_limit() is 'Bytes of the longest text that is stored or embedded.';

-- A value out of a closed list, or RM001.
create or replace function remem._check_member(argument text, value text, valid text[], item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if value is null or value <> all (valid) then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', argument, 'value', left(value, 200),
      'valid', to_jsonb(valid)), 'Choose one of: ' || array_to_string(valid, ', '));
  end if;
end
$$;
comment on function remem._check_member(text, text, text[], int) is 'Refuses a value outside a closed list.';

-- Whether a vector may be stored: right size, finite, not zero.
create or replace function remem._is_vector(embedding real[], dimensions int) returns boolean
language sql immutable parallel safe
return array_ndims(embedding) = 1 and cardinality(embedding) = dimensions and array_position(embedding, null) is null
  and not ('NaN' = any (embedding) or 'Infinity' = any (embedding) or '-Infinity' = any (embedding) or 0 = all (embedding));
comment on function remem._is_vector(real[], int) is 'Whether a space of so many dimensions can hold a vector.';

-- A vector of the space: right size, finite, not zero; or RM201, RM203. item_no 0 = a query.
create or replace function remem._check_vector(embedding real[], space remem.embedding_space, item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if array_ndims(embedding) is distinct from 1 or cardinality(embedding) <> space.dimensions then
    perform remem._raise('RM201', jsonb_build_object('item', nullif(item_no, 0), 'space', space.name,
      'expected', space.dimensions, 'got', cardinality(embedding)), 'remem embeddings status');
  end if;
  if array_position(embedding, null) is not null or 'NaN' = any (embedding) or 'Infinity' = any (embedding) or '-Infinity' = any (embedding) then
    perform remem._raise('RM203', jsonb_build_object('item', nullif(item_no, 0), 'problem', 'not finite'),
      'Every component must be a finite number');
  end if;
  if item_no > 0 and 0 = all (embedding) then
    perform remem._raise('RM203', jsonb_build_object('item', item_no, 'problem', 'zero vector'),
      'A zero vector has no direction: leave the embedding out');
  end if;
end
$$;
comment on function remem._check_vector(real[], remem.embedding_space, int) is 'Refuses a vector that its space cannot hold.';

-- JSON into a typed item. A value of the wrong type is RM001 naming the argument.
create or replace function remem._parse_item(item jsonb, keys text[], item_no int) returns remem.memory_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_unknown text[];
  v_key text;
  v_state text;
  v_problem text;
begin
  if jsonb_typeof(item) is distinct from 'object' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'got', jsonb_typeof(item)), 'An item is a JSON object');
  end if;
  v_unknown := (select array_agg(k order by k) from jsonb_object_keys(item) k where k <> all (keys));
  if v_unknown is not null then
    perform remem._raise('RM002', jsonb_build_object('item', item_no, 'option', v_unknown[1], 'valid', to_jsonb(keys)),
      'Valid keys: ' || array_to_string(keys, ', '));
  end if;
  begin
    return jsonb_populate_record(null::remem.memory_item, item);
  exception when data_exception or program_limit_exceeded then  -- the latter: seven dimensions of an array
    get stacked diagnostics v_state = returned_sqlstate, v_problem = message_text;
  end;
  -- Only now: find which key it was, by reading each alone.
  for v_key in select k from jsonb_object_keys(item) k loop
    begin
      perform jsonb_populate_record(null::remem.memory_item, jsonb_build_object(v_key, item -> v_key));
    exception when data_exception or program_limit_exceeded then
      exit;
    end;
  end loop;
  perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_key, 'problem', v_problem,
    'sqlstate', v_state), format('Give %s a value of its type', v_key));
end
$$;
comment on function remem._parse_item(jsonb, text[], int) is 'Reads one JSON item with typed errors.';

create or replace function remem._item_kinds() returns text[]
language sql immutable parallel safe
return '{semantic,episodic,decision,preference,procedure,task,other}'::text[];
comment on function remem._item_kinds() is 'The kinds of memories.';

create or replace function remem._item_scopes() returns text[]
language sql immutable parallel safe
return '{global,project,session,user}'::text[];
comment on function remem._item_scopes() is 'The scopes of memories.';

create or replace function remem._conflict_rules() returns text[]
language sql immutable parallel safe
return '{new_version,error,rewrite}'::text[];
comment on function remem._conflict_rules() is 'What remember may do about a ref that has other content.';

-- The item with its defaults, and its vector, which comes apart from it.
create or replace function remem._default_item(item remem.memory_item, embedding real[]) returns remem.memory_item
language sql immutable parallel safe
return row(item.body, item.ref, coalesce(item.kind, 'semantic'), item.title, item.summary, item.tags, item.aliases,
  coalesce(nullif(item.scope, 'workspace'), 'global'),
  case when item.scope = 'session' then coalesce(item.scope_ref, item.session_ref) else item.scope_ref end,
  item.topic_key, item.subject, item.attribute, coalesce(item.source_class, 'unspecified'), item.source_ref,
  coalesce(item.importance, 0.5), item.confidence, coalesce(item.pinned, false), coalesce(item.unresolved, false),
  item.session_ref, item.turn_no, item.speaker, item.occurred_at, item.valid_from, item.valid_to, item.entities,
  item.metadata, embedding, coalesce(item.on_conflict, 'new_version'), item.space)::remem.memory_item;
comment on function remem._default_item(remem.memory_item, real[]) is 'An item as it is stored where it says nothing.';

create or replace function remem._is_short_list(list text[]) returns boolean
language sql stable parallel safe
return list is null or case when array_ndims(list) = 1
  then cardinality(list) <= 1000 and array_position(list, null) is null and octet_length(array_to_string(list, '')) <= 1000
  else cardinality(list) = 0 end;
comment on function remem._is_short_list(text[]) is 'Whether a list is so short that no element can be too long.';

-- Whether an item with its defaults is surely right: nearly every one is, and a batch is looked at in one statement
-- (bound, so that it is inlined). Of the others _check_item says what is wrong, if anything is. Limits are in bytes:
-- they keep one careless caller from making rows that nothing can read.
create or replace function remem._is_sound(item remem.memory_item, source_classes text[]) returns boolean
language sql stable parallel safe
return coalesce(
  item.body ~ '[^\u0001-\u0020\u0085\u00a0\u2000-\u200b\u2028\u2029\u3000\ufeff]' and octet_length(item.body) <= remem._text_limit()
  and coalesce(greatest(octet_length(item.title), octet_length(item.summary)), 0) <= 65536
  and coalesce(greatest(octet_length(item.ref), octet_length(item.scope_ref), octet_length(item.session_ref),
    octet_length(item.topic_key), octet_length(item.speaker)), 0) <= 500
  and coalesce(greatest(octet_length(item.subject), octet_length(item.attribute)), 0) <= 2000
  and coalesce(octet_length(item.source_ref), 0) <= 4000
  and (item.metadata is null or octet_length(item.metadata::text) <= 200
    or octet_length(item.metadata::text) <= 1048576 and not jsonb_path_exists(item.metadata, '$.**{500}'))
  and remem._is_short_list(item.tags) and remem._is_short_list(item.aliases) and remem._is_short_list(item.entities)
  and item.kind = any (remem._item_kinds()) and item.scope = any (remem._item_scopes())
  and (item.scope = 'global') = (item.scope_ref is null) and item.scope_ref is distinct from ''
  and item.ref is distinct from '' and item.session_ref is distinct from ''
  and item.source_class = any (source_classes)
  and item.importance between 0 and 1 and coalesce(item.confidence, 0) between 0 and 1
  and coalesce(item.valid_from < item.valid_to, true)
  and (item.turn_no is null or item.turn_no between 0 and 1000000000 and item.session_ref is not null)
  and item.on_conflict = any (remem._conflict_rules()), false);
comment on function remem._is_sound(remem.memory_item, text[]) is 'Whether an item is surely within all limits; false says nothing.';

-- The limits of _is_sound one by one, and those that it leaves to this.
create or replace function remem._check_item(item remem.memory_item, item_no int) returns remem.memory_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem.memory_item := remem._default_item(item, item.embedding);
  v_bad text;
begin
  if remem._is_sound(v_item, array['unspecified']) then
    return v_item;
  end if;
  if coalesce(item.body, '') !~ '[^\u0001-\u0020\u0085\u00a0\u2000-\u200b\u2028\u2029\u3000\ufeff]' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'body'), 'A memory needs a body');
  end if;
  perform remem._check_length('body', item.body, remem._text_limit(), item_no);
  perform remem._check_length('title', item.title, 65536, item_no);
  perform remem._check_length('summary', item.summary, 65536, item_no);
  perform remem._check_length('ref', item.ref, 500, item_no);
  perform remem._check_length('scope_ref', item.scope_ref, 500, item_no);
  perform remem._check_length('session_ref', item.session_ref, 500, item_no);
  perform remem._check_length('topic_key', item.topic_key, 500, item_no);
  perform remem._check_length('speaker', item.speaker, 500, item_no);
  perform remem._check_length('subject', item.subject, 2000, item_no);
  perform remem._check_length('attribute', item.attribute, 2000, item_no);
  perform remem._check_length('source_ref', item.source_ref, 4000, item_no);
  perform remem._check_length('metadata', item.metadata::text, 1048576, item_no);
  -- Readers in other languages take documents apart by recursion: one that is too deep for them would hide all others.
  if octet_length(item.metadata::text) > 200 and jsonb_path_exists(item.metadata, '$.**{500}') then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'metadata', 'limit', 500),
      'metadata may be nested at most 500 deep');
  end if;
  if coalesce(item.tags, item.aliases, item.entities) is not null then
    for v_bad in
      select a.name from (values ('tags', item.tags), ('aliases', item.aliases), ('entities', item.entities)) a (name, vals)
      where cardinality(a.vals) > 1000 or array_ndims(a.vals) > 1 or exists (select from unnest(a.vals) v where v is null or octet_length(v) > 1000)
    loop
      perform remem._raise('RM003', jsonb_build_object('item', item_no, 'argument', v_bad, 'limit', 1000),
        format('%s may hold at most 1000 texts of at most 1000 bytes, none null', v_bad));
    end loop;
  end if;
  item := v_item;
  perform remem._check_member('kind', item.kind, remem._item_kinds(), item_no);
  perform remem._check_member('scope', item.scope, remem._item_scopes(), item_no);
  if (item.scope = 'global') <> (item.scope_ref is null) or item.scope_ref = '' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'scope_ref', 'value', item.scope_ref),
      'Every scope but global needs a scope_ref; global has none');
  end if;
  if item.ref = '' or item.session_ref = '' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', case when item.ref = '' then 'ref' else 'session_ref' end,
      'value', ''), 'Leave it out, or give it a name');
  end if;
  if not exists (select from remem.source_class s where s.name = item.source_class) then
    perform remem._check_member('source_class', item.source_class,
      (select array_agg(s.name order by s.name) from remem.source_class s), item_no);
  end if;
  if not (item.importance between 0 and 1 and coalesce(item.confidence, 0) between 0 and 1) then
    v_bad := case when item.importance between 0 and 1 then 'confidence' else 'importance' end;
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_bad), format('%s lies between 0 and 1', v_bad));
  end if;
  if item.valid_from >= item.valid_to then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'valid_to'), 'valid_to must be after valid_from');
  end if;
  if item.turn_no not between 0 and 1000000000 or (item.turn_no is not null and item.session_ref is null) then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'turn_no', 'value', item.turn_no,
      'limit', 1000000000), 'A turn number lies between 0 and 1000000000 and belongs to a session_ref');
  end if;
  perform remem._check_member('on_conflict', item.on_conflict, remem._conflict_rules(), item_no);
  return item;
end
$$;
comment on function remem._check_item(remem.memory_item, int) is 'Defaults and limits of one item.';

-- What filters see: the system fields and the caller's metadata in one document.
create or replace function remem._item_attrs(workspace text, item remem.memory_item) returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object(
      'workspace', workspace, 'ref', item.ref, 'kind', item.kind, 'scope', item.scope, 'scope_ref', item.scope_ref,
      'title', left(item.title, 1000), 'tags', to_jsonb(item.tags), 'topic_key', item.topic_key, 'subject', item.subject,
      'attribute', item.attribute, 'source_class', item.source_class, 'source_ref', item.source_ref,
      'importance', item.importance, 'confidence', item.confidence, 'pinned', item.pinned,
      'important', case when item.pinned or item.importance >= 0.8 then true end,  -- what an index can look up
      'unresolved', item.unresolved, 'session_ref', item.session_ref, 'turn_no', item.turn_no,
      'speaker', item.speaker, 'occurred_at', item.occurred_at, 'valid_from', item.valid_from, 'valid_to', item.valid_to,
      'created_at', now(), 'freshness', 'current'))
    || case when item.metadata is null then '{}' else jsonb_build_object('metadata', item.metadata) end;
comment on function remem._item_attrs(text, remem.memory_item) is 'The document that jsonpath filters are applied to.';

-- What a writer says about its own trust is capped by its grant.
create or replace function remem._cap_source_class(source_class text, max_source_class text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case
    when max_source_class is not null and
      (select s.trust from remem.source_class s where s.name = _cap_source_class.source_class)
        > (select s.trust from remem.source_class s where s.name = max_source_class)
    then max_source_class else source_class end
$$;
comment on function remem._cap_source_class(text, text) is 'The less trusted of a claimed source class and the cap.';

-- Stored text is NFC, in every value and key. JSON's punctuation composes with nothing, but the last letter
-- of an escape would (the n of \n before a tilde): a stop keeps them apart. `\.` marks it, since no JSON
-- document holds that after an escape.
create or replace function remem._normalize_json(value jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_text text := value::text;
begin
  if octet_length(v_text) = length(v_text) or v_text is nfc normalized then
    return value;
  end if;
  v_text := regexp_replace(v_text, '\\(u[0-9a-f]{4}|.)', '\\\1\\.', 'g');
  return regexp_replace(normalize(v_text, nfc), '\\(u[0-9a-f]{4}|.)\\\.', '\\\1', 'g')::jsonb;
end
$$;
comment on function remem._normalize_json(jsonb) is 'The document with all its text in NFC.';
