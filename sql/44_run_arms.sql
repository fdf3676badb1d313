-- The run of all arms under one completion policy: every submitted arm completes, the vector arm is mandatory, a
-- deadline is a ceiling and not the normal end, late results are never merged, a failing arm leaves the others.

-- Milliseconds from one moment to another, for the trace.
create or replace function remem._ms(started timestamptz, ended timestamptz default clock_timestamp()) returns float8
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin  -- a function in SQL would be planned anew at every call: it cannot be inlined
  return round(date_part('epoch', ended - started) * 1e6) / 1e3;
end
$$;
comment on function remem._ms(timestamptz, timestamptz) is 'Milliseconds between two moments.';

-- One arm under the policy. Whatever breaks it (its table, its index, its input) must not lose the others. A cancelled
-- statement is not caught by 'others' and ends the call.
create or replace function remem._submit_arm(arm text, query remem._query, n int, budget int, deadline timestamptz)
returns remem._arm_result
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_found record;
begin
  -- The vector arm is mandatory once submitted; the others are left out when the time is up.
  if arm <> 'vector' and v_started >= deadline then
    return (arm, 'pending', '{}'::bigint[], '{}'::float8[], '{}'::float8[], 0, null)::remem._arm_result;
  end if;
  v_found := case when query.shards is null then remem._run_arm(arm, query, n, budget) else remem._run_shards(arm, query, n, budget) end;
  return (arm, 'completed', v_found.memory_nos, v_found.scores, v_found.matched, remem._ms(v_started), null)::remem._arm_result;
exception
  when feature_not_supported then  -- so a filter fails that compares times with and without a zone
    if query.row_filter is not null then
      perform remem._refuse_filter(sqlerrm);
    end if;
    return (arm, 'failed', '{}'::bigint[], '{}'::float8[], '{}'::float8[], remem._ms(v_started), sqlerrm)::remem._arm_result;
  when sqlstate 'RM001' then  -- the same, found where the filter was resolved
    raise;
  when others then  -- see above
    return (arm, 'failed', '{}'::bigint[], '{}'::float8[], '{}'::float8[], remem._ms(v_started), sqlerrm)::remem._arm_result;
end
$$;
comment on function remem._submit_arm(text, remem._query, int, int, timestamptz) is 'Runs one arm under the completion policy.';

-- The submitted arms in order. fusion is a source of its own, made of what vector and lexical find.
create or replace function remem._run_arms(query remem._query, arms text[], n int, budget int, deadline timestamptz) returns remem._arm_result[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_arm text;
  v_results remem._arm_result[] := '{}';
begin
  foreach v_arm in array arms loop
    v_results := v_results || remem._submit_arm(v_arm, query, n, budget, deadline);
  end loop;
  return v_results;
end
$$;
comment on function remem._run_arms(remem._query, text[], int, int, timestamptz) is 'Runs the submitted arms one after the other.';
