-- 0007: what operators look at and what upkeep leaves behind.

-- The days of recall_log in numbers: what stays when the rows are deleted. Days are those of UTC.
create table remem.recall_day (
  workspace text collate "C" not null,
  day date not null,
  tier text collate "C" not null,
  recalls bigint not null,
  empty bigint not null,                    -- answers without a hit
  degraded bigint not null,                 -- answers with a degraded state
  failed bigint not null,                   -- answers of which an arm failed
  p50_ms real,                              -- null where no caller said how long it took
  p95_ms real,
  max_ms real,
  primary key (workspace, day, tier)
);
comment on table remem.recall_day is 'recall_log by day and tier: counts and latency; written by remem.maintain.';

create table remem.maintenance_run (
  started_at timestamptz not null default now(),
  run_id uuid not null default gen_random_uuid(),
  caller name not null,
  finished boolean not null,                -- false: the budget ended first
  rows jsonb not null,                      -- task to number of rows
  seconds real not null,
  primary key (started_at, run_id)
);
comment on table remem.maintenance_run is 'The latest calls of remem.maintain; append-only, the oldest are pruned.';

alter table remem.recall_day enable row level security;
alter table remem.maintenance_run enable row level security;

create type remem.check_row as (check_name text, status text, detail text, remedy text);
comment on type remem.check_row is 'One finding of doctor.';
comment on column remem.check_row.check_name is 'What was looked at; behind a colon the embedding space that it is about.';
comment on column remem.check_row.status is 'ok, warning (it works, but worse than it could or not for long) or error (something is broken or open).';
comment on column remem.check_row.remedy is 'A command that can be pasted: one that ends with a semicolon into psql, any other into a shell.';

create type remem.maintain_row as (task text, state text, rows bigint, detail text, command text);
comment on type remem.maintain_row is 'One task of maintain.';
comment on column remem.maintain_row.state is 'done, partial (the budget ended first: call again), busy (another session maintains) or due (a client has to run the command).';
comment on column remem.maintain_row.rows is 'How many rows the task changed or removed.';
comment on column remem.maintain_row.command is 'VACUUM, ANALYZE or REINDEX, which no function can run; a statement for psql, outside a transaction.';
