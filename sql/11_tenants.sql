-- Which workspaces there are, and who may do what: the lists behind administration and jobs.

create or replace function remem.list_workspaces(after text default null, "limit" int default 1000) returns setof remem.workspace_info
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tenant text;
  v_demand text;
begin
  perform remem._authorize_any();
  v_tenant := nullif(current_setting('remem.workspace', true), '');
  -- Strict mode keeps a role that serves many tenants from touching one that it did not name. A job has to learn the
  -- names from somewhere: without the setting it sees those in which it may work, and only names and counts of them.
  v_demand := case when v_tenant is null and (select s.value from remem.setting s where s.name = 'tenant_mode') = 'strict'
    then 'worker' else 'read' end;
  if "limit" is null or "limit" not between 1 and 100000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 100000), 'Between 1 and 100000');
  end if;
  return query
    select w.workspace, w.language, s.name, remem._text_index(w), (remem._count_tally(w.workspace, 0)).n, w.created_at
    from remem.workspace w left join remem.embedding_space s on s.space_no = w.space_no
    where (after is null or w.workspace > after collate "C") and (v_tenant is null or w.workspace = v_tenant)
      and remem._is_granted(w.workspace, v_demand)
    order by w.workspace limit "limit";
end
$$;
comment on function remem.list_workspaces(text, int) is
  'The workspaces that the caller may read, by name (byte order), after a given one: language, current space, state of the text index (current; mixed: reindex_text is due; outdated: another version of the analysis made it), live memories. With remem.workspace set only that one; in strict mode without the setting those in which the caller may work.';

create or replace function remem.list_grants(role text default null, workspace text default null)
returns setof remem.access_grant_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_grants(workspace);
  return query
    select g.role_name::text, nullif(g.workspace, ''), g.level, g.max_source_class,
      coalesce(g.role_name = pg_get_userbyid(g.role_oid), false), g.granted_at, g.granted_by::text
    from remem.access_grant g
    where (list_grants.role is null or g.role_name = list_grants.role)
      and (list_grants.workspace is null or g.workspace in (list_grants.workspace, ''))
    order by g.workspace, g.role_name, g.role_oid;
end
$$;
comment on function remem.list_grants(text, text) is
  'The grants, of one role or all: those on all workspaces (workspace null) first. workspace leaves those that hold in it. For an administrator of the whole database.';
