-- The HNSW index of a space. A space is loaded without one, because building it afterwards takes a fraction of the
-- time; it is there and valid before any workspace uses the space.

-- State (missing, building, invalid, valid) of the index of a space.
create or replace function remem._space_index(space_no int) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case
    when i.indisvalid then 'valid'
    when exists (select from pg_stat_progress_create_index p where p.relid = t.oid) then 'building'
    when i.indexrelid is not null then 'invalid' else 'missing' end
  from pg_class t
  left join (pg_class c join pg_index i on i.indexrelid = c.oid)
    on i.indrelid = t.oid and c.relname = format('embedding_%s_hnsw_idx', _space_index.space_no)
  where t.relnamespace = 'remem'::regnamespace and t.relname = format('embedding_%s', _space_index.space_no)
$$;
comment on function remem._space_index(int) is 'The state of the HNSW index of a space.';

-- Whether the space has at most so many vectors that its index is built in passing (about a second for 5,000).
create or replace function remem._is_small_space(space_no int) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_small boolean;
begin
  execute format('select not exists (select from remem.embedding_%s offset 5000)', space_no) into v_small;
  return v_small;
end
$$;
comment on function remem._is_small_space(int) is 'Whether the index of a space is built in no time.';

create or replace function remem._create_space_index(space_no int) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_index text := format('embedding_%s_hnsw_idx', space_no);
begin
  if remem._space_index(space_no) = 'valid' then
    return;
  end if;
  execute format('drop index if exists remem.%I', v_index);
  execute format('create index %I on remem.%I using hnsw (embedding @extschema:vector@.halfvec_cosine_ops)',
    v_index, format('embedding_%s', space_no));
end
$$;
comment on function remem._create_space_index(int) is 'Builds the index of a space where it has no valid one.';

-- Before a space is used: its index is there, or is built because it takes no time, or RM102.
create or replace function remem._require_space_index(space remem.embedding_space) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_state text := remem._space_index(space.space_no);
begin
  if v_state = 'valid' then
    return;
  elsif v_state = 'building' or not remem._is_small_space(space.space_no) then
    perform remem._raise('RM102', jsonb_build_object('space', space.name, 'index', v_state),
      'Build the index first: remem reembed, or select remem.build_space_index(workspace)');
  end if;
  perform remem._create_space_index(space.space_no);
end
$$;
comment on function remem._require_space_index(remem.embedding_space) is 'Makes sure that a space has its index.';

create or replace function remem.space_index(workspace text) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
  v_state text;
begin
  perform remem._authorize(workspace, 'worker');
  v_space_no := (select coalesce(w.next_space_no, w.space_no) from remem.workspace w where w.workspace = space_index.workspace);
  v_state := remem._space_index(v_space_no);
  return jsonb_build_object('space', (remem._space(v_space_no)).name, 'state', v_state,
    'small', remem._is_small_space(v_space_no), 'is_owner', pg_has_role(remem._caller(), current_user, 'usage'),
    'drop', format('drop index concurrently if exists remem.embedding_%s_hnsw_idx', v_space_no),
    'create', format('create index concurrently embedding_%1$s_hnsw_idx on remem.embedding_%1$s using hnsw'
      ' (embedding @extschema:vector@.halfvec_cosine_ops)', v_space_no));
end
$$;
comment on function remem.space_index(text) is
  'The vector index of the space in building (or the current one): state (missing, building, invalid, valid), small (it is built in passing when the space is activated), is_owner (the caller may run the commands itself), and the commands that build it without holding writers up; drop first where it is invalid.';

create or replace function remem.build_space_index(workspace text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
begin
  perform remem._authorize(workspace, 'worker');
  v_space_no := (select coalesce(w.next_space_no, w.space_no) from remem.workspace w where w.workspace = build_space_index.workspace);
  if v_space_no is null then
    return 'missing';
  end if;
  perform remem._create_space_index(v_space_no);
  return remem._space_index(v_space_no);
end
$$;
comment on function remem.build_space_index(text) is
  'Builds the vector index of the space that a workspace is moving to, once it is loaded (or of its current one, should that have none). Writers that supersede or forget wait meanwhile, in workspaces with vectors in that space; the owner avoids that with the commands of space_index.';
