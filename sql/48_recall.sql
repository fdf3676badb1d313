-- recall: the one call. Reads only, takes no lock, leaves no setting behind.

-- The pipeline. Answers with hits, the degraded states by name, and a trace of what each stage did.
create or replace function remem._recall(
  workspace text, query text, query_embedding real[], k int, options jsonb,
  out hits remem.recall_hit[], out degraded text[], out trace jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_small constant int := 2000;        -- up to so many vectors an exact scan beats HNSW
  c_selective constant int := 5000;    -- up to so many rows a filter is resolved first
  c_budget constant int := 20000;      -- postings read per query
  c_cap constant int := 200;           -- candidates before anything expensive
  c_deepest constant int := 4000;      -- candidates of an arm when copies of a text hide the rest
  v_options jsonb := remem._check_options(options);
  v_mode text := v_options ->> 'mode';
  v_weights jsonb;
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_arms text[];
  v_states jsonb := '{}';
  v_pool int;
  v_documents bigint;
  v_mean_len float8;
  v_vectors bigint;
  v_query real[] := query_embedding;
  v_filter jsonpath;
  v_validity boolean;
  v_allowed bigint[];
  v_terms record;
  v_vector record;
  v_lexical record;
  v_candidates record;
  v_share float8;
  v_started timestamptz := clock_timestamp();
begin
  degraded := '{}';
  hits := '{}';
  if query is null or octet_length(query) > 1048576 then
    perform remem._raise(case when query is null then 'RM001' else 'RM003' end,
      jsonb_build_object('argument', 'query', 'got', octet_length(query), 'limit', 1048576), 'Ask something, in at most 1 MB');
  end if;
  if k is null or k not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'k', 'value', k, 'limit', 1000), 'k lies between 1 and 1000');
  end if;
  v_filter := remem._row_filter(workspace, v_options);
  select w.* into v_workspace from remem.workspace w where w.workspace = _recall.workspace;
  if not found then
    degraded := '{unknown_workspace}';
    trace := jsonb_build_object('degraded', degraded, 'arms', '{}'::jsonb);
    return;
  end if;
  v_space := remem._space(v_workspace.space_no);
  v_weights := remem._default_weights() || (v_options -> 'weights');
  v_arms := case when jsonb_typeof(v_options -> 'arms') = 'array' and jsonb_array_length(v_options -> 'arms') > 0
    then array(select a from jsonb_array_elements_text(v_options -> 'arms') a) else '{vector,lexical}' end;
  if v_mode in ('lexical', 'vector') then
    v_arms := array(select a from unnest(v_arms) a where a = v_mode);
  end if;
  v_pool := greatest(50, 2 * k);
  select t.n, t.doc_len::float8 / greatest(t.n, 1) into v_documents, v_mean_len from remem._count_tally(workspace, 0) t;
  v_mean_len := greatest(v_mean_len, 1);
  v_vectors := (remem._count_tally(workspace, v_space.space_no)).n;

  -- The query's vector: the caller's, if it is of this space; ours where the space is the built-in one.
  if 'vector' = any (v_arms) then
    if v_query is not null and v_options ->> 'space' not in (v_space.name, v_space.fingerprint) then
      degraded := array_append(degraded, 'space_mismatch');
      v_query := null;
    elsif v_query is not null then
      perform remem._check_vector(v_query, v_space, 0);
      -- Half precision neither overflows nor vanishes at length one.
      v_query := @extschema:vector@.l2_normalize(v_query::@extschema:vector@.vector)::real[];
    end if;
    if v_query is null and v_space.space_no = 1 then
      v_query := remem._hash_embed(query);
    end if;
    if v_query is null then
      degraded := array_append(degraded, 'no_embedding');
    elsif 0 = all (v_query) then
      degraded := array_append(degraded, 'zero_vector');
      v_query := null;
    end if;
    if v_vectors < v_documents and v_space.space_no <> 1 then  -- the built-in space lacks only texts without features
      degraded := array_append(degraded, 'stale_rows');
    end if;
  else
    v_query := null;
  end if;
  if v_workspace.analyser <> remem._analyser_name(v_workspace.language) then
    degraded := array_append(degraded, 'analyser_mix');
  end if;

  -- A selective filter is resolved first and searched exactly; otherwise the arms check rows as they go.
  v_validity := exists (select from remem.memory m
    where m.workspace = _recall.workspace and (m.valid_from is not null or m.valid_to is not null)
      and m.superseded_at is null and m.forgotten_at is null and (m.valid_to <= now() or m.valid_from > now()));
  if v_filter is not null then
    v_allowed := remem._resolve_filter(workspace, v_filter, c_selective);
  end if;

  select t.* into v_terms from remem._query_terms(workspace, query, remem._language_dictionaries(v_workspace.language),
    v_documents, c_budget) t;
  if cardinality(v_terms.lexemes) = 0 and 'lexical' = any (v_arms) then
    degraded := array_append(degraded, 'no_lexemes');
  end if;

  v_share := case
    when v_query is null then 0 when not 'lexical' = any (v_arms) then 1
    else coalesce((v_weights ->> 'vector')::float8, v_space.vector_weight) end;
  -- Once as a rule; again and deeper only where copies of a few texts fill the pool and hide the rest.
  loop
    select '{}'::bigint[] as memory_nos, '{}'::float8[] as cosines into v_vector;
    if v_query is not null then
      select a.* into v_vector from remem._arm_vector(workspace, v_space.space_no, v_query, v_pool,
        v_vectors <= c_small, v_allowed, v_filter, v_validity) a;
      if cardinality(v_vector.memory_nos) < least(v_pool, v_vectors) and v_allowed is null and v_vectors > c_small then
        -- The index scan gave up before it had enough rows of this workspace.
        select a.* into v_vector from remem._arm_vector(workspace, v_space.space_no, v_query, v_pool,
          true, v_allowed, v_filter, v_validity) a;
      end if;
      v_states := v_states || jsonb_build_object('vector', jsonb_build_object('state', 'completed', 'found', cardinality(v_vector.memory_nos)));
    end if;
    select a.* into v_lexical from remem._arm_lexical(workspace,
      case when 'lexical' = any (v_arms) then v_terms.lexemes else '{}' end, v_terms.frequencies, v_terms.idfs, v_pool, c_budget,
      v_mean_len, v_vector.memory_nos, v_allowed, v_filter, v_validity) a;
    if 'lexical' = any (v_arms) then
      v_states := v_states || jsonb_build_object('lexical', jsonb_build_object('state', 'completed',
        'found', (select count(*) from unnest(v_lexical.own) o where o), 'terms', to_jsonb(v_terms.lexemes)));
    end if;

    select c.* into v_candidates from remem._candidates(workspace, v_space.space_no, v_query,
      case when 'lexical' = any (v_arms) then v_terms.lexemes else '{}' end, v_terms.idfs, v_mean_len, v_share,
      v_vector.memory_nos, v_vector.cosines, coalesce(v_lexical.memory_nos, '{}'), coalesce(v_lexical.scores, '{}'),
      coalesce(v_lexical.matched, '{}'), greatest(c_cap, v_pool)) c;
    hits := remem._hits(workspace, query, k, v_candidates.memory_nos, v_candidates.cosines, v_candidates.scores, v_candidates.matched,
      v_lexical.units, v_lexical.unit_scores, (select sum(i) from unnest(v_terms.idfs) i), v_share, v_weights,
      v_options ->> 'fusion', v_mode <> 'retrieval_only', (v_options ->> 'min_relevance')::float8, v_space,
      v_vector.memory_nos, v_lexical.memory_nos, v_lexical.own, v_filter, v_validity, degraded);
    exit when cardinality(hits) >= k or v_pool >= c_deepest
      or greatest(cardinality(v_vector.memory_nos), (select count(*) from unnest(v_lexical.own) o where o)) < v_pool
      or not exists (select from unnest(hits) h where h.duplicates is not null);
    v_pool := least(4 * v_pool, c_deepest);
  end loop;
  trace := jsonb_build_object(
    'space', v_space.name, 'arms', v_states, 'memories', v_documents, 'vectors', v_vectors,
    'filtered_to', cardinality(v_allowed), 'candidates', coalesce(cardinality(v_candidates.memory_nos), 0),
    'weights', v_weights || jsonb_build_object('vector', v_share), 'degraded', degraded,
    'elapsed_ms', round(extract(epoch from clock_timestamp() - v_started)::numeric * 1000, 3));
end
$$;
comment on function remem._recall(text, text, real[], int, jsonb) is 'The recall pipeline; the caller has authorised.';

-- The rows that pass a filter, when there are at most `most`; null when there are more.
create or replace function remem._resolve_filter(workspace text, row_filter jsonpath, most int) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_allowed bigint[];
  v_problem text;
begin
  -- EXECUTE: the plan depends on the filter's value, a cached one would forget the GIN index.
  execute format('select array_agg(s.memory_no) from (select m.memory_no from remem.memory m where m.workspace = $1 and m.attrs @@ %L'
    ' and m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())'
    ' and (m.valid_to is null or m.valid_to > now()) limit %s) s', row_filter, most + 1)
  into v_allowed using workspace;
  v_allowed := coalesce(v_allowed, '{}');
  return case when cardinality(v_allowed) <= most then v_allowed end;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem._resolve_filter(text, jsonpath, int) is 'Resolves a selective filter to its rows.';

-- The best k candidates as hits: equal texts once with all their references, gates on relevance.
create or replace function remem._hits(
  workspace text, query text, k int, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], idf_mass float8, vector_share float8, weights jsonb, fusion text,
  with_context boolean, min_relevance float8, space remem.embedding_space, vector_nos bigint[], lexical_nos bigint[], lexical_own boolean[],
  row_filter jsonpath, check_validity boolean, degraded text[]
) returns remem.recall_hit[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    with scored as materialized (
      select s.*, row_number() over (order by s.score desc nulls last, s.memory_no) as place,
        row_number() over (partition by s.fingerprint order by s.score desc nulls last, s.memory_no) as copy
      from remem._score(workspace, query, memory_nos, cosines, scores, matched, units, unit_scores, idf_mass, vector_share,
        weights, fusion, with_context, space.cosine_floor, space.cosine_full) s
      where s.relevance >= min_relevance and s.score is not null
        and (not (row_filter is not null or check_validity) or (
          select (row_filter is null or m.attrs @@ row_filter)
            and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
          from remem.memory m where m.workspace = _hits.workspace and m.memory_no = s.memory_no))
    ), best as (
      select s.*, row_number() over (order by s.place)::int as rank from scored s
      where s.copy = 1 or not with_context order by s.place limit k
    )
    select array_agg((b.rank, m.memory_id, m.ref, m.kind, m.title, m.body, b.score, b.relevance, b.signals,
        array_remove(array[
          case when b.memory_no = any (vector_nos) then 'vector' end,
          case when exists (select from unnest(lexical_nos, lexical_own) l (memory_no, own) where l.memory_no = b.memory_no and l.own) then 'lexical' end,
          case when b.memory_no <> all (coalesce(lexical_nos, '{}')) then 'neighbour' end], null),
        m.source_class, m.source_ref,
        (select s.session_ref from remem.session s where s.workspace = _hits.workspace and s.session_no = m.session_no),
        m.occurred_at, m.freshness,
        (select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('memory_id', d.memory_id, 'ref', d.ref, 'source_ref', d.source_ref,
            'session_ref', (select x.session_ref from remem.session x where x.workspace = _hits.workspace and x.session_no = d.session_no)))
            order by o.place)
          from scored o join remem.memory d on d.workspace = _hits.workspace and d.memory_no = o.memory_no
          where with_context and o.fingerprint = b.fingerprint and o.memory_no <> b.memory_no),
        null, degraded)::remem.recall_hit order by b.rank)
    from best b join remem.memory m on m.workspace = _hits.workspace and m.memory_no = b.memory_no
  );
end
$$;
comment on function remem._hits(text, text, int, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean,
  float8, remem.embedding_space, bigint[], bigint[], boolean[], jsonpath, boolean, text[]) is 'The best k candidates with their texts.';

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
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  select r.* into v_result from remem._recall(workspace, query, query_embedding, k, options) r;
  perform remem._warn_degraded(v_result.degraded);
  return query select h.* from unnest(v_result.hits) h;
end
$$;
comment on function remem.recall(text, text, real[], int, jsonb) is
  'The memories that matter for a query, best first. query_embedding is the query''s vector in the workspace''s current space (not needed for the built-in hash space). Options: filter (jsonpath), kinds, scopes, arms, mode (auto, lexical, vector, retrieval_only), fusion (weighted, rrf, max), weights, min_relevance (0 to 1), space (the model that made query_embedding). Works in a READ ONLY transaction. A degraded call raises one WARNING (RM501) naming the states.';

create or replace function remem.recall_explain(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  select r.* into v_result from remem._recall(workspace, query, query_embedding, k, options) r;
  return v_result.trace || jsonb_build_object('query', query, 'hits', coalesce(to_jsonb(v_result.hits), '[]'));
end
$$;
comment on function remem.recall_explain(text, text, real[], int, jsonb) is
  'The same recall as JSON with the state of every stage: arms, terms, candidates, weights, degraded states, hits with their signals.';
