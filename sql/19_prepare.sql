-- From JSON to something that can be stored: a batch in a few statements, or item by item where one of them is refused.

-- What finds exact duplicates: who says what, folded, with every white space the same.
create or replace function remem._text_fingerprint(speaker text, body text) returns bytea
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_text text := remem._fold(coalesce(speaker || ' ' || body, body, speaker, ''));
begin
  if v_text collate "C" ~ '[\u0001-\u001f\u00a0\u3000]|  ' then
    v_text := regexp_replace(v_text, '[\u0001-\u0020\u00a0\u3000]+', ' ', 'g');
  end if;
  return substr(sha256(convert_to(v_text, 'UTF8')), 1, 16);
end
$$;
comment on function remem._text_fingerprint(text, text) is 'What two memories with the same words have in common.';

-- What tells whether a ref says something else than before. The vector is no content.
create or replace function remem._content_hash(item remem.memory_item) returns bytea
language sql stable
return substr(sha256(convert_to(
  (to_jsonb(case when item.embedding is null then item else remem._default_item(item, null) end)
    - '{embedding,space,on_conflict}'::text[])::text, 'UTF8')), 1, 16);
comment on function remem._content_hash(remem.memory_item) is 'What two versions with the same content have in common.';

-- JSON into a checked item with its vector, or the error. Runs with time zone UTC (set by the caller), so that a datetime
-- without a zone means the same on every server. A vector may come beside the JSON.
create or replace function remem._read_item(
  space remem.embedding_space, keys text[], item jsonb, embedding real[], item_no int, max_source_class text
) returns remem.memory_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem.memory_item;
begin
  -- The vector goes its own way: as JSON it is most of the item, and has no text to normalise.
  if jsonb_typeof(item) = 'object' and item ? 'embedding' then
    embedding := (remem._parse_item(jsonb_build_object('embedding', item -> 'embedding'), keys, item_no)).embedding;
    item := item - 'embedding';
  end if;
  v_item := remem._check_item(remem._parse_item(remem._normalize_json(item), keys, item_no), item_no);
  if max_source_class is not null then
    v_item.source_class := remem._cap_source_class(v_item.source_class, max_source_class);
  end if;
  if embedding is not null then
    if v_item.space is not null and v_item.space not in (space.fingerprint, space.name) then
      perform remem._raise('RM202', jsonb_build_object('item', item_no, 'space', v_item.space, 'expected', space.name),
        'The vector was made by another model than the workspace''s current one');
    end if;
    perform remem._check_vector(embedding, space, item_no);
    v_item.embedding := embedding;
  end if;
  return v_item;
end
$$;
comment on function remem._read_item(remem.embedding_space, text[], jsonb, real[], int, text) is
  'Reads and checks one item of remember.';

-- The same for a batch in one statement; null if one of them is not surely right, for _read_item to say. Items, their
-- numbers and their vectors (each in an item of its own, for there are no arrays of arrays) run in parallel.
create or replace function remem._read_items(
  space remem.embedding_space, keys text[], items jsonb[], vectors remem.memory_item[], item_nos int[], max_source_class text
) returns remem._prepared_item[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_classes text[] := array(select s.name from remem.source_class s);
  v_read remem._prepared_item[];
  v_sound boolean;
begin
  begin
    select array_agg(row(r.item_no, r.item, null, null, null, null, null, null)::remem._prepared_item order by r.n),
      bool_and(r.known and remem._is_sound(r.item, v_classes) and ((r.item).embedding is null
        or remem._is_vector((r.item).embedding, space.dimensions)
          and coalesce((r.item).space in (space.fingerprint, space.name), true)))
    into v_read, v_sound
    from (
      select p.n, p.item_no, p.known, remem._default_item(p.populated, p.embedding) as item
      from (
        select i.n, i.item_no, i.item - keys = '{}' as known,
          jsonb_populate_record(null::remem.memory_item, remem._normalize_json(
            case when i.item ? 'embedding' then i.item - 'embedding' else i.item end)) as populated,
          case when i.item ? 'embedding'
            then (jsonb_populate_record(null::remem.memory_item, jsonb_build_object('embedding', i.item -> 'embedding'))).embedding
            else i.embedding end as embedding
        from unnest(items, item_nos, vectors) with ordinality i (item, item_no, body, ref, kind, title, summary, tags, aliases,
          scope, scope_ref, topic_key, subject, attribute, source_class, source_ref, importance, confidence, pinned, unresolved,
          session_ref, turn_no, speaker, occurred_at, valid_from, valid_to, entities, metadata, embedding, on_conflict, space, n)
        offset 0
      ) p
      offset 0
    ) r;
  exception when data_exception then
    return null;
  end;
  if not v_sound then
    return null;
  end if;
  if max_source_class is not null then
    for i in 1 .. cardinality(v_read) loop
      v_read[i].item.source_class := remem._cap_source_class(((v_read[i]).item).source_class, max_source_class);
    end loop;
  end if;
  return v_read;
end
$$;
comment on function remem._read_items(remem.embedding_space, text[], jsonb[], remem.memory_item[], int[], text) is
  'Reads a batch of items that are surely right; null if one is not.';

-- What is derived of checked items, which come with their number only: one statement for all of them.
create or replace function remem._analyse_items(
  workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], items remem._prepared_item[]
) returns remem._prepared_item[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    select array_agg(row(a.item_no,
        case when a.hashed is null or 0 = all (a.hashed) then a.item  -- a text without features has no direction
          else remem._default_item(a.item, a.hashed) end,
        remem._item_attrs(workspace.workspace, a.item), remem._text_fingerprint((a.item).speaker, (a.item).body),
        remem._content_hash(a.item), l.lexemes, l.tfs, l.doc_len)::remem._prepared_item order by a.n)
    from (
      select t.*, case when space.space_no = 1 and (t.item).embedding is null then remem._hash_embed(t.text) end as hashed
      from (
        select p.n, p.item_no, p.item, remem._document_text((p.item).title, (p.item).summary, (p.item).body, (p.item).speaker,
          (p.item).aliases, (p.item).tags) as text
        from unnest(items) with ordinality p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, n)
        offset 0
      ) t
      offset 0
    ) a
    cross join lateral (
      select coalesce(array_agg(x.lexeme), '{}') as lexemes, coalesce(array_agg(x.tf), '{}') as tfs,
        coalesce(sum(x.tf) filter (where not x.extra), 0)::int as doc_len
      from remem._lexemes(a.text, dictionaries) x
    ) l
  );
end
$$;
comment on function remem._analyse_items(remem.workspace, remem.embedding_space, regdictionary[], remem._prepared_item[]) is
  'Analyses checked items of remember.';

-- The whole way of one item.
create or replace function remem._prepare_item(
  workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], item jsonb, embedding real[],
  item_no int, max_source_class text
) returns remem._prepared_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_read remem._prepared_item;
begin
  v_read.item_no := item_no;
  v_read.item := remem._read_item(space, keys, item, embedding, item_no, max_source_class);
  return (remem._analyse_items(workspace, space, dictionaries, array[v_read]))[1];
end
$$;
comment on function remem._prepare_item(remem.workspace, remem.embedding_space, regdictionary[], text[], jsonb, real[], int, text) is
  'Validates and analyses one item of remember.';

-- A batch of items, all or nothing or with the refused ones reported; numbers, items and vectors run in parallel.
create or replace function remem._remember_batch(
  workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], items jsonb[],
  vectors remem.memory_item[], item_nos int[], max_source_class text, on_error text
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_few constant int := 5;  -- up to so many are read one by one sooner
  v_read remem._prepared_item[];
  v_one remem._prepared_item;
  v_code text;
  v_message text;
  v_detail text;
  v_hint text;
begin
  if cardinality(items) > c_few then
    v_read := remem._read_items(space, keys, items, vectors, item_nos, max_source_class);
  end if;
  if v_read is null then
    v_read := '{}';
    for i in 1 .. cardinality(items) loop
      v_one.item_no := item_nos[i];
      if on_error = 'abort' then
        v_one.item := remem._read_item(space, keys, items[i], (vectors[i]).embedding, item_nos[i], max_source_class);
      else
        begin
          v_one.item := remem._read_item(space, keys, items[i], (vectors[i]).embedding, item_nos[i], max_source_class);
        exception when others then
          -- 'others' because plpgsql has no name for our error class; anything else goes on up.
          get stacked diagnostics v_code = returned_sqlstate, v_message = message_text, v_detail = pg_exception_detail,
            v_hint = pg_exception_hint;
          if v_code not like 'RM%' then
            raise;
          end if;
          return next (null, items[i] ->> 'ref', 'refused', item_nos[i],
            remem._error_value(v_code, v_message, v_detail, v_hint))::remem.memory_ref;
          continue;
        end;
      end if;
      v_read := v_read || v_one;
    end loop;
  end if;
  if cardinality(v_read) > 0 then
    return query select r.* from remem._store(workspace,
      remem._embed_items(space, remem._analyse_items(workspace, space, dictionaries, v_read)), on_error) r;
  end if;
end
$$;
comment on function remem._remember_batch(
  remem.workspace, remem.embedding_space, regdictionary[], text[], jsonb[], remem.memory_item[], int[], text, text) is
  'Reads, analyses and stores a batch of items.';
