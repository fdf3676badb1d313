-- Recall in parts: recall_arm runs one arm on a connection of its own, recall_from makes the answer out of the results.
-- What comes back to recall_from was in a caller's hands: it is checked here, and the scoring looks every row up anew.

-- Whether a call can submit an arm at all, by what is known before the query is prepared. The plan has the last word.
create or replace function remem._may_submit(workspace text, query text, arm text, options jsonb) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_arms text[] := remem._wanted_arms(options, case when options ->> 'kind' is not null
    then remem._route(workspace, options ->> 'kind') else remem._hinted_route(workspace, query) end);
begin
  return (arm = any (v_arms) or arm in ('vector', 'lexical') and 'fusion' = any (v_arms))
    and case arm when 'phrase' then query ~ '["\u201c\u201e\u00ab]' when 'attribute' then remem._has_attributes(workspace) else true end;
end
$$;
comment on function remem._may_submit(text, text, text, jsonb) is 'Whether a call can submit an arm, before its query is prepared.';

-- A result as JSON has its numbers in the shortest form that reads back as the same float8, whatever the session says.
create or replace function remem.recall_arm(
  workspace text, query text, arm text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set extra_float_digits = 1
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_options jsonb;
  v_workspace remem.workspace;
  v_plan record;
begin
  perform remem._authorize(workspace, 'read');
  v_options := remem._check_options(options);
  perform remem._check_query(query, k);
  perform remem._check_member('arm', arm, '{vector,lexical,pointer,phrase,attribute}', null);
  select w.* into v_workspace from remem.workspace w where w.workspace = recall_arm.workspace;
  if not found or not remem._may_submit(workspace, query, arm, v_options) then
    perform remem._row_filter(workspace, v_options);  -- a wrong filter is refused all the same
    return null;
  end if;
  v_plan := remem._plan_recall(v_workspace, remem._space(v_workspace.space_no), query, query_embedding, k, v_options);
  if arm <> all (v_plan.arms) then
    return null;
  end if;
  return to_jsonb(remem._submit_arm(arm, v_plan.prepared, remem._arm_rows(k), remem._posting_budget(),
    v_started + (v_options ->> 'deadline_ms')::float8 * interval '1 millisecond'));
end
$$;
comment on function remem.recall_arm(text, text, text, real[], int, jsonb) is
  'One arm (vector, lexical, pointer, phrase, attribute) of the recall with the same arguments, for callers that run arms on several connections: its result for recall_from, with state, finds, scores, elapsed_ms and error; null where this query does not submit the arm. Memory numbers mean something to recall_from only.';

-- A list of numbers out of a result: at most `most`, each from `lowest` to `highest` and of a size that float8 has room for.
create or replace function remem._given_numbers(place jsonb, value jsonb, lowest numeric, highest numeric, most int) returns numeric[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if jsonb_typeof(value) is distinct from 'array' then
    perform remem._raise('RM001', place || jsonb_build_object('got', coalesce(jsonb_typeof(value), 'nothing')), 'A list of numbers');
  end if;
  if jsonb_array_length(value) > most then
    perform remem._raise('RM001', place || jsonb_build_object('got', jsonb_array_length(value), 'limit', most),
      'recall_arm and recall_from take the same k');
  end if;
  if exists (select from jsonb_array_elements(value) e where jsonb_typeof(e) <> 'number') or exists (
      select from jsonb_array_elements_text(value) e cross join lateral (select e::numeric as number) n
      where not n.number between lowest and highest or n.number <> 0 and abs(n.number) < 1e-100) then
    perform remem._raise('RM001', place, format('Numbers from %s to %s, as recall_arm returned them', lowest, highest));
  end if;
  return array(select e::numeric from jsonb_array_elements_text(value) with ordinality x (e, n) order by x.n);
end
$$;
comment on function remem._given_numbers(jsonb, jsonb, numeric, numeric, int) is 'Numbers of a given arm result; refuses what is none.';

-- One result as recall_arm made it. What an arm found that did not complete is not looked at: late results never count.
create or replace function remem._given_arm(given jsonb, item int, n int) returns remem._arm_result
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_place jsonb := jsonb_build_object('argument', 'arms', 'item', item);
  v_result remem._arm_result;
begin
  if jsonb_typeof(given) <> 'object' or coalesce(given ->> 'arm', '') <> all ('{vector,lexical,pointer,phrase,attribute}')
     or coalesce(given ->> 'state', '') <> all ('{completed,failed,pending}')
     or coalesce(jsonb_typeof(given -> 'elapsed_ms'), 'null') not in ('number', 'null')
     or coalesce(jsonb_typeof(given -> 'error'), 'null') not in ('string', 'null') then
    perform remem._raise('RM001', v_place, 'A result as recall_arm returned it, or null');
  end if;
  v_result := (given ->> 'arm', given ->> 'state', '{}'::bigint[], '{}'::float8[], '{}'::float8[], 0, left(given ->> 'error', 1000))::remem._arm_result;
  if jsonb_typeof(given -> 'elapsed_ms') = 'number' then
    v_result.elapsed_ms := round(greatest(least((given ->> 'elapsed_ms')::numeric, 1e9), 0), 3);
  end if;
  if v_result.state <> 'completed' then
    return v_result;
  end if;
  v_result.memory_nos := remem._given_numbers(v_place || '{"field": "memory_nos"}', given -> 'memory_nos', 1, 9223372036854775807, n);
  if cardinality(array(select distinct m from unnest(v_result.memory_nos) m)) < cardinality(v_result.memory_nos)
     or exists (select from jsonb_array_elements_text(given -> 'memory_nos') e where e::numeric <> trunc(e::numeric)) then
    perform remem._raise('RM001', v_place || '{"field": "memory_nos"}', 'Whole numbers, each once');
  end if;
  v_result.scores := remem._given_numbers(v_place || '{"field": "scores"}', given -> 'scores',
    case v_result.arm when 'vector' then -1 else 0 end, case v_result.arm when 'vector' then 1 else 1e6 end, n);
  if v_result.arm = 'lexical' then
    v_result.matched := remem._given_numbers(v_place || '{"field": "matched"}', given -> 'matched', 0, 1e6, n);
  end if;
  if cardinality(v_result.scores) <> cardinality(v_result.memory_nos)
     or v_result.arm = 'lexical' and cardinality(v_result.matched) <> cardinality(v_result.memory_nos) then
    perform remem._raise('RM001', v_place, 'memory_nos, scores and (of lexical) matched run in parallel');
  end if;
  return v_result;
end
$$;
comment on function remem._given_arm(jsonb, int, int) is 'One arm result out of a caller''s hands; refuses what recall_arm cannot have returned.';

create or replace function remem._given_arms(arms jsonb, n int) returns remem._arm_result[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_results remem._arm_result[];
begin
  if jsonb_typeof(arms) is distinct from 'array' or jsonb_array_length(arms) > 20 then
    perform remem._raise('RM001', '{"argument": "arms", "limit": 20}', 'A list of what recall_arm returned');
  end if;
  v_results := array(select remem._given_arm(x.given, x.item::int, n)
    from jsonb_array_elements(arms) with ordinality x (given, item) where jsonb_typeof(x.given) <> 'null' order by x.item);
  if cardinality(array(select distinct r.arm from unnest(v_results) r)) < cardinality(v_results) then
    perform remem._raise('RM001', '{"argument": "arms"}', 'Each arm once');
  end if;
  return v_results;
end
$$;
comment on function remem._given_arms(jsonb, int) is 'Arm results out of a caller''s hands, checked.';

-- The results of the planned arms, in the order of the plan: an arm that was not given is pending, another is not wanted.
create or replace function remem._planned_arms(arms text[], given remem._arm_result[]) returns remem._arm_result[]
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(array_agg(case when g.arm is null
    then (a.arm, 'pending', '{}'::bigint[], '{}'::float8[], '{}'::float8[], 0, null)::remem._arm_result
    else (g.arm, g.state, g.memory_nos, g.scores, g.matched, g.elapsed_ms, g.error)::remem._arm_result end order by a.n), '{}')
  from unnest(arms) with ordinality a (arm, n) left join unnest(given) g on g.arm = a.arm
$$;
comment on function remem._planned_arms(text[], remem._arm_result[]) is 'Given results for the arms of a plan.';

create or replace function remem.recall_from(
  workspace text, query text, arms jsonb, query_embedding real[] default null, k int default 8, options jsonb default '{}'
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
  perform remem._check_query(query, k);
  v_result := remem._recall(workspace, query, query_embedding, k, options, remem._given_arms(arms, remem._arm_rows(k)));
  perform remem._warn_degraded(v_result.degraded);
  return query select h.* from unnest(v_result.hits) h;
end
$$;
comment on function remem.recall_from(text, text, jsonb, real[], int, jsonb) is
  'The recall with the same arguments out of what recall_arm returned for its arms (a list, each arm once, nulls allowed): the same hits as recall on a database that does not change. An arm that the query submits and the list lacks counts as pending. Every row is looked up anew, so nothing comes back that is not live, of this workspace and within the filter, whatever the list says.';

create or replace function remem.recall_from_explain(
  workspace text, query text, arms jsonb, query_embedding real[] default null, k int default 8, options jsonb default '{}'
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
  perform remem._check_query(query, k);
  if jsonb_typeof(options) = 'object' then
    options := options || '{"explain": true}';
  end if;
  v_result := remem._recall(workspace, query, query_embedding, k, coalesce(options, '{"explain": true}'), remem._given_arms(arms, remem._arm_rows(k)));
  return v_result.trace || jsonb_build_object('hits', coalesce(to_jsonb(v_result.hits), '[]'));
end
$$;
comment on function remem.recall_from_explain(text, text, jsonb, real[], int, jsonb) is
  'recall_from as JSON with what every stage did, like recall_explain; the times of the arms are those of their own connections.';
