-- Last of every install: functions are the only door. PUBLIC may call the public functions, each of
-- which refuses a role without a grant in its first statement; nobody but the owner has any right on a
-- table, view, sequence or private function. Run in full each time, because defaults give PUBLIC execute.
do $$
declare
  v_function record;
  v_relation record;
begin
  for v_function in
    select p.oid::regprocedure as signature, p.proname not like '\_%' as is_public
    from pg_proc p where p.pronamespace = 'remem'::regnamespace
  loop
    execute format('revoke all on routine %s from public', v_function.signature);
    if v_function.is_public then
      execute format('grant execute on routine %s to public', v_function.signature);
    end if;
  end loop;
  for v_relation in
    select c.oid::regclass as name from pg_class c
    where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
  loop
    execute format('revoke all on %s from public', v_relation.name);
  end loop;
  revoke all on schema remem from public;
  grant usage on schema remem to public;
end
$$;
