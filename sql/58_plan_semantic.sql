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
  with near as materialized (
    select e.topic_no, 1 - (e.embedding operator(@extschema:vector@.<=>) v_vector) as cosine
    from remem.topic_embedding e
    where e.workspace = context.workspace and e.space_no = (context.space).space_no and e.owner = any (context.owners)
      and (context.cutoff_no is null or exists (select from remem.topic t
        where t.workspace = e.workspace and t.topic_no = e.topic_no and (t.weight > context.cutoff_weight
          or t.weight = context.cutoff_weight and t.topic_no <= context.cutoff_no)))
  )
  select (select count(*) from near),
    (select array_agg((t.topic_no, t.topic_id, t.title, greatest(least(n.cosine, 1), 0), 'semantic catalog similarity', t.unresolved, t.scope,
        t.scope_ref, t.providers)::remem._topic_match order by n.cosine desc, t.weight desc, t.topic_no)
      from (select * from near order by near.cosine desc, near.topic_no limit greatest(32, (context.options ->> 'max_topics')::int)) n
      join remem.topic t on t.workspace = context.workspace and t.topic_no = n.topic_no
      where not t.derived or exists (select from remem.memory m where m.workspace = t.workspace and m.memory_no = t.memory_no
        and m.superseded_at is null and m.forgotten_at is null
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())))
  into compared, matches;
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
