-- The log of recalls, and the recall that goes through the cache and writes to it. Numbers and states only.

-- Whoever reads the log reckons in float8, where 1e400 is an error.
create or replace function remem._is_plain_number(value jsonb) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when jsonb_typeof(value) = 'number' then (value #>> '{}')::numeric between 0 and 1e9 else false end
$$;
comment on function remem._is_plain_number(jsonb) is 'Whether a value is a number that a log can hold: 0 to 1e9.';

-- What may be said about arms: state, count and time, no term and no text. Unknown shapes are left out.
create or replace function remem._arm_states(arms jsonb) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(jsonb_object_agg(a.key, jsonb_strip_nulls(jsonb_build_object(
    'state', case when a.value ->> 'state' ~ '^[a-z_]{1,30}$' then a.value -> 'state' end,
    'found', case when remem._is_plain_number(a.value -> 'found') then a.value -> 'found' end,
    'elapsed_ms', case when remem._is_plain_number(a.value -> 'elapsed_ms') then a.value -> 'elapsed_ms' end))), '{}')
  from jsonb_each(case when jsonb_typeof(arms) = 'object' then arms else '{}' end) a
  where a.key ~ '^[a-z_]{1,30}$' and jsonb_typeof(a.value) = 'object'
$$;
comment on function remem._arm_states(jsonb) is 'States, counts and times of arms, without their texts.';

create or replace function remem._stage_times(timings jsonb) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(jsonb_object_agg(t.key, t.value), '{}')
  from jsonb_each(case when jsonb_typeof(timings) = 'object' then timings else '{}' end) t
  where t.key ~ '^[a-z_]{1,40}$' and remem._is_plain_number(t.value)
$$;
comment on function remem._stage_times(jsonb) is 'Milliseconds by stage, and nothing else.';

-- One row, or null where nothing can be written.
create or replace function remem._log_recall(
  workspace text, tier text, k int, returned int, query text, degraded text[], arms jsonb, timings jsonb,
  memory_ids uuid[], session_ref text, log_text boolean
) returns uuid
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_recall_id uuid := gen_random_uuid();
begin
  if current_setting('transaction_read_only') = 'on' then
    return null;
  end if;
  insert into remem.recall_log (workspace, at, recall_id, tier, caller, session_ref, k, returned, query_hash, query_text, degraded,
    arms, timings, memory_ids)
  values (workspace, clock_timestamp(), v_recall_id, tier, remem._caller(), session_ref, k, returned,
    sha256(convert_to(coalesce(query, ''), 'UTF8')), case when log_text then query end,
    array(select d from unnest(degraded) d where d ~ '^[a-z_]{1,40}(:[a-z_]{1,30})?$'),
    remem._arm_states(arms), remem._stage_times(timings), coalesce(memory_ids, '{}'));
  return v_recall_id;
end
$$;
comment on function remem._log_recall(text, text, int, int, text, text[], jsonb, jsonb, uuid[], text, boolean) is 'Appends one row to the log.';

create or replace function remem.log_recall(
  workspace text, tier text, k int, returned int, query text default null, degraded text[] default '{}', arms jsonb default '{}',
  timings jsonb default '{}', memory_ids uuid[] default '{}', session_ref text default null, log_text boolean default false
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  if tier is null or tier !~ '^[a-z_]{1,20}$' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'tier', 'value', left(tier, 100),
      'valid', '["hot", "warm", "cold"]'::jsonb), 'A short lower-case word');
  end if;
  if k is null or k not between 1 and 1000 or returned is null or returned not between 0 and 100000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'k, returned', 'value', jsonb_build_array(k, returned)),
      'k lies between 1 and 1000, returned is how many hits came back');
  end if;
  if cardinality(memory_ids) > 1000 or cardinality(degraded) > 100 or pg_column_size(arms) > 16384
     or pg_column_size(timings) > 16384 or octet_length(session_ref) > 1000 or octet_length(query) > 1048576 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'memory_ids, degraded, arms, timings, session_ref, query',
      'limit', 'at most 1000 ids, 100 codes, 16 kB of arms and of timings, 1000 bytes of session_ref, 1 MB of query'),
      'One row describes one recall');
  end if;
  return remem._log_recall(workspace, tier, k, returned, query, degraded, arms, timings, memory_ids, session_ref, log_text);
end
$$;
comment on function remem.log_recall(text, text, int, int, text, text[], jsonb, jsonb, uuid[], text, boolean) is
  'Appends one recall to the log, for clients that rank or cache by themselves: tier, counts, degraded codes, arm states, milliseconds by stage, ids. The query is kept as a hash; its text only with log_text. Returns the row''s id; null, and nothing is written, in a read-only transaction or on a standby.';

-- The options that recall_cached has beside those of recall.
create or replace function remem._cached_options(options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_options jsonb := '{"cache": "auto", "log": true, "log_text": false, "token": null}';
  v_key text;
begin
  if jsonb_typeof(options) = 'object' then
    select v_options || coalesce(jsonb_object_agg(o.key, o.value), '{}') into v_options
    from jsonb_each(options) o where v_options ? o.key;
  end if;
  perform remem._check_member('cache', v_options ->> 'cache', '{auto,exact,off}', null);
  for v_key in select k from unnest('{log,log_text}'::text[]) k where jsonb_typeof(v_options -> k) <> 'boolean' loop
    perform remem._raise('RM001', jsonb_build_object('argument', v_key, 'value', v_options -> v_key), 'true or false');
  end loop;
  if jsonb_typeof(v_options -> 'token') not in ('string', 'null') then
    perform remem._raise('RM001', '{"argument": "token"}', 'The token of an earlier answer');
  end if;
  return v_options;
end
$$;
comment on function remem._cached_options(jsonb) is 'The options of the cache and the log, with defaults.';

create or replace function remem.recall_cached(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_own jsonb;
  v_options jsonb;
  v_semantic boolean;
  v_reason text;
  v_found record;
  v_cold record;
  v_answer jsonb;
  v_tier text;
  v_token text;
  v_cache jsonb := '{}';
  v_log jsonb := '{}';
  v_failures text[] := '{}';
  v_times jsonb := '{}';
begin
  perform remem._authorize(workspace, 'read');
  v_own := remem._cached_options(options);
  v_options := case when jsonb_typeof(options) = 'object' then options - '{cache,log,log_text,token}'::text[] else options end;
  v_semantic := v_own ->> 'cache' = 'auto';
  -- Where the cache has to stand aside. In a transaction that has written, an answer may hold what is rolled
  -- back later; above READ COMMITTED, entries may be newer than what the transaction sees.
  v_reason := case
    when current_setting('transaction_read_only') = 'on' then 'read_only'
    when v_own ->> 'cache' = 'off' then 'off'
    when pg_current_xact_id_if_assigned() is not null then 'transaction_has_written'
    when current_setting('transaction_isolation') <> 'read committed' then 'isolation'
    when v_options ->> 'as_of' is not null then 'as_of' end;
  if v_reason is null then
    begin
      select f.* into v_found
      from remem._cache_find(workspace, query, query_embedding, k, v_options, v_semantic, v_own ->> 'token') f;
      v_answer := v_found.answer; v_tier := v_found.tier; v_token := v_found.token_now;
    exception when others then  -- a broken cache makes recall slower, never impossible; bad arguments are refused below
      v_reason := 'failed';
      v_failures := array_append(v_failures, 'cache_failed');
      v_answer := null;
    end;
    v_times := jsonb_build_object('cache', round(extract(epoch from clock_timestamp() - v_started)::numeric * 1000, 3));
  end if;

  if v_answer is not null then
    v_cache := jsonb_strip_nulls(jsonb_build_object('state', 'used', 'age_ms', round(v_found.age_ms), 'similarity',
      round(v_found.similarity::numeric, 4)));
  else
    v_tier := 'cold';
    select c.* into v_cold
    from remem._cache_cold(workspace, query, query_embedding, k, v_options, v_semantic, v_reason is null) c;
    v_answer := v_cold.document;
    v_times := remem._stage_times(v_answer -> 'timings') || v_times;
    if v_reason is null and not remem._is_repeatable(v_answer) then
      v_reason := 'not_repeatable';
    end if;
    if v_reason is null then
      begin
        perform remem._cache_store(workspace, v_cold.key, v_cold.scope_key, v_cold.vector, v_answer, v_cold.snapshot, v_cold.expires_at);
        v_token := remem._cache_token(v_cold.key, jsonb_array_length(v_answer -> 'hits'), now(), v_cold.expires_at, v_cold.snapshot);
      exception when others then  -- the answer is there, only nobody else will have it
        v_reason := 'failed';
        v_failures := array_append(v_failures, 'cache_failed');
      end;
    end if;
    v_cache := jsonb_strip_nulls(jsonb_build_object('state', case when v_reason is null then 'stored' else 'skipped' end,
      'reason', v_reason));
  end if;

  v_times := v_times || jsonb_build_object('total', round(extract(epoch from clock_timestamp() - v_started)::numeric * 1000, 3));
  if (v_own -> 'log')::boolean then
    begin
      v_log := '{"log": {"state": "written"}}';
      if remem._log_recall(workspace, v_tier, k, coalesce((v_answer ->> 'returned')::int, jsonb_array_length(v_answer -> 'hits'), 0), query,
        array(select jsonb_array_elements_text(coalesce(v_answer -> 'degraded', '[]'))) || v_failures, v_answer -> 'arms', v_times,
        array(select (h ->> 'memory_id')::uuid from jsonb_array_elements(coalesce(v_answer -> 'hits', '[]')) h),
        v_options ->> 'session_ref', (v_own -> 'log_text')::boolean) is null then
        v_log := '{"log": {"state": "skipped", "reason": "read_only"}}';
      end if;
    exception when others then  -- a log that cannot be written costs no answer
      v_log := '{"log": {"state": "failed"}}';
      v_failures := array_append(v_failures, 'log_failed');
    end;
  end if;
  return v_answer || v_log || jsonb_build_object('tier', v_tier, 'cache', v_cache, 'timings', v_times, 'token', v_token,
    'degraded', coalesce(v_answer -> 'degraded', '[]') || to_jsonb(v_failures));
end
$$;
comment on function remem.recall_cached(text, text, real[], int, jsonb) is
  'The same recall through its tiers, as JSON like recall_explain''s with "tier": hot (this question was asked before), warm (one with a vector of cosine 0.95 or more, the same numbers, identifiers and phrases, and the same options) or cold. An answer is served again for at most five minutes and only while nothing in the workspace changed. Writes the cache and one row of the log, nothing in a read-only transaction and on a standby ("cache" and "log" say what became of either); in a transaction that has written, every answer is cold. More options: cache (auto, exact: no warm tier, off), log (true), log_text (false), token (of an earlier answer to this question: if that still holds, the reply is {"unchanged": true} without hits).';
