-- relate, unrelate: typed links between memories.

create or replace function remem._relation_kinds() returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{derived_from,supersedes,part_of,member_of,contains,contained_by,scoped,related,contradicts,conflicts_with,not_conflict,compatible}'::text[]
$$;
comment on function remem._relation_kinds() is 'The kinds of links between memories.';

-- The row of an id, or RM101 that names the argument. live: a row that was superseded or forgotten is no end
-- of a new link.
create or replace function remem._relation_end(workspace text, argument text, memory_id uuid, live boolean) returns remem.memory
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_memory remem.memory;
begin
  select m.* into v_memory from remem.memory m
  where m.workspace = _relation_end.workspace and m.memory_id = _relation_end.memory_id
    and (not live or m.superseded_at is null and m.forgotten_at is null);
  if not found then
    perform remem._raise('RM101', jsonb_build_object('argument', argument, 'value', memory_id),
      case when live then 'Link current memories of this workspace by their memory_id' else 'Name a memory of this workspace' end);
  end if;
  return v_memory;
end
$$;
comment on function remem._relation_end(text, text, uuid, boolean) is 'Finds one end of a link.';

-- Caches hold only while no row of the workspace changed, so a link changes its source. That row is the only one
-- locked, and last of all: no circle of waiting comes of it.
create or replace function remem._touch_relation(workspace text, memory_no bigint) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  update remem.memory m set changed_xid = pg_current_xact_id()
  where m.workspace = _touch_relation.workspace and m.memory_no = _touch_relation.memory_no
$$;
comment on function remem._touch_relation(text, bigint) is 'Makes a change of links a change of the workspace.';

create or replace function remem.relate(
  workspace text, src uuid, dst uuid, kind text default 'related', weight real default 1, provenance text default 'verified'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_src remem.memory;
  v_dst remem.memory;
begin
  perform remem._authorize(workspace, 'write');
  perform remem._check_member('kind', kind, remem._relation_kinds(), null);
  perform remem._check_member('provenance', provenance, '{verified,llm,heuristic,pending,unverified}', null);
  if weight is null or not weight between 0 and 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'weight', 'value', to_jsonb(weight::text)), 'A number from 0 to 1');
  end if;
  perform remem._lock_workspace(workspace);
  v_src := remem._relation_end(workspace, 'src', src, true);
  v_dst := remem._relation_end(workspace, 'dst', dst, true);
  if v_src.memory_no = v_dst.memory_no then
    perform remem._raise('RM001', jsonb_build_object('argument', 'dst', 'value', dst), 'A memory is not linked to itself');
  end if;
  if not remem._same_scope(v_src.scope, v_src.scope_ref, v_dst.scope, v_dst.scope_ref) then
    perform remem._raise('RM001', jsonb_build_object('argument', 'dst', 'value', dst, 'expected',
      jsonb_strip_nulls(jsonb_build_object('scope', v_src.scope, 'scope_ref', v_src.scope_ref))),
      'Links do not cross scopes: both ends have the same, or one is global');
  end if;
  insert into remem.relation as r (workspace, src_no, dst_no, kind, weight, provenance)
  values (relate.workspace, v_src.memory_no, v_dst.memory_no, relate.kind, relate.weight, relate.provenance)
  on conflict on constraint relation_pkey do update set weight = excluded.weight, provenance = excluded.provenance
    where (r.weight, r.provenance) is distinct from (excluded.weight, excluded.provenance);
  if not found then
    return false;
  end if;
  perform remem._touch_relation(workspace, v_src.memory_no);
  return true;
end
$$;
comment on function remem.relate(text, uuid, uuid, text, real, text) is
  'Links two current memories of one scope (or one of them global), by their memory_ids. Recall follows derived_from, supersedes, part_of, member_of, contains, contained_by, scoped and related, in both directions; contradicts, conflicts_with, not_conflict and compatible are only kept. A link is there once: again with another weight (0 to 1) or provenance (verified, llm, heuristic, pending, unverified) changes it. Says whether anything changed.';

create or replace function remem.unrelate(workspace text, src uuid, dst uuid, kind text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_src remem.memory;
  v_dst remem.memory;
begin
  perform remem._authorize(workspace, 'write');
  if kind is not null then
    perform remem._check_member('kind', kind, remem._relation_kinds(), null);
  end if;
  perform remem._lock_workspace(workspace);
  v_src := remem._relation_end(workspace, 'src', src, false);
  v_dst := remem._relation_end(workspace, 'dst', dst, false);
  delete from remem.relation r
  where r.workspace = unrelate.workspace and r.src_no = v_src.memory_no and r.dst_no = v_dst.memory_no
    and (unrelate.kind is null or r.kind = unrelate.kind);
  if not found then
    return false;
  end if;
  perform remem._touch_relation(workspace, v_src.memory_no);
  return true;
end
$$;
comment on function remem.unrelate(text, uuid, uuid, text) is
  'Takes a link from src to dst back, of one kind or (kind null) of every kind. Says whether there was one.';

-- A new version takes over the links of the former one, which keeps its own as history. Only new rows are
-- written, so nothing is waited for. Called by the writers with parallel arrays; an old number may be null.
create or replace function remem._carry_relations(workspace text, old_nos bigint[], new_nos bigint[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.relation (workspace, src_no, dst_no, kind, weight, provenance, created_at)
  select r.workspace, coalesce(s.new_no, r.src_no), coalesce(d.new_no, r.dst_no), r.kind, r.weight, r.provenance, r.created_at
  from (
    select x.* from unnest(old_nos) o (memory_no) join remem.relation x
      on x.workspace = _carry_relations.workspace and x.src_no = o.memory_no
    union
    select x.* from unnest(old_nos) o (memory_no) join remem.relation x
      on x.workspace = _carry_relations.workspace and x.dst_no = o.memory_no
  ) r
  -- Both ends may have a new version in one batch.
  left join unnest(old_nos, new_nos) s (old_no, new_no) on s.old_no = r.src_no
  left join unnest(old_nos, new_nos) d (old_no, new_no) on d.old_no = r.dst_no
  on conflict do nothing
$$;
comment on function remem._carry_relations(text, bigint[], bigint[]) is 'Gives new versions the links of the former ones.';
