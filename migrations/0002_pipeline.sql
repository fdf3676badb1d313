-- 0002: what the whole recall pipeline needs: entities and relations, routes, the log and the cache.

-- ---- entities: who and what a memory names; the pointer index
-- A name is its own key. A row per name would be one that all writers of a popular name insert or lock at once,
-- in an order that they cannot know: two transactions of several memories would wait for each other in a circle.
create table remem.memory_entity (
  workspace text collate "C" not null,
  name text collate "C" not null,           -- as remem._entity_names writes it; what a query is matched against
  memory_no bigint not null,
  given boolean not null,                   -- passed by the caller rather than found in the text
  primary key (workspace, name, memory_no) include (given)
);
create index memory_entity_memory_idx on remem.memory_entity (workspace, memory_no);
comment on table remem.memory_entity is 'Which live memories name whom and what: people, identifiers, paths, tags.';

create table remem.entity_alias (
  workspace text collate "C" not null,
  name text collate "C" not null,
  other text collate "C" not null,          -- another name of the same thing
  memory_no bigint not null,                -- the memory that says so, by its title and aliases
  primary key (workspace, name, other, memory_no)
);
create index entity_alias_memory_idx on remem.entity_alias (workspace, memory_no);
comment on table remem.entity_alias is 'Names that live memories declare to mean the same, in both directions.';

-- ---- relations between memories: one hop of the graph
create table remem.relation (
  workspace text collate "C" not null,
  src_no bigint not null,
  dst_no bigint not null,
  kind text collate "C" not null constraint relation_kind check (kind in (
    'derived_from', 'supersedes', 'part_of', 'member_of', 'contains', 'contained_by', 'scoped', 'related',
    'contradicts', 'conflicts_with', 'not_conflict', 'compatible')),
  weight real not null default 1 constraint relation_weight check (weight between 0 and 1),
  provenance text not null default 'verified' constraint relation_provenance check (provenance in (
    'verified', 'llm', 'heuristic', 'pending', 'unverified')),
  created_at timestamptz not null default now(),
  primary key (workspace, src_no, kind, dst_no)
);
-- The heaviest links first, so that a bounded look at a hub sees the best of it; only kinds that expand.
create index relation_src_idx on remem.relation (workspace, src_no, weight desc) where kind in (
  'derived_from', 'supersedes', 'part_of', 'member_of', 'contains', 'contained_by', 'scoped', 'related');
create index relation_dst_idx on remem.relation (workspace, dst_no, weight desc) where kind in (
  'derived_from', 'supersedes', 'part_of', 'member_of', 'contains', 'contained_by', 'scoped', 'related');
-- Every link of a memory, whatever its kind: a new version takes them over.
create index relation_dst_all_idx on remem.relation (workspace, dst_no);
comment on table remem.relation is 'Typed links between memories; recall follows one hop of the kinds that expand.';

-- ---- routes: which arms answer a kind of question; '' = every workspace, overridden by a workspace's own rows
create table remem.route (
  workspace text collate "C" not null,
  kind text collate "C" not null,           -- a memory kind, or 'general'
  arms text[] not null,
  pool text,                                -- the kind whose pinned and important rows are tried first
  fallback_pools text[] not null default '{}',
  graph_depth int not null default 1 constraint route_graph_depth check (graph_depth between 0 and 1),
  signals jsonb not null default '{}',      -- weights of this route, over the defaults
  keywords text[] not null default '{}',    -- words of a query that hint at the kind
  primary key (workspace, kind)
);
comment on table remem.route is 'From the kind a query hints at to arms, pool, fallback pools, graph depth and weights.';
insert into remem.route (workspace, kind, arms, pool, keywords) values
  ('', 'general', '{vector,lexical,phrase,attribute}', null, '{}'),
  ('', 'semantic', '{vector,lexical,phrase,attribute}', null, '{}'),
  ('', 'episodic', '{vector,lexical,phrase}', null, '{when,yesterday,happened,incident,during}'),
  ('', 'decision', '{vector,lexical,phrase,attribute}', 'decision', '{decide,decided,decision,agreed,chose,choose,choice}'),
  ('', 'preference', '{vector,lexical,phrase,attribute}', 'preference', '{prefer,prefers,preference,like,likes,favourite,favorite}'),
  ('', 'procedure', '{vector,lexical,phrase,attribute}', 'procedure', '{how,steps,procedure,runbook,instructions}'),
  ('', 'task', '{vector,lexical,phrase}', 'task', '{todo,task,pending,unfinished,open}'),
  ('', 'other', '{vector,lexical,phrase,attribute}', null, '{}');

-- ---- the log of recalls (append-only) and the cache of answers
create table remem.recall_log (
  workspace text collate "C" not null,
  at timestamptz not null default now(),
  recall_id uuid not null default gen_random_uuid(),
  tier text not null,
  caller name not null,
  session_ref text,
  k int not null,
  returned int not null,
  query_hash bytea not null,
  query_text text,                          -- only when the caller asks for it
  degraded text[] not null default '{}',
  arms jsonb not null default '{}',
  timings jsonb not null default '{}',
  memory_ids uuid[] not null default '{}',
  primary key (workspace, at, recall_id)
);
comment on table remem.recall_log is 'One row per recall: tier, counts, arm states, milliseconds per stage; no text unless asked for.';

-- Unlogged: after a crash there is nothing to lose, and no standby reads it. No unique key on purpose: a
-- transaction that stays open after it stored an answer must not make another one wait.
create unlogged table remem.query_cache (
  workspace text collate "C" not null,
  key bytea not null,                       -- hash of everything that decides an answer
  scope_key bytea not null,                 -- the same without the query: what a similar query must share
  query_embedding @extschema:vector@.vector,  -- null: never served to a similar query
  answer jsonb not null,                    -- without texts: those come from the live rows
  snapshot pg_snapshot not null,            -- what the answer has seen; valid while nothing changed since
  made_at timestamptz not null default now(),
  expires_at timestamptz not null           -- its age, or the next moment at which a memory starts or ends
);
create index query_cache_key_idx on remem.query_cache (workspace, key, made_at desc);
create index query_cache_scope_idx on remem.query_cache (workspace, scope_key, made_at desc)
  where query_embedding is not null;
create index query_cache_made_at_idx on remem.query_cache (workspace, made_at desc);
comment on table remem.query_cache is 'Answers of recall_cached; never served after the workspace changed.';

-- Who last wrote a count: every change of a workspace shows in memory.changed_xid or here, also a row that
-- is gone. Null in rows of before: seen by every snapshot.
alter table remem.tally add column changed_xid xid8;
alter table remem.tally alter column changed_xid set default pg_current_xact_id();

alter table remem.entity_alias enable row level security;
alter table remem.memory_entity enable row level security;
alter table remem.relation enable row level security;
alter table remem.route enable row level security;
alter table remem.recall_log enable row level security;
alter table remem.query_cache enable row level security;

-- The prepared query that every arm takes.
create type remem._query as (
  workspace text, space_no int, text text, folded text,
  words text,                                                             -- folded, only letters and digits, single spaces around each word
  lexemes text[], frequencies bigint[], idfs float8[], idf_mass float8,   -- in parallel, rarest first
  original_lexemes text[], expanded_lexemes text[], excluded text[],      -- excluded: lexemes behind a minus
  vector real[], more_vectors jsonb,                                      -- the query's, and those of expansions
  phrases text[], entities text[], session_nos int[],
  kind_hint text, time_from timestamptz, time_to timestamptz,
  allowed bigint[], row_filter jsonpath, check_validity boolean,
  shards text[], shard_filters jsonpath[],                                -- in parallel; null where there is one
  documents bigint, vectors bigint, mean_len float8
);
comment on type remem._query is 'A prepared query: what the arms are given; internal.';

-- What one arm did. scores run in parallel with memory_nos, best first; matched (idf mass) only of the lexical arm.
create type remem._arm_result as (
  arm text, state text, memory_nos bigint[], scores float8[], matched float8[], elapsed_ms float8, error text
);
comment on type remem._arm_result is 'The finds and the state of one arm; internal.';

-- A candidate with its final score; copies are rows of the same text, from_no the hit it was reached from.
create type remem._scored as (
  memory_no bigint, score float8, relevance float8, signals jsonb, arms text[], copies bigint[], from_no bigint
);
comment on type remem._scored is 'A scored candidate; internal.';

-- What a bounded job did: how many, and where the next call goes on.
create type remem.batch_done as (memory_id uuid, count bigint);
comment on type remem.batch_done is 'How many memories a bounded job did, and the last of them; null when none are left.';

-- A hit of recall_many.
create type remem.recall_many_hit as (
  query_no int, rank int, memory_id uuid, ref text, kind text, title text, body text, score float8, relevance float8,
  signals jsonb, arms text[], source_class text, source_ref text, session_ref text, occurred_at timestamptz,
  freshness text, duplicates jsonb, expanded_from uuid, degraded text[]
);
comment on type remem.recall_many_hit is 'A recalled memory with the number of its query.';

-- Private functions of 0.1 whose arguments changed.
drop function if exists remem._candidates(text, int, real[], text[], float8[], float8, float8, bigint[], float8[], bigint[], float8[], float8[], int);
drop function if exists remem._score(text, text, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean, float8, float8);
drop function if exists remem._hits(text, text, int, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean,
  float8, remem.embedding_space, bigint[], bigint[], boolean[], jsonpath, boolean, text[]);
drop function if exists remem._query_terms(text, text, regdictionary[], bigint, int);
drop function if exists remem._bm25s(text, text[], float8[], float8, bigint[]);
drop function if exists remem._arm_lexical(text, text[], bigint[], float8[], int, int, float8, bigint[], bigint[], jsonpath, boolean);
drop function if exists remem._recall(text, text, real[], int, jsonb);

-- What an index can look up for the relevance pool; writers set it from now on.
update remem.memory set attrs = attrs || '{"important": true}' where pinned or importance >= 0.8;
