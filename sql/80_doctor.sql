-- doctor: what is wrong, and what to do about it. It only reports: reads, on a standby too, and repairs nothing.
--
-- Each group of checks is a private function _doctor_<group>(scope); scope is a workspace, or null for the whole
-- database. A check costs at most a few probes per workspace or one pass over small tables, never a pass over
-- memories, postings, vectors or the log.

create or replace function remem.doctor(workspace text default null) returns setof remem.check_row
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_group text;
begin
  if workspace is null then
    perform remem._authorize_grants(workspace);
  else
    perform remem._authorize(workspace, 'read');
  end if;
  foreach v_group in array case when workspace is null
    then '{server,access,spaces,model,jobs,text,vector_indexes,indexes,memory,tables,recalls,upkeep}'::text[]
    else '{server,access,spaces,model,jobs,text}' end
  loop
    begin
      return query execute format('select * from remem._doctor_%s($1)', v_group) using workspace;
    exception when others then  -- one check that fails must not hide what the others find; a cancelled query passes
      return next (v_group, 'error', format('this check failed: %s (%s)', sqlerrm, sqlstate), null)::remem.check_row;
    end;
  end loop;
end
$$;
comment on function remem.doctor(text) is
  'What is wrong and what to do about it, a row for each check: the server, who asks and what that role bypasses, embedding spaces and backlog, jobs, text analysis, indexes, memory, statistics, vacuum, latency, upkeep. It only reports. Without a workspace for administrators of the database; with one for its readers, about that workspace alone. status is ok, warning or error; remedy can be pasted: into psql if it ends with a semicolon, otherwise into a shell.';

create or replace function remem._doctor_server(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_vector record;
  v_standby boolean := pg_is_in_recovery();
  v_ahead timestamptz;
begin
  return next ('postgres', 'ok', format('PostgreSQL %s, %s', current_setting('server_version'), case when v_standby
    then format('a standby, last replayed a transaction of %s', coalesce(pg_last_xact_replay_timestamp()::text, 'unknown time'))
    else 'a primary' end), null)::remem.check_row;

  select e.extversion as version, n.nspname as schema, a.default_version as available into v_vector
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace left join pg_available_extensions a on a.name = e.extname
  where e.extname = 'vector';
  if v_vector.version is null then
    return next ('pgvector', 'error', 'the extension vector is missing', 'create extension vector;')::remem.check_row;
  elsif v_vector.version ~ '^[0-9]+(\.[0-9]+)+$' and v_vector.available ~ '^[0-9]+(\.[0-9]+)+$'
      and string_to_array(v_vector.version, '.')::int[] < string_to_array(v_vector.available, '.')::int[] then
    return next ('pgvector', 'warning', format('%s in schema %s; the server has %s', v_vector.version, v_vector.schema, v_vector.available),
      'alter extension vector update;')::remem.check_row;
  else
    return next ('pgvector', 'ok', format('%s in schema %s', v_vector.version, v_vector.schema), null)::remem.check_row;
  end if;

  return next ('extensions', 'ok', (
    select string_agg(n.name || case when e.extname is null then ' is not installed' else ' ' || e.extversion end, ', ' order by n.name)
      || ' (none is needed)'
    from unnest(array['pg_stat_statements', 'pg_trgm', 'plpython3u']) n (name) left join pg_extension e on e.extname = n.name), null)::remem.check_row;

  return next ('remem', 'ok', (
    select format('%s, compatibility %s, migrations up to %s (%s)', max(s.value) filter (where s.name = 'version'),
      max(s.value) filter (where s.name = 'compatibility'), (select max(m.name) from remem.schema_migration m),
      (select max(m.applied_at)::date from remem.schema_migration m)) from remem.setting s), null)::remem.check_row;

  -- A clock that went back makes leases, retention and the order of memories wrong.
  v_ahead := greatest((select max(m.applied_at) from remem.schema_migration m),
    (select max(w.created_at) from remem.workspace w where scope is null or w.workspace = scope));
  return next ('clock', case when v_ahead > clock_timestamp() + interval '1 minute' then 'warning' else 'ok' end,
    format('%s, time zone %s%s', clock_timestamp(), current_setting('TimeZone'), case when v_ahead > clock_timestamp() + interval '1 minute'
      then format('; rows were written at %s: the clock went back, or the data came from a server whose clock is ahead', v_ahead) end),
    case when v_ahead > clock_timestamp() + interval '1 minute' then 'timedatectl status' end)::remem.check_row;
end
$$;
comment on function remem._doctor_server(text) is 'Versions and clock.';

create or replace function remem._doctor_access(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_caller name := remem._caller();
  v_owner name := current_user;
  v_bypass text;
  v_grants text;
  v_row record;
begin
  select concat_ws(', ', case when r.rolsuper then 'a superuser' end,
      case when r.rolname = v_owner then 'the owner of the schema' when not r.rolsuper and pg_has_role(r.oid, v_owner, 'usage')
        then format('a member of its owner %s', v_owner) end,
      case when r.rolbypassrls and not r.rolsuper then 'one that bypasses row security' end)
  into v_bypass from pg_roles r where r.rolname = v_caller;
  select string_agg(format('%s %s', g.level, case g.workspace when '' then 'everywhere' else 'in this workspace' end), ', ' order by g.workspace)
  into v_grants from remem.access_grant g where g.workspace in ('', scope) and remem._holds(g);
  return next ('role', 'ok', case when v_bypass = '' then format('%s: %s; it reads no table itself', v_caller, v_grants)
    else format('%s is %s: it reads and writes every table, past all grants. Applications should connect as a role with a grant', v_caller, v_bypass)
    end, null)::remem.check_row;

  return next ('tenant_mode', 'ok', (select case s.value when 'strict' then 'strict: every session names its workspace in remem.workspace'
    else 'shared: remem.workspace narrows a session where it is set' end from remem.setting s where s.name = 'tenant_mode'), null)::remem.check_row;
  if scope is not null then
    return;
  end if;

  select count(*) as n, count(*) filter (where g.gone) as gone,
    min(format('select remem.revoke_access(%L%s);', g.role_name, case g.workspace when '' then '' else format(', %L', g.workspace) end)) filter (where g.gone) as revoke
  into v_row from (select g.*, g.role_name <> pg_get_userbyid(g.role_oid) as gone from remem.access_grant g) g;
  return next ('grants', case when v_row.gone > 0 then 'warning' else 'ok' end,
    format('%s grants%s', v_row.n, case when v_row.gone > 0 then format(', of which %s count no more: the role was dropped, renamed or made again', v_row.gone) end),
    v_row.revoke)::remem.check_row;

  select count(*) as n, string_agg(o.what, ', ' order by o.what) as what into v_row from (
    select c.relname || ' is open to ' || case a.grantee when 0 then 'everybody' else a.grantee::regrole::text end as what
    from pg_class c cross join lateral aclexplode(c.relacl) a where c.relnamespace = 'remem'::regnamespace and a.grantee <> c.relowner
    union select c.relname || '.' || t.attname || ' is open to ' || case a.grantee when 0 then 'everybody' else a.grantee::regrole::text end
    from pg_class c join pg_attribute t on t.attrelid = c.oid cross join lateral aclexplode(t.attacl) a
    where c.relnamespace = 'remem'::regnamespace and a.grantee <> c.relowner
    union select p.proname || '() is open to ' || case a.grantee when 0 then 'everybody' else a.grantee::regrole::text end
    from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace = 'remem'::regnamespace and p.proname like '\_%' and a.grantee <> p.proowner
    union select 'objects can be created in the schema by ' || case a.grantee when 0 then 'everybody' else a.grantee::regrole::text end
    from pg_namespace n cross join lateral aclexplode(n.nspacl) a
    where n.nspname = 'remem' and a.grantee <> n.nspowner and a.privilege_type = 'CREATE'
    union select p.proname || '() belongs to ' || p.proowner::regrole from pg_proc p
    where p.pronamespace = 'remem'::regnamespace and p.proowner <> (select n.nspowner from pg_namespace n where n.nspname = 'remem')
  ) o;
  return next ('privileges', case when v_row.n > 0 then 'error' else 'ok' end, case when v_row.n > 0
    then format('past the functions: %s%s', left(v_row.what, 200), case when length(v_row.what) > 200 then ' ...' end)
    else 'functions are the only way to the data' end, case when v_row.n > 0 then 'remem migrate' end)::remem.check_row;
end
$$;
comment on function remem._doctor_access(text) is 'Who asks, what it bypasses, grants and privileges.';

create or replace function remem._doctor_text(scope text) returns setof remem.check_row
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_found record;
begin
  select count(*) as n, count(*) filter (where w.stale) as stale, min(w.workspace) filter (where w.stale) as example into v_found
  from (
    select w.workspace, remem._text_index(w) <> 'current' as stale
    from remem.workspace w where scope is null or w.workspace = scope) w;
  return next ('text_index', case when v_found.stale > 0 then 'warning' else 'ok' end, case when v_found.stale > 0
    then format('%s of %s workspaces were indexed by other text rules, in whole or in part: word scores are less exact', v_found.stale, v_found.n)
    else format('%s workspaces, all indexed by the text rules of today', v_found.n) end,
    case when v_found.stale > 0 then format('select * from remem.reindex_text(%L);', v_found.example) end)::remem.check_row;
end
$$;
comment on function remem._doctor_text(text) is 'Workspaces with postings of another analyser.';
