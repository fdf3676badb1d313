-- recall: the one call. Reads only, takes no row lock, leaves no setting behind.

-- The pipeline. Answers with hits, the degraded states by name, and a trace of what each stage did.
create or replace function remem._recall(
  workspace text, query text, query_embedding real[], k int, options jsonb,
  out hits remem.recall_hit[], out degraded text[], out trace jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_budget constant int := 20000;      -- postings read per query
  c_cap constant int := 200;           -- candidates before anything expensive
  c_deepest constant int := 2000;      -- how deep the arms dig where copies of few texts fill the pool
  c_confident constant float8 := 0.7;  -- relevance of a high-confidence hit
  v_started timestamptz := clock_timestamp();
  v_stage timestamptz := v_started;
  v_timings jsonb := '{}';
  v_options jsonb := remem._check_options(options);
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_route remem.route;
  v_prepared record;
  v_query remem._query;
  v_wanted text[];
  v_arms text[];
  v_weights jsonb;
  v_share float8;
  v_pool_rows bigint[];
  v_pool_note text;
  v_n int;
  v_run record;
  v_candidates record;
  v_scored remem._scored[];
  v_graph jsonb;
  v_deadline timestamptz;
begin
  degraded := '{}';
  hits := '{}';
  perform remem._check_query(query, k);
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

  -- Routing: the kind that is asked for, or that the words hint at, decides the arms; the call decides before it.
  v_route := remem._route(workspace, coalesce(v_options ->> 'kind', remem._kind_hint(workspace, remem._fold(left(query, 2000))), 'general'));
  v_wanted := remem._wanted_arms(v_options, v_route);
  select p.* into v_prepared from remem._prepare_query(v_workspace, v_space, query, query_embedding, v_options, v_wanted) p;
  v_query := v_prepared.prepared;
  degraded := v_prepared.degraded;
  v_weights := remem._default_weights() || v_route.signals || (v_options -> 'weights');
  v_arms := remem._submittable(v_wanted, v_query);
  v_timings := v_timings || jsonb_build_object('query', remem._ms(v_stage));
  v_share := case
    when v_query.vector is null then 0 when not v_wanted && '{lexical,fusion}' then 1
    else coalesce((v_weights ->> 'vector')::float8, v_space.vector_weight) end;

  v_stage := clock_timestamp();
  if v_route.pool is not null then
    v_pool_rows := remem._pool(v_query, v_route);
    v_pool_note := case when cardinality(v_pool_rows) = 0 then 'empty'
      when v_options ->> 'kind' is not null and remem._pool_satisfies(v_query, v_space, v_pool_rows, (v_options ->> 'min_relevance')::float8, k)
        then 'replaced the arms' else 'joined' end;
    if v_pool_note = 'replaced the arms' then
      v_query.allowed := v_pool_rows;  -- the same scoring, over these rows alone
    end if;
  end if;
  v_n := greatest(50, 2 * k);
  loop
    select r.* into v_run from remem._run_arms(v_query,
      case when 'fusion' = any (v_arms) then array(select distinct a from unnest(v_arms || '{vector,lexical}'::text[]) a order by a desc) else v_arms end,
      v_n, c_budget, v_deadline, v_pool_rows) r;
    if exists (select from unnest(v_run.results) r where r.arm = 'vector' and r.state = 'failed') then
      v_query.vector := null;  -- nothing to compare with: its table is not usable
    end if;
    v_timings := v_timings || jsonb_build_object('retrieval', remem._ms(v_stage));
    v_stage := clock_timestamp();
    select c.* into v_candidates from remem._candidates(v_query, v_share,
      coalesce((select r.memory_nos from unnest(v_run.results) r where r.arm = 'vector' and r.state = 'completed'), '{}'),
      coalesce((select r.scores from unnest(v_run.results) r where r.arm = 'vector' and r.state = 'completed'), '{}'),
      v_run.lexical_nos, v_run.lexical_scores, v_run.lexical_matched,
      array(select n from unnest(v_run.results) r cross join lateral unnest(r.memory_nos) n where r.arm in ('phrase', 'attribute', 'pointer')),
      greatest(c_cap, v_n)) c;
    v_timings := v_timings || jsonb_build_object('candidates', remem._ms(v_stage));
    v_stage := clock_timestamp();
    v_scored := remem._score_candidates(v_query, v_space, v_candidates.memory_nos, v_candidates.cosines, v_candidates.scores,
      v_candidates.matched, v_run.units, v_run.unit_scores, v_run.results, v_share, v_weights, v_options, k);
    v_timings := v_timings || jsonb_build_object('ranking', remem._ms(v_stage));
    v_stage := clock_timestamp();
    -- Once as a rule; again and deeper only where copies or excluded rows fill the pool and hide the rest.
    exit when cardinality(v_scored) >= k or v_n >= c_deepest
      or coalesce((select max(cardinality(r.memory_nos)) from unnest(v_run.results) r), 0) < v_n
      or not (v_candidates.excluded > 0 or exists (select from unnest(v_scored) s where s.copies is not null));
    v_n := least(4 * v_n, c_deepest);
  end loop;

  if v_pool_note = 'replaced the arms' then
    v_run.results := array(select (r.arm, 'skipped', r.memory_nos, r.scores, r.elapsed_ms, r.error)::remem._arm_result from unnest(v_run.results) r);
  end if;
  begin
    select g.result, g.note into v_scored, v_graph
    from remem._expand_hits(v_query, v_space, v_scored, v_options ->> 'graph', v_route.graph_depth, c_confident, k) g;
  exception when others then
    -- The graph adds to an answer: when it is broken the hits stand without it.
    v_graph := jsonb_build_object('ran', false, 'reason', 'failed', 'error', sqlerrm);
    degraded := array_append(degraded, 'graph_failed');
  end;
  v_timings := v_timings || jsonb_build_object('graph', remem._ms(v_stage));
  v_stage := clock_timestamp();
  degraded := degraded || array(select format('arm_%s:%s', r.state, r.arm) from unnest(v_run.results) r where r.state in ('failed', 'pending'));
  hits := remem._hits(workspace, v_scored, v_run.results, v_run.lexical_nos, degraded);
  v_timings := v_timings || jsonb_build_object('response', remem._ms(v_stage), 'total', remem._ms(v_started));
  if (v_options ->> 'explain')::boolean then
    trace := remem._trace(v_query, v_space, v_route, v_options, v_run.results, v_wanted, v_candidates.excluded, v_candidates.capped,
      cardinality(v_candidates.memory_nos), v_scored, v_share, v_weights, v_graph, v_pool_note, cardinality(v_pool_rows), v_timings, degraded);
  end if;
end
$$;
comment on function remem._recall(text, text, real[], int, jsonb) is 'The recall pipeline; the caller has authorised.';

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
        then array(select x from jsonb_array_elements_text(options -> 'arms') x)
      else route.arms end) a
    where case options ->> 'mode'
      when 'lexical' then a not in ('vector', 'fusion') when 'vector' then a = 'vector' when 'simple' then a = 'vector' else true end)
$$;
comment on function remem._wanted_arms(jsonb, remem.route) is 'The arms that a call asks for.';

-- The hits with their texts.
create or replace function remem._hits(
  workspace text, scored remem._scored[], results remem._arm_result[], lexical_nos bigint[], degraded text[]
) returns remem.recall_hit[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return coalesce((
    select array_agg((b.rank::int, m.memory_id, m.ref, m.kind, m.title, m.body, b.score, b.relevance, b.signals,
        coalesce(nullif(array(select r.arm from unnest(results) r where b.memory_no = any (r.memory_nos)), '{}'),
          case when b.from_no is not null then '{graph}'::text[] when b.memory_no = any (lexical_nos) then '{pool}'::text[]
            else '{neighbour}'::text[] end),
        m.source_class, m.source_ref,
        (select s.session_ref from remem.session s where s.workspace = _hits.workspace and s.session_no = m.session_no),
        m.occurred_at, m.freshness,
        (select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('memory_id', d.memory_id, 'ref', d.ref, 'source_ref', d.source_ref,
            'session_ref', (select x.session_ref from remem.session x where x.workspace = _hits.workspace and x.session_no = d.session_no)))
            order by c.n)
          from unnest(b.copies) with ordinality c (memory_no, n)
          join remem.memory d on d.workspace = _hits.workspace and d.memory_no = c.memory_no),
        (select p.memory_id from remem.memory p where p.workspace = _hits.workspace and p.memory_no = b.from_no),
        degraded)::remem.recall_hit order by b.rank)
    from unnest(scored) with ordinality b (memory_no, score, relevance, signals, arms, copies, from_no, rank)
    join remem.memory m on m.workspace = _hits.workspace and m.memory_no = b.memory_no
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
    'space', space.name, 'arms', v_states, 'memories', query.documents, 'vectors', query.vectors, 'filtered_to', cardinality(query.allowed),
    'policy', case when options ->> 'mode' = 'simple' then 'simple' else 'all_submitted' end,
    'tasks', jsonb_build_object('submitted', cardinality(v_submitted),
      'completed', (select count(*) from unnest(results) r where r.state = 'completed'),
      'pending', (select count(*) from unnest(results) r where r.state = 'pending'),
      'failed', (select count(*) from unnest(results) r where r.state = 'failed')),
    'finish_reason', case when exists (select from unnest(results) r where r.state = 'pending') then 'deadline'
      when exists (select from unnest(results) r where r.state = 'failed') then 'arm_failed' else 'all_completed' end,
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
