-- plan: whether to recall at all, what about, and from where. Reads only; calls no model.

-- Requests for topics: each goes to the providers that it names, or to the built-in one, and to no other.
create or replace function remem._topic_requests(context remem._plan_context, topics remem._topic_match[], out requests jsonb, out missing text[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  with wanted as (
    select p.id, min(t.n) as n,
      string_agg(remem._shorten(t.title, 120) || ': ' || t.signal || ' ' || to_char(t.score, 'FM0.000'), '; ' order by t.n) as reason
    from unnest(topics) with ordinality t (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
    cross join lateral unnest(case when t.providers = '{}' then '{postgres}' else t.providers end) p (id)
    group by p.id
  ), placed as (
    select w.*, w.id <> all (context.disabled) and (context.given is null or w.id = any (context.given)) as available,
      context.provider_limits[array_position(context.provider_ids, w.id)] as own_limit
    from wanted w
  )
  select jsonb_agg(remem._request(context, p.id, p.reason, p.own_limit) order by p.n, p.id) filter (where p.available),
    array_agg('provider_unavailable:' || p.id order by p.n, p.id) filter (where not p.available)
  into requests, missing from placed p;
  requests := coalesce(requests, '[]');
end
$$;
comment on function remem._topic_requests(remem._plan_context, remem._topic_match[]) is 'The requests that recognised topics make.';

create or replace function remem._request(context remem._plan_context, provider_id text, reason text, own_limit int) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return jsonb_build_object('providerId', provider_id, 'query', context.query, 'reason', reason,
    'limit', least(own_limit, (context.options ->> 'limit')::int));
end
$$;
comment on function remem._request(remem._plan_context, text, text, int) is 'One request of a plan.';

create or replace function remem._plan_topics(topics remem._topic_match[], sure boolean[]) returns jsonb
language sql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', t.topic_id, 'title', t.title, 'score', round(t.score::numeric, 4),
    'signal', t.signal, 'sure', sure[t.n], 'unresolved', t.unresolved, 'scope', t.scope, 'scopeRef', t.scope_ref,
    'providers', to_jsonb(case when t.providers = '{}' then '{postgres}' else t.providers end))) order by t.n), '[]')
  from unnest(topics) with ordinality t (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
$$;
comment on function remem._plan_topics(remem._topic_match[], boolean[]) is 'Topics as a plan shows them.';

-- The requests with what the memories say for asking the built-in provider.
create or replace function remem._with_memories(context remem._plan_context, requests jsonb, reason text) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_own int := (select n - 1 from jsonb_array_elements(requests) with ordinality r (request, n) where r.request ->> 'providerId' = 'postgres');
begin
  return case when v_own is null
    then requests || remem._request(context, 'postgres', reason, context.provider_limits[array_position(context.provider_ids, 'postgres')])
    else jsonb_set(requests, array[v_own::text, 'reason'], to_jsonb((requests -> v_own ->> 'reason') || '; ' || reason)) end;
end
$$;
comment on function remem._with_memories(remem._plan_context, jsonb, text) is 'Requests of a plan, with the one for the memories that answer.';

-- The plan after all stages. The caller has authorised.
create or replace function remem._plan(workspace text, prompt text, prompt_embedding real[], options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_at timestamptz;
  v_timings jsonb;
  v_context remem._plan_context;
  v_degraded text[];
  v_found remem._topic_match[];          -- what the words point at
  v_topics remem._topic_match[] := '{}'; -- what is claimed
  v_catalog jsonb;
  v_stage text := 'none';
  v_confidence float8;
  v_minimum float8;
  v_requests jsonb := '[]';
  v_routed record;
  v_meaning record;
  v_semantic jsonb := jsonb_build_object('attempted', false);
  v_skipped text;
  v_qualified remem._topic_match[];
  v_sure boolean[];
  v_matches remem._topic_match[] := '{}'; -- what the meaning points at
  v_memory record;
  v_memories jsonb := '[]';
  v_looked jsonb := '{"attempted": false}';
  v_reason text;
  v_keep int[];
begin
  perform remem._check_query(prompt, 1);
  v_context := remem._open_plan(workspace, prompt, remem._check_plan_options(options));
  v_degraded := v_context.degraded;
  v_timings := jsonb_build_object('open', remem._ms(v_started));
  v_at := clock_timestamp();
  v_catalog := remem._catalog(v_context);
  v_timings := v_timings || jsonb_build_object('catalog', remem._ms(v_at));

  -- Stage 0
  v_at := clock_timestamp();
  v_found := remem._plan_words(v_context);
  v_confidence := coalesce(v_found[1].score, 0);
  v_minimum := (v_context.options ->> 'minimum_confidence')::float8;
  if v_confidence >= v_minimum and v_confidence > 0 then
    v_topics := v_found[1:(select count(*) from unnest(v_found[1:(v_context.options ->> 'max_topics')::int]) f where f.score >= v_minimum)];
    v_stage := 'deterministic';
  elsif cardinality(v_context.continuity) > 0 and cardinality(v_context.provider_ids) > 0 then
    v_stage := 'continuity';
    v_confidence := (v_context.options ->> 'continuity_confidence')::float8;
  end if;
  v_timings := v_timings || jsonb_build_object('deterministic', remem._ms(v_at));

  -- Stage 1: only when stage 0 has no plan or is not sure of it.
  v_at := clock_timestamp();
  v_minimum := coalesce((v_context.options ->> 'semantic_minimum_similarity')::float8, remem._semantic_minimum(v_context.space));
  v_skipped := case when not (v_context.options ->> 'semantic')::boolean then 'off'
    when v_stage <> 'none' and v_confidence >= (v_context.options ->> 'deterministic_high_confidence')::float8 then 'high_confidence'
    when v_context.query = '' then 'empty_prompt' end;
  if v_skipped is null then
    v_skipped := case when v_context.distinctive = '' then 'generic_prompt' end;
  end if;
  if v_skipped is null then
    begin
      select v.vector, v.problem into v_context.vector, v_context.vector_problem from remem._prompt_vector(v_context, prompt_embedding) v;
      if v_context.vector_problem is not null then
        v_degraded := array_append(v_degraded, v_context.vector_problem);
      end if;
      if v_context.vector is null then
        v_skipped := v_context.vector_problem;
      else
        v_meaning := remem._plan_meaning(v_context, v_context.vector, (v_context.space).space_no);
        if v_meaning.compared < least(v_context.topics, (v_context.options ->> 'catalog_limit')::int) and (v_context.space).space_no <> 1 then
          v_degraded := array_append(v_degraded, 'stale_topics');  -- the built-in space lacks only texts without features
        end if;
        v_semantic := jsonb_build_object('attempted', true, 'compared', v_meaning.compared,
          'best_topic', round(v_meaning.matches[1].score::numeric, 4), 'best_provider', round(v_meaning.similarities[1]::numeric, 4));
        v_matches := v_meaning.matches;
        v_qualified := remem._qualified_by_meaning(v_context, v_matches, v_minimum, (v_context.space).space_no);
        if (v_context.space).space_no <> 1 and cardinality(v_qualified) = 0 and v_stage in ('none', 'continuity') then
          v_qualified := remem._second_opinion(v_context);
        end if;
        if v_qualified[1].score is not null and (v_stage = 'none' or v_qualified[1].score > v_confidence) then
          v_topics := v_qualified;
          v_stage := 'semantic';
          v_confidence := v_topics[1].score;
        elsif v_qualified[1].score is null and v_meaning.similarities[1] >= v_minimum
           and (v_stage = 'none' or v_meaning.similarities[1] > v_confidence) then
          -- No topic is known; a provider still may be the one to ask.
          v_topics := '{}';
          v_stage := 'semantic';
          v_confidence := least(v_meaning.similarities[1], 1);
          v_requests := (
            select jsonb_agg(remem._request(v_context, v_context.provider_ids[s.no], remem._shorten(v_context.provider_names[s.no], 120)
              || ': provider awareness similarity ' || to_char(s.similarity, 'FM0.000'), v_context.provider_limits[s.no]) order by s.n)
            from unnest(v_meaning.provider_nos, v_meaning.similarities) with ordinality s (no, similarity, n)
            where s.similarity >= v_minimum and s.n <= (v_context.options ->> 'max_topics')::int);
        end if;
      end if;
      if v_stage in ('none', 'continuity') then
        v_qualified := remem._covering_topics(v_context, v_found);
        if cardinality(v_qualified) > 0 then
          v_topics := v_qualified;
          v_stage := 'deterministic';
          v_confidence := v_topics[1].score;
        end if;
      end if;
    exception when others then
      -- Whatever breaks the comparison, the deterministic plan stands.
      v_degraded := array_append(v_degraded, 'semantic_failed');
      v_skipped := 'failed';
    end;
  end if;
  v_semantic := v_semantic || jsonb_strip_nulls(jsonb_build_object('minimum', v_minimum, 'skipped', v_skipped));
  v_timings := v_timings || jsonb_build_object('semantic', remem._ms(v_at));

  -- The memories, where no topic is surely meant.
  v_at := clock_timestamp();
  begin
    v_memory := remem._ask_memories(v_context, v_topics, v_matches, v_stage, prompt_embedding, v_minimum);
    v_sure := v_memory.sure;
    v_reason := v_memory.reason; v_memories := coalesce(v_memory.memories, '[]'); v_looked := v_memory.looked;
    if cardinality(v_memory.claimed) > 0 or v_reason is not null then
      -- They say more than a word that is shared by chance, less than a topic's name.
      v_keep := array(select n from unnest(v_topics) with ordinality t (topic_no, topic_id, title, score, signal, unresolved, scope, scope_ref, providers, n)
        where t.topic_no <> all (array(select f.topic_no from unnest(v_memory.claimed) f)) order by n);
      v_sure := v_memory.claimed_sure || array(select v_sure[k] from unnest(v_keep) k);
      v_topics := v_memory.claimed || array(select v_topics[k] from unnest(v_keep) k);
      v_sure := v_sure[1:(v_context.options ->> 'max_topics')::int];
      v_topics := v_topics[1:(v_context.options ->> 'max_topics')::int];
      v_confidence := case when v_stage in ('none', 'continuity') then v_memory.confidence else greatest(v_confidence, v_memory.confidence) end;
      v_stage := case when v_stage in ('none', 'continuity') then 'memory' else v_stage end;
    end if;
  exception when others then
    -- What breaks here costs what it would have added: nothing is sure, and no memory speaks.
    v_degraded := array_append(v_degraded, 'memories_failed');
    v_sure := null; v_reason := null; v_memories := '[]';
  end;
  v_timings := v_timings || jsonb_build_object('memories', remem._ms(v_at));

  if cardinality(v_topics) > 0 then
    v_routed := remem._topic_requests(v_context, v_topics);
    v_requests := v_routed.requests;
    v_degraded := v_degraded || v_routed.missing;
  elsif v_stage = 'continuity' then
    v_requests := (
      select jsonb_agg(remem._request(v_context, p.id, 'continues earlier work; no known topic', p.own_limit) order by p.n)
      from unnest(v_context.provider_ids, v_context.provider_limits) with ordinality p (id, own_limit, n));
  end if;
  if v_reason is not null then
    v_requests := remem._with_memories(v_context, v_requests, v_reason);
  end if;
  return jsonb_build_object(
    'shouldRetrieve', v_requests <> '[]', 'confidence', round(v_confidence::numeric, 4), 'stage', v_stage,
    'topics', remem._plan_topics(v_topics, v_sure), 'memories', v_memories, 'requests', v_requests, 'catalog', v_catalog, 'degraded', to_jsonb(v_degraded),
    'signals', jsonb_build_object('continuity', to_jsonb(v_context.continuity), 'semantic', v_semantic,
      'memories', v_looked),
    'trace', jsonb_build_object('space', (v_context.space).name, 'catalogEntries', v_context.topics, 'semanticAttempted', v_semantic -> 'attempted',
      'catalogMatches', (select coalesce(jsonb_agg(jsonb_build_object('id', f.topic_id, 'title', f.title, 'score', round(f.score::numeric, 4),
        'signal', f.signal)), '[]') from unnest(v_found) f),
      'timings', v_timings || jsonb_build_object('total', remem._ms(v_started))));
end
$$;
comment on function remem._plan(text, text, real[], jsonb) is 'The plan of a prompt; the caller has authorised.';

create or replace function remem.plan(
  workspace text, prompt text, prompt_embedding real[] default null, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
begin
  perform remem._authorize(workspace, 'read');
  return remem._plan(workspace, prompt, prompt_embedding, options);
end
$$;
comment on function remem.plan(text, text, real[], jsonb) is
  'Whether a prompt needs memory, and whom to ask: {shouldRetrieve, confidence, stage, topics[{id, title, score, signal, sure}], memories[{id, score, signal}], requests[{providerId, query, reason, limit}], catalog{text, entries, omitted, bytes}, signals, degraded, trace}. stage is deterministic (titles, aliases, tags, summaries and continuity phrases), semantic (prompt_embedding, the prompt''s vector in the workspace''s current space, beside topics and providers; not needed for the built-in hash space), memory (where no topic is surely meant: memories that answer by themselves, and the topics they name), continuity (earlier work, no known topic: every provider is asked) or none. The catalog comes with every plan. Options: context ({"project": ..., "session": ..., "user": ...}: whose topics count beside the global ones), providers (ids that can be asked now), space (the model that made prompt_embedding), and every threshold and limit: minimum_confidence, max_topics, limit, query_chars, catalog_bytes, catalog_limit, semantic, semantic_minimum_similarity, deterministic_high_confidence, multilingual, memories, memory_similarity, memory_explained_similarity, memory_clear_similarity, memory_support, memory_coverage, memory_word_coverage, memory_belongs, supported_similarity, joined_similarity, continuity, continuity_confidence, continuity_boost, unresolved_boost, title_phrase, alias_phrase, title_overlap, alias_overlap, tag_overlap, summary_base, summary_token, summary_most. Works in a READ ONLY transaction. What was missing is named in degraded and never raised.';
