-- Topics: the catalog that a plan is made from, merged as it is written.

-- Words of a folded text, a space around each, every character of a script without spaces a word of its own: so a
-- phrase at word boundaries is one substring in any script. Topics, phrases and prompts are compared in this form.
create or replace function remem._phrase_words(folded text) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_words text := remem._words(folded);
begin
  if octet_length(v_words) = length(v_words) then
    return v_words;
  end if;
  return regexp_replace(regexp_replace(v_words collate "C", '([' || remem._chars_unspaced() || '])', ' \1 ', 'g'), ' +', ' ', 'g');
end
$$;
comment on function remem._phrase_words(text) is 'The words of a folded text as phrases are looked for in it.';

-- Distinct tokens of what _phrase_words gives: words, and the bigrams of a run in a script without spaces.
create or replace function remem._phrase_tokens(words text) returns text[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tokens text[] := string_to_array(btrim(words), ' ');
  v_unspaced text;
begin
  if octet_length(words) = length(words) and octet_length(words) < 256 then
    return array(select distinct t from unnest(v_tokens) t where t <> '');
  end if;
  v_unspaced := '^[' || remem._chars_unspaced() || ']$';
  return array(
    select distinct case when octet_length(s.token) <= 256 then s.token
      else 'h:' || encode(sha256(convert_to(s.token, 'UTF8')), 'hex') end
    from (
      -- The word after a character of such a script makes a pair with it; one that stands alone stays as it is.
      select case when not w.unspaced then w.token when w.after then w.token || w.next when not w.before then w.token end as token
      from (
        select x.token, x.unspaced, lead(x.token) over o as next, coalesce(lead(x.unspaced) over o, false) as after,
          coalesce(lag(x.unspaced) over o, false) as before
        from (select t.token, t.n, t.token collate "C" ~ v_unspaced as unspaced
          from unnest(v_tokens) with ordinality t (token, n)) x
        window o as (order by x.n)
      ) w
    ) s
    where s.token <> '');
end
$$;
comment on function remem._phrase_tokens(text) is 'The distinct tokens of a text; what topics and prompts share.';

-- Inflected forms of a word as one: charges and charge, Rechnungen and Rechnung. Prompts come in any language, so English
-- endings go first, then German ones; of a word of another language little goes. In plpgsql: a function in SQL would be set
-- up anew at every call.
create or replace function remem._topic_stem(token text) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  token := coalesce((ts_lexize('english_stem', token))[1], token);
  return coalesce((ts_lexize('german_stem', token))[1], token);
end
$$;
comment on function remem._topic_stem(text) is 'The form of a word in which topics and prompts share it.';

-- What is embedded of a topic.
create or replace function remem._topic_text(title text, aliases text[], summary text, tags text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select left(concat_ws(E'\n', title, nullif(array_to_string(aliases, ' '), ''), summary, nullif(array_to_string(tags, ' '), '')), 8000)
$$;
comment on function remem._topic_text(text, text[], text, text[]) is 'The text of a topic that is embedded.';

-- Whom rows of a scope belong to; '' = everybody in the workspace.
create or replace function remem._owner(scope text, scope_ref text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when scope_ref is null then '' else scope || ':' || scope_ref end
$$;
comment on function remem._owner(text, text) is 'A scope and its reference as one key.';

create or replace function remem._entry_hash(owner text, key text) returns bytea
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select substr(sha256(convert_to(owner || E'\n' || key, 'UTF8')), 1, 16)
$$;
comment on function remem._entry_hash(text, text) is 'What makes two contributions one catalog entry.';

-- A list of texts within limits, without empty and repeated ones; or RM003.
create or replace function remem._check_texts(argument text, vals text[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if cardinality(vals) > 1000 or exists (select from unnest(vals) v where v is null or octet_length(v) > 300) then
    perform remem._raise('RM003', jsonb_build_object('argument', argument, 'limit', 1000, 'got', cardinality(vals)),
      format('%s may hold at most 1000 texts of at most 300 bytes, none null', argument));
  end if;
  return array(select normalize(btrim(v.val), nfc) from unnest(vals) with ordinality v (val, n)
    where btrim(v.val) <> '' group by normalize(btrim(v.val), nfc) order by min(v.n));
end
$$;
comment on function remem._check_texts(text, text[]) is 'Refuses lists of texts over their limits.';

-- The words of topics for the deterministic stage, written anew. Generic words are left out: they never qualify a topic.
create or replace function remem._index_topics(workspace text, topic_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  delete from remem.topic_token k where k.workspace = _index_topics.workspace and k.topic_no = any (topic_nos);
  insert into remem.topic_token (workspace, token, topic_no, place, size, owner)
  select _index_topics.workspace, s.token, s.topic_no, s.place, least(count(*) over (partition by s.topic_no, s.place), 32767), s.owner
  from (
    select t.topic_no, p.place, k.token, t.owner
    from remem.topic t
    cross join lateral (
      select 0 as place, ' ' || t.key || ' ' as words
      union all
      select a.n, ' ' || a.key || ' ' from unnest(t.alias_keys) with ordinality a (key, n)
      union all
      select -1, remem._phrase_words(remem._fold(array_to_string(t.tags, ' ')))
      union all
      select -2, remem._phrase_words(remem._fold(t.summary)) where t.summary is not null
    ) p
    cross join lateral (
      select distinct remem._topic_stem(w.token) as token from unnest(remem._phrase_tokens(p.words)) w (token)
      where not exists (select from remem.generic_word g where g.workspace in (_index_topics.workspace, '') and g.word = w.token)) k
    where t.workspace = _index_topics.workspace and t.topic_no = any (topic_nos)
  ) s;
end
$$;
comment on function remem._index_topics(text, bigint[]) is 'Writes the words of topics into the inverted index.';

-- One entry from its parts. Given parts decide before the derived one (source "memory"), then sources by name: the first
-- title and parent, all aliases, tags and providers, the greatest importance, any unresolved, the shortest summary,
-- the best freshness.
create or replace function remem._merged_topic(parts jsonb) returns remem.topic_record
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  with part as (
    select p.source, p.source = 'memory' as derived, p.value as v, row_number() over (order by p.source = 'memory', p.source collate "C") as n
    from jsonb_each(parts) p (source, value)
  )
  select (null, (array_agg(v ->> 'title' order by n))[1],
    array(select e.x from part p cross join lateral jsonb_array_elements_text(p.v -> 'aliases') with ordinality e (x, m)
      group by e.x order by min(p.n), min(e.m)),
    array(select e.x from part p cross join lateral jsonb_array_elements_text(p.v -> 'tags') with ordinality e (x, m)
      group by e.x order by min(p.n), min(e.m)),
    (array_agg(v ->> 'summary' order by octet_length(v ->> 'summary'), n) filter (where v ->> 'summary' is not null))[1],
    max((v ->> 'importance')::real), bool_or((v ->> 'unresolved')::boolean),
    array(select e.x from part p cross join lateral jsonb_array_elements_text(p.v -> 'providers') with ordinality e (x, m)
      group by e.x order by min(p.n), min(e.m)),
    null, null, (array_agg(v ->> 'parent' order by n) filter (where v ->> 'parent' is not null))[1],
    case when bool_or(v ->> 'freshness' = 'current') then 'current' when bool_or(v ->> 'freshness' = 'unknown') then 'unknown' else 'stale' end,
    array_agg(source order by n), bool_and(derived), null, null)::remem.topic_record
  from part
$$;
comment on function remem._merged_topic(jsonb) is 'A catalog entry merged from what its sources contributed.';

-- Sets (or with null takes away) what one source says about an entry. The caller holds the entry's lock. The vector
-- in the built-in space is made here; one of a former text in another is dropped.
create or replace function remem._put_part(
  workspace remem.workspace, scope text, scope_ref text, key text, source text, part jsonb
) returns remem.topic
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_owner text := remem._owner(scope, scope_ref);
  v_hash bytea := remem._entry_hash(v_owner, key);
  v_old remem.topic;
  v_new remem.topic;
  v_parts jsonb;
  v_merged remem.topic_record;
  v_text text;
  v_vector real[];
begin
  select t.* into v_old from remem.topic t
  where t.workspace = workspace.workspace and t.entry_hash = v_hash for update;
  v_parts := case when part is null then coalesce(v_old.parts, '{}') - source
    else coalesce(v_old.parts, '{}') || jsonb_build_object(source, part) end;
  if v_parts = v_old.parts then
    return v_old;
  elsif v_parts = '{}' then
    perform remem._delete_topic(workspace.workspace, v_old.topic_no);
    return null;
  end if;
  v_merged := remem._merged_topic(v_parts);
  if v_old.topic_no is null then
    insert into remem.topic (workspace, entry_hash, owner, scope, scope_ref, key, title, aliases, alias_keys, tags, summary,
      importance, unresolved, providers, parent, freshness, weight, parts, memory_no, derived)
    values (workspace.workspace, v_hash, v_owner, _put_part.scope, _put_part.scope_ref, _put_part.key, v_merged.title, v_merged.aliases,
      array(select btrim(remem._phrase_words(remem._fold(a))) from unnest(v_merged.aliases) with ordinality x (a, n) order by n),
      v_merged.tags, v_merged.summary, v_merged.importance, v_merged.unresolved, v_merged.providers, v_merged.parent,
      v_merged.freshness, v_merged.importance * case v_merged.freshness when 'stale' then 0.5 else 1 end, v_parts,
      (v_parts #>> '{memory,memory_no}')::bigint, v_merged.derived)
    returning * into v_new;
  else
    update remem.topic t
    set title = v_merged.title, aliases = v_merged.aliases,
        alias_keys = array(select btrim(remem._phrase_words(remem._fold(a))) from unnest(v_merged.aliases) with ordinality x (a, n) order by n),
        tags = v_merged.tags, summary = v_merged.summary, importance = v_merged.importance, unresolved = v_merged.unresolved,
        providers = v_merged.providers, parent = v_merged.parent, freshness = v_merged.freshness,
        weight = v_merged.importance * case v_merged.freshness when 'stale' then 0.5 else 1 end, parts = v_parts,
        memory_no = (v_parts #>> '{memory,memory_no}')::bigint, derived = v_merged.derived, updated_at = now()
    where t.workspace = workspace.workspace and t.topic_no = v_old.topic_no
    returning * into v_new;
  end if;
  v_text := remem._topic_text(v_new.title, v_new.aliases, v_new.summary, v_new.tags);
  if v_old.topic_no is null or v_text is distinct from remem._topic_text(v_old.title, v_old.aliases, v_old.summary, v_old.tags) then
    perform remem._index_topics(workspace.workspace, array[v_new.topic_no]);
    delete from remem.topic_embedding e
    using remem.embedding_space s  -- by the whole key: one probe a space
    where e.workspace = workspace.workspace and e.space_no = s.space_no and e.topic_no = v_new.topic_no;
    v_vector := remem._hash_embed(v_text);  -- in every workspace: a second opinion beside its own space
    perform remem._set_topic_vector(v_new, 1, case when not 0 = all (v_vector) then v_vector end);
  end if;
  return v_new;
end
$$;
comment on function remem._put_part(remem.workspace, text, text, text, text, jsonb) is 'Writes one source''s contribution to a catalog entry.';

-- Scaled to length one: half precision neither overflows nor vanishes.
create or replace function remem._set_topic_vector(topic remem.topic, space_no int, vector real[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.topic_embedding as e (workspace, space_no, topic_no, owner, embedding)
  select topic.workspace, _set_topic_vector.space_no, topic.topic_no, topic.owner,
    remem._unit(vector)
  where vector is not null
  on conflict on constraint topic_embedding_pkey do update set embedding = excluded.embedding
$$;
comment on function remem._set_topic_vector(remem.topic, int, real[]) is 'Stores the vector of a topic in one space.';

create or replace function remem._delete_topic(workspace text, topic_no bigint) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  delete from remem.topic_token k where k.workspace = _delete_topic.workspace and k.topic_no = _delete_topic.topic_no;
  delete from remem.topic_embedding e using remem.embedding_space s
  where e.workspace = _delete_topic.workspace and e.space_no = s.space_no and e.topic_no = _delete_topic.topic_no;
  delete from remem.topic t where t.workspace = _delete_topic.workspace and t.topic_no = _delete_topic.topic_no;
$$;
comment on function remem._delete_topic(text, bigint) is 'Takes an entry out of the catalog with its words and vectors.';

-- Makes writers of one entry take turns; `wait` false: only says whether it is free.
create or replace function remem._lock_entry(workspace text, entry_hash bytea, wait boolean) returns boolean
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_key bigint := hashtextextended(workspace || E'\n' || encode(entry_hash, 'hex'), 7289);
begin
  if wait then
    perform pg_advisory_xact_lock(v_key);
    return true;
  end if;
  return pg_try_advisory_xact_lock(v_key);
end
$$;
comment on function remem._lock_entry(text, bytea, boolean) is 'Takes one catalog entry until the transaction ends.';

-- Whether what a derived topic stands for is live now. Topics that callers gave always are.
create or replace function remem._topic_is_live(topic remem.topic) returns boolean
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  -- offset 0 keeps it a lookup by the key: with the conditions beside it, an index that has them may seem as good.
  select not topic.derived or exists (
    select from (select x.* from remem.memory x where x.workspace = topic.workspace and x.memory_no = topic.memory_no offset 0) m
    where m.superseded_at is null and m.forgotten_at is null
      and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now()))
$$;
comment on function remem._topic_is_live(remem.topic) is 'False for a topic whose only source is a memory that is not live.';
