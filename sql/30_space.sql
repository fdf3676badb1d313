-- Embedding spaces: who made a vector. Vectors of two spaces are never compared, by construction:
-- each space has its own table, and a workspace points at one space.
--
-- A space is building from its registration on, active while a workspace or the default uses it, and retired
-- when the last has left it. Numbers are never used twice.

create or replace function remem._fingerprint(descriptor jsonb) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select encode(sha256(convert_to(concat_ws(E'\n',
    coalesce(descriptor ->> 'backend', ''), coalesce(descriptor ->> 'asset', ''),
    coalesce(descriptor ->> 'dimensions', ''), coalesce(descriptor ->> 'pooling', ''),
    coalesce(descriptor ->> 'normalization', ''), coalesce(descriptor ->> 'dtype', ''),
    coalesce(descriptor ->> 'query_prompt', ''), coalesce(descriptor ->> 'document_prompt', '')), 'UTF8')), 'hex')
$$;
comment on function remem._fingerprint(jsonb) is 'SHA-256 over the identity of a model: what makes two spaces the same space.';

create or replace function remem._space_info(space remem.embedding_space) returns remem.space_info
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select (space.space_no, space.name, space.fingerprint, space.backend, space.dimensions, space.state,
    to_jsonb(space) - '{space_no, fingerprint, state, created_at}'::text[],
    space.cosine_floor, space.cosine_full)::remem.space_info
$$;
comment on function remem._space_info(remem.embedding_space) is 'A space as the caller sees it.';

-- A space by number; the row that arms and writers need.
create or replace function remem._space(space_no int) returns remem.embedding_space
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select s from remem.embedding_space s where s.space_no = _space.space_no
$$;
comment on function remem._space(int) is 'The row of one embedding space.';

-- A space by what a caller calls it: its fingerprint or its name.
create or replace function remem._find_space(space text) returns remem.embedding_space
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
begin
  select s.* into v_space from remem.embedding_space s
  where s.fingerprint = _find_space.space or s.name = _find_space.space
  order by s.fingerprint = _find_space.space desc limit 1;
  if v_space.space_no is null then
    perform remem._raise('RM202', jsonb_build_object('space', space,
      'valid', (select jsonb_agg(s.name order by s.space_no) from remem.embedding_space s)),
      'Register it first: select remem.register_space(descriptor), or remem init --embedding ...');
  end if;
  return v_space;
end
$$;
comment on function remem._find_space(text) is 'A space by fingerprint or name; RM202 when there is none.';

create or replace function remem.register_space(descriptor jsonb) returns remem.space_info
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_fingerprint text;
  v_dimensions int;
  v_name text;
  v_problem text;
  v_floor real;
  v_full real;
  v_weight real;
begin
  perform remem._authorize_admin();
  v_problem := (
    select string_agg(k, ', ') from unnest(array['name', 'backend', 'asset', 'dimensions']) k
    where coalesce(descriptor ->> k, '') = '');
  if descriptor is null or jsonb_typeof(descriptor) <> 'object' or v_problem is not null
     or descriptor ->> 'dimensions' !~ '^[0-9]{1,6}$' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'descriptor', 'missing', v_problem),
      'A descriptor is an object with name, backend, asset, dimensions, pooling, normalization, dtype, query_prompt, document_prompt, cosine_floor, cosine_full, vector_weight');
  end if;
  v_dimensions := (descriptor ->> 'dimensions')::int;
  if v_dimensions not between 1 and 4000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'dimensions', 'value', v_dimensions, 'limit', 4000),
      'HNSW indexes half-precision vectors of 1 to 4000 dimensions');
  end if;
  begin
    v_floor := coalesce((descriptor ->> 'cosine_floor')::real, 0.2);
    v_full := coalesce((descriptor ->> 'cosine_full')::real, 0.7);
    v_weight := coalesce((descriptor ->> 'vector_weight')::real, 0.45);
  exception when data_exception then
    v_floor := null;
  end;
  if (v_floor >= -1 and v_floor < v_full and v_full <= 1 and v_weight between 0 and 1) is not true then
    perform remem._raise('RM001', jsonb_build_object('argument', 'cosine_floor, cosine_full, vector_weight',
      'value', jsonb_build_array(descriptor -> 'cosine_floor', descriptor -> 'cosine_full', descriptor -> 'vector_weight')),
      'Numbers: -1 <= cosine_floor < cosine_full <= 1, and vector_weight from 0 to 1');
  end if;
  v_fingerprint := remem._fingerprint(descriptor);
  -- One registration at a time, so that two clients that start together agree on one space.
  perform pg_advisory_xact_lock(7284, 1);
  select s.* into v_space from remem.embedding_space s where s.fingerprint = v_fingerprint;
  if v_space.space_no is not null then
    return remem._space_info(v_space);
  end if;
  v_name := descriptor ->> 'name';
  if exists (select from remem.embedding_space s where s.name = v_name) then
    v_name := v_name || '-' || left(v_fingerprint, 8);  -- another model under a known name
  end if;
  insert into remem.embedding_space (space_no, name, fingerprint, backend, asset, dimensions, pooling, normalization,
    dtype, query_prompt, document_prompt, state, cosine_floor, cosine_full, vector_weight)
  values (nextval('remem.embedding_space_no_seq'), v_name, v_fingerprint,
    descriptor ->> 'backend', descriptor ->> 'asset', v_dimensions, coalesce(descriptor ->> 'pooling', ''),
    coalesce(descriptor ->> 'normalization', ''), coalesce(descriptor ->> 'dtype', ''),
    coalesce(descriptor ->> 'query_prompt', ''), coalesce(descriptor ->> 'document_prompt', ''), 'building',
    v_floor, v_full, v_weight)
  returning * into v_space;
  perform remem._create_space_tables(v_space.space_no, v_dimensions);
  perform remem._write_space_functions();
  return remem._space_info(v_space);
end
$$;
comment on function remem.register_space(jsonb) is
  'Makes an embedding model known, with a vector table of its own (its HNSW index is built before the space is first used). Idempotent by fingerprint: the same model gives the same space, another model of the same dimensions another one. Descriptor keys: name, backend, asset, dimensions, pooling, normalization, dtype, query_prompt, document_prompt (its identity), cosine_floor and cosine_full (its relevance thresholds), vector_weight (its share in the fused score).';

create or replace function remem._create_space_tables(space_no int, dimensions int) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_table text := format('embedding_%s', space_no);
begin
  execute format('create table remem.%I (workspace text collate "C" not null, memory_no bigint not null,'
    ' embedding @extschema:vector@.halfvec(%s) not null, primary key (workspace, memory_no))', v_table, dimensions);
  execute format('alter table remem.%I alter column embedding set storage main', v_table);
  execute format('create table remem.%I (like remem.%I including storage, primary key (workspace, memory_no))',
    v_table || '_past', v_table);
  perform remem._revoke_relation(format('remem.%I', t)::regclass) from unnest(array[v_table, v_table || '_past']) t;
  execute format('alter table remem.%I enable row level security', v_table);
  execute format('alter table remem.%I enable row level security', v_table || '_past');
  execute format('comment on table remem.%I is %L', v_table,
    'Vectors of one embedding space, live rows only; never updated in place.');
  execute format('comment on table remem.%I is %L', v_table || '_past',
    'Vectors of superseded and forgotten rows; read only by as_of.');
end
$$;
comment on function remem._create_space_tables(int, int) is 'The live and past vector tables of a new space.';

create or replace function remem.current_space(workspace text default null) returns remem.space_info
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space_no int;
begin
  if workspace is null then
    perform remem._authorize_any();
  else
    perform remem._authorize(workspace, 'read');
    v_space_no := (select w.space_no from remem.workspace w where w.workspace = current_space.workspace);
  end if;
  v_space_no := coalesce(v_space_no, (select s.value::int from remem.setting s where s.name = 'default_space'));
  return remem._space_info(remem._space(v_space_no));
end
$$;
comment on function remem.current_space(text) is
  'The embedding space of a workspace; for one that does not exist yet, or null, the default of new workspaces.';

create or replace function remem.version() returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_model jsonb;
begin
  perform remem._authorize_any();
  begin
    v_model := remem._server_model();
  exception when others then  -- another's function, and no client gets further than this call
    v_model := null;
  end;
  return jsonb_build_object(
    'version', (select s.value from remem.setting s where s.name = 'version'),
    'compatibility', (select s.value::int from remem.setting s where s.name = 'compatibility'),
    'migrations', (select jsonb_agg(m.name order by m.version) from remem.schema_migration m),
    'postgres', current_setting('server_version'),
    'pgvector', (select e.extversion from pg_extension e where e.extname = 'vector'),
    'tenant_mode', (select s.value from remem.setting s where s.name = 'tenant_mode'),
    'server_model', case when v_model is not null then jsonb_build_object('name', v_model -> 'name', 'fingerprint', remem._fingerprint(v_model)) end);
end
$$;
comment on function remem.version() is
  'What is installed: version, compatibility number (clients run on the numbers they know), migrations, Postgres, pgvector, tenant mode, the model in the database (null: none).';
