-- The language of a workspace, and the job that analyses its memories anew: after a change of language, and after an
-- upgrade that changed the analysis.

-- The mark of a new analysis. The caller holds the workspace exclusively: what writers of before have written is
-- there and will be found, what comes later is of the new analysis.
create or replace function remem._start_reindex(workspace text, language text) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  update remem.workspace w
  set language = _start_reindex.language, analyser = remem._analyser_name(_start_reindex.language), analyser_no = w.analyser_no + 1,
      reindexed_to = case when exists (select from remem.memory m where m.workspace = w.workspace) then 0 end,
      words_counted = null  -- other words from now on; maintain counts them when the job is done
  where w.workspace = _start_reindex.workspace;
  update remem.job_run r set state = 'failed', last_error = 'the analysis changed again', updated_at = now(), completed_at = now()
  where r.workspace = _start_reindex.workspace and r.kind = 'text-reindex' and r.state = 'started';
  perform remem._touch(workspace);
end
$$;
comment on function remem._start_reindex(text, text) is 'Gives a workspace another analysis; its rows wait for reindex_text.';

create or replace function remem.set_language(workspace text, language text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_existed boolean;
  v_row remem.workspace;
begin
  perform remem._authorize(workspace, 'admin');
  if language is null then
    perform remem._raise('RM001', '{"argument": "language"}', 'Use one of: select cfgname from pg_ts_config');
  end if;
  perform remem._language_dictionaries(language);
  perform remem._lock_workspace(workspace, exclusive => true);
  v_existed := exists (select from remem.workspace w where w.workspace = set_language.workspace);
  v_row := remem._ensure_workspace(workspace, language);
  if v_row.language = language and v_row.analyser = remem._analyser_name(language) then
    return not v_existed;
  end if;
  perform remem._start_reindex(workspace, language);
  return true;
end
$$;
comment on function remem.set_language(text, text) is
  'Sets the language of a workspace (a text search configuration; CJK is analysed by bigrams in any) and says whether that changed anything. What is written from now on is analysed by it; what is there waits for reindex_text, and recall says analyser_mix until that is done. A workspace that is not there yet is created with it.';

-- Past versions keep their postings for as_of: nothing else counts them.
create or replace function remem._rebuild_past(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_hashjoin = off  -- see _drop_postings
set enable_mergejoin = off
set enable_seqscan = off
as $$
declare
  v_dictionaries regdictionary[] := remem._language_dictionaries(workspace.language);
begin
  delete from remem.posting_past p where p.ctid = any (array(
    select x.ctid from remem.memory m
    cross join lateral unnest(m.lexemes) l (lexeme)
    cross join lateral (select q.ctid from remem.posting_past q
      where q.workspace_key = workspace.workspace_key and q.word = remem._word(l.lexeme) and q.memory_no = m.memory_no offset 0) x
    where m.workspace = (_rebuild_past.workspace).workspace and m.memory_no = any (memory_nos)));
  with analysed as materialized (
    select m.memory_no, m.session_no, a.*
    from remem.memory m
    cross join lateral (
      select coalesce(array_agg(l.lexeme), '{}') as lexemes, coalesce(array_agg(l.tf), '{}') as tfs,
        coalesce(sum(l.tf) filter (where not l.extra), 0)::int as doc_len
      from remem._lexemes(remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags), v_dictionaries) l
    ) a
    where m.workspace = (_rebuild_past.workspace).workspace and m.memory_no = any (memory_nos)
  ), written as (
    insert into remem.posting_past (workspace_key, word, memory_no, session_no, doc_len, tf)
    select (_rebuild_past.workspace).workspace_key, remem._word(l.lexeme), a.memory_no, a.session_no, least(a.doc_len, 32767), least(l.tf, 32767)
    from analysed a cross join lateral unnest(a.lexemes, a.tfs) l (lexeme, tf)
    on conflict do nothing
  )
  update remem.memory m
  set lexemes = a.lexemes, doc_len = a.doc_len, analyser_no = (_rebuild_past.workspace).analyser_no, changed_xid = pg_current_xact_id()
  from analysed a
  where m.workspace = (_rebuild_past.workspace).workspace and m.memory_no = a.memory_no;
end
$$;
comment on function remem._rebuild_past(remem.workspace, bigint[]) is 'Analyses superseded and forgotten rows anew.';

-- Takes the next rows of another analysis without ever waiting while it holds one: first the sessions, in the order of
-- all writers, then those rows that nobody holds. `wanted` are the rows that there are, `taken` those it got.
create or replace function remem._take_stale(workspace remem.workspace, n int, out wanted bigint[], out taken bigint[])
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_bitmapscan = off  -- from the mark on by number: a sort would read the whole workspace
set enable_sort = off
as $$
begin
  wanted := array(
    select m.memory_no from remem.memory m
    where m.workspace = (_take_stale.workspace).workspace and m.memory_no > (_take_stale.workspace).reindexed_to
      and m.analyser_no <> (_take_stale.workspace).analyser_no
    order by m.memory_no limit n);
  perform remem._lock_sessions((_take_stale.workspace).workspace, array(
    select distinct s.session_ref
    from unnest(wanted) w (memory_no)
    cross join lateral (select m.session_no from remem.memory m
      where m.workspace = (_take_stale.workspace).workspace and m.memory_no = w.memory_no offset 0) r
    cross join lateral (select x.session_ref from remem.session x
      where x.workspace = (_take_stale.workspace).workspace and x.session_no = r.session_no offset 0) s));
  taken := array(
    select m.memory_no from remem.memory m
    where m.workspace = (_take_stale.workspace).workspace and m.memory_no = any (wanted)
      and m.analyser_no <> (_take_stale.workspace).analyser_no
    order by m.memory_no for no key update skip locked);
end
$$;
comment on function remem._take_stale(remem.workspace, int) is 'The next rows of another analysis, locked.';

create or replace function remem._reindex_rows(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_live bigint[];
  v_past bigint[];
begin
  select coalesce(array_agg(n) filter (where l.is_live), '{}'), coalesce(array_agg(n) filter (where not l.is_live), '{}')
  into v_live, v_past
  from unnest(memory_nos) n cross join lateral (select remem._is_live_memory((_reindex_rows.workspace).workspace, n) as is_live offset 0) l;
  if cardinality(v_live) > 0 then
    perform remem._rebuild_postings(workspace, v_live);
    perform remem._drop_entities((_reindex_rows.workspace).workspace, v_live);
    perform remem._add_entities((_reindex_rows.workspace).workspace, v_live);
  end if;
  if cardinality(v_past) > 0 then
    perform remem._rebuild_past(workspace, v_past);
  end if;
end
$$;
comment on function remem._reindex_rows(remem.workspace, bigint[]) is 'Analyses rows anew, live and past.';

-- The run of this analysis, begun or gone on with, in job_run.
create or replace function remem._note_reindex(workspace remem.workspace, reindexed bigint, done boolean) returns uuid
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_run_id uuid;
begin
  update remem.job_run r
  set embedded = r.embedded + _note_reindex.reindexed, claimed = r.claimed + _note_reindex.reindexed, updated_at = now(),
      state = case when done then 'completed' else 'started' end, completed_at = case when done then now() end
  where r.workspace = (_note_reindex.workspace).workspace and r.kind = 'text-reindex' and r.state = 'started'
  returning r.run_id into v_run_id;
  if v_run_id is null then
    insert into remem.job_run (workspace, run_id, kind, state, claimed, embedded, completed_at, metadata)
    values ((_note_reindex.workspace).workspace, gen_random_uuid(), 'text-reindex', case when done then 'completed' else 'started' end,
      reindexed, reindexed, case when done then now() end, jsonb_build_object('analyser', (_note_reindex.workspace).analyser))
    returning run_id into v_run_id;
  end if;
  return v_run_id;
end
$$;
comment on function remem._note_reindex(remem.workspace, bigint, boolean) is 'Counts what reindex_text did.';

create or replace function remem.reindex_text(workspace text, budget interval default '1 second') returns remem.reindex_report
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  c_rows constant int := 2000;  -- of one call, at most
  c_batch constant int := 50;
  v_started timestamptz;
  v_row remem.workspace;
  v_batch record;
  v_done bigint := 0;
  v_next bigint;
  v_last bigint;
  v_report remem.reindex_report;
begin
  perform remem._authorize(workspace, 'worker');
  if budget is null or budget <= interval '0' or budget > interval '1 hour' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'budget', 'value', budget, 'limit', '1 hour'), 'More than nothing, at most an hour');
  end if;
  v_started := clock_timestamp();
  select w.* into v_row from remem.workspace w where w.workspace = reindex_text.workspace;
  if v_row.workspace is null then
    return (true, 0, 1, null, null, null)::remem.reindex_report;
  end if;
  if remem._text_index(v_row) = 'outdated' then
    -- An upgrade left it: only now are all rows of before known to be of before. Writers wait for this call alone.
    perform remem._lock_workspace(reindex_text.workspace, exclusive => true);
    select w.* into v_row from remem.workspace w where w.workspace = reindex_text.workspace;
    if remem._text_index(v_row) = 'outdated' then
      perform remem._start_reindex(v_row.workspace, v_row.language);
    end if;
  else
    perform remem._lock_workspace(reindex_text.workspace);
  end if;
  perform pg_advisory_xact_lock(hashtextextended(reindex_text.workspace, 7289));  -- two jobs take turns
  select w.* into v_row from remem.workspace w where w.workspace = reindex_text.workspace;
  if v_row.reindexed_to is null then
    return (true, 0, 1, v_row.language, v_row.analyser, null)::remem.reindex_report;
  end if;

  v_batch := remem._take_stale(v_row, c_rows);
  while v_done < cardinality(v_batch.taken) and (v_done = 0 or clock_timestamp() < v_started + budget) loop
    perform remem._reindex_rows(v_row, v_batch.taken[v_done + 1:v_done + c_batch]);
    v_done := least(v_done + c_batch, cardinality(v_batch.taken));
  end loop;
  v_next := (select min(n) from unnest(v_batch.wanted) n where n <> all (v_batch.taken[1:v_done]));
  if v_next is null and cardinality(v_batch.wanted) < c_rows then
    v_report.done := true;
    v_report.progress := 1;
  else
    v_next := coalesce(v_next - 1, v_batch.wanted[c_rows]);
    v_last := (select max(m.memory_no) from remem.memory m where m.workspace = reindex_text.workspace);
    v_report.done := false;
    v_report.progress := greatest(least((v_next - m.first + 1)::float8 / (v_last - m.first + 1), 1), 0)
      from (select min(m.memory_no) as first from remem.memory m where m.workspace = reindex_text.workspace) m;
  end if;
  update remem.workspace w
  set reindexed_to = v_next, words_counted = case when v_report.done then null else w.words_counted end  -- a count of the mix
  where w.workspace = reindex_text.workspace;
  perform remem._touch(reindex_text.workspace);
  v_report.reindexed := v_done;
  v_report.language := v_row.language;
  v_report.analyser := v_row.analyser;
  v_report.run_id := remem._note_reindex(v_row, v_done, v_report.done);
  return v_report;
end
$$;
comment on function remem.reindex_text(text, interval) is
  'Analyses memories anew that were analysed in another language or by another version, for about as long as budget says: postings, lengths, sessions and names, of past versions too. Call it until done. Recall and writers go on meanwhile (only a session whose turns are at hand waits), a call that is killed leaves what the calls before it did, and the next one goes on there. The run stands in embedding_runs as text-reindex.';
