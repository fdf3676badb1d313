-- Routing: from the kind of question to the arms that answer it, the pool that is tried first, and weights.
-- Rows of remem.route; those of a workspace stand before the database-wide ones.

create or replace function remem._route(workspace text, kind text) returns remem.route
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select r from remem.route r
  where r.workspace in (_route.workspace, '') and r.kind in (_route.kind, 'general')
  order by r.kind = _route.kind desc, r.workspace <> '' desc limit 1
$$;
comment on function remem._route(text, text) is 'The route of a kind in a workspace; of general where the kind has none.';

-- The route that the words of a query hint at, by the routes' keywords; of general where none does.
create or replace function remem._hinted_route(workspace text, query text) returns remem.route
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_words text[] := string_to_array(btrim(remem._words(remem._fold(left(query, 2000)))), ' ');
  v_route remem.route;
begin
  select r.* into v_route
  from (
    select distinct on (x.kind) x.* from remem.route x
    where x.workspace in (_hinted_route.workspace, '') order by x.kind, x.workspace desc) r
  where r.keywords && v_words or r.kind = 'general'
  order by (r.kind <> 'general')::int * (select count(*) from unnest(r.keywords) w (word) where w.word = any (v_words)) desc, r.kind limit 1;
  return v_route;
end
$$;
comment on function remem._hinted_route(text, text) is 'The route that the words of a query hint at.';

create or replace function remem.put_route(
  kind text, arms text[], workspace text default null, pool text default null, fallback_pools text[] default '{}',
  graph_depth int default 1, signals jsonb default '{}', keywords text[] default '{}'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_kinds constant text[] := '{semantic,episodic,decision,preference,procedure,task,other}';
begin
  perform remem._authorize_admin_of(workspace);
  perform remem._check_member('kind', kind, c_kinds || '{general}'::text[], null);
  perform remem._check_list('arms', to_jsonb(arms), '{vector,lexical,pointer,phrase,attribute,fusion}');
  if coalesce(cardinality(arms), 0) = 0 then
    perform remem._raise('RM001', '{"argument": "arms"}', 'A route needs an arm');
  end if;
  if pool is not null then
    perform remem._check_member('pool', pool, c_kinds, null);
  end if;
  perform remem._check_list('fallback_pools', to_jsonb(fallback_pools), c_kinds);
  if graph_depth is null or graph_depth not between 0 and 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'graph_depth', 'value', graph_depth), '0 (no expansion) or 1');
  end if;
  perform remem._check_weights(coalesce(signals, '{}'));
  insert into remem.route as r (workspace, kind, arms, pool, fallback_pools, graph_depth, signals, keywords)
  values (coalesce(put_route.workspace, ''), put_route.kind, put_route.arms, put_route.pool, coalesce(put_route.fallback_pools, '{}'),
    put_route.graph_depth, coalesce(put_route.signals, '{}'), coalesce(put_route.keywords, '{}'))
  on conflict on constraint route_pkey do update
    set arms = excluded.arms, pool = excluded.pool, fallback_pools = excluded.fallback_pools,
        graph_depth = excluded.graph_depth, signals = excluded.signals, keywords = excluded.keywords;
end
$$;
comment on function remem.put_route(text, text[], text, text, text[], int, jsonb, text[]) is
  'Sets which arms answer a kind of question (or general), which kind''s pinned and important rows are tried first (pool), where to look next (fallback_pools), whether the graph is followed, weights over the defaults, and the words of a query that hint at the kind; for one workspace, or for all.';

create or replace function remem.route_of(workspace text, query text, options jsonb default '{}') returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_options jsonb;
  v_route remem.route;
begin
  perform remem._authorize(workspace, 'read');
  v_options := remem._check_options(options);
  v_route := case when v_options ->> 'kind' is not null then remem._route(workspace, v_options ->> 'kind')
    else remem._hinted_route(workspace, coalesce(query, '')) end;
  return jsonb_build_object('kind', coalesce(v_options ->> 'kind', nullif(v_route.kind, 'general')), 'route', v_route.kind, 'arms', to_jsonb(v_route.arms), 'pool', v_route.pool,
    'fallback_pools', to_jsonb(v_route.fallback_pools), 'graph_depth', v_route.graph_depth, 'weights', v_route.signals);
end
$$;
comment on function remem.route_of(text, text, jsonb) is
  'The route that recall would take for a query: kind, arms, pool, graph depth, weights.';

-- Rows of a kind that stand for it, at most 100: pinned or important ones; where there are none, the kind's own, of more
-- than a hundred the newest among the workspace's latest 2,000, if there are any; then those of the fallback pools.
-- The GIN index is the one that a path can be looked up in: a plan that is kept does not see how many rows a workspace has,
-- and one of a young table takes a partial index for tiny. So columns are hidden from the others; the path names the workspace.
create or replace function remem._pool(query remem._query, route remem.route) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  c_most constant int := 100;
  v_workspace text := query.workspace;
  v_allowed bigint[] := query.allowed;
  v_filter jsonpath := query.row_filter;
  v_kind text;
  v_path jsonpath;
  v_rows bigint[];
  v_latest bigint[];
begin
  foreach v_kind in array array[route.pool] || route.fallback_pools loop
    v_path := format('$.workspace == %s && $.kind == %s && $.important == true', to_jsonb(v_workspace), to_jsonb(v_kind));
    v_rows := array(
      select m.memory_no from remem.memory m
      where m.attrs @@ v_path and m.workspace || '' = v_workspace and coalesce(m.superseded_at, m.forgotten_at) is null
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
        and (v_allowed is null or m.memory_no = any (v_allowed)) and (v_filter is null or m.attrs @@ v_filter)
      order by m.importance desc, m.memory_no desc limit c_most);
    if cardinality(v_rows) > 0 then
      return v_rows;
    end if;
    v_path := format('$.workspace == %s && $.kind == %s', to_jsonb(v_workspace), to_jsonb(v_kind));
    v_rows := array(
      select m.memory_no from remem.memory m
      where m.attrs @@ v_path and m.workspace || '' = v_workspace and coalesce(m.superseded_at, m.forgotten_at) is null
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
        and (v_allowed is null or m.memory_no = any (v_allowed)) and (v_filter is null or m.attrs @@ v_filter)
      limit c_most);
    if cardinality(v_rows) = c_most then
      v_latest := remem._latest_of(query, v_path, c_most);
      if cardinality(v_latest) > 0 then
        v_rows := v_latest;
      end if;
    end if;
    if cardinality(v_rows) > 0 then
      return v_rows;
    end if;
  end loop;
  return '{}';
exception when feature_not_supported then
  perform remem._refuse_filter(sqlerrm);
end
$$;
comment on function remem._pool(remem._query, remem.route) is 'The relevance pool of a routed kind.';

-- Those that match a path among the workspace's latest 2,000 rows, read from the end of its key.
create or replace function remem._latest_of(query remem._query, path jsonpath, most int) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_workspace text := query.workspace;
  v_allowed bigint[] := query.allowed;
  v_filter jsonpath := query.row_filter;
begin
  return array(
    select m.memory_no
    from (select * from remem.memory l where l.workspace = v_workspace order by l.workspace desc, l.memory_no desc limit 2000) m
    where m.attrs @@ path and m.superseded_at is null and m.forgotten_at is null
      and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      and (v_allowed is null or m.memory_no = any (v_allowed)) and (v_filter is null or m.attrs @@ v_filter)
    limit most);
end
$$;
comment on function remem._latest_of(remem._query, jsonpath, int) is 'Rows that match a path among the latest of a workspace.';

-- Whether the pool answers by itself: k of its rows are relevant to this query (at least half, or what the caller demands).
create or replace function remem._pool_satisfies(query remem._query, space remem.embedding_space, pool bigint[], min_relevance float8, k int)
returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_cosines float8[] := array_fill(null::float8, array[cardinality(pool)]);
  v_matched float8[];
begin
  if cardinality(pool) < k then
    return false;
  end if;
  if query.vector is not null then
    v_cosines := remem._cosines(query.workspace, query.space_no, query.vector, pool);
  end if;
  v_matched := (remem._word_scores(query, pool)).matched;
  return k <= (
    select count(*) from unnest(v_cosines, v_matched) r (cosine, matched)
    where greatest((r.cosine - space.cosine_floor) / (space.cosine_full - space.cosine_floor),
      r.matched / nullif(query.idf_mass, 0), 0) >= greatest(min_relevance, 0.5));
end
$$;
comment on function remem._pool_satisfies(remem._query, remem.embedding_space, bigint[], float8, int) is 'Whether k rows of a pool are relevant.';
