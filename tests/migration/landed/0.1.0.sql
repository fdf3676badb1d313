-- remem 0.1.0: run with psql --set ON_ERROR_STOP=1
-- as the role that shall own the schema
begin isolation level read committed read write;
select pg_advisory_xact_lock(491327939949);
set local search_path = pg_catalog, remem, pg_temp;
set local standard_conforming_strings = on;
-- loads pgvector, so that its settings exist
select '[1]'::public.vector;
-- 00_guard.sql
-- Runs before everything else: what this installation stands on, refused with the next step.
do $$
begin
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception using errcode = 'RM001', message = 'invalid argument',
      detail = json_build_object('argument', 'server_encoding', 'value', current_setting('server_encoding'))::text,
      hint = 'remem needs a database with encoding UTF8 (any locale will do)';
  end if;
  if current_setting('server_version_num')::int < 150000 then
    raise exception using errcode = 'RM001', message = 'invalid argument',
      detail = json_build_object('argument', 'server_version', 'value', current_setting('server_version'))::text,
      hint = 'remem needs Postgres 15 or newer';
  end if;
  if not exists (select from pg_namespace where nspname = 'remem') then
    create schema remem;
    comment on schema remem is 'Long-term memory for software agents. Functions are the only door.';
  elsif exists (select from pg_namespace where nspname = 'remem' and pg_get_userbyid(nspowner) <> current_user) then
    -- Nor a member of the owner, nor a superuser as itself: what it created would be its own, and the public
    -- functions run with the rights of whom they belong to.
    raise exception using errcode = 'RM301', message = 'no access to this workspace',
      detail = (select json_build_object('schema', 'remem', 'role', current_user, 'owner', pg_get_userbyid(nspowner))
        from pg_namespace where nspname = 'remem')::text,
      hint = 'Only the owner of the schema remem may upgrade it: connect as the owner, or SET ROLE to it first';
  end if;
end
$$;

-- 0001_core
-- 0001: the tables and types of remember and recall.
--
-- Decided here because it is expensive to change later:
--  * `workspace` leads every key of tenant data: it is the tenant boundary and the distribution key.
--  * `memory_no` (bigint) is the internal key, `memory_id` (uuid) the public one: postings and vectors
--    carry 8 bytes instead of 16, and a public id says nothing about how many memories exist.
--  * Text that is compared is `collate "C"`: equality needs no locale, and an operating system's
--    collation upgrade cannot corrupt an index.
--  * Live and past are apart: a superseded or forgotten row leaves `posting` and `embedding_<n>` for
--    their `_past` twins, so that a bounded scan of the live structures never fills with dead rows.
--  * Vectors live in one plain table per embedding space, never updated in place: updating any column
--    of a row would insert its vector into the HNSW index again.
--  * Counts (`tally`) are an append-only ledger of deltas that writers fold with SKIP LOCKED: no row
--    that every writer of a workspace would have to lock.
--  * No foreign keys and no triggers on tenant tables: functions are the only door and keep the rules.
--  * No tsvector: a posting table carries exact BM25 (see docs/sql-api.md); `memory.lexemes` remembers
--    which postings a row owns, so that removing a row needs no re-analysis with an older analyser.

create table remem.schema_migration (
  version int primary key,
  name text not null,
  sha256 text not null,
  applied_at timestamptz not null default now(),
  applied_by name not null default current_user
);
comment on table remem.schema_migration is 'Which run-once migrations this database has, with the checksum of each.';

create table remem.setting (
  name text collate "C" primary key,
  value text not null,
  updated_at timestamptz not null default now()
);
comment on table remem.setting is 'Database-wide settings; written by remem.configure and the installer.';

create table remem.access_grant (
  workspace text collate "C" not null,      -- '' = every workspace
  role_oid oid not null,                    -- the oid decides: a role dropped and created again has nothing
  role_name name not null,
  level text not null constraint access_grant_level check (level in ('read', 'write', 'worker', 'admin')),
  max_source_class text,
  granted_at timestamptz not null default now(),
  granted_by name not null,
  primary key (workspace, role_oid)
);
comment on table remem.access_grant is 'Who may do what in which workspace; written by remem.grant_access and remem.revoke_access.';

create table remem.source_class (
  name text collate "C" primary key,
  trust real not null constraint source_class_trust check (trust between 0 and 1),
  half_life interval,                       -- null = does not decay
  pinned boolean not null default false,
  description text not null default ''
);
comment on table remem.source_class is 'How far a source is trusted and how fast that trust decays; half_life null means never.';

insert into remem.source_class (name, trust, half_life, pinned, description) values
  ('user_stated', 1.0, null, true, 'The user said so; pinned to the moment it was said.'),
  ('codebase_verified', 0.95, interval '365 days', false, 'Checked against the code or another primary source.'),
  ('document', 0.85, interval '365 days', false, 'Taken from a document somebody wrote.'),
  ('unspecified', 0.75, interval '180 days', false, 'The writer did not say.'),
  ('imported', 0.7, interval '180 days', false, 'Loaded from another system.'),
  ('llm_generated', 0.5, interval '30 days', false, 'Written by a language model.'),
  ('inferred', 0.4, interval '30 days', false, 'Concluded from other memories.');

create table remem.embedding_space (
  space_no int primary key,
  name text collate "C" not null unique,
  fingerprint text collate "C" not null unique,
  backend text not null,
  asset text not null,
  dimensions int not null constraint embedding_space_dimensions check (dimensions between 1 and 4000),
  pooling text not null,
  normalization text not null,
  dtype text not null,
  query_prompt text not null default '',
  document_prompt text not null default '',
  state text not null constraint embedding_space_state check (state in ('building', 'active', 'retired')),
  cosine_floor real not null,
  cosine_full real not null,
  vector_weight real not null constraint embedding_space_weight check (vector_weight between 0 and 1),
  created_at timestamptz not null default now(),
  constraint embedding_space_thresholds check (cosine_floor < cosine_full)
);
comment on table remem.embedding_space is 'One row per embedding model identity. Vectors of different spaces are never compared.';
comment on column remem.embedding_space.cosine_floor is 'Cosine at which a hit starts to be relevant (relevance 0).';
comment on column remem.embedding_space.cosine_full is 'Cosine at which a hit is as relevant as this model can say (relevance 1).';
comment on column remem.embedding_space.vector_weight is 'Share of the vector score beside the lexical one when recall fuses them.';

insert into remem.embedding_space
  (space_no, name, fingerprint, backend, asset, dimensions, pooling, normalization, dtype, state, cosine_floor, cosine_full,
   vector_weight)
select 1, 'hash',
  encode(sha256(convert_to(concat_ws(E'\n', v.backend, v.asset, '384', v.pooling, 'l2', 'float64', '', ''), 'UTF8')), 'hex'),
  v.backend, v.asset, 384, v.pooling, 'l2', 'float64', 'active', 0.34, 0.80, 0.2
from (values ('remem-local-hash', 'builtin:remem-local-hash-v1@algorithm-1', 'signed-feature-sum')) v (backend, asset, pooling);

insert into remem.setting (name, value) values ('default_space', '1'), ('tenant_mode', 'shared');

create table remem.embedding_1 (
  workspace text collate "C" not null,
  memory_no bigint not null,
  embedding public.halfvec(384) not null,
  primary key (workspace, memory_no)
);
alter table remem.embedding_1 alter column embedding set storage main;
create index embedding_1_hnsw_idx on remem.embedding_1 using hnsw (embedding public.halfvec_cosine_ops);
create table remem.embedding_1_past (like remem.embedding_1 including storage, primary key (workspace, memory_no));
comment on table remem.embedding_1 is 'Vectors of the built-in hash space, live rows only; never updated in place.';
comment on table remem.embedding_1_past is 'Vectors of superseded and forgotten rows; read only by as_of.';

create table remem.workspace (
  workspace text collate "C" primary key
    constraint workspace_name check (octet_length(workspace) between 1 and 200 and workspace !~ '[\u0001-\u001f\u007f-\u009f]'),
  language text not null,
  analyser_no int not null default 1,       -- rows indexed under another number have stale postings
  analyser text not null,                   -- what analyser_no stands for, e.g. 'english/1/pg18'
  space_no int not null,
  created_at timestamptz not null default now()
);
comment on table remem.workspace is 'One row per tenant: language, analyser identity, current embedding space.';

create table remem.session (
  workspace text collate "C" not null,
  session_no int not null generated by default as identity,
  session_ref text collate "C" not null,
  turns int not null default 0,
  last_turn int not null default 0,
  doc_len bigint not null default 0,
  first_at timestamptz,
  last_at timestamptz,
  primary key (workspace, session_no),
  constraint session_ref_unique unique (workspace, session_ref)
);
comment on table remem.session is 'A conversation: how many turns, how much text, when. Its row is the lock that orders turns.';

create table remem.memory (
  workspace text collate "C" not null,
  memory_no bigint not null generated by default as identity,
  memory_id uuid not null default gen_random_uuid(),
  ref text collate "C",
  kind text not null constraint memory_kind
    check (kind in ('semantic', 'episodic', 'decision', 'preference', 'procedure', 'task', 'other')),
  scope text not null constraint memory_scope check (scope in ('global', 'project', 'session', 'user')),
  scope_ref text collate "C",
  title text,
  body text not null,
  summary text,
  aliases text[],
  tags text[],
  entities text[],
  topic_key text collate "C",
  subject text,
  attribute text,
  source_class text collate "C" not null,
  source_ref text,
  provenance jsonb,
  importance real not null default 0.5 constraint memory_importance check (importance between 0 and 1),
  confidence real constraint memory_confidence check (confidence between 0 and 1),
  pinned boolean not null default false,
  unresolved boolean not null default false,
  session_no int,
  turn_no int,
  speaker text,
  occurred_at timestamptz,
  valid_from timestamptz,
  valid_to timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  superseded_at timestamptz,
  superseded_by uuid,
  forgotten_at timestamptz,
  freshness text not null default 'current' constraint memory_freshness check (freshness in ('current', 'stale', 'unknown')),
  attrs jsonb not null,                     -- system fields and metadata in one document: what filters see
  fingerprint bytea not null,               -- of the folded text: finds exact duplicates
  content_hash bytea not null,              -- of everything the caller said: tells "same" from "new version"
  doc_len int not null,
  lexemes text[] not null,
  analyser_no int not null,
  changed_xid xid8 not null default pg_current_xact_id(),
  primary key (workspace, memory_no),
  constraint memory_scope_ref check ((scope = 'global') = (scope_ref is null)),
  constraint memory_validity check (valid_from < valid_to)
);
comment on table remem.memory is 'Every memory and every former version of it; written and read only through functions.';
create unique index memory_memory_id_idx on remem.memory (workspace, memory_id);
create unique index memory_ref_idx on remem.memory (workspace, ref)
  where ref is not null and superseded_at is null and forgotten_at is null;
create index memory_fingerprint_idx on remem.memory (workspace, fingerprint)
  where superseded_at is null and forgotten_at is null;
create index memory_session_idx on remem.memory (workspace, session_no, turn_no)
  where session_no is not null and superseded_at is null and forgotten_at is null;
-- Rows whose validity is bounded: recall asks whether any is out of its time before it bothers to check.
create index memory_validity_idx on remem.memory (workspace, valid_to, valid_from)
  where (valid_from is not null or valid_to is not null) and superseded_at is null and forgotten_at is null;
create index memory_changed_xid_idx on remem.memory (workspace, changed_xid);
create index memory_attrs_idx on remem.memory using gin (attrs jsonb_path_ops);

-- The inverted index. The included columns make every read an index-only scan: a BM25 score needs no
-- look at `memory`, and session and turn give the conversation around a hit.
-- Fixed-width columns stand first and counts saturate at 32,767, because this is the largest table by
-- rows. Measured on 83,000 postings of conversation turns (14 a turn), heap + index bytes each: 62 + 78 with
-- a five-byte workspace name as they were inserted, 62 + 59 after REINDEX; with a 36-byte name 93 + 129 and
-- 93 + 95. The names are repeated on purpose: a number in their place would need a lookup in every policy,
-- key and shard. A workspace of 200 bytes and a lexeme of 256 stay far below the btree limit of 2,704.
create table remem.posting (
  memory_no bigint not null,
  session_no int,
  turn_no int,
  doc_len smallint not null,
  tf smallint not null,
  workspace text collate "C" not null,
  lexeme text collate "C" not null,
  primary key (workspace, lexeme, memory_no) include (session_no, turn_no, doc_len, tf)
);
comment on table remem.posting is 'Inverted index of live memories: one row per memory and distinct lexeme.';
create table remem.posting_past (like remem.posting, primary key (workspace, lexeme, memory_no));
comment on table remem.posting_past is 'Postings of superseded and forgotten memories; read only by as_of.';

create table remem.tally (
  workspace text collate "C" not null,
  space_no int not null,                    -- 0 = memories; otherwise vectors of that space
  rows_delta bigint not null,
  doc_len_delta bigint not null default 0
);
create index tally_workspace_idx on remem.tally (workspace, space_no);
comment on table remem.tally is 'Append-only counts of live memories, their length and their vectors; writers fold it.';

alter table remem.schema_migration enable row level security;
alter table remem.setting enable row level security;
alter table remem.access_grant enable row level security;
alter table remem.source_class enable row level security;
alter table remem.embedding_space enable row level security;
alter table remem.embedding_1 enable row level security;
alter table remem.embedding_1_past enable row level security;
alter table remem.workspace enable row level security;
alter table remem.session enable row level security;
alter table remem.memory enable row level security;
alter table remem.posting enable row level security;
alter table remem.posting_past enable row level security;
alter table remem.tally enable row level security;

create type remem.memory_ref as (
  memory_id uuid, ref text, outcome text, item_no int, error jsonb
);
comment on type remem.memory_ref is 'What became of one written item: created, unchanged, merged, new_version or refused.';

create type remem.memory_record as (
  memory_id uuid, workspace text, ref text, kind text, scope text, scope_ref text, title text, body text,
  summary text, aliases text[], tags text[], topic_key text, subject text, attribute text, source_class text,
  source_ref text, provenance jsonb, importance real, confidence real, pinned boolean, unresolved boolean,
  session_ref text, turn_no int, speaker text, occurred_at timestamptz, valid_from timestamptz,
  valid_to timestamptz, created_at timestamptz, updated_at timestamptz, superseded_at timestamptz,
  superseded_by uuid, forgotten_at timestamptz, freshness text, metadata jsonb
);
comment on type remem.memory_record is 'A memory as the caller sees it.';

create type remem.recall_hit as (
  rank int, memory_id uuid, ref text, kind text, title text, body text, score float8, relevance float8,
  signals jsonb, arms text[], source_class text, source_ref text, session_ref text, occurred_at timestamptz,
  freshness text, duplicates jsonb, expanded_from uuid, degraded text[]
);
comment on type remem.recall_hit is 'One recalled memory: score orders, relevance (0 to 1) is absolute, signals say why.';

create type remem.space_info as (
  space_no int, name text, fingerprint text, backend text, dimensions int, state text, descriptor jsonb,
  cosine_floor real, cosine_full real
);
comment on type remem.space_info is 'An embedding space as the caller sees it.';

-- What a caller may say about one memory: the arguments of remember, the keys of remember_many's items.
create type remem.memory_item as (
  body text, ref text, kind text, title text, summary text, tags text[], aliases text[], scope text,
  scope_ref text, topic_key text, subject text, attribute text, source_class text, source_ref text,
  importance real, confidence real, pinned boolean, unresolved boolean, session_ref text, turn_no int,
  speaker text, occurred_at timestamptz, valid_from timestamptz, valid_to timestamptz, entities text[],
  metadata jsonb, embedding real[], on_conflict text, space text
);
comment on type remem.memory_item is 'The keys of one item of remember_many, with their types.';

-- An item after validation, ready to be stored; lexemes and tfs run in parallel.
create type remem._prepared_item as (
  item_no int, item remem.memory_item, attrs jsonb, fingerprint bytea, content_hash bytea,
  lexemes text[], tfs int[], doc_len int
);
comment on type remem._prepared_item is 'A validated item with its analysed text; internal.';

insert into remem.schema_migration (version, name, sha256) values (1, '0001_core', '5a6deba04ed0084bacfb7a2d100050058f1e0781734bed0a623e1ee2bc98e136');
-- 05_error.sql
-- Errors: SQLSTATE class RM, constant message, JSON detail, hint = the next step. Raised in one place.

create or replace function remem._error_catalog() returns table (code text, message text)
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  values
    ('RM001', 'invalid argument'),
    ('RM002', 'unknown option'),
    ('RM003', 'text refused'),
    ('RM101', 'not found'),
    ('RM102', 'conflict'),
    ('RM201', 'vector dimension mismatch'),
    ('RM202', 'unknown or inactive embedding space'),
    ('RM203', 'vector refused'),
    ('RM301', 'no access to this workspace'),
    ('RM302', 'tenant not set'),
    ('RM401', 'claim lost'),
    ('RM501', 'embedding unavailable'),
    ('RM901', 'database is newer than this client'),
    ('RM902', 'pgvector is missing or too old')
$$;
comment on function remem._error_catalog() is 'Every error code with its constant message.';

-- Called by everything that refuses. Never returns.
create or replace function remem._raise(code text, detail jsonb default '{}', hint text default null) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_message text := (select c.message from remem._error_catalog() c where c.code = _raise.code);
begin
  raise exception using
    errcode = code, message = v_message, detail = jsonb_strip_nulls(detail)::text, hint = coalesce(hint, '');
end
$$;
comment on function remem._raise(text, jsonb, text) is 'Raises one error of the catalog.';

-- A caught error as a value, for per-item reports.
create or replace function remem._error_value(code text, message text, detail text, hint text) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'code', code, 'message', message, 'hint', nullif(hint, ''),
    'detail', case when detail like '{%' then detail::jsonb end))
$$;
comment on function remem._error_value(text, text, text, text) is 'A caught error as JSON.';

-- 08_access.sql
-- Access: who asks, and may they. Every public function authorises in its first statement.

-- The role that asks. Survives SECURITY DEFINER, and cannot be forged: SET ROLE needs membership.
create or replace function remem._caller() returns name
language sql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(nullif(current_setting('role', true), 'none'), session_user::text)::name
$$;
comment on function remem._caller() is 'The role on whose behalf a public function runs.';

-- The levels that satisfy a demand. A worker reads and writes vectors, not memories.
create or replace function remem._levels(demand text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select case demand
    when 'read' then array['read', 'write', 'worker', 'admin']
    when 'write' then array['write', 'admin']
    when 'worker' then array['worker', 'admin']
    when 'admin' then array['admin']
  end
$$;
comment on function remem._levels(text) is 'The grant levels that satisfy a demanded level.';

-- A grant holds for the role that has both its number and its name: a role dropped and created again has
-- another number, and in a dump restored to another cluster the number is some other role's.
create or replace function remem._holds(access_grant remem.access_grant) returns boolean
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select access_grant.role_name = pg_get_userbyid(access_grant.role_oid)
    and pg_has_role(remem._caller(), access_grant.role_oid, 'usage')
$$;
comment on function remem._holds(remem.access_grant) is 'Whether the caller is, or is in, the role of a grant.';

-- True for the owner (the functions run as it) and for holders of a sufficient grant.
create or replace function remem._is_granted(workspace text, demand text) returns boolean
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select pg_has_role(remem._caller(), current_user, 'usage') or exists (
    select from remem.access_grant g
    where g.workspace in (_is_granted.workspace, '')
      and g.level = any (remem._levels(demand))
      and remem._holds(g))
$$;
comment on function remem._is_granted(text, text) is 'Whether the caller holds a level in a workspace.';

-- The name of a workspace, or RM001.
create or replace function remem._check_workspace(workspace text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if workspace is null or octet_length(workspace) not between 1 and 200
     or workspace ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform remem._raise('RM001',
      jsonb_build_object('argument', 'workspace', 'got', octet_length(workspace), 'limit', 200),
      'A workspace name has 1 to 200 bytes and no control characters');
  end if;
end
$$;
comment on function remem._check_workspace(text) is 'Refuses what cannot be the name of a workspace.';

-- First statement of every function about memories: grant, then tenant setting, then the name itself.
-- Refusals do not depend on whether the workspace exists.
create or replace function remem._authorize(workspace text, demand text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tenant text := nullif(current_setting('remem.workspace', true), '');
begin
  if not remem._is_granted(workspace, demand) then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'level', demand),
      'An administrator can run: select remem.grant_access(role, workspace, level)');
  end if;
  if v_tenant is null then
    if (select s.value from remem.setting s where s.name = 'tenant_mode') = 'strict' then
      perform remem._raise('RM302', '{"setting": "remem.workspace"}',
        'In each transaction run: select set_config(''remem.workspace'', workspace, true)');
    end if;
  elsif v_tenant is distinct from workspace then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'setting', 'remem.workspace'),
      'The setting remem.workspace names another workspace');
  end if;
  perform remem._check_workspace(workspace);
end
$$;
comment on function remem._authorize(text, text) is 'Refuses a caller without the demanded level in the workspace.';

-- For functions about no workspace that every user may call.
create or replace function remem._authorize_any() returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if not (pg_has_role(remem._caller(), current_user, 'usage') or exists (
      select from remem.access_grant g where remem._holds(g))) then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller()),
      'An administrator can run: select remem.grant_access(role, workspace, level)');
  end if;
end
$$;
comment on function remem._authorize_any() is 'Refuses a caller without any grant.';

-- For database-wide changes: the owner, or an admin of every workspace.
create or replace function remem._authorize_admin() returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if not remem._is_granted('', 'admin') then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'level', 'admin'),
      'This changes the whole database: connect as the owner or as an admin of all workspaces');
  end if;
end
$$;
comment on function remem._authorize_admin() is 'Refuses a caller who is not an administrator of the whole database.';

-- For grants: an administrator of the whole database who is not confined to another workspace. All
-- workspaces (null) are others too.
create or replace function remem._authorize_grants(workspace text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin();
  if nullif(current_setting('remem.workspace', true), '') <> coalesce(workspace, '') then
    perform remem._raise('RM301', jsonb_build_object('role', remem._caller(), 'setting', 'remem.workspace'),
      'The setting remem.workspace names another workspace');
  end if;
  if workspace is not null then
    perform remem._check_workspace(workspace);
  end if;
end
$$;
comment on function remem._authorize_grants(text) is 'Refuses a caller who may not change the grants of a workspace.';

-- The most trusted source class that the caller's grants let it claim; null = no cap (the owner).
create or replace function remem._max_source_class(workspace text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case when pg_has_role(remem._caller(), current_user, 'usage') then null else (
    select g.max_source_class
    from remem.access_grant g left join remem.source_class s on s.name = g.max_source_class
    where g.workspace in (_max_source_class.workspace, '') and g.level in ('write', 'admin')
      and remem._holds(g)
    order by s.trust desc nulls first limit 1)
  end
$$;
comment on function remem._max_source_class(text) is 'The cap on the trust that the caller may claim.';

create or replace function remem.grant_access(
  role text, workspace text default null, level text default 'read', max_source_class text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_oid oid;
begin
  perform remem._authorize_grants(workspace);
  v_oid := (select r.oid from pg_roles r where r.rolname = grant_access.role);
  if v_oid is null then
    perform remem._raise('RM101', jsonb_build_object('argument', 'role', 'value', role), 'Create the role first');
  end if;
  if level is null or remem._levels(level) is null then
    perform remem._raise('RM001', jsonb_build_object('argument', 'level', 'value', level,
      'valid', array['read', 'write', 'worker', 'admin']), 'Choose one of the levels');
  end if;
  if max_source_class is not null
     and not exists (select from remem.source_class s where s.name = max_source_class) then
    perform remem._raise('RM001', jsonb_build_object('argument', 'max_source_class', 'value', max_source_class,
      'valid', (select array_agg(s.name order by s.name) from remem.source_class s)), 'Name a source class');
  end if;
  insert into remem.access_grant as g (workspace, role_oid, role_name, level, max_source_class, granted_by)
  values (coalesce(grant_access.workspace, ''), v_oid, grant_access.role, grant_access.level,
    grant_access.max_source_class, remem._caller())
  on conflict on constraint access_grant_pkey do update
    set level = excluded.level, max_source_class = excluded.max_source_class, role_name = excluded.role_name,
        granted_at = now(), granted_by = excluded.granted_by;
end
$$;
comment on function remem.grant_access(text, text, text, text) is
  'Gives a role a level (read, write, worker, admin) in one workspace, or in all when workspace is null. Membership in the role counts; a role that is renamed or created again needs a new grant. max_source_class caps what the role may claim about its sources.';

create or replace function remem.revoke_access(role text, workspace text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_grants(workspace);
  -- By number, for a role renamed since, and by name, for one that is gone.
  delete from remem.access_grant g
  where g.workspace = coalesce(revoke_access.workspace, '')
    and (g.role_name = revoke_access.role
      or g.role_oid = (select r.oid from pg_roles r where r.rolname = revoke_access.role));
  return found;
end
$$;
comment on function remem.revoke_access(text, text) is
  'Takes a grant back (workspace null: the grant on all workspaces). Says whether there was one.';

create or replace function remem.configure(name text, value text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_valid constant jsonb := '{"tenant_mode": ["shared", "strict"]}';
begin
  perform remem._authorize_admin();
  if not v_valid ? coalesce(name, '') then
    perform remem._raise('RM002', jsonb_build_object('option', name,
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(v_valid) k)), 'Choose one of the settings');
  end if;
  if value is null or not (v_valid -> name) ? value then
    perform remem._raise('RM001', jsonb_build_object('argument', name, 'value', value, 'valid', v_valid -> name),
      'Choose one of the values');
  end if;
  insert into remem.setting as s (name, value) values (configure.name, configure.value)
  on conflict on constraint setting_pkey do update set value = excluded.value, updated_at = now();
end
$$;
comment on function remem.configure(text, text) is
  'Sets a database-wide setting. tenant_mode: shared (the setting remem.workspace narrows when present) or strict (it must be set).';

-- Takes every privilege on one object from everybody but its owner: PUBLIC has some by default, others
-- may have them from ALTER DEFAULT PRIVILEGES or from an administrator's GRANT. `kind` is routine,
-- table, sequence or schema. By the installer and for tables made later.
create or replace function remem._revoke_all(kind text, name text, owner oid, acl aclitem[]) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_grantee oid;
begin
  for v_grantee in
    select distinct a.grantee from aclexplode(acl) a where a.grantee not in (0, _revoke_all.owner)
  loop
    execute format('revoke all on %s %s from %I cascade', kind, name, pg_get_userbyid(v_grantee));
  end loop;
  execute format('revoke all on %s %s from public cascade', kind, name);
end
$$;
comment on function remem._revoke_all(text, text, oid, aclitem[]) is 'Leaves an object to its owner alone.';

create or replace function remem._revoke_relation(relation regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_relation record;
begin
  for v_relation in
    select case when c.relkind = 'S' then 'sequence' else 'table' end as kind, c.relowner as owner, c.relacl as acl
    from pg_class c where c.oid = relation
    union all
    -- A privilege on a column is taken with that on its table.
    select 'table', c.relowner, a.attacl from pg_attribute a join pg_class c on c.oid = a.attrelid
    where a.attrelid = relation and a.attacl is not null
  loop
    perform remem._revoke_all(v_relation.kind, relation::text, v_relation.owner, v_relation.acl);
  end loop;
end
$$;
comment on function remem._revoke_relation(regclass) is 'Leaves a table, view or sequence to its owner alone.';

-- 10_workspace.sql
-- Workspaces: the tenant boundary, with the language and the embedding space of its memories.

-- What decides the lexemes of a text: language, our rules, and the server's stemmers.
create or replace function remem._analyser_name(language text) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return format('%s/%s/pg%s', language, remem._analyser_version(), current_setting('server_version_num')::int / 10000);
end
$$;
comment on function remem._analyser_name(text) is 'The identity of the text analysis; rows of another one are stale.';

-- Writers hold it shared to the end of their transaction, a change of space or of language exclusively:
-- nobody writes a vector or a posting of the old kind after the switch. Nothing is written for it.
create or replace function remem._lock_workspace(workspace text, exclusive boolean default false) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if exclusive then
    perform pg_advisory_xact_lock(hashtextextended(workspace, 7285));
  else
    perform pg_advisory_xact_lock_shared(hashtextextended(workspace, 7285));
  end if;
end
$$;
comment on function remem._lock_workspace(text, boolean) is 'Keeps writers and a switch of the workspace apart.';

-- The workspace row, created on first use. The caller has authorised for writing.
create or replace function remem._ensure_workspace(workspace text, language text default 'english')
returns remem.workspace
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row remem.workspace;
begin
  select w.* into v_row from remem.workspace w where w.workspace = _ensure_workspace.workspace;
  if not found then
    perform remem._language_dictionaries(language);
    insert into remem.workspace (workspace, language, analyser, space_no)
    values (_ensure_workspace.workspace, _ensure_workspace.language, remem._analyser_name(language),
      (select s.value::int from remem.setting s where s.name = 'default_space'))
    on conflict on constraint workspace_pkey do nothing;
    select w.* into v_row from remem.workspace w where w.workspace = _ensure_workspace.workspace;
  end if;
  return v_row;
end
$$;
comment on function remem._ensure_workspace(text, text) is 'Finds or creates a workspace row.';

create or replace function remem.create_workspace(workspace text, language text default 'english') returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_existed boolean;
  v_row remem.workspace;
begin
  perform remem._authorize(workspace, 'write');
  v_existed := exists (select from remem.workspace w where w.workspace = create_workspace.workspace);
  v_row := remem._ensure_workspace(workspace, language);
  if v_row.language is distinct from language then
    perform remem._raise('RM102', jsonb_build_object('argument', 'language', 'got', language, 'expected', v_row.language),
      'The workspace exists with another language');
  end if;
  return not v_existed;
end
$$;
comment on function remem.create_workspace(text, text) is
  'Creates a workspace with a language (a text search configuration; CJK is analysed by bigrams in any). Says whether it was new. Not needed before remember, which creates an English one.';

-- Counts of a workspace: memories (space 0) or vectors of a space, with their total length.
create or replace function remem._count_tally(workspace text, space_no int, out n bigint, out doc_len bigint)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(sum(t.rows_delta), 0)::bigint, coalesce(sum(t.doc_len_delta), 0)::bigint
  from remem.tally t
  where t.workspace = _count_tally.workspace and t.space_no = _count_tally.space_no
$$;
comment on function remem._count_tally(text, int) is 'Live rows and their total length from the ledger of deltas.';

-- Adds a delta. When a workspace has collected many, folds those that no other transaction holds:
-- SKIP LOCKED, so writers never wait for each other here and the sum is exact in every snapshot.
create or replace function remem._add_tally(workspace text, space_no int, rows_delta bigint, doc_len_delta bigint default 0)
returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_rows bigint := rows_delta;
  v_doc_len bigint := doc_len_delta;
begin
  if rows_delta = 0 and doc_len_delta = 0 then
    return;
  end if;
  if (select count(*) from remem.tally t
      where t.workspace = _add_tally.workspace and t.space_no = _add_tally.space_no) > 64 then
    with doomed as (
      select t.ctid from remem.tally t
      where t.workspace = _add_tally.workspace and t.space_no = _add_tally.space_no
      for update skip locked
    ), gone as (
      delete from remem.tally t using doomed d where t.ctid = d.ctid
      returning t.rows_delta, t.doc_len_delta
    )
    select v_rows + coalesce(sum(g.rows_delta), 0), v_doc_len + coalesce(sum(g.doc_len_delta), 0)
    into v_rows, v_doc_len from gone g;
  end if;
  insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
  values (_add_tally.workspace, _add_tally.space_no, v_rows, v_doc_len);
end
$$;
comment on function remem._add_tally(text, int, bigint, bigint) is 'Records a change of a count and folds old records.';

-- 12_text_case.sql
-- Generated by scripts/generate_unicode.py from Unicode 14.0; do not edit.
-- Frozen character tables, so that text analysis is the same in every locale and under every
-- Postgres and Python version. Immutable constants: the planner folds each call away.
-- Content digest: 2131b071da02b243e3d6a15e3e3fabf8a03a7a1c9cf0da08a8971832f9e6ba42

-- Every character beyond ASCII with a simple lower-case mapping. Called by _lower.
create or replace function remem._chars_upper() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u00C0\u00C1\u00C2\u00C3\u00C4\u00C5\u00C6\u00C7\u00C8\u00C9\u00CA\u00CB\u00CC\u00CD\u00CE'
    '\u00CF\u00D0\u00D1\u00D2\u00D3\u00D4\u00D5\u00D6\u00D8\u00D9\u00DA\u00DB\u00DC\u00DD\u00DE'
    '\u0100\u0102\u0104\u0106\u0108\u010A\u010C\u010E\u0110\u0112\u0114\u0116\u0118\u011A\u011C'
    '\u011E\u0120\u0122\u0124\u0126\u0128\u012A\u012C\u012E\u0130\u0132\u0134\u0136\u0139\u013B'
    '\u013D\u013F\u0141\u0143\u0145\u0147\u014A\u014C\u014E\u0150\u0152\u0154\u0156\u0158\u015A'
    '\u015C\u015E\u0160\u0162\u0164\u0166\u0168\u016A\u016C\u016E\u0170\u0172\u0174\u0176\u0178'
    '\u0179\u017B\u017D\u0181\u0182\u0184\u0186\u0187\u0189\u018A\u018B\u018E\u018F\u0190\u0191'
    '\u0193\u0194\u0196\u0197\u0198\u019C\u019D\u019F\u01A0\u01A2\u01A4\u01A6\u01A7\u01A9\u01AC'
    '\u01AE\u01AF\u01B1\u01B2\u01B3\u01B5\u01B7\u01B8\u01BC\u01C4\u01C5\u01C7\u01C8\u01CA\u01CB'
    '\u01CD\u01CF\u01D1\u01D3\u01D5\u01D7\u01D9\u01DB\u01DE\u01E0\u01E2\u01E4\u01E6\u01E8\u01EA'
    '\u01EC\u01EE\u01F1\u01F2\u01F4\u01F6\u01F7\u01F8\u01FA\u01FC\u01FE\u0200\u0202\u0204\u0206'
    '\u0208\u020A\u020C\u020E\u0210\u0212\u0214\u0216\u0218\u021A\u021C\u021E\u0220\u0222\u0224'
    '\u0226\u0228\u022A\u022C\u022E\u0230\u0232\u023A\u023B\u023D\u023E\u0241\u0243\u0244\u0245'
    '\u0246\u0248\u024A\u024C\u024E\u0370\u0372\u0376\u037F\u0386\u0388\u0389\u038A\u038C\u038E'
    '\u038F\u0391\u0392\u0393\u0394\u0395\u0396\u0397\u0398\u0399\u039A\u039B\u039C\u039D\u039E'
    '\u039F\u03A0\u03A1\u03A3\u03A4\u03A5\u03A6\u03A7\u03A8\u03A9\u03AA\u03AB\u03CF\u03D8\u03DA'
    '\u03DC\u03DE\u03E0\u03E2\u03E4\u03E6\u03E8\u03EA\u03EC\u03EE\u03F4\u03F7\u03F9\u03FA\u03FD'
    '\u03FE\u03FF\u0400\u0401\u0402\u0403\u0404\u0405\u0406\u0407\u0408\u0409\u040A\u040B\u040C'
    '\u040D\u040E\u040F\u0410\u0411\u0412\u0413\u0414\u0415\u0416\u0417\u0418\u0419\u041A\u041B'
    '\u041C\u041D\u041E\u041F\u0420\u0421\u0422\u0423\u0424\u0425\u0426\u0427\u0428\u0429\u042A'
    '\u042B\u042C\u042D\u042E\u042F\u0460\u0462\u0464\u0466\u0468\u046A\u046C\u046E\u0470\u0472'
    '\u0474\u0476\u0478\u047A\u047C\u047E\u0480\u048A\u048C\u048E\u0490\u0492\u0494\u0496\u0498'
    '\u049A\u049C\u049E\u04A0\u04A2\u04A4\u04A6\u04A8\u04AA\u04AC\u04AE\u04B0\u04B2\u04B4\u04B6'
    '\u04B8\u04BA\u04BC\u04BE\u04C0\u04C1\u04C3\u04C5\u04C7\u04C9\u04CB\u04CD\u04D0\u04D2\u04D4'
    '\u04D6\u04D8\u04DA\u04DC\u04DE\u04E0\u04E2\u04E4\u04E6\u04E8\u04EA\u04EC\u04EE\u04F0\u04F2'
    '\u04F4\u04F6\u04F8\u04FA\u04FC\u04FE\u0500\u0502\u0504\u0506\u0508\u050A\u050C\u050E\u0510'
    '\u0512\u0514\u0516\u0518\u051A\u051C\u051E\u0520\u0522\u0524\u0526\u0528\u052A\u052C\u052E'
    '\u0531\u0532\u0533\u0534\u0535\u0536\u0537\u0538\u0539\u053A\u053B\u053C\u053D\u053E\u053F'
    '\u0540\u0541\u0542\u0543\u0544\u0545\u0546\u0547\u0548\u0549\u054A\u054B\u054C\u054D\u054E'
    '\u054F\u0550\u0551\u0552\u0553\u0554\u0555\u0556\u10A0\u10A1\u10A2\u10A3\u10A4\u10A5\u10A6'
    '\u10A7\u10A8\u10A9\u10AA\u10AB\u10AC\u10AD\u10AE\u10AF\u10B0\u10B1\u10B2\u10B3\u10B4\u10B5'
    '\u10B6\u10B7\u10B8\u10B9\u10BA\u10BB\u10BC\u10BD\u10BE\u10BF\u10C0\u10C1\u10C2\u10C3\u10C4'
    '\u10C5\u10C7\u10CD\u13A0\u13A1\u13A2\u13A3\u13A4\u13A5\u13A6\u13A7\u13A8\u13A9\u13AA\u13AB'
    '\u13AC\u13AD\u13AE\u13AF\u13B0\u13B1\u13B2\u13B3\u13B4\u13B5\u13B6\u13B7\u13B8\u13B9\u13BA'
    '\u13BB\u13BC\u13BD\u13BE\u13BF\u13C0\u13C1\u13C2\u13C3\u13C4\u13C5\u13C6\u13C7\u13C8\u13C9'
    '\u13CA\u13CB\u13CC\u13CD\u13CE\u13CF\u13D0\u13D1\u13D2\u13D3\u13D4\u13D5\u13D6\u13D7\u13D8'
    '\u13D9\u13DA\u13DB\u13DC\u13DD\u13DE\u13DF\u13E0\u13E1\u13E2\u13E3\u13E4\u13E5\u13E6\u13E7'
    '\u13E8\u13E9\u13EA\u13EB\u13EC\u13ED\u13EE\u13EF\u13F0\u13F1\u13F2\u13F3\u13F4\u13F5\u1C90'
    '\u1C91\u1C92\u1C93\u1C94\u1C95\u1C96\u1C97\u1C98\u1C99\u1C9A\u1C9B\u1C9C\u1C9D\u1C9E\u1C9F'
    '\u1CA0\u1CA1\u1CA2\u1CA3\u1CA4\u1CA5\u1CA6\u1CA7\u1CA8\u1CA9\u1CAA\u1CAB\u1CAC\u1CAD\u1CAE'
    '\u1CAF\u1CB0\u1CB1\u1CB2\u1CB3\u1CB4\u1CB5\u1CB6\u1CB7\u1CB8\u1CB9\u1CBA\u1CBD\u1CBE\u1CBF'
    '\u1E00\u1E02\u1E04\u1E06\u1E08\u1E0A\u1E0C\u1E0E\u1E10\u1E12\u1E14\u1E16\u1E18\u1E1A\u1E1C'
    '\u1E1E\u1E20\u1E22\u1E24\u1E26\u1E28\u1E2A\u1E2C\u1E2E\u1E30\u1E32\u1E34\u1E36\u1E38\u1E3A'
    '\u1E3C\u1E3E\u1E40\u1E42\u1E44\u1E46\u1E48\u1E4A\u1E4C\u1E4E\u1E50\u1E52\u1E54\u1E56\u1E58'
    '\u1E5A\u1E5C\u1E5E\u1E60\u1E62\u1E64\u1E66\u1E68\u1E6A\u1E6C\u1E6E\u1E70\u1E72\u1E74\u1E76'
    '\u1E78\u1E7A\u1E7C\u1E7E\u1E80\u1E82\u1E84\u1E86\u1E88\u1E8A\u1E8C\u1E8E\u1E90\u1E92\u1E94'
    '\u1E9E\u1EA0\u1EA2\u1EA4\u1EA6\u1EA8\u1EAA\u1EAC\u1EAE\u1EB0\u1EB2\u1EB4\u1EB6\u1EB8\u1EBA'
    '\u1EBC\u1EBE\u1EC0\u1EC2\u1EC4\u1EC6\u1EC8\u1ECA\u1ECC\u1ECE\u1ED0\u1ED2\u1ED4\u1ED6\u1ED8'
    '\u1EDA\u1EDC\u1EDE\u1EE0\u1EE2\u1EE4\u1EE6\u1EE8\u1EEA\u1EEC\u1EEE\u1EF0\u1EF2\u1EF4\u1EF6'
    '\u1EF8\u1EFA\u1EFC\u1EFE\u1F08\u1F09\u1F0A\u1F0B\u1F0C\u1F0D\u1F0E\u1F0F\u1F18\u1F19\u1F1A'
    '\u1F1B\u1F1C\u1F1D\u1F28\u1F29\u1F2A\u1F2B\u1F2C\u1F2D\u1F2E\u1F2F\u1F38\u1F39\u1F3A\u1F3B'
    '\u1F3C\u1F3D\u1F3E\u1F3F\u1F48\u1F49\u1F4A\u1F4B\u1F4C\u1F4D\u1F59\u1F5B\u1F5D\u1F5F\u1F68'
    '\u1F69\u1F6A\u1F6B\u1F6C\u1F6D\u1F6E\u1F6F\u1F88\u1F89\u1F8A\u1F8B\u1F8C\u1F8D\u1F8E\u1F8F'
    '\u1F98\u1F99\u1F9A\u1F9B\u1F9C\u1F9D\u1F9E\u1F9F\u1FA8\u1FA9\u1FAA\u1FAB\u1FAC\u1FAD\u1FAE'
    '\u1FAF\u1FB8\u1FB9\u1FBA\u1FBB\u1FBC\u1FC8\u1FC9\u1FCA\u1FCB\u1FCC\u1FD8\u1FD9\u1FDA\u1FDB'
    '\u1FE8\u1FE9\u1FEA\u1FEB\u1FEC\u1FF8\u1FF9\u1FFA\u1FFB\u1FFC\u2126\u212A\u212B\u2132\u2160'
    '\u2161\u2162\u2163\u2164\u2165\u2166\u2167\u2168\u2169\u216A\u216B\u216C\u216D\u216E\u216F'
    '\u2183\u24B6\u24B7\u24B8\u24B9\u24BA\u24BB\u24BC\u24BD\u24BE\u24BF\u24C0\u24C1\u24C2\u24C3'
    '\u24C4\u24C5\u24C6\u24C7\u24C8\u24C9\u24CA\u24CB\u24CC\u24CD\u24CE\u24CF\u2C00\u2C01\u2C02'
    '\u2C03\u2C04\u2C05\u2C06\u2C07\u2C08\u2C09\u2C0A\u2C0B\u2C0C\u2C0D\u2C0E\u2C0F\u2C10\u2C11'
    '\u2C12\u2C13\u2C14\u2C15\u2C16\u2C17\u2C18\u2C19\u2C1A\u2C1B\u2C1C\u2C1D\u2C1E\u2C1F\u2C20'
    '\u2C21\u2C22\u2C23\u2C24\u2C25\u2C26\u2C27\u2C28\u2C29\u2C2A\u2C2B\u2C2C\u2C2D\u2C2E\u2C2F'
    '\u2C60\u2C62\u2C63\u2C64\u2C67\u2C69\u2C6B\u2C6D\u2C6E\u2C6F\u2C70\u2C72\u2C75\u2C7E\u2C7F'
    '\u2C80\u2C82\u2C84\u2C86\u2C88\u2C8A\u2C8C\u2C8E\u2C90\u2C92\u2C94\u2C96\u2C98\u2C9A\u2C9C'
    '\u2C9E\u2CA0\u2CA2\u2CA4\u2CA6\u2CA8\u2CAA\u2CAC\u2CAE\u2CB0\u2CB2\u2CB4\u2CB6\u2CB8\u2CBA'
    '\u2CBC\u2CBE\u2CC0\u2CC2\u2CC4\u2CC6\u2CC8\u2CCA\u2CCC\u2CCE\u2CD0\u2CD2\u2CD4\u2CD6\u2CD8'
    '\u2CDA\u2CDC\u2CDE\u2CE0\u2CE2\u2CEB\u2CED\u2CF2\uA640\uA642\uA644\uA646\uA648\uA64A\uA64C'
    '\uA64E\uA650\uA652\uA654\uA656\uA658\uA65A\uA65C\uA65E\uA660\uA662\uA664\uA666\uA668\uA66A'
    '\uA66C\uA680\uA682\uA684\uA686\uA688\uA68A\uA68C\uA68E\uA690\uA692\uA694\uA696\uA698\uA69A'
    '\uA722\uA724\uA726\uA728\uA72A\uA72C\uA72E\uA732\uA734\uA736\uA738\uA73A\uA73C\uA73E\uA740'
    '\uA742\uA744\uA746\uA748\uA74A\uA74C\uA74E\uA750\uA752\uA754\uA756\uA758\uA75A\uA75C\uA75E'
    '\uA760\uA762\uA764\uA766\uA768\uA76A\uA76C\uA76E\uA779\uA77B\uA77D\uA77E\uA780\uA782\uA784'
    '\uA786\uA78B\uA78D\uA790\uA792\uA796\uA798\uA79A\uA79C\uA79E\uA7A0\uA7A2\uA7A4\uA7A6\uA7A8'
    '\uA7AA\uA7AB\uA7AC\uA7AD\uA7AE\uA7B0\uA7B1\uA7B2\uA7B3\uA7B4\uA7B6\uA7B8\uA7BA\uA7BC\uA7BE'
    '\uA7C0\uA7C2\uA7C4\uA7C5\uA7C6\uA7C7\uA7C9\uA7D0\uA7D6\uA7D8\uA7F5\uFF21\uFF22\uFF23\uFF24'
    '\uFF25\uFF26\uFF27\uFF28\uFF29\uFF2A\uFF2B\uFF2C\uFF2D\uFF2E\uFF2F\uFF30\uFF31\uFF32\uFF33'
    '\uFF34\uFF35\uFF36\uFF37\uFF38\uFF39\uFF3A\U00010400\U00010401\U00010402\U00010403'
    '\U00010404\U00010405\U00010406\U00010407\U00010408\U00010409\U0001040A\U0001040B\U0001040C'
    '\U0001040D\U0001040E\U0001040F\U00010410\U00010411\U00010412\U00010413\U00010414\U00010415'
    '\U00010416\U00010417\U00010418\U00010419\U0001041A\U0001041B\U0001041C\U0001041D\U0001041E'
    '\U0001041F\U00010420\U00010421\U00010422\U00010423\U00010424\U00010425\U00010426\U00010427'
    '\U000104B0\U000104B1\U000104B2\U000104B3\U000104B4\U000104B5\U000104B6\U000104B7\U000104B8'
    '\U000104B9\U000104BA\U000104BB\U000104BC\U000104BD\U000104BE\U000104BF\U000104C0\U000104C1'
    '\U000104C2\U000104C3\U000104C4\U000104C5\U000104C6\U000104C7\U000104C8\U000104C9\U000104CA'
    '\U000104CB\U000104CC\U000104CD\U000104CE\U000104CF\U000104D0\U000104D1\U000104D2\U000104D3'
    '\U00010570\U00010571\U00010572\U00010573\U00010574\U00010575\U00010576\U00010577\U00010578'
    '\U00010579\U0001057A\U0001057C\U0001057D\U0001057E\U0001057F\U00010580\U00010581\U00010582'
    '\U00010583\U00010584\U00010585\U00010586\U00010587\U00010588\U00010589\U0001058A\U0001058C'
    '\U0001058D\U0001058E\U0001058F\U00010590\U00010591\U00010592\U00010594\U00010595\U00010C80'
    '\U00010C81\U00010C82\U00010C83\U00010C84\U00010C85\U00010C86\U00010C87\U00010C88\U00010C89'
    '\U00010C8A\U00010C8B\U00010C8C\U00010C8D\U00010C8E\U00010C8F\U00010C90\U00010C91\U00010C92'
    '\U00010C93\U00010C94\U00010C95\U00010C96\U00010C97\U00010C98\U00010C99\U00010C9A\U00010C9B'
    '\U00010C9C\U00010C9D\U00010C9E\U00010C9F\U00010CA0\U00010CA1\U00010CA2\U00010CA3\U00010CA4'
    '\U00010CA5\U00010CA6\U00010CA7\U00010CA8\U00010CA9\U00010CAA\U00010CAB\U00010CAC\U00010CAD'
    '\U00010CAE\U00010CAF\U00010CB0\U00010CB1\U00010CB2\U000118A0\U000118A1\U000118A2\U000118A3'
    '\U000118A4\U000118A5\U000118A6\U000118A7\U000118A8\U000118A9\U000118AA\U000118AB\U000118AC'
    '\U000118AD\U000118AE\U000118AF\U000118B0\U000118B1\U000118B2\U000118B3\U000118B4\U000118B5'
    '\U000118B6\U000118B7\U000118B8\U000118B9\U000118BA\U000118BB\U000118BC\U000118BD\U000118BE'
    '\U000118BF\U00016E40\U00016E41\U00016E42\U00016E43\U00016E44\U00016E45\U00016E46\U00016E47'
    '\U00016E48\U00016E49\U00016E4A\U00016E4B\U00016E4C\U00016E4D\U00016E4E\U00016E4F\U00016E50'
    '\U00016E51\U00016E52\U00016E53\U00016E54\U00016E55\U00016E56\U00016E57\U00016E58\U00016E59'
    '\U00016E5A\U00016E5B\U00016E5C\U00016E5D\U00016E5E\U00016E5F\U0001E900\U0001E901\U0001E902'
    '\U0001E903\U0001E904\U0001E905\U0001E906\U0001E907\U0001E908\U0001E909\U0001E90A\U0001E90B'
    '\U0001E90C\U0001E90D\U0001E90E\U0001E90F\U0001E910\U0001E911\U0001E912\U0001E913\U0001E914'
    '\U0001E915\U0001E916\U0001E917\U0001E918\U0001E919\U0001E91A\U0001E91B\U0001E91C\U0001E91D'
    '\U0001E91E\U0001E91F\U0001E920\U0001E921'
$body$;
comment on function remem._chars_upper() is 'Characters beyond ASCII that have a simple lower-case mapping, in code point order.';

-- What the characters of _chars_upper become, in the same order. Called by _lower.
create or replace function remem._chars_lower() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u00E0\u00E1\u00E2\u00E3\u00E4\u00E5\u00E6\u00E7\u00E8\u00E9\u00EA\u00EB\u00EC\u00ED\u00EE'
    '\u00EF\u00F0\u00F1\u00F2\u00F3\u00F4\u00F5\u00F6\u00F8\u00F9\u00FA\u00FB\u00FC\u00FD\u00FE'
    '\u0101\u0103\u0105\u0107\u0109\u010B\u010D\u010F\u0111\u0113\u0115\u0117\u0119\u011B\u011D'
    '\u011F\u0121\u0123\u0125\u0127\u0129\u012B\u012D\u012F\u0069\u0133\u0135\u0137\u013A\u013C'
    '\u013E\u0140\u0142\u0144\u0146\u0148\u014B\u014D\u014F\u0151\u0153\u0155\u0157\u0159\u015B'
    '\u015D\u015F\u0161\u0163\u0165\u0167\u0169\u016B\u016D\u016F\u0171\u0173\u0175\u0177\u00FF'
    '\u017A\u017C\u017E\u0253\u0183\u0185\u0254\u0188\u0256\u0257\u018C\u01DD\u0259\u025B\u0192'
    '\u0260\u0263\u0269\u0268\u0199\u026F\u0272\u0275\u01A1\u01A3\u01A5\u0280\u01A8\u0283\u01AD'
    '\u0288\u01B0\u028A\u028B\u01B4\u01B6\u0292\u01B9\u01BD\u01C6\u01C6\u01C9\u01C9\u01CC\u01CC'
    '\u01CE\u01D0\u01D2\u01D4\u01D6\u01D8\u01DA\u01DC\u01DF\u01E1\u01E3\u01E5\u01E7\u01E9\u01EB'
    '\u01ED\u01EF\u01F3\u01F3\u01F5\u0195\u01BF\u01F9\u01FB\u01FD\u01FF\u0201\u0203\u0205\u0207'
    '\u0209\u020B\u020D\u020F\u0211\u0213\u0215\u0217\u0219\u021B\u021D\u021F\u019E\u0223\u0225'
    '\u0227\u0229\u022B\u022D\u022F\u0231\u0233\u2C65\u023C\u019A\u2C66\u0242\u0180\u0289\u028C'
    '\u0247\u0249\u024B\u024D\u024F\u0371\u0373\u0377\u03F3\u03AC\u03AD\u03AE\u03AF\u03CC\u03CD'
    '\u03CE\u03B1\u03B2\u03B3\u03B4\u03B5\u03B6\u03B7\u03B8\u03B9\u03BA\u03BB\u03BC\u03BD\u03BE'
    '\u03BF\u03C0\u03C1\u03C3\u03C4\u03C5\u03C6\u03C7\u03C8\u03C9\u03CA\u03CB\u03D7\u03D9\u03DB'
    '\u03DD\u03DF\u03E1\u03E3\u03E5\u03E7\u03E9\u03EB\u03ED\u03EF\u03B8\u03F8\u03F2\u03FB\u037B'
    '\u037C\u037D\u0450\u0451\u0452\u0453\u0454\u0455\u0456\u0457\u0458\u0459\u045A\u045B\u045C'
    '\u045D\u045E\u045F\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u0439\u043A\u043B'
    '\u043C\u043D\u043E\u043F\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044A'
    '\u044B\u044C\u044D\u044E\u044F\u0461\u0463\u0465\u0467\u0469\u046B\u046D\u046F\u0471\u0473'
    '\u0475\u0477\u0479\u047B\u047D\u047F\u0481\u048B\u048D\u048F\u0491\u0493\u0495\u0497\u0499'
    '\u049B\u049D\u049F\u04A1\u04A3\u04A5\u04A7\u04A9\u04AB\u04AD\u04AF\u04B1\u04B3\u04B5\u04B7'
    '\u04B9\u04BB\u04BD\u04BF\u04CF\u04C2\u04C4\u04C6\u04C8\u04CA\u04CC\u04CE\u04D1\u04D3\u04D5'
    '\u04D7\u04D9\u04DB\u04DD\u04DF\u04E1\u04E3\u04E5\u04E7\u04E9\u04EB\u04ED\u04EF\u04F1\u04F3'
    '\u04F5\u04F7\u04F9\u04FB\u04FD\u04FF\u0501\u0503\u0505\u0507\u0509\u050B\u050D\u050F\u0511'
    '\u0513\u0515\u0517\u0519\u051B\u051D\u051F\u0521\u0523\u0525\u0527\u0529\u052B\u052D\u052F'
    '\u0561\u0562\u0563\u0564\u0565\u0566\u0567\u0568\u0569\u056A\u056B\u056C\u056D\u056E\u056F'
    '\u0570\u0571\u0572\u0573\u0574\u0575\u0576\u0577\u0578\u0579\u057A\u057B\u057C\u057D\u057E'
    '\u057F\u0580\u0581\u0582\u0583\u0584\u0585\u0586\u2D00\u2D01\u2D02\u2D03\u2D04\u2D05\u2D06'
    '\u2D07\u2D08\u2D09\u2D0A\u2D0B\u2D0C\u2D0D\u2D0E\u2D0F\u2D10\u2D11\u2D12\u2D13\u2D14\u2D15'
    '\u2D16\u2D17\u2D18\u2D19\u2D1A\u2D1B\u2D1C\u2D1D\u2D1E\u2D1F\u2D20\u2D21\u2D22\u2D23\u2D24'
    '\u2D25\u2D27\u2D2D\uAB70\uAB71\uAB72\uAB73\uAB74\uAB75\uAB76\uAB77\uAB78\uAB79\uAB7A\uAB7B'
    '\uAB7C\uAB7D\uAB7E\uAB7F\uAB80\uAB81\uAB82\uAB83\uAB84\uAB85\uAB86\uAB87\uAB88\uAB89\uAB8A'
    '\uAB8B\uAB8C\uAB8D\uAB8E\uAB8F\uAB90\uAB91\uAB92\uAB93\uAB94\uAB95\uAB96\uAB97\uAB98\uAB99'
    '\uAB9A\uAB9B\uAB9C\uAB9D\uAB9E\uAB9F\uABA0\uABA1\uABA2\uABA3\uABA4\uABA5\uABA6\uABA7\uABA8'
    '\uABA9\uABAA\uABAB\uABAC\uABAD\uABAE\uABAF\uABB0\uABB1\uABB2\uABB3\uABB4\uABB5\uABB6\uABB7'
    '\uABB8\uABB9\uABBA\uABBB\uABBC\uABBD\uABBE\uABBF\u13F8\u13F9\u13FA\u13FB\u13FC\u13FD\u10D0'
    '\u10D1\u10D2\u10D3\u10D4\u10D5\u10D6\u10D7\u10D8\u10D9\u10DA\u10DB\u10DC\u10DD\u10DE\u10DF'
    '\u10E0\u10E1\u10E2\u10E3\u10E4\u10E5\u10E6\u10E7\u10E8\u10E9\u10EA\u10EB\u10EC\u10ED\u10EE'
    '\u10EF\u10F0\u10F1\u10F2\u10F3\u10F4\u10F5\u10F6\u10F7\u10F8\u10F9\u10FA\u10FD\u10FE\u10FF'
    '\u1E01\u1E03\u1E05\u1E07\u1E09\u1E0B\u1E0D\u1E0F\u1E11\u1E13\u1E15\u1E17\u1E19\u1E1B\u1E1D'
    '\u1E1F\u1E21\u1E23\u1E25\u1E27\u1E29\u1E2B\u1E2D\u1E2F\u1E31\u1E33\u1E35\u1E37\u1E39\u1E3B'
    '\u1E3D\u1E3F\u1E41\u1E43\u1E45\u1E47\u1E49\u1E4B\u1E4D\u1E4F\u1E51\u1E53\u1E55\u1E57\u1E59'
    '\u1E5B\u1E5D\u1E5F\u1E61\u1E63\u1E65\u1E67\u1E69\u1E6B\u1E6D\u1E6F\u1E71\u1E73\u1E75\u1E77'
    '\u1E79\u1E7B\u1E7D\u1E7F\u1E81\u1E83\u1E85\u1E87\u1E89\u1E8B\u1E8D\u1E8F\u1E91\u1E93\u1E95'
    '\u00DF\u1EA1\u1EA3\u1EA5\u1EA7\u1EA9\u1EAB\u1EAD\u1EAF\u1EB1\u1EB3\u1EB5\u1EB7\u1EB9\u1EBB'
    '\u1EBD\u1EBF\u1EC1\u1EC3\u1EC5\u1EC7\u1EC9\u1ECB\u1ECD\u1ECF\u1ED1\u1ED3\u1ED5\u1ED7\u1ED9'
    '\u1EDB\u1EDD\u1EDF\u1EE1\u1EE3\u1EE5\u1EE7\u1EE9\u1EEB\u1EED\u1EEF\u1EF1\u1EF3\u1EF5\u1EF7'
    '\u1EF9\u1EFB\u1EFD\u1EFF\u1F00\u1F01\u1F02\u1F03\u1F04\u1F05\u1F06\u1F07\u1F10\u1F11\u1F12'
    '\u1F13\u1F14\u1F15\u1F20\u1F21\u1F22\u1F23\u1F24\u1F25\u1F26\u1F27\u1F30\u1F31\u1F32\u1F33'
    '\u1F34\u1F35\u1F36\u1F37\u1F40\u1F41\u1F42\u1F43\u1F44\u1F45\u1F51\u1F53\u1F55\u1F57\u1F60'
    '\u1F61\u1F62\u1F63\u1F64\u1F65\u1F66\u1F67\u1F80\u1F81\u1F82\u1F83\u1F84\u1F85\u1F86\u1F87'
    '\u1F90\u1F91\u1F92\u1F93\u1F94\u1F95\u1F96\u1F97\u1FA0\u1FA1\u1FA2\u1FA3\u1FA4\u1FA5\u1FA6'
    '\u1FA7\u1FB0\u1FB1\u1F70\u1F71\u1FB3\u1F72\u1F73\u1F74\u1F75\u1FC3\u1FD0\u1FD1\u1F76\u1F77'
    '\u1FE0\u1FE1\u1F7A\u1F7B\u1FE5\u1F78\u1F79\u1F7C\u1F7D\u1FF3\u03C9\u006B\u00E5\u214E\u2170'
    '\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u217A\u217B\u217C\u217D\u217E\u217F'
    '\u2184\u24D0\u24D1\u24D2\u24D3\u24D4\u24D5\u24D6\u24D7\u24D8\u24D9\u24DA\u24DB\u24DC\u24DD'
    '\u24DE\u24DF\u24E0\u24E1\u24E2\u24E3\u24E4\u24E5\u24E6\u24E7\u24E8\u24E9\u2C30\u2C31\u2C32'
    '\u2C33\u2C34\u2C35\u2C36\u2C37\u2C38\u2C39\u2C3A\u2C3B\u2C3C\u2C3D\u2C3E\u2C3F\u2C40\u2C41'
    '\u2C42\u2C43\u2C44\u2C45\u2C46\u2C47\u2C48\u2C49\u2C4A\u2C4B\u2C4C\u2C4D\u2C4E\u2C4F\u2C50'
    '\u2C51\u2C52\u2C53\u2C54\u2C55\u2C56\u2C57\u2C58\u2C59\u2C5A\u2C5B\u2C5C\u2C5D\u2C5E\u2C5F'
    '\u2C61\u026B\u1D7D\u027D\u2C68\u2C6A\u2C6C\u0251\u0271\u0250\u0252\u2C73\u2C76\u023F\u0240'
    '\u2C81\u2C83\u2C85\u2C87\u2C89\u2C8B\u2C8D\u2C8F\u2C91\u2C93\u2C95\u2C97\u2C99\u2C9B\u2C9D'
    '\u2C9F\u2CA1\u2CA3\u2CA5\u2CA7\u2CA9\u2CAB\u2CAD\u2CAF\u2CB1\u2CB3\u2CB5\u2CB7\u2CB9\u2CBB'
    '\u2CBD\u2CBF\u2CC1\u2CC3\u2CC5\u2CC7\u2CC9\u2CCB\u2CCD\u2CCF\u2CD1\u2CD3\u2CD5\u2CD7\u2CD9'
    '\u2CDB\u2CDD\u2CDF\u2CE1\u2CE3\u2CEC\u2CEE\u2CF3\uA641\uA643\uA645\uA647\uA649\uA64B\uA64D'
    '\uA64F\uA651\uA653\uA655\uA657\uA659\uA65B\uA65D\uA65F\uA661\uA663\uA665\uA667\uA669\uA66B'
    '\uA66D\uA681\uA683\uA685\uA687\uA689\uA68B\uA68D\uA68F\uA691\uA693\uA695\uA697\uA699\uA69B'
    '\uA723\uA725\uA727\uA729\uA72B\uA72D\uA72F\uA733\uA735\uA737\uA739\uA73B\uA73D\uA73F\uA741'
    '\uA743\uA745\uA747\uA749\uA74B\uA74D\uA74F\uA751\uA753\uA755\uA757\uA759\uA75B\uA75D\uA75F'
    '\uA761\uA763\uA765\uA767\uA769\uA76B\uA76D\uA76F\uA77A\uA77C\u1D79\uA77F\uA781\uA783\uA785'
    '\uA787\uA78C\u0265\uA791\uA793\uA797\uA799\uA79B\uA79D\uA79F\uA7A1\uA7A3\uA7A5\uA7A7\uA7A9'
    '\u0266\u025C\u0261\u026C\u026A\u029E\u0287\u029D\uAB53\uA7B5\uA7B7\uA7B9\uA7BB\uA7BD\uA7BF'
    '\uA7C1\uA7C3\uA794\u0282\u1D8E\uA7C8\uA7CA\uA7D1\uA7D7\uA7D9\uA7F6\uFF41\uFF42\uFF43\uFF44'
    '\uFF45\uFF46\uFF47\uFF48\uFF49\uFF4A\uFF4B\uFF4C\uFF4D\uFF4E\uFF4F\uFF50\uFF51\uFF52\uFF53'
    '\uFF54\uFF55\uFF56\uFF57\uFF58\uFF59\uFF5A\U00010428\U00010429\U0001042A\U0001042B'
    '\U0001042C\U0001042D\U0001042E\U0001042F\U00010430\U00010431\U00010432\U00010433\U00010434'
    '\U00010435\U00010436\U00010437\U00010438\U00010439\U0001043A\U0001043B\U0001043C\U0001043D'
    '\U0001043E\U0001043F\U00010440\U00010441\U00010442\U00010443\U00010444\U00010445\U00010446'
    '\U00010447\U00010448\U00010449\U0001044A\U0001044B\U0001044C\U0001044D\U0001044E\U0001044F'
    '\U000104D8\U000104D9\U000104DA\U000104DB\U000104DC\U000104DD\U000104DE\U000104DF\U000104E0'
    '\U000104E1\U000104E2\U000104E3\U000104E4\U000104E5\U000104E6\U000104E7\U000104E8\U000104E9'
    '\U000104EA\U000104EB\U000104EC\U000104ED\U000104EE\U000104EF\U000104F0\U000104F1\U000104F2'
    '\U000104F3\U000104F4\U000104F5\U000104F6\U000104F7\U000104F8\U000104F9\U000104FA\U000104FB'
    '\U00010597\U00010598\U00010599\U0001059A\U0001059B\U0001059C\U0001059D\U0001059E\U0001059F'
    '\U000105A0\U000105A1\U000105A3\U000105A4\U000105A5\U000105A6\U000105A7\U000105A8\U000105A9'
    '\U000105AA\U000105AB\U000105AC\U000105AD\U000105AE\U000105AF\U000105B0\U000105B1\U000105B3'
    '\U000105B4\U000105B5\U000105B6\U000105B7\U000105B8\U000105B9\U000105BB\U000105BC\U00010CC0'
    '\U00010CC1\U00010CC2\U00010CC3\U00010CC4\U00010CC5\U00010CC6\U00010CC7\U00010CC8\U00010CC9'
    '\U00010CCA\U00010CCB\U00010CCC\U00010CCD\U00010CCE\U00010CCF\U00010CD0\U00010CD1\U00010CD2'
    '\U00010CD3\U00010CD4\U00010CD5\U00010CD6\U00010CD7\U00010CD8\U00010CD9\U00010CDA\U00010CDB'
    '\U00010CDC\U00010CDD\U00010CDE\U00010CDF\U00010CE0\U00010CE1\U00010CE2\U00010CE3\U00010CE4'
    '\U00010CE5\U00010CE6\U00010CE7\U00010CE8\U00010CE9\U00010CEA\U00010CEB\U00010CEC\U00010CED'
    '\U00010CEE\U00010CEF\U00010CF0\U00010CF1\U00010CF2\U000118C0\U000118C1\U000118C2\U000118C3'
    '\U000118C4\U000118C5\U000118C6\U000118C7\U000118C8\U000118C9\U000118CA\U000118CB\U000118CC'
    '\U000118CD\U000118CE\U000118CF\U000118D0\U000118D1\U000118D2\U000118D3\U000118D4\U000118D5'
    '\U000118D6\U000118D7\U000118D8\U000118D9\U000118DA\U000118DB\U000118DC\U000118DD\U000118DE'
    '\U000118DF\U00016E60\U00016E61\U00016E62\U00016E63\U00016E64\U00016E65\U00016E66\U00016E67'
    '\U00016E68\U00016E69\U00016E6A\U00016E6B\U00016E6C\U00016E6D\U00016E6E\U00016E6F\U00016E70'
    '\U00016E71\U00016E72\U00016E73\U00016E74\U00016E75\U00016E76\U00016E77\U00016E78\U00016E79'
    '\U00016E7A\U00016E7B\U00016E7C\U00016E7D\U00016E7E\U00016E7F\U0001E922\U0001E923\U0001E924'
    '\U0001E925\U0001E926\U0001E927\U0001E928\U0001E929\U0001E92A\U0001E92B\U0001E92C\U0001E92D'
    '\U0001E92E\U0001E92F\U0001E930\U0001E931\U0001E932\U0001E933\U0001E934\U0001E935\U0001E936'
    '\U0001E937\U0001E938\U0001E939\U0001E93A\U0001E93B\U0001E93C\U0001E93D\U0001E93E\U0001E93F'
    '\U0001E940\U0001E941\U0001E942\U0001E943'
$body$;
comment on function remem._chars_lower() is 'Simple lower-case mappings of _chars_upper(), in the same order.';

-- 12_text_tables.sql
-- Generated by scripts/generate_unicode.py from Unicode 14.0; do not edit.
-- Frozen character tables, so that text analysis is the same in every locale and under every
-- Postgres and Python version. Immutable constants: the planner folds each call away.
-- Content digest: 2131b071da02b243e3d6a15e3e3fabf8a03a7a1c9cf0da08a8971832f9e6ba42

-- Unassigned in 14.0, and U+11A7: replaced by a space before anything else by _assigned.
create or replace function remem._chars_excluded() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u0378-\u0379\u0380-\u0383\u038B\u038D\u03A2\u0530\u0557-\u0558\u058B-\u058C\u0590'
    '\u05C8-\u05CF\u05EB-\u05EE\u05F5-\u05FF\u070E\u074B-\u074C\u07B2-\u07BF\u07FB-\u07FC'
    '\u082E-\u082F\u083F\u085C-\u085D\u085F\u086B-\u086F\u088F\u0892-\u0897\u0984\u098D-\u098E'
    '\u0991-\u0992\u09A9\u09B1\u09B3-\u09B5\u09BA-\u09BB\u09C5-\u09C6\u09C9-\u09CA\u09CF-\u09D6'
    '\u09D8-\u09DB\u09DE\u09E4-\u09E5\u09FF-\u0A00\u0A04\u0A0B-\u0A0E\u0A11-\u0A12\u0A29\u0A31'
    '\u0A34\u0A37\u0A3A-\u0A3B\u0A3D\u0A43-\u0A46\u0A49-\u0A4A\u0A4E-\u0A50\u0A52-\u0A58\u0A5D'
    '\u0A5F-\u0A65\u0A77-\u0A80\u0A84\u0A8E\u0A92\u0AA9\u0AB1\u0AB4\u0ABA-\u0ABB\u0AC6\u0ACA'
    '\u0ACE-\u0ACF\u0AD1-\u0ADF\u0AE4-\u0AE5\u0AF2-\u0AF8\u0B00\u0B04\u0B0D-\u0B0E\u0B11-\u0B12'
    '\u0B29\u0B31\u0B34\u0B3A-\u0B3B\u0B45-\u0B46\u0B49-\u0B4A\u0B4E-\u0B54\u0B58-\u0B5B\u0B5E'
    '\u0B64-\u0B65\u0B78-\u0B81\u0B84\u0B8B-\u0B8D\u0B91\u0B96-\u0B98\u0B9B\u0B9D\u0BA0-\u0BA2'
    '\u0BA5-\u0BA7\u0BAB-\u0BAD\u0BBA-\u0BBD\u0BC3-\u0BC5\u0BC9\u0BCE-\u0BCF\u0BD1-\u0BD6'
    '\u0BD8-\u0BE5\u0BFB-\u0BFF\u0C0D\u0C11\u0C29\u0C3A-\u0C3B\u0C45\u0C49\u0C4E-\u0C54\u0C57'
    '\u0C5B-\u0C5C\u0C5E-\u0C5F\u0C64-\u0C65\u0C70-\u0C76\u0C8D\u0C91\u0CA9\u0CB4\u0CBA-\u0CBB'
    '\u0CC5\u0CC9\u0CCE-\u0CD4\u0CD7-\u0CDC\u0CDF\u0CE4-\u0CE5\u0CF0\u0CF3-\u0CFF\u0D0D\u0D11'
    '\u0D45\u0D49\u0D50-\u0D53\u0D64-\u0D65\u0D80\u0D84\u0D97-\u0D99\u0DB2\u0DBC\u0DBE-\u0DBF'
    '\u0DC7-\u0DC9\u0DCB-\u0DCE\u0DD5\u0DD7\u0DE0-\u0DE5\u0DF0-\u0DF1\u0DF5-\u0E00\u0E3B-\u0E3E'
    '\u0E5C-\u0E80\u0E83\u0E85\u0E8B\u0EA4\u0EA6\u0EBE-\u0EBF\u0EC5\u0EC7\u0ECE-\u0ECF'
    '\u0EDA-\u0EDB\u0EE0-\u0EFF\u0F48\u0F6D-\u0F70\u0F98\u0FBD\u0FCD\u0FDB-\u0FFF\u10C6'
    '\u10C8-\u10CC\u10CE-\u10CF\u11A7\u1249\u124E-\u124F\u1257\u1259\u125E-\u125F\u1289'
    '\u128E-\u128F\u12B1\u12B6-\u12B7\u12BF\u12C1\u12C6-\u12C7\u12D7\u1311\u1316-\u1317'
    '\u135B-\u135C\u137D-\u137F\u139A-\u139F\u13F6-\u13F7\u13FE-\u13FF\u169D-\u169F'
    '\u16F9-\u16FF\u1716-\u171E\u1737-\u173F\u1754-\u175F\u176D\u1771\u1774-\u177F\u17DE-\u17DF'
    '\u17EA-\u17EF\u17FA-\u17FF\u181A-\u181F\u1879-\u187F\u18AB-\u18AF\u18F6-\u18FF\u191F'
    '\u192C-\u192F\u193C-\u193F\u1941-\u1943\u196E-\u196F\u1975-\u197F\u19AC-\u19AF'
    '\u19CA-\u19CF\u19DB-\u19DD\u1A1C-\u1A1D\u1A5F\u1A7D-\u1A7E\u1A8A-\u1A8F\u1A9A-\u1A9F'
    '\u1AAE-\u1AAF\u1ACF-\u1AFF\u1B4D-\u1B4F\u1B7F\u1BF4-\u1BFB\u1C38-\u1C3A\u1C4A-\u1C4C'
    '\u1C89-\u1C8F\u1CBB-\u1CBC\u1CC8-\u1CCF\u1CFB-\u1CFF\u1F16-\u1F17\u1F1E-\u1F1F'
    '\u1F46-\u1F47\u1F4E-\u1F4F\u1F58\u1F5A\u1F5C\u1F5E\u1F7E-\u1F7F\u1FB5\u1FC5\u1FD4-\u1FD5'
    '\u1FDC\u1FF0-\u1FF1\u1FF5\u1FFF\u2065\u2072-\u2073\u208F\u209D-\u209F\u20C1-\u20CF'
    '\u20F1-\u20FF\u218C-\u218F\u2427-\u243F\u244B-\u245F\u2B74-\u2B75\u2B96\u2CF4-\u2CF8\u2D26'
    '\u2D28-\u2D2C\u2D2E-\u2D2F\u2D68-\u2D6E\u2D71-\u2D7E\u2D97-\u2D9F\u2DA7\u2DAF\u2DB7\u2DBF'
    '\u2DC7\u2DCF\u2DD7\u2DDF\u2E5E-\u2E7F\u2E9A\u2EF4-\u2EFF\u2FD6-\u2FEF\u2FFC-\u2FFF\u3040'
    '\u3097-\u3098\u3100-\u3104\u3130\u318F\u31E4-\u31EF\u321F\uA48D-\uA48F\uA4C7-\uA4CF'
    '\uA62C-\uA63F\uA6F8-\uA6FF\uA7CB-\uA7CF\uA7D2\uA7D4\uA7DA-\uA7F1\uA82D-\uA82F\uA83A-\uA83F'
    '\uA878-\uA87F\uA8C6-\uA8CD\uA8DA-\uA8DF\uA954-\uA95E\uA97D-\uA97F\uA9CE\uA9DA-\uA9DD\uA9FF'
    '\uAA37-\uAA3F\uAA4E-\uAA4F\uAA5A-\uAA5B\uAAC3-\uAADA\uAAF7-\uAB00\uAB07-\uAB08'
    '\uAB0F-\uAB10\uAB17-\uAB1F\uAB27\uAB2F\uAB6C-\uAB6F\uABEE-\uABEF\uABFA-\uABFF\uD7A4-\uD7AF'
    '\uD7C7-\uD7CA\uD7FC-\uD7FF\uFA6E-\uFA6F\uFADA-\uFAFF\uFB07-\uFB12\uFB18-\uFB1C\uFB37\uFB3D'
    '\uFB3F\uFB42\uFB45\uFBC3-\uFBD2\uFD90-\uFD91\uFDC8-\uFDCE\uFDD0-\uFDEF\uFE1A-\uFE1F\uFE53'
    '\uFE67\uFE6C-\uFE6F\uFE75\uFEFD-\uFEFE\uFF00\uFFBF-\uFFC1\uFFC8-\uFFC9\uFFD0-\uFFD1'
    '\uFFD8-\uFFD9\uFFDD-\uFFDF\uFFE7\uFFEF-\uFFF8\uFFFE-\uFFFF\U0001000C\U00010027\U0001003B'
    '\U0001003E\U0001004E-\U0001004F\U0001005E-\U0001007F\U000100FB-\U000100FF'
    '\U00010103-\U00010106\U00010134-\U00010136\U0001018F\U0001019D-\U0001019F'
    '\U000101A1-\U000101CF\U000101FE-\U0001027F\U0001029D-\U0001029F\U000102D1-\U000102DF'
    '\U000102FC-\U000102FF\U00010324-\U0001032C\U0001034B-\U0001034F\U0001037B-\U0001037F'
    '\U0001039E\U000103C4-\U000103C7\U000103D6-\U000103FF\U0001049E-\U0001049F'
    '\U000104AA-\U000104AF\U000104D4-\U000104D7\U000104FC-\U000104FF\U00010528-\U0001052F'
    '\U00010564-\U0001056E\U0001057B\U0001058B\U00010593\U00010596\U000105A2\U000105B2'
    '\U000105BA\U000105BD-\U000105FF\U00010737-\U0001073F\U00010756-\U0001075F'
    '\U00010768-\U0001077F\U00010786\U000107B1\U000107BB-\U000107FF\U00010806-\U00010807'
    '\U00010809\U00010836\U00010839-\U0001083B\U0001083D-\U0001083E\U00010856'
    '\U0001089F-\U000108A6\U000108B0-\U000108DF\U000108F3\U000108F6-\U000108FA'
    '\U0001091C-\U0001091E\U0001093A-\U0001093E\U00010940-\U0001097F\U000109B8-\U000109BB'
    '\U000109D0-\U000109D1\U00010A04\U00010A07-\U00010A0B\U00010A14\U00010A18'
    '\U00010A36-\U00010A37\U00010A3B-\U00010A3E\U00010A49-\U00010A4F\U00010A59-\U00010A5F'
    '\U00010AA0-\U00010ABF\U00010AE7-\U00010AEA\U00010AF7-\U00010AFF\U00010B36-\U00010B38'
    '\U00010B56-\U00010B57\U00010B73-\U00010B77\U00010B92-\U00010B98\U00010B9D-\U00010BA8'
    '\U00010BB0-\U00010BFF\U00010C49-\U00010C7F\U00010CB3-\U00010CBF\U00010CF3-\U00010CF9'
    '\U00010D28-\U00010D2F\U00010D3A-\U00010E5F\U00010E7F\U00010EAA\U00010EAE-\U00010EAF'
    '\U00010EB2-\U00010EFF\U00010F28-\U00010F2F\U00010F5A-\U00010F6F\U00010F8A-\U00010FAF'
    '\U00010FCC-\U00010FDF\U00010FF7-\U00010FFF\U0001104E-\U00011051\U00011076-\U0001107E'
    '\U000110C3-\U000110CC\U000110CE-\U000110CF\U000110E9-\U000110EF\U000110FA-\U000110FF'
    '\U00011135\U00011148-\U0001114F\U00011177-\U0001117F\U000111E0\U000111F5-\U000111FF'
    '\U00011212\U0001123F-\U0001127F\U00011287\U00011289\U0001128E\U0001129E'
    '\U000112AA-\U000112AF\U000112EB-\U000112EF\U000112FA-\U000112FF\U00011304'
    '\U0001130D-\U0001130E\U00011311-\U00011312\U00011329\U00011331\U00011334\U0001133A'
    '\U00011345-\U00011346\U00011349-\U0001134A\U0001134E-\U0001134F\U00011351-\U00011356'
    '\U00011358-\U0001135C\U00011364-\U00011365\U0001136D-\U0001136F\U00011375-\U000113FF'
    '\U0001145C\U00011462-\U0001147F\U000114C8-\U000114CF\U000114DA-\U0001157F'
    '\U000115B6-\U000115B7\U000115DE-\U000115FF\U00011645-\U0001164F\U0001165A-\U0001165F'
    '\U0001166D-\U0001167F\U000116BA-\U000116BF\U000116CA-\U000116FF\U0001171B-\U0001171C'
    '\U0001172C-\U0001172F\U00011747-\U000117FF\U0001183C-\U0001189F\U000118F3-\U000118FE'
    '\U00011907-\U00011908\U0001190A-\U0001190B\U00011914\U00011917\U00011936'
    '\U00011939-\U0001193A\U00011947-\U0001194F\U0001195A-\U0001199F\U000119A8-\U000119A9'
    '\U000119D8-\U000119D9\U000119E5-\U000119FF\U00011A48-\U00011A4F\U00011AA3-\U00011AAF'
    '\U00011AF9-\U00011BFF\U00011C09\U00011C37\U00011C46-\U00011C4F\U00011C6D-\U00011C6F'
    '\U00011C90-\U00011C91\U00011CA8\U00011CB7-\U00011CFF\U00011D07\U00011D0A'
    '\U00011D37-\U00011D39\U00011D3B\U00011D3E\U00011D48-\U00011D4F\U00011D5A-\U00011D5F'
    '\U00011D66\U00011D69\U00011D8F\U00011D92\U00011D99-\U00011D9F\U00011DAA-\U00011EDF'
    '\U00011EF9-\U00011FAF\U00011FB1-\U00011FBF\U00011FF2-\U00011FFE\U0001239A-\U000123FF'
    '\U0001246F\U00012475-\U0001247F\U00012544-\U00012F8F\U00012FF3-\U00012FFF\U0001342F'
    '\U00013439-\U000143FF\U00014647-\U000167FF\U00016A39-\U00016A3F\U00016A5F'
    '\U00016A6A-\U00016A6D\U00016ABF\U00016ACA-\U00016ACF\U00016AEE-\U00016AEF'
    '\U00016AF6-\U00016AFF\U00016B46-\U00016B4F\U00016B5A\U00016B62\U00016B78-\U00016B7C'
    '\U00016B90-\U00016E3F\U00016E9B-\U00016EFF\U00016F4B-\U00016F4E\U00016F88-\U00016F8E'
    '\U00016FA0-\U00016FDF\U00016FE5-\U00016FEF\U00016FF2-\U00016FFF\U000187F8-\U000187FF'
    '\U00018CD6-\U00018CFF\U00018D09-\U0001AFEF\U0001AFF4\U0001AFFC\U0001AFFF'
    '\U0001B123-\U0001B14F\U0001B153-\U0001B163\U0001B168-\U0001B16F\U0001B2FC-\U0001BBFF'
    '\U0001BC6B-\U0001BC6F\U0001BC7D-\U0001BC7F\U0001BC89-\U0001BC8F\U0001BC9A-\U0001BC9B'
    '\U0001BCA4-\U0001CEFF\U0001CF2E-\U0001CF2F\U0001CF47-\U0001CF4F\U0001CFC4-\U0001CFFF'
    '\U0001D0F6-\U0001D0FF\U0001D127-\U0001D128\U0001D1EB-\U0001D1FF\U0001D246-\U0001D2DF'
    '\U0001D2F4-\U0001D2FF\U0001D357-\U0001D35F\U0001D379-\U0001D3FF\U0001D455\U0001D49D'
    '\U0001D4A0-\U0001D4A1\U0001D4A3-\U0001D4A4\U0001D4A7-\U0001D4A8\U0001D4AD\U0001D4BA'
    '\U0001D4BC\U0001D4C4\U0001D506\U0001D50B-\U0001D50C\U0001D515\U0001D51D\U0001D53A'
    '\U0001D53F\U0001D545\U0001D547-\U0001D549\U0001D551\U0001D6A6-\U0001D6A7'
    '\U0001D7CC-\U0001D7CD\U0001DA8C-\U0001DA9A\U0001DAA0\U0001DAB0-\U0001DEFF'
    '\U0001DF1F-\U0001DFFF\U0001E007\U0001E019-\U0001E01A\U0001E022\U0001E025'
    '\U0001E02B-\U0001E0FF\U0001E12D-\U0001E12F\U0001E13E-\U0001E13F\U0001E14A-\U0001E14D'
    '\U0001E150-\U0001E28F\U0001E2AF-\U0001E2BF\U0001E2FA-\U0001E2FE\U0001E300-\U0001E7DF'
    '\U0001E7E7\U0001E7EC\U0001E7EF\U0001E7FF\U0001E8C5-\U0001E8C6\U0001E8D7-\U0001E8FF'
    '\U0001E94C-\U0001E94F\U0001E95A-\U0001E95D\U0001E960-\U0001EC70\U0001ECB5-\U0001ED00'
    '\U0001ED3E-\U0001EDFF\U0001EE04\U0001EE20\U0001EE23\U0001EE25-\U0001EE26\U0001EE28'
    '\U0001EE33\U0001EE38\U0001EE3A\U0001EE3C-\U0001EE41\U0001EE43-\U0001EE46\U0001EE48'
    '\U0001EE4A\U0001EE4C\U0001EE50\U0001EE53\U0001EE55-\U0001EE56\U0001EE58\U0001EE5A'
    '\U0001EE5C\U0001EE5E\U0001EE60\U0001EE63\U0001EE65-\U0001EE66\U0001EE6B\U0001EE73'
    '\U0001EE78\U0001EE7D\U0001EE7F\U0001EE8A\U0001EE9C-\U0001EEA0\U0001EEA4\U0001EEAA'
    '\U0001EEBC-\U0001EEEF\U0001EEF2-\U0001EFFF\U0001F02C-\U0001F02F\U0001F094-\U0001F09F'
    '\U0001F0AF-\U0001F0B0\U0001F0C0\U0001F0D0\U0001F0F6-\U0001F0FF\U0001F1AE-\U0001F1E5'
    '\U0001F203-\U0001F20F\U0001F23C-\U0001F23F\U0001F249-\U0001F24F\U0001F252-\U0001F25F'
    '\U0001F266-\U0001F2FF\U0001F6D8-\U0001F6DC\U0001F6ED-\U0001F6EF\U0001F6FD-\U0001F6FF'
    '\U0001F774-\U0001F77F\U0001F7D9-\U0001F7DF\U0001F7EC-\U0001F7EF\U0001F7F1-\U0001F7FF'
    '\U0001F80C-\U0001F80F\U0001F848-\U0001F84F\U0001F85A-\U0001F85F\U0001F888-\U0001F88F'
    '\U0001F8AE-\U0001F8AF\U0001F8B2-\U0001F8FF\U0001FA54-\U0001FA5F\U0001FA6E-\U0001FA6F'
    '\U0001FA75-\U0001FA77\U0001FA7D-\U0001FA7F\U0001FA87-\U0001FA8F\U0001FAAD-\U0001FAAF'
    '\U0001FABB-\U0001FABF\U0001FAC6-\U0001FACF\U0001FADA-\U0001FADF\U0001FAE8-\U0001FAEF'
    '\U0001FAF7-\U0001FAFF\U0001FB93\U0001FBCB-\U0001FBEF\U0001FBFA-\U0001FFFF'
    '\U0002A6E0-\U0002A6FF\U0002B739-\U0002B73F\U0002B81E-\U0002B81F\U0002CEA2-\U0002CEAF'
    '\U0002EBE1-\U0002F7FF\U0002FA1E-\U0002FFFF\U0003134B-\U000E0000\U000E0002-\U000E001F'
    '\U000E0080-\U000E00FF\U000E01F0-\U000EFFFF\U000FFFFE-\U000FFFFF\U0010FFFE-\U0010FFFF'
$body$;
comment on function remem._chars_excluded() is 'Inside of a regex bracket: code points that Unicode 14.0 does not assign, and U+11A7.';

-- Categories L and N. Called by _hash_tokens.
create or replace function remem._chars_alnum() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u0030-\u0039\u0041-\u005A\u0061-\u007A\u00AA\u00B2-\u00B3\u00B5\u00B9-\u00BA\u00BC-\u00BE'
    '\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02C1\u02C6-\u02D1\u02E0-\u02E4\u02EC\u02EE\u0370-\u0374'
    '\u0376-\u037D\u037F\u0386\u0388-\u03F5\u03F7-\u0481\u048A-\u0559\u0560-\u0588\u05D0-\u05F2'
    '\u0620-\u064A\u0660-\u0669\u066E-\u066F\u0671-\u06D3\u06D5\u06E5-\u06E6\u06EE-\u06FC\u06FF'
    '\u0710\u0712-\u072F\u074D-\u07A5\u07B1-\u07EA\u07F4-\u07F5\u07FA\u0800-\u0815\u081A\u0824'
    '\u0828\u0840-\u0858\u0860-\u0887\u0889-\u088E\u08A0-\u08C9\u0904-\u0939\u093D\u0950'
    '\u0958-\u0961\u0966-\u096F\u0971-\u0980\u0985-\u09B9\u09BD\u09CE\u09DC-\u09E1\u09E6-\u09F1'
    '\u09F4-\u09F9\u09FC\u0A05-\u0A39\u0A59-\u0A6F\u0A72-\u0A74\u0A85-\u0AB9\u0ABD\u0AD0-\u0AE1'
    '\u0AE6-\u0AEF\u0AF9\u0B05-\u0B39\u0B3D\u0B5C-\u0B61\u0B66-\u0B6F\u0B71-\u0B77\u0B83-\u0BB9'
    '\u0BD0\u0BE6-\u0BF2\u0C05-\u0C39\u0C3D\u0C58-\u0C61\u0C66-\u0C6F\u0C78-\u0C7E\u0C80'
    '\u0C85-\u0CB9\u0CBD\u0CDD-\u0CE1\u0CE6-\u0CF2\u0D04-\u0D3A\u0D3D\u0D4E\u0D54-\u0D56'
    '\u0D58-\u0D61\u0D66-\u0D78\u0D7A-\u0D7F\u0D85-\u0DC6\u0DE6-\u0DEF\u0E01-\u0E30'
    '\u0E32-\u0E33\u0E40-\u0E46\u0E50-\u0E59\u0E81-\u0EB0\u0EB2-\u0EB3\u0EBD-\u0EC6'
    '\u0ED0-\u0F00\u0F20-\u0F33\u0F40-\u0F6C\u0F88-\u0F8C\u1000-\u102A\u103F-\u1049'
    '\u1050-\u1055\u105A-\u105D\u1061\u1065-\u1066\u106E-\u1070\u1075-\u1081\u108E\u1090-\u1099'
    '\u10A0-\u10FA\u10FC-\u135A\u1369-\u138F\u13A0-\u13FD\u1401-\u166C\u166F-\u167F'
    '\u1681-\u169A\u16A0-\u16EA\u16EE-\u1711\u171F-\u1731\u1740-\u1751\u1760-\u1770'
    '\u1780-\u17B3\u17D7\u17DC\u17E0-\u17F9\u1810-\u1884\u1887-\u18A8\u18AA-\u191E\u1946-\u19DA'
    '\u1A00-\u1A16\u1A20-\u1A54\u1A80-\u1A99\u1AA7\u1B05-\u1B33\u1B45-\u1B59\u1B83-\u1BA0'
    '\u1BAE-\u1BE5\u1C00-\u1C23\u1C40-\u1C7D\u1C80-\u1CBF\u1CE9-\u1CEC\u1CEE-\u1CF3'
    '\u1CF5-\u1CF6\u1CFA-\u1DBF\u1E00-\u1FBC\u1FBE\u1FC2-\u1FCC\u1FD0-\u1FDB\u1FE0-\u1FEC'
    '\u1FF2-\u1FFC\u2070-\u2079\u207F-\u2089\u2090-\u209C\u2102\u2107\u210A-\u2113\u2115'
    '\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2139\u213C-\u213F\u2145-\u2149\u214E'
    '\u2150-\u2189\u2460-\u249B\u24EA-\u24FF\u2776-\u2793\u2C00-\u2CE4\u2CEB-\u2CEE'
    '\u2CF2-\u2CF3\u2CFD\u2D00-\u2D6F\u2D80-\u2DDE\u2E2F\u3005-\u3007\u3021-\u3029\u3031-\u3035'
    '\u3038-\u303C\u3041-\u3096\u309D-\u309F\u30A1-\u30FA\u30FC-\u318E\u3192-\u3195'
    '\u31A0-\u31BF\u31F0-\u31FF\u3220-\u3229\u3248-\u324F\u3251-\u325F\u3280-\u3289'
    '\u32B1-\u32BF\u3400-\u4DBF\u4E00-\uA48C\uA4D0-\uA4FD\uA500-\uA60C\uA610-\uA66E'
    '\uA67F-\uA69D\uA6A0-\uA6EF\uA717-\uA71F\uA722-\uA788\uA78B-\uA801\uA803-\uA805'
    '\uA807-\uA80A\uA80C-\uA822\uA830-\uA835\uA840-\uA873\uA882-\uA8B3\uA8D0-\uA8D9'
    '\uA8F2-\uA8F7\uA8FB\uA8FD-\uA8FE\uA900-\uA925\uA930-\uA946\uA960-\uA97C\uA984-\uA9B2'
    '\uA9CF-\uA9D9\uA9E0-\uA9E4\uA9E6-\uAA28\uAA40-\uAA42\uAA44-\uAA4B\uAA50-\uAA59'
    '\uAA60-\uAA76\uAA7A\uAA7E-\uAAAF\uAAB1\uAAB5-\uAAB6\uAAB9-\uAABD\uAAC0\uAAC2-\uAADD'
    '\uAAE0-\uAAEA\uAAF2-\uAAF4\uAB01-\uAB5A\uAB5C-\uAB69\uAB70-\uABE2\uABF0-\uD7FB'
    '\uF900-\uFB1D\uFB1F-\uFB28\uFB2A-\uFBB1\uFBD3-\uFD3D\uFD50-\uFDC7\uFDF0-\uFDFB'
    '\uFE70-\uFEFC\uFF10-\uFF19\uFF21-\uFF3A\uFF41-\uFF5A\uFF66-\uFFDC\U00010000-\U000100FA'
    '\U00010107-\U00010133\U00010140-\U00010178\U0001018A-\U0001018B\U00010280-\U000102D0'
    '\U000102E1-\U00010375\U00010380-\U0001039D\U000103A0-\U000103CF\U000103D1-\U00010563'
    '\U00010570-\U00010855\U00010858-\U00010876\U00010879-\U0001091B\U00010920-\U00010939'
    '\U00010980-\U00010A00\U00010A10-\U00010A35\U00010A40-\U00010A48\U00010A60-\U00010A7E'
    '\U00010A80-\U00010AC7\U00010AC9-\U00010AE4\U00010AEB-\U00010AEF\U00010B00-\U00010B35'
    '\U00010B40-\U00010B91\U00010BA9-\U00010D23\U00010D30-\U00010EA9\U00010EB0-\U00010F45'
    '\U00010F51-\U00010F54\U00010F70-\U00010F81\U00010FB0-\U00010FF6\U00011003-\U00011037'
    '\U00011052-\U0001106F\U00011071-\U00011072\U00011075\U00011083-\U000110AF'
    '\U000110D0-\U000110F9\U00011103-\U00011126\U00011136-\U0001113F\U00011144'
    '\U00011147-\U00011172\U00011176\U00011183-\U000111B2\U000111C1-\U000111C4'
    '\U000111D0-\U000111DA\U000111DC\U000111E1-\U0001122B\U00011280-\U000112A8'
    '\U000112B0-\U000112DE\U000112F0-\U000112F9\U00011305-\U00011339\U0001133D\U00011350'
    '\U0001135D-\U00011361\U00011400-\U00011434\U00011447-\U0001144A\U00011450-\U00011459'
    '\U0001145F-\U000114AF\U000114C4-\U000114C5\U000114C7-\U000115AE\U000115D8-\U000115DB'
    '\U00011600-\U0001162F\U00011644-\U00011659\U00011680-\U000116AA\U000116B8'
    '\U000116C0-\U0001171A\U00011730-\U0001173B\U00011740-\U0001182B\U000118A0-\U0001192F'
    '\U0001193F\U00011941\U00011950-\U000119D0\U000119E1\U000119E3\U00011A00'
    '\U00011A0B-\U00011A32\U00011A3A\U00011A50\U00011A5C-\U00011A89\U00011A9D'
    '\U00011AB0-\U00011C2E\U00011C40\U00011C50-\U00011C6C\U00011C72-\U00011C8F'
    '\U00011D00-\U00011D30\U00011D46\U00011D50-\U00011D89\U00011D98-\U00011EF2'
    '\U00011FB0-\U00011FD4\U00012000-\U0001246E\U00012480-\U00012FF0\U00013000-\U0001342E'
    '\U00014400-\U00016A69\U00016A70-\U00016AED\U00016B00-\U00016B2F\U00016B40-\U00016B43'
    '\U00016B50-\U00016E96\U00016F00-\U00016F4A\U00016F50\U00016F93-\U00016FE1\U00016FE3'
    '\U00017000-\U0001BC99\U0001D2E0-\U0001D2F3\U0001D360-\U0001D6C0\U0001D6C2-\U0001D6DA'
    '\U0001D6DC-\U0001D6FA\U0001D6FC-\U0001D714\U0001D716-\U0001D734\U0001D736-\U0001D74E'
    '\U0001D750-\U0001D76E\U0001D770-\U0001D788\U0001D78A-\U0001D7A8\U0001D7AA-\U0001D7C2'
    '\U0001D7C4-\U0001D7FF\U0001DF00-\U0001DF1E\U0001E100-\U0001E12C\U0001E137-\U0001E14E'
    '\U0001E290-\U0001E2AD\U0001E2C0-\U0001E2EB\U0001E2F0-\U0001E2F9\U0001E7E0-\U0001E8CF'
    '\U0001E900-\U0001E943\U0001E94B-\U0001E959\U0001EC71-\U0001ECAB\U0001ECAD-\U0001ECAF'
    '\U0001ECB1-\U0001ED2D\U0001ED2F-\U0001EEBB\U0001F100-\U0001F10C\U0001FBF0-\U0003134A'
$body$;
comment on function remem._chars_alnum() is 'Inside of a regex bracket: letters and numbers of Unicode 14.0.';

-- Categories L, N and M. Called by _lexemes.
create or replace function remem._chars_word() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u0030-\u0039\u0041-\u005A\u0061-\u007A\u00AA\u00B2-\u00B3\u00B5\u00B9-\u00BA\u00BC-\u00BE'
    '\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02C1\u02C6-\u02D1\u02E0-\u02E4\u02EC\u02EE\u0300-\u0374'
    '\u0376-\u037D\u037F\u0386\u0388-\u03F5\u03F7-\u0481\u0483-\u0559\u0560-\u0588\u0591-\u05BD'
    '\u05BF\u05C1-\u05C2\u05C4-\u05C5\u05C7-\u05F2\u0610-\u061A\u0620-\u0669\u066E-\u06D3'
    '\u06D5-\u06DC\u06DF-\u06E8\u06EA-\u06FC\u06FF\u0710-\u07F5\u07FA-\u07FD\u0800-\u082D'
    '\u0840-\u085B\u0860-\u0887\u0889-\u088E\u0898-\u08E1\u08E3-\u0963\u0966-\u096F'
    '\u0971-\u09F1\u09F4-\u09F9\u09FC\u09FE-\u0A75\u0A81-\u0AEF\u0AF9-\u0B6F\u0B71-\u0BF2'
    '\u0C00-\u0C6F\u0C78-\u0C7E\u0C80-\u0C83\u0C85-\u0D4E\u0D54-\u0D78\u0D7A-\u0DF3'
    '\u0E01-\u0E3A\u0E40-\u0E4E\u0E50-\u0E59\u0E81-\u0F00\u0F18-\u0F19\u0F20-\u0F33\u0F35\u0F37'
    '\u0F39\u0F3E-\u0F84\u0F86-\u0FBC\u0FC6\u1000-\u1049\u1050-\u109D\u10A0-\u10FA\u10FC-\u135F'
    '\u1369-\u138F\u13A0-\u13FD\u1401-\u166C\u166F-\u167F\u1681-\u169A\u16A0-\u16EA'
    '\u16EE-\u1734\u1740-\u17D3\u17D7\u17DC-\u17F9\u180B-\u180D\u180F-\u193B\u1946-\u19DA'
    '\u1A00-\u1A1B\u1A20-\u1A99\u1AA7\u1AB0-\u1B59\u1B6B-\u1B73\u1B80-\u1BF3\u1C00-\u1C37'
    '\u1C40-\u1C7D\u1C80-\u1CBF\u1CD0-\u1CD2\u1CD4-\u1FBC\u1FBE\u1FC2-\u1FCC\u1FD0-\u1FDB'
    '\u1FE0-\u1FEC\u1FF2-\u1FFC\u2070-\u2079\u207F-\u2089\u2090-\u209C\u20D0-\u20F0\u2102\u2107'
    '\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2139\u213C-\u213F'
    '\u2145-\u2149\u214E\u2150-\u2189\u2460-\u249B\u24EA-\u24FF\u2776-\u2793\u2C00-\u2CE4'
    '\u2CEB-\u2CF3\u2CFD\u2D00-\u2D6F\u2D7F-\u2DFF\u2E2F\u3005-\u3007\u3021-\u302F\u3031-\u3035'
    '\u3038-\u303C\u3041-\u309A\u309D-\u309F\u30A1-\u30FA\u30FC-\u318E\u3192-\u3195'
    '\u31A0-\u31BF\u31F0-\u31FF\u3220-\u3229\u3248-\u324F\u3251-\u325F\u3280-\u3289'
    '\u32B1-\u32BF\u3400-\u4DBF\u4E00-\uA48C\uA4D0-\uA4FD\uA500-\uA60C\uA610-\uA672'
    '\uA674-\uA67D\uA67F-\uA6F1\uA717-\uA71F\uA722-\uA788\uA78B-\uA827\uA82C-\uA835'
    '\uA840-\uA873\uA880-\uA8C5\uA8D0-\uA8F7\uA8FB\uA8FD-\uA92D\uA930-\uA953\uA960-\uA9C0'
    '\uA9CF-\uA9D9\uA9E0-\uAA59\uAA60-\uAA76\uAA7A-\uAADD\uAAE0-\uAAEF\uAAF2-\uAB5A'
    '\uAB5C-\uAB69\uAB70-\uABEA\uABEC-\uD7FB\uF900-\uFB28\uFB2A-\uFBB1\uFBD3-\uFD3D'
    '\uFD50-\uFDC7\uFDF0-\uFDFB\uFE00-\uFE0F\uFE20-\uFE2F\uFE70-\uFEFC\uFF10-\uFF19'
    '\uFF21-\uFF3A\uFF41-\uFF5A\uFF66-\uFFDC\U00010000-\U000100FA\U00010107-\U00010133'
    '\U00010140-\U00010178\U0001018A-\U0001018B\U000101FD-\U0001039D\U000103A0-\U000103CF'
    '\U000103D1-\U00010563\U00010570-\U00010855\U00010858-\U00010876\U00010879-\U0001091B'
    '\U00010920-\U00010939\U00010980-\U00010A48\U00010A60-\U00010A7E\U00010A80-\U00010AC7'
    '\U00010AC9-\U00010AEF\U00010B00-\U00010B35\U00010B40-\U00010B91\U00010BA9-\U00010EAC'
    '\U00010EB0-\U00010F54\U00010F70-\U00010F85\U00010FB0-\U00011046\U00011052-\U000110BA'
    '\U000110C2\U000110D0-\U0001113F\U00011144-\U00011173\U00011176-\U000111C4'
    '\U000111C9-\U000111CC\U000111CE-\U000111DA\U000111DC\U000111E1-\U00011237'
    '\U0001123E-\U000112A8\U000112B0-\U0001144A\U00011450-\U00011459\U0001145E-\U000114C5'
    '\U000114C7-\U000115C0\U000115D8-\U00011640\U00011644-\U00011659\U00011680-\U000116B8'
    '\U000116C0-\U0001173B\U00011740-\U0001183A\U000118A0-\U00011943\U00011950-\U000119E1'
    '\U000119E3-\U00011A3E\U00011A47-\U00011A99\U00011A9D\U00011AB0-\U00011C40'
    '\U00011C50-\U00011C6C\U00011C72-\U00011EF6\U00011FB0-\U00011FD4\U00012000-\U0001246E'
    '\U00012480-\U00012FF0\U00013000-\U0001342E\U00014400-\U00016A69\U00016A70-\U00016AF4'
    '\U00016B00-\U00016B36\U00016B40-\U00016B43\U00016B50-\U00016E96\U00016F00-\U00016FE1'
    '\U00016FE3-\U0001BC99\U0001BC9D-\U0001BC9E\U0001CF00-\U0001CF46\U0001D165-\U0001D169'
    '\U0001D16D-\U0001D172\U0001D17B-\U0001D182\U0001D185-\U0001D18B\U0001D1AA-\U0001D1AD'
    '\U0001D242-\U0001D244\U0001D2E0-\U0001D2F3\U0001D360-\U0001D6C0\U0001D6C2-\U0001D6DA'
    '\U0001D6DC-\U0001D6FA\U0001D6FC-\U0001D714\U0001D716-\U0001D734\U0001D736-\U0001D74E'
    '\U0001D750-\U0001D76E\U0001D770-\U0001D788\U0001D78A-\U0001D7A8\U0001D7AA-\U0001D7C2'
    '\U0001D7C4-\U0001D7FF\U0001DA00-\U0001DA36\U0001DA3B-\U0001DA6C\U0001DA75\U0001DA84'
    '\U0001DA9B-\U0001E14E\U0001E290-\U0001E2F9\U0001E7E0-\U0001E959\U0001EC71-\U0001ECAB'
    '\U0001ECAD-\U0001ECAF\U0001ECB1-\U0001ED2D\U0001ED2F-\U0001EEBB\U0001F100-\U0001F10C'
    '\U0001FBF0-\U0003134A\U000E0100-\U000E01EF'
$body$;
comment on function remem._chars_word() is 'Inside of a regex bracket: letters, numbers and marks of Unicode 14.0.';

-- 13_text_fold.sql
-- Folding: one spelling for texts that differ only in case, accents, width or composition.
-- Unicode promises that text of assigned characters normalises alike in every later version, so
-- code points that 14.0 (the oldest version in use: Postgres 15, Python 3.11) lacks are blanked
-- first. Case comes from shipped tables because lower() depends on the locale.

-- Blanks what Unicode 14.0 does not assign. Called by _fold and _hash_tokens with non-ASCII text.
create or replace function remem._assigned(text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select regexp_replace($1 collate "C", '[' || remem._chars_excluded() || ']', ' ', 'g')
$body$;
comment on function remem._assigned(text) is
  'The text with every code point that Unicode 14.0 does not assign (and U+11A7) replaced by a space.';

-- Simple lower case per code point. Called by _fold and _hash_tokens. translate() costs (length of
-- text) x (length of list), so the list is cut down to the capitals that the text really holds.
create or replace function remem._lower(text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  v_text text := lower($1 collate "C");
  v_capitals text;
begin
  if v_text collate "C" !~ ('[' || remem._chars_upper() || ']') then
    return v_text;
  end if;
  v_capitals := regexp_replace(v_text collate "C", '[^' || remem._chars_upper() || ']+', '', 'g');
  if length(v_capitals) > 24 then
    v_capitals := (
      select string_agg(distinct c collate "C", '') from string_to_table(v_capitals, null) as c
    );
  end if;
  return translate(
    v_text, v_capitals, translate(v_capitals, remem._chars_upper(), remem._chars_lower())
  );
end
$body$;
comment on function remem._lower(text) is
  'Simple lower case of every code point by the shipped Unicode 14.0 table, in every locale.';

-- Lower case without accents. Called by _lexemes and by exact phrase and name matching.
-- Decomposing first lets one normalisation serve compatibility, accents and case; the result is
-- NFKC again, and folding it twice changes nothing.
create or replace function remem._fold(text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  if octet_length($1) = length($1) then
    return lower($1 collate "C");
  end if;
  return normalize(
    remem._lower(
      regexp_replace(
        normalize(remem._assigned($1), nfkd) collate "C", '[\u0300-\u036F]+', '', 'g'
      )
    ),
    nfc
  );
end
$body$;
comment on function remem._fold(text) is
  'NFKC, simple lower case, accents U+0300 to U+036F removed; equal in every locale and version.';

-- 14_text_lexemes.sql
-- Lexical analysis for the posting table and for queries: words, bigrams of scripts that write
-- without spaces, and identifiers kept whole. No tsvector (1 MB limit) and no default parser
-- (locale dependent, splits identifiers). All in terms of folded text and shipped ranges.

-- Stored with every analysed memory. Raise it whenever the output of _fold, _language_dictionaries or
-- _lexemes changes for any text, or _lexeme_limit does: stored postings then no longer match queries
-- until reindexed.
create or replace function remem._analyser_version() returns int
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select 1
$body$;
comment on function remem._analyser_version() is
  'Version of the lexical analysis; postings of another version have to be rebuilt.';

-- A text of 2 MB holds some 350,000 words; its first ones are enough to find it.
create or replace function remem._lexeme_limit() returns int
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select 100000
$body$;
comment on function remem._lexeme_limit() is
  'How many words, how many bigrams and how many identifiers of one text are analysed.';

-- Letters, numbers and marks of Han, kana, bopomofo, Hangul, Thai, Lao, Khmer and Myanmar.
create or replace function remem._chars_unspaced() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u0E01-\u0E3A\u0E40-\u0E4E\u0E50-\u0E59\u0E81-\u0EDF\u1000-\u1049\u1050-\u109D'
    '\u1100-\u11FF\u1780-\u17D3\u17D7\u17DC-\u17E9\u3005-\u3007\u3021-\u302F\u3038-\u303C'
    '\u3041-\u309A\u309D-\u309F\u30A1-\u30FA\u30FC-\u312F\u31A0-\u31BF\u31F0-\u31FF'
    '\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97C\uA9E0-\uA9FE\uAA60-\uAA76\uAA7A-\uAA7F'
    '\uAC00-\uD7FB\uF900-\uFAFF\U0001AFF0-\U0001B167\U00020000-\U0003FFFF'
$body$;
comment on function remem._chars_unspaced() is
  'Inside of a regex bracket: characters of scripts that are analysed as bigrams.';

-- The dictionaries a text search configuration gives to plain words, in order. Called by whoever
-- analyses, once a statement. The name may carry its schema; without one pg_catalog comes first, so
-- that nobody can shadow a built-in configuration, and the caller's search_path does not matter.
create or replace function remem._language_dictionaries(language text) returns regdictionary[]
language plpgsql stable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  v_config oid;
begin
  select c.oid into v_config
  from pg_ts_config as c join pg_namespace as n on n.oid = c.cfgnamespace
  where _language_dictionaries.language in (c.cfgname::text, n.nspname || '.' || c.cfgname)
  order by n.nspname <> 'pg_catalog', c.oid
  limit 1;
  if v_config is null then
    perform remem._raise(
      'RM001', jsonb_build_object('argument', 'language', 'value', _language_dictionaries.language),
      'Use one of: select cfgname from pg_ts_config'
    );
  end if;
  return array(
    select m.mapdict::regdictionary
    from pg_ts_config as c
      cross join lateral ts_token_type(c.cfgparser) as t
      join pg_ts_config_map as m on m.mapcfg = c.oid and m.maptokentype = t.tokid
    where c.oid = v_config and t.alias = 'word'
    order by m.mapseqno
  );
end
$body$;
comment on function remem._language_dictionaries(text) is
  'Dictionaries of a text search configuration for words, in order; RM001 for an unknown one.';

-- The lexemes of a text with their frequency. extra = an identifier kept whole, beside its words:
-- the length of a document is the sum of tf of the others.
-- Words go through the dictionaries (first that knows it; a stop word yields nothing; unknown to all
-- stays as it is). A run of unspaced script yields its bigrams. Words joined by . _ / @ # : - + ~ \
-- yield the whole too (err_4071, a.b@c.org), and what lies between its : # and between all its
-- / \ : @ # if that is again joined (src/net/tls.rs and tls.rs of src/net/tls.rs:12); a URL with
-- other characters yields itself. Each lexeme comes once; one of more than 256 bytes as a hash.
-- Called for every memory and query; about 0.1 ms a sentence.
create or replace function remem._lexemes(text, dictionaries regdictionary[])
returns table (lexeme text, tf int, extra boolean)
language plpgsql stable strict parallel safe rows 30
set search_path = pg_catalog, remem, pg_temp set plan_cache_mode = force_generic_plan
as $body$
declare
  v_folded text := remem._fold($1);
  v_spaced text := v_folded;     -- without the unspaced scripts
  v_chars text := 'a-z0-9';      -- the characters of words
  v_word text;                   -- a word
  v_joint constant text := '[-._/@#:+~\\]+';
  v_lexemes text[];
  v_bigrams text[];
  v_wholes text[];
begin
  if octet_length(v_folded) > length(v_folded) then
    v_chars := remem._chars_word();
    if v_folded collate "C" ~ ('[' || remem._chars_unspaced() || ']') then
      v_spaced := regexp_replace(
        v_folded collate "C", '[' || remem._chars_unspaced() || ']+', ' ', 'g'
      );
      v_bigrams := array(
        select b.bigram[1]
        from regexp_matches(v_folded collate "C", '[' || remem._chars_unspaced() || ']+', 'g')
            as r (run)
          cross join lateral (
            select regexp_matches(r.run[1] collate "C", '..', 'g')
            union all
            select regexp_matches(substr(r.run[1], 2) collate "C", '..', 'g')
            union all
            select r.run where length(r.run[1]) = 1
          ) as b (bigram)
        limit remem._lexeme_limit()
      );
    end if;
  end if;

  v_word := '[' || v_chars || ']+';
  v_lexemes := array(
    select unnest(coalesce(
      ts_lexize(dictionaries[1], w.word),
      ts_lexize(dictionaries[2], w.word),
      case when dictionaries[3] is not null then (
        select ts_lexize(d.dictionary, w.word)
        from unnest(dictionaries[3:]) with ordinality as d (dictionary, n)
        where ts_lexize(d.dictionary, w.word) is not null
        order by d.n
        limit 1
      ) end,
      array[w.word]
    ))
    from (
      select t.word
      from string_to_table(
          regexp_replace(v_spaced collate "C", '[^' || v_chars || ']+', ' ', 'g'), ' '
        ) as t (word)
      where t.word <> ''
      limit remem._lexeme_limit()
    ) as w
  );

  if v_spaced collate "C" ~ ('[' || v_chars || ']' || v_joint || '[' || v_chars || ']') then
    v_wholes := array(
      select p.part
      from regexp_matches(
          v_spaced collate "C", v_word || '(?:' || v_joint || v_word || ')+', 'g'
        ) as c (whole)
        cross join lateral (
          select c.whole[1]
          union
          select btrim(s.piece, '-._/@#+~\')
          from unnest(array['[:#]+', '[/@#:\\]+']) as e (edge)
            cross join lateral regexp_split_to_table(c.whole[1] collate "C", e.edge) as s (piece)
          where c.whole[1] collate "C" ~ '[/@#:\\]'
            and btrim(s.piece, '-._/@#+~\') collate "C" ~ '[-._/@+~\\]'
        ) as p (part)
      limit remem._lexeme_limit()
    );
    if strpos(v_spaced, '://') > 0 then
      v_wholes := v_wholes || array(
        select u.url
        from regexp_matches(
            v_spaced collate "C", '[a-z][a-z0-9+.-]*://[^\u0001-\u0020<>"''`]+', 'g'
          ) as m (url)
          cross join lateral rtrim(m.url[1], '.,;:!?)]}-_/@#+~\') as u (url)
        where u.url collate "C" ~ '[][?=&%,;!$()*{}|^]'
        limit remem._lexeme_limit()
      );
    end if;
  end if;

  return query
  select
    case
      when octet_length(a.lexeme) <= 256 then a.lexeme
      else 'h:' || encode(sha256(convert_to(a.lexeme, 'UTF8')), 'hex')
    end,
    count(*)::int,
    bool_and(a.extra)
  from (
    select unnest(v_lexemes), false
    union all
    select unnest(v_bigrams), false
    union all
    select unnest(v_wholes), true
  ) as a (lexeme, extra)
  group by 1;
end
$body$;
comment on function remem._lexemes(text, regdictionary[]) is
  'Lexemes of a text with frequencies; extra marks identifiers kept whole beside their words.';

-- What is embedded and analysed of a memory. Equal to remem_pg.text.document_text. Called at write
-- and at re-embedding. array_to_string and concat_ws are only stable for types other than text.
create or replace function remem._document_text(
  title text, summary text, body text, speaker text, aliases text[], tags text[]
) returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select concat_ws(
    E'\n',
    nullif(title, ''),
    nullif(summary, ''),
    coalesce(nullif(speaker, '') || ': ' || nullif(body, ''), nullif(body, '')),
    nullif(array_to_string(aliases, ' '), ''),
    nullif(array_to_string(tags, ' '), '')
  )
$body$;
comment on function remem._document_text(text, text, text, text, text[], text[]) is
  'The text of a memory that is embedded and lexically analysed.';

-- 15_hash_embedding.sql
-- The hash embedding remem-local-hash-v1: signed feature hashing into 384 dimensions. Equal to
-- remem_pg.embedding.hash bit for bit. Lengths, windows and hashes count UTF-16 code units.
-- Changing anything here makes another embedding space: a new id and fingerprint, not an edit.

-- NFKC, lower case, everything but letters and numbers to spaces; then the distinct tokens of two
-- code units or more without the thirty stop words, in order of first appearance. By _hash_embed.
create or replace function remem._hash_tokens(text) returns text[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  v_text text;
begin
  if octet_length($1) = length($1) then
    v_text := regexp_replace(lower($1 collate "C") collate "C", '[^a-z0-9]+', ' ', 'g');
  else
    v_text := regexp_replace(
      remem._lower(normalize(remem._assigned($1), nfkc)) collate "C",
      '[^' || remem._chars_alnum() || ']+', ' ', 'g'
    );
  end if;
  return array(
    select t.token
    from string_to_table(v_text, ' ') with ordinality as t (token, n)
    where (length(t.token) > 1 or octet_length(t.token) = 4)
      and t.token collate "C" not in (
        'a', 'an', 'and', 'are', 'as', 'at', 'be', 'by', 'can', 'do', 'for', 'from', 'how', 'i',
        'in', 'is', 'it', 'let', 'of', 'on', 'or', 'our', 'that', 'the', 'this', 'to', 'we',
        'what', 'with', 'you'
      )
    group by t.token
    order by min(t.n)
  );
end
$body$;
comment on function remem._hash_tokens(text) is
  'The distinct tokens of a text in order, as the hash embedding counts them.';

-- UTF-16 code units of a text. Called by _hash_embed. ascii() is the code point in a UTF8 database.
create or replace function remem._utf16(text) returns int[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  if $1 collate "C" !~ '[\U00010000-\U0010FFFF]' then
    return array(select ascii(c) from string_to_table($1, null) as c);
  end if;
  return array(
    select u.unit
    from string_to_table($1, null) with ordinality as s (c, n)
      cross join lateral (values
        (1, case when ascii(c) < 65536 then ascii(c) else 55296 + ((ascii(c) - 65536) >> 10) end),
        (2, case when ascii(c) > 65535 then 56320 + ((ascii(c) - 65536) & 1023) end)
      ) as u (half, unit)
    where u.unit is not null
    order by s.n, u.half
  );
end
$body$;
comment on function remem._utf16(text) is 'The UTF-16 code units of a text.';

-- FNV-1a with 32 bits over code units; bucket = hash mod 384, from seed 2166136261. Only the parity of
-- the sign hash (seed 709607) matters, and it is the parity of the bucket: both seeds and the
-- multiplier are odd, so the lowest bit of either hash flips with each odd code unit, and 384 is
-- even. So an even bucket only ever gets +1 and an odd one -1, and one hash is enough.
-- The word, the pair it starts and the pair it ends are hashed in one pass; hashes of the constant
-- beginnings are literals. Called by hash_embed, remember, recall. Cost grows with the token lengths.
create or replace function remem._hash_embed(text) returns real[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  c_seed constant bigint := 2166136261;
  c_tri constant bigint := 2794752236;    -- hash of 'tri:'
  c_pair constant bigint := 714770641;    -- hash of 'pair:'
  c_concepts constant int[] := '{97,206,315,40,45,154,263}';  -- buckets of 'concept:0' and so on
  v_tokens text[] := remem._hash_tokens($1);
  v_units int[];
  v_sums int[] := array_fill(0, array[384], array[0]);
  v_word bigint := c_seed;
  v_left bigint := c_pair;      -- 'pair:' and the token so far
  v_right bigint;               -- 'pair:', the token before, ':' and the token so far
  v_bucket int;
  v_unit int;
  v_at int := 0;
  v_first int := 2;
  v_norm float8;
begin
  if v_tokens = '{}' then
    return array_fill(0::real, array[384]);
  end if;

  -- eight times its concept for every token of a group
  for v_bucket in
    select c_concepts[c.number]
    from unnest(v_tokens) as t (token)
      cross join lateral (select case
        when t.token collate "C" in (
          'auth', 'authentication', 'credential', 'credentials', 'identity', 'iam', 'login',
          'oauth', 'token'
        ) then 1
        when t.token collate "C" in ('amazon', 'aws', 'bedrock') then 2
        when t.token collate "C" in ('database', 'db', 'postgres', 'postgresql', 'sql') then 3
        when t.token collate "C" in (
          'failure', 'incident', 'issue', 'problem', 'troubleshooting'
        ) then 4
        when t.token collate "C" in ('decision', 'decided', 'choice', 'chosen') then 5
        when t.token collate "C" in ('deploy', 'deployment', 'release', 'shipping') then 6
        when t.token collate "C" in ('queue', 'kafka', 'messaging', 'stream') then 7
      end as number) as c
    where c.number is not null
  loop
    v_sums[v_bucket] := v_sums[v_bucket] + 8 - 16 * (v_bucket & 1);
  end loop;

  -- every token between the marks of the windows: ^ is 94, $ is 36
  v_units := remem._utf16('^' || array_to_string(v_tokens, '$^') || '$');
  foreach v_unit in array v_units loop
    v_at := v_at + 1;
    if v_unit = 36 then
      -- the end of a token: twice the word itself
      v_bucket := v_word % 384;
      v_sums[v_bucket] := v_sums[v_bucket] + 2 - 4 * (v_bucket & 1);
      -- the pair with the token before
      if v_right is not null then
        v_bucket := v_right % 384;
        v_sums[v_bucket] := v_sums[v_bucket] + 1 - 2 * (v_bucket & 1);
      end if;
      -- the windows of three, of tokens of five or more
      if v_at - v_first > 4 then
        for v_middle in v_first .. v_at - 1 loop
          v_bucket := (((((((c_tri # v_units[v_middle - 1]) * 16777619 & 4294967295)
            # v_units[v_middle]) * 16777619 & 4294967295)
            # v_units[v_middle + 1]) * 16777619) & 4294967295) % 384;
          v_sums[v_bucket] := v_sums[v_bucket] + 1 - 2 * (v_bucket & 1);
        end loop;
      end if;
      v_first := v_at + 2;
      v_right := ((v_left # 58) * 16777619) & 4294967295;
      v_word := c_seed;
      v_left := c_pair;
    elsif v_unit <> 94 then
      v_word := ((v_word # v_unit) * 16777619) & 4294967295;
      v_left := ((v_left # v_unit) * 16777619) & 4294967295;
      v_right := ((v_right # v_unit) * 16777619) & 4294967295;
    end if;
  end loop;

  v_norm := (select nullif(sqrt(sum(s::float8 * s)), 0) from unnest(v_sums) as s);
  return array(select coalesce(s / v_norm, 0)::real from unnest(v_sums) as s);
end
$body$;
comment on function remem._hash_embed(text) is
  'Hash embedding of a text: 384 values of length one, or all zero without features.';

create or replace function remem.hash_embed(text text) returns real[]
language plpgsql stable security definer set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  perform remem._authorize_any();
  return remem._hash_embed(hash_embed.text);
end
$body$;
comment on function remem.hash_embed(text) is
  'Embeds a text with the built-in hash model remem-local-hash-v1: 384 values, unit length.';

-- 18_item.sql
-- One item of remember: checked, defaulted, analysed. Every refusal names the item and the argument.

-- A text argument within its limit, or RM003.
create or replace function remem._check_length(argument text, value text, max_bytes int, item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if octet_length(value) > max_bytes then
    perform remem._raise('RM003', jsonb_build_object('item', item_no, 'argument', argument,
      'got', octet_length(value), 'limit', max_bytes), format('%s may have at most %s bytes', argument, max_bytes));
  end if;
end
$$;
comment on function remem._check_length(text, text, int, int) is 'Refuses a text over its limit in bytes.';

-- A value out of a closed list, or RM001.
create or replace function remem._check_member(argument text, value text, valid text[], item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if value is null or value <> all (valid) then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', argument, 'value', left(value, 200),
      'valid', to_jsonb(valid)), 'Choose one of: ' || array_to_string(valid, ', '));
  end if;
end
$$;
comment on function remem._check_member(text, text, text[], int) is 'Refuses a value outside a closed list.';

-- A vector of the space: right size, finite, not zero; or RM201, RM203. item_no 0 = a query.
create or replace function remem._check_vector(embedding real[], space remem.embedding_space, item_no int) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if array_ndims(embedding) is distinct from 1 or cardinality(embedding) <> space.dimensions then
    perform remem._raise('RM201', jsonb_build_object('item', nullif(item_no, 0), 'space', space.name,
      'expected', space.dimensions, 'got', cardinality(embedding)), 'remem embeddings status');
  end if;
  if exists (select from unnest(embedding) e where e is null or e in ('NaN', 'Infinity', '-Infinity')) then
    perform remem._raise('RM203', jsonb_build_object('item', nullif(item_no, 0), 'problem', 'not finite'),
      'Every component must be a finite number');
  end if;
  if item_no > 0 and not exists (select from unnest(embedding) e where e <> 0) then
    perform remem._raise('RM203', jsonb_build_object('item', item_no, 'problem', 'zero vector'),
      'A zero vector has no direction: leave the embedding out');
  end if;
end
$$;
comment on function remem._check_vector(real[], remem.embedding_space, int) is 'Refuses a vector that its space cannot hold.';

-- JSON into a typed item. A value of the wrong type is RM001 naming the argument.
create or replace function remem._parse_item(item jsonb, keys text[], item_no int) returns remem.memory_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_unknown text[];
  v_key text;
  v_state text;
  v_problem text;
begin
  if jsonb_typeof(item) is distinct from 'object' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'got', jsonb_typeof(item)), 'An item is a JSON object');
  end if;
  v_unknown := (select array_agg(k order by k) from jsonb_object_keys(item) k where k <> all (keys));
  if v_unknown is not null then
    perform remem._raise('RM002', jsonb_build_object('item', item_no, 'option', v_unknown[1], 'valid', to_jsonb(keys)),
      'Valid keys: ' || array_to_string(keys, ', '));
  end if;
  begin
    return jsonb_populate_record(null::remem.memory_item, item);
  exception when data_exception then
    get stacked diagnostics v_state = returned_sqlstate, v_problem = message_text;
  end;
  -- Only now: find which key it was, by reading each alone.
  for v_key in select k from jsonb_object_keys(item) k loop
    begin
      perform jsonb_populate_record(null::remem.memory_item, jsonb_build_object(v_key, item -> v_key));
    exception when data_exception then
      exit;
    end;
  end loop;
  perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_key, 'problem', v_problem,
    'sqlstate', v_state), format('Give %s a value of its type', v_key));
end
$$;
comment on function remem._parse_item(jsonb, text[], int) is 'Reads one JSON item with typed errors.';

-- Limits are in bytes. They keep one careless caller from making rows that nothing can read.
create or replace function remem._check_item(item remem.memory_item, item_no int) returns remem.memory_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_bad text;
begin
  if coalesce(item.body, '') !~ '[^\u0001-\u0020\u0085\u00a0\u2000-\u200b\u2028\u2029\u3000\ufeff]' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'body'), 'A memory needs a body');
  end if;
  perform remem._check_length('body', item.body, 10485760, item_no);
  perform remem._check_length('title', item.title, 65536, item_no);
  perform remem._check_length('summary', item.summary, 65536, item_no);
  perform remem._check_length('ref', item.ref, 500, item_no);
  perform remem._check_length('scope_ref', item.scope_ref, 500, item_no);
  perform remem._check_length('session_ref', item.session_ref, 500, item_no);
  perform remem._check_length('topic_key', item.topic_key, 500, item_no);
  perform remem._check_length('speaker', item.speaker, 500, item_no);
  perform remem._check_length('subject', item.subject, 2000, item_no);
  perform remem._check_length('attribute', item.attribute, 2000, item_no);
  perform remem._check_length('source_ref', item.source_ref, 4000, item_no);
  perform remem._check_length('metadata', item.metadata::text, 1048576, item_no);
  for v_bad in
    select a.name from (values ('tags', item.tags), ('aliases', item.aliases), ('entities', item.entities)) a (name, vals)
    where cardinality(a.vals) > 1000 or exists (select from unnest(a.vals) v where v is null or octet_length(v) > 1000)
  loop
    perform remem._raise('RM003', jsonb_build_object('item', item_no, 'argument', v_bad, 'limit', 1000),
      format('%s may hold at most 1000 texts of at most 1000 bytes, none null', v_bad));
  end loop;
  item.kind := coalesce(item.kind, 'semantic');
  perform remem._check_member('kind', item.kind,
    '{semantic,episodic,decision,preference,procedure,task,other}', item_no);
  item.scope := coalesce(nullif(item.scope, 'workspace'), 'global');
  perform remem._check_member('scope', item.scope, '{global,project,session,user}', item_no);
  if item.scope = 'session' then
    item.scope_ref := coalesce(item.scope_ref, item.session_ref);
  end if;
  if (item.scope = 'global') <> (item.scope_ref is null) or item.scope_ref = '' then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'scope_ref', 'value', item.scope_ref),
      'Every scope but global needs a scope_ref; global has none');
  end if;
  for v_bad in
    select a.name from (values ('ref', item.ref), ('session_ref', item.session_ref)) a (name, val) where a.val = ''
  loop
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_bad, 'value', ''),
      'Leave it out, or give it a name');
  end loop;
  item.source_class := coalesce(item.source_class, 'unspecified');
  if not exists (select from remem.source_class s where s.name = item.source_class) then
    perform remem._check_member('source_class', item.source_class,
      (select array_agg(s.name order by s.name) from remem.source_class s), item_no);
  end if;
  item.importance := coalesce(item.importance, 0.5);
  for v_bad in
    select a.name from (values ('importance', item.importance), ('confidence', item.confidence)) a (name, val)
    where not a.val between 0 and 1
  loop
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_bad), format('%s lies between 0 and 1', v_bad));
  end loop;
  -- Validity without an end is null, not infinity, which few clients can read.
  item.valid_from := nullif(item.valid_from, '-infinity');
  item.valid_to := nullif(item.valid_to, 'infinity');
  for v_bad in
    select a.name
    from (values ('occurred_at', item.occurred_at), ('valid_from', item.valid_from), ('valid_to', item.valid_to)) a (name, val)
    where not isfinite(a.val)
  loop
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', v_bad), 'Give a moment, or leave it out');
  end loop;
  if item.valid_from >= item.valid_to then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'valid_to'), 'valid_to must be after valid_from');
  end if;
  if item.turn_no not between 0 and 1000000000 or (item.turn_no is not null and item.session_ref is null) then
    perform remem._raise('RM001', jsonb_build_object('item', item_no, 'argument', 'turn_no', 'value', item.turn_no,
      'limit', 1000000000), 'A turn number lies between 0 and 1000000000 and belongs to a session_ref');
  end if;
  item.on_conflict := coalesce(item.on_conflict, 'new_version');
  perform remem._check_member('on_conflict', item.on_conflict, '{new_version,error}', item_no);
  item.pinned := coalesce(item.pinned, false);
  item.unresolved := coalesce(item.unresolved, false);
  return item;
end
$$;
comment on function remem._check_item(remem.memory_item, int) is 'Defaults and limits of one item.';

-- What filters see: the system fields and the caller's metadata in one document.
create or replace function remem._item_attrs(workspace text, item remem.memory_item) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select jsonb_strip_nulls(jsonb_build_object(
      'workspace', workspace, 'ref', item.ref, 'kind', item.kind, 'scope', item.scope, 'scope_ref', item.scope_ref,
      'title', left(item.title, 1000), 'tags', to_jsonb(item.tags), 'topic_key', item.topic_key, 'subject', item.subject,
      'attribute', item.attribute, 'source_class', item.source_class, 'source_ref', item.source_ref,
      'importance', item.importance, 'confidence', item.confidence, 'pinned', item.pinned,
      'unresolved', item.unresolved, 'session_ref', item.session_ref, 'turn_no', item.turn_no,
      'speaker', item.speaker, 'occurred_at', item.occurred_at, 'valid_from', item.valid_from, 'valid_to', item.valid_to))
    || case when item.metadata is null then '{}' else jsonb_build_object('metadata', item.metadata) end
$$;
comment on function remem._item_attrs(text, remem.memory_item) is 'The document that jsonpath filters are applied to.';

-- What a writer says about its own trust is capped by its grant.
create or replace function remem._cap_source_class(source_class text, max_source_class text) returns text
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select case
    when max_source_class is not null and
      (select s.trust from remem.source_class s where s.name = _cap_source_class.source_class)
        > (select s.trust from remem.source_class s where s.name = max_source_class)
    then max_source_class else source_class end
$$;
comment on function remem._cap_source_class(text, text) is 'The less trusted of a claimed source class and the cap.';

-- Stored text is NFC, in every value and key. JSON's punctuation composes with nothing, but the last letter
-- of an escape would (the n of \n before a tilde): a stop keeps them apart. `\.` marks it, since no JSON
-- document holds that after an escape.
create or replace function remem._normalize_json(value jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_text text := value::text;
begin
  if octet_length(v_text) = length(v_text) or v_text is nfc normalized then
    return value;
  end if;
  v_text := regexp_replace(v_text, '\\(u[0-9a-f]{4}|.)', '\\\1\\.', 'g');
  return regexp_replace(normalize(v_text, nfc), '\\(u[0-9a-f]{4}|.)\\\.', '\\\1', 'g')::jsonb;
end
$$;
comment on function remem._normalize_json(jsonb) is 'The document with all its text in NFC.';

-- The whole way from JSON to something that can be stored. Runs with time zone UTC (set by the caller),
-- so that a datetime without a zone means the same on every server.
create or replace function remem._prepare_item(
  workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], item jsonb, item_no int,
  max_source_class text
) returns remem._prepared_item
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem.memory_item;
  v_result remem._prepared_item;
  v_text text;
begin
  item := remem._normalize_json(item);
  v_item := remem._check_item(remem._parse_item(item, keys, item_no), item_no);
  v_item.source_class := remem._cap_source_class(v_item.source_class, max_source_class);
  v_text := remem._document_text(v_item.title, v_item.summary, v_item.body, v_item.speaker, v_item.aliases, v_item.tags);
  if v_item.embedding is not null then
    if v_item.space is not null and v_item.space not in (space.fingerprint, space.name) then
      perform remem._raise('RM202', jsonb_build_object('item', item_no, 'space', v_item.space, 'expected', space.name),
        'The vector was made by another model than the workspace''s current one');
    end if;
    perform remem._check_vector(v_item.embedding, space, item_no);
  elsif space.space_no = 1 then
    v_item.embedding := remem._hash_embed(v_text);
    if 0 = all (v_item.embedding) then
      v_item.embedding := null;  -- a text without features has no direction
    end if;
  end if;
  v_result.item_no := item_no;
  v_result.content_hash := substr(sha256(convert_to(
    (to_jsonb(v_item) - '{embedding,space,on_conflict}'::text[])::text, 'UTF8')), 1, 16);
  v_result.fingerprint := substr(sha256(convert_to(
    regexp_replace(remem._fold(concat_ws(E'\n', v_item.speaker, v_item.body)), '[\u0001-\u0020\u00a0\u3000]+', ' ', 'g'), 'UTF8')), 1, 16);
  v_result.attrs := remem._item_attrs(workspace.workspace, v_item);
  select coalesce(array_agg(l.lexeme), '{}'), coalesce(array_agg(l.tf), '{}'), coalesce(sum(l.tf) filter (where not l.extra), 0)
  into v_result.lexemes, v_result.tfs, v_result.doc_len
  from remem._lexemes(v_text, dictionaries) l;
  v_result.item := v_item;
  return v_result;
end
$$;
comment on function remem._prepare_item(remem.workspace, remem.embedding_space, regdictionary[], text[], jsonb, int, text) is
  'Validates and analyses one item of remember.';

-- 20_remember.sql
-- remember: the public writers. Both go through one path; a single memory is a batch of one.

create or replace function remem._remember(workspace text, items jsonb, on_error text) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set extra_float_digits = 1
as $$
declare
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_dictionaries regdictionary[];
  v_keys text[] := (select array_agg(a.attname order by a.attnum) from pg_attribute a
    where a.attrelid = 'remem.memory_item'::regclass and a.attnum > 0 and not a.attisdropped);
  v_cap text := remem._max_source_class(workspace);
  v_prepared remem._prepared_item[] := '{}';
  v_wave remem._prepared_item[];
  v_session_refs text[];
  v_session_nos int[];
  v_item jsonb;
  v_item_no int := 0;
  v_code text;
  v_message text;
  v_detail text;
  v_hint text;
begin
  perform remem._lock_workspace(workspace);
  v_workspace := remem._ensure_workspace(workspace);
  v_space := remem._space(v_workspace.space_no);
  v_dictionaries := remem._language_dictionaries(v_workspace.language);
  for v_item in select e from jsonb_array_elements(items) e loop
    v_item_no := v_item_no + 1;
    if on_error = 'abort' then
      v_prepared := v_prepared || remem._prepare_item(v_workspace, v_space, v_dictionaries, v_keys, v_item, v_item_no, v_cap);
      continue;
    end if;
    begin
      v_prepared := v_prepared || remem._prepare_item(v_workspace, v_space, v_dictionaries, v_keys, v_item, v_item_no, v_cap);
    exception when others then
      -- 'others' because plpgsql has no name for our error class; anything else goes on up.
      get stacked diagnostics v_code = returned_sqlstate, v_message = message_text, v_detail = pg_exception_detail,
        v_hint = pg_exception_hint;
      if v_code not like 'RM%' then
        raise;
      end if;
      return next (null, v_item ->> 'ref', 'refused', v_item_no,
        remem._error_value(v_code, v_message, v_detail, v_hint))::remem.memory_ref;
    end;
  end loop;
  perform remem._lock_keys(workspace, v_prepared);
  -- The sessions written to, and those that a superseded version leaves.
  select l.refs, l.session_nos into v_session_refs, v_session_nos
  from remem._lock_sessions(workspace, array(
    select (p.item).session_ref from unnest(v_prepared) p where (p.item).session_ref is not null
    union
    select s.session_ref
    from remem.memory m join remem.session s on s.workspace = m.workspace and s.session_no = m.session_no
    where m.workspace = _remember.workspace and m.superseded_at is null and m.forgotten_at is null
      and m.ref = any (array(select (p.item).ref from unnest(v_prepared) p)))) l;
  -- Items of one batch that share a ref or a text are stored one after the other.
  for v_wave in
    select array_agg(w.prepared order by w.pos)
    from (
      select v_prepared[p.ordinality] as prepared, p.ordinality as pos,
        row_number() over (partition by case
          when (p.item).ref is not null then 'r' || (p.item).ref
          when (p.item).session_ref is not null then 's' || p.ordinality
          else 'f' || encode(p.fingerprint, 'hex') end order by p.ordinality) as wave
      from unnest(v_prepared) with ordinality p
    ) w
    group by w.wave order by w.wave
  loop
    if on_error = 'abort' then
      return query select r.* from remem._insert_wave(v_workspace, v_wave, v_session_refs, v_session_nos) r;
    else
      return query select r.* from remem._insert_wave_reporting(v_workspace, v_wave, v_session_refs, v_session_nos) r;
    end if;
  end loop;
end
$$;
comment on function remem._remember(text, jsonb, text) is 'The one path of every write; the caller has authorised.';

-- In report mode a conflict of one item must not lose the others: those that are refused are taken out.
create or replace function remem._insert_wave_reporting(
  workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos int[]
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem._prepared_item;
  v_message text;
  v_detail text;
  v_hint text;
begin
  begin
    return query select r.* from remem._insert_wave(workspace, items, session_refs, session_nos) r;
    return;
  exception when sqlstate 'RM102' then
    null;  -- rolled back as a whole: store them one by one below
  end;
  foreach v_item in array items loop
    begin
      return query select r.* from remem._insert_wave(workspace, array[v_item], session_refs, session_nos) r;
    exception when sqlstate 'RM102' then
      get stacked diagnostics v_message = message_text, v_detail = pg_exception_detail, v_hint = pg_exception_hint;
      return next (null, (v_item.item).ref, 'refused', v_item.item_no,
        remem._error_value('RM102', v_message, v_detail, v_hint))::remem.memory_ref;
    end;
  end loop;
end
$$;
comment on function remem._insert_wave_reporting(remem.workspace, remem._prepared_item[], text[], int[]) is
  'Stores a wave and reports conflicts per item.';

create or replace function remem.remember(
  workspace text, body text, ref text default null, kind text default 'semantic', title text default null,
  summary text default null, tags text[] default null, aliases text[] default null, scope text default 'global',
  scope_ref text default null, topic_key text default null, subject text default null, attribute text default null,
  source_class text default null, source_ref text default null, importance real default null,
  confidence real default null, pinned boolean default false, unresolved boolean default false,
  session_ref text default null, turn_no int default null, speaker text default null,
  occurred_at timestamptz default null, valid_from timestamptz default null, valid_to timestamptz default null,
  entities text[] default null, metadata jsonb default null, embedding real[] default null,
  on_conflict text default 'new_version', space text default null
) returns remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
set extra_float_digits = 1
as $$
declare
  v_item remem.memory_item;
  v_ref remem.memory_ref;
begin
  perform remem._authorize(workspace, 'write');
  -- NaN and infinity do not survive JSON as numbers: they are refused here, by name.
  if embedding is not null and exists (select from unnest(embedding) e where e is null or e in ('NaN', 'Infinity', '-Infinity')) then
    perform remem._raise('RM203', '{"item": 1, "problem": "not finite"}', 'Every component must be a finite number');
  end if;
  if importance in ('NaN', 'Infinity', '-Infinity') or confidence in ('NaN', 'Infinity', '-Infinity') then
    perform remem._raise('RM001', jsonb_build_object('item', 1,
      'argument', case when importance in ('NaN', 'Infinity', '-Infinity') then 'importance' else 'confidence' end),
      'It lies between 0 and 1');
  end if;
  v_item := (body, ref, kind, title, summary, tags, aliases, scope, scope_ref, topic_key, subject, attribute, source_class,
    source_ref, importance, confidence, pinned, unresolved, session_ref, turn_no, speaker, occurred_at, valid_from, valid_to,
    entities, metadata, embedding, on_conflict, space)::remem.memory_item;
  select r.* into v_ref
  from remem._remember(workspace, jsonb_build_array(jsonb_strip_nulls(to_jsonb(v_item) - 'metadata')
    || case when metadata is null then '{}' else jsonb_build_object('metadata', metadata) end), 'abort') r;
  return v_ref;
end
$$;
comment on function remem.remember(text, text, text, text, text, text, text[], text[], text, text, text, text, text, text,
  text, real, real, boolean, boolean, text, int, text, timestamptz, timestamptz, timestamptz, text[], jsonb, real[], text, text) is
  'Stores one memory and says what became of it: created, unchanged (the ref has this content), new_version (the ref had other content, which is superseded) or merged (an equal text without a ref is there). embedding is a vector of the workspace''s current space; space may name the model that made it, so that another one is refused.';

create or replace function remem.remember_many(workspace text, items jsonb, on_error text default 'abort')
returns setof remem.memory_ref
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'write');
  if jsonb_typeof(items) is distinct from 'array' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'items', 'got', jsonb_typeof(items)), 'Give a JSON array of objects');
  end if;
  perform remem._check_member('on_error', on_error, '{abort,report}', null);
  return query select r.* from remem._remember(workspace, items, on_error) r order by r.item_no;
end
$$;
comment on function remem.remember_many(text, jsonb, text) is
  'Stores an array of items whose keys are the arguments of remember, all or nothing (on_error abort) or reporting refused items (report). One result per item, in order. A datetime without a zone is UTC.';

-- 21_store.sql
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
declare
  v_refs text[] := array(select distinct (p.item).ref from unnest(items) p where (p.item).ref is not null);
  v_texts bytea[] := array(select distinct p.fingerprint from unnest(items) p
    where (p.item).ref is null and (p.item).session_ref is null);
  v_all bigint := hashtextextended(workspace, 7286);
  v_key bigint;
begin
  if cardinality(v_refs) + cardinality(v_texts) = 0 then
    return;
  elsif cardinality(v_refs) + cardinality(v_texts)
      > current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int / 16 then
    perform pg_advisory_xact_lock(v_all);
    return;
  end if;
  perform pg_advisory_xact_lock_shared(v_all);
  for v_key in
    select distinct hashtextextended(_lock_keys.workspace || E'\n' || r, 7287) as key from unnest(v_refs) r order by key
  loop
    perform pg_advisory_xact_lock(v_key);
  end loop;
  for v_key in
    select distinct hashtextextended(_lock_keys.workspace || E'\n' || encode(t.fingerprint, 'hex'), 7288) as key
    from (
      select f as fingerprint from unnest(v_texts) f
      union
      select m.fingerprint from remem.memory m
      where m.workspace = _lock_keys.workspace and m.ref = any (v_refs) and m.session_no is null
        and m.superseded_at is null and m.forgotten_at is null
    ) t
    order by key
  loop
    perform pg_advisory_xact_lock(v_key);
  end loop;
end
$$;
comment on function remem._lock_keys(text, remem._prepared_item[]) is 'Makes writers of the same refs and texts take turns.';

-- The postings of live rows to be written. Called for new rows and for rows that come back.
create or replace function remem._add_postings(workspace text, items remem._prepared_item[], memory_nos bigint[],
  session_nos int[], turn_nos int[]) returns void
language sql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
  insert into remem.posting (workspace, lexeme, memory_no, session_no, turn_no, doc_len, tf)
  select _add_postings.workspace, l.lexeme, m.memory_no, m.session_no, m.turn_no, least(p.doc_len, 32767), least(l.tf, 32767)
  from unnest(items) with ordinality p
  join unnest(memory_nos, session_nos, turn_nos) with ordinality m (memory_no, session_no, turn_no, ordinality)
    on m.ordinality = p.ordinality
  cross join lateral unnest(p.lexemes, p.tfs) l (lexeme, tf)
$$;
comment on function remem._add_postings(text, remem._prepared_item[], bigint[], int[], int[]) is 'Writes the inverted index of new rows.';

-- Vectors of live rows, scaled to length one so that half precision neither overflows nor vanishes.
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
     select $1, m.memory_no, public.l2_normalize((p.item).embedding::public.vector)::public.halfvec
     from unnest($3) with ordinality p join unnest($2) with ordinality m (memory_no, ordinality) using (ordinality)
     where (p.item).embedding is not null and m.memory_no is not null
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
  with gone as (
    delete from remem.posting p
    using remem.memory m cross join lateral unnest(m.lexemes) l (lexeme)
    where m.workspace = _retire.workspace and m.memory_no = any (memory_nos)
      and p.workspace = m.workspace and p.lexeme = l.lexeme and p.memory_no = m.memory_no
    returning p.*
  )
  insert into remem.posting_past select g.* from gone g on conflict do nothing;
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

-- What each item meets: the live row of its ref, or an equal text that it merges into.
create or replace function remem._match_items(workspace text, items remem._prepared_item[])
returns table (pos bigint, memory_no bigint, memory_id uuid, ref text, outcome text)
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select p.ordinality, coalesce(r.memory_no, d.memory_no), coalesce(r.memory_id, d.memory_id), coalesce(r.ref, d.ref),
    case
      when r.memory_no is null and d.memory_no is null then 'created'
      when r.memory_no is null then 'merged'
      when r.content_hash = p.content_hash then 'unchanged'
      else 'new_version'
    end
  from unnest(items) with ordinality p
  left join remem.memory r
    on r.workspace = _match_items.workspace and r.ref = (p.item).ref
    and r.superseded_at is null and r.forgotten_at is null
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
$$;
comment on function remem._match_items(text, remem._prepared_item[]) is 'Decides whether an item is new, known, a duplicate or a new version.';

-- 22_insert.sql
-- One wave of items: no two with the same ref, no two with the same text. Set-based: one statement per table.
-- The caller holds the locks of every ref, text and session that the wave touches.

create or replace function remem._insert_wave(
  workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos int[]
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_row record;
  v_new remem._prepared_item[] := '{}';   -- the rows to write; the arrays below run in parallel
  v_nos bigint[];
  v_ids uuid[];
  v_old bigint[] := '{}';                 -- the version that each supersedes, or null
  v_sessions int[] := '{}';
  v_turns int[] := '{}';
  v_last_turns int[] := array(
    select s.last_turn from unnest(session_nos) with ordinality n (session_no, ordinality)
    join remem.session s on s.workspace = workspace.workspace and s.session_no = n.session_no
    order by n.ordinality);
  v_at int;
  v_turn int;
  v_count bigint;
begin
  for v_row in
    select t.*, items[t.pos] as prepared, m.session_no, m.turn_no
    from remem._match_items(workspace.workspace, items) t
    left join remem.memory m on m.workspace = workspace.workspace and m.memory_no = t.memory_no
    order by t.pos
  loop
    if v_row.outcome = 'new_version' and ((v_row.prepared).item).on_conflict = 'error' then
      perform remem._raise('RM102', jsonb_build_object('item', (v_row.prepared).item_no, 'argument', 'ref', 'value', v_row.ref),
        'The ref exists with other content; leave on_conflict out to store a new version');
    elsif v_row.outcome in ('created', 'new_version') then
      v_at := array_position(session_refs, ((v_row.prepared).item).session_ref);
      v_turn := ((v_row.prepared).item).turn_no;
      if v_at is not null then
        -- A new version of a turn stays in its place; any other comes after the last.
        if v_turn is null and v_row.session_no = session_nos[v_at] then
          v_turn := v_row.turn_no;
        end if;
        v_turn := coalesce(v_turn, v_last_turns[v_at] + 1);
        v_last_turns[v_at] := greatest(v_last_turns[v_at], v_turn);
      end if;
      v_new := v_new || (v_row.prepared)::remem._prepared_item;
      v_old := array_append(v_old, v_row.memory_no);
      v_sessions := array_append(v_sessions, session_nos[v_at]);
      v_turns := array_append(v_turns, v_turn);
    else
      perform remem._meet_again(workspace, v_row.memory_no, v_row.prepared, v_row.outcome);
      return next (v_row.memory_id, v_row.ref, v_row.outcome, (v_row.prepared).item_no, null)::remem.memory_ref;
    end if;
  end loop;
  if cardinality(v_new) = 0 then
    return;
  end if;
  select array_agg(nextval('remem.memory_memory_no_seq') order by n), array_agg(gen_random_uuid() order by n)
  into v_nos, v_ids from generate_series(1, cardinality(v_new)) n;

  -- Former versions leave the unique index first.
  update remem.memory m
  set superseded_at = now(), superseded_by = o.memory_id, updated_at = now(), changed_xid = pg_current_xact_id()
  from unnest(v_old, v_ids) o (memory_no, memory_id)
  where m.workspace = workspace.workspace and m.memory_no = o.memory_no;
  perform remem._retire(workspace.workspace, array_remove(v_old, null));

  insert into remem.memory (workspace, memory_no, memory_id, ref, kind, scope, scope_ref, title, body, summary, aliases,
    tags, entities, topic_key, subject, attribute, source_class, source_ref, importance, confidence, pinned, unresolved,
    session_no, turn_no, speaker, occurred_at, valid_from, valid_to, attrs, fingerprint, content_hash, doc_len,
    lexemes, analyser_no)
  select workspace.workspace, v_nos[p.ordinality], v_ids[p.ordinality], i.ref, i.kind, i.scope, i.scope_ref, i.title, i.body,
    i.summary, i.aliases, i.tags, i.entities, i.topic_key, i.subject, i.attribute, i.source_class, i.source_ref,
    i.importance, i.confidence, i.pinned, i.unresolved, v_sessions[p.ordinality], v_turns[p.ordinality], i.speaker,
    i.occurred_at, i.valid_from, i.valid_to,
    case when v_turns[p.ordinality] is null then p.attrs
      else p.attrs || jsonb_build_object('turn_no', v_turns[p.ordinality]) end,
    p.fingerprint, p.content_hash, p.doc_len, p.lexemes, workspace.analyser_no
  from unnest(v_new) with ordinality p cross join lateral (select (p.item).*) i
  -- Under the locks nothing conflicts; above READ COMMITTED this makes a stale snapshot a serialization failure.
  on conflict (workspace, ref) where ref is not null and superseded_at is null and forgotten_at is null do nothing;
  get diagnostics v_count = row_count;
  if v_count < cardinality(v_new) then
    perform remem._raise('RM102', '{"argument": "ref"}', 'Another writer changed a ref: try again');
  end if;
  perform remem._add_live(workspace, v_new, v_nos, v_sessions, v_turns);
  return query
    select v_ids[p.ordinality], (p.item).ref, case when v_old[p.ordinality] is null then 'created' else 'new_version' end,
      p.item_no, null::jsonb
    from unnest(v_new) with ordinality p;
end
$$;
comment on function remem._insert_wave(remem.workspace, remem._prepared_item[], text[], int[]) is
  'Stores items with distinct refs and texts; the outcomes come in no particular order.';

-- Everything beside the memory rows themselves.
create or replace function remem._add_live(
  workspace remem.workspace, items remem._prepared_item[], memory_nos bigint[], session_nos int[], turn_nos int[]
) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_rows bigint;
  v_doc_len bigint;
begin
  perform remem._add_postings(workspace.workspace, items, memory_nos, session_nos, turn_nos);
  perform remem._add_vectors(workspace.workspace, workspace.space_no, memory_nos, items);
  select count(*), coalesce(sum(p.doc_len), 0) into v_rows, v_doc_len from unnest(items) p;
  perform remem._add_tally(workspace.workspace, 0, v_rows, v_doc_len);
  update remem.session s
  set turns = s.turns + d.turns, doc_len = s.doc_len + d.doc_len, last_turn = greatest(s.last_turn, d.last_turn),
      first_at = least(s.first_at, d.first_at), last_at = greatest(s.last_at, d.last_at)
  from (
    select m.session_no, count(*) as turns, sum(p.doc_len) as doc_len, max(m.turn_no) as last_turn,
      min((p.item).occurred_at) as first_at, max((p.item).occurred_at) as last_at
    from unnest(session_nos, turn_nos) with ordinality m (session_no, turn_no, ordinality)
    join unnest(items) with ordinality p on p.ordinality = m.ordinality
    where m.session_no is not null
    group by m.session_no
  ) d
  where s.workspace = workspace.workspace and s.session_no = d.session_no;
end
$$;
comment on function remem._add_live(remem.workspace, remem._prepared_item[], bigint[], int[], int[]) is
  'Postings, vectors, counts and sessions of rows just written.';

-- A known row is said again: it gets the vector it lacked, and another source is not forgotten.
create or replace function remem._meet_again(workspace remem.workspace, memory_no bigint, prepared remem._prepared_item, outcome text)
returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem.memory_item := prepared.item;
begin
  perform remem._add_vectors(workspace.workspace, workspace.space_no, array[memory_no], array[prepared]);
  if outcome = 'merged' and v_item.source_ref is not null then
    update remem.memory m
    set provenance = coalesce(m.provenance, '{}') || jsonb_build_object('also',
          coalesce(m.provenance -> 'also', '[]') || jsonb_build_object('source_ref', v_item.source_ref,
            'source_class', v_item.source_class, 'at', now())),
        updated_at = now(), changed_xid = pg_current_xact_id()
    where m.workspace = workspace.workspace and m.memory_no = _meet_again.memory_no
      and m.source_ref is distinct from v_item.source_ref
      and not coalesce(m.provenance -> 'also' @> jsonb_build_array(jsonb_build_object('source_ref', v_item.source_ref)), false);
  end if;
end
$$;
comment on function remem._meet_again(remem.workspace, bigint, remem._prepared_item, text) is
  'What an unchanged or merged item adds to the row that is there.';

-- 25_read.sql
-- Reading memories without searching: by id, by ref, by filter.

create or replace function remem._memory_record(memory remem.memory) returns remem.memory_record
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select (memory.memory_id, memory.workspace, memory.ref, memory.kind, memory.scope, memory.scope_ref, memory.title,
    memory.body, memory.summary, memory.aliases, memory.tags, memory.topic_key, memory.subject, memory.attribute,
    memory.source_class, memory.source_ref, memory.provenance, memory.importance, memory.confidence, memory.pinned,
    memory.unresolved,
    (select s.session_ref from remem.session s where s.workspace = memory.workspace and s.session_no = memory.session_no),
    memory.turn_no, memory.speaker, memory.occurred_at, memory.valid_from, memory.valid_to, memory.created_at,
    memory.updated_at, memory.superseded_at, memory.superseded_by, memory.forgotten_at, memory.freshness,
    memory.attrs -> 'metadata')::remem.memory_record
$$;
comment on function remem._memory_record(remem.memory) is 'A memory row as the caller sees it.';

-- A filter as a jsonpath predicate, which is what `@@` and the GIN index take; null stays null. A path
-- such as `$ ? (@.kind == "task")` asks whether it exists. What would fail only on some rows is refused here.
create or replace function remem._filter(filter text) returns jsonpath
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_problem text;
begin
  v_filter := filter::jsonpath;
  if v_filter is null then
    return null;
  end if;
  if v_filter::text like 'strict %' then
    v_problem := 'strict mode';
  elsif regexp_replace(v_filter::text, '"(\\.|[^"\\])*"', '""', 'g') ~ '\$"' then
    v_problem := 'a variable, which nothing gives a value';  -- printed as $"name"
  else
    begin
      return format('(%s) && (1 == 1)', v_filter)::jsonpath;
    exception when syntax_error then
      return format('exists(%s)', v_filter)::jsonpath;
    end;
  end if;
  perform remem._refuse_filter(v_problem);
exception when syntax_error or data_exception then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem._filter(text) is 'Reads a jsonpath filter with a typed error.';

-- Also for what only shows when a filter meets a row, such as a date compared with a time of day.
create or replace function remem._refuse_filter(problem text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._raise('RM001', jsonb_build_object('argument', 'filter', 'problem', problem),
    'A filter is a jsonpath predicate over the memory, e.g. $.kind == "decision" && $.metadata.team == "core"');
end
$$;
comment on function remem._refuse_filter(text) is 'Raises the error of an unusable filter.';

create or replace function remem.get(workspace text, memory_id uuid default null, ref text default null)
returns setof remem.memory_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  if (memory_id is null) = (ref is null) then
    perform remem._raise('RM001', '{"argument": "memory_id, ref"}', 'Give either a memory_id or a ref');
  end if;
  return query
    select r.* from remem.memory m cross join lateral remem._memory_record(m) r
    where m.workspace = get.workspace and (
      m.memory_id = get.memory_id
      or m.ref = get.ref and m.superseded_at is null and m.forgotten_at is null);
end
$$;
comment on function remem.get(text, uuid, text) is
  'One memory by its id (any version) or by the caller''s ref (the current version); no row when there is none.';

create or replace function remem.list(workspace text, filter text default null, after uuid default null, "limit" int default 50)
returns setof remem.memory_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_after bigint;
  v_problem text;
begin
  perform remem._authorize(workspace, 'read');
  v_filter := remem._filter(filter);
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  if after is not null then
    v_after := (select m.memory_no from remem.memory m where m.workspace = list.workspace and m.memory_id = list.after);
    if v_after is null then
      perform remem._raise('RM101', jsonb_build_object('argument', 'after', 'value', after), 'Pass the memory_id of the last row you have');
    end if;
  end if;
  return query
    select r.*
    from (
      select m, m.memory_no from remem.memory m
      where m.workspace = list.workspace and m.superseded_at is null and m.forgotten_at is null
        and (v_after is null or m.memory_no < v_after) and (v_filter is null or m.attrs @@ v_filter)
      order by m.memory_no desc limit "limit"
    ) s cross join lateral remem._memory_record(s.m) r
    order by s.memory_no desc;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem.list(text, text, uuid, int) is
  'Current memories, newest first, a page at a time: after is the memory_id of the last row of the page before. filter is a jsonpath predicate over kind, scope, tags, session_ref, speaker, occurred_at, importance, metadata, ...';

create or replace function remem.count(workspace text, filter text default null) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_problem text;
begin
  perform remem._authorize(workspace, 'read');
  v_filter := remem._filter(filter);
  if v_filter is null then
    return (remem._count_tally(workspace, 0)).n;
  end if;
  return (select count(*) from remem.memory m
    where m.workspace = count.workspace and m.superseded_at is null and m.forgotten_at is null
      and m.attrs @@ v_filter);
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem.count(text, text) is 'How many current memories a workspace has, or how many pass a filter.';

-- 30_space.sql
-- Embedding spaces: who made a vector. Vectors of two spaces are never compared, by construction:
-- each space has its own table, and a workspace points at one space.

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
  lock table remem.embedding_space in share row exclusive mode;
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
  values ((select max(s.space_no) + 1 from remem.embedding_space s), v_name, v_fingerprint,
    descriptor ->> 'backend', descriptor ->> 'asset', v_dimensions, coalesce(descriptor ->> 'pooling', ''),
    coalesce(descriptor ->> 'normalization', ''), coalesce(descriptor ->> 'dtype', ''),
    coalesce(descriptor ->> 'query_prompt', ''), coalesce(descriptor ->> 'document_prompt', ''), 'active',
    v_floor, v_full, v_weight)
  returning * into v_space;
  perform remem._create_space_tables(v_space.space_no, v_dimensions);
  return remem._space_info(v_space);
end
$$;
comment on function remem.register_space(jsonb) is
  'Makes an embedding model known, with a vector table and an HNSW index of its own. Idempotent by fingerprint: the same model gives the same space, another model of the same dimensions another one. Descriptor keys: name, backend, asset, dimensions, pooling, normalization, dtype, query_prompt, document_prompt (its identity), cosine_floor and cosine_full (its relevance thresholds), vector_weight (its share in the fused score).';

create or replace function remem._create_space_tables(space_no int, dimensions int) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_table text := format('embedding_%s', space_no);
begin
  execute format('create table remem.%I (workspace text collate "C" not null, memory_no bigint not null,'
    ' embedding public.halfvec(%s) not null, primary key (workspace, memory_no))', v_table, dimensions);
  execute format('alter table remem.%I alter column embedding set storage main', v_table);
  execute format('create table remem.%I (like remem.%I including storage, primary key (workspace, memory_no))',
    v_table || '_past', v_table);
  execute format('create index %I on remem.%I using hnsw (embedding public.halfvec_cosine_ops)',
    v_table || '_hnsw_idx', v_table);
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

create or replace function remem.activate_space(space text, workspace text default null) returns remem.space_info
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_space remem.embedding_space;
  v_memories bigint;
  v_vectors bigint;
begin
  if workspace is null then
    perform remem._authorize_admin();
    v_space := remem._find_space(space);
    update remem.setting s set value = v_space.space_no, updated_at = now() where s.name = 'default_space';
    return remem._space_info(v_space);
  end if;
  perform remem._authorize(workspace, 'admin');
  v_space := remem._find_space(space);
  perform remem._lock_workspace(workspace, true);
  perform remem._ensure_workspace(workspace);
  v_memories := (remem._count_tally(workspace, 0)).n;
  v_vectors := (remem._count_tally(workspace, v_space.space_no)).n;
  if v_vectors < v_memories then
    perform remem._raise('RM102', jsonb_build_object('workspace', workspace, 'space', v_space.name,
      'got', v_vectors, 'expected', v_memories),
      'The workspace has memories without a vector in that space: embed them first');
  end if;
  update remem.workspace w set space_no = v_space.space_no where w.workspace = activate_space.workspace;
  return remem._space_info(v_space);
end
$$;
comment on function remem.activate_space(text, text) is
  'Makes a registered space (by name or fingerprint) the default of new workspaces, or the current space of one workspace whose memories all have a vector in it.';

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
begin
  perform remem._authorize_any();
  return jsonb_build_object(
    'version', (select s.value from remem.setting s where s.name = 'version'),
    'compatibility', (select s.value::int from remem.setting s where s.name = 'compatibility'),
    'migrations', (select jsonb_agg(m.name order by m.version) from remem.schema_migration m),
    'postgres', current_setting('server_version'),
    'pgvector', (select e.extversion from pg_extension e where e.extname = 'vector'),
    'tenant_mode', (select s.value from remem.setting s where s.name = 'tenant_mode'));
end
$$;
comment on function remem.version() is
  'What is installed: version, compatibility number (clients run on the numbers they know), migrations, Postgres, pgvector, tenant mode.';

-- 40_query.sql
-- Query preparation: options, filter, terms.

-- The options of recall with their defaults. An unknown key is refused with the list of known ones.
create or replace function remem._default_options() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "filter": null, "kinds": null, "scopes": null, "arms": ["vector", "lexical"], "mode": "auto",
    "fusion": "weighted", "weights": {}, "min_relevance": 0, "space": null
  }'::jsonb
$$;
comment on function remem._default_options() is 'Every option of recall with its default.';

-- Weights of the fused score, each relative to the query's best value of that signal (the vector share comes
-- from the space). Found on conversations by leave-one-out; python -m evals locomo shows what they give.
create or replace function remem._default_weights() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "vector": null, "neighbour": 0.3, "neighbour2": 0.1, "session": 0.6, "speaker": 0.6, "length": 0.4
  }'::jsonb
$$;
comment on function remem._default_weights() is 'The weights of the fused score.';

create or replace function remem._check_options(options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_known jsonb := remem._default_options();
  v_options jsonb := v_known || coalesce(options, '{}');
  v_key text;
begin
  if options is not null and jsonb_typeof(options) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'options', 'got', jsonb_typeof(options)), 'Options are a JSON object');
  end if;
  for v_key in select k from jsonb_object_keys(v_options) k where not v_known ? k loop
    perform remem._raise('RM002', jsonb_build_object('option', v_key, 'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(v_known) k)),
      'Valid options: ' || (select string_agg(k, ', ' order by k) from jsonb_object_keys(v_known) k));
  end loop;
  perform remem._check_member('mode', v_options ->> 'mode', '{auto,lexical,vector,retrieval_only}', null);
  perform remem._check_member('fusion', v_options ->> 'fusion', '{weighted,rrf,max}', null);
  perform remem._check_list('arms', v_options -> 'arms', '{vector,lexical}');
  if v_options ->> 'mode' in ('lexical', 'vector') and jsonb_typeof(v_options -> 'arms') = 'array'
     and v_options -> 'arms' <> '[]' and not v_options -> 'arms' ? (v_options ->> 'mode') then
    perform remem._raise('RM001', jsonb_build_object('argument', 'arms', 'value', v_options -> 'arms', 'mode', v_options -> 'mode'),
      'This mode needs its own arm: leave arms out');
  end if;
  perform remem._check_list('kinds', v_options -> 'kinds', '{semantic,episodic,decision,preference,procedure,task,other}');
  perform remem._check_list('scopes', v_options -> 'scopes', '{global,project,session,user}');
  if jsonb_typeof(v_options -> 'min_relevance') <> 'number' or not (v_options ->> 'min_relevance')::float8 between 0 and 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'min_relevance', 'value', v_options -> 'min_relevance'), 'A number from 0 to 1');
  end if;
  for v_key in select k from unnest(array['filter', 'space']) k where jsonb_typeof(v_options -> k) not in ('string', 'null') loop
    perform remem._raise('RM001', jsonb_build_object('argument', v_key, 'got', jsonb_typeof(v_options -> v_key)), format('%s is a text', v_key));
  end loop;
  perform remem._check_weights(v_options -> 'weights');
  return v_options;
end
$$;
comment on function remem._check_options(jsonb) is 'Options with defaults; typed errors for unknown keys and wrong values.';

-- A list of words out of a closed set; null and the empty list mean no restriction.
create or replace function remem._check_list(argument text, value jsonb, valid text[]) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if jsonb_typeof(value) = 'null' then
    return;
  end if;
  if jsonb_typeof(value) <> 'array'
     or exists (select from jsonb_array_elements(value) e where jsonb_typeof(e) <> 'string' or (e #>> '{}') <> all (valid)) then
    perform remem._raise('RM001', jsonb_build_object('argument', argument, 'value', value, 'valid', to_jsonb(valid)),
      'A list out of: ' || array_to_string(valid, ', '));
  end if;
end
$$;
comment on function remem._check_list(text, jsonb, text[]) is 'Refuses a list with members outside a closed set.';

create or replace function remem._check_weights(weights jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_key text;
begin
  if jsonb_typeof(weights) <> 'object' then
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights', 'got', jsonb_typeof(weights)), 'Weights are a JSON object');
  end if;
  for v_key in select k from jsonb_object_keys(weights) k where not remem._default_weights() ? k loop
    perform remem._raise('RM002', jsonb_build_object('option', 'weights.' || v_key,
      'valid', (select jsonb_agg(k order by k) from jsonb_object_keys(remem._default_weights()) k)), 'Choose one of the weights');
  end loop;
  for v_key in select e.key from jsonb_each(weights) e
    where jsonb_typeof(e.value) <> 'number' or not (e.value #>> '{}')::numeric between 0 and 10 loop
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights.' || v_key, 'value', weights -> v_key), 'A number from 0 to 10');
  end loop;
  if (weights ->> 'vector')::float8 > 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'weights.vector', 'value', weights -> 'vector'),
      'A share from 0 (lexical only) to 1 (vector only)');
  end if;
end
$$;
comment on function remem._check_weights(jsonb) is 'Refuses unknown or unusable weights.';

-- Everything that restricts rows in one jsonpath predicate, or null. The workspace is part of it, so that
-- the GIN index looks up this tenant's rows only.
create or replace function remem._row_filter(workspace text, options jsonb) returns jsonpath
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath := remem._filter(options ->> 'filter');
  v_parts text[] := '{}';
  v_key text;
begin
  foreach v_key in array array['kind', 'scope'] loop
    if jsonb_typeof(options -> (v_key || 's')) = 'array' and jsonb_array_length(options -> (v_key || 's')) > 0 then
      v_parts := v_parts || ('(' || (select string_agg(format('$.%s == %s', v_key, e), ' || ')
        from jsonb_array_elements(options -> (v_key || 's')) e) || ')');
    end if;
  end loop;
  if v_filter is not null then
    v_parts := v_parts || format('(%s)', v_filter);
  end if;
  if cardinality(v_parts) = 0 then
    return null;
  end if;
  return format('$.workspace == %s && %s', to_jsonb(workspace), array_to_string(v_parts, ' && '))::jsonpath;
end
$$;
comment on function remem._row_filter(text, jsonb) is 'The predicate that kinds, scopes and filter make together.';

-- Inverse document frequency of BM25 in the form that is never negative (Robertson and Zaragoza 2009; Lucene).
create or replace function remem._idf(documents bigint, frequency bigint) returns float8
language sql immutable parallel safe
return ln(1 + (greatest(documents, frequency) - frequency + 0.5) / (frequency + 0.5));
comment on function remem._idf(bigint, bigint) is 'BM25 inverse document frequency, never negative.';

-- Distinct lexemes of a query with their document frequencies, rare ones first. A frequency is counted
-- exactly up to `cap` by the index alone; beyond, the middle between cap and all is assumed. Of a long query
-- the 64 rarest lexemes that occur are asked, told apart by a short count.
create or replace function remem._query_terms(
  workspace text, query text, dictionaries regdictionary[], documents bigint, cap int,
  out lexemes text[], out frequencies bigint[], out idfs float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  select coalesce(array_agg(t.lexeme order by t.frequency, t.lexeme), '{}'),
    coalesce(array_agg(t.frequency order by t.frequency, t.lexeme), '{}'),
    coalesce(array_agg(remem._idf(documents, t.frequency) order by t.frequency, t.lexeme), '{}')
  into lexemes, frequencies, idfs
  from (
    select l.lexeme,
      case when c.n > cap then greatest(cap, sqrt(cap::float8 * documents)::bigint) else c.n end as frequency
    from (
      select a.lexeme,
        row_number() over (order by case when a.asked > 64 then (
          select count(*) + case when count(*) = 0 then 1000 else 0 end from (
            select from remem.posting p
            where p.workspace = _query_terms.workspace and p.lexeme = a.lexeme limit 200) s) end, a.lexeme) as place
      from (
        select x.lexeme, count(*) over () as asked
        from remem._lexemes(left(query, 20000), dictionaries) x
      ) a
    ) l
    cross join lateral (
      select count(*) as n from (
        select from remem.posting p
        where p.workspace = _query_terms.workspace and p.lexeme = l.lexeme limit cap + 1) s
    ) c
    where l.place <= 64
  ) t;
end
$$;
comment on function remem._query_terms(text, text, regdictionary[], bigint, int) is 'The lexemes a query asks for, rarest first.';

-- 41_arm_vector.sql
-- The vector arm: nearest neighbours by cosine in the workspace's current space.
--
-- Three ways to look, chosen by the caller and not left to the planner's estimates:
--   allowed  exactly over a list of rows that a selective filter left;
--   exact    exactly over the whole workspace, when it is small;
--   index    HNSW with an iterative scan, which goes on until enough rows of this workspace are found.
-- Sorting is priced out, so that the index scan is taken; the settings end with the function. The row check
-- is a scalar subquery on purpose: as a semi-join it could lose the order of the index.
create or replace function remem._arm_vector(
  workspace text, space_no int, query real[], n int, exact boolean, allowed bigint[], row_filter jsonpath,
  check_validity boolean, out memory_nos bigint[], out cosines float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set hnsw.iterative_scan = 'strict_order'
set hnsw.ef_search = 80
set enable_sort = off
as $$
declare
  v_rows text := format('remem.embedding_%s e where e.workspace = $1', space_no);
  v_distance constant text := 'e.embedding operator(public.<=>) $2';
begin
  if allowed is not null then
    v_rows := v_rows || ' and e.memory_no = any ($4)';
  elsif row_filter is not null or check_validity then
    v_rows := v_rows || ' and (select ($5 is null or m.attrs @@ $5) and (m.valid_from is null or m.valid_from <= now())'
      ' and (m.valid_to is null or m.valid_to > now()) from remem.memory m where m.workspace = $1 and m.memory_no = e.memory_no)';
  end if;
  if exact or allowed is not null then
    execute format('with near as materialized (select e.memory_no, %s as distance from %s)'
      ' select array_agg(s.memory_no), array_agg(1 - s.distance) from (select * from near order by distance, memory_no limit $3) s',
      v_distance, v_rows)
    into memory_nos, cosines using workspace, query::public.halfvec, n, allowed, row_filter;
  else
    execute format('select array_agg(s.memory_no), array_agg(1 - s.distance)'
      ' from (select e.memory_no, %1$s as distance from %2$s order by %1$s limit %3$s) s', v_distance, v_rows, n)
    into memory_nos, cosines using workspace, query::public.halfvec, n, allowed, row_filter;
  end if;
  memory_nos := coalesce(memory_nos, '{}');
  cosines := coalesce(cosines, '{}');
end
$$;
comment on function remem._arm_vector(text, int, real[], int, boolean, bigint[], jsonpath, boolean) is
  'Nearest memories by cosine: exact for small workspaces and selective filters, HNSW otherwise.';

-- Cosines of given rows, in the order of the list; null for a row without a vector.
create or replace function remem._cosines(workspace text, space_no int, query real[], memory_nos bigint[]) returns float8[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_cosines float8[];
begin
  execute format('select array_agg(1 - (e.embedding operator(public.<=>) $2) order by w.ordinality)'
    ' from unnest($3) with ordinality w (memory_no, ordinality)'
    ' left join remem.embedding_%s e on e.workspace = $1 and e.memory_no = w.memory_no', space_no)
  into v_cosines using workspace, query::public.halfvec, memory_nos;
  return v_cosines;
end
$$;
comment on function remem._cosines(text, int, real[], bigint[]) is 'The cosine of every given row to the query.';

-- 42_arm_lexical.sql
-- The lexical arm: BM25 over the posting table, any term may match (an AND query finds nothing for questions).

-- Reads whole posting lists, rarest term first, until `budget` postings are spent; of the longer lists only the
-- newest part, enough for n rows, and their scores are looked up for the best candidates, so that every score
-- is complete all the same. With `allowed` every term is looked up for those rows and nothing is left out. Every
-- read is an index-only scan. `also` are rows that another arm found: scored too, and marked as not `own`.
-- units: BM25 of whole sessions, for the sessions of the candidates; a memory outside of any session is a
-- session of its own, numbered -memory_no, so that it is not behind for standing alone.
-- k1 = 1.2 and b = 0.3: memories are short, and a short one is not more to the point for being short; whole
-- sessions take the usual k1 = 1.5, b = 0.75 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).
create or replace function remem._arm_lexical(
  workspace text, lexemes text[], frequencies bigint[], idfs float8[], n int, budget int, mean_len float8, also bigint[],
  allowed bigint[], row_filter jsonpath, check_validity boolean,
  out memory_nos bigint[], out scores float8[], out matched float8[], out own boolean[],
  out units bigint[], out unit_scores float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  with term as (
    select t.lexeme, t.idf, t.ordinality = 1 as rarest,
      allowed is not null or t.total <= budget as whole,
      case when t.total - t.frequency <= budget and (t.ordinality = 1 or row_filter is not null or check_validity)
        then greatest(budget, 3 * n) else 3 * n end as part
    from (
      select t.*, sum(t.frequency) over (order by t.ordinality) as total
      from unnest(lexemes, frequencies, idfs) with ordinality t (lexeme, frequency, idf, ordinality)
      where t.frequency > 0
    ) t
  ), found as materialized (
    select t.*, p.* from term t
    cross join lateral (
      select p.memory_no, p.session_no, p.tf, p.doc_len from remem.posting p
      where p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme
      order by p.memory_no desc limit case when not t.whole then t.part end
    ) p
    where allowed is null
    union all
    select t.*, p.memory_no, p.session_no, p.tf, p.doc_len
    from unnest(allowed) a (memory_no)
    cross join term t
    join remem.posting p on p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme and p.memory_no = a.memory_no
  ), hit as (
    select f.*, coalesce(f.session_no, -f.memory_no) as unit,
      f.idf * f.tf * 2.2 / (f.tf + 1.2 * (0.7 + 0.3 * f.doc_len / mean_len)) as score
    from found f
  ), partial as (
    select h.memory_no, h.unit, sum(h.score) as score,
      coalesce(sum(h.score) filter (where h.whole), 0) as whole_score, coalesce(sum(h.idf) filter (where h.whole), 0) as matched
    from hit h group by h.memory_no, h.unit
  ), ranked as (
    select r.* from (select s.* from partial s order by s.score desc, s.memory_no offset 0) r
    where not (row_filter is not null or check_validity) or allowed is not null or (
      select (row_filter is null or m.attrs @@ row_filter)
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      from remem.memory m where m.workspace = _arm_lexical.workspace and m.memory_no = r.memory_no)
    limit case when exists (select from term t where not t.whole) then 3 * n else n end
  ), candidate as materialized (
    select r.memory_no, r.unit, r.whole_score as score, r.matched, true as own from ranked r
    union all
    select p.memory_no, p.unit, p.whole_score, p.matched, false from partial p
    where p.memory_no = any (also) and not exists (select from ranked r where r.memory_no = p.memory_no)
    union all
    select a.memory_no, null, 0, 0, false from unnest(also) a (memory_no)
    where not exists (select from partial p where p.memory_no = a.memory_no)
  ), rest as (
    select c.memory_no, sum(t.idf * p.tf * 2.2 / (p.tf + 1.2 * (0.7 + 0.3 * p.doc_len / mean_len))) as score, sum(t.idf) as matched
    from candidate c
    cross join term t
    join remem.posting p on p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme and p.memory_no = c.memory_no
    where not t.whole
    group by c.memory_no
  ), complete as (
    select c.memory_no, c.unit, c.score + coalesce(r.score, 0) as score, c.matched + coalesce(r.matched, 0) as matched, c.own,
      row_number() over (partition by c.own order by c.score + coalesce(r.score, 0) desc, c.memory_no) as rank
    from candidate c left join rest r on r.memory_no = c.memory_no
  ), kept as materialized (
    select k.* from complete k where k.rank <= n or not k.own
  ), around as (
    -- A sample is enough for a mean; a workspace without sessions is measured by its memories.
    select count(*) as sessions, greatest(coalesce(avg(s.doc_len), mean_len), 1) as mean_len
    from (select s.doc_len from remem.session s where s.workspace = _arm_lexical.workspace limit 1000) s
  ), unit_term as (
    select h.unit, h.lexeme, sum(h.tf) as tf, max(h.doc_len) as doc_len from hit h
    where h.whole or h.rarest group by h.unit, h.lexeme
  ), unit_frequency as (
    select t.lexeme, count(*) as n from unit_term t group by t.lexeme
  ), unit_score as (
    select t.unit,
      sum(ln(1 + (greatest(a.sessions, f.n) - f.n + 0.5) / (f.n + 0.5)) * t.tf * 2.5
        / (t.tf + 1.5 * (0.25 + 0.75 * coalesce(s.doc_len, t.doc_len) / a.mean_len))) as score
    from unit_term t
    join unit_frequency f on f.lexeme = t.lexeme
    left join remem.session s on s.workspace = _arm_lexical.workspace and s.session_no = t.unit
    cross join around a
    where t.unit in (select k.unit from kept k)
    group by t.unit
  )
  select k.memory_nos, k.scores, k.matched, k.own, u.units, u.scores
  into memory_nos, scores, matched, own, units, unit_scores
  from (
    select array_agg(k.memory_no order by k.score desc, k.memory_no) as memory_nos, array_agg(k.score order by k.score desc, k.memory_no) as scores,
      array_agg(k.matched order by k.score desc, k.memory_no) as matched, array_agg(k.own order by k.score desc, k.memory_no) as own
    from kept k
  ) k
  cross join (select array_agg(u.unit) as units, array_agg(u.score) as scores from unit_score u) u;
end
$$;
comment on function remem._arm_lexical(text, text[], bigint[], float8[], int, int, float8, bigint[], bigint[], jsonpath, boolean) is
  'Best memories by BM25 within a bounded number of postings, with the BM25 of their sessions.';

-- BM25 of given rows, in the order of the list, and the idf mass of the terms each holds.
create or replace function remem._bm25s(
  workspace text, lexemes text[], idfs float8[], mean_len float8, memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  select array_agg(s.score order by s.ordinality), array_agg(s.matched order by s.ordinality) into scores, matched
  from (
    select w.ordinality,
      coalesce(sum(t.idf * p.tf * 2.2 / (p.tf + 1.2 * (0.7 + 0.3 * p.doc_len / mean_len))), 0) as score,
      coalesce(sum(t.idf) filter (where p.memory_no is not null), 0) as matched
    from unnest(memory_nos) with ordinality w (memory_no, ordinality)
    left join (
      unnest(lexemes, idfs) t (lexeme, idf)
      join remem.posting p on p.workspace = _bm25s.workspace and p.lexeme = t.lexeme and p.memory_no = any (memory_nos)
    ) on p.memory_no = w.memory_no
    group by w.ordinality
  ) s;
end
$$;
comment on function remem._bm25s(text, text[], float8[], float8, bigint[]) is 'The BM25 score of every given row.';

-- 45_fuse.sql
-- Fusion: from what the arms found to one order. Both main scores are known for every candidate, and a
-- conversation counts: a turn gains from its neighbours, its session and its speaker.

-- Union of the arms' finds with both scores, best first, at most `cap` rows; then the neighbours (two turns
-- to either side) of the ten best join in. Arrays run in parallel; cosines are null where there is no vector.
create or replace function remem._candidates(
  workspace text, space_no int, query real[], lexemes text[], idfs float8[], mean_len float8, vector_weight float8,
  vector_nos bigint[], vector_cosines float8[], lexical_nos bigint[], lexical_scores float8[], lexical_matched float8[], cap int,
  out memory_nos bigint[], out cosines float8[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_joined bigint[];
  v_cosines float8[];
  v_scores float8[];
  v_matched float8[];
begin
  -- The lexical arm has scored the vector arm's rows too, so its list is the union.
  memory_nos := lexical_nos; scores := lexical_scores; matched := lexical_matched;
  if query is not null then
    v_joined := array(select l from unnest(lexical_nos) l where l <> all (vector_nos));
    v_cosines := remem._cosines(workspace, space_no, query, v_joined);
    cosines := array(
      select coalesce(v.cosine, j.cosine) from unnest(lexical_nos) with ordinality l (memory_no, ordinality)
      left join unnest(vector_nos, vector_cosines) v (memory_no, cosine) on v.memory_no = l.memory_no
      left join unnest(v_joined, v_cosines) j (memory_no, cosine) on j.memory_no = l.memory_no
      order by l.ordinality);
  else
    cosines := array_fill(null::float8, array[cardinality(lexical_nos)]);
  end if;

  with candidate as (
    select c.*, remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
  ), best as (
    select c.* from candidate c order by c.base desc, c.memory_no limit cap
  ), top as materialized (
    select m.session_no, m.turn_no
    from (select b.memory_no from best b order by b.base desc, b.memory_no limit 10) t
    join remem.memory m on m.workspace = _candidates.workspace and m.memory_no = t.memory_no
    where m.session_no is not null
  ), joined as (
    -- offset 0 keeps it a lookup per turn by memory_session_idx, also in tables that were never analysed.
    select distinct n.memory_no from top t
    cross join lateral (
      select m.memory_no from remem.memory m
      where m.workspace = _candidates.workspace and m.session_no = t.session_no
        and m.turn_no between t.turn_no - 2 and t.turn_no + 2 and m.superseded_at is null and m.forgotten_at is null
      offset 0) n
    where not exists (select from best b where b.memory_no = n.memory_no)
  )
  select b.*, j.nos into memory_nos, cosines, scores, matched, v_joined
  from (select array_agg(b.memory_no), array_agg(b.cosine), array_agg(b.score), array_agg(b.matched) from best b) b
  cross join (select array_agg(j.memory_no) as nos from joined j) j;

  if v_joined is not null then
    if query is not null then
      v_cosines := remem._cosines(workspace, space_no, query, v_joined);
    else
      v_cosines := array_fill(null::float8, array[cardinality(v_joined)]);
    end if;
    select s.scores, s.matched into v_scores, v_matched from remem._bm25s(workspace, lexemes, idfs, mean_len, v_joined) s;
    memory_nos := memory_nos || v_joined; cosines := cosines || v_cosines; scores := scores || v_scores; matched := matched || v_matched;
  end if;
end
$$;
comment on function remem._candidates(text, int, real[], text[], float8[], float8, float8, bigint[], float8[], bigint[], float8[], float8[], int) is
  'Candidates of all arms with both main scores, and the turns around the best of them.';

-- Both main scores relative to the query's best of each, weighted. A missing cosine counts as nothing. Where
-- no cosine is positive, their distance from the opposite direction still orders them.
-- The body is bound when it is created and inlined where it is used: it needs no search_path.
create or replace function remem._base_score(cosine float8, best_cosine float8, score float8, best_score float8, vector_weight float8)
returns float8
language sql immutable parallel safe
return case
    when best_cosine > 0 then vector_weight * greatest(coalesce(cosine, 0), 0) / best_cosine
    when best_cosine > -1 then vector_weight * (1 + coalesce(cosine, -1)) / (1 + best_cosine)
    else 0 end
  + case when best_score > 0 then (1 - vector_weight) * score / best_score else 0 end;
comment on function remem._base_score(float8, float8, float8, float8, float8) is 'Weighted sum of the two main scores, each relative to the best.';

-- The final score of every candidate with its signals. fusion: weighted (with conversation context), rrf
-- (reciprocal rank fusion, k = 60, Cormack et al. 2009) or max; the last two use the two main scores only.
create or replace function remem._score(
  workspace text, query text, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], idf_mass float8, vector_weight float8, weights jsonb, fusion text,
  with_context boolean, cosine_floor float8, cosine_full float8
) returns table (memory_no bigint, score float8, relevance float8, signals jsonb, fingerprint bytea)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_neighbour float8 := (weights ->> 'neighbour')::float8;
  v_neighbour2 float8 := (weights ->> 'neighbour2')::float8;
  v_session float8 := (weights ->> 'session')::float8;
  v_speaker float8 := (weights ->> 'speaker')::float8;
  v_length float8 := (weights ->> 'length')::float8;
  v_query text := ' ' || regexp_replace(remem._fold(query), '[\u0001-\u002f\u003a-\u0060\u007b-\u007f\u2018\u2019]+', ' ', 'g') || ' ';
begin
  return query
  with candidate as (
    select c.*, m.session_no, m.turn_no, m.speaker, m.subject, m.fingerprint,
      least(ln(1 + m.doc_len) / ln(33), 1) as length_share,
      remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base,
      rank() over (order by c.cosine desc nulls last) as vector_rank, rank() over (order by c.score desc) as lexical_rank,
      c.cosine / nullif(greatest(max(c.cosine) over (), 0), 0) as cosine_share, c.score / nullif(max(c.score) over (), 0) as score_share
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
    join remem.memory m on m.workspace = _score.workspace and m.memory_no = c.memory_no
  ), named as (
    -- The one speaker that the query names; two names name nobody.
    select case when count(*) = 1 then min(s.speaker) end as speaker
    from (select distinct c.speaker from candidate c where c.speaker is not null offset 0) s
    where position(' ' || remem._fold(s.speaker) || ' ' in v_query) > 0
  ), context as (
    select c.*,
      -- A memory that stands alone is taken to be surrounded by half as much as it holds itself.
      case when c.session_no is null then c.base else coalesce(sum(c.base) over near, 0) end as near,
      case when c.session_no is null then c.base
        else coalesce(sum(c.base) over wide, 0) - coalesce(sum(c.base) over near, 0) end as wide,
      coalesce(u.score / nullif(max(u.score) over (), 0), 0) as session_share
    from candidate c
    left join unnest(units, unit_scores) u (unit, score) on u.unit = coalesce(c.session_no, -c.memory_no)
    window near as (partition by c.session_no order by c.turn_no range between 1 preceding and 1 following exclude current row),
      wide as (partition by c.session_no order by c.turn_no range between 2 preceding and 2 following exclude current row)
  ), about as (
    -- A turn is about who speaks; what stands alone, about whom it names.
    select c.*, n.speaker is not null and case when c.session_no is not null then c.speaker = n.speaker
      else n.speaker in (c.speaker, c.subject) or (
        select position(remem._fold(n.speaker) in remem._fold(left(m.body, 1000))) > 0
        from remem.memory m where m.workspace = _score.workspace and m.memory_no = c.memory_no) end as speaker_named
    from context c cross join named n
  ), fused as (
    select w.*,
      case fusion
        when 'rrf' then case when w.cosine is null then 0 else 1.0 / (60 + w.vector_rank) end
          + case when w.score > 0 then 1.0 / (60 + w.lexical_rank) else 0 end
        when 'max' then greatest(w.cosine_share, w.score_share, 0)
        else w.base + case when not with_context then 0 else
          v_neighbour * w.near + v_neighbour2 * w.wide + v_session * w.session_share
          + case when w.speaker_named then v_speaker else 0 end + v_length * w.length_share end
      end as total,
      case when w.cosine is null then 0  -- least and greatest pass over a null
        else greatest(least((w.cosine - cosine_floor) / (cosine_full - cosine_floor), 1), 0) end as vector_relevance,
      case when idf_mass > 0 then least(w.matched / idf_mass, 1) else 0 end as lexical_relevance
    from about w
  )
  select f.memory_no, coalesce(f.total / nullif(max(f.total) over (), 0), 0),
    1 - (1 - f.vector_relevance) * (1 - f.lexical_relevance),
    jsonb_strip_nulls(jsonb_build_object(
      'cosine', round(f.cosine::numeric, 4), 'bm25', round(f.score::numeric, 4), 'matched', round(f.lexical_relevance::numeric, 4),
      'base', round(f.base::numeric, 4),
      'neighbour', round(nullif(f.near, 0)::numeric, 4), 'neighbour2', round(nullif(f.wide, 0)::numeric, 4),
      'session', round(nullif(f.session_share, 0)::numeric, 4), 'length', round(f.length_share::numeric, 4),
      'speaker', case when f.speaker_named then 1 end)),
    f.fingerprint
  from fused f
  order by f.total desc nulls last, f.memory_no;
end
$$;
comment on function remem._score(text, text, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean, float8, float8) is
  'Fused score, absolute relevance and signals of every candidate, best first.';

-- 48_recall.sql
-- recall: the one call. Reads only, takes no lock, leaves no setting behind.

-- The pipeline. Answers with hits, the degraded states by name, and a trace of what each stage did.
create or replace function remem._recall(
  workspace text, query text, query_embedding real[], k int, options jsonb,
  out hits remem.recall_hit[], out degraded text[], out trace jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_small constant int := 2000;        -- up to so many vectors an exact scan beats HNSW
  c_selective constant int := 5000;    -- up to so many rows a filter is resolved first
  c_budget constant int := 20000;      -- postings read per query
  c_cap constant int := 200;           -- candidates before anything expensive
  c_deepest constant int := 4000;      -- candidates of an arm when copies of a text hide the rest
  v_options jsonb := remem._check_options(options);
  v_mode text := v_options ->> 'mode';
  v_weights jsonb;
  v_workspace remem.workspace;
  v_space remem.embedding_space;
  v_arms text[];
  v_states jsonb := '{}';
  v_pool int;
  v_documents bigint;
  v_mean_len float8;
  v_vectors bigint;
  v_query real[] := query_embedding;
  v_filter jsonpath;
  v_validity boolean;
  v_allowed bigint[];
  v_terms record;
  v_vector record;
  v_lexical record;
  v_candidates record;
  v_share float8;
  v_started timestamptz := clock_timestamp();
begin
  degraded := '{}';
  hits := '{}';
  if query is null or octet_length(query) > 1048576 then
    perform remem._raise(case when query is null then 'RM001' else 'RM003' end,
      jsonb_build_object('argument', 'query', 'got', octet_length(query), 'limit', 1048576), 'Ask something, in at most 1 MB');
  end if;
  if k is null or k not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'k', 'value', k, 'limit', 1000), 'k lies between 1 and 1000');
  end if;
  v_filter := remem._row_filter(workspace, v_options);
  select w.* into v_workspace from remem.workspace w where w.workspace = _recall.workspace;
  if not found then
    degraded := '{unknown_workspace}';
    trace := jsonb_build_object('degraded', degraded, 'arms', '{}'::jsonb);
    return;
  end if;
  v_space := remem._space(v_workspace.space_no);
  v_weights := remem._default_weights() || (v_options -> 'weights');
  v_arms := case when jsonb_typeof(v_options -> 'arms') = 'array' and jsonb_array_length(v_options -> 'arms') > 0
    then array(select a from jsonb_array_elements_text(v_options -> 'arms') a) else '{vector,lexical}' end;
  if v_mode in ('lexical', 'vector') then
    v_arms := array(select a from unnest(v_arms) a where a = v_mode);
  end if;
  v_pool := greatest(50, 2 * k);
  select t.n, t.doc_len::float8 / greatest(t.n, 1) into v_documents, v_mean_len from remem._count_tally(workspace, 0) t;
  v_mean_len := greatest(v_mean_len, 1);
  v_vectors := (remem._count_tally(workspace, v_space.space_no)).n;

  -- The query's vector: the caller's, if it is of this space; ours where the space is the built-in one.
  if 'vector' = any (v_arms) then
    if v_query is not null and v_options ->> 'space' not in (v_space.name, v_space.fingerprint) then
      degraded := array_append(degraded, 'space_mismatch');
      v_query := null;
    elsif v_query is not null then
      perform remem._check_vector(v_query, v_space, 0);
      -- Half precision neither overflows nor vanishes at length one.
      v_query := public.l2_normalize(v_query::public.vector)::real[];
    end if;
    if v_query is null and v_space.space_no = 1 then
      v_query := remem._hash_embed(query);
    end if;
    if v_query is null then
      degraded := array_append(degraded, 'no_embedding');
    elsif 0 = all (v_query) then
      degraded := array_append(degraded, 'zero_vector');
      v_query := null;
    end if;
    if v_vectors < v_documents and v_space.space_no <> 1 then  -- the built-in space lacks only texts without features
      degraded := array_append(degraded, 'stale_rows');
    end if;
  else
    v_query := null;
  end if;
  if v_workspace.analyser <> remem._analyser_name(v_workspace.language) then
    degraded := array_append(degraded, 'analyser_mix');
  end if;

  -- A selective filter is resolved first and searched exactly; otherwise the arms check rows as they go.
  v_validity := exists (select from remem.memory m
    where m.workspace = _recall.workspace and (m.valid_from is not null or m.valid_to is not null)
      and m.superseded_at is null and m.forgotten_at is null and (m.valid_to <= now() or m.valid_from > now()));
  if v_filter is not null then
    v_allowed := remem._resolve_filter(workspace, v_filter, c_selective);
  end if;

  select t.* into v_terms from remem._query_terms(workspace, query, remem._language_dictionaries(v_workspace.language),
    v_documents, c_budget) t;
  if cardinality(v_terms.lexemes) = 0 and 'lexical' = any (v_arms) then
    degraded := array_append(degraded, 'no_lexemes');
  end if;

  v_share := case
    when v_query is null then 0 when not 'lexical' = any (v_arms) then 1
    else coalesce((v_weights ->> 'vector')::float8, v_space.vector_weight) end;
  -- Once as a rule; again and deeper only where copies of a few texts fill the pool and hide the rest.
  loop
    select '{}'::bigint[] as memory_nos, '{}'::float8[] as cosines into v_vector;
    if v_query is not null then
      select a.* into v_vector from remem._arm_vector(workspace, v_space.space_no, v_query, v_pool,
        v_vectors <= c_small, v_allowed, v_filter, v_validity) a;
      if cardinality(v_vector.memory_nos) < least(v_pool, v_vectors) and v_allowed is null and v_vectors > c_small then
        -- The index scan gave up before it had enough rows of this workspace.
        select a.* into v_vector from remem._arm_vector(workspace, v_space.space_no, v_query, v_pool,
          true, v_allowed, v_filter, v_validity) a;
      end if;
      v_states := v_states || jsonb_build_object('vector', jsonb_build_object('state', 'completed', 'found', cardinality(v_vector.memory_nos)));
    end if;
    select a.* into v_lexical from remem._arm_lexical(workspace,
      case when 'lexical' = any (v_arms) then v_terms.lexemes else '{}' end, v_terms.frequencies, v_terms.idfs, v_pool, c_budget,
      v_mean_len, v_vector.memory_nos, v_allowed, v_filter, v_validity) a;
    if 'lexical' = any (v_arms) then
      v_states := v_states || jsonb_build_object('lexical', jsonb_build_object('state', 'completed',
        'found', (select count(*) from unnest(v_lexical.own) o where o), 'terms', to_jsonb(v_terms.lexemes)));
    end if;

    select c.* into v_candidates from remem._candidates(workspace, v_space.space_no, v_query,
      case when 'lexical' = any (v_arms) then v_terms.lexemes else '{}' end, v_terms.idfs, v_mean_len, v_share,
      v_vector.memory_nos, v_vector.cosines, coalesce(v_lexical.memory_nos, '{}'), coalesce(v_lexical.scores, '{}'),
      coalesce(v_lexical.matched, '{}'), greatest(c_cap, v_pool)) c;
    hits := remem._hits(workspace, query, k, v_candidates.memory_nos, v_candidates.cosines, v_candidates.scores, v_candidates.matched,
      v_lexical.units, v_lexical.unit_scores, (select sum(i) from unnest(v_terms.idfs) i), v_share, v_weights,
      v_options ->> 'fusion', v_mode <> 'retrieval_only', (v_options ->> 'min_relevance')::float8, v_space,
      v_vector.memory_nos, v_lexical.memory_nos, v_lexical.own, v_filter, v_validity, degraded);
    exit when cardinality(hits) >= k or v_pool >= c_deepest
      or greatest(cardinality(v_vector.memory_nos), (select count(*) from unnest(v_lexical.own) o where o)) < v_pool
      or not exists (select from unnest(hits) h where h.duplicates is not null);
    v_pool := least(4 * v_pool, c_deepest);
  end loop;
  trace := jsonb_build_object(
    'space', v_space.name, 'arms', v_states, 'memories', v_documents, 'vectors', v_vectors,
    'filtered_to', cardinality(v_allowed), 'candidates', coalesce(cardinality(v_candidates.memory_nos), 0),
    'weights', v_weights || jsonb_build_object('vector', v_share), 'degraded', degraded,
    'elapsed_ms', round(extract(epoch from clock_timestamp() - v_started)::numeric * 1000, 3));
end
$$;
comment on function remem._recall(text, text, real[], int, jsonb) is 'The recall pipeline; the caller has authorised.';

-- The rows that pass a filter, when there are at most `most`; null when there are more.
create or replace function remem._resolve_filter(workspace text, row_filter jsonpath, most int) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_allowed bigint[];
  v_problem text;
begin
  -- EXECUTE: the plan depends on the filter's value, a cached one would forget the GIN index.
  execute format('select array_agg(s.memory_no) from (select m.memory_no from remem.memory m where m.workspace = $1 and m.attrs @@ %L'
    ' and m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())'
    ' and (m.valid_to is null or m.valid_to > now()) limit %s) s', row_filter, most + 1)
  into v_allowed using workspace;
  v_allowed := coalesce(v_allowed, '{}');
  return case when cardinality(v_allowed) <= most then v_allowed end;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem._resolve_filter(text, jsonpath, int) is 'Resolves a selective filter to its rows.';

-- The best k candidates as hits: equal texts once with all their references, gates on relevance.
create or replace function remem._hits(
  workspace text, query text, k int, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], idf_mass float8, vector_share float8, weights jsonb, fusion text,
  with_context boolean, min_relevance float8, space remem.embedding_space, vector_nos bigint[], lexical_nos bigint[], lexical_own boolean[],
  row_filter jsonpath, check_validity boolean, degraded text[]
) returns remem.recall_hit[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    with scored as materialized (
      select s.*, row_number() over (order by s.score desc nulls last, s.memory_no) as place,
        row_number() over (partition by s.fingerprint order by s.score desc nulls last, s.memory_no) as copy
      from remem._score(workspace, query, memory_nos, cosines, scores, matched, units, unit_scores, idf_mass, vector_share,
        weights, fusion, with_context, space.cosine_floor, space.cosine_full) s
      where s.relevance >= min_relevance and s.score is not null
        and (not (row_filter is not null or check_validity) or (
          select (row_filter is null or m.attrs @@ row_filter)
            and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
          from remem.memory m where m.workspace = _hits.workspace and m.memory_no = s.memory_no))
    ), best as (
      select s.*, row_number() over (order by s.place)::int as rank from scored s
      where s.copy = 1 or not with_context order by s.place limit k
    )
    select array_agg((b.rank, m.memory_id, m.ref, m.kind, m.title, m.body, b.score, b.relevance, b.signals,
        array_remove(array[
          case when b.memory_no = any (vector_nos) then 'vector' end,
          case when exists (select from unnest(lexical_nos, lexical_own) l (memory_no, own) where l.memory_no = b.memory_no and l.own) then 'lexical' end,
          case when b.memory_no <> all (coalesce(lexical_nos, '{}')) then 'neighbour' end], null),
        m.source_class, m.source_ref,
        (select s.session_ref from remem.session s where s.workspace = _hits.workspace and s.session_no = m.session_no),
        m.occurred_at, m.freshness,
        (select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('memory_id', d.memory_id, 'ref', d.ref, 'source_ref', d.source_ref,
            'session_ref', (select x.session_ref from remem.session x where x.workspace = _hits.workspace and x.session_no = d.session_no)))
            order by o.place)
          from scored o join remem.memory d on d.workspace = _hits.workspace and d.memory_no = o.memory_no
          where with_context and o.fingerprint = b.fingerprint and o.memory_no <> b.memory_no),
        null, degraded)::remem.recall_hit order by b.rank)
    from best b join remem.memory m on m.workspace = _hits.workspace and m.memory_no = b.memory_no
  );
end
$$;
comment on function remem._hits(text, text, int, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean,
  float8, remem.embedding_space, bigint[], bigint[], boolean[], jsonpath, boolean, text[]) is 'The best k candidates with their texts.';

-- A degraded call says so once, so that an empty answer has a reason.
create or replace function remem._warn_degraded(degraded text[]) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if cardinality(degraded) > 0 then
    raise warning using errcode = 'RM501', message = 'recall is degraded: ' || array_to_string(degraded, ', '),
      detail = to_jsonb(degraded)::text, hint = 'select remem.recall_explain(...) shows the state of every stage';
  end if;
end
$$;
comment on function remem._warn_degraded(text[]) is 'Raises the one WARNING of a degraded call.';

create or replace function remem.recall(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns setof remem.recall_hit
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  select r.* into v_result from remem._recall(workspace, query, query_embedding, k, options) r;
  perform remem._warn_degraded(v_result.degraded);
  return query select h.* from unnest(v_result.hits) h;
end
$$;
comment on function remem.recall(text, text, real[], int, jsonb) is
  'The memories that matter for a query, best first. query_embedding is the query''s vector in the workspace''s current space (not needed for the built-in hash space). Options: filter (jsonpath), kinds, scopes, arms, mode (auto, lexical, vector, retrieval_only), fusion (weighted, rrf, max), weights, min_relevance (0 to 1), space (the model that made query_embedding). Works in a READ ONLY transaction. A degraded call raises one WARNING (RM501) naming the states.';

create or replace function remem.recall_explain(
  workspace text, query text, query_embedding real[] default null, k int default 8, options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set jit = off
as $$
declare
  v_result record;
begin
  perform remem._authorize(workspace, 'read');
  select r.* into v_result from remem._recall(workspace, query, query_embedding, k, options) r;
  return v_result.trace || jsonb_build_object('query', query, 'hits', coalesce(to_jsonb(v_result.hits), '[]'));
end
$$;
comment on function remem.recall_explain(text, text, real[], int, jsonb) is
  'The same recall as JSON with the state of every stage: arms, terms, candidates, weights, degraded states, hits with their signals.';

-- 99_grant.sql
-- Last of every install: functions are the only door. PUBLIC may call the public functions, each of
-- which refuses a role without a grant in its first statement; nobody but the owner has any right on a
-- table, view, sequence or private function, whatever defaults or later grants have said. Run in full
-- each time, because defaults give PUBLIC execute.
do $$
declare
  v_object record;
begin
  for v_object in
    select p.oid::regprocedure::text as name, p.proowner as owner, p.proacl as acl, p.proname not like '\_%' as is_public
    from pg_proc p where p.pronamespace = 'remem'::regnamespace
  loop
    perform remem._revoke_all('routine', v_object.name, v_object.owner, v_object.acl);
    if v_object.is_public then
      execute format('grant execute on routine %s to public', v_object.name);
    end if;
  end loop;
  perform remem._revoke_relation(c.oid) from pg_class c
  where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f');
  perform remem._revoke_all('schema', 'remem', n.nspowner, n.nspacl) from pg_namespace n where n.nspname = 'remem';
  grant usage on schema remem to public;
end
$$;

-- version
insert into remem.setting (name, value) values ('version', '0.1.0'), ('compatibility', '1') on conflict (name) do update set value = excluded.value, updated_at = now();
commit;
