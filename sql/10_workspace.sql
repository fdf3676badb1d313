-- Workspaces: the tenant boundary, with the language and the embedding space of its memories.

-- The workspace as a number, where a key is compared so often that text would be slow: in postings. Eight bytes of a
-- digest: nobody can aim at that of a given name, and that no two workspaces have the same is a constraint.
create or replace function remem._workspace_key(workspace text) returns bigint
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return ('x' || encode(substr(sha256(convert_to(workspace, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
end
$$;
comment on function remem._workspace_key(text) is 'The number of a workspace in the keys of postings.';

-- What decides the lexemes of a text: language, our rules, and the server's stemmers.
create or replace function remem._analyser_name(language text) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return format('%s/%s/pg%s', language, remem._analyser_version(), current_setting('server_version_num')::int / 10000);
end
$$;
comment on function remem._analyser_name(text) is 'The identity of the text analysis; rows of another one are stale.';

-- Whether the postings of a workspace were all made by the analysis of today. No look at a row of memory: who changes
-- the language or finds another version leaves a mark on the workspace, which goes when the last row is done.
create or replace function remem._text_index(workspace remem.workspace) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return case when workspace.analyser <> remem._analyser_name(workspace.language) then 'outdated'
    when workspace.reindexed_to is not null then 'mixed' else 'current' end;
end
$$;
comment on function remem._text_index(remem.workspace) is 'current, mixed or outdated: what reindex_text is for.';

-- Writers hold it shared to the end of their transaction, a change of space or of language exclusively:
-- nobody writes a vector or a posting of the old kind after the switch. Nothing is written for it.
-- The second lock is about the vector tables of all spaces: a writer may touch any, drop_space takes one away.
create or replace function remem._lock_workspace(workspace text, exclusive boolean default false) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if exclusive then
    perform pg_advisory_xact_lock(hashtextextended(workspace, 7285));
  else
    perform pg_advisory_xact_lock_shared(hashtextextended(workspace, 7285));
  end if;
  perform pg_advisory_xact_lock_shared(7284, 2);
end
$$;
comment on function remem._lock_workspace(text, boolean) is 'Keeps writers and a switch of the workspace apart.';

-- The workspace row, created on first use. The caller has authorised for writing.
create or replace function remem._ensure_workspace(workspace text, language text default 'english')
returns remem.workspace
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
  v_space_no int;
begin
  select w.* into v_row from remem.workspace w where w.workspace = _ensure_workspace.workspace;
  if not found then
    perform remem._language_dictionaries(language);
    -- Held to the end of the transaction: the default is not dropped under a workspace that nobody sees yet.
    select e.space_no into v_space_no
    from remem.setting s join remem.embedding_space e on e.space_no = s.value::int
    where s.name = 'default_space' for key share of e;
    if v_space_no is null then  -- a dump restored without its rows has the tables and nothing in them
      perform remem._raise('RM202', '{"problem": "the rows of the installation are missing"}',
        'Drop the extension (or the schema) remem and install again, or restore the dump with its rows');
    end if;
    insert into remem.workspace (workspace, workspace_key, language, analyser, space_no)
    values (_ensure_workspace.workspace, remem._workspace_key(workspace), _ensure_workspace.language, remem._analyser_name(language), v_space_no)
    on conflict do nothing;
    select w.* into v_row from remem.workspace w where w.workspace = _ensure_workspace.workspace;
    if not found then  -- its number is another one's: nobody will ever see this
      perform remem._raise('RM102', jsonb_build_object('argument', 'workspace', 'got', workspace), 'Take another name for the workspace');
    end if;
  end if;
  return v_row;
end
$$;
comment on function remem._ensure_workspace(text, text) is 'Finds or creates a workspace row.';

create or replace function remem.create_workspace(workspace text, language text default 'english') returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_existed boolean;
  v_row remem.workspace;
begin
  perform remem._authorize(workspace, 'write');
  v_existed := exists (select from remem.workspace w where w.workspace = create_workspace.workspace);
  v_row := remem._ensure_workspace(workspace, language);
  if v_row.language is distinct from language then
    perform remem._raise('RM102', jsonb_build_object('argument', 'language', 'got', language, 'expected', v_row.language),
      'The workspace exists with another language: an admin may change it with remem.set_language');
  end if;
  return not v_existed;
end
$$;
comment on function remem.create_workspace(text, text) is
  'Creates a workspace with a language (a text search configuration; CJK is analysed by bigrams in any). Says whether it was new. Not needed before remember, which creates an English one.';

-- Counts of a workspace: memories (space 0) or vectors of a space, with their total length.
create or replace function remem._count_tally(workspace text, space_no int, out n bigint, out doc_len bigint)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(sum(t.rows_delta), 0)::bigint, coalesce(sum(t.doc_len_delta), 0)::bigint
  from remem.tally t
  where t.workspace = _count_tally.workspace and t.space_no = _count_tally.space_no
$$;
comment on function remem._count_tally(text, int) is 'Live rows and their total length from the ledger of deltas.';

-- Adds a delta. When a workspace has collected many, folds those that no other transaction holds:
-- SKIP LOCKED, so writers never wait for each other here and the sum is exact in every snapshot.
create or replace function remem._add_tally(workspace text, space_no int, rows_delta bigint, doc_len_delta bigint default 0)
returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_rows bigint := rows_delta;
  v_doc_len bigint := doc_len_delta;
begin
  if rows_delta = 0 and doc_len_delta = 0 then
    return;
  end if;
  if (select count(*) from remem.tally t
      where t.workspace = _add_tally.workspace and t.space_no = _add_tally.space_no) > 64 then
    with doomed as (
      select t.ctid from remem.tally t
      where t.workspace = _add_tally.workspace and t.space_no = _add_tally.space_no
      for update skip locked
    ), gone as (
      delete from remem.tally t using doomed d where t.ctid = d.ctid
      returning t.rows_delta, t.doc_len_delta
    )
    select v_rows + coalesce(sum(g.rows_delta), 0), v_doc_len + coalesce(sum(g.doc_len_delta), 0)
    into v_rows, v_doc_len from gone g;
  end if;
  insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
  values (_add_tally.workspace, _add_tally.space_no, v_rows, v_doc_len);
end
$$;
comment on function remem._add_tally(text, int, bigint, bigint) is 'Records a change of a count and folds old records.';
