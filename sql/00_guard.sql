-- Runs before everything else: what this installation stands on, refused with the next step.
do $$
begin
  -- Nobody registers a space meanwhile: its functions are written here and there. Taken before any table is locked.
  perform pg_advisory_xact_lock(7284, 1);
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
  elsif exists (select from pg_namespace where nspname = 'remem' and pg_get_userbyid(nspowner) <> current_user) then
    -- Nor a member of the owner, nor a superuser as itself: what it created would be its own, and the public
    -- functions run with the rights of whom they belong to.
    raise exception using errcode = 'RM301', message = 'no access to this workspace',
      detail = (select json_build_object('schema', 'remem', 'role', current_user, 'owner', pg_get_userbyid(nspowner))
        from pg_namespace where nspname = 'remem')::text,
      hint = 'Only the owner of the schema remem may upgrade it: connect as the owner, or SET ROLE to it first';
  end if;
end
$$;
