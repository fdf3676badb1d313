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
  embedding @extschema:vector@.halfvec(384) not null,
  primary key (workspace, memory_no)
);
alter table remem.embedding_1 alter column embedding set storage main;
create index embedding_1_hnsw_idx on remem.embedding_1 using hnsw (embedding @extschema:vector@.halfvec_cosine_ops);
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
