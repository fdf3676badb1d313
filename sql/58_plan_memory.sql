-- The memories themselves as evidence of a plan: what no topic's text says, a memory may; and a topic and
-- its best memory are two looks at one thing: their mean is less often wrong than either.

-- The memories nearest to the prompt by meaning and by its distinctive words, within the plan's scopes, best first; null
-- without any. By the arms of recall alone: its ranking is not asked for, and a plan has no time for it. coverage: the share
-- of the words that a memory has, weighted by how rare they are here; shared: how many.
create or replace function remem._probe_memories(context remem._plan_context, vector real[]) returns remem._memory_evidence[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_few constant int := 250;         -- memories that are looked at sooner than sampled
  c_resolved constant int := 5000;   -- rows that the scopes are resolved to
  -- The memories of a topic are looked for among them; in the built-in space only the best few are of use.
  v_most int := case when (context.space).space_no = 1 then 8 else 16 end;
  v_floor float8 := (context.space).cosine_floor;
  v_span float8 := (context.space).cosine_full - (context.space).cosine_floor;
  v_query remem._query;
  v_workspace remem.workspace;
  v_counts record;
  v_terms record;
  v_key bigint := remem._workspace_key(context.workspace);
  v_nos bigint[];
  v_share float8;                    -- of the memories, that is in scope and valid
  v_found remem._memory_evidence[];
begin
  select coalesce(sum(t.rows_delta) filter (where t.space_no = 0), 0)::bigint as documents,
    coalesce(sum(t.doc_len_delta) filter (where t.space_no = 0), 0) as doc_len,
    coalesce(sum(t.rows_delta) filter (where t.space_no = (context.space).space_no), 0)::bigint as vectors
  into v_counts
  from remem.tally t where t.workspace = context.workspace and t.space_no in (0, (context.space).space_no);
  if v_counts.documents = 0 then
    return null;
  end if;
  select w.* into v_workspace from remem.workspace w where w.workspace = context.workspace;
  v_terms := remem._query_terms(context.workspace, context.distinctive, remem._language_dictionaries(v_workspace.language), v_counts.documents,
    v_workspace.words_counted, 1000);
  v_query.workspace := context.workspace; v_query.space_no := (context.space).space_no;
  v_query.documents := v_counts.documents; v_query.vectors := v_counts.vectors;
  v_query.mean_len := greatest(v_counts.doc_len::float8 / v_counts.documents, 1);
  v_query.lexemes := v_terms.lexemes; v_query.frequencies := v_terms.frequencies; v_query.idfs := v_terms.idfs;
  v_query.check_validity := false;
  if vector is not null then
    v_query.vector := @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::real[];
  end if;
  -- Without looking at the rows first: nearly always all that is found is valid and in scope, and looking has its cost.
  for v_round in 1 .. 2 loop
    v_nos := case when v_query.vector is not null then (remem._arm_vectors(v_query, v_most)).memory_nos end;
    if cardinality(v_query.lexemes) > 0 then
      v_nos := v_nos || (remem._arm_lexical(v_query, v_most, remem._posting_budget())).memory_nos;
    end if;
    v_nos := array(select distinct n from unnest(v_nos) n order by n);
    v_found := array(
      select (m.memory_no, m.memory_id, m.name, m.owner, c.cosine, r.relevance, w.coverage, w.shared)::remem._memory_evidence
      from unnest(v_nos, case when v_query.vector is not null then remem._cosines(context.workspace, v_query.space_no, v_query.vector, v_nos) end) c (memory_no, cosine)
      cross join lateral (
        select m.memory_no, m.memory_id, coalesce(m.topic_key, m.title) as name,
          case when m.scope_ref is null then '' else m.scope || ':' || m.scope_ref end as owner, m.valid_from, m.valid_to
        from remem.memory m where m.workspace = context.workspace and m.memory_no = c.memory_no offset 0) m
      left join (  -- word by word, not memory by memory: that is fewer looks at the index
        select p.memory_no, sum(t.idf) as idf, count(*) as n
        from (select remem._word(u.lexeme) as word, u.idf from unnest(v_terms.lexemes, v_terms.idfs) u (lexeme, idf)) t
        cross join lateral (select p.memory_no from remem.posting p
          where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (v_nos) offset 0) p
        group by p.memory_no) x on x.memory_no = c.memory_no
      cross join lateral (select least(coalesce(x.idf / v_terms.idf_mass, 0), 1) as coverage, coalesce(x.n, 0) as shared) w
      cross join lateral (
        select 1 - (1 - case when c.cosine is null then 0 else greatest(least((c.cosine - v_floor) / v_span, 1), 0) end) * (1 - w.coverage) as relevance) r
      where m.owner = any (context.owners) and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      order by r.relevance desc, c.cosine desc nulls last, c.memory_no);
    exit when cardinality(v_found) = cardinality(v_nos);
    v_query.check_validity := true;
    v_query.row_filter := format('$.workspace == %s && (%s)', to_jsonb(context.workspace), (
      select string_agg(case when o = '' then '$.scope == "global"'
        else format('($.scope == %s && $.scope_ref == %s)', to_jsonb(split_part(o, ':', 1)), to_jsonb(substr(o, strpos(o, ':') + 1))) end, ' || ')
      from unnest(context.owners) o))::jsonpath;
    -- As recall does: the few rows of an owner are looked up first, where most pass they are looked at as they come.
    v_share := case when v_query.documents <= c_few then 0 else remem._passing_share(context.workspace, v_query.row_filter) end;
    v_query.selective := v_share < 0.25;
    if v_query.selective and v_share * v_query.documents <= 2 * c_resolved then
      v_query.allowed := remem._resolve_filter(context.workspace, v_query.row_filter, c_resolved);
    end if;
  end loop;
  return v_found;
end
$$;
comment on function remem._probe_memories(remem._plan_context, real[]) is 'The memories nearest to a prompt, as evidence for a plan.';

-- A threshold of the option, else at a share of the way between the cosines where the space starts and ends to mean something.
create or replace function remem._space_threshold(context remem._plan_context, name text, share float8) returns float8
language plpgsql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return coalesce((context.options ->> name)::float8,
    (context.space).cosine_floor + share * ((context.space).cosine_full - (context.space).cosine_floor));
end
$$;
comment on function remem._space_threshold(remem._plan_context, text, float8) is 'A similarity threshold of the plan''s space.';

-- Which of the memories answer by themselves, and how that shows; null for the others. By meaning: similar without a
-- shared word that might explain it, or clearly so with one. By words: two of the prompt's and much of its weight, or all
-- of its weight where it asks about us ("how often do we retry?"), and in either case somewhat similar as well. The
-- built-in vector is made of words: there it only supports them.
create or replace function remem._judge_memory(
  context remem._plan_context, evidence remem._memory_evidence, out score float8, out signal text
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_cosine float8 := evidence.cosine;
  v_share float8 := (context.options ->> 'memory_coverage')::float8;
  v_least float8;
  v_near float8;
begin
  v_least := case when context.is_foreign then remem._space_threshold(context, 'memory_clear_similarity', 0.8)
    when evidence.shared > 0 then remem._space_threshold(context, 'memory_explained_similarity', 0.6)
    else remem._space_threshold(context, 'memory_similarity', 0.46) end;
  if (context.space).space_no <> 1 and v_cosine >= v_least then
    score := least(v_cosine, 1); signal := 'memory similarity';
    return;
  end if;
  -- Without a vector words have to say more.
  if (evidence.shared > 1 and evidence.coverage >= case when v_cosine is null then least(2 * v_share, 1) else v_share end
      or evidence.shared = 1 and evidence.coverage >= (context.options ->> 'memory_word_coverage')::float8
        and context.words ~ ' (we|our|ours|us|wir|uns|unser|unsere|nous|notre|nos|nosotros|nuestro|nuestra) ')
     and coalesce(v_cosine >= remem._space_threshold(context, 'memory_support', 0.4), evidence.shared > 1) then
    v_near := (coalesce(v_cosine, 0) - (context.space).cosine_floor) / ((context.space).cosine_full - (context.space).cosine_floor);
    score := 1 - (1 - least(greatest(v_near, 0), 1)) * (1 - (context.options ->> 'alias_overlap')::float8 * evidence.coverage);
    signal := 'memory token coverage';
  end if;
end
$$;
comment on function remem._judge_memory(remem._plan_context, remem._memory_evidence) is 'Whether a memory answers a prompt by itself.';

-- The best of the memories that belong to a topic: they name it, its text is like theirs, or somewhat like and more than
-- that of any rival (the other topics the prompt is like). Null without one. With the title's own vector, joined is how
-- like the prompt title and memory are as one text: the cosine of the sum of both.
create or replace function remem._nearest_of_topic(
  context remem._plan_context, topic_no bigint, evidence remem._memory_evidence[], rivals bigint[], out cosine float8, out shared int,
  out joined float8
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_most constant int := 4;  -- memories whose nearest topic is looked for
  v_space_no int := (context.space).space_no;
  v_topic record;
  v_memory record;
  v_rival float8;
  v_like float8 := remem._space_threshold(context, 'memory_belongs', 0.45);
begin
  select t.key || t.alias_keys as keys, e.embedding::@extschema:vector@.vector::real[] as vector,
    e.title_embedding::@extschema:vector@.vector::real[] as title, 1 - (e.title_embedding
      operator(@extschema:vector@.<=>) context.vector::@extschema:vector@.vector::@extschema:vector@.halfvec) as title_cosine
  into v_topic
  from remem.topic t
  left join remem.topic_embedding e on e.workspace = t.workspace and e.space_no = v_space_no and e.topic_no = t.topic_no
  where t.workspace = context.workspace and t.topic_no = _nearest_of_topic.topic_no;
  for v_memory in
    select e.memory_no, e.cosine, e.shared, e.likeness,
      coalesce(e.likeness >= v_like or btrim(remem._phrase_words(remem._fold(e.name))) = any (v_topic.keys), false) as belongs,
      row_number() over (order by e.cosine desc nulls last) as place
    from unnest(evidence, remem._cosines(context.workspace, v_space_no, v_topic.vector,
      array(select e.memory_no from unnest(evidence) with ordinality e (memory_no, memory_id, name, owner, cosine, relevance, coverage, shared, n) order by e.n)))
      as e (memory_no, memory_id, name, owner, cosine, relevance, coverage, shared, likeness)
    order by e.cosine desc nulls last
  loop
    if not v_memory.belongs and v_memory.likeness >= (context.space).cosine_floor and v_memory.place <= c_most then
      execute format('select max(1 - (r.embedding operator(@extschema:vector@.<=>) e.embedding)) from remem.embedding_%s e'
        ' cross join unnest($3) x (no) cross join lateral (select r.embedding from remem.topic_embedding r'
        ' where r.workspace = $1 and r.space_no = $4 and r.topic_no = x.no offset 0) r'
        ' where e.workspace = $1 and e.memory_no = $2 and x.no <> $5', v_space_no)
      into v_rival using context.workspace, v_memory.memory_no, rivals, v_space_no, topic_no;
      v_memory.belongs := coalesce(v_rival < v_memory.likeness, true);
    end if;
    if v_memory.belongs then
      cosine := v_memory.cosine; shared := v_memory.shared;
      if v_topic.title_cosine is not null then
        -- Of opposite vectors rounding is all that is left: a sum of less than a tenth is not magnified further.
        joined := (v_topic.title_cosine + cosine)
          / sqrt(greatest(2 + 2 * (remem._cosines(context.workspace, v_space_no, v_topic.title, array[v_memory.memory_no]))[1], 0.01));
      end if;
      return;
    end if;
  end loop;
end
$$;
comment on function remem._nearest_of_topic(remem._plan_context, bigint, remem._memory_evidence[], bigint[]) is
  'How similar a prompt is to the best memory of a topic.';

-- How far a topic and its best memory are like a prompt together, where that is enough; else null. The mean of both
-- similarities; more is asked where the prompt shares a word with that memory, which may be all they have in common. Or
-- title and memory as one text.
create or replace function remem._support(
  context remem._plan_context, topic_no bigint, similarity float8, evidence remem._memory_evidence[], rivals bigint[]
) returns float8
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_near record := remem._nearest_of_topic(context, topic_no, evidence, rivals);
  v_mean float8 := (similarity + v_near.cosine) / 2;
begin
  return greatest(
    case when v_mean >= case when v_near.shared = 0 then remem._space_threshold(context, 'supported_similarity', 0.37)
      else remem._space_threshold(context, 'memory_similarity', 0.46) end then v_mean end,
    case when v_near.joined >= remem._space_threshold(context, 'joined_similarity', 0.51) then v_near.joined end);
end
$$;
comment on function remem._support(remem._plan_context, bigint, float8, remem._memory_evidence[], bigint[]) is 'How far topic and memory together are like a prompt.';

-- Topics that the prompt is only somewhat like, and so are their memories, where no shared word explains it. Only for
-- models: words are no evidence of themselves.
create or replace function remem._supported_topics(
  context remem._plan_context, matches remem._topic_match[], evidence remem._memory_evidence[]
) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_looked_at constant int := 8;
  -- What neither the mean nor the joined text can reach: one of the two unlike each other, as title and memory mostly are.
  v_least float8 := least(remem._space_threshold(context, 'supported_similarity', 0.37),
    0.6 * remem._space_threshold(context, 'joined_similarity', 0.51));
  v_best float8 := (select max(e.cosine) from unnest(evidence) e);
  v_rivals bigint[] := array(select m.topic_no from unnest(matches) m);
  v_match remem._topic_match;
  v_found remem._topic_match[] := '{}';
begin
  foreach v_match in array matches[1:c_looked_at] loop
    -- No memory adds more than the best of all.
    continue when coalesce((v_match.score + v_best) / 2 < v_least, true) or remem._explained(context, v_match.topic_no);
    v_match.score := remem._support(context, v_match.topic_no, v_match.score, evidence, v_rivals);
    v_match.signal := 'similarity of topic and memory';
    if v_match.score is not null then
      v_found := v_found || v_match;
    end if;
  end loop;
  return array(
    select (f.topic_no, f.topic_id, f.title, f.score, f.signal, f.unresolved, f.scope, f.scope_ref, f.providers)::remem._topic_match
    from unnest(v_found) f where f.score >= 0.75 * (select max(x.score) from unnest(v_found) x)
    order by f.score desc limit (context.options ->> 'max_topics')::int);
end
$$;
comment on function remem._supported_topics(remem._plan_context, remem._topic_match[], remem._memory_evidence[]) is
  'Topics that their text and their memories together qualify.';

-- What the memories say where no topic is surely meant: those that answer, and the topics they name.
create or replace function remem._plan_memories(
  context remem._plan_context, matches remem._topic_match[], evidence remem._memory_evidence[],
  out topics remem._topic_match[], out sure boolean[], out memories jsonb, out reason text, out confidence float8
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_share constant float8 := 0.7;  -- of the best one's relevance: what is far behind is not meant
  v_most int := (context.options ->> 'max_topics')::int;
  v_judged remem._topic_match[];   -- topic_no and topic_id of the memory; title: the topic it names
begin
  v_judged := array(
    select (e.memory_no, e.memory_id, e.name, j.score, j.signal, false, e.owner, null, null)::remem._topic_match
    from unnest(evidence) with ordinality e (memory_no, memory_id, name, owner, cosine, relevance, coverage, shared, n)
    cross join lateral remem._judge_memory(context,
      (e.memory_no, e.memory_id, e.name, e.owner, e.cosine, e.relevance, e.coverage, e.shared)::remem._memory_evidence) j
    where j.score is not null and e.relevance >= c_share * (select max(x.relevance) from unnest(evidence) x)
    order by e.n limit v_most);
  memories := coalesce((
    select jsonb_agg(jsonb_build_object('id', j.topic_id, 'score', round(j.score::numeric, 4), 'signal', j.signal) order by j.n)
    from unnest(v_judged) with ordinality j (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)), '[]');
  reason := (select string_agg('memory ' || j.topic_id || ': ' || j.signal || ' ' || to_char(j.score, 'FM0.000'), '; ' order by j.n)
    from unnest(v_judged) with ordinality j (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n));
  topics := case when (context.space).space_no <> 1 and not context.is_foreign then remem._supported_topics(context, matches, evidence) else '{}' end;
  sure := array_fill(true, array[cardinality(topics)]);
  with named as (
    select distinct on (t.topic_no) t.topic_no, t.topic_id, t.title, j.score, j.signal, t.unresolved, t.scope, t.scope_ref, t.providers, j.n
    from unnest(v_judged) with ordinality j (topic_no, topic_id, title, score, signal, unresolved, owner, scope_ref, providers, n)
    cross join lateral (select t.* from remem.topic t
      where t.workspace = context.workspace
        and t.entry_hash in (remem._entry_hash('', btrim(remem._phrase_words(remem._fold(j.title)))),
          remem._entry_hash(j.owner, btrim(remem._phrase_words(remem._fold(j.title)))))
      offset 0) t
    where j.title is not null and t.topic_no <> all (array(select x.topic_no from unnest(topics) x))
    order by t.topic_no, j.n
  )
  select topics || coalesce(array_agg((n.topic_no, n.topic_id, n.title, n.score, n.signal, n.unresolved, n.scope, n.scope_ref, n.providers)::remem._topic_match
      order by n.n), '{}'), sure || coalesce(array_agg(false), '{}')
  into topics, sure from named n;
  topics := topics[1:v_most];
  sure := sure[1:v_most];
  confidence := greatest((select max(t.score) from unnest(topics) t), (select max(j.score) from unnest(v_judged) j));
end
$$;
comment on function remem._plan_memories(remem._plan_context, remem._topic_match[], remem._memory_evidence[]) is
  'The memory stage: memories that answer a prompt by themselves, and the topics they lead to.';

-- Whether the claimed topics are surely meant and, where none is, what the memories say. Asked before as well where a
-- model claims a topic, to see whether its memories bear that out. claimed: topics, claimed_sure whether they are meant;
-- looked: for the plan's signals.
create or replace function remem._ask_memories(
  context remem._plan_context, topics remem._topic_match[], matches remem._topic_match[], stage text, prompt_embedding real[], minimum float8,
  out sure boolean[], out claimed remem._topic_match[], out claimed_sure boolean[], out memories jsonb, out reason text,
  out confidence float8, out looked jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_vector real[] := context.vector;
  v_evidence remem._memory_evidence[];
  v_asks boolean;
  v_found record;
begin
  v_asks := (context.options ->> 'memories')::boolean and context.distinctive <> '' and 'postgres' = any (context.provider_ids)
    and 'unknown_workspace' <> all (context.degraded);
  -- In the built-in space only the memories are compared with it.
  if v_vector is null and ((context.space).space_no <> 1 or v_asks and stage <> 'deterministic') then
    v_vector := (remem._prompt_vector(context, case when (context.options ->> 'semantic')::boolean then prompt_embedding end)).vector;
    context.vector := v_vector;
  end if;
  if v_asks and stage <> 'deterministic' then
    v_evidence := remem._probe_memories(context, v_vector);
  end if;
  if cardinality(topics) > 0 then
    sure := remem._sure_topics(context, topics, v_vector, minimum, v_evidence);
  end if;
  looked := jsonb_build_object('attempted', v_evidence is not null);
  if v_asks and (sure is null or true <> all (sure)) then
    if stage = 'deterministic' then
      v_vector := coalesce(v_vector, (remem._prompt_vector(context, null)).vector);
      v_evidence := remem._probe_memories(context, v_vector);
    end if;
    v_found := remem._plan_memories(context, matches, v_evidence);
    claimed := v_found.topics; claimed_sure := v_found.sure; memories := v_found.memories; reason := v_found.reason; confidence := v_found.confidence;
    looked := jsonb_strip_nulls(jsonb_build_object('attempted', true, 'found', cardinality(v_evidence), 'foreign', context.is_foreign,
      'best_similarity', round((select max(e.cosine) from unnest(v_evidence) e)::numeric, 4),
      'best_coverage', round((select max(e.coverage) from unnest(v_evidence) e)::numeric, 4)));
  end if;
end
$$;
comment on function remem._ask_memories(remem._plan_context, remem._topic_match[], remem._topic_match[], text, real[], float8) is
  'Whether topics are surely meant, and what the memories say where none is.';
