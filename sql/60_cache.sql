-- recall_cached: the same recall through its tiers. hot = this very question, warm = one that means the
-- same, cold = the pipeline. An entry is served only while a fresh recall would see the same rows.

-- Whoever changes what recall reads, other than rows of memory (which carry changed_xid) and counts, calls
-- this: relations, entities, postings rebuilt in place.
create or replace function remem._touch(workspace text) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if exists (select from remem.tally t where t.workspace = _touch.workspace and t.changed_xid = pg_current_xact_id()) then
    return;
  end if;
  -- A former mark may go: this one is newer than every snapshot that has not seen it.
  if (select count(*) from remem.tally t
      where t.workspace = _touch.workspace and t.space_no = 0 and t.rows_delta = 0 and t.doc_len_delta = 0) > 16 then
    delete from remem.tally t using (
      select m.ctid from remem.tally m
      where m.workspace = _touch.workspace and m.space_no = 0 and m.rows_delta = 0 and m.doc_len_delta = 0
      for update skip locked) d
    where t.ctid = d.ctid;
  end if;
  insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta) values (_touch.workspace, 0, 0, 0);
end
$$;
comment on function remem._touch(text) is 'Marks a workspace as changed, so that no answer of before is served from a cache.';

-- Whether this statement sees no row that `snapshot` did not see. A transaction is not seen by a snapshot
-- when it began after it (>= xmax) or was running at it (xip); changed_xid is that of the top transaction,
-- so a subtransaction makes no difference. Two bounded reads of memory_changed_xid_idx and the few rows of
-- tally, where whatever leaves a count behind (vectors, removed rows) shows. Numbers that this server has
-- not given out yet come from a dump of another one and are old.
create or replace function remem._unchanged_since(workspace text, snapshot pg_snapshot) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_now pg_snapshot := pg_current_snapshot();
  v_xid xid8;
begin
  if pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(v_now) then
    return false;
  end if;
  -- order by ... limit 1 and not exists (): the index is the only cheap way, whatever the statistics say.
  v_xid := (select m.changed_xid from remem.memory m
    where m.workspace = _unchanged_since.workspace and m.changed_xid < pg_snapshot_xmax(v_now)
    order by m.changed_xid desc limit 1);
  if v_xid >= pg_snapshot_xmax(snapshot) then
    return false;
  end if;
  for v_xid in select x from pg_snapshot_xip(snapshot) x loop
    if (select m.changed_xid from remem.memory m
        where m.workspace = _unchanged_since.workspace and m.changed_xid between v_xid and v_xid
        order by m.changed_xid limit 1) is not null then
      return false;
    end if;
  end loop;
  return not exists (select from remem.tally t
    where t.workspace = _unchanged_since.workspace and t.changed_xid < pg_snapshot_xmax(v_now)
      and not pg_visible_in_snapshot(t.changed_xid, snapshot));
end
$$;
comment on function remem._unchanged_since(text, pg_snapshot) is 'Whether nothing in a workspace changed since a snapshot.';

-- The contents of everything small that decides an answer beside the workspace's rows: a change of space,
-- language, settings, source classes or routes makes other keys. Times are printed in the session's zone.
create or replace function remem._cache_config(workspace text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select concat_ws(E'\n', current_setting('TimeZone'), current_setting('extra_float_digits'),
    (select c.system_identifier from pg_control_system() c),
    (select w::text from remem.workspace w where w.workspace = _cache_config.workspace),
    (select s::text from remem.embedding_space s
     join remem.workspace w on w.space_no = s.space_no where w.workspace = _cache_config.workspace),
    (select string_agg(s::text, E'\n' order by s.name) from remem.setting s),
    (select string_agg(s::text, E'\n' order by s.name) from remem.source_class s),
    (select string_agg(r::text, E'\n' order by r.workspace, r.kind) from remem.route r
     where r.workspace in ('', _cache_config.workspace)))
$$;
comment on function remem._cache_config(text) is 'What decides answers beside rows, as a text to be hashed.';

-- What two questions must have in common to be the same question, however alike their vectors are: numbers
-- and identifiers, quoted phrases, excluded words.
create or replace function remem._particulars(query text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(string_agg(t.token, ' ' order by t.token), '')
  from (
    select distinct lower(p.token) collate "C" as token
    from regexp_split_to_table(query, '\s+') p (token) where p.token ~ '[0-9"@#_/\\]|^-|[[:alnum:]][.:][[:alnum:]]'
    union select m[1] collate "C" from regexp_matches(query, '("[^"]*")', 'g') m
  ) t
$$;
comment on function remem._particulars(text) is 'The parts of a query that must be equal for an answer to be shared.';

-- The keys of a question under the workspace as it is now. vector: what a similar question is known by.
create or replace function remem._cache_keys(
  workspace text, query text, query_embedding real[], k int, options jsonb, semantic boolean,
  out key bytea, out scope_key bytea, out vector real[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_options jsonb := remem._check_options(options);
  v_scope text := concat_ws(E'\n', k, v_options, remem._cache_config(workspace));
  v_bytes bytea := coalesce(array_send(query_embedding), '');
begin
  key := sha256(sha256(convert_to(v_scope, 'UTF8')) || sha256(v_bytes) || convert_to(coalesce(query, ''), 'UTF8'));
  scope_key := sha256(convert_to(v_scope || E'\n' || remem._particulars(coalesce(query, '')), 'UTF8'));
  if not semantic or v_options ->> 'mode' = 'lexical' or (jsonb_typeof(v_options -> 'arms') = 'array'
      and v_options -> 'arms' <> '[]' and not v_options -> 'arms' ? 'vector') then
    return;
  end if;
  if query_embedding is null and (select w.space_no from remem.workspace w where w.workspace = _cache_keys.workspace) = 1 then
    vector := remem._hash_embed(query);
  elsif v_options ->> 'space' is null or exists (
      select from remem.workspace w join remem.embedding_space s using (space_no)
      where w.workspace = _cache_keys.workspace and v_options ->> 'space' in (s.name, s.fingerprint)) then
    vector := query_embedding;
  end if;
  if 0 = all (vector) then
    vector := null;
  end if;
end
$$;
comment on function remem._cache_keys(text, text, real[], int, jsonb, boolean) is 'Hashes that say which answers a question may share.';

-- How old an answer may become, and the nearest moment at which a memory of the workspace starts or ends
-- (a day is such a moment too: questions say "yesterday").
create or replace function remem._cache_expiry(workspace text) returns timestamptz
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select least(now() + interval '5 minutes', date_trunc('day', now()) + interval '1 day',
    min(m.valid_to) filter (where m.valid_to > now()), min(m.valid_from) filter (where m.valid_from > now()))
  from remem.memory m
  where m.workspace = _cache_expiry.workspace and (m.valid_from is not null or m.valid_to is not null)
    and m.superseded_at is null and m.forgotten_at is null
$$;
comment on function remem._cache_expiry(text) is 'When an answer of now ends at the latest.';

-- The texts of a stored answer come from the live rows; null when one of them is not there.
create or replace function remem._cache_hits(workspace text, hits jsonb) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when count(*) = count(m.memory_id)
    then coalesce(jsonb_agg(h.hit || jsonb_build_object('title', m.title, 'body', m.body) order by h.place), '[]') end
  from jsonb_array_elements(hits) with ordinality h (hit, place)
  left join remem.memory m on m.workspace = _cache_hits.workspace and m.memory_id = (h.hit ->> 'memory_id')::uuid
    and m.superseded_at is null and m.forgotten_at is null
$$;
comment on function remem._cache_hits(text, jsonb) is 'A stored answer with the texts of its memories.';

-- What a client may keep to ask whether its copy of an answer still holds.
create or replace function remem._cache_token(key bytea, hits int, made_at timestamptz, expires_at timestamptz, snapshot pg_snapshot)
returns text
language sql immutable parallel safe
return concat_ws('/', encode(key, 'hex'), hits, (extract(epoch from made_at) * 1000000)::bigint,
    (extract(epoch from expires_at) * 1000000)::bigint, snapshot);
comment on function remem._cache_token(bytea, int, timestamptz, timestamptz, pg_snapshot) is 'An answer''s identity and what it has seen, as one text.';

-- An answer that may be served, or nothing. Runs in one snapshot: what it finds valid is valid in it.
create or replace function remem._cache_find(
  workspace text, query text, query_embedding real[], k int, options jsonb, semantic boolean, token text,
  out answer jsonb, out tier text, out token_now text, out similarity float8, out age_ms float8
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_similar constant float8 := 0.95;
  v_parts text[];
  v_keys record;
  v_warm boolean;
  v_row record;
begin
  select c.* into v_keys from remem._cache_keys(workspace, query, query_embedding, k, options, false) c;
  if token ~ '^[0-9a-f]{64}/[0-9]{1,4}/[0-9]{1,16}/[0-9]{1,16}/[0-9]+:[0-9]+:[0-9,]*$' then
    v_parts := string_to_array(token, '/');
    if v_parts[1] = encode(v_keys.key, 'hex') and v_parts[3]::bigint <= extract(epoch from now()) * 1000000
       and v_parts[4]::bigint > extract(epoch from now()) * 1000000
       and remem._unchanged_since(workspace, v_parts[5]::pg_snapshot) then
      answer := jsonb_build_object('unchanged', true, 'returned', v_parts[2]::int); tier := 'hot'; token_now := token;
      return;
    end if;
  end if;
  foreach v_warm in array array[false, true] loop
    if v_warm then  -- only now: where the built-in space embeds, the vector costs more than a look for the key
      select c.* into v_keys from remem._cache_keys(workspace, query, query_embedding, k, options, semantic) c;
      exit when v_keys.vector is null;
    end if;
    for v_row in
      select h.* from (
        select 'hot' as tier, q.key, q.answer, q.snapshot, q.made_at, q.expires_at, null::float8 as similarity
        from remem.query_cache q
        where not v_warm and q.workspace = _cache_find.workspace and q.key = v_keys.key and q.made_at <= now() and q.expires_at > now()
        order by q.made_at desc limit 3) h
      union all
      select w.* from (
        select 'warm', e.key, e.answer, e.snapshot, e.made_at, e.expires_at,
          1 - (e.query_embedding operator(@extschema:vector@.<=>) v_keys.vector::@extschema:vector@.vector) as similarity
        from (
          select q.* from remem.query_cache q
          where v_warm and q.workspace = _cache_find.workspace and q.scope_key = v_keys.scope_key
            and q.query_embedding is not null and q.made_at <= now() and q.expires_at > now()
          order by q.made_at desc limit 1000 offset 0) e
        order by similarity desc limit 5) w
      where w.similarity >= c_similar
    loop
      if remem._unchanged_since(workspace, v_row.snapshot) then
        answer := v_row.answer || jsonb_build_object('hits', remem._cache_hits(workspace, v_row.answer -> 'hits'));
        if answer -> 'hits' <> 'null' then
          tier := v_row.tier; similarity := v_row.similarity;
          age_ms := extract(epoch from clock_timestamp() - v_row.made_at) * 1000;
          -- An answer to another question is not a client's to keep under this one.
          token_now := case when tier = 'hot' then remem._cache_token(v_row.key,
            jsonb_array_length(answer -> 'hits'), v_row.made_at, v_row.expires_at, v_row.snapshot) end;
          return;
        end if;
        answer := null;
      end if;
    end loop;
  end loop;
end
$$;
comment on function remem._cache_find(text, text, real[], int, jsonb, boolean, text) is 'A stored answer that is still true, from the hot or the warm tier.';

-- The cold tier with everything that storing its answer needs, all of one snapshot.
create or replace function remem._cache_cold(
  workspace text, query text, query_embedding real[], k int, options jsonb, semantic boolean, keyed boolean,
  out document jsonb, out snapshot pg_snapshot, out expires_at timestamptz, out key bytea, out scope_key bytea, out vector real[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  document := remem.recall_explain(workspace, query, query_embedding, k, options);
  if keyed then
    snapshot := pg_current_snapshot();
    expires_at := remem._cache_expiry(workspace);
    select c.* into key, scope_key, vector from remem._cache_keys(workspace, query, query_embedding, k, options, semantic) c;
  end if;
end
$$;
comment on function remem._cache_cold(text, text, real[], int, jsonb, boolean, boolean) is 'A fresh answer with its keys and its snapshot.';

-- Whether the same question would be answered the same way as long as nothing changes: no arm failed or ran
-- out of time, and every degraded state follows from the question and the rows.
create or replace function remem._is_repeatable(document jsonb) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(document -> 'degraded', '[]')
      <@ '["no_embedding", "space_mismatch", "zero_vector", "no_lexemes", "stale_rows", "analyser_mix"]'
    and not exists (select from jsonb_each(document -> 'arms') a where a.value ->> 'state' in ('failed', 'pending'))
$$;
comment on function remem._is_repeatable(jsonb) is 'Whether an answer may be kept.';

-- Keeps an answer without its texts and without the question, and prunes in passing: what has expired and
-- what is beyond the newest 1000, never waiting for a row that somebody else holds.
create or replace function remem._cache_store(
  workspace text, key bytea, scope_key bytea, vector real[], document jsonb, snapshot pg_snapshot, expires_at timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 1000;
  v_oldest timestamptz := (select q.made_at from remem.query_cache q
    where q.workspace = _cache_store.workspace order by q.made_at desc offset c_most - 1 limit 1);
begin
  insert into remem.query_cache (workspace, key, scope_key, query_embedding, answer, snapshot, expires_at)
  values (workspace, key, scope_key, vector::@extschema:vector@.vector,
    jsonb_build_object('degraded', document -> 'degraded', 'space', document -> 'space', 'rerank_gate', document -> 'rerank_gate',
      'arms', remem._arm_states(document -> 'arms'),
      'hits', (select coalesce(jsonb_agg(h - '{title,body}'::text[] order by place), '[]')
        from jsonb_array_elements(document -> 'hits') with ordinality x (h, place))),
    snapshot, expires_at);
  delete from remem.query_cache q using (
    select o.ctid from remem.query_cache o
    where o.workspace = _cache_store.workspace
      and (o.made_at < now() - interval '5 minutes' or o.made_at <= v_oldest)
    order by o.made_at limit 200 for update skip locked) d
  where q.ctid = d.ctid;
end
$$;
comment on function remem._cache_store(text, bytea, bytea, real[], jsonb, pg_snapshot, timestamptz) is 'Stores an answer and prunes old ones.';
