-- Last of every install: functions are the only door. PUBLIC may call the public functions, each of
-- which refuses a role without a grant in its first statement; nobody but the owner has any right on a
-- table, view, sequence or private function, whatever defaults or later grants have said. Run in full
-- each time, because defaults give PUBLIC execute. The public functions also get the settings of which a
-- caller's value would change what a body means (a backslash in its literals) or finds (a part of an index).
do $$
declare
  v_object record;
begin
  for v_object in
    select p.oid::regprocedure::text as name, p.proowner as owner, p.proacl as acl, p.proname not like '\_%' as is_public
    from pg_proc p where p.pronamespace = 'remem'::regnamespace
  loop
    perform remem._revoke_all('routine', v_object.name, v_object.owner, v_object.acl);
    if v_object.is_public then
      execute format('grant execute on routine %s to public', v_object.name);
      execute format('alter routine %s set standard_conforming_strings = on', v_object.name);
      execute format('alter routine %s set gin_fuzzy_search_limit = 0', v_object.name);
    end if;
  end loop;
  perform remem._revoke_relation(c.oid) from pg_class c
  where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f');
  perform remem._revoke_all('schema', 'remem', n.nspowner, n.nspacl) from pg_namespace n where n.nspname = 'remem';
  grant usage on schema remem to public;
end
$$;
