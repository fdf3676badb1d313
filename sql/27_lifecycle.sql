-- What every change of a memory's life goes through: finding it, taking it, bringing it back.

-- The memory that a caller names: by id any version, by ref the current one; `dead`: or else the newest that was
-- forgotten or superseded under the ref. Null when there is none.
create or replace function remem._find_memory(workspace text, memory_id uuid, ref text, dead boolean) returns bigint
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set enable_incremental_sort = off  -- see _match_items
as $$
declare
  v_no bigint;
begin
  if (memory_id is null) = (ref is null) then
    perform remem._raise('RM001', '{"argument": "memory_id, ref"}', 'Give either a memory_id or a ref');
  end if;
  ref := normalize(ref, nfc);  -- as all that is stored
  if memory_id is not null then
    return (select m.memory_no from remem.memory m
      where m.workspace = _find_memory.workspace and m.memory_id = _find_memory.memory_id);
  end if;
  select r.memory_no into v_no from remem._live_ref(workspace, ref) r;
  if v_no is null and dead then
    select max(x.memory_no) into v_no from (
      select f.memory_no from remem.forgotten f where f.workspace = _find_memory.workspace and f.ref = _find_memory.ref
      union all
      select l.old_no from remem.lineage l
      where l.workspace = _find_memory.workspace and l.ref = _find_memory.ref and l.how <> 'new_version') x;
  end if;
  return v_no;
end
$$;
comment on function remem._find_memory(text, uuid, text, boolean) is 'Finds the memory that a caller names.';

create or replace function remem._refuse_unknown(memory_id uuid, ref text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._raise('RM101', jsonb_build_object('argument', case when memory_id is null then 'ref' else 'memory_id' end,
    'value', coalesce(memory_id::text, left(ref, 200))), 'Name a memory of this workspace by its memory_id, or a current one by its ref');
end
$$;
comment on function remem._refuse_unknown(uuid, text) is 'Raises the error of a memory that is not there.';

-- Memories with all versions that they replaced, directly or not.
create or replace function remem._with_former(workspace text, memory_nos bigint[]) returns bigint[]
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  with recursive chain (memory_no) as (
    select n from unnest(memory_nos) n
    union
    select l.old_no from chain c
    cross join lateral (select x.old_no from remem.lineage x
      where x.workspace = _with_former.workspace and x.new_no = c.memory_no offset 0) l  -- a look-up a version, not all of them
  )
  select coalesce(array_agg(c.memory_no order by c.memory_no), '{}') from chain c
$$;
comment on function remem._with_former(text, bigint[]) is 'Memories and the versions before them.';

-- Takes the refs and texts of memories, then the sessions of those that are live: the order of every writer. What a
-- memory is known by never changes, so what is taken here stays taken whatever its row becomes.
create or replace function remem._lock_memories(workspace text, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._lock_names(workspace,
    array(select distinct m.ref from remem.memory m
      where m.workspace = _lock_memories.workspace and m.memory_no = any (memory_nos) and m.ref is not null),
    array(select distinct m.fingerprint from remem.memory m
      where m.workspace = _lock_memories.workspace and m.memory_no = any (memory_nos) and m.session_no is null));
  perform remem._lock_sessions(workspace, array(
    select distinct s.session_ref
    from remem.memory m join remem.session s on s.workspace = m.workspace and s.session_no = m.session_no
    where m.workspace = _lock_memories.workspace and m.memory_no = any (memory_nos)));
end
$$;
comment on function remem._lock_memories(text, bigint[]) is 'Takes what writers of these memories take.';

-- Rows last, in the order of their numbers; says which there are.
create or replace function remem._lock_rows(workspace text, memory_nos bigint[]) returns bigint[]
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(array_agg(l.memory_no), '{}') from (
    select m.memory_no from remem.memory m
    where m.workspace = _lock_rows.workspace and m.memory_no = any (memory_nos) order by m.memory_no for update) l
$$;
comment on function remem._lock_rows(text, bigint[]) is 'Locks rows in the order of their numbers.';

create or replace function remem._state(memory remem.memory) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when memory.forgotten_at is not null then 'forgotten' when memory.superseded_at is not null then 'superseded' else 'current' end
$$;
comment on function remem._state(remem.memory) is 'What a memory is now.';

-- What one memory says to a caller, with the reason where nothing was done to it.
create or replace function remem._outcome(workspace text, memory_no bigint, outcome text) returns remem.memory_ref
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select (m.memory_id, m.ref, _outcome.outcome, null,
    case when _outcome.outcome = 'conflict' then remem._error_value('RM102', 'conflict', jsonb_strip_nulls(jsonb_build_object(
      'memory_id', m.memory_id, 'state', remem._state(m), 'replaced_by', m.superseded_by))::text,
      'Another change came first: look at remem.history') end)::remem.memory_ref
  from remem.memory m where m.workspace = _outcome.workspace and m.memory_no = _outcome.memory_no
$$;
comment on function remem._outcome(text, bigint, text) is 'The reply of a change to one memory.';

-- The reason of a change, kept beside it until the memory is purged.
create or replace function remem._check_reason(reason text) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._check_length('reason', reason, 2000, null);
  return nullif(normalize(reason, nfc), '');
end
$$;
comment on function remem._check_reason(text) is 'A reason within its limit.';

-- Forgets rows that the caller has taken; those that are live leave the live structures at once.
create or replace function remem._forget_rows(workspace text, memory_nos bigint[], reason text) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_all bigint[];
  v_live bigint[];
begin
  perform remem._lock_rows(workspace, memory_nos);
  select coalesce(array_agg(m.memory_no order by m.memory_no), '{}'),
    coalesce(array_agg(m.memory_no order by m.memory_no) filter (where m.superseded_at is null), '{}') into v_all, v_live
  from remem.memory m where m.workspace = _forget_rows.workspace and m.memory_no = any (memory_nos) and m.forgotten_at is null;
  if cardinality(v_all) = 0 then
    return v_all;
  end if;
  insert into remem.forgotten (workspace, memory_no, ref, fingerprint, session_no, turn_no, forgotten_at, forgotten_by, reason)
  select m.workspace, m.memory_no, m.ref, m.fingerprint, m.session_no, m.turn_no, now(), remem._caller(), _forget_rows.reason
  from remem.memory m where m.workspace = _forget_rows.workspace and m.memory_no = any (v_all);
  update remem.memory m set forgotten_at = now(), updated_at = now(), changed_xid = pg_current_xact_id()
  where m.workspace = _forget_rows.workspace and m.memory_no = any (v_all);
  perform remem._retire(workspace, v_live);
  return v_all;
end
$$;
comment on function remem._forget_rows(text, bigint[], text) is 'Forgets rows and takes the live ones out of every index.';

create or replace function remem.forget(workspace text, memory_id uuid default null, ref text default null, reason text default null)
returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_no bigint;
  v_set bigint[];
  v_now bigint[];
  v_live boolean;
begin
  perform remem._authorize(workspace, 'write');
  reason := remem._check_reason(reason);
  perform remem._lock_workspace(workspace);
  v_no := remem._find_memory(workspace, memory_id, ref, false);
  if v_no is null then
    perform remem._refuse_unknown(memory_id, ref);
  end if;
  v_set := remem._with_former(workspace, array[v_no]);
  perform remem._lock_memories(workspace, v_set);
  -- Who had the ref before may have left a new version, which is what the ref means now.
  v_now := remem._with_former(workspace, array[coalesce(remem._find_memory(workspace, memory_id, ref, false), v_no)]);
  if not v_now <@ v_set then
    if exists (select from remem.memory m where m.workspace = forget.workspace and m.memory_no = any (v_now)
        and m.memory_no <> all (v_set) and (m.ref is distinct from forget.ref or m.session_no is not null)) then
      return remem._outcome(workspace, v_no, 'conflict');
    end if;
    v_no := remem._find_memory(workspace, memory_id, ref, false);
  end if;
  v_live := exists (select from remem.memory m where m.workspace = forget.workspace and m.memory_no = v_no and m.superseded_at is null);
  if v_no <> all (remem._forget_rows(workspace, v_now, reason)) then
    return remem._outcome(workspace, v_no, 'unchanged');
  end if;
  return remem._outcome(workspace, v_no, case when v_live then 'forgotten' else 'forgotten_version' end);
end
$$;
comment on function remem.forget(text, uuid, text, text) is
  'Forgets a memory (by its id, or the current one of a ref) with every version before it: hidden at once from recall, as_of, list, topics and caches, in history and list(state => ''forgotten'') still there for those who may write, brought back by unforget, erased by purge. Outcome: forgotten, unchanged (it was forgotten), forgotten_version (the id is that of a former version, a newer one is still there), or conflict (another change came first).';

create or replace function remem.forget_where(
  workspace text, filter text, preview boolean default true, reason text default null, expected bigint default null
) returns remem.forget_report
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_problem text;
  v_locked bigint[];
  v_found bigint[];
  v_set bigint[];
  v_report remem.forget_report;
begin
  perform remem._authorize(workspace, 'write');
  v_filter := remem._row_filter(workspace, jsonb_build_object('filter', filter));
  if v_filter is null then
    perform remem._raise('RM001', '{"argument": "filter"}', 'Say what to forget, e.g. $.session_ref == "s-1"; everything is $.workspace != ""');
  end if;
  reason := remem._check_reason(reason);
  v_found := remem._matching(workspace, v_filter);
  v_set := remem._with_former(workspace, v_found);
  if not coalesce(preview, true) then
    perform remem._lock_workspace(workspace);
    perform remem._lock_memories(workspace, v_set);
    v_locked := v_set;
    -- Again, under the locks: what came meanwhile is not taken and stays for the next call.
    v_found := array(select f from unnest(remem._matching(workspace, v_filter)) f intersect select l from unnest(v_locked) l);
    v_set := remem._with_former(workspace, v_found);
    v_set := array(select s from unnest(v_set) s intersect select l from unnest(v_locked) l);
    if cardinality(v_found) > expected then
      perform remem._raise('RM102', jsonb_build_object('argument', 'expected', 'expected', expected, 'got', cardinality(v_found)),
        'More match than the preview said: look at it again');
    end if;
  end if;
  v_report := (coalesce(preview, true), cardinality(v_found), cardinality(v_set), (
    select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('memory_id', m.memory_id, 'ref', m.ref, 'kind', m.kind,
      'text', remem._shorten(coalesce(m.title, m.body), 120))) order by m.memory_no desc), '[]')
    from (select x.* from remem.memory x where x.workspace = forget_where.workspace and x.memory_no = any (v_found)
      order by x.memory_no desc limit 20) m))::remem.forget_report;
  if not v_report.preview then
    v_report.versions := cardinality(remem._forget_rows(workspace, v_set, reason));
  end if;
  return v_report;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem.forget_where(text, text, boolean, text, bigint) is
  'Forgets the current memories that pass a jsonpath filter, each with every version before it. With preview (the default) nothing changes: it says how many would go, and shows the newest twenty. expected: refuse (RM102) when more match than that, which is the number of a preview.';

create or replace function remem._matching(workspace text, row_filter jsonpath) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_found bigint[];
begin
  -- EXECUTE: the plan depends on the filter's value.
  execute format('select coalesce(array_agg(m.memory_no order by m.memory_no), ''{}'') from remem.memory m where m.workspace = $1'
    ' and m.attrs @@ %L and m.superseded_at is null and m.forgotten_at is null', row_filter) into v_found using workspace;
  return v_found;
end
$$;
comment on function remem._matching(text, jsonpath) is 'The live rows that pass a filter, all of them.';

-- Forgotten rows that are current again: back into every live structure. The caller has taken them and their sessions.
create or replace function remem._revive(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_hashjoin = off  -- see _drop_postings
set enable_mergejoin = off
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_space_no int;
  v_count bigint;
  v_stale bigint[];
begin
  if cardinality(memory_nos) = 0 then
    return;
  end if;
  with gone as (
    delete from remem.posting_past p where p.ctid = any (array(
      select x.ctid from remem.memory m
      cross join lateral unnest(m.lexemes) l (lexeme)
      cross join lateral (select q.ctid from remem.posting_past q
        where q.workspace_key = workspace.workspace_key and q.word = remem._word(l.lexeme) and q.memory_no = m.memory_no offset 0) x
      where m.workspace = workspace.workspace and m.memory_no = any (memory_nos)))
    returning p.*
  )
  insert into remem.posting select g.* from gone g on conflict do nothing;
  perform remem._add_entities(workspace.workspace, memory_nos);
  for v_space_no in select s.space_no from remem.embedding_space s loop
    execute format(
      'with gone as (delete from remem.embedding_%1$s_past e where e.workspace = $1 and e.memory_no = any ($2) returning e.*)
       insert into remem.embedding_%1$s select g.* from gone g on conflict do nothing', v_space_no)
    using workspace.workspace, memory_nos;
    get diagnostics v_count = row_count;
    perform remem._add_tally(workspace.workspace, v_space_no, v_count);
  end loop;
  perform remem._add_tally(workspace.workspace, 0, cardinality(memory_nos)::bigint,
    (select sum(m.doc_len) from remem.memory m where m.workspace = workspace.workspace and m.memory_no = any (memory_nos))::bigint);
  update remem.session s set turns = s.turns + d.turns, doc_len = s.doc_len + d.doc_len
  from (
    select m.session_no, count(*) as turns, sum(m.doc_len) as doc_len from remem.memory m
    where m.workspace = workspace.workspace and m.memory_no = any (memory_nos) and m.session_no is not null
    group by m.session_no
  ) d
  where s.workspace = workspace.workspace and s.session_no = d.session_no;
  -- The analysis or the space may be another one by now.
  v_stale := array(select m.memory_no from remem.memory m
    where m.workspace = workspace.workspace and m.memory_no = any (memory_nos) and m.analyser_no <> workspace.analyser_no);
  if cardinality(v_stale) > 0 then
    perform remem._rebuild_postings(workspace, v_stale);
  end if;
  if workspace.space_no = 1 then
    perform remem._add_hash_vectors(workspace.workspace, memory_nos);
  end if;
  perform remem._add_topics(workspace, memory_nos);
end
$$;
comment on function remem._revive(remem.workspace, bigint[]) is 'Moves rows that are live again from the past to the live structures.';

-- The built-in space makes the vectors that rows lack.
create or replace function remem._add_hash_vectors(workspace text, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_count bigint;
begin
  insert into remem.embedding_1 (workspace, memory_no, embedding)
  select m.workspace, m.memory_no, @extschema:vector@.l2_normalize(h.v::@extschema:vector@.vector)::@extschema:vector@.halfvec
  from remem.memory m
  cross join lateral (select remem._hash_embed(
    remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags)) as v) h
  where m.workspace = _add_hash_vectors.workspace and m.memory_no = any (memory_nos) and not 0 = all (h.v)
    and not exists (select from remem.embedding_1 e where e.workspace = m.workspace and e.memory_no = m.memory_no);
  get diagnostics v_count = row_count;
  perform remem._add_tally(workspace, 1, v_count);
end
$$;
comment on function remem._add_hash_vectors(text, bigint[]) is 'Vectors of the built-in space for rows without one.';

create or replace function remem.unforget(workspace text, memory_id uuid default null, ref text default null) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_workspace remem.workspace;
  v_no bigint;
  v_target remem.memory;
  v_set bigint[];
begin
  perform remem._authorize(workspace, 'write');
  perform remem._lock_workspace(workspace);
  select w.* into v_workspace from remem.workspace w where w.workspace = unforget.workspace;
  v_no := remem._find_memory(unforget.workspace, unforget.memory_id, unforget.ref, false);
  if v_no is null then
    v_no := (select max(f.memory_no) from remem.forgotten f where f.workspace = unforget.workspace and f.ref = normalize(unforget.ref, nfc));
  end if;
  if v_no is null then
    perform remem._refuse_unknown(unforget.memory_id, unforget.ref);
  end if;
  v_set := remem._with_former(unforget.workspace, array[v_no]);
  perform remem._lock_memories(unforget.workspace, v_set);
  perform remem._lock_rows(unforget.workspace, v_set);
  select m.* into v_target from remem.memory m where m.workspace = unforget.workspace and m.memory_no = v_no;
  if v_target.memory_no is null then  -- purged meanwhile
    perform remem._refuse_unknown(unforget.memory_id, unforget.ref);
  elsif v_target.forgotten_at is null then
    return remem._outcome(unforget.workspace, v_no, 'unchanged');
  elsif v_target.superseded_at is null and exists (select from remem.memory m
      where m.workspace = unforget.workspace and m.ref = v_target.ref and m.superseded_at is null and m.forgotten_at is null) then
    return remem._outcome(unforget.workspace, v_no, 'conflict');
  end if;
  -- What was forgotten with it comes back with it; what had been forgotten before stays so.
  v_set := array(select m.memory_no from remem.memory m
    where m.workspace = unforget.workspace and m.memory_no = any (v_set) and m.forgotten_at = v_target.forgotten_at);
  update remem.memory m set forgotten_at = null, updated_at = now(), changed_xid = pg_current_xact_id()
  where m.workspace = unforget.workspace and m.memory_no = any (v_set);
  delete from remem.forgotten f where f.workspace = unforget.workspace and f.memory_no = any (v_set);
  if v_target.superseded_at is null then
    perform remem._revive(v_workspace, array[v_no]);
  end if;
  return remem._outcome(unforget.workspace, v_no, 'unforgotten');
end
$$;
comment on function remem.unforget(text, uuid, text) is
  'Brings back a forgotten memory (by its id, or the last one of a ref) and the versions that were forgotten with it. Outcome: unforgotten, unchanged (it is not forgotten), or conflict (its ref has another current memory by now).';
