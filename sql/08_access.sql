-- Access: who asks, and may they. Every public function authorises in its first statement.

-- The role that asks. Survives SECURITY DEFINER, and cannot be forged: SET ROLE needs membership.
create or replace function remem._caller() returns name
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return coalesce(nullif(current_setting('role', true), 'none'), session_user::text)::name;
end
$$;
comment on function remem._caller() is 'The role on whose behalf a public function runs.';

-- The levels that satisfy a demand. A worker reads and writes vectors, not memories.
create or replace function remem._levels(demand text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case demand
    when 'read' then array['read', 'write', 'worker', 'admin']
    when 'write' then array['write', 'admin']
    when 'worker' then array['worker', 'admin']
    when 'admin' then array['admin']
  end
$$;
comment on function remem._levels(text) is 'The grant levels that satisfy a demanded level.';

-- A grant holds for the role that has both its number and its name: a role dropped and created again has
-- another number, and in a dump restored to another cluster the number is some other role's.
create or replace function remem._holds(access_grant remem.access_grant) returns boolean
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select access_grant.role_name = pg_get_userbyid(access_grant.role_oid)
    and pg_has_role(remem._caller(), access_grant.role_oid, 'usage')
$$;
comment on function remem._holds(remem.access_grant) is 'Whether the caller is, or is in, the role of a grant.';

-- True for the owner (the functions run as it) and for holders of a sufficient grant.
create or replace function remem._is_granted(workspace text, demand text) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if pg_has_role(remem._caller(), current_user, 'usage') then
    return true;
  end if;
  return exists (
    select from remem.access_grant g
    where g.workspace in (_is_granted.workspace, '')
      and g.level = any (remem._levels(demand))
      and remem._holds(g));
end
$$;
comment on function remem._is_granted(text, text) is 'Whether the caller holds a level in a workspace.';

-- The name of a workspace, or RM001.
create or replace function remem._check_workspace(workspace text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if workspace is null or octet_length(workspace) not between 1 and 200
     or workspace ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform remem._raise('RM001',
      jsonb_build_object('argument', 'workspace', 'got', octet_length(workspace), 'limit', 200),
      'A workspace name has 1 to 200 bytes and no control characters');
  end if;
end
$$;
comment on function remem._check_workspace(text) is 'Refuses what cannot be the name of a workspace.';

-- First statement of every function about memories: grant, then tenant setting, then the name itself.
-- Refusals do not depend on whether the workspace exists.
create or replace function remem._authorize(workspace text, demand text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tenant text := nullif(current_setting('remem.workspace', true), '');
begin
  if not remem._is_granted(workspace, demand) then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'level', demand),
      'An administrator can run: select remem.grant_access(role, workspace, level)');
  end if;
  if v_tenant is null then
    if (select s.value from remem.setting s where s.name = 'tenant_mode') = 'strict' then
      perform remem._raise('RM302', '{"setting": "remem.workspace"}',
        'In each transaction run: select set_config(''remem.workspace'', workspace, true)');
    end if;
  elsif v_tenant is distinct from workspace then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'setting', 'remem.workspace'),
      'The setting remem.workspace names another workspace');
  end if;
  perform remem._check_workspace(workspace);
end
$$;
comment on function remem._authorize(text, text) is 'Refuses a caller without the demanded level in the workspace.';

-- For functions about no workspace that every user may call.
create or replace function remem._authorize_any() returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if not (pg_has_role(remem._caller(), current_user, 'usage') or exists (
      select from remem.access_grant g where remem._holds(g))) then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller()),
      'An administrator can run: select remem.grant_access(role, workspace, level)');
  end if;
end
$$;
comment on function remem._authorize_any() is 'Refuses a caller without any grant.';

-- For database-wide changes: the owner, or an admin of every workspace.
create or replace function remem._authorize_admin() returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if not remem._is_granted('', 'admin') then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'level', 'admin'),
      'This changes the whole database: connect as the owner or as an admin of all workspaces');
  end if;
end
$$;
comment on function remem._authorize_admin() is 'Refuses a caller who is not an administrator of the whole database.';

-- For what holds in one workspace or, with null, in all: the workspace's admin, or the whole database's.
create or replace function remem._authorize_admin_of(workspace text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if workspace is null then
    perform remem._authorize_admin();
  else
    perform remem._authorize(workspace, 'admin');
  end if;
end
$$;
comment on function remem._authorize_admin_of(text) is 'Refuses who is not admin of the workspace or, where it is null, of the whole database.';

-- For grants: an administrator of the whole database who is not confined to another workspace. All
-- workspaces (null) are others too.
create or replace function remem._authorize_grants(workspace text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin();
  if nullif(current_setting('remem.workspace', true), '') <> coalesce(workspace, '') then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'setting', 'remem.workspace'),
      'The setting remem.workspace names another workspace');
  end if;
  if workspace is not null then
    perform remem._check_workspace(workspace);
  end if;
end
$$;
comment on function remem._authorize_grants(text) is 'Refuses a caller who may not change the grants of a workspace.';

-- The most trusted source class that the caller's grants let it claim; null = no cap (the owner).
create or replace function remem._max_source_class(workspace text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when pg_has_role(remem._caller(), current_user, 'usage') then null else (
    select g.max_source_class
    from remem.access_grant g left join remem.source_class s on s.name = g.max_source_class
    where g.workspace in (_max_source_class.workspace, '') and g.level in ('write', 'admin')
      and remem._holds(g)
    order by s.trust desc nulls first limit 1)
  end
$$;
comment on function remem._max_source_class(text) is 'The cap on the trust that the caller may claim.';

create or replace function remem.grant_access(
  role text, workspace text default null, level text default 'read', max_source_class text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_oid oid;
begin
  perform remem._authorize_grants(workspace);
  v_oid := (select r.oid from pg_roles r where r.rolname = grant_access.role);
  if v_oid is null then
    perform remem._raise('RM101', jsonb_build_object('argument', 'role', 'value', role), 'Create the role first');
  end if;
  if level is null or remem._levels(level) is null then
    perform remem._raise('RM001', jsonb_build_object('argument', 'level', 'value', level,
      'valid', array['read', 'write', 'worker', 'admin']), 'Choose one of the levels');
  end if;
  if max_source_class is not null
     and not exists (select from remem.source_class s where s.name = max_source_class) then
    perform remem._raise('RM001', jsonb_build_object('argument', 'max_source_class', 'value', max_source_class,
      'valid', (select array_agg(s.name order by s.name) from remem.source_class s)), 'Name a source class');
  end if;
  insert into remem.access_grant as g (workspace, role_oid, role_name, level, max_source_class, granted_by)
  values (coalesce(grant_access.workspace, ''), v_oid, grant_access.role, grant_access.level,
    grant_access.max_source_class, remem._caller())
  on conflict on constraint access_grant_pkey do update
    set level = excluded.level, max_source_class = excluded.max_source_class, role_name = excluded.role_name,
        granted_at = now(), granted_by = excluded.granted_by;
end
$$;
comment on function remem.grant_access(text, text, text, text) is
  'Gives a role a level (read, write, worker, admin) in one workspace, or in all when workspace is null. Membership in the role counts; a role that is renamed or created again needs a new grant. max_source_class caps what the role may claim about its sources.';

create or replace function remem.revoke_access(role text, workspace text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_grants(workspace);
  -- By number, for a role renamed since, and by name, for one that is gone.
  delete from remem.access_grant g
  where g.workspace = coalesce(revoke_access.workspace, '')
    and (g.role_name = revoke_access.role
      or g.role_oid = (select r.oid from pg_roles r where r.rolname = revoke_access.role));
  return found;
end
$$;
comment on function remem.revoke_access(text, text) is
  'Takes a grant back (workspace null: the grant on all workspaces). Says whether there was one.';

create or replace function remem.configure(name text, value text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  -- A list of values, or the least and the greatest number.
  v_valid constant jsonb := '{"tenant_mode": ["shared", "strict"], "embed_on_write": ["on", "off"],
    "recall_log_days": {"from": 1, "to": 36500}}';
begin
  perform remem._authorize_admin();
  if not v_valid ? coalesce(name, '') then
    perform remem._raise('RM002', jsonb_build_object('option', name,
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(v_valid) k)), 'Choose one of the settings');
  end if;
  if value is null or (case jsonb_typeof(v_valid -> name) when 'array' then not (v_valid -> name) ? value
      else value !~ '^[0-9]{1,9}$' or value::int not between (v_valid -> name -> 'from')::int and (v_valid -> name -> 'to')::int end) then
    perform remem._raise('RM001', jsonb_build_object('argument', name, 'value', value, 'valid', v_valid -> name),
      'Choose one of the values');
  end if;
  insert into remem.setting as s (name, value) values (configure.name, configure.value)
  on conflict on constraint setting_pkey do update set value = excluded.value, updated_at = now();
end
$$;
comment on function remem.configure(text, text) is
  'Sets a database-wide setting. tenant_mode: shared (the setting remem.workspace narrows when present) or strict (it must be set). embed_on_write: on, where a model is in the database (remem install-plpython), has writers wait for the vectors of what arrives without; off (the default) leaves them to a job. recall_log_days: after how many days remem.maintain deletes rows of the log of recalls (30).';

-- Takes every privilege on one object from everybody but its owner: PUBLIC has some by default, others
-- may have them from ALTER DEFAULT PRIVILEGES or from an administrator's GRANT. `kind` is routine,
-- table, sequence or schema. By the installer and for tables made later.
create or replace function remem._revoke_all(kind text, name text, owner oid, acl aclitem[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_grantee oid;
begin
  for v_grantee in
    select distinct a.grantee from aclexplode(acl) a where a.grantee not in (0, _revoke_all.owner)
  loop
    execute format('revoke all on %s %s from %I cascade', kind, name, pg_get_userbyid(v_grantee));
  end loop;
  execute format('revoke all on %s %s from public cascade', kind, name);
end
$$;
comment on function remem._revoke_all(text, text, oid, aclitem[]) is 'Leaves an object to its owner alone.';

create or replace function remem._revoke_relation(relation regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_relation record;
begin
  for v_relation in
    select case when c.relkind = 'S' then 'sequence' else 'table' end as kind, c.relowner as owner, c.relacl as acl
    from pg_class c where c.oid = relation
    union all
    -- A privilege on a column is taken with that on its table.
    select 'table', c.relowner, a.attacl from pg_attribute a join pg_class c on c.oid = a.attrelid
    where a.attrelid = relation and a.attacl is not null
  loop
    perform remem._revoke_all(v_relation.kind, relation::text, v_relation.owner, v_relation.acl);
  end loop;
end
$$;
comment on function remem._revoke_relation(regclass) is 'Leaves a table, view or sequence to its owner alone.';
