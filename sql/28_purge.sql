-- purge and drop_workspace: what is erased. Both keep the workspace's writers away until the transaction ends.

-- Every table of the schema that has rows about single memories, beside `memory` and what is taken out by words.
create or replace function remem._memory_tables() returns setof name
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select c.relname from pg_class c
  where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p')
    and c.relname not in ('memory', 'posting', 'posting_past', 'topic', 'tombstone')
    and (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('workspace', 'memory_no') and not a.attisdropped) = 2
  order by c.relname
$$;
comment on function remem._memory_tables() is 'The tables whose rows belong to one memory each.';

-- Erases rows: the caller holds the workspace alone. Live ones leave the live structures first, so that counts,
-- sessions and topics follow.
create or replace function remem._purge_rows(workspace text, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_hashjoin = off  -- see _drop_postings
set enable_mergejoin = off
set enable_seqscan = off
as $$
declare
  v_key bigint := remem._workspace_key(workspace);
  v_table name;
  v_sessions int[];
begin
  perform remem._forget_rows(workspace, memory_nos, null);
  perform remem._drop_topics(workspace, memory_nos);
  -- A derived topic that could not go over to another memory was hidden; now its words go.
  perform remem._put_part(w, t.scope, t.scope_ref, t.key, 'memory', null)
  from remem.topic t join remem.workspace w on w.workspace = t.workspace
  where t.workspace = _purge_rows.workspace and t.memory_no = any (memory_nos);
  -- Looked up one by one, whatever the statistics say of a table that has just been filled.
  delete from remem.posting_past p where p.ctid = any (array(
    select x.ctid from remem.memory m
    cross join lateral unnest(m.lexemes) l (lexeme)
    cross join lateral (select q.ctid from remem.posting_past q
      where q.workspace_key = v_key and q.word = remem._word(l.lexeme) and q.memory_no = m.memory_no offset 0) x
    where m.workspace = _purge_rows.workspace and m.memory_no = any (memory_nos)));
  delete from remem.relation r where r.workspace = _purge_rows.workspace and r.src_no = any (memory_nos);
  delete from remem.relation r where r.workspace = _purge_rows.workspace and r.dst_no = any (memory_nos);
  delete from remem.lineage l where l.workspace = _purge_rows.workspace and l.old_no = any (memory_nos);
  delete from remem.lineage l where l.workspace = _purge_rows.workspace and l.new_no = any (memory_nos);
  for v_table in select t from remem._memory_tables() t loop
    execute format('delete from remem.%I t where t.workspace = $1 and t.memory_no = any ($2)', v_table) using workspace, memory_nos;
  end loop;
  delete from remem.query_cache q where q.workspace = _purge_rows.workspace;
  -- A word that was frequent here and that no memory holds now is a word of the texts that go.
  delete from remem.frequent_word f using (
    select distinct remem._word(l.lexeme) as word from remem.memory m cross join lateral unnest(m.lexemes) l (lexeme)
    where m.workspace = _purge_rows.workspace and m.memory_no = any (memory_nos)) g
  where f.workspace_key = v_key and f.word = g.word and not exists (
    select from remem.posting p where p.workspace_key = v_key and p.word = f.word);
  insert into remem.tombstone (workspace, memory_id, memory_no, ref, replaced_by, created_at, purged_by, blocks)
  select m.workspace, m.memory_id, m.memory_no, m.ref, m.superseded_by, m.created_at, remem._caller(),
    not exists (select from remem.memory n where n.workspace = m.workspace and n.ref = m.ref and n.superseded_at is null
      and n.forgotten_at is null)
  from remem.memory m where m.workspace = _purge_rows.workspace and m.memory_no = any (memory_nos);
  v_sessions := array(select distinct m.session_no from remem.memory m
    where m.workspace = _purge_rows.workspace and m.memory_no = any (memory_nos) and m.session_no is not null);
  delete from remem.memory m where m.workspace = _purge_rows.workspace and m.memory_no = any (memory_nos);
  perform remem._drop_empty_sessions(workspace, v_sessions);
  perform remem._touch(workspace);
end
$$;
comment on function remem._purge_rows(text, bigint[]) is 'Erases rows and everything about them; leaves tombstones.';

-- A session that no memory of any version belongs to goes, for its ref may say who talked.
create or replace function remem._drop_empty_sessions(workspace text, session_nos int[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_session remem.session;
  v_used boolean;
begin
  for v_session in
    select s.* from remem.session s
    where s.workspace = _drop_empty_sessions.workspace and s.session_no = any (session_nos) and s.turns = 0
  loop
    execute format('select exists (select from remem.memory m where m.workspace = $1 and m.attrs @@ %L)',
      format('$.workspace == %s && $.session_ref == %s', to_jsonb(workspace), to_jsonb(v_session.session_ref)))
    into v_used using workspace;
    if not v_used then
      delete from remem.session s where s.workspace = v_session.workspace and s.session_no = v_session.session_no;
      update remem.recall_log l set session_ref = null
      where l.workspace = v_session.workspace and l.session_ref = v_session.session_ref;
    end if;
  end loop;
end
$$;
comment on function remem._drop_empty_sessions(text, int[]) is 'Removes sessions that have no memory left.';

create or replace function remem.purge(workspace text, memory_id uuid default null, ref text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_no bigint;
  v_reply remem.memory_ref;
begin
  perform remem._authorize(workspace, 'admin');
  perform remem._lock_workspace(workspace, exclusive => true);
  v_no := remem._find_memory(workspace, memory_id, ref, true);
  if v_no is null then
    select t.memory_id, t.ref into v_reply.memory_id, v_reply.ref from remem.tombstone t
    where t.workspace = purge.workspace and (t.memory_id = purge.memory_id or t.ref = normalize(purge.ref, nfc))
    order by t.memory_no desc limit 1;
    if not found then
      perform remem._refuse_unknown(memory_id, ref);
    end if;
    v_reply.outcome := 'unchanged';
    return v_reply;
  end if;
  v_reply := remem._outcome(workspace, v_no, 'purged');
  perform remem._purge_rows(workspace, remem._with_former(workspace, array[v_no]));
  return v_reply;
end
$$;
comment on function remem.purge(text, uuid, text) is
  'Erases a memory (by its id, or the last one of a ref; forgotten or not) with every version before it: rows, postings, vectors of every space, names, links, topics made of it, kept answers. What stays is a tombstone with id and ref, and no text; remember answers with the outcome purged to that ref until it is told on_conflict => ''rewrite''. Cannot be undone. Outcome: purged, or unchanged (it was purged before). The freed space is overwritten after VACUUM; backups and the write-ahead log have their own retention.';

create or replace function remem.purge_forgotten(workspace text, before timestamptz default null, "limit" int default 1000) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_nos bigint[];
begin
  perform remem._authorize(workspace, 'admin');
  if "limit" is null or "limit" not between 1 and 10000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 10000), 'A batch has 1 to 10000 memories');
  end if;
  perform remem._lock_workspace(workspace, exclusive => true);
  v_nos := array(select f.memory_no from remem.forgotten f
    where f.workspace = purge_forgotten.workspace and (before is null or f.forgotten_at < before) order by f.memory_no limit "limit");
  if cardinality(v_nos) > 0 then
    perform remem._purge_rows(workspace, v_nos);
  end if;
  return cardinality(v_nos);
end
$$;
comment on function remem.purge_forgotten(text, timestamptz, int) is
  'Erases up to `limit` forgotten memories, all or those forgotten before a moment, as purge does. Says how many; repeat until it is 0.';

create or replace function remem.drop_workspace(workspace text, "limit" int default 10000) returns remem.drop_report
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_table record;
  v_rows bigint;
  v_room bigint := "limit";
  v_most bigint := greatest("limit", 1000);
  v_report remem.drop_report;
begin
  perform remem._authorize(workspace, 'admin');
  if "limit" is null or "limit" < 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit"), 'A batch has at least one row');
  end if;
  perform remem._lock_workspace(workspace, exclusive => true);
  -- The workspace is unknown to recall from the first batch on.
  delete from remem.workspace w where w.workspace = drop_workspace.workspace;
  v_report := (true, 0, '{}'::jsonb)::remem.drop_report;
  for v_table in select t.* from remem._workspace_tables() t loop
    if v_room > 0 then
      execute format('delete from remem.%1$I where ctid = any (array(select ctid from remem.%1$I where %2$s limit $2))', v_table.name, v_table.owned)
      using workspace, v_room;
      get diagnostics v_rows = row_count;
      v_room := v_room - v_rows;
      v_report.deleted := v_report.deleted + v_rows;
    end if;
    -- No further than a batch goes: whole counts after each would read a large workspace once for every batch.
    execute format('select count(*) from (select from remem.%I where %s limit $2) r', v_table.name, v_table.owned) into v_rows using workspace, v_most;
    if v_rows > 0 then
      v_report.remaining := v_report.remaining || jsonb_build_object(v_table.name, v_rows);
      v_report.done := false;
    end if;
  end loop;
  return v_report;
end
$$;
comment on function remem.drop_workspace(text, int) is
  'Deletes everything of a workspace, at most `limit` rows a call: repeat until done is true. remaining counts what each table still has, no further than `limit` or 1000 rows, so an empty one proves that nothing is left. Recall knows the workspace no more from the first call on. Grants stay: revoke_access takes them back.';

-- Every table with rows of a workspace, and which are those of workspace $1; memories last but for what belongs to them.
-- Grants are the database's.
create or replace function remem._workspace_tables() returns table (name name, owned text)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select c.relname, case min(a.attname::text) when 'workspace' then 'workspace = $1' else 'workspace_key = remem._workspace_key($1)' end
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname in ('workspace', 'workspace_key') and not a.attisdropped
  where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p') and c.relname <> 'access_grant'
  group by c.relname
  order by c.relname = 'memory', c.relname
$$;
comment on function remem._workspace_tables() is 'The tables that hold rows of workspaces, with the condition that finds those of one.';
