-- The doors of topics: put, list, drop.

create or replace function remem.put_topic(
  workspace text, title text, aliases text[] default '{}', tags text[] default '{}', summary text default null,
  importance real default 0.5, unresolved boolean default false, providers text[] default '{}', scope text default 'global',
  scope_ref text default null, parent text default null, freshness text default 'current', source text default '',
  embedding real[] default null, space text default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_key text;
  v_topic remem.topic;
begin
  perform remem._authorize(workspace, 'write');
  perform remem._check_length('title', title, 1000, null);
  perform remem._check_length('summary', summary, 4000, null);
  perform remem._check_length('parent', parent, 1000, null);
  perform remem._check_length('scope_ref', scope_ref, 500, null);
  perform remem._check_length('source', source, 200, null);
  title := normalize(btrim(title), nfc);
  v_key := btrim(remem._phrase_words(remem._fold(title)));
  if coalesce(v_key, '') = '' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'title', 'value', title), 'A title has a letter or a digit');
  end if;
  aliases := remem._check_texts('aliases', aliases);
  tags := remem._check_texts('tags', tags);
  providers := remem._check_texts('providers', providers);
  if importance is null or not importance between 0 and 1 then
    perform remem._raise('RM001', '{"argument": "importance"}', 'importance lies between 0 and 1');
  end if;
  scope := coalesce(nullif(scope, 'workspace'), 'global');
  perform remem._check_member('scope', scope, '{global,project,session,user}', null);
  if (scope = 'global') <> (scope_ref is null) or scope_ref = '' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'scope_ref', 'value', scope_ref),
      'Every scope but global needs a scope_ref; global has none');
  end if;
  perform remem._check_member('freshness', freshness, '{current,stale,unknown}', null);
  if source is null or source = 'memory' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'source', 'value', source), 'The source memory is that of derived topics');
  end if;
  perform remem._lock_workspace(workspace);
  v_workspace := remem._ensure_workspace(workspace);
  if embedding is not null then
    v_space := remem._vector_space(v_workspace, space);
    perform remem._check_vector(embedding, v_space, 1);
  end if;
  perform remem._lock_entry(workspace, remem._entry_hash(remem._owner(scope, scope_ref), v_key), true);
  v_topic := remem._put_part(v_workspace, scope, scope_ref, v_key, source, jsonb_strip_nulls(jsonb_build_object('title', title,
    'aliases', to_jsonb(aliases), 'tags', to_jsonb(tags), 'summary', nullif(normalize(btrim(summary), nfc), ''), 'importance', importance,
    'unresolved', coalesce(unresolved, false), 'providers', to_jsonb(providers), 'parent', nullif(btrim(parent), ''), 'freshness', freshness)));
  if embedding is not null then
    perform remem._set_topic_vector(v_topic, v_workspace.space_no, embedding);
  end if;
  return v_topic.topic_id;
end
$$;
comment on function remem.put_topic(text, text, text[], text[], text, real, boolean, text[], text, text, text, text, text, real[], text) is
  'Puts a topic into the catalog and returns its id. An entry is known by scope and normalised title: a second put of the same source replaces what that source said, another source (the id of a provider that lists topics, for example) is merged with it: all aliases, tags and providers, the greatest importance, unresolved if any is, the shortest summary. providers are where a plan looks for the topic; none means the built-in postgres. unresolved marks open work, which a continuity phrase finds first; stale halves its place in the catalog. embedding is the vector of title, aliases, summary and tags in the workspace''s current space (space names the model that made it); the built-in hash space makes it by itself.';

-- The current space of a workspace, for a vector that a caller says another model made: RM202.
create or replace function remem._vector_space(workspace remem.workspace, space text) returns remem.embedding_space
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space := remem._space(workspace.space_no);
begin
  if space is not null and space not in (v_space.name, v_space.fingerprint) then
    perform remem._raise('RM202', jsonb_build_object('space', space, 'expected', v_space.name),
      'The vector was made by another model than the workspace''s current one');
  end if;
  return v_space;
end
$$;
comment on function remem._vector_space(remem.workspace, text) is 'The space that a given vector has to be of.';

create or replace function remem.drop_topic(workspace text, topic_id uuid, source text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_topic remem.topic;
  v_workspace remem.workspace;
begin
  perform remem._authorize(workspace, 'write');
  perform remem._lock_workspace(workspace);
  select t.* into v_topic from remem.topic t where t.workspace = drop_topic.workspace and t.topic_id = drop_topic.topic_id;
  if not found then
    return false;
  end if;
  perform remem._lock_entry(workspace, v_topic.entry_hash, true);
  select t.* into v_topic from remem.topic t
  where t.workspace = drop_topic.workspace and t.topic_no = v_topic.topic_no for update;
  if not found or (source is not null and not v_topic.parts ? source) then
    return false;
  end if;
  if source is null then
    perform remem._delete_topic(workspace, v_topic.topic_no);
  else
    select w.* into v_workspace from remem.workspace w where w.workspace = drop_topic.workspace;
    perform remem._put_part(v_workspace, v_topic.scope, v_topic.scope_ref, v_topic.key, source, null);
  end if;
  return true;
end
$$;
comment on function remem.drop_topic(text, uuid, text) is
  'Takes a topic out of the catalog, or only what one source contributed to it. Says whether there was one. The memories stay; one that is written later with that topic_key or title brings a derived topic back.';

create or replace function remem.list_topics(workspace text, after uuid default null, "limit" int default 100)
returns setof remem.topic_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_after remem.topic;
  v_space_no int;
begin
  perform remem._authorize(workspace, 'read');
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  if after is not null then
    select t.* into v_after from remem.topic t where t.workspace = list_topics.workspace and t.topic_id = list_topics.after;
    if not found then
      perform remem._raise('RM101', jsonb_build_object('argument', 'after', 'value', after), 'Pass the topic_id of the last row you have');
    end if;
  end if;
  v_space_no := (select w.space_no from remem.workspace w where w.workspace = list_topics.workspace);
  return query
    select t.topic_id, t.title, t.aliases, t.tags, t.summary, t.importance, t.unresolved, t.providers, t.scope, t.scope_ref,
      t.parent, t.freshness, (remem._merged_topic(t.parts)).sources, t.derived,
      exists (select from remem.topic_embedding e
        where e.workspace = t.workspace and e.space_no = v_space_no and e.topic_no = t.topic_no), t.updated_at
    from remem.topic t
    where t.workspace = list_topics.workspace and remem._topic_is_live(t)
      and (v_after.topic_no is null or t.weight < v_after.weight or t.weight = v_after.weight and t.topic_no > v_after.topic_no)
    order by t.weight desc, t.topic_no
    limit "limit";
end
$$;
comment on function remem.list_topics(text, uuid, int) is
  'The topics of a workspace in the order of the catalog, a page at a time: after is the topic_id of the last row of the page before. sources says who contributed ("memory" = derived).';
