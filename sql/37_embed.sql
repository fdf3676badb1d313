-- Embedding inside the database: what the superuser's part (remem install-plpython) offers, used where it is there.

-- The description of the model in the database; null where there is none. Believed only where superusers own all of
-- it: anybody who may create a schema could make one of that name, and what it holds runs with the rights of remem's
-- owner. Looked up in the catalog, because resolving a name in a schema that one may not use is an error.
create or replace function remem._server_model() returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_model jsonb;
begin
  if (select bool_and(o.rolsuper and r.rolsuper) from pg_namespace n
      join pg_roles o on o.oid = n.nspowner
      join pg_proc p on p.pronamespace = n.oid and p.proname in ('embed', 'describe')
      join pg_roles r on r.oid = p.proowner
      where n.nspname = 'remem_plpython') then
    execute 'select remem_plpython.describe()' into v_model;
  end if;
  return v_model;
end
$$;
comment on function remem._server_model() is 'The description of the model in the database, or null.';

-- The vectors of texts as they are, one row each. Fails as the model fails. In parts, for a statement can be cancelled
-- between two of them only.
create or replace function remem._server_embed(texts text[]) returns real[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_part constant int := 16;
  v_part real[];
  v_result real[] := '{}';
begin
  for v_first in 1 .. cardinality(texts) by c_part loop
    execute 'select remem_plpython.embed($1)' into v_part using texts[v_first : v_first + c_part - 1];
    v_result := v_result || v_part;
  end loop;
  return v_result;
end
$$;
comment on function remem._server_embed(text[]) is 'The vectors of texts, by the model in the database.';

-- The prompt that the model wants in front of a text of this role.
create or replace function remem._model_prompt(model jsonb, role text) returns text
language sql immutable parallel safe
return coalesce(case role when 'query' then model ->> 'query_prompt' else model ->> 'document_prompt' end, '');
comment on function remem._model_prompt(jsonb, text) is 'What stands in front of a question or a document.';

-- The public functions' way: prompts in front, and every failure one error.
create or replace function remem._embed(texts text[], role text) returns real[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_hint constant text := 'As a superuser: remem install-plpython. hash_embed needs nothing';
  v_model jsonb;
  v_prompt text;
  v_problem text;
begin
  perform remem._check_member('role', role, '{query,document}', null);
  begin
    v_model := remem._server_model();
    if v_model is not null then
      v_prompt := remem._model_prompt(v_model, role);
      return remem._server_embed(array(select v_prompt || t.text from unnest(texts) with ordinality t (text, n) order by t.n));
    end if;
  exception when others then  -- whatever Python and its libraries raise: to the caller it is one state
    v_problem := sqlerrm;
  end;
  perform remem._raise('RM501', jsonb_build_object('problem', coalesce(left(v_problem, 500), 'there is no model in this database')), c_hint);
end
$$;
comment on function remem._embed(text[], text) is 'Vectors by the model in the database, or RM501.';

create or replace function remem.embed(text text, role text default 'query') returns real[]
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_any();
  if text is null then
    return null;
  end if;
  perform remem._check_length('text', embed.text, remem._text_limit(), null);
  return array(select v from unnest(remem._embed(array[text], role)) v);
end
$$;
comment on function remem.embed(text, text) is
  'Embeds a text with the neural model in the database, with the prompt that the model wants in front of a question (role query) or of what is searched (role document). Only where an administrator has installed one (remem install-plpython); RM501 elsewhere and where the model fails. The first call of a session loads the model, which takes a second and 200 MB. A text has at most 10 MiB: RM003.';

create or replace function remem.embed_many(texts text[], role text default 'document') returns real[]
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_any();
  if cardinality(texts) = 0 or texts is null then
    return texts::real[];
  end if;
  if array_ndims(texts) > 1 or array_position(texts, null) is not null or cardinality(texts) > 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'texts', 'got', cardinality(texts), 'limit', 1000),
      'A list of at most 1000 texts, none null');
  end if;
  perform remem._check_length('texts', t.text, remem._text_limit(), null) from unnest(texts) t (text);
  return remem._embed(texts, role);
end
$$;
comment on function remem.embed_many(text[], text) is
  'Embeds up to 1000 texts with the neural model in the database, as embed does: an array of one row a text, in order, as complete_embeddings takes it. The n-th vector alone: array(select unnest(vectors[n:n])).';

-- The query's vector and those of its expansion, where the model in the database is the space's; problem: it is, and fails.
create or replace function remem._embed_query(space remem.embedding_space, query text, options jsonb, out vector real[], out more jsonb, out problem text)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_model jsonb;
  v_texts text[] := array[query];
  v_vectors real[];
begin
  begin
    v_model := remem._server_model();
    if v_model is null or remem._fingerprint(v_model) <> space.fingerprint then
      return;
    end if;
    v_texts := v_texts || case jsonb_typeof(options -> 'expanded')
      when 'array' then array(select left(e, 2000) from jsonb_array_elements_text(remem._list_of(options -> 'expanded')) e limit 8)
      when 'string' then array_remove(array[remem._statement(left(query, 2000))], null)
      else '{}' end;
    v_vectors := remem._server_embed(array(
      select remem._model_prompt(v_model, 'query') || t.text from unnest(v_texts) with ordinality t (text, n) order by t.n));
    vector := array(select v from unnest(v_vectors[1:1]) v);
    perform remem._check_vector(vector, space, 0);
    more := (select jsonb_agg(to_jsonb(array(select v from unnest(v_vectors[i:i]) v)) order by i) from generate_series(2, cardinality(v_texts)) i);
  exception when others then  -- whatever Python and its libraries raise: the words are searched all the same
    vector := null; more := null; problem := 'embed_failed';
  end;
end
$$;
comment on function remem._embed_query(remem.embedding_space, text, jsonb) is 'What a query without a vector is searched with, by the model in the database.';

-- New items with their vectors, where the model in the database is the space's and writers are to wait for it. A model
-- that fails keeps nobody from writing: a job makes the vectors later, as it does where the setting is off.
create or replace function remem._embed_items(space remem.embedding_space, items remem._prepared_item[]) returns remem._prepared_item[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_model jsonb;
  v_places int[];
  v_texts text[];
  v_vectors real[];
  v_vector real[];
begin
  if space.space_no = 1 or not exists (select from remem.setting s where s.name = 'embed_on_write' and s.value = 'on') then
    return items;
  end if;
  begin
    v_model := remem._server_model();
    if v_model is null or remem._fingerprint(v_model) <> space.fingerprint then
      return items;
    end if;
    select array_agg(p.n::int order by p.n), array_agg(remem._model_prompt(v_model, 'document') || remem._document_text(
        (p.item).title, (p.item).summary, (p.item).body, (p.item).speaker, (p.item).aliases, (p.item).tags) order by p.n)
    into v_places, v_texts
    from unnest(items) with ordinality p (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, n)
    where (p.item).embedding is null;
    v_vectors := remem._server_embed(coalesce(v_texts, '{}'));
    for i in 1 .. coalesce(cardinality(v_places), 0) loop
      v_vector := array(select v from unnest(v_vectors[i:i]) v);
      perform remem._check_vector(v_vector, space, 1);
      items[v_places[i]].item.embedding := v_vector;
    end loop;
  exception when others then  -- as in _embed_query
    raise warning using errcode = 'RM501', message = 'written without vectors: the model in the database failed',
      hint = 'select remem.embed(...) says how; remem reembed makes the vectors later';
  end;
  return items;
end
$$;
comment on function remem._embed_items(remem.embedding_space, remem._prepared_item[]) is 'Vectors for new rows at write time.';

-- The vectors of claimed texts and the numbers of those that have none. A text that fails alone is its own fault; where
-- the model cannot embed even a plain word, it is the model's, and this raises.
create or replace function remem._embed_claimed(space remem.embedding_space, item_nos int[], texts text[], out done int[], out vectors real[], out failed int[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_vector real[];
begin
  failed := '{}';
  if space.space_no = 1 then
    done := item_nos;
    vectors := array(select v from unnest(texts) with ordinality t (text, n) cross join lateral unnest(remem._hash_embed(t.text)) v);
    return;
  end if;
  begin
    vectors := remem._embed(texts, 'document');
    done := item_nos;
    return;
  exception when sqlstate 'RM501' then
    perform remem._embed('{memory}', 'document');
  end;
  done := '{}'; vectors := '{}';
  for i in 1 .. cardinality(texts) loop
    begin
      v_vector := remem._embed(texts[i:i], 'document');
      vectors := vectors || v_vector;
      done := done || item_nos[i];
    exception when sqlstate 'RM501' then
      failed := failed || item_nos[i];
    end;
  end loop;
end
$$;
comment on function remem._embed_claimed(remem.embedding_space, int[], text[]) is 'The vectors of a batch, text by text where the batch fails.';

create or replace function remem.reembed(workspace text, "limit" int default 64) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
  v_space remem.embedding_space;
  v_model jsonb;
  v_jobs remem.embedding_job[];
  v_made record;
begin
  perform remem._authorize(workspace, 'worker');
  select w.* into v_row from remem.workspace w where w.workspace = reembed.workspace;
  if not found then
    return 0;
  end if;
  v_space := remem._job_space(v_row, null);
  if v_space.space_no <> 1 then
    v_model := remem._server_model();
    if v_model is null or remem._fingerprint(v_model) <> v_space.fingerprint then
      perform remem._raise('RM501', jsonb_build_object('space', v_space.name, 'problem',
        case when v_model is null then 'there is no model in this database' else 'the model in this database is of another space' end,
        'model', v_model ->> 'name'), 'remem reembed, with the model of that space');
    end if;
  end if;
  v_jobs := array(select j from remem.claim_embeddings(reembed.workspace, v_space.fingerprint, reembed."limit") j order by j.item_no);
  if cardinality(v_jobs) = 0 then
    return 0;
  end if;
  select e.* into v_made from remem._embed_claimed(v_space, array(select j.item_no from unnest(v_jobs) j order by j.item_no),
    array(select j.text from unnest(v_jobs) j order by j.item_no)) e;
  if cardinality(v_made.failed) > 0 then
    perform remem.fail_embeddings(workspace, v_jobs[1].claim_id, 'embed_failed', v_made.failed);
  end if;
  if cardinality(v_made.done) > 0 then
    perform from remem.complete_embeddings(reembed.workspace, v_jobs[1].claim_id, v_made.done, v_made.vectors);
  end if;
  return cardinality(v_jobs);
end
$$;
comment on function remem.reembed(text, int) is
  'One turn of the embedding job inside the database: takes up to limit texts that lack their vector, embeds them with the built-in hash or the model in the database, stores the vectors, and says how many texts it took; 0: nothing to do now. Call it until then, each call in a transaction of its own (in psql: \watch), and finish_reembed after a change of space. RM501 where the database does not have the space''s model.';
