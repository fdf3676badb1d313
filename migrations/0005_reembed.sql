-- 0005: switching embedding spaces, and the jobs that fill them.

-- The space that a workspace is moving to. Recall and writers stay in space_no until the switch.
alter table remem.workspace add column next_space_no int;
comment on column remem.workspace.next_space_no is 'The embedding space in building, or null; jobs fill it, recall does not read it.';

-- Numbers of spaces are never used twice: what still names a dropped space finds nothing, not another model.
create sequence remem.embedding_space_no_seq as int owned by remem.embedding_space.space_no;
select setval('remem.embedding_space_no_seq', (select max(s.space_no) from remem.embedding_space s));

-- Until now every registered space was called active.
update remem.embedding_space s set state = 'building'
where not exists (select from remem.workspace w where w.space_no = s.space_no)
  and s.space_no <> (select d.value::int from remem.setting d where d.name = 'default_space');

-- What is being embedded, waits for another try, or is set aside. A row without a claim and without a vector is
-- backlog, so a job writes here only what it holds: tables stay as small as the batches.
create table remem.embedding_claim (
  workspace text collate "C" not null,
  space_no int not null,
  kind text collate "C" not null constraint embedding_claim_kind check (kind in ('memory', 'topic', 'provider')),
  source text collate "C" not null,         -- memory_no, topic_no or provider_id
  memory_no bigint,                         -- of a memory: what a purge finds it by
  state text not null constraint embedding_claim_state check (state in ('claimed', 'waiting', 'set_aside', 'empty')),
  due_at timestamptz not null,              -- claimed: when the lease ends; waiting: from when; otherwise infinity
  claim_id uuid,
  item_no int,                              -- how the holder of the claim calls this row
  run_id uuid,
  content_hash bytea,                       -- of the text that was handed out
  failures int not null default 0,
  abandoned int not null default 0,         -- how often a lease ran out
  last_error text,
  updated_at timestamptz not null default now(),
  primary key (workspace, space_no, kind, source)
);
create index embedding_claim_due_at_idx on remem.embedding_claim (workspace, space_no, due_at);
create index embedding_claim_claim_id_idx on remem.embedding_claim (workspace, claim_id, item_no) where claim_id is not null;
comment on table remem.embedding_claim is 'What jobs embed at the moment, what waits for another try, and what was set aside.';

-- Up to which memory a space has been looked through: a hint that keeps claims from walking over finished rows.
create table remem.embedding_cursor (
  workspace text collate "C" not null,
  space_no int not null,
  up_to bigint not null,
  primary key (workspace, space_no)
);
comment on table remem.embedding_cursor is 'How far the claims of a space have come; a hint, corrected by counting.';

create table remem.job_run (
  workspace text collate "C" not null,
  run_id uuid not null,
  kind text collate "C" not null constraint job_run_kind check (kind in ('embedding-reembed', 'space-activation', 'text-reindex')),
  state text collate "C" not null constraint job_run_state check (state in ('started', 'completed', 'failed')),
  space_no int,                             -- null: a job about no space
  claimed bigint not null default 0,
  embedded bigint not null default 0,
  failed bigint not null default 0,
  last_error text,
  metadata jsonb not null default '{}',
  started_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  lease_until timestamptz,
  completed_at timestamptz,
  primary key (workspace, run_id)
);
create index job_run_state_idx on remem.job_run (workspace, state, started_at desc);
comment on table remem.job_run is 'Runs of jobs (embedding, switches of space, text analysis): counts, last error, no texts.';

alter table remem.embedding_claim enable row level security;
alter table remem.embedding_cursor enable row level security;
alter table remem.job_run enable row level security;

create type remem.embedding_job as (
  claim_id uuid, item_no int, kind text, id text, text text, content_hash text, failures int, space text, run_id uuid
);
comment on type remem.embedding_job is 'One text to embed: complete_embeddings takes the claim_id and the item_no back with the vector.';

create type remem.embedding_outcome as (item_no int, outcome text);
comment on type remem.embedding_outcome is 'What became of one vector: stored, empty, changed, lost or refused.';

create type remem.embedding_coverage as (
  space text, fingerprint text, state text, total bigint, embedded bigint, empty bigint, pending bigint, claimed bigint,
  waiting bigint, set_aside bigint, index_state text, cutover text, activated boolean
);
comment on type remem.embedding_coverage is 'How much of a workspace has a vector in one space: memories, topics and providers together.';

create type remem.embedding_problem as (
  space text, kind text, id text, state text, failures int, abandoned int, last_error text, due_at timestamptz, updated_at timestamptz
);
comment on type remem.embedding_problem is 'A row that could not be embedded: waiting for another try or set aside.';

create type remem.job_run_record as (
  run_id uuid, kind text, state text, space text, claimed bigint, embedded bigint, failed bigint, last_error text, metadata jsonb,
  started_at timestamptz, updated_at timestamptz, completed_at timestamptz
);
comment on type remem.job_run_record is 'One run of a job, or one switch of space.';

create type remem.space_status as (
  name text, fingerprint text, backend text, dimensions int, state text, workspace_state text, memories bigint, vectors bigint,
  coverage float8, set_aside bigint, workspaces bigint, index_state text, index_bytes bigint, table_bytes bigint
);
comment on type remem.space_status is 'An embedding space in a list: its state in the database and in one workspace, how full it is, how large.';

-- It takes allow_missing from now on.
drop function if exists remem.activate_space(text, text);
