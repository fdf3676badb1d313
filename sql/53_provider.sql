-- Providers: where memories can be asked for. The built-in one, postgres, is always there.

-- The providers of a workspace: its rows, and the built-in one where none describes it.
create or replace function remem._providers(workspace text) returns setof remem.provider
language sql stable rows 5
set search_path = pg_catalog, remem, pg_temp
as $$
  select p.* from remem.provider p where p.workspace = _providers.workspace
  union all
  select _providers.workspace, 'postgres', 'Postgres memory', '{}',
    'Facts, decisions, preferences, procedures, tasks and conversations of this workspace', '{memory}', true, null, '-infinity', '-infinity'
  where not exists (select from remem.provider p where p.workspace = _providers.workspace and p.provider_id = 'postgres')
$$;
comment on function remem._providers(text) is 'The providers of a workspace with the built-in one.';

-- What is embedded of a descriptor.
create or replace function remem._provider_text(provider remem.provider) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select remem._topic_text(provider.name, provider.aliases, provider.summary, provider.categories)
$$;
comment on function remem._provider_text(remem.provider) is 'The text of a provider descriptor that is embedded.';

create or replace function remem._set_provider_vector(provider remem.provider, space_no int, vector real[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.provider_embedding as e (workspace, space_no, provider_id, embedding)
  select provider.workspace, _set_provider_vector.space_no, provider.provider_id,
    remem._unit(vector)
  where vector is not null
  on conflict on constraint provider_embedding_pkey do update set embedding = excluded.embedding
$$;
comment on function remem._set_provider_vector(remem.provider, int, real[]) is 'Stores the vector of a provider descriptor in one space.';

create or replace function remem.put_provider(
  workspace text, provider_id text, name text default null, summary text default null, aliases text[] default '{}',
  categories text[] default '{}', enabled boolean default true, result_limit int default null, embedding real[] default null,
  space text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_old remem.provider;
  v_new remem.provider;
  v_vector real[] := embedding;
begin
  perform remem._authorize(workspace, 'admin');
  if coalesce(octet_length(provider_id), 0) not between 1 and 200 or provider_id ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'provider_id', 'got', octet_length(provider_id), 'limit', 200),
      'A provider id has 1 to 200 bytes and no control characters');
  end if;
  name := coalesce(nullif(btrim(name), ''), provider_id);
  perform remem._check_length('name', name, 300, null);
  perform remem._check_length('summary', summary, 4000, null);
  aliases := remem._check_texts('aliases', aliases);
  categories := remem._check_texts('categories', categories);
  if result_limit not between 1 and 100 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'result_limit', 'value', result_limit, 'limit', 100), 'From 1 to 100');
  end if;
  if provider_id = 'postgres' and enabled is not true then
    perform remem._raise('RM001', '{"argument": "enabled"}', 'The built-in provider is always there; leave it out by the option providers');
  end if;
  perform remem._lock_workspace(workspace);
  v_workspace := remem._ensure_workspace(workspace);
  if embedding is not null then
    v_space := remem._vector_space(v_workspace, space);
    perform remem._check_vector(embedding, v_space, 1);
  end if;
  perform remem._lock_entry(workspace, convert_to(provider_id, 'UTF8'), true);
  select p.* into v_old from remem.provider p
  where p.workspace = put_provider.workspace and p.provider_id = put_provider.provider_id;
  insert into remem.provider as p (workspace, provider_id, name, aliases, summary, categories, enabled, result_limit)
  values (put_provider.workspace, put_provider.provider_id, put_provider.name, put_provider.aliases,
    nullif(btrim(put_provider.summary), ''), put_provider.categories, coalesce(put_provider.enabled, true), put_provider.result_limit)
  on conflict on constraint provider_pkey do update
    set name = excluded.name, aliases = excluded.aliases, summary = excluded.summary, categories = excluded.categories,
        enabled = excluded.enabled, result_limit = excluded.result_limit, updated_at = now()
  returning p.* into v_new;
  if v_old.provider_id is null or remem._provider_text(v_new) is distinct from remem._provider_text(v_old) then
    delete from remem.provider_embedding e
    where e.workspace = put_provider.workspace and e.provider_id = put_provider.provider_id;
    if v_vector is null and v_workspace.space_no = 1 then
      v_vector := remem._hash_embed(remem._provider_text(v_new));
      v_vector := case when not 0 = all (v_vector) then v_vector end;
    end if;
  end if;
  perform remem._set_provider_vector(v_new, v_workspace.space_no, v_vector);
end
$$;
comment on function remem.put_provider(text, text, text, text, text[], text[], boolean, int, real[], text) is
  'Describes a provider of memories (a folder of notes, another store) so that a plan can route to it: by the topics that name it, by the meaning of its name, aliases, summary and categories where no topic qualifies, and when a prompt continues earlier work that no topic is known of. result_limit (1 to 100) bounds its requests. The built-in provider postgres is always there and is described by its own words until a put describes it; only then is it found by meaning too.';

create or replace function remem.drop_provider(workspace text, provider_id text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'admin');
  delete from remem.provider_embedding e
  where e.workspace = drop_provider.workspace and e.provider_id = drop_provider.provider_id;
  delete from remem.provider p where p.workspace = drop_provider.workspace and p.provider_id = drop_provider.provider_id;
  return found;
end
$$;
comment on function remem.drop_provider(text, text) is
  'Takes a provider''s descriptor away; says whether there was one. Topics that name it still do. Of postgres only the description goes.';

create or replace function remem.list_providers(workspace text) returns setof remem.provider_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
begin
  perform remem._authorize(workspace, 'read');
  v_space_no := (select w.space_no from remem.workspace w where w.workspace = list_providers.workspace);
  return query
    select p.provider_id, p.name, p.aliases, p.summary, p.categories, p.enabled, p.result_limit, p.provider_id = 'postgres',
      exists (select from remem.provider_embedding e
        where e.workspace = p.workspace and e.space_no = v_space_no and e.provider_id = p.provider_id),
      case when p.updated_at > '-infinity' then p.updated_at end
    from remem._providers(list_providers.workspace) p
    order by p.provider_id <> 'postgres', p.provider_id;
end
$$;
comment on function remem.list_providers(text) is 'The providers of a workspace, the built-in one first.';
