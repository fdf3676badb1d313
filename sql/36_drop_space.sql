-- Spaces that nobody uses any more: their tables go whole.

-- Waits at most a second for writers, who may touch the table of any space, and who wait for it meanwhile. Says what
-- became of it: dropped, used, or busy.
create or replace function remem._drop_space(space_no int) returns text
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set lock_timeout = '1s'
as $$
begin
  if space_no = 1 or remem._is_used(space_no) then
    return 'used';
  end if;
  perform pg_advisory_xact_lock(7284, 2);
  perform from remem.embedding_space s where s.space_no = _drop_space.space_no for update;
  if not found then
    return 'dropped';
  elsif remem._is_used(space_no) then
    return 'used';
  end if;
  execute format('drop table remem.embedding_%1$s, remem.embedding_%1$s_past', space_no);
  delete from remem.topic_embedding e where e.space_no = _drop_space.space_no;
  delete from remem.provider_embedding e where e.space_no = _drop_space.space_no;
  delete from remem.plan_setting p where p.space_no = _drop_space.space_no;
  delete from remem.tally t where t.space_no = _drop_space.space_no;
  delete from remem.embedding_claim c where c.space_no = _drop_space.space_no;
  delete from remem.embedding_cursor c where c.space_no = _drop_space.space_no;
  delete from remem.embedding_space s where s.space_no = _drop_space.space_no;
  return 'dropped';
exception when lock_not_available then
  return 'busy';
end
$$;
comment on function remem._drop_space(int) is 'Drops a space that nobody uses.';

-- One workspace's vectors in a space that it has left.
create or replace function remem._empty_space(workspace text, space_no int) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_count bigint;
begin
  execute format('delete from remem.embedding_%s e where e.workspace = $1', space_no) using workspace;
  get diagnostics v_count = row_count;
  execute format('delete from remem.embedding_%s_past e where e.workspace = $1', space_no) using workspace;
  perform remem._add_tally(workspace, space_no, -v_count);
  delete from remem.topic_embedding e where e.workspace = _empty_space.workspace and e.space_no = _empty_space.space_no;
  delete from remem.provider_embedding e where e.workspace = _empty_space.workspace and e.space_no = _empty_space.space_no;
  perform remem._clear_jobs(workspace, space_no);
end
$$;
comment on function remem._empty_space(text, int) is 'Takes the vectors of one workspace out of a space.';

create or replace function remem.drop_space(space text, workspace text default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_outcome text;
begin
  if workspace is null then
    perform remem._authorize_admin();
    v_space := remem._find_space(space);
    v_outcome := remem._drop_space(v_space.space_no);
    if v_outcome = 'used' then
      perform remem._raise('RM102', jsonb_build_object('space', v_space.name),
        'A workspace uses it, or it is the default of new ones, or the built-in one');
    end if;
    return v_outcome;
  end if;
  perform remem._authorize(workspace, 'worker');
  v_space := remem._find_space(space);
  -- Nobody else has vectors there that count: the table goes, and no index has to be cleaned.
  v_outcome := remem._drop_space(v_space.space_no);
  if v_outcome <> 'used' then
    return v_outcome;
  end if;
  perform remem._lock_workspace(workspace);
  if exists (select from remem.workspace w where w.workspace = drop_space.workspace and v_space.space_no in (w.space_no, w.next_space_no)) then
    perform remem._raise('RM102', jsonb_build_object('workspace', workspace, 'space', v_space.name),
      'The workspace uses this space, or moves to it');
  end if;
  perform remem._empty_space(workspace, v_space.space_no);
  return 'emptied';
end
$$;
comment on function remem.drop_space(text, text) is
  'Drops a space that no workspace uses, with its table and index (dropped), or says that writers held it for more than a second (busy: try again). With a workspace: clears away what that workspace left in a space, and drops the space when nobody uses it (otherwise emptied). The built-in space and the default are never dropped.';
