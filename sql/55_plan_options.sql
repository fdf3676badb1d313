-- What a caller may ask of a plan, and the thresholds and limits that a workspace or a space sets for itself.

-- Every option of plan with its default and, for numbers, its range. "setting": may be stored by put_plan_setting. The
-- semantic minimum belongs to the space (see _semantic_minimum).
create or replace function remem._plan_options() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "minimum_confidence": {"default": 0.42, "range": [0, 1]},
    "max_topics": {"default": 3, "range": [1, 50]},
    "limit": {"default": 8, "range": [1, 100]},
    "query_chars": {"default": 2000, "range": [100, 20000]},
    "catalog_bytes": {"default": 600, "range": [0, 1000000]},
    "catalog_limit": {"default": 2000, "range": [10, 20000]},
    "semantic": {"default": true},
    "semantic_minimum_similarity": {"default": null, "range": [-1, 1]},
    "deterministic_high_confidence": {"default": 0.82, "range": [0, 1]},
    "multilingual": {"default": false},
    "memories": {"default": true},
    "memory_similarity": {"default": null, "range": [-1, 1]},
    "memory_explained_similarity": {"default": null, "range": [-1, 1]},
    "memory_clear_similarity": {"default": null, "range": [-1, 1]},
    "memory_support": {"default": null, "range": [-1, 1]},
    "memory_coverage": {"default": 0.5, "range": [0, 1]},
    "memory_word_coverage": {"default": 0.75, "range": [0, 1]},
    "memory_belongs": {"default": null, "range": [-1, 1]},
    "supported_similarity": {"default": null, "range": [-1, 1]},
    "joined_similarity": {"default": null, "range": [-1, 1]},
    "continuity": {"default": true},
    "continuity_confidence": {"default": 0.62, "range": [0, 1]},
    "continuity_boost": {"default": 0.10, "range": [0, 1]},
    "unresolved_boost": {"default": 0.16, "range": [0, 1]},
    "title_phrase": {"default": 0.96, "range": [0, 1]},
    "alias_phrase": {"default": 0.91, "range": [0, 1]},
    "title_overlap": {"default": 0.76, "range": [0, 1]},
    "alias_overlap": {"default": 0.70, "range": [0, 1]},
    "tag_overlap": {"default": 0.52, "range": [0, 1]},
    "summary_base": {"default": 0.20, "range": [0, 1]},
    "summary_token": {"default": 0.10, "range": [0, 1]},
    "summary_most": {"default": 0.38, "range": [0, 1]}
  }'::jsonb
$$;
comment on function remem._plan_options() is 'The thresholds and limits of plan: default and range of each.';

create or replace function remem._plan_defaults() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "minimum_confidence": 0.42, "max_topics": 3, "limit": 8, "query_chars": 2000, "catalog_bytes": 600, "catalog_limit": 2000,
    "semantic": true, "deterministic_high_confidence": 0.82, "multilingual": false, "memories": true,
    "memory_coverage": 0.5, "memory_word_coverage": 0.75, "continuity": true, "continuity_confidence": 0.62,
    "continuity_boost": 0.10, "unresolved_boost": 0.16, "title_phrase": 0.96, "alias_phrase": 0.91, "title_overlap": 0.76,
    "alias_overlap": 0.70, "tag_overlap": 0.52, "summary_base": 0.20, "summary_token": 0.10, "summary_most": 0.38
  }'::jsonb
$$;
comment on function remem._plan_defaults() is 'The defaults of plan as one document; what _plan_options says, ready to use.';

-- One threshold or limit of the right type and range, or RM001.
create or replace function remem._check_plan_option(name text, value jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_range jsonb := remem._plan_options() -> name -> 'range';
  v_whole constant text[] := '{max_topics,limit,query_chars,catalog_bytes,catalog_limit}';
begin
  if v_range is null then
    if jsonb_typeof(value) <> 'boolean' then
      perform remem._raise('RM001', jsonb_build_object('argument', name, 'value', value), format('%s is true or false', name));
    end if;
    return;
  end if;
  perform remem._check_number(name, value, (v_range ->> 0)::numeric, (v_range ->> 1)::numeric);
  if name = any (v_whole) and (value #>> '{}')::numeric % 1 <> 0 then
    perform remem._raise('RM001', jsonb_build_object('argument', name, 'value', value), 'A whole number');
  end if;
end
$$;
comment on function remem._check_plan_option(text, jsonb) is 'Refuses a threshold or limit of the wrong type or range.';

-- The options of one call, without those that are null.
create or replace function remem._check_plan_options(options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_option record;
  v_known constant text[] := '{context,providers,space}';
begin
  if options is null or options = '{}' then
    return '{}';
  end if;
  if jsonb_typeof(options) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'options', 'got', jsonb_typeof(options)), 'Options are a JSON object');
  end if;
  for v_option in select o.key, o.value from jsonb_each(options) o order by o.key loop
    if v_option.key <> all (v_known) and not remem._plan_options() ? v_option.key then
      perform remem._raise('RM002', jsonb_build_object('option', v_option.key, 'valid', (
          select jsonb_agg(k order by k) from (select unnest(v_known) union select jsonb_object_keys(remem._plan_options())) x (k))),
        'Valid options: ' || (select string_agg(k, ', ' order by k)
          from (select unnest(v_known) union select jsonb_object_keys(remem._plan_options())) x (k)));
    elsif v_option.value = 'null' then
      options := options - v_option.key;
    elsif v_option.key = 'space' then
      if jsonb_typeof(v_option.value) <> 'string' then
        perform remem._raise('RM001', jsonb_build_object('argument', 'space', 'got', jsonb_typeof(v_option.value)), 'space is a text');
      end if;
    elsif v_option.key = 'providers' then
      perform remem._check_names('providers', v_option.value);
    elsif v_option.key = 'context' then
      perform remem._check_context(v_option.value);
    else
      perform remem._check_plan_option(v_option.key, v_option.value);
    end if;
  end loop;
  return options;
end
$$;
comment on function remem._check_plan_options(jsonb) is 'The options of a plan; typed errors for unknown keys and wrong values.';

-- A JSON list of at most 100 texts, or RM001.
create or replace function remem._check_names(argument text, value jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if jsonb_typeof(value) <> 'array' or jsonb_array_length(value) > 100
     or exists (select from jsonb_array_elements(remem._list_of(value)) e where jsonb_typeof(e) <> 'string') then
    perform remem._raise('RM001', jsonb_build_object('argument', argument, 'got', jsonb_typeof(value), 'limit', 100),
      'A list of at most 100 texts');
  end if;
end
$$;
comment on function remem._check_names(text, jsonb) is 'Refuses what is no list of texts.';

-- The active context: whose topics besides the global ones are seen.
create or replace function remem._check_context(context jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_entry record;
begin
  if jsonb_typeof(context) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'context', 'got', jsonb_typeof(context)),
      'For example {"project": "phoenix", "session": "s1", "user": "ann"}');
  end if;
  for v_entry in select c.key, c.value from jsonb_each(context) c order by c.key loop
    if v_entry.key not in ('project', 'session', 'user') then
      perform remem._raise('RM002', jsonb_build_object('option', 'context.' || v_entry.key, 'valid', '["project", "session", "user"]'::jsonb),
        'Choose out of project, session, user');
    elsif jsonb_typeof(v_entry.value) not in ('string', 'null') then
      perform remem._check_names('context.' || v_entry.key, v_entry.value);
    end if;
  end loop;
end
$$;
comment on function remem._check_context(jsonb) is 'Refuses a context that names no scopes.';

-- '' and the owners that a context names.
create or replace function remem._context_owners(context jsonb) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select array[''] || array(
    select c.key || ':' || r.ref
    from jsonb_each(context) c
    cross join lateral jsonb_array_elements_text(case jsonb_typeof(c.value) when 'array' then c.value else jsonb_build_array(c.value) end) r (ref)
    where r.ref is not null)
$$;
comment on function remem._context_owners(jsonb) is 'The owners whose topics a context may see.';

-- The similarity at which a topic or provider qualifies, of a space that has no setting of its own: 0.55 in the built-in
-- one, in others three tenths of the way between the cosines where the model starts and ends to mean something. That is
-- 0.35 for MiniLM, found with the pairs of `python -m evals behaviour` (docs/planner.md).
create or replace function remem._semantic_minimum(space remem.embedding_space) returns float8
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when space.space_no = 1 then 0.55
    else round((space.cosine_floor + (space.cosine_full - space.cosine_floor) * 0.3)::numeric, 3)::float8 end
$$;
comment on function remem._semantic_minimum(remem.embedding_space) is 'The default semantic minimum of a space.';

create or replace function remem.put_plan_setting(workspace text, name text, value jsonb, space text default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int := 0;
begin
  perform remem._authorize_admin_of(workspace);
  if name is null or not remem._plan_options() ? name then
    perform remem._raise('RM002', jsonb_build_object('option', name,
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(remem._plan_options()) k)), 'Choose one of the settings');
  end if;
  if space is not null then
    v_space_no := (remem._find_space(space)).space_no;
  end if;
  if value is null or value = 'null' then
    delete from remem.plan_setting s
    where s.workspace = coalesce(put_plan_setting.workspace, '') and s.space_no = v_space_no and s.name = put_plan_setting.name;
    return;
  end if;
  perform remem._check_plan_option(name, value);
  insert into remem.plan_setting as s (workspace, space_no, name, value)
  values (coalesce(put_plan_setting.workspace, ''), v_space_no, put_plan_setting.name, put_plan_setting.value)
  on conflict on constraint plan_setting_pkey do update set value = excluded.value;
end
$$;
comment on function remem.put_plan_setting(text, text, jsonb, text) is
  'Sets a threshold or limit of plan: for one workspace or, with null, for all, and for one embedding space (by name) or all. The options of a call come before the workspace''s setting, that before the space''s, that before the default; null takes a setting back. Names are the numeric and boolean options of plan, such as minimum_confidence, semantic_minimum_similarity, catalog_bytes.';
