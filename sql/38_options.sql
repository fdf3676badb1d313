-- What a caller may ask of recall: options, weights, filters; checked before anything is searched.

-- The options of recall with their defaults. An unknown key is refused with the list of known ones.
create or replace function remem._default_options() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "filter": null, "kinds": null, "scopes": null, "kind": null, "arms": null, "mode": "auto", "fusion": "weighted",
    "weights": {}, "min_relevance": 0, "graph": "auto", "deadline_ms": null, "rerank_pool": 50, "expanded": null,
    "expanded_embeddings": null, "session_ref": null, "explain": false, "space": null, "shard_by": null, "as_of": null
  }'::jsonb
$$;
comment on function remem._default_options() is 'Every option of recall with its default.';

-- Weights of the fused score, each relative to the query's best value of that signal (the vector share comes
-- from the space). Found on conversations by leave-one-out; python -m evals locomo shows what they give.
create or replace function remem._default_weights() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "vector": null, "neighbour": 0.3, "neighbour2": 0.1, "session": 0.6, "speaker": 0.6, "length": 0.4,
    "phrase": 1.0, "attribute": 0.5, "pointer": 0, "topic": 0.3, "time": 0.2, "trust": 0.15, "rank": 1.0
  }'::jsonb
$$;
comment on function remem._default_weights() is 'The weights of the fused score.';

create or replace function remem._check_options(options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_known jsonb := remem._default_options();
  v_options jsonb := v_known || coalesce(options, '{}');
  v_key text;
begin
  if options = '{}' then
    return v_known;
  end if;
  if options is not null and jsonb_typeof(options) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'options', 'got', jsonb_typeof(options)), 'Options are a JSON object');
  end if;
  for v_key in select k from jsonb_object_keys(v_options) k where not v_known ? k loop
    perform remem._raise('RM002', jsonb_build_object('option', v_key, 'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(v_known) k)),
      'Valid options: ' || (select string_agg(k, ', ' order by k) from jsonb_object_keys(v_known) k));
  end loop;
  perform remem._check_member('mode', v_options ->> 'mode', '{auto,lexical,vector,retrieval_only,simple}', null);
  perform remem._check_member('fusion', v_options ->> 'fusion', '{weighted,rrf,max}', null);
  perform remem._check_list('arms', v_options -> 'arms', '{vector,lexical,pointer,phrase,attribute,fusion}');
  if v_options ->> 'mode' in ('lexical', 'vector', 'simple') and jsonb_typeof(v_options -> 'arms') = 'array' and v_options -> 'arms' <> '[]'
     and not v_options -> 'arms' ? (case v_options ->> 'mode' when 'simple' then 'vector' else v_options ->> 'mode' end) then
    perform remem._raise('RM001', jsonb_build_object('argument', 'arms', 'value', v_options -> 'arms', 'mode', v_options -> 'mode'),
      'This mode needs its own arm: leave arms out');
  end if;
  perform remem._check_list('kinds', v_options -> 'kinds', '{semantic,episodic,decision,preference,procedure,task,other}');
  if jsonb_typeof(v_options -> 'scopes') = 'object' then
    perform remem._check_owners('scopes', v_options -> 'scopes');
  else
    perform remem._check_list('scopes', v_options -> 'scopes', '{global,project,session,user}');
  end if;
  if not remem._is_number(v_options -> 'min_relevance', 0, 1) then
    perform remem._raise('RM001', jsonb_build_object('argument', 'min_relevance', 'value', v_options -> 'min_relevance'), 'A number from 0 to 1');
  end if;
  for v_key in select k from unnest(array['filter', 'space', 'session_ref', 'kind']) k where jsonb_typeof(v_options -> k) not in ('string', 'null') loop
    perform remem._raise('RM001', jsonb_build_object('argument', v_key, 'got', jsonb_typeof(v_options -> v_key)), format('%s is a text', v_key));
  end loop;
  perform remem._check_member('graph', v_options ->> 'graph', '{auto,always,never}', null);
  if jsonb_typeof(v_options -> 'shard_by') <> 'null' then
    perform remem._check_member('shard_by', v_options ->> 'shard_by', '{kind}', null);
  end if;
  if v_options ->> 'kind' is not null then
    perform remem._check_member('kind', v_options ->> 'kind', '{semantic,episodic,decision,preference,procedure,task,other}', null);
  end if;
  perform remem._check_number('rerank_pool', v_options -> 'rerank_pool', 1, 200);
  if jsonb_typeof(v_options -> 'deadline_ms') <> 'null' then
    perform remem._check_number('deadline_ms', v_options -> 'deadline_ms', 0, 60000);
  end if;
  if jsonb_typeof(v_options -> 'explain') <> 'boolean' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'explain', 'value', v_options -> 'explain'), 'explain is true or false');
  end if;
  if jsonb_typeof(v_options -> 'as_of') <> 'null' then
    perform remem._check_as_of(v_options -> 'as_of');
  end if;
  perform remem._check_expansion(v_options);
  perform remem._check_weights(v_options -> 'weights');
  return v_options;
end
$$;
comment on function remem._check_options(jsonb) is 'Options with defaults; typed errors for unknown keys and wrong values.';

-- JSON has numbers that no float8 holds: too large ones, and such as are nearly nothing, which raise an underflow.
create or replace function remem._is_number(value jsonb, least_value numeric, most numeric) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_number numeric;
begin
  if jsonb_typeof(value) is distinct from 'number' then
    return false;
  end if;
  v_number := (value #>> '{}')::numeric;
  return v_number between least_value and most and (v_number = 0 or abs(v_number) >= 1e-100);
end
$$;
comment on function remem._is_number(jsonb, numeric, numeric) is 'Whether a JSON value is a number of a range that float8 has room for.';

create or replace function remem._check_number(argument text, value jsonb, least_value numeric, most numeric) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if not remem._is_number(value, least_value, most) then
    perform remem._raise('RM001', jsonb_build_object('argument', argument, 'value', value, 'limit', most),
      format('A number from %s to %s', least_value, most));
  end if;
end
$$;
comment on function remem._check_number(text, jsonb, numeric, numeric) is 'Refuses what is no number of a range.';

-- A JSON list, and an empty one for anything else. Postgres may work a subquery out before the condition that stands in
-- front of it (a parallel plan does), so what is no list must not raise there.
create or replace function remem._list_of(value jsonb) returns jsonb
language sql immutable parallel safe
return case when jsonb_typeof(value) = 'array' then value else '[]' end;
comment on function remem._list_of(jsonb) is 'A JSON list; an empty one for anything else.';

-- Texts of an expansion (a hypothetical answer, a rewrite) and, in parallel, their vectors; or "statement", our own rewrite.
create or replace function remem._check_expansion(options jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_texts jsonb := options -> 'expanded';
  v_vectors jsonb := options -> 'expanded_embeddings';
begin
  if jsonb_typeof(v_texts) <> 'null' and v_texts <> '"statement"' and (jsonb_typeof(v_texts) <> 'array' or jsonb_array_length(v_texts) > 8
      or exists (select from jsonb_array_elements(remem._list_of(v_texts)) e where jsonb_typeof(e) <> 'string')) then
    perform remem._raise('RM001', '{"argument": "expanded", "limit": 8}', 'A list of at most 8 texts, or "statement"');
  end if;
  if jsonb_typeof(v_vectors) <> 'null' and (jsonb_typeof(v_vectors) <> 'array' or jsonb_array_length(v_vectors) > 8
      or exists (select from jsonb_array_elements(remem._list_of(v_vectors)) v where jsonb_typeof(v) <> 'array'
        or exists (select from jsonb_array_elements(v) n where jsonb_typeof(n) <> 'number'))) then
    perform remem._raise('RM001', '{"argument": "expanded_embeddings", "limit": 8}', 'A list of at most 8 vectors');
  end if;
end
$$;
comment on function remem._check_expansion(jsonb) is 'Refuses expansions that are no texts or no vectors.';

-- A list of words out of a closed set; null and the empty list mean no restriction.
create or replace function remem._check_list(argument text, value jsonb, valid text[]) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if jsonb_typeof(value) = 'null' then
    return;
  end if;
  if jsonb_typeof(value) <> 'array'
     or exists (select from jsonb_array_elements(remem._list_of(value)) e where jsonb_typeof(e) <> 'string' or (e #>> '{}') <> all (valid)) then
    perform remem._raise('RM001', jsonb_build_object('argument', argument, 'value', value, 'valid', to_jsonb(valid)),
      'A list out of: ' || array_to_string(valid, ', '));
  end if;
end
$$;
comment on function remem._check_list(text, jsonb, text[]) is 'Refuses a list with members outside a closed set.';

create or replace function remem._check_weights(weights jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_key text;
begin
  if jsonb_typeof(weights) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights', 'got', jsonb_typeof(weights)), 'Weights are a JSON object');
  end if;
  for v_key in select k from jsonb_object_keys(weights) k where not remem._default_weights() ? k loop
    perform remem._raise('RM002', jsonb_build_object('option', 'weights.' || v_key,
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(remem._default_weights()) k)), 'Choose one of the weights');
  end loop;
  for v_key in select e.key from jsonb_each(weights) e
    where not remem._is_number(e.value, 0, 10) loop
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights.' || v_key, 'value', weights -> v_key), 'A number from 0 to 10');
  end loop;
  if (weights ->> 'vector')::float8 > 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights.vector', 'value', weights -> 'vector'),
      'A share from 0 (lexical only) to 1 (vector only)');
  end if;
end
$$;
comment on function remem._check_weights(jsonb) is 'Refuses unknown or unusable weights.';

-- The active context: of each scope one owner or a list of them. An owner that is null is none.
create or replace function remem._check_owners(argument text, owners jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_entry record;
begin
  for v_entry in select o.key, o.value from jsonb_each(owners) o order by o.key loop
    if v_entry.key not in ('project', 'session', 'user') then
      perform remem._raise('RM002', jsonb_build_object('option', argument || '.' || v_entry.key, 'valid', '["project", "session", "user"]'::jsonb),
        'Choose out of project, session, user');
    elsif jsonb_typeof(v_entry.value) not in ('string', 'null') and (jsonb_typeof(v_entry.value) <> 'array'
        or jsonb_array_length(v_entry.value) > 100 or exists (select from jsonb_array_elements(remem._list_of(v_entry.value)) e where jsonb_typeof(e) <> 'string')) then
      perform remem._raise('RM001', jsonb_build_object('argument', argument || '.' || v_entry.key, 'value', v_entry.value, 'limit', 100),
        'An owner, or a list of at most 100, such as {"project": "phoenix", "user": ["ann", "ben"]}');
    end if;
  end loop;
end
$$;
comment on function remem._check_owners(text, jsonb) is 'Refuses what names no owners of scopes.';

-- Whose rows a recall sees, as a predicate; null = all that there are. An object is the active context: what is global,
-- and what belongs to an owner that it names; without one, what is global. A list names scopes, whoever the owners are.
-- A workspace that never had anything but global rows (not `scoped`) needs no predicate to show just those.
create or replace function remem._scope_path(workspace text, scopes jsonb) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  scopes := remem._normalize_json(scopes);  -- as all that is stored
  if jsonb_typeof(scopes) = 'array' and scopes @> '["global", "project", "session", "user"]' then
    return null;
  elsif jsonb_typeof(scopes) = 'array' and jsonb_array_length(scopes) > 0 then
    return (select string_agg(format('$.scope == %s', e), ' || ') from jsonb_array_elements(scopes) e);
  elsif exists (select from remem.workspace w where w.workspace = _scope_path.workspace and w.scoped) then
    return concat_ws(' || ', '$.scope == "global"', (
      select string_agg(format('($.scope == %s && (%s))', to_jsonb(o.key), r.refs), ' || ' order by o.key)
      from jsonb_each(case when jsonb_typeof(scopes) = 'object' then scopes end) o
      cross join lateral (
        select string_agg(format('$.scope_ref == %s', e), ' || ') as refs
        from jsonb_array_elements(case jsonb_typeof(o.value) when 'array' then o.value else jsonb_build_array(o.value) end) e
        where e <> 'null') r
      where r.refs is not null));
  end if;
  return null;
end
$$;
comment on function remem._scope_path(text, jsonb) is 'The predicate of what a recall may see by its scopes.';

-- Everything that restricts rows in one jsonpath predicate, or null. The workspace is part of it, so that
-- the GIN index looks up this tenant's rows only. Without the key scopes (list, count) scopes restrict nothing.
create or replace function remem._row_filter(workspace text, options jsonb) returns jsonpath
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath := remem._filter(options ->> 'filter');
  v_scope text := case when options ? 'scopes' then remem._scope_path(workspace, options -> 'scopes') end;
  v_parts text[] := '{}';
begin
  if jsonb_typeof(options -> 'kinds') = 'array' and jsonb_array_length(options -> 'kinds') > 0 then
    v_parts := v_parts || format('(%s)', (select string_agg(format('$.kind == %s', e), ' || ') from jsonb_array_elements(options -> 'kinds') e));
  end if;
  if v_scope is not null then
    v_parts := v_parts || format('(%s)', v_scope);
  end if;
  if v_filter is not null then
    v_parts := v_parts || format('(%s)', v_filter);
  end if;
  if cardinality(v_parts) = 0 then
    return null;
  end if;
  return format('$.workspace == %s && %s', to_jsonb(workspace), array_to_string(v_parts, ' && '))::jsonpath;
end
$$;
comment on function remem._row_filter(text, jsonb) is 'The predicate that kinds, scopes and filter make together.';

