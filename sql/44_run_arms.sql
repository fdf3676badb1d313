-- The run of all arms under one completion policy: every submitted arm completes, the vector arm is mandatory, a
-- deadline is a ceiling and not the normal end, late results are never merged, a failing arm leaves the others.

-- Milliseconds since `started`, for the trace.
create or replace function remem._ms(started timestamptz) returns numeric
language sql stable parallel safe
return round((extract(epoch from clock_timestamp() - started) * 1000)::numeric, 3);
comment on function remem._ms(timestamptz) is 'Milliseconds since a moment.';

-- Runs the submitted arms in order and gathers their finds; see 44 for the policy. Arrays of finds run in parallel.
create or replace function remem._run_arms(query remem._query, arms text[], n int, budget int, deadline timestamptz, pool bigint[],
  out results remem._arm_result[], out lexical_nos bigint[], out lexical_scores float8[], out lexical_matched float8[],
  out own boolean[], out units bigint[], out unit_scores float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_arm text;
  v_started timestamptz;
  v_found record;
  v_also bigint[] := coalesce(pool, '{}');
  v_result remem._arm_result;
begin
  results := '{}';
  foreach v_arm in array array(select a from unnest(arms) with ordinality a (a, o) where a not in ('lexical', 'fusion') order by o) loop
    v_started := clock_timestamp();
    v_result := (v_arm, 'pending', '{}'::bigint[], '{}'::float8[], 0, null)::remem._arm_result;
    -- The vector arm is mandatory once submitted; the others are left out when the time is up.
    if v_arm = 'vector' or deadline is null or v_started < deadline then
      begin
        select a.* into v_found from remem._run_arm(v_arm, query, n) a;
        v_result := (v_arm, 'completed', v_found.memory_nos, v_found.scores, remem._ms(v_started), null)::remem._arm_result;
        v_also := v_also || v_found.memory_nos;
      exception when others then
        -- Whatever broke this arm (its table, its index, its input) must not lose the others. A cancelled
        -- statement is not caught by 'others' and ends the call.
        v_result := (v_arm, 'failed', '{}'::bigint[], '{}'::float8[], remem._ms(v_started), sqlerrm)::remem._arm_result;
      end;
    end if;
    results := results || v_result;
  end loop;
  v_also := array(select distinct a from unnest(v_also) a);
  v_started := clock_timestamp();
  v_result := ('lexical', case when 'lexical' = any (arms) then 'pending' else 'off' end, '{}'::bigint[], '{}'::float8[], 0, null)::remem._arm_result;
  if not ('lexical' = any (arms) and deadline is not null and v_started >= deadline) then
    begin
      -- Also without the lexical arm: it lines up the other arms' rows, then with no terms to score.
      select a.* into v_found from remem._arm_lexical(query.workspace,
        case when 'lexical' = any (arms) then query.lexemes else '{}' end, query.frequencies, query.idfs, n, budget, query.mean_len,
        v_also, query.allowed, query.row_filter, query.check_validity) a;
      lexical_nos := v_found.memory_nos; lexical_scores := v_found.scores; lexical_matched := v_found.matched; own := v_found.own;
      units := v_found.units; unit_scores := v_found.unit_scores;
      if 'lexical' = any (arms) then
        v_result := ('lexical', 'completed', array(select l from unnest(lexical_nos, own) f (l, o) where f.o),
          array(select f.s from unnest(lexical_scores, own) f (s, o) where f.o), remem._ms(v_started), null)::remem._arm_result;
      end if;
    exception when others then
      -- As above: a broken posting table leaves the vectors.
      v_result := ('lexical', 'failed', '{}'::bigint[], '{}'::float8[], remem._ms(v_started), sqlerrm)::remem._arm_result;
    end;
  end if;
  if v_result.state <> 'off' then
    results := results || v_result;
  end if;
  if v_result.state in ('pending', 'failed') or lexical_nos is null then
    lexical_nos := v_also;
    lexical_scores := array_fill(0::float8, array[cardinality(v_also)]);
    lexical_matched := lexical_scores;
    own := array_fill(false, array[cardinality(v_also)]);
  end if;
end
$$;
comment on function remem._run_arms(remem._query, text[], int, int, timestamptz, bigint[]) is 'Runs the submitted arms under the completion policy.';
