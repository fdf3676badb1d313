-- Trust and worth: two bounded factors that reorder relevant memories and rescue no irrelevant one.

-- How far a source is still trusted: its trust, halved each half-life since it was said; without a half-life (and for
-- pinned classes) it does not decay. In days. After a hundred half-lives it is gone: smaller powers are no float8, and
-- one memory with a date of long ago (or -infinity) would end every recall of its workspace.
create or replace function remem._trust(trust real, half_life float8, age float8) returns float8
language sql immutable parallel safe
return case when half_life is null or age <= 0 then trust else trust * power(0.5::float8, least(age / half_life, 100)) end;
comment on function remem._trust(real, float8, float8) is 'Trust in a source after a number of days.';

-- What a memory is worth apart from the query, as a factor near 1: importance, confidence, scope, freshness, recency in days.
create or replace function remem._worth(importance real, confidence real, pinned boolean, scope text, freshness text, age float8) returns float8
language sql immutable parallel safe
return 1 + 0.08::float8 * (importance - 0.5::float8) + 0.04::float8 * (coalesce(confidence, 0.5::float8) - 0.5::float8)
  + case when pinned then 0.02::float8 else 0 end
  + case scope when 'session' then 0.04::float8 when 'project' then 0.03::float8 when 'user' then 0.03::float8 else 0 end
  + case freshness when 'stale' then -0.10::float8 when 'unknown' then -0.05::float8 else 0 end
  + case when age <= 30 then 0.04::float8 when age <= 365 then 0.02::float8 else 0 end;
comment on function remem._worth(real, real, boolean, text, text, float8) is 'Importance, confidence, scope, freshness and recency as one bounded factor.';

create or replace function remem.put_source_class(
  name text, trust real, half_life interval default null, pinned boolean default false, description text default ''
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin();
  if name is null or octet_length(name) not between 1 and 100 or name ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'name', 'limit', 100), 'A name of 1 to 100 bytes without control characters');
  end if;
  if trust is null or not trust between 0 and 1 or trust = 'NaN' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'trust'), 'trust lies between 0 and 1');
  end if;
  if half_life <= interval '0' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'half_life', 'value', half_life), 'A positive interval, or null for no decay');
  end if;
  insert into remem.source_class as s (name, trust, half_life, pinned, description)
  values (put_source_class.name, put_source_class.trust, put_source_class.half_life, coalesce(put_source_class.pinned, false),
    coalesce(put_source_class.description, ''))
  on conflict on constraint source_class_pkey do update
    set trust = excluded.trust, half_life = excluded.half_life, pinned = excluded.pinned, description = excluded.description;
end
$$;
comment on function remem.put_source_class(text, real, interval, boolean, text) is
  'Sets how far a source is trusted (0 to 1) and after which time that trust has halved (null: never; pinned: stays as it was when said).';
