-- Trust and worth: two bounded factors that reorder relevant memories and rescue no irrelevant one.

-- How far a source is still trusted: its trust, halved each half-life since it was said; pinned and classes without
-- a half-life do not decay.
create or replace function remem._trust(trust real, half_life interval, pinned boolean, age interval) returns float8
language sql immutable parallel safe
return trust * case when pinned or half_life is null or age <= interval '0' then 1
  else power(0.5::float8, extract(epoch from age)::float8 / greatest(extract(epoch from half_life)::float8, 1)) end;
comment on function remem._trust(real, interval, boolean, interval) is 'Trust in a source after a time.';

-- What a memory is worth apart from the query, as a factor near 1: importance, scope, freshness, recency.
create or replace function remem._worth(importance real, pinned boolean, scope text, freshness text, age interval) returns float8
language sql immutable parallel safe
return 1 + 0.08 * (importance - 0.5) + case when pinned then 0.02 else 0 end
  + case scope when 'session' then 0.04 when 'project' then 0.03 when 'user' then 0.03 else 0 end
  + case freshness when 'stale' then -0.10 when 'unknown' then -0.05 else 0 end
  + case when age <= interval '30 days' then 0.04 when age <= interval '365 days' then 0.02 else 0 end;
comment on function remem._worth(real, boolean, text, text, interval) is 'Importance, scope, freshness and recency as one bounded factor.';

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
