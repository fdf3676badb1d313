-- The pointer index: kept by the writers' path, rebuilt in batches. No row of it is shared by two memories, so
-- writers of the same names never wait for each other.

-- The names of one memory, and =attribute where it says that of a subject (no name begins like that). A bound body, to be
-- inlined: the one definition for new rows, for rows that come back and for a rebuild.
create or replace function remem._names_of(title text, summary text, body text, speaker text, subject text, topic_key text,
  attribute text, tags text[], aliases text[], entities text[])
returns table (name text, given boolean)
language sql stable parallel safe rows 8
begin atomic
  select e.name, e.given
  from remem._extract_entities(concat_ws(E'\n', title, summary, body), array[speaker, subject, topic_key] || tags || aliases, entities) e
  union all
  select a.name, true
  from (select '=' || btrim(remem._words(remem._fold(attribute))) as name where subject is not null offset 0) a
  where octet_length(a.name) between 2 and 128;
end;
comment on function remem._names_of(text, text, text, text, text, text, text, text[], text[], text[]) is
  'What the pointer index has of a memory.';

-- What a memory declares to be one thing: its title and the aliases beside it, in both directions.
create or replace function remem._aliases_of(title text, aliases text[]) returns table (name text, other text)
language sql stable parallel safe rows 2
begin atomic
  select distinct d.name, d.other
  from (
    select remem._entity_names(replace(title, E'\n', ' ')) as title, remem._entity_names(replace(x.alias, E'\n', ' ')) as alias
    from (select u.alias from unnest(aliases) with ordinality u (alias, n) order by u.n limit 32) x
    where title is not null
    offset 0
  ) a
  cross join lateral (values (a.alias, a.title), (a.title, a.alias)) d (name, other)
  where a.title <> a.alias and octet_length(a.title) between 2 and 128 and octet_length(a.alias) between 2 and 128;
end;
comment on function remem._aliases_of(text, text[]) is 'Pairs of names that a memory declares to mean the same.';

-- The names that stored rows have.
create or replace function remem._memory_names(workspace text, memory_nos bigint[])
returns table (memory_no bigint, name text, given boolean)
language sql stable rows 100
set search_path = pg_catalog, remem, pg_temp
as $$
  select m.memory_no, n.name, n.given
  from unnest(memory_nos) w (memory_no)
  -- offset 0 keeps it a look-up: a join might find the names of the whole workspace.
  cross join lateral (select x.* from remem.memory x
    where x.workspace = _memory_names.workspace and x.memory_no = w.memory_no offset 0) m
  cross join lateral remem._names_of(m.title, m.summary, m.body, m.speaker, m.subject, m.topic_key, m.attribute, m.tags,
    m.aliases, m.entities) n
$$;
comment on function remem._memory_names(text, bigint[]) is 'The names of memories, extracted from what is stored.';

create or replace function remem._memory_aliases(workspace text, memory_nos bigint[])
returns table (memory_no bigint, name text, other text)
language sql stable rows 10
set search_path = pg_catalog, remem, pg_temp
as $$
  select m.memory_no, a.name, a.other
  from unnest(memory_nos) w (memory_no)
  cross join lateral (select x.memory_no, x.title, x.aliases from remem.memory x
    where x.workspace = _memory_aliases.workspace and x.memory_no = w.memory_no offset 0) m
  cross join lateral remem._aliases_of(m.title, m.aliases) a
$$;
comment on function remem._memory_aliases(text, bigint[]) is 'Pairs of names that memories declare to mean the same.';

-- The pointer index of new rows, which are at hand. Nothing conflicts: each name of a row comes once.
create or replace function remem._add_item_entities(workspace text, items remem._prepared_item[], memory_nos bigint[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_memoize = off  -- no two items are the same
as $$
  insert into remem.memory_entity (workspace, name, memory_no, given)
  select _add_item_entities.workspace, n.name, p.memory_no, n.given
  from unnest(items, memory_nos) p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, memory_no)
  cross join lateral remem._names_of((p.item).title, (p.item).summary, (p.item).body, (p.item).speaker, (p.item).subject,
    (p.item).topic_key, (p.item).attribute, (p.item).tags, (p.item).aliases, (p.item).entities) n;
  insert into remem.entity_alias (workspace, name, other, memory_no)
  select _add_item_entities.workspace, a.name, a.other, p.memory_no
  from unnest(items, memory_nos) p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, memory_no)
  cross join lateral remem._aliases_of((p.item).title, (p.item).aliases) a
  where (p.item).title is not null and (p.item).aliases is not null
$$;
comment on function remem._add_item_entities(text, remem._prepared_item[], bigint[]) is 'Writes the pointer index of new rows.';

-- The same for stored rows that become live again and for a rebuild.
create or replace function remem._add_entities(workspace text, memory_nos bigint[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.memory_entity (workspace, name, memory_no, given)
  select _add_entities.workspace, n.name, n.memory_no, n.given
  from remem._memory_names(_add_entities.workspace, memory_nos) n
  on conflict do nothing;
  insert into remem.entity_alias (workspace, name, other, memory_no)
  select _add_entities.workspace, a.name, a.other, a.memory_no
  from remem._memory_aliases(_add_entities.workspace, memory_nos) a
  on conflict do nothing;
$$;
comment on function remem._add_entities(text, bigint[]) is 'Writes the pointer index of stored rows that become live.';

-- Called by the writers for rows that are no longer live. Nothing is kept: names are found again in the text.
create or replace function remem._drop_entities(workspace text, memory_nos bigint[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  delete from remem.memory_entity e where e.workspace = _drop_entities.workspace and e.memory_no = any (memory_nos);
  delete from remem.entity_alias a where a.workspace = _drop_entities.workspace and a.memory_no = any (memory_nos);
$$;
comment on function remem._drop_entities(text, bigint[]) is 'Takes rows out of the pointer index.';

-- A batch of live rows after a cursor, with the workspace kept from its writers until the transaction ends: what
-- is derived from a row cannot then be written by two. Answers of caches are void afterwards.
create or replace function remem._take_batch(workspace text, after uuid, "limit" int) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_after bigint := 0;
  v_batch bigint[];
begin
  if "limit" is null or "limit" not between 1 and 10000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 10000),
      'A batch has 1 to 10000 memories');
  end if;
  if after is not null then
    select m.memory_no into v_after from remem.memory m
    where m.workspace = _take_batch.workspace and m.memory_id = _take_batch.after;
    if not found then
      perform remem._raise('RM101', jsonb_build_object('argument', 'after', 'value', after),
        'Give the memory_id that the last batch returned, or nothing to begin');
    end if;
  end if;
  perform remem._lock_workspace(workspace, exclusive => true);
  v_batch := array(
    select m.memory_no from remem.memory m
    where m.workspace = _take_batch.workspace and m.memory_no > v_after
      and m.superseded_at is null and m.forgotten_at is null
    order by m.memory_no limit "limit");
  update remem.memory m set changed_xid = pg_current_xact_id()
  where m.workspace = _take_batch.workspace and m.memory_no = v_batch[cardinality(v_batch)];
  return v_batch;
end
$$;
comment on function remem._take_batch(text, uuid, int) is 'The next live rows of a rebuild, kept from writers.';

create or replace function remem._memory_id(workspace text, memory_no bigint) returns uuid
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select m.memory_id from remem.memory m where m.workspace = _memory_id.workspace and m.memory_no = _memory_id.memory_no
$$;
comment on function remem._memory_id(text, bigint) is 'The public id of a row.';

create or replace function remem.rebuild_entities(
  workspace text, after uuid default null, "limit" int default 1000
) returns remem.batch_done
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_batch bigint[];
  v_done remem.batch_done;
begin
  perform remem._authorize(workspace, 'write');
  v_batch := remem._take_batch(workspace, after, "limit");
  v_done.count := cardinality(v_batch);
  v_done.memory_id := remem._memory_id(workspace, v_batch[v_done.count]);
  perform remem._drop_entities(workspace, v_batch);
  perform remem._add_entities(workspace, v_batch);
  return v_done;
end
$$;
comment on function remem.rebuild_entities(text, uuid, int) is
  'Finds the names of the next `limit` live memories anew. Returns the last memory_id, to be given as `after` to the next call, and how many it did; memory_id is null when there are none left. Writers of the workspace wait meanwhile.';

-- Postings of a batch made anew by today's analyser; what depends on them (length, sessions, counts) follows.
create or replace function remem._rebuild_postings(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_dictionaries regdictionary[] := remem._language_dictionaries(workspace.language);
  v_delta bigint;
begin
  perform remem._drop_postings(workspace.workspace, memory_nos, false);
  with analysed as materialized (
    select m.memory_no, m.session_no, m.doc_len as old_len, m.lexemes as old_lexemes, m.analyser_no, a.*
    from remem.memory m
    cross join lateral (
      select coalesce(array_agg(l.lexeme), '{}') as lexemes, coalesce(array_agg(l.tf), '{}') as tfs,
        coalesce(sum(l.tf) filter (where not l.extra), 0)::int as doc_len
      from remem._lexemes(remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags), v_dictionaries) l
    ) a
    where m.workspace = (_rebuild_postings.workspace).workspace and m.memory_no = any (memory_nos)
  ), written as (
    insert into remem.posting (workspace_key, word, memory_no, session_no, doc_len, tf)
    select distinct on (word, a.memory_no) (_rebuild_postings.workspace).workspace_key, remem._word(l.lexeme) as word, a.memory_no, a.session_no,
      least(a.doc_len, 32767), least(l.tf, 32767)
    from analysed a cross join lateral unnest(a.lexemes, a.tfs) l (lexeme, tf)
    on conflict on constraint posting_pkey do update
      set session_no = excluded.session_no, doc_len = excluded.doc_len, tf = excluded.tf
  ), changed as (
    update remem.memory m
    set lexemes = a.lexemes, doc_len = a.doc_len, analyser_no = (_rebuild_postings.workspace).analyser_no,
        changed_xid = pg_current_xact_id()
    from analysed a
    where m.workspace = (_rebuild_postings.workspace).workspace and m.memory_no = a.memory_no
      and (a.doc_len <> a.old_len or a.analyser_no <> (_rebuild_postings.workspace).analyser_no
        or not (a.lexemes @> a.old_lexemes and a.lexemes <@ a.old_lexemes))
  ), longer as (
    update remem.session s set doc_len = s.doc_len + d.delta
    from (select a.session_no, sum(a.doc_len - a.old_len) as delta from analysed a
      where a.session_no is not null group by a.session_no) d
    where s.workspace = (_rebuild_postings.workspace).workspace and s.session_no = d.session_no and d.delta <> 0
  )
  select sum(a.doc_len - a.old_len) into v_delta from analysed a;
  perform remem._add_tally((_rebuild_postings.workspace).workspace, 0, 0, coalesce(v_delta, 0));
end
$$;
comment on function remem._rebuild_postings(remem.workspace, bigint[]) is 'Analyses live rows anew and writes their postings.';

create or replace function remem.rebuild_postings(
  workspace text, after uuid default null, "limit" int default 1000
) returns remem.batch_done
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_workspace remem.workspace;
  v_batch bigint[];
  v_done remem.batch_done;
begin
  perform remem._authorize(workspace, 'write');
  v_batch := remem._take_batch(workspace, after, "limit");
  v_done.count := cardinality(v_batch);
  v_done.memory_id := remem._memory_id(workspace, v_batch[v_done.count]);
  select w.* into v_workspace from remem.workspace w where w.workspace = rebuild_postings.workspace;
  if v_done.count > 0 then
    perform remem._rebuild_postings(v_workspace, v_batch);
  end if;
  return v_done;
end
$$;
comment on function remem.rebuild_postings(text, uuid, int) is
  'Analyses the next `limit` live memories anew and writes the lexical index. Returns the last memory_id, to be given as `after` to the next call, and how many it did; memory_id is null when there are none left. Writers of the workspace wait meanwhile.';
