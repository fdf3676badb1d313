-- Runs before everything else: what this installation stands on, refused with the next step.
do $$
begin
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception using errcode = 'RM001', message = 'invalid argument',
      detail = json_build_object('argument', 'server_encoding', 'value', current_setting('server_encoding'))::text,
      hint = 'remem needs a database with encoding UTF8 (any locale will do)';
  end if;
  if current_setting('server_version_num')::int < 150000 then
    raise exception using errcode = 'RM001', message = 'invalid argument',
      detail = json_build_object('argument', 'server_version', 'value', current_setting('server_version'))::text,
      hint = 'remem needs Postgres 15 or newer';
  end if;
  if not exists (select from pg_namespace where nspname = 'remem') then
    create schema remem;
    comment on schema remem is 'Long-term memory for software agents. Functions are the only door.';
  elsif not (select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'remem') then
    raise exception using errcode = 'RM301', message = 'no access to this workspace',
      detail = json_build_object('schema', 'remem', 'role', current_user)::text,
      hint = 'Only the owner of the schema remem may upgrade it';
  end if;
end
$$;
