-- The public recalls.

-- A degraded call says so once, so that an empty answer has a reason.
create or replace function remem._warn_degraded(degraded text[]) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if cardinality(degraded) > 0 then
    raise warning using errcode = 'RM501', message = 'recall is degraded: ' || array_to_string(degraded, ', '),
      detail = to_jsonb(degraded)::text, hint = 'select remem.recall_explain(...) shows the state of every stage';
  end if;
end
$$;
comment on function remem._warn_degraded(text[]) is 'Raises the one WARNING of a degraded call.';

create or replace function remem.recall(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns setof remem.recall_hit
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  v_result := remem._recall(workspace, query, query_embedding, k, options);
  perform remem._warn_degraded(v_result.degraded);
  return query select h.* from unnest(v_result.hits) h;
end
$$;
comment on function remem.recall(text, text, real[], int, jsonb) is
  'The memories that matter for a query, best first. query_embedding is the query''s vector in the workspace''s current space (not needed for the built-in hash space). A query may hold "quoted phrases" and -excluded words. Options: filter (jsonpath), kinds, scopes (whose memories: {"project": "phoenix", "user": ["ann", "ben"]} besides the global ones, which are all that is seen without it; or a list of global, project, session, user, whoever the owners are), kind (the kind asked for), arms (vector, lexical, pointer, phrase, attribute, fusion), mode (auto, lexical, vector, retrieval_only, simple), fusion (weighted, rrf, max), weights, min_relevance (0 to 1), graph (auto, always, never), deadline_ms, rerank_pool, expanded (texts, or "statement": the question without its interrogative frame), expanded_embeddings, session_ref, space (the model that made query_embedding), shard_by ("kind": the kinds share the limits, so that none crowds out another), as_of (a time with its zone: what was known and held then; never what is forgotten). Works in a READ ONLY transaction. A degraded call raises one WARNING (RM501) naming the states.';

create or replace function remem.recall_explain(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  if jsonb_typeof(options) = 'object' then
    options := options || '{"explain": true}';
  end if;
  v_result := remem._recall(workspace, query, query_embedding, k, coalesce(options, '{"explain": true}'));
  return v_result.trace || jsonb_build_object('hits', coalesce(to_jsonb(v_result.hits), '[]'));
end
$$;
comment on function remem.recall_explain(text, text, real[], int, jsonb) is
  'The same recall as JSON with what every stage did: prepared query, route, pool, arms with states and times, candidates, what was dropped and why, weights, rerank gate, graph, timings, finish reason, degraded states, hits with their signals.';

create or replace function remem.recall_many(workspace text, queries jsonb, k int default 8, options jsonb default '{}')
returns setof remem.recall_many_hit
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_query jsonb;
  v_result record;
  v_degraded text[] := '{}';
  v_no int := 0;
begin
  perform remem._authorize(workspace, 'read');
  if jsonb_typeof(queries) is distinct from 'array' or jsonb_array_length(queries) > 100 then
    perform remem._raise('RM001', '{"argument": "queries", "limit": 100}', 'An array of at most 100 texts or {"query": text, "embedding": [...]}');
  end if;
  for v_query in select e from jsonb_array_elements(queries) e loop
    v_no := v_no + 1;
    if jsonb_typeof(v_query) = 'string' then
      v_query := jsonb_build_object('query', v_query);
    end if;
    if jsonb_typeof(v_query) <> 'object' or jsonb_typeof(v_query -> 'query') is distinct from 'string'
       or coalesce(jsonb_typeof(v_query -> 'embedding'), 'null') not in ('null', 'array')
       or exists (select from jsonb_array_elements(case when jsonb_typeof(v_query -> 'embedding') = 'array' then v_query -> 'embedding' else '[]' end) n
         where jsonb_typeof(n) <> 'number') then
      perform remem._raise('RM001', jsonb_build_object('argument', 'queries', 'item', v_no), 'A text, or {"query": text, "embedding": [numbers]}');
    end if;
    select r.* into v_result from remem._recall(workspace, v_query ->> 'query',
      case when jsonb_typeof(v_query -> 'embedding') = 'array' then array(select n::real from jsonb_array_elements_text(v_query -> 'embedding') n) end,
      k, options) r;
    v_degraded := array(select distinct d from unnest(v_degraded || v_result.degraded) d);
    return query select v_no, h.* from unnest(v_result.hits) h;
  end loop;
  perform remem._warn_degraded(v_degraded);
end
$$;
comment on function remem.recall_many(text, jsonb, int, jsonb) is
  'Several recalls in one call: an array of texts, or of {"query": text, "embedding": [...]}; rows carry query_no, counted from 1.';
