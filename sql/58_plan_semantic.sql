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

-- The words of a prompt that may qualify a topic: all but the generic ones. '' for a prompt of nothing else.
create or replace function remem._distinctive(context remem._plan_context) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return coalesce((
    select string_agg(w.word, ' ' order by w.n)
    from string_to_table(btrim(remem._words(remem._fold(context.query))), ' ') with ordinality w (word, n)
    where not exists (select from remem.generic_word g where g.workspace in (context.workspace, '') and g.word = w.word)), '');
end
$$;
comment on function remem._distinctive(remem._plan_context) is 'A prompt without its generic words.';

-- The best topics, in order, that qualify by meaning. The built-in vector is made of words, and generic words never
-- qualify a topic: there the prompt without them has to be similar enough too.
create or replace function remem._qualified_by_meaning(
  context remem._plan_context, matches remem._topic_match[], minimum float8, distinctive text, space_no int
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
    v_vector := remem._hash_embed(distinctive);
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
comment on function remem._qualified_by_meaning(remem._plan_context, remem._topic_match[], float8, text, int) is 'The topics that the semantic stage claims.';

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
  v_vector @extschema:vector@.halfvec := @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::@extschema:vector@.halfvec;
begin
  compared := (select count(*) from remem.topic_embedding e
    where e.workspace = context.workspace and e.space_no = _plan_meaning.space_no and e.owner = any (context.owners));
  matches := (
    select array_agg((t.topic_no, t.topic_id, t.title, greatest(least(1 - n.distance, 1), 0), 'semantic catalog similarity', t.unresolved, t.scope,
        t.scope_ref, t.providers)::remem._topic_match order by n.distance, t.weight desc, t.topic_no)
    from (
      select e.topic_no, e.embedding operator(@extschema:vector@.<=>) v_vector as distance
      from remem.topic_embedding e
      where e.workspace = context.workspace and e.space_no = _plan_meaning.space_no and e.owner = any (context.owners)
        and (context.cutoff_no is null or (select t.weight > context.cutoff_weight or t.weight = context.cutoff_weight and t.topic_no <= context.cutoff_no
          from remem.topic t where t.workspace = e.workspace and t.topic_no = e.topic_no))
      order by 2, 1 limit greatest(32, (context.options ->> 'max_topics')::int)) n
    join remem.topic t on t.workspace = context.workspace and t.topic_no = n.topic_no
    where not t.derived or (select m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())
      and (m.valid_to is null or m.valid_to > now()) from remem.memory m where m.workspace = t.workspace and m.memory_no = t.memory_no));
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

-- How many distinctive words of the prompt a topic has, in any of its texts. Long words that begin alike count as shared:
-- Kundendaten and Kundendatenbank.
create or replace function remem._shared_words(context remem._plan_context, topic_no bigint) returns int
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    select count(*)
    from unnest(context.tokens, context.counts) p (token, counts)
    where p.counts and exists (select from remem.topic_token k
      where k.workspace = context.workspace and k.topic_no = _shared_words.topic_no
        and (k.token = p.token or length(p.token) > 5 and length(k.token) > 5 and left(k.token, 6) = left(p.token, 6))));
end
$$;
comment on function remem._shared_words(remem._plan_context, bigint) is 'How many distinctive words a prompt shares with a topic.';

-- What words say of a topic, as recall joins its two kinds of evidence: 1 - (1 - v)(1 - l), v the similarity in the built-in
-- space, l the share of the prompt's distinctive words, weighted like those of an alias.
create or replace function remem._word_evidence(context remem._plan_context, topic_no bigint, shared int, vector real[] default null) returns float8
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_words int := (select count(*) from unnest(context.counts) c where c);
  v_space remem.embedding_space := remem._space(1);
  v_near float8 := 0;
begin
  if v_words = 0 then
    return 0;
  end if;
  vector := coalesce(vector, remem._hash_embed(context.query));
  if 0 = all (vector) then
    return 0;
  end if;
  v_near := (select (1 - (e.embedding operator(@extschema:vector@.<=>) vector::@extschema:vector@.vector::@extschema:vector@.halfvec) - v_space.cosine_floor)
      / (v_space.cosine_full - v_space.cosine_floor)
    from remem.topic_embedding e where e.workspace = context.workspace and e.space_no = 1 and e.topic_no = _word_evidence.topic_no);
  return 1 - (1 - least(greatest(v_near, 0), 1)) * (1 - (context.options ->> 'alias_overlap')::float8 * shared / v_words);
end
$$;
comment on function remem._word_evidence(remem._plan_context, bigint, int, real[]) is 'Spelling and shared words of a topic as one number.';

-- Topics that no single text of theirs qualifies, but all their words together do.
create or replace function remem._covering_topics(context remem._plan_context, matches remem._topic_match[]) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_shared int[] := array(select remem._shared_words(context, f.topic_no)
    from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n) order by f.n);
  v_least int := case when cardinality(context.tokens) > 1 then 1 else 2 end;
  v_vector real[];
begin
  if coalesce((select max(m) from unnest(v_shared) m), 0) < v_least then
    return '{}';
  end if;
  v_vector := remem._hash_embed(context.query);
  return array(
    select (f.topic_no, f.topic_id, f.title, s.score, 'prompt token coverage', f.unresolved, f.scope, f.scope_ref, f.providers)::remem._topic_match
    from unnest(matches) with ordinality f (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
    cross join lateral (select remem._word_evidence(context, f.topic_no, v_shared[f.n::int], v_vector) as score offset 0) s
    where v_shared[f.n::int] >= v_least and s.score >= (context.options ->> 'minimum_confidence')::float8
    order by s.score desc, f.n limit (context.options ->> 'max_topics')::int);
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
-- a phrase of two distinctive words, or of one that is half of the prompt; most of the prompt's words, half where it
-- goes on with something; a clear similarity, or a sufficient one that no word of title, aliases and tags explains; a
-- similarity of words and concepts that does not hang on one of them. Words do not outvote a model that sees nothing.
create or replace function remem._sure_topics(
  context remem._plan_context, topics remem._topic_match[], vector real[], minimum float8, distinctive text, is_foreign boolean,
  evidence remem._memory_evidence[]
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
  v_distinct text[] := array(select distinct w from unnest(string_to_array(distinctive, ' ')) w where w <> '');
  v_topic remem._topic_match;
  v_cosine float8;
  v_shared int;
  v_phrase int;
  v_meant boolean;
  v_sure boolean[] := '{}';
begin
  foreach v_topic in array topics loop
    v_shared := remem._shared_words(context, v_topic.topic_no);
    v_cosine := case when v_neural then (
      select 1 - (e.embedding operator(@extschema:vector@.<=>) vector::@extschema:vector@.vector::@extschema:vector@.halfvec)
      from remem.topic_embedding e where e.workspace = context.workspace and e.space_no = (context.space).space_no
        and e.topic_no = v_topic.topic_no) end;
    v_meant := v_cosine >= minimum and not is_foreign and not remem._explained(context, v_topic.topic_no);
    if v_meant and evidence is not null then
      -- A memory would be shown for being of the topic: so the best one is to be somewhat like the prompt too.
      v_meant := remem._support(context, v_topic.topic_no, v_cosine, evidence) is not null;
    end if;
    -- How many distinctive words the longest phrase has that title or aliases share with the prompt.
    v_phrase := (
      select max((select count(*) from unnest(remem._phrase_tokens(p.phrase)) k (token)
        where not exists (select from remem.generic_word g where g.workspace in (context.workspace, '') and g.word = k.token)))
      from remem.topic t cross join lateral unnest(t.key || t.alias_keys) p (phrase)
      where t.workspace = context.workspace and t.topic_no = v_topic.topic_no and strpos(context.words, ' ' || p.phrase || ' ') > 0);
    v_sure := array_append(v_sure, coalesce(case
      when v_cosine >= v_clear or v_meant then true
      when v_cosine < v_floor then false
      when v_phrase > 1 or v_phrase = 1 and v_shared * 2 >= v_words then true
      when v_shared > 1 and v_shared * 2 >= v_words and remem._word_evidence(context, v_topic.topic_no, v_shared) >= (context.options ->> 'minimum_confidence')::float8 then true
      when v_shared > 1 and v_shared * 2 >= v_words then cardinality(context.continuity) > 0 or v_cosine >= minimum
      else remem._similar_without_any(context.workspace, v_topic.topic_no, v_distinct, v_hash_minimum, c_without_one) end, false));
  end loop;
  return v_sure;
end
$$;
comment on function remem._sure_topics(remem._plan_context, remem._topic_match[], real[], float8, text, boolean, remem._memory_evidence[]) is
  'Which claimed topics are meant beyond a shared word.';

-- Whether words are similar to a topic in the built-in space, and still are somewhat when any one of them is left out.
create or replace function remem._similar_without_any(workspace text, topic_no bigint, words text[], minimum float8, without_one float8)
returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 24;  -- words that are left out in turn: a longer prompt does not hang on one
  v_topic @extschema:vector@.halfvec := (
    select e.embedding from remem.topic_embedding e where e.workspace = _similar_without_any.workspace and e.space_no = 1
      and e.topic_no = _similar_without_any.topic_no);
  v_vector real[] := remem._hash_embed(array_to_string(words, ' '));
begin
  if v_topic is null or 0 = all (v_vector)
     or 1 - (v_topic operator(@extschema:vector@.<=>) v_vector::@extschema:vector@.vector::@extschema:vector@.halfvec) < minimum then
    return false;
  end if;
  for v_n in 1 .. case when cardinality(words) between 2 and c_most then cardinality(words) else 0 end loop
    v_vector := remem._hash_embed(array_to_string(words[:v_n - 1] || words[v_n + 1:], ' '));
    if 0 = all (v_vector)
       or 1 - (v_topic operator(@extschema:vector@.<=>) v_vector::@extschema:vector@.vector::@extschema:vector@.halfvec) < without_one then
      return false;
    end if;
  end loop;
  return true;
end
$$;
comment on function remem._similar_without_any(text, bigint, text[], float8, float8) is
  'Whether a similarity of words hangs on more than one of them.';

-- Where the model of the workspace's space recognises nothing, the built-in one is asked, which knows spelling, and
-- concepts that a small model may not.
create or replace function remem._second_opinion(context remem._plan_context, distinctive text) returns remem._topic_match[]
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
  return remem._qualified_by_meaning(context, v_meaning.matches, remem._semantic_minimum(remem._space(1)), distinctive, 1);
end
$$;
comment on function remem._second_opinion(remem._plan_context, text) is 'The topics that the built-in space recognises, beside another one.';
