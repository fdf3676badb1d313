-- The semantic stage of a plan: the prompt's vector beside those of topics and providers, in one space, exactly.

-- The prompt's vector, or null and the reason. Nothing here raises: the deterministic plan stands without it.
create or replace function remem._prompt_vector(
  context remem._plan_context, prompt_embedding real[], out vector real[], out problem text
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if prompt_embedding is not null then
    if context.options ->> 'space' not in ((context.space).name, (context.space).fingerprint) then
      problem := 'space_mismatch';
    elsif array_ndims(prompt_embedding) is distinct from 1 or cardinality(prompt_embedding) <> (context.space).dimensions then
      problem := 'dimension_mismatch';
    elsif array_position(prompt_embedding, null) is not null or 'NaN' = any (prompt_embedding)
       or 'Infinity' = any (prompt_embedding) or '-Infinity' = any (prompt_embedding) then
      problem := 'vector_refused';
    else
      vector := prompt_embedding;
    end if;
  end if;
  if vector is null and (context.space).space_no = 1 then
    vector := remem._hash_embed(context.query);
  elsif vector is null then
    vector := (remem._embed_query(context.space, context.query, '{}')).vector;
  end if;
  if vector is null then
    problem := coalesce(problem, 'no_embedding');
  elsif 0 = all (vector) then
    vector := null;
    problem := coalesce(problem, 'zero_vector');
  end if;
end
$$;
comment on function remem._prompt_vector(remem._plan_context, real[]) is 'The vector that a prompt is compared by.';

-- The best topics, in order, that qualify by meaning. The built-in vector is made of words, and generic words never
-- qualify a topic: there the prompt without them has to be similar enough too.
create or replace function remem._qualified_by_meaning(
  context remem._plan_context, matches remem._topic_match[], minimum float8, space_no int
) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_share constant float8 := 0.75;  -- of the best topic's similarity: what is far behind is not meant
  v_most int := (context.options ->> 'max_topics')::int;
  v_vector real[];
begin
  if matches[1].score is null or matches[1].score < minimum then
    return '{}';
  end if;
  minimum := greatest(minimum, c_share * matches[1].score);
  if space_no = 1 then
    v_vector := remem._hash_embed(context.distinctive);
    if 0 = all (v_vector) then
      return '{}';
    end if;
    return coalesce((
      select array_agg(m.topic order by m.n)
      from (
        select (f.topic_no, f.topic_id, f.title, f.score, f.signal, f.unresolved, f.scope, f.scope_ref, f.providers)::remem._topic_match as topic, f.n
        from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
        join remem.topic_embedding e on e.workspace = context.workspace and e.space_no = 1 and e.topic_no = f.topic_no
        where f.score >= minimum
          and 1 - (e.embedding operator(@extschema:vector@.<=>) v_vector::@extschema:vector@.vector::@extschema:vector@.halfvec) >= minimum
        order by f.n limit v_most
      ) m), '{}');
  end if;
  return array(
    select (f.topic_no, f.topic_id, f.title, f.score, f.signal, f.unresolved, f.scope, f.scope_ref, f.providers)::remem._topic_match
    from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
    where f.score >= minimum order by f.n limit v_most);
end
$$;
comment on function remem._qualified_by_meaning(remem._plan_context, remem._topic_match[], float8, int) is 'The topics that the semantic stage claims.';

-- Topics by cosine, best first, at most 16 (whatever their similarity: the caller gates), and providers likewise. compared:
-- how many topics have a vector.
create or replace function remem._plan_meaning(
  context remem._plan_context, vector real[], space_no int, out matches remem._topic_match[], out provider_nos int[], out similarities float8[],
  out compared bigint
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Out of the record once: in a scan its fields would be fetched for every row.
  v_workspace text := context.workspace;
  v_owners text[] := context.owners;
  v_vector @extschema:vector@.halfvec := @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::@extschema:vector@.halfvec;
begin
  with near as materialized (  -- one pass, for the count and for the best
    select e.topic_no, e.embedding operator(@extschema:vector@.<=>) v_vector as distance
    from remem.topic_embedding e
    where e.workspace = v_workspace and e.space_no = _plan_meaning.space_no and e.owner = any (v_owners)
  )
  select (select count(*) from near), (
    select array_agg((t.topic_no, t.topic_id, t.title, greatest(least(1 - n.distance, 1), 0), 'semantic catalog similarity', t.unresolved, t.scope,
        t.scope_ref, t.providers)::remem._topic_match order by n.distance, t.weight desc, t.topic_no)
    from (
      select e.topic_no, e.distance from near e
      where context.cutoff_no is null or (select t.weight > context.cutoff_weight or t.weight = context.cutoff_weight and t.topic_no <= context.cutoff_no
        from remem.topic t where t.workspace = context.workspace and t.topic_no = e.topic_no)
      order by 2, 1 limit greatest(16, 2 * (context.options ->> 'max_topics')::int)) n
    join remem.topic t on t.workspace = context.workspace and t.topic_no = n.topic_no
    where not t.derived or (select m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())
      and (m.valid_to is null or m.valid_to > now()) from remem.memory m where m.workspace = t.workspace and m.memory_no = t.memory_no))
  into compared, matches;
  matches := coalesce(matches, '{}');
  select array_agg(s.n order by s.cosine desc, s.n), array_agg(s.cosine order by s.cosine desc, s.n)
  into provider_nos, similarities
  from (
    select p.n::int, 1 - (e.embedding operator(@extschema:vector@.<=>) v_vector) as cosine
    from unnest(context.provider_ids) with ordinality p (id, n)
    join remem.provider_embedding e on e.workspace = context.workspace and e.space_no = _plan_meaning.space_no and e.provider_id = p.id
  ) s;
end
$$;
comment on function remem._plan_meaning(remem._plan_context, real[], int) is 'The semantic stage: topics and providers by similarity.';

-- How many distinctive words of the prompt each topic has, in any of its texts. Long words that begin alike count as
-- shared: Kundendaten and Kundendatenbank.
create or replace function remem._shared_words(context remem._plan_context, topic_nos bigint[]) returns int[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tokens text[] := array(select p.token from unnest(context.tokens, context.counts) p (token, counts) where p.counts);
  v_heads text[] := array(select left(p, 6) from unnest(v_tokens) p where length(p) > 5);
begin
  return array(
    select s.n
    from unnest(topic_nos) with ordinality t (topic_no, n)
    cross join lateral (
      select coalesce(cardinality(array_agg(distinct p.token)), 0) as n
      from remem.topic_token k
      join unnest(v_tokens) p (token) on k.token = p.token or length(p.token) > 5 and starts_with(k.token, left(p.token, 6))
      where k.workspace = context.workspace and k.topic_no = t.topic_no and (k.token = any (v_tokens) or left(k.token, 6) = any (v_heads))
      offset 0) s
    order by t.n);
end
$$;
comment on function remem._shared_words(remem._plan_context, bigint[]) is 'How many distinctive words a prompt shares with topics.';

-- What words say of topics, as recall joins its two kinds of evidence: 1 - (1 - v)(1 - l), v the similarity in the built-in
-- space, l the share of the prompt's distinctive words, weighted like those of an alias.
create or replace function remem._word_evidence(context remem._plan_context, topic_nos bigint[], shared int[]) returns float8[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_words int := (select count(*) from unnest(context.counts) c where c);
  v_overlap float8 := (context.options ->> 'alias_overlap')::float8;
  v_space remem.embedding_space := remem._space(1);
  v_vector real[];
begin
  if v_words > 0 then
    v_vector := case when (context.space).space_no = 1 and context.vector is not null then context.vector else remem._hash_embed(context.query) end;
  end if;
  if v_vector is null or 0 = all (v_vector) then
    return array_fill(0::float8, array[cardinality(topic_nos)]);
  end if;
  return array(
    select 1 - (1 - least(greatest(e.near, 0), 1)) * (1 - v_overlap * t.shared / v_words)
    from unnest(topic_nos, shared) with ordinality t (topic_no, shared, n)
    left join lateral (
      select (1 - (e.embedding operator(@extschema:vector@.<=>) v_vector::@extschema:vector@.vector::@extschema:vector@.halfvec) - v_space.cosine_floor)
        / (v_space.cosine_full - v_space.cosine_floor) as near
      from remem.topic_embedding e where e.workspace = context.workspace and e.space_no = 1 and e.topic_no = t.topic_no
      offset 0) e on true
    order by t.n);
end
$$;
comment on function remem._word_evidence(remem._plan_context, bigint[], int[]) is 'Spelling and shared words of topics as one number each.';

-- Topics that no single text of theirs qualifies, but all their words together do.
create or replace function remem._covering_topics(context remem._plan_context, matches remem._topic_match[]) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_nos bigint[] := array(select f.topic_no
    from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n) order by f.n);
  v_shared int[] := remem._shared_words(context, v_nos);
  v_least int := case when cardinality(context.tokens) > 1 then 1 else 2 end;
  v_scores float8[];
begin
  if coalesce((select max(m) from unnest(v_shared) m), 0) < v_least then
    return '{}';
  end if;
  v_scores := remem._word_evidence(context, v_nos, v_shared);
  return array(
    select (f.topic_no, f.topic_id, f.title, v_scores[f.n], 'prompt token coverage', f.unresolved, f.scope, f.scope_ref, f.providers)::remem._topic_match
    from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
    where v_shared[f.n] >= v_least and v_scores[f.n] >= (context.options ->> 'minimum_confidence')::float8
    order by v_scores[f.n] desc, f.n limit (context.options ->> 'max_topics')::int);
end
$$;
comment on function remem._covering_topics(remem._plan_context, remem._topic_match[]) is 'Topics with most of the words of a prompt.';

-- Whether a word of the prompt stands in the title, the aliases or the tags of a topic, or begins like one: what may be why
-- a model finds them alike.
create or replace function remem._explained(context remem._plan_context, topic_no bigint) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return exists (
    select from remem.topic_token k join unnest(context.tokens, context.counts) p (token, counts)
      on p.counts and (k.token = p.token
        or length(p.token) > 2 and length(k.token) > 2 and (starts_with(k.token, p.token) or starts_with(p.token, k.token)))
    where k.workspace = context.workspace and k.topic_no = _explained.topic_no and k.place >= -1);
end
$$;
comment on function remem._explained(remem._plan_context, bigint) is 'Whether a shared word may be why a prompt is like a topic.';

-- Which of the claimed topics are meant beyond a shared word, so that their memories may be shown though they do not
-- answer the prompt by themselves. Sharing a word proves little ("rust" on a gate and in a compiler), so it takes one of:
-- two distinctive words that are a title or alias or more of it, a phrase of one that is half of the prompt; most of the prompt's words, half where it
-- goes on with something; a clear similarity, or a sufficient one that no word of title, aliases and tags explains; a
-- similarity of words and concepts that does not hang on one of them. Words do not outvote a model that sees nothing.
create or replace function remem._sure_topics(
  context remem._plan_context, topics remem._topic_match[], vector real[], minimum float8, evidence remem._memory_evidence[]
) returns boolean[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_clear constant float8 := 0.8;      -- between the cosines where a model starts and ends to mean something
  c_without_one constant float8 := 0.3;
  v_neural boolean := (context.space).space_no <> 1 and vector is not null;
  v_floor float8 := (context.space).cosine_floor;
  v_clear float8 := v_floor + c_clear * ((context.space).cosine_full - v_floor);
  v_words int := (select count(*) from unnest(context.counts) c where c);
  v_hash_minimum float8 := case when (context.space).space_no = 1 then minimum else remem._semantic_minimum(remem._space(1)) end;
  v_nos bigint[] := array(select f.topic_no
    from unnest(topics) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n) order by f.n);
  v_shares int[] := remem._shared_words(context, v_nos);
  v_own real[];                        -- the distinctive words as a vector of the built-in space
  v_topic remem._topic_match;
  v_cosine float8;
  v_shared int;
  v_phrase int;
  v_meant boolean;
  v_sure boolean[] := '{}';
begin
  foreach v_topic in array topics loop
    v_shared := v_shares[cardinality(v_sure) + 1];
    v_meant := false;
    if v_neural then
      v_cosine := (
        select 1 - (e.embedding operator(@extschema:vector@.<=>) vector::@extschema:vector@.vector::@extschema:vector@.halfvec)
        from remem.topic_embedding e where e.workspace = context.workspace and e.space_no = (context.space).space_no
          and e.topic_no = v_topic.topic_no);
      v_meant := v_cosine >= minimum and not context.is_foreign and not remem._explained(context, v_topic.topic_no);
      if v_meant and evidence is not null then
        -- A memory would be shown for being of the topic: so the best one is to be somewhat like the prompt too.
        v_meant := remem._support(context, v_topic.topic_no, v_cosine, evidence, v_nos) is not null;
      end if;
    end if;
    if v_cosine >= v_clear or v_meant then
      v_sure := array_append(v_sure, true);
      continue;
    elsif v_cosine < v_floor then
      v_sure := array_append(v_sure, false);
      continue;
    end if;
    -- How many distinctive words the longest phrase has that title or aliases share with the prompt.
    v_phrase := (
      select max((select count(*) from unnest(remem._phrase_tokens(p.phrase)) k (token) where k.token <> all (context.generic)))
      from remem.topic t cross join lateral unnest(t.key || t.alias_keys) p (phrase)
      where t.workspace = context.workspace and t.topic_no = v_topic.topic_no and strpos(context.words, ' ' || p.phrase || ' ') > 0);
    if v_phrase > 1 or v_phrase = 1 and v_shared * 2 >= v_words or exists (
        -- all of two or more distinctive words of title or alias, in any order
        select from unnest(context.tokens, context.counts) p (token, counts)
        join remem.topic_token k on k.workspace = context.workspace and k.token = p.token and k.topic_no = v_topic.topic_no
        where p.counts and k.place >= 0 and k.size > 1 group by k.place, k.size having pg_catalog.count(*) = k.size) then
      v_meant := true;
    elsif v_shared > 1 and v_shared * 2 >= v_words then
      v_meant := (remem._word_evidence(context, array[v_topic.topic_no], array[v_shared]))[1] >= (context.options ->> 'minimum_confidence')::float8
        or cardinality(context.continuity) > 0 or v_cosine >= minimum;
    else
      v_own := coalesce(v_own, remem._hash_embed(context.distinctive));
      v_meant := remem._similar_without_any(context, v_topic.topic_no, v_own, v_hash_minimum, c_without_one);
    end if;
    v_sure := array_append(v_sure, coalesce(v_meant, false));
  end loop;
  return v_sure;
end
$$;
comment on function remem._sure_topics(remem._plan_context, remem._topic_match[], real[], float8, remem._memory_evidence[]) is
  'Which claimed topics are meant beyond a shared word.';

-- Whether the distinctive words (vector) are similar to a topic in the built-in space, and still are somewhat when any one
-- of them is left out.
create or replace function remem._similar_without_any(
  context remem._plan_context, topic_no bigint, vector real[], minimum float8, without_one float8
) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 24;  -- words that are left out in turn: a longer prompt does not hang on one
  v_topic @extschema:vector@.halfvec := (
    select e.embedding from remem.topic_embedding e where e.workspace = context.workspace and e.space_no = 1
      and e.topic_no = _similar_without_any.topic_no);
  v_words text[];
  v_n int;
begin
  if v_topic is null or 0 = all (vector)
     or 1 - (v_topic operator(@extschema:vector@.<=>) vector::@extschema:vector@.vector::@extschema:vector@.halfvec) < minimum then
    return false;
  end if;
  v_words := array(select w.word from string_to_table(context.distinctive, ' ') with ordinality w (word, n)
    where w.word <> '' group by w.word order by min(w.n));
  if cardinality(v_words) not between 2 and c_most then
    return true;
  end if;
  -- The words of the topic first: what hangs on one word nearly always hangs on one of them.
  for v_n in
    select w.n from unnest(v_words) with ordinality w (word, n)
    order by exists (select from remem.topic_token k where k.workspace = context.workspace and k.token = remem._topic_stem(w.word)
      and k.topic_no = _similar_without_any.topic_no) desc, w.n
  loop
    vector := remem._hash_embed(array_to_string(v_words[:v_n - 1] || v_words[v_n + 1:], ' '));
    if 0 = all (vector)
       or 1 - (v_topic operator(@extschema:vector@.<=>) vector::@extschema:vector@.vector::@extschema:vector@.halfvec) < without_one then
      return false;
    end if;
  end loop;
  return true;
end
$$;
comment on function remem._similar_without_any(remem._plan_context, bigint, real[], float8, float8) is
  'Whether a similarity of words hangs on more than one of them.';

-- Where the model of the workspace's space recognises nothing, the built-in one is asked, which knows spelling, and
-- concepts that a small model may not.
create or replace function remem._second_opinion(context remem._plan_context) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_vector real[] := remem._hash_embed(context.query);
  v_meaning record;
begin
  if 0 = all (v_vector) then
    return '{}';
  end if;
  v_meaning := remem._plan_meaning(context, v_vector, 1);
  return remem._qualified_by_meaning(context, v_meaning.matches, remem._semantic_minimum(remem._space(1)), 1);
end
$$;
comment on function remem._second_opinion(remem._plan_context) is 'The topics that the built-in space recognises, beside another one.';
