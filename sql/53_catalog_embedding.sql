-- Vectors of the catalog in spaces that SQL cannot embed in: what lacks one, and storing it.

create or replace function remem.catalog_without_embedding(workspace text, "limit" int default 100) returns setof remem.catalog_text
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
begin
  perform remem._authorize(workspace, 'read');
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  v_space_no := (select w.space_no from remem.workspace w where w.workspace = catalog_without_embedding.workspace);
  return query
    select c.kind, c.id, c.text
    from (
      (select 'topic', t.topic_id::text, remem._topic_text(t.title, t.aliases, t.summary, t.tags), -t.weight as place, t.topic_no
       from remem.topic t
       where t.workspace = catalog_without_embedding.workspace and v_space_no is not null
         -- A look-up a topic, also without statistics; what it stands for is looked at where there is none.
         and case when (select exists (select from remem.topic_embedding e
             where e.workspace = t.workspace and e.space_no = v_space_no and e.topic_no = t.topic_no))
           then false else remem._topic_is_live(t) end
       order by t.weight desc, t.topic_no limit "limit")
      union all
      -- Last, since a topic is found without it. Plans use it beside models only.
      (select 'topic', t.topic_id::text, t.title, 2 - t.weight, t.topic_no
       from remem.topic t
       where t.workspace = catalog_without_embedding.workspace and v_space_no <> 1 and remem._topic_is_live(t)
         and t.title <> remem._topic_text(t.title, t.aliases, t.summary, t.tags)
         and (select e.title_embedding is null from remem.topic_embedding e
           where e.workspace = t.workspace and e.space_no = v_space_no and e.topic_no = t.topic_no)
       order by t.weight desc, t.topic_no limit "limit")
      union all
      select 'provider', p.provider_id, remem._provider_text(p), -2, 0
      from remem.provider p
      where p.workspace = catalog_without_embedding.workspace
        and not (select exists (select from remem.provider_embedding e
          where e.workspace = p.workspace and e.space_no = v_space_no and e.provider_id = p.provider_id))
    ) c (kind, id, text, place, topic_no)
    order by c.place, c.topic_no, c.id limit "limit";
end
$$;
comment on function remem.catalog_without_embedding(text, int) is
  'Topics and described providers that have no vector in the workspace''s current space, most important first, with the text to embed; after them, in spaces of models, topics whose vector is there and that of the title alone is not: their text is the title. Embed it as a document and store it with put_topic_embedding or put_provider_embedding. Texts without any feature stay in the list of the hash space: they have no vector there.';

-- Whether `text` is still what is to be embedded; null asks nothing.
create or replace function remem._same_text(text text, now_is text) returns boolean
language sql immutable parallel safe
return text is null or text = now_is;
comment on function remem._same_text(text, text) is 'Whether a text that was embedded is still the current one.';

create or replace function remem.put_topic_embedding(
  workspace text, topic_id uuid, embedding real[], text text default null, space text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_workspace remem.workspace;
  v_topic remem.topic;
  v_space remem.embedding_space;
begin
  perform remem._authorize(workspace, 'worker');
  perform remem._lock_workspace(workspace);
  select w.* into v_workspace from remem.workspace w where w.workspace = put_topic_embedding.workspace;
  select t.* into v_topic from remem.topic t
  where t.workspace = put_topic_embedding.workspace and t.topic_id = put_topic_embedding.topic_id for share;
  if not found then
    return false;
  end if;
  v_space := remem._vector_space(v_workspace, space);
  if embedding is null then
    perform remem._raise('RM001', '{"argument": "embedding"}', 'Pass the vector');
  end if;
  perform remem._check_vector(embedding, v_space, 1);
  if not remem._same_text(text, remem._topic_text(v_topic.title, v_topic.aliases, v_topic.summary, v_topic.tags)) then
    update remem.topic_embedding e set title_embedding = remem._unit(put_topic_embedding.embedding)
    where text = v_topic.title and e.workspace = put_topic_embedding.workspace and e.space_no = v_workspace.space_no
      and e.topic_no = v_topic.topic_no;
    return found;
  end if;
  perform remem._set_topic_vector(v_topic, v_workspace.space_no, embedding);
  return true;
end
$$;
comment on function remem.put_topic_embedding(text, uuid, real[], text, text) is
  'Stores the vector of a topic in the workspace''s current space (space names the model that made it; another one is RM202). text is what was embedded: when the topic has another text by now nothing is stored. The title alone, of a topic that has a vector and more text, is stored beside it: a plan compares title and memory as one text. Says whether it was stored.';

create or replace function remem.put_provider_embedding(
  workspace text, provider_id text, embedding real[], text text default null, space text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_workspace remem.workspace;
  v_provider remem.provider;
  v_space remem.embedding_space;
begin
  perform remem._authorize(workspace, 'worker');
  perform remem._lock_workspace(workspace);
  select w.* into v_workspace from remem.workspace w where w.workspace = put_provider_embedding.workspace;
  select p.* into v_provider from remem.provider p
  where p.workspace = put_provider_embedding.workspace and p.provider_id = put_provider_embedding.provider_id for share;
  if not found then
    return false;
  end if;
  v_space := remem._vector_space(v_workspace, space);
  if embedding is null then
    perform remem._raise('RM001', '{"argument": "embedding"}', 'Pass the vector');
  end if;
  perform remem._check_vector(embedding, v_space, 1);
  if not remem._same_text(text, remem._provider_text(v_provider)) then
    return false;
  end if;
  perform remem._set_provider_vector(v_provider, v_workspace.space_no, embedding);
  return true;
end
$$;
comment on function remem.put_provider_embedding(text, text, real[], text, text) is
  'Stores the vector of a provider''s descriptor in the workspace''s current space, as put_topic_embedding does for a topic.';
