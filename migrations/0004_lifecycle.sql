-- 0004: what became of memories: what replaced what and why, what is forgotten, what was purged.
--
-- The tables are new, so that no index is built on a filled one: of live rows they hold nothing, of the others what
-- has to be found without reading `memory` (by ref, by text, by successor).

create table remem.lineage (
  workspace text collate "C" not null,
  old_no bigint not null,
  new_no bigint not null,
  how text collate "C" not null constraint lineage_how check (how in ('new_version', 'corrected', 'superseded')),
  reason text,
  ref text collate "C",                     -- of the replaced row
  fingerprint bytea not null,               -- of the replaced row
  replaced_at timestamptz not null default now(),
  replaced_by name,                         -- the role; null in rows of before
  primary key (workspace, old_no)
);
create index lineage_new_no_idx on remem.lineage (workspace, new_no);
-- What was said to be wrong or over is not said again by an old export.
create index lineage_ref_idx on remem.lineage (workspace, ref) where ref is not null and how <> 'new_version';
create index lineage_fingerprint_idx on remem.lineage (workspace, fingerprint) where ref is null and how <> 'new_version';
comment on table remem.lineage is 'Which memory replaced which, how and why; one row per superseded memory.';

insert into remem.lineage (workspace, old_no, new_no, how, ref, fingerprint, replaced_at)
select o.workspace, o.memory_no, n.memory_no, 'new_version', o.ref, o.fingerprint, o.superseded_at
from remem.memory o
join remem.memory n on n.workspace = o.workspace and n.memory_id = o.superseded_by
where o.superseded_at is not null;

create table remem.forgotten (
  workspace text collate "C" not null,
  memory_no bigint not null,
  ref text collate "C",
  fingerprint bytea not null,
  session_no int,
  turn_no int,
  forgotten_at timestamptz not null,
  forgotten_by name not null,
  reason text,
  primary key (workspace, memory_no)
);
create index forgotten_ref_idx on remem.forgotten (workspace, ref) where ref is not null;
create index forgotten_fingerprint_idx on remem.forgotten (workspace, fingerprint);
comment on table remem.forgotten is 'Forgotten memories: who forgot them, when and why; one row per memory with forgotten_at.';

create table remem.tombstone (
  workspace text collate "C" not null,
  memory_id uuid not null,
  memory_no bigint not null,
  ref text collate "C",
  replaced_by uuid,                         -- the version after it
  created_at timestamptz not null,
  purged_at timestamptz not null default now(),
  purged_by name not null,
  blocks boolean not null default true,     -- until its ref is written again knowingly
  primary key (workspace, memory_id)
);
create index tombstone_ref_idx on remem.tombstone (workspace, ref) where ref is not null;
create index tombstone_replaced_by_idx on remem.tombstone (workspace, replaced_by) where replaced_by is not null;
comment on table remem.tombstone is 'What was purged: id and ref, no text.';

alter table remem.lineage enable row level security;
alter table remem.forgotten enable row level security;
alter table remem.tombstone enable row level security;

comment on type remem.memory_ref is 'What became of one memory: created, unchanged, merged, new_version or refused when written; forgotten, superseded or purged when it was not written because it had been; and the words of the lifecycle.';

create type remem.memory_version as (
  version int, memory_id uuid, ref text, state text, kind text, title text, body text, created_at timestamptz,
  ended_at timestamptz, how text, reason text, ended_by text, replaced_by uuid
);
comment on type remem.memory_version is 'One version of a memory: current, superseded, forgotten or purged, and what ended it.';

create type remem.forget_report as (preview boolean, memories bigint, versions bigint, sample jsonb);
comment on type remem.forget_report is 'What forget_where forgot, or would: current memories, all their versions, and the first twenty of them.';

create type remem.drop_report as (done boolean, deleted bigint, remaining jsonb);
comment on type remem.drop_report is 'What drop_workspace deleted, and how many rows each table still has of the workspace.';

create type remem.conflict_candidate as (
  subject text, attribute text, memory_id uuid, ref text, body text, other_id uuid, other_ref text, other_body text, linked text
);
comment on type remem.conflict_candidate is 'Two current memories that say different things of the same attribute of the same subject.';

-- The moment that a query is asked about (null = now), and what scopes may see (null = all) for what reads more than
-- the candidates.
alter type remem._query add attribute as_of timestamptz, add attribute scope_filter jsonpath;

-- Whether a workspace ever had a row that is not global: as long as it had none, no recall has to look whose a row is.
alter table remem.workspace add column scoped boolean not null default false;
update remem.workspace w set scoped = true
where exists (select from remem.memory m where m.workspace = w.workspace and m.scope <> 'global');

-- Filters see when a memory was written and how fresh it is.
update remem.memory m
set attrs = m.attrs || jsonb_build_object('freshness', m.freshness, 'created_at',
  to_char(m.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
  || rtrim(rtrim(to_char(m.created_at at time zone 'UTC', '.US'), '0'), '.') || '+00:00');

-- Whose a hit is, so that a client can check it again.
alter type remem.recall_hit add attribute scope text, add attribute scope_ref text;
alter type remem.recall_many_hit add attribute scope text, add attribute scope_ref text;

-- list gained an argument.
drop function if exists remem.list(text, text, uuid, int);

-- ---- languages: how far the rows of a workspace have been analysed anew
-- Null: every row has the workspace's analyser. Otherwise a job is due, and rows up to this number are done.
alter table remem.workspace add column reindexed_to bigint;
comment on column remem.workspace.reindexed_to is 'Up to which memory reindex_text has come; null when no row is of another analyser.';

create type remem.reindex_report as (
  done boolean, reindexed bigint, progress float8, language text, analyser text, run_id uuid
);
comment on type remem.reindex_report is 'What one call of reindex_text did, and how far (0 to 1) the workspace is.';

create type remem.workspace_info as (
  workspace text, language text, space text, text_index text, memories bigint, created_at timestamptz
);
comment on type remem.workspace_info is 'A workspace in a list; text_index is current, mixed (reindex_text is due) or outdated (another version analysed it).';

create type remem.access_grant_record as (
  role text, workspace text, level text, max_source_class text, holds boolean, granted_at timestamptz, granted_by text
);
comment on type remem.access_grant_record is 'A grant in a list: workspace null is all of them, holds false is a role that was dropped, renamed or made again.';
