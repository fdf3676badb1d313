-- Topics derived from memories: topic keys, and titles of rows that are important, pinned or unresolved. Kept by the
-- writers' path, so that the catalog fills itself; bounded, and never a reason to wait: a writer touches an entry only
-- when it is new or when the memory it stood for is not live or says less, and leaves it when another writer has it.

create or replace function remem._derived_limit() returns int
language sql immutable parallel safe
return 2000;
comment on function remem._derived_limit() is 'How many derived topics a workspace has at most.';

-- What memories are about. A title of more than 300 bytes is no topic.
create or replace function remem._memory_topics(workspace text, memory_nos bigint[])
returns table (memory_no bigint, title text, scope text, scope_ref text, importance real, unresolved boolean, by_key boolean, is_live boolean, forgotten boolean,
  freshness text)
language sql stable rows 10
set search_path = pg_catalog, remem, pg_temp
as $$
  select m.memory_no, v.title, m.scope, m.scope_ref, case when m.pinned then greatest(m.importance, 0.8) else m.importance end, m.unresolved, v.by_key,
    m.superseded_at is null and m.forgotten_at is null, m.forgotten_at is not null, m.freshness
  from unnest(memory_nos) w (memory_no)
  join remem.memory m on m.workspace = _memory_topics.workspace and m.memory_no = w.memory_no
  cross join lateral (
    select btrim(m.topic_key), true
    union all
    select btrim(m.title), false where m.pinned or m.unresolved or m.importance >= 0.8
  ) v (title, by_key)
  where octet_length(v.title) between 1 and 300
$$;
comment on function remem._memory_topics(text, bigint[]) is 'The topics that memories stand for.';

create or replace function remem._derived_part(title text, importance real, unresolved boolean, freshness text, memory_no bigint) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select jsonb_build_object('title', title, 'importance', importance, 'unresolved', unresolved, 'freshness', freshness, 'memory_no', memory_no)
$$;
comment on function remem._derived_part(text, real, boolean, text, bigint) is 'What a memory contributes to a catalog entry.';

-- Called by the writers for rows that become live. In the order of the rows, so that the same writes give the same catalog.
create or replace function remem._add_topics(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row record;
  v_key text;
  v_hash bytea;
  v_old remem.topic;
  v_part jsonb;
  v_room int;
begin
  for v_row in
    select t.* from remem._memory_topics(workspace.workspace, memory_nos) t order by t.memory_no, t.by_key desc
  loop
    v_key := btrim(remem._phrase_words(remem._fold(v_row.title)));
    continue when v_key = '';
    v_hash := remem._entry_hash(remem._owner(v_row.scope, v_row.scope_ref), v_key);
    select t.* into v_old from remem.topic t where t.workspace = workspace.workspace and t.entry_hash = v_hash;
    v_part := v_old.parts -> 'memory';
    if v_part is not null then
      continue when (v_part ->> 'importance')::real >= v_row.importance
        and ((v_part ->> 'unresolved')::boolean or not v_row.unresolved)
        and (v_part ->> 'freshness' = 'current' or v_row.freshness <> 'current')
        and remem._memory_is_live(workspace.workspace, v_old.memory_no);
    elsif v_old.topic_no is null then
      v_room := coalesce(v_room, remem._derived_limit() - (select count(*) from remem.topic t
        where t.workspace = workspace.workspace and t.memory_no is not null)::int);
      continue when v_room <= 0;
    end if;
    continue when not remem._lock_entry(workspace.workspace, v_hash, false);
    perform remem._put_part(workspace, v_row.scope, v_row.scope_ref, v_key, 'memory',
      case when v_part is not null and remem._memory_is_live(workspace.workspace, v_old.memory_no)
        then remem._derived_part(v_part ->> 'title', greatest(v_row.importance, (v_part ->> 'importance')::real),
          (v_part ->> 'unresolved')::boolean or v_row.unresolved,
          case when 'current' in (v_part ->> 'freshness', v_row.freshness) then 'current' else v_row.freshness end, v_row.memory_no)
        else remem._derived_part(v_row.title, v_row.importance, v_row.unresolved, v_row.freshness, v_row.memory_no) end);
    if v_old.topic_no is null then
      v_room := v_room - 1;
    end if;
  end loop;
end
$$;
comment on function remem._add_topics(remem.workspace, bigint[]) is 'Puts what new memories are about into the catalog.';

create or replace function remem._memory_is_live(workspace text, memory_no bigint) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return exists (  -- offset 0: see _topic_is_live
    select from (select x.superseded_at, x.forgotten_at from remem.memory x
      where x.workspace = _memory_is_live.workspace and x.memory_no = _memory_is_live.memory_no offset 0) m
    where m.superseded_at is null and m.forgotten_at is null);
end
$$;
comment on function remem._memory_is_live(text, bigint) is 'Whether a memory is neither superseded nor forgotten.';

-- What the live memories of a key or title say together; memory_no is null when there are none.
create or replace function remem._topic_heir(
  workspace text, scope text, scope_ref text, title text, out importance real, out unresolved boolean, out freshness text, out memory_no bigint
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
begin
  execute format('select max(s.importance), bool_or(s.unresolved),'
    ' case when bool_or(s.freshness = ''current'') then ''current'' when bool_or(s.freshness = ''unknown'') then ''unknown'' else ''stale'' end, max(s.memory_no) from ('
    ' select m.memory_no, m.unresolved, m.freshness, case when m.pinned then greatest(m.importance, 0.8) else m.importance end as importance'
    ' from remem.memory m where m.workspace = $1 and (m.attrs @@ %L or m.attrs @@ %L)'
    ' and m.superseded_at is null and m.forgotten_at is null and m.scope = $2 and m.scope_ref is not distinct from $3 limit 1000) s',
    format('$.workspace == %s && $.topic_key == %s', to_jsonb(workspace), to_jsonb(title)),
    format('$.workspace == %s && $.title == %s && ($.important == true || $.unresolved == true)', to_jsonb(workspace), to_jsonb(title)))
  into importance, unresolved, freshness, memory_no using workspace, scope, scope_ref;
end
$$;
comment on function remem._topic_heir(text, text, text, text) is 'What live memories say of a topic.';

-- The same of many topics, of those for which there is something to say: the workspace's live rows are read once.
create or replace function remem._topic_heirs(workspace text, topic_nos bigint[])
returns table (topic_no bigint, importance real, unresolved boolean, freshness text, memory_no bigint)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set enable_nestloop = off  -- no estimate sees how many there are
as $$
#variable_conflict use_column
begin
  return query
  with said as materialized (
    select unnest(array[m.attrs ->> 'topic_key',
        case when 'true' in (m.attrs -> 'important', m.attrs -> 'unresolved') then m.attrs ->> 'title' end]) as title,
      m.scope, coalesce(m.scope_ref, '') as scope_ref, m.memory_no, m.unresolved, m.freshness,
      case when m.pinned then greatest(m.importance, 0.8) else m.importance end as importance
    from remem.memory m where m.workspace = _topic_heirs.workspace and m.superseded_at is null and m.forgotten_at is null
  )
  select t.topic_no, max(s.importance), bool_or(s.unresolved),
    case when bool_or(s.freshness = 'current') then 'current' when bool_or(s.freshness = 'unknown') then 'unknown' else 'stale' end, max(s.memory_no)
  from remem.topic t join said s on s.title = t.parts #>> '{memory,title}' and s.scope = t.scope and s.scope_ref = coalesce(t.scope_ref, '')
  where t.workspace = _topic_heirs.workspace and t.topic_no = any (topic_nos)
  group by t.topic_no;
end
$$;
comment on function remem._topic_heirs(text, bigint[]) is 'What live memories say of each of some topics.';

-- Called by the writers for rows that are no longer live. Their topics go over to another memory of the same key or
-- title; without one a superseded row's topic stays hidden until its new version takes it, a forgotten row's goes.
create or replace function remem._drop_topics(workspace text, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off
as $$
declare
  c_few constant int := 20;
  c_rows constant int := 500;  -- read in the time of a look-up
  v_row record;
  v_workspace remem.workspace;
  v_next record;
begin
  for v_row in
    select t.topic_no, t.key, t.entry_hash, t.scope, t.scope_ref, t.parts #>> '{memory,title}' as title, count(*) over () as topics,
      coalesce((select bool_or(x.forgotten) from remem._memory_topics(_drop_topics.workspace, array[t.memory_no]) x), true) as forgotten
    from remem.topic t
    where t.workspace = _drop_topics.workspace and t.memory_no = any (memory_nos) order by t.topic_no
  loop
    if v_workspace.workspace is null then
      select w.* into v_workspace from remem.workspace w where w.workspace = _drop_topics.workspace;
      if v_row.topics > c_few and c_rows * v_row.topics >= (remem._count_tally(workspace, 0)).n then
        perform remem._drop_many_topics(v_workspace, memory_nos);
        return;
      end if;
    end if;
    continue when not remem._lock_entry(workspace, v_row.entry_hash, false);  -- hidden all the same
    v_next := remem._topic_heir(workspace, v_row.scope, v_row.scope_ref, v_row.title);
    if v_next.memory_no is not null then
      perform remem._put_part(v_workspace, v_row.scope, v_row.scope_ref, v_row.key, 'memory',
        remem._derived_part(v_row.title, v_next.importance, v_next.unresolved, v_next.freshness, v_next.memory_no));
    elsif v_row.forgotten then
      perform remem._put_part(v_workspace, v_row.scope, v_row.scope_ref, v_row.key, 'memory', null);
    end if;
  end loop;
end
$$;
comment on function remem._drop_topics(text, bigint[]) is 'Takes what memories stood for out of the catalog.';

-- The same for thousands of topics. Looking each up would read every time what the GIN index has not sorted in yet, which is
-- what a statement over many memories leaves. Entries are taken first, those that are free, so that an heir which another
-- writer brought before is seen.
create or replace function remem._drop_many_topics(workspace remem.workspace, memory_nos bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_topics bigint[] := array(
    select t.topic_no
    from (select x.* from remem.topic x where x.workspace = workspace.workspace and x.memory_no = any (memory_nos) order by x.topic_no offset 0) t
    where remem._lock_entry(t.workspace, t.entry_hash, false));
begin
  perform remem._put_part(workspace, d.scope, d.scope_ref, d.key, 'memory',
    case when d.heir_no is not null then remem._derived_part(d.title, d.importance, d.unresolved, d.freshness, d.heir_no) end)
  from (
    select t.key, t.scope, t.scope_ref, t.parts #>> '{memory,title}' as title, h.importance, h.unresolved, h.freshness, h.memory_no as heir_no
    from remem.topic t
    left join remem._topic_heirs(workspace.workspace, v_topics) h on h.topic_no = t.topic_no
    left join (select x.memory_no, bool_or(x.forgotten) as forgotten
      from remem._memory_topics(workspace.workspace, memory_nos) x group by x.memory_no) g on g.memory_no = t.memory_no
    where t.workspace = workspace.workspace and t.topic_no = any (v_topics) and (h.topic_no is not null or coalesce(g.forgotten, true))
    order by t.topic_no offset 0) d;
end
$$;
comment on function remem._drop_many_topics(remem.workspace, bigint[]) is 'As _drop_topics, the live rows read once.';

-- A live memory is worth something else now (`old` is how it was): what its topics say is made anew of all live ones.
create or replace function remem._rederive_topics(workspace remem.workspace, old remem.memory) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_topic remem.topic;
  v_next record;
begin
  for v_topic in
    select t.* from (
      select distinct remem._entry_hash(remem._owner(old.scope, old.scope_ref), btrim(remem._phrase_words(remem._fold(btrim(n.title))))) as hash
      from unnest(array[old.topic_key, old.title]) n (title) where n.title is not null
    ) h
    join remem.topic t on t.workspace = workspace.workspace and t.entry_hash = h.hash
    where t.parts ? 'memory' order by t.topic_no
  loop
    continue when not remem._lock_entry(workspace.workspace, v_topic.entry_hash, false);  -- the next change of it repairs that
    v_next := remem._topic_heir(workspace.workspace, v_topic.scope, v_topic.scope_ref, v_topic.parts #>> '{memory,title}');
    perform remem._put_part(workspace, v_topic.scope, v_topic.scope_ref, v_topic.key, 'memory', case when v_next.memory_no is not null
      then remem._derived_part(v_topic.parts #>> '{memory,title}', v_next.importance, v_next.unresolved, v_next.freshness, v_next.memory_no) end);
  end loop;
end
$$;
comment on function remem._rederive_topics(remem.workspace, remem.memory) is 'Makes the topics of a changed memory anew.';

create or replace function remem.derive_topics(workspace text, after uuid default null, "limit" int default 1000)
returns remem.batch_done
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_batch bigint[];
  v_workspace remem.workspace;
begin
  perform remem._authorize(workspace, 'write');
  v_batch := remem._take_batch(workspace, after, "limit");
  select w.* into v_workspace from remem.workspace w where w.workspace = derive_topics.workspace;
  if cardinality(v_batch) = 0 then
    -- The end of a run: what stands for nothing any more goes.
    perform remem._put_part(v_workspace, t.scope, t.scope_ref, t.key, 'memory', null)
    from remem.topic t
    where t.workspace = derive_topics.workspace and t.memory_no is not null
      and not remem._memory_is_live(t.workspace, t.memory_no);
    return (null, 0)::remem.batch_done;
  end if;
  perform remem._add_topics(v_workspace, v_batch);
  return (remem._memory_id(workspace, v_batch[cardinality(v_batch)]), cardinality(v_batch))::remem.batch_done;
end
$$;
comment on function remem.derive_topics(text, uuid, int) is
  'Derives topics from a batch of current memories, for those written before version 0.2; remember does it by itself. Repeat with the memory_id that came back as after until it is null.';
