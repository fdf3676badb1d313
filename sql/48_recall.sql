-- recall: the one call. Reads only, takes no row lock, leaves no setting behind.

-- What a call will do: the prepared query, the route, the arms that are submitted, weights, the relevance pool.
create or replace function remem._plan_recall(
  workspace remem.workspace, space remem.embedding_space, query text, query_embedding real[], k int, options jsonb,
  out prepared remem._query, out route remem.route, out wanted text[], out arms text[], out weights jsonb, out vector_share float8,
  out pool bigint[], out pool_note text, out embedding_ms float8, out degraded text[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_kind text := options ->> 'kind';
  v_prepared record;
begin
  -- Routing: the kind that is asked for, or that the words hint at, decides the arms; the call decides before it.
  if v_kind is not null then
    route := remem._route(workspace.workspace, v_kind);
  else
    route := remem._hinted_route(workspace.workspace, query);
    v_kind := nullif(route.kind, 'general');
  end if;
  wanted := case when options ->> 'mode' = 'auto' and options -> 'arms' = 'null' then route.arms else remem._wanted_arms(options, route) end;
  v_prepared := remem._prepare_query(workspace, space, query, query_embedding, options, wanted, v_kind);
  prepared := v_prepared.prepared;
  embedding_ms := v_prepared.embedding_ms;
  degraded := v_prepared.degraded;
  arms := remem._submittable(wanted, prepared);
  weights := remem._default_weights() || route.signals || (options -> 'weights');
  vector_share := case
    when prepared.vector is null then 0 when not wanted && '{lexical,fusion}' then 1
    else coalesce((weights ->> 'vector')::float8, space.vector_weight) end;
  if route.pool is not null and prepared.as_of is null then
    pool := remem._pool(prepared, route);
    pool_note := case when cardinality(pool) = 0 then 'empty'
      when options ->> 'kind' is not null and remem._pool_satisfies(prepared, space, pool, (options ->> 'min_relevance')::float8, k)
        then 'replaced the arms' else 'joined' end;
    if pool_note = 'replaced the arms' then
      prepared.allowed := pool;  -- the same scoring, over these rows alone
    end if;
  end if;
end
$$;
comment on function remem._plan_recall(remem.workspace, remem.embedding_space, text, real[], int, jsonb) is
  'Prepared query, route, arms, weights and pool of a call.';

-- How many rows each arm is asked for at first.
create or replace function remem._arm_rows(k int) returns int
language sql immutable parallel safe
return greatest(16, 2 * k);
comment on function remem._arm_rows(int) is 'Rows an arm is asked for at first.';

-- How many postings the words of a query may cost.
create or replace function remem._posting_budget() returns int
language sql immutable parallel safe
return 10000;
comment on function remem._posting_budget() is 'Postings that the words of a query may cost.';

-- The pipeline. Answers with hits, the degraded states by name, and a trace of what each stage did. `given` are results
-- of arms that ran elsewhere (48_recall_parallel); without them the arms run here, one after the other.
create or replace function remem._recall(
  workspace text, query text, query_embedding real[], k int, options jsonb, given remem._arm_result[] default null,
  out hits remem.recall_hit[], out degraded text[], out trace jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_cap constant int := 200;           -- candidates before anything expensive
  c_deepest constant int := 2000;      -- how deep the arms dig where copies of few texts fill the pool
  c_confident constant float8 := 0.7;  -- relevance of a high-confidence hit
  v_started timestamptz := clock_timestamp();
  v_prepared timestamptz;              -- when a stage was done
  v_asked timestamptz;
  v_retrieved timestamptz;
  v_gathered timestamptz;
  v_ranked timestamptz;
  v_expanded_at timestamptz;
  v_timings jsonb;
  v_options jsonb := remem._check_options(options);
  v_mode text := v_options ->> 'mode';
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_plan record;
  v_query remem._query;
  v_n int;
  v_results remem._arm_result[] := given;
  v_result remem._arm_result;
  v_lexemes text[];
  v_deepest int;
  v_candidates record;
  v_scored remem._scored[];
  v_expanded record;
  v_graph jsonb;
  v_deadline timestamptz;
begin
  degraded := '{}';
  hits := '{}';
  perform remem._check_query(query, k);
  v_n := remem._arm_rows(k);
  select w.* into v_workspace from remem.workspace w where w.workspace = _recall.workspace;
  if not found then
    perform remem._row_filter(workspace, v_options);
    degraded := '{unknown_workspace}';
    trace := jsonb_build_object('degraded', degraded, 'arms', '{}'::jsonb, 'finish_reason', 'unknown_workspace');
    return;
  end if;
  v_space := remem._space(v_workspace.space_no);
  if jsonb_typeof(v_options -> 'deadline_ms') = 'number' then
    v_deadline := v_started + (v_options ->> 'deadline_ms')::float8 * interval '1 millisecond';
  end if;
  v_plan := remem._plan_recall(v_workspace, v_space, query, query_embedding, k, v_options);
  v_query := v_plan.prepared;
  if given is not null then
    v_results := remem._planned_arms(v_plan.arms, given);
  end if;
  degraded := v_plan.degraded;
  v_prepared := clock_timestamp();

  loop
    v_asked := clock_timestamp();
    v_results := coalesce(v_results, remem._run_arms(v_query, v_plan.arms, v_n, remem._posting_budget(), v_deadline));
    v_lexemes := v_query.lexemes;
    v_query.lexemes := '{}';
    v_deepest := 0;
    foreach v_result in array v_results loop
      v_deepest := greatest(v_deepest, cardinality(v_result.memory_nos));
      -- What an arm could not do is not tried again for the finds of the others: its table may be unusable.
      if v_result.arm = 'vector' and v_result.state = 'failed' then
        v_query.vector := null;
      elsif v_result.arm = 'lexical' and v_result.state = 'completed' then
        v_query.lexemes := v_lexemes;
      end if;
    end loop;
    v_retrieved := clock_timestamp();
    v_candidates := remem._candidates(v_query, v_plan.vector_share, v_results, v_plan.pool, greatest(c_cap, v_n));
    v_gathered := clock_timestamp();
    begin
      v_scored := remem._score_candidates(v_query, v_space, v_candidates.memory_nos, v_candidates.cosines, v_candidates.scores,
        v_candidates.matched, v_results, v_plan.vector_share, v_plan.weights, v_options, k);
    exception when feature_not_supported then  -- a filter that fails on a turn beside a find
      perform remem._refuse_filter(sqlerrm);
    end;
    v_ranked := clock_timestamp();
    -- Once as a rule; again and deeper only where copies or excluded rows fill the pool and hide the rest.
    exit when cardinality(v_scored) >= k or v_n >= c_deepest or v_deepest < v_n;
    exit when not (v_candidates.excluded > 0 or exists (select from unnest(v_scored) s where s.copies is not null));
    v_n := least(4 * v_n, c_deepest);
    v_results := null;
    v_query.lexemes := v_lexemes;
  end loop;

  if v_plan.pool_note = 'replaced the arms' then
    v_results := array(select (r.arm, case r.state when 'completed' then 'skipped' else r.state end, r.memory_nos, r.scores, r.matched,
      r.elapsed_ms, r.error)::remem._arm_result from unnest(v_results) r);
  end if;
  begin
    v_expanded := remem._expand_hits(v_query, v_space, v_scored, case when v_query.as_of is not null or v_mode in ('simple', 'retrieval_only') and v_options ->> 'graph' = 'auto'
      then 'never' else v_options ->> 'graph' end, (v_plan.route).graph_depth, c_confident, (v_options ->> 'min_relevance')::float8, k);
    v_scored := v_expanded.result; v_graph := v_expanded.note;
  exception when others then
    -- The graph adds to an answer: when it is broken the hits stand without it.
    v_graph := jsonb_build_object('ran', false, 'reason', 'failed', 'error', sqlerrm);
    degraded := array_append(degraded, 'graph_failed');
  end;
  v_expanded_at := clock_timestamp();
  foreach v_result in array v_results loop
    if v_result.state in ('failed', 'pending') then
      degraded := array_append(degraded, format('arm_%s:%s', v_result.state, v_result.arm));
    end if;
  end loop;
  hits := remem._hits(workspace, v_scored, v_results, v_plan.pool, degraded);
  if (v_options ->> 'explain')::boolean then
    v_timings := jsonb_build_object('query', round((remem._ms(v_started, v_prepared) - v_plan.embedding_ms)::numeric, 3),
      'embedding', v_plan.embedding_ms, 'retrieval', remem._ms(v_asked, v_retrieved), 'retrieval_wait', remem._ms(v_asked, v_retrieved),
      'candidates', remem._ms(v_retrieved, v_gathered), 'ranking', remem._ms(v_gathered, v_ranked),
      'graph', remem._ms(v_ranked, v_expanded_at), 'response', remem._ms(v_expanded_at), 'database', remem._ms(v_started),
      'total', remem._ms(v_started));
    trace := remem._trace(v_query, v_space, v_plan.route, v_options, v_results, v_plan.wanted, v_candidates.excluded, v_candidates.capped,
      cardinality(v_candidates.memory_nos), v_scored, v_plan.vector_share, v_plan.weights, v_graph, v_plan.pool_note, cardinality(v_plan.pool),
      v_timings, degraded);
  end if;
end
$$;
comment on function remem._recall(text, text, real[], int, jsonb, remem._arm_result[]) is 'The recall pipeline; the caller has authorised.';

create or replace function remem._check_query(query text, k int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if query is null or octet_length(query) > 1048576 then
    perform remem._raise(case when query is null then 'RM001' else 'RM003' end,
      jsonb_build_object('argument', 'query', 'got', octet_length(query), 'limit', 1048576), 'Ask something, in at most 1 MB');
  end if;
  if k is null or k not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'k', 'value', k, 'limit', 1000), 'k lies between 1 and 1000');
  end if;
end
$$;
comment on function remem._check_query(text, int) is 'Refuses a query or a k that cannot be answered.';

-- The arms of a call: the option, else the mode's, else the route's.
create or replace function remem._wanted_arms(options jsonb, route remem.route) returns text[]
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select array(
    select a from unnest(case
      when jsonb_typeof(options -> 'arms') = 'array' and jsonb_array_length(options -> 'arms') > 0
        then array(select x from jsonb_array_elements_text(remem._list_of(options -> 'arms')) x)
      else route.arms end) a
    where case options ->> 'mode'
      when 'lexical' then a not in ('vector', 'fusion') when 'vector' then a = 'vector' when 'simple' then a = 'vector' else true end)
$$;
comment on function remem._wanted_arms(jsonb, remem.route) is 'The arms that a call asks for.';

-- The hits with their texts.
create or replace function remem._hits(
  workspace text, scored remem._scored[], results remem._arm_result[], pool bigint[], degraded text[]
) returns remem.recall_hit[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return coalesce((
    select array_agg((b.rank::int, m.memory_id, m.ref, m.kind, m.title, m.body, b.score, b.relevance, b.signals,
        coalesce(nullif(array(select r.arm from unnest(results) r where b.memory_no = any (r.memory_nos)), '{}'),
          case when b.from_no is not null then '{graph}'::text[] when b.memory_no = any (pool) then '{pool}'::text[]
            else '{neighbour}'::text[] end),
        m.source_class, m.source_ref,
        (select s.session_ref from remem.session s where s.workspace = _hits.workspace and s.session_no = m.session_no),
        m.occurred_at, m.freshness,
        -- Rows with the same text, and the further sources of a row that took in an equal one when it was written.
        nullif(coalesce((select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('memory_id', d.memory_id, 'ref', d.ref, 'source_ref', d.source_ref,
            'session_ref', (select x.session_ref from remem.session x where x.workspace = _hits.workspace and x.session_no = d.session_no)))
            order by c.n)
          from unnest(b.copies) with ordinality c (memory_no, n)
          cross join lateral (select x.* from remem.memory x where x.workspace = _hits.workspace and x.memory_no = c.memory_no offset 0) d), '[]')
          || case when jsonb_typeof(m.provenance -> 'also') = 'array' then (
            select coalesce(jsonb_agg(jsonb_build_object('memory_id', m.memory_id, 'source_ref', a.value -> 'source_ref') order by a.n), '[]')
            from jsonb_array_elements(m.provenance -> 'also') with ordinality a (value, n)
            where jsonb_typeof(a.value) = 'object' and a.value ? 'source_ref') else '[]' end, '[]'),
        (select p.memory_id from remem.memory p where p.workspace = _hits.workspace and p.memory_no = b.from_no),
        degraded, m.scope, m.scope_ref)::remem.recall_hit order by b.rank)
    from unnest(scored) with ordinality b (memory_no, score, relevance, signals, arms, copies, from_no, rank)
    -- offset 0 keeps it a lookup per hit, also in a table that was never analysed.
    cross join lateral (select x.* from remem.memory x where x.workspace = _hits.workspace and x.memory_no = b.memory_no offset 0) m
  ), '{}');
end
$$;
comment on function remem._hits(text, remem._scored[], remem._arm_result[], bigint[], text[]) is 'Scored candidates as the caller sees them.';

-- The trace: a funnel a person can read.
create or replace function remem._trace(
  query remem._query, space remem.embedding_space, route remem.route, options jsonb, results remem._arm_result[], wanted text[],
  excluded int, capped int, candidates int, scored remem._scored[], vector_share float8, weights jsonb, graph jsonb, pool_note text,
  pool_rows int, timings jsonb, degraded text[]
) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_states jsonb := (select coalesce(jsonb_object_agg(r.arm, jsonb_strip_nulls(jsonb_build_object('state', r.state,
    'found', cardinality(r.memory_nos), 'elapsed_ms', r.elapsed_ms, 'error', r.error))), '{}') from unnest(results) r);
  v_submitted text[] := array(select r.arm from unnest(results) r);
begin
  return jsonb_build_object(
    'query', jsonb_build_object('text', query.text, 'normalised', query.folded, 'terms', to_jsonb(query.original_lexemes),
      'expanded_terms', to_jsonb(coalesce(query.expanded_lexemes, '{}')), 'statement', remem._statement(left(query.text, 2000)),
      'phrases', to_jsonb(coalesce(query.phrases, '{}')), 'excluded', to_jsonb(coalesce(query.excluded, '{}')),
      'entities', to_jsonb(coalesce(query.entities, '{}')),
      'kind_hint', query.kind_hint, 'time_from', query.time_from, 'time_to', query.time_to),
    'route', jsonb_build_object('kind', route.kind, 'arms', to_jsonb(wanted), 'pool', route.pool, 'graph_depth', route.graph_depth),
    'pool', jsonb_build_object('note', coalesce(pool_note, 'none'), 'rows', coalesce(pool_rows, 0)),
    'space', space.name, 'arms', v_states, 'shards', to_jsonb(query.shards), 'memories', query.documents, 'vectors', query.vectors, 'filtered_to', cardinality(query.allowed),
    'policy', case when options ->> 'mode' = 'simple' then 'simple' else 'all_submitted' end,
    'tasks', jsonb_build_object('submitted', cardinality(v_submitted),
      'completed', (select count(*) from unnest(results) r where r.state = 'completed'),
      'pending', (select count(*) from unnest(results) r where r.state = 'pending'),
      'failed', (select count(*) from unnest(results) r where r.state = 'failed'),
      'skipped', (select count(*) from unnest(results) r where r.state = 'skipped')),
    'finish_reason', case when exists (select from unnest(results) r where r.state = 'pending') then 'deadline'
      when exists (select from unnest(results) r where r.state = 'failed') then 'arm_failed'
      when pool_note = 'replaced the arms' then 'pool_satisfied' else 'all_completed' end,
    'candidates', candidates, 'returned', cardinality(scored),
    'dropped', jsonb_build_object('excluded_word', excluded, 'cap', capped, 'copies',
      (select coalesce(sum(cardinality(s.copies)), 0) from unnest(scored) s), 'below_k_or_gate', greatest(candidates - cardinality(scored), 0)),
    'fusion', options ->> 'fusion', 'weights', weights || jsonb_build_object('vector', vector_share),
    'ranking_skipped', options ->> 'mode' = 'retrieval_only', 'rerank_gate', remem._rerank_gate(query.workspace, scored),
    'graph', graph, 'timings', timings, 'degraded', to_jsonb(degraded));
end
$$;
comment on function remem._trace(remem._query, remem.embedding_space, remem.route, jsonb, remem._arm_result[], text[], int, int, int, remem._scored[],
  float8, jsonb, jsonb, text, int, jsonb, text[]) is 'What every stage of a recall did.';
