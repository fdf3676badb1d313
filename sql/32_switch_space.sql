-- Which space a workspace uses, and the switch to another: start_reembed, jobs, finish_reembed.
-- Locks, always in this order: the workspace exclusively, then the rows of spaces by number.

-- What jobs hold or remember of a space in a workspace.
create or replace function remem._clear_jobs(workspace text, space_no int) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  delete from remem.embedding_claim c where c.workspace = _clear_jobs.workspace and c.space_no = _clear_jobs.space_no;
  delete from remem.embedding_cursor c where c.workspace = _clear_jobs.workspace and c.space_no = _clear_jobs.space_no;
$$;
comment on function remem._clear_jobs(text, int) is 'Forgets claims and cursor of a space in a workspace.';

-- Whether any workspace, or the default of new ones, uses a space or moves to it.
create or replace function remem._is_used(space_no int) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return space_no = (select s.value::int from remem.setting s where s.name = 'default_space')
    or exists (select from remem.workspace w where w.space_no = _is_used.space_no or w.next_space_no = _is_used.space_no);
end
$$;
comment on function remem._is_used(int) is 'Whether a space is somebody''s current or next one.';

-- The states in the database after a space gained a user and another may have lost its last. The rows stay locked:
-- of two workspaces that leave a space at once, the second sees that it was the last.
create or replace function remem._set_states(gained int, lost int) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform from remem.embedding_space s where s.space_no in (gained, lost) order by s.space_no for no key update;
  update remem.embedding_space s set state = 'active' where s.space_no = gained and s.state <> 'active';
  update remem.embedding_space s set state = 'retired'
  where s.space_no = lost and s.state = 'active' and not remem._is_used(lost);
end
$$;
comment on function remem._set_states(int, int) is 'Keeps the states of spaces true to who uses them.';

-- The switch itself; the caller holds the workspace exclusively and has checked that the space is complete.
create or replace function remem._switch_space(workspace text, space remem.embedding_space, coverage remem.embedding_coverage) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_old int := (select w.space_no from remem.workspace w where w.workspace = _switch_space.workspace);
begin
  perform from remem.embedding_space s where s.space_no in (v_old, space.space_no) order by s.space_no for no key update;
  perform remem._require_space_index(space);
  if v_old = space.space_no then
    return;
  end if;
  update remem.workspace w set space_no = space.space_no, next_space_no = null where w.workspace = _switch_space.workspace;
  perform remem._set_states(space.space_no, v_old);
  perform remem._clear_jobs(workspace, v_old);
  if coverage.total > 0 then
    insert into remem.job_run (workspace, run_id, kind, state, space_no, embedded, failed, completed_at, metadata)
    values (_switch_space.workspace, gen_random_uuid(), 'space-activation', 'completed', space.space_no, coverage.embedded,
      coverage.pending + coverage.set_aside, now(), jsonb_build_object('from', (remem._space(v_old)).name, 'to', space.name));
  end if;
end
$$;
comment on function remem._switch_space(text, remem.embedding_space, remem.embedding_coverage) is 'Points a workspace at another space.';

-- A space by name or fingerprint, kept from being dropped until the transaction ends.
create or replace function remem._hold_space(space text) returns remem.embedding_space
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space := remem._find_space(space);
begin
  perform from remem.embedding_space s where s.space_no = v_space.space_no for key share;
  return remem._find_space(v_space.fingerprint);
end
$$;
comment on function remem._hold_space(text) is 'Finds a space and keeps it.';

create or replace function remem.activate_space(space text, workspace text default null, allow_missing int default 0)
returns remem.space_info
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_coverage remem.embedding_coverage;
  v_old int;
  v_memories bigint;
  v_vectors bigint;
begin
  if workspace is null then
    perform remem._authorize_admin();
    v_space := remem._hold_space(space);
    perform from remem.setting s where s.name = 'default_space' for update;
    v_old := (select s.value::int from remem.setting s where s.name = 'default_space');
    perform remem._require_space_index(v_space);
    update remem.setting s set value = v_space.space_no, updated_at = now() where s.name = 'default_space';
    perform remem._set_states(v_space.space_no, v_old);
    return remem._space_info(remem._space(v_space.space_no));
  end if;
  perform remem._authorize(workspace, 'admin');
  if allow_missing is null or allow_missing < 0 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'allow_missing', 'value', allow_missing), 'How many memories may lack a vector');
  end if;
  v_space := remem._hold_space(space);
  perform remem._lock_workspace(workspace, true);
  perform remem._ensure_workspace(workspace);
  v_memories := (remem._count_tally(workspace, 0)).n;
  v_vectors := (remem._count_tally(workspace, v_space.space_no)).n;
  if v_vectors + allow_missing < v_memories
     and v_vectors + allow_missing + remem._empty_texts(workspace, v_space.space_no) < v_memories then
    perform remem._raise('RM102', jsonb_build_object('workspace', workspace, 'space', v_space.name,
      'got', v_vectors, 'expected', v_memories),
      'The workspace has memories without a vector in that space: run remem reembed, or select remem.start_reembed(workspace, space)');
  end if;
  v_coverage := remem._coverage(workspace, v_space.space_no);
  perform remem._switch_space(workspace, v_space, v_coverage);
  return remem._space_info(remem._space(v_space.space_no));
end
$$;
comment on function remem.activate_space(text, text, int) is
  'Makes a registered space (by name or fingerprint) the default of new workspaces, or the current space of one workspace whose memories all have a vector in it, but for allow_missing of them. Its index is built if it is small, and has to be there if it is large. start_reembed and the jobs do all of this step by step.';

create or replace function remem.start_reembed(workspace text, space text) returns remem.embedding_coverage
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_row remem.workspace;
begin
  perform remem._authorize(workspace, 'admin');
  v_space := remem._hold_space(space);
  perform remem._lock_workspace(workspace, true);
  v_row := remem._ensure_workspace(workspace);
  if v_row.next_space_no is distinct from nullif(v_space.space_no, v_row.space_no) then
    perform remem._clear_jobs(workspace, v_row.next_space_no);
    update remem.workspace w set next_space_no = nullif(v_space.space_no, w.space_no) where w.workspace = start_reembed.workspace;
  end if;
  return remem._coverage(workspace, v_space.space_no);
end
$$;
comment on function remem.start_reembed(text, text) is
  'Begins to move a workspace to another registered space, which is then in building for it: jobs (claim_embeddings) fill it while recall goes on in the current one, and finish_reembed switches. Naming the current space ends a move. Called again it changes nothing.';

create or replace function remem.cancel_reembed(workspace text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_next int;
begin
  perform remem._authorize(workspace, 'admin');
  perform remem._lock_workspace(workspace, true);
  v_next := (select w.next_space_no from remem.workspace w where w.workspace = cancel_reembed.workspace);
  update remem.workspace w set next_space_no = null where w.workspace = cancel_reembed.workspace and w.next_space_no is not null;
  if not found then
    return false;
  end if;
  perform remem._clear_jobs(workspace, v_next);
  return true;
end
$$;
comment on function remem.cancel_reembed(text) is
  'Ends a move to another space before its switch; says whether there was one. Vectors that were made stay until drop_space, and start_reembed goes on with them.';

-- Whether a space is full enough to switch to: rows set aside do not hold a workspace back for ever, and neither does a
-- stream of new ones, but both stay under one in a hundred.
create or replace function remem._may_switch(coverage remem.embedding_coverage, nearly boolean) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coverage.set_aside <= coverage.total / 100
    and coverage.pending <= case when nearly then coverage.total / 100 else 0 end
$$;
comment on function remem._may_switch(remem.embedding_coverage, boolean) is 'Whether so much is covered that a workspace may switch.';

create or replace function remem.finish_reembed(workspace text, nearly boolean default false) returns remem.embedding_coverage
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
  v_next int;
  v_coverage remem.embedding_coverage;
begin
  perform remem._authorize(workspace, 'worker');
  select w.* into v_row from remem.workspace w where w.workspace = finish_reembed.workspace;
  v_next := v_row.next_space_no;
  v_coverage := remem._coverage(workspace, coalesce(v_next, v_row.space_no));
  if v_next is null or not remem._may_switch(v_coverage, coalesce(nearly, false))
     or not (v_coverage.index_state = 'valid' or v_coverage.index_state <> 'building' and remem._is_small_space(v_next)) then
    return v_coverage;
  end if;
  -- Again, when nobody writes: of several workers one switches, and the others find it done.
  perform remem._lock_workspace(workspace, true);
  select w.* into v_row from remem.workspace w where w.workspace = finish_reembed.workspace;
  v_coverage := remem._coverage(workspace, v_next);
  if v_row.next_space_no is distinct from v_next or not remem._may_switch(v_coverage, coalesce(nearly, false)) then
    return v_coverage;
  end if;
  perform remem._switch_space(workspace, remem._space(v_next), v_coverage);
  v_coverage := remem._coverage(workspace, v_next);
  v_coverage.activated := true;
  return v_coverage;
end
$$;
comment on function remem.finish_reembed(text, boolean) is
  'Switches a workspace to its space in building, in one transaction, once everything has a vector there and the index is valid (a small one is built now); otherwise changes nothing. Rows set aside count as done up to one in a hundred, and with nearly as many may still be pending, for a workspace that is written to all the time. activated says whether this call switched.';
