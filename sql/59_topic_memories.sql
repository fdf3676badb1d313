-- topic_memories: what is remembered of a topic, whatever a prompt calls it.

create or replace function remem.topic_memories(
  workspace text, topic_ids uuid[], k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
begin
  perform remem._authorize(workspace, 'read');
  perform remem._check_query('', k);
  if topic_ids is null or cardinality(topic_ids) > 50 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'topic_ids', 'got', cardinality(topic_ids), 'limit', 50), 'Name up to 50 topics');
  end if;
  return remem._topic_memories(workspace, topic_ids, k, options);
end
$$;
comment on function remem.topic_memories(text, uuid[], int, jsonb) is
  'The memories of some topics: those that have a topic''s title or alias as topic_key or title, and those that its text recalls well, by a vector only where the topic has one. A list of objects with memory_id, topic_id and relevance (0 to 1, to the topic), at most k of each topic, best first. Options are those of recall: filter, kinds, scopes and so on. Unknown ids are passed over.';

-- How much more a memory is like some other topic of the same owner, or of all, than it is like this one; 0 where this
-- one is the nearest, null without vectors or where the four nearest are none that live. Parallel to memory_ids. Only what
-- is nearer than this one is sorted and looked at: of thousands of topics, a few.
create or replace function remem._topic_gaps(workspace text, space_no int, owner text, vector real[], memory_ids uuid[]) returns float8[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_gaps float8[];
begin
  if vector is null then
    return array_fill(null::float8, array[cardinality(memory_ids)]);
  end if;
  execute format('select array_agg(coalesce(g.likeness, case when g.nearer < 4 then x.own end) - x.own order by i.n)'
    ' from unnest($5) with ordinality i (memory_id, n)'
    ' left join lateral (select e.embedding, 1 - (e.embedding operator(@extschema:vector@.<=>) $4) as own'
    '   from remem.memory m join remem.embedding_%s e on e.workspace = m.workspace and e.memory_no = m.memory_no'
    '   where m.workspace = $1 and m.memory_id = i.memory_id offset 0) x on true'
    ' cross join lateral (select count(*) as nearer, max(n.likeness) filter (where'
    '     (select remem._topic_is_live(t) from remem.topic t where t.workspace = $1 and t.topic_no = n.topic_no)) as likeness'
    '   from (select r.topic_no, 1 - (r.embedding operator(@extschema:vector@.<=>) x.embedding) as likeness from remem.topic_embedding r'
    '     where r.workspace = $1 and r.space_no = $2 and r.owner in ('''', $3)'
    '       and 1 - (r.embedding operator(@extschema:vector@.<=>) x.embedding) > x.own order by 2 desc limit 4) n) g', space_no)
  into v_gaps using workspace, space_no, owner, vector::@extschema:vector@.vector::@extschema:vector@.halfvec, memory_ids;
  return v_gaps;
end
$$;
comment on function remem._topic_gaps(text, int, text, real[], uuid[]) is 'How much nearer memories are to another topic.';

-- By its own text a topic finds what belongs to it far better than the rest. What is near to the best is left out where
-- it is more like another topic, what is behind it where it is not most like this one. The shares were found with the
-- catalog of the development half (docs/planner.md).
create or replace function remem._topic_memories(workspace text, topic_ids uuid[], k int, options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_least constant float8 := 0.2;
  c_share constant float8 := 0.7;  -- of the best one's relevance
  c_other constant float8 := 0.05; -- how much more like another topic it may be
  v_filter jsonpath := remem._row_filter(workspace, remem._check_options(options));
  v_space_no int := (select w.space_no from remem.workspace w where w.workspace = _topic_memories.workspace);
  v_topic record;
  v_path jsonpath;
  v_named uuid[];
  v_hits remem.recall_hit[];
  v_best float8;
  v_gaps float8[];
  v_found jsonb := '[]';
  -- The same, for a memory that is most like this topic; to a hash of words that says little.
  v_own float8 := case when v_space_no = 1 then c_share else 0.4 end;
begin
  for v_topic in
    select t.topic_id, t.owner, t.title, t.aliases, t.summary, t.tags, e.embedding::@extschema:vector@.vector::real[] as vector
    from unnest(topic_ids) with ordinality i (topic_id, n)
    join remem.topic t on t.workspace = _topic_memories.workspace and t.topic_id = i.topic_id
    left join remem.topic_embedding e on e.workspace = t.workspace and e.space_no = v_space_no and e.topic_no = t.topic_no
    order by i.n
  loop
    -- Signs of the query language are none in a title.
    v_hits := (remem._recall(workspace, translate(remem._topic_text(v_topic.title, v_topic.aliases, v_topic.summary, v_topic.tags), '"-', '  '),
      v_topic.vector, k, (options - '{kind,expanded,expanded_embeddings,explain}'::text[])
        || jsonb_build_object('min_relevance', c_least, 'space', (remem._space(v_space_no)).name, 'graph', 'never'))).hits;
    -- By the GIN index, from which the other columns are hidden: it has few rows of a name, the others the whole workspace.
    v_path := remem._named_filter(workspace, array[v_topic.title] || v_topic.aliases);
    v_named := array(select m.memory_id from remem.memory m
      where m.attrs @@ v_path and m.workspace || '' = _topic_memories.workspace
        and coalesce(m.superseded_at, m.forgotten_at) is null and (v_filter is null or m.attrs @@ v_filter)
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      order by m.memory_no desc limit k);
    v_best := (select max(h.relevance) from unnest(v_hits) h);
    -- What has the topic's name belongs to it, whatever it is like.
    v_hits := array(select h from unnest(v_hits) h where h.relevance >= v_own * v_best and h.memory_id <> all (v_named) order by h.rank);
    v_gaps := remem._topic_gaps(workspace, v_space_no, v_topic.owner, v_topic.vector, array(select h.memory_id from unnest(v_hits) h order by h.rank));
    v_found := v_found || coalesce((
      select jsonb_agg(jsonb_build_object('memory_id', f.memory_id, 'topic_id', v_topic.topic_id, 'relevance', f.relevance) order by f.relevance desc, f.memory_id)
      from (
        select h.memory_id, round(h.relevance::numeric, 4) as relevance
        from (select x.memory_id, x.relevance, v_gaps[row_number() over (order by x.rank)] as gap from unnest(v_hits) x) h
        where case when h.relevance >= c_share * v_best then coalesce(h.gap <= c_other, true) else h.gap <= 0 end
        union all
        select n, 1 from unnest(v_named) n
        order by 2 desc, 1 limit k
      ) f), '[]');
  end loop;
  return v_found;
end
$$;
comment on function remem._topic_memories(text, uuid[], int, jsonb) is 'The memories of topics; the caller has authorised.';

create or replace function remem._named_filter(workspace text, names text[]) returns jsonpath
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select format('$.workspace == %s && (%s)', to_jsonb(workspace), string_agg(format('$.topic_key == %1$s || $.title == %1$s', to_jsonb(n)), ' || '))::jsonpath
  from unnest(names) n
$$;
comment on function remem._named_filter(text, text[]) is 'The predicate of memories under one of some names.';
