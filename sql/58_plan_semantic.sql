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

-- How many of the best topics, in order, qualify by meaning. The built-in vector is made of words, and generic words
-- never qualify a topic: there the prompt without them has to be similar enough too.
create or replace function remem._qualified_by_meaning(
  context remem._plan_context, matches remem._topic_match[], minimum float8, distinctive text
) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_most int := (context.options ->> 'max_topics')::int;
  v_vector real[];
begin
  if matches[1].score is null or matches[1].score < minimum then
    return '{}';
  elsif (context.space).space_no = 1 then
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
comment on function remem._qualified_by_meaning(remem._plan_context, remem._topic_match[], float8, text) is 'The topics that the semantic stage claims.';

-- Topics by cosine, best first, at most 16 (whatever their similarity: the caller gates), and providers likewise. compared:
-- how many topics have a vector.
create or replace function remem._plan_meaning(
  context remem._plan_context, vector real[], out matches remem._topic_match[], out provider_nos int[], out similarities float8[],
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
    where e.workspace = context.workspace and e.space_no = (context.space).space_no and e.owner = any (context.owners));
  matches := (
    select array_agg((t.topic_no, t.topic_id, t.title, greatest(least(1 - n.distance, 1), 0), 'semantic catalog similarity', t.unresolved, t.scope,
        t.scope_ref, t.providers)::remem._topic_match order by n.distance, t.weight desc, t.topic_no)
    from (
      select e.topic_no, e.embedding operator(@extschema:vector@.<=>) v_vector as distance
      from remem.topic_embedding e
      where e.workspace = context.workspace and e.space_no = (context.space).space_no and e.owner = any (context.owners)
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
    join remem.provider_embedding e on e.workspace = context.workspace and e.space_no = (context.space).space_no and e.provider_id = p.id
  ) s;
end
$$;
comment on function remem._plan_meaning(remem._plan_context, real[]) is 'The semantic stage: topics and providers by similarity.';
