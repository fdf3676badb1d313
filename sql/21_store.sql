-- Storing prepared items. Lock order, always: workspace, refs, texts, sessions, and only then rows.

-- Takes the refs and texts of a batch, so that two writers of one take turns and each sees what the other left.
-- Whoever supersedes, forgets or brings back a row holds its ref and, outside sessions, its text (a merge finds
-- it by that). Locks are advisory, because most refs have no row yet that could be locked, and taken in one
-- order everywhere, so writers wait for each other but never in a circle. A batch too large for the server's
-- lock table takes the workspace's writes as a whole instead.
create or replace function remem._lock_keys(workspace text, items remem._prepared_item[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._lock_names(workspace,
    array(select distinct (p.item).ref from unnest(items) p where (p.item).ref is not null),
    array(select distinct p.fingerprint from unnest(items) p where (p.item).ref is null and (p.item).session_ref is null));
end
$$;
comment on function remem._lock_keys(text, remem._prepared_item[]) is 'Makes writers of the same refs and texts take turns.';

create or replace function remem._lock_all_names(workspace text) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended(workspace, 7286));
end
$$;
comment on function remem._lock_all_names(text) is 'Takes every ref and text of a workspace at once, until the transaction ends.';

create or replace function remem._lock_names(workspace text, refs text[], texts bytea[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_incremental_sort = off  -- see _match_items
as $$
declare
  v_all bigint := hashtextextended(workspace, 7286);
  v_key bigint;
begin
  if cardinality(refs) + cardinality(texts) = 0 then
    return;
  elsif cardinality(refs) + cardinality(texts)
      > current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int / 16 then
    perform remem._lock_all_names(workspace);
    return;
  end if;
  perform pg_advisory_xact_lock_shared(v_all);
  for v_key in
    select distinct hashtextextended(_lock_names.workspace || E'\n' || r, 7287) as key from unnest(refs) r order by key
  loop
    perform pg_advisory_xact_lock(v_key);
  end loop;
  for v_key in
    select distinct hashtextextended(_lock_names.workspace || E'\n' || encode(t.fingerprint, 'hex'), 7288) as key
    from (
      select f as fingerprint from unnest(texts) f
      union
      select m.fingerprint from unnest(refs) r
      cross join lateral remem._live_ref(_lock_names.workspace, r) l
      cross join lateral (select x.fingerprint from remem.memory x
        where x.workspace = _lock_names.workspace and x.memory_no = l.memory_no offset 0) m
      where l.session_no is null
    ) t
    order by key
  loop
    perform pg_advisory_xact_lock(v_key);
  end loop;
end
$$;
comment on function remem._lock_names(text, text[], bytea[]) is 'Takes refs and texts, in the one order, until the transaction ends.';

-- The postings of live rows to be written. Called for new rows and for rows that come back.
create or replace function remem._add_postings(workspace_key bigint, items remem._prepared_item[], memory_nos bigint[],
  session_nos int[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.posting (workspace_key, word, memory_no, session_no, doc_len, tf)
  select distinct on (word, p.memory_no) _add_postings.workspace_key, remem._word(l.lexeme) as word, p.memory_no, p.session_no,
    least(p.doc_len, 32767), least(l.tf, 32767)
  from unnest(items, memory_nos, session_nos)
    p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, memory_no, session_no)
  cross join lateral unnest(p.lexemes, p.tfs) l (lexeme, tf)
  -- In the order of the index, whose leaves are then each visited once.
  order by word, p.memory_no
$$;
comment on function remem._add_postings(bigint, remem._prepared_item[], bigint[], int[]) is 'Writes the inverted index of new rows.';

-- Takes out the postings of rows, found by the words that each row says it has; `keep` leaves them in the past twin.
create or replace function remem._drop_postings(workspace text, memory_nos bigint[], keep boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_hashjoin = off  -- each is looked up by the primary key, whatever the statistics say: never everybody's postings
set enable_mergejoin = off
set enable_seqscan = off
as $$
declare
  v_key bigint := remem._workspace_key(workspace);
begin
  with gone as (
    delete from remem.posting p where p.ctid = any (array(
      select x.ctid from remem.memory m
      cross join lateral unnest(m.lexemes) l (lexeme)
      cross join lateral (select q.ctid from remem.posting q
        where q.workspace_key = v_key and q.word = remem._word(l.lexeme) and q.memory_no = m.memory_no offset 0) x
      where m.workspace = _drop_postings.workspace and m.memory_no = any (memory_nos)))
    returning p.*
  )
  insert into remem.posting_past select g.* from gone g where keep on conflict do nothing;
end
$$;
comment on function remem._drop_postings(text, bigint[], boolean) is 'Takes rows out of the inverted index.';

-- A vector of length one, so that half precision neither overflows nor vanishes. One that has it already, as those of an
-- export have, keeps every bit.
create or replace function remem._unit(vector real[]) returns @extschema:vector@.halfvec
language sql immutable strict parallel safe
return case when abs(@extschema:vector@.vector_norm(vector::@extschema:vector@.vector) - 1) < 0.0005
  then vector::@extschema:vector@.vector::@extschema:vector@.halfvec
  else @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::@extschema:vector@.halfvec end;
comment on function remem._unit(real[]) is 'A vector scaled to length one, in half precision.';

-- Vectors of live rows.
-- A row that has one keeps it. Says how many were new.
create or replace function remem._add_vectors(workspace text, space_no int, memory_nos bigint[], items remem._prepared_item[])
returns bigint
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_count bigint;
begin
  execute format(
    'insert into remem.embedding_%1$s (workspace, memory_no, embedding)
     select $1, p.memory_no, remem._unit((p.item).embedding)
     from unnest($3, $2) p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, memory_no)
     where (p.item).embedding is not null and p.memory_no is not null
     on conflict do nothing', space_no)
  using workspace, memory_nos, items;
  get diagnostics v_count = row_count;
  perform remem._add_tally(workspace, space_no, v_count);
  return v_count;
end
$$;
comment on function remem._add_vectors(text, int, bigint[], remem._prepared_item[]) is 'Writes vectors into the current space.';

-- Takes rows out of the live structures into their past twins. Called when rows are superseded.
create or replace function remem._retire(workspace text, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
  v_count bigint;
begin
  if coalesce(cardinality(memory_nos), 0) = 0 then
    return;
  end if;
  perform remem._drop_postings(workspace, memory_nos, true);
  perform remem._drop_entities(workspace, memory_nos);
  perform remem._drop_topics(workspace, memory_nos);
  for v_space_no in select s.space_no from remem.embedding_space s loop
    execute format(
      'with gone as (delete from remem.embedding_%1$s e where e.workspace = $1 and e.memory_no = any ($2) returning e.*)
       insert into remem.embedding_%1$s_past select g.* from gone g on conflict do nothing', v_space_no)
    using workspace, memory_nos;
    get diagnostics v_count = row_count;
    perform remem._add_tally(workspace, v_space_no, -v_count);
  end loop;
  perform remem._add_tally(workspace, 0, -cardinality(memory_nos)::bigint,
    -(select sum(m.doc_len) from remem.memory m where m.workspace = _retire.workspace and m.memory_no = any (memory_nos))::bigint);
  update remem.session s set turns = s.turns - d.turns, doc_len = s.doc_len - d.doc_len
  from (
    select m.session_no, count(*) as turns, sum(m.doc_len) as doc_len from remem.memory m
    where m.workspace = _retire.workspace and m.memory_no = any (memory_nos) and m.session_no is not null
    group by m.session_no order by m.session_no
  ) d
  where s.workspace = _retire.workspace and s.session_no = d.session_no;
end
$$;
comment on function remem._retire(text, bigint[]) is 'Moves postings and vectors of rows that are no longer live to the past.';

-- The sessions of a batch, found or created, locked in the order of their refs. refs and session_nos run in parallel.
create or replace function remem._lock_sessions(workspace text, wanted text[], out refs text[], out session_nos int[])
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if coalesce(cardinality(wanted), 0) = 0 then
    return;
  end if;
  insert into remem.session (workspace, session_ref)
  select _lock_sessions.workspace, w.session_ref
  from (select distinct r collate "C" as session_ref from unnest(wanted) r) w
  where not exists (select from remem.session s
    where s.workspace = _lock_sessions.workspace and s.session_ref = w.session_ref)
  order by w.session_ref
  on conflict on constraint session_ref_unique do nothing;
  select array_agg(s.session_ref), array_agg(s.session_no) into refs, session_nos
  from (
    select s.session_ref, s.session_no from remem.session s
    where s.workspace = _lock_sessions.workspace and s.session_ref = any (wanted)
    order by s.session_ref for update
  ) s;
end
$$;
comment on function remem._lock_sessions(text, text[]) is 'Finds, creates and locks the sessions that a batch writes to.';

-- The live row of a ref. A bound body, to be inlined. Plain equality leaves the planner, while a table is young and has
-- no statistics, with several indexes of one cost, and it may read the whole workspace for every ref: only the index of
-- refs has this order, and both ends make it stop at once.
create or replace function remem._live_ref(workspace text, key text)
returns table (memory_no bigint, memory_id uuid, ref text, content_hash bytea, session_no int)
language sql stable parallel safe rows 1
begin atomic
  select x.memory_no, x.memory_id, x.ref, x.content_hash, x.session_no
  from remem.memory x
  where (x.workspace, x.ref) >= (_live_ref.workspace, key) and (x.workspace, x.ref) <= (_live_ref.workspace, key)
    and x.ref is not null and x.superseded_at is null and x.forgotten_at is null
  order by x.workspace, x.ref
  limit 1;
end;
comment on function remem._live_ref(text, text) is 'The current row of a caller''s key, by its index.';

-- What each item meets: the live row of its ref, or an equal text that it merges into; or else what an old export must
-- not bring back: a purged ref, a forgotten text (of the ref; without a ref the same text in the same scope, or the same
-- turn), a text that the ref was corrected or superseded from (without a ref: the same in everything). Whether the
-- workspace has anything of a sort is asked once for all of them.
create or replace function remem._match_items(workspace text, items remem._prepared_item[])
returns table (pos bigint, memory_no bigint, memory_id uuid, ref text, outcome text)
language sql stable
set search_path = pg_catalog, remem, pg_temp
set enable_incremental_sort = off  -- else the order of _live_ref is made of another index
as $$
  select p.ordinality, coalesce(b.memory_no, r.memory_no, d.memory_no), coalesce(b.memory_id, r.memory_id, d.memory_id),
    coalesce(b.ref, r.ref, d.ref),
    case
      when b.outcome is not null then b.outcome
      when r.memory_no is null and d.memory_no is null then 'created'
      when r.memory_no is null then 'merged'
      when r.content_hash = p.content_hash then 'unchanged'
      else 'new_version'
    end
  from unnest(items) with ordinality p
  left join lateral remem._live_ref(_match_items.workspace, (p.item).ref) r on true
  left join lateral (
    select m.memory_no, m.memory_id, m.ref from remem.memory m
    where (p.item).ref is null and (p.item).session_ref is null
      and m.workspace = _match_items.workspace and m.fingerprint = p.fingerprint and m.body = (p.item).body
      and m.superseded_at is null and m.forgotten_at is null and m.session_no is null
      and m.kind = (p.item).kind and m.scope = (p.item).scope
      and m.scope_ref is not distinct from (p.item).scope_ref and m.subject is not distinct from (p.item).subject
      and m.attribute is not distinct from (p.item).attribute
      -- A row that is out of its time would swallow what is true now.
      and m.valid_from is not distinct from (p.item).valid_from and m.valid_to is not distinct from (p.item).valid_to
    order by m.memory_no limit 1
  ) d on true
  left join lateral (
    select x.* from (
      select 'purged' as outcome, null::bigint as memory_no, t.memory_id, t.ref from remem.tombstone t
      where t.workspace = _match_items.workspace and t.ref = (p.item).ref and t.blocks and r.memory_no is null
        and (select exists (select from remem.tombstone x
          where x.workspace >= _match_items.workspace and x.workspace <= _match_items.workspace order by x.workspace, x.memory_id limit 1))
      union all
      select 'forgotten', m.memory_no, m.memory_id, m.ref
      from remem.forgotten f
      cross join lateral (select x.memory_no, x.memory_id, x.ref, x.scope, x.scope_ref from remem.memory x
        where x.workspace = f.workspace and x.memory_no = f.memory_no offset 0) m
      where f.workspace = _match_items.workspace and f.fingerprint = p.fingerprint
        and (select exists (select from remem.forgotten x
          where x.workspace >= _match_items.workspace and x.workspace <= _match_items.workspace order by x.workspace, x.memory_no limit 1)) and case
        when (p.item).ref is not null then f.ref = (p.item).ref
        when (p.item).session_ref is null then f.session_no is null and m.scope = (p.item).scope
          and m.scope_ref is not distinct from (p.item).scope_ref
        else f.turn_no = (p.item).turn_no and f.session_no = (select s.session_no from remem.session s
          where s.workspace = _match_items.workspace and s.session_ref = (p.item).session_ref) end
      union all
      select 'superseded', o.memory_no, o.memory_id, o.ref
      from remem.lineage l
      cross join lateral (select x.memory_no, x.memory_id, x.ref, x.content_hash from remem.memory x
        where x.workspace = l.workspace and x.memory_no = l.old_no offset 0) o
      where l.workspace = _match_items.workspace and l.ref = (p.item).ref and l.how <> 'new_version'
        and l.fingerprint = p.fingerprint
        and (select exists (select from remem.lineage x
          where x.workspace >= _match_items.workspace and x.workspace <= _match_items.workspace order by x.workspace, x.old_no limit 1))
      union all
      select 'superseded', o.memory_no, o.memory_id, o.ref
      from remem.lineage l
      cross join lateral (select x.memory_no, x.memory_id, x.ref, x.content_hash from remem.memory x
        where x.workspace = l.workspace and x.memory_no = l.old_no offset 0) o
      where o.content_hash = p.content_hash and (p.item).ref is null and l.workspace = _match_items.workspace and l.ref is null and l.how <> 'new_version'
        and l.fingerprint = p.fingerprint
    ) x
    where (p.item).on_conflict <> 'rewrite' and d.memory_no is null and r.content_hash is distinct from p.content_hash
    limit 1
  ) b on true
$$;
comment on function remem._match_items(text, remem._prepared_item[]) is 'Decides whether an item is new, known, a duplicate, a new version or not to come back.';
