-- Errors: SQLSTATE class RM, constant message, JSON detail, hint = the next step. Raised in one place.

create or replace function remem._error_catalog() returns table (code text, message text)
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  values
    ('RM001', 'invalid argument'),
    ('RM002', 'unknown option'),
    ('RM003', 'text refused'),
    ('RM101', 'not found'),
    ('RM102', 'conflict'),
    ('RM201', 'vector dimension mismatch'),
    ('RM202', 'unknown or inactive embedding space'),
    ('RM203', 'vector refused'),
    ('RM301', 'no access to this workspace'),
    ('RM302', 'tenant not set'),
    ('RM401', 'claim lost'),
    ('RM501', 'embedding unavailable'),
    ('RM901', 'database is newer than this client'),
    ('RM902', 'pgvector is missing or too old')
$$;
comment on function remem._error_catalog() is 'Every error code with its constant message.';

-- Called by everything that refuses. Never returns. A worker's error comes whole to whoever asked.
create or replace function remem._raise(code text, detail jsonb default '{}', hint text default null) returns void
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_message text := (select c.message from remem._error_catalog() c where c.code = _raise.code);
begin
  raise exception using
    errcode = code, message = v_message, detail = jsonb_strip_nulls(detail)::text, hint = coalesce(hint, '');
end
$$;
comment on function remem._raise(text, jsonb, text) is 'Raises one error of the catalog.';

-- A caught error as a value, for per-item reports.
create or replace function remem._error_value(code text, message text, detail text, hint text) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'code', code, 'message', message, 'hint', nullif(hint, ''),
    'detail', case when detail like '{%' then detail::jsonb end))
$$;
comment on function remem._error_value(text, text, text, text) is 'A caught error as JSON.';
