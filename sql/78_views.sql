-- Views for operators in psql. They read with the rights of who asks, so that only the owner sees something; an
-- administrator without those rights has doctor(). They name no function of ours but where nothing else knows the
-- answer: a function that a view uses can only be dropped with it.

create or replace view remem.embedding_progress with (security_invoker = true) as
select w.workspace, s.space_no, s.name as space, s.space_no = w.space_no as current, m.memories, v.vectors,
  greatest(m.memories - v.vectors - coalesce(c.empty, 0) - coalesce(c.set_aside, 0), 0) as pending,
  coalesce(c.claimed, 0) as claimed, coalesce(c.waiting, 0) as waiting, coalesce(c.set_aside, 0) as set_aside, coalesce(c.empty, 0) as empty,
  case when m.memories > 0 then least((v.vectors + coalesce(c.empty, 0))::float8 / m.memories, 1) end as coverage
from remem.workspace w
join remem.embedding_space s on s.space_no in (w.space_no, w.next_space_no)
cross join lateral (select coalesce(sum(t.rows_delta), 0)::bigint as memories from remem.tally t where t.workspace = w.workspace and t.space_no = 0) m
cross join lateral (select coalesce(sum(t.rows_delta), 0)::bigint as vectors from remem.tally t where t.workspace = w.workspace and t.space_no = s.space_no) v
left join (
  select c.workspace, c.space_no, count(*) filter (where c.state = 'claimed' and c.due_at > now()) as claimed,
    count(*) filter (where c.state = 'waiting' or c.state = 'claimed' and c.due_at <= now()) as waiting,
    count(*) filter (where c.state = 'set_aside') as set_aside, count(*) filter (where c.state = 'empty') as empty
  from remem.embedding_claim c where c.kind = 'memory' group by c.workspace, c.space_no
) c on c.workspace = w.workspace and c.space_no = s.space_no;
comment on view remem.embedding_progress is
  'How far the vectors of each workspace are, in its current space and in the one it moves to: memories, vectors, pending (no vector yet, of which claimed are being embedded and waiting are tried again), set_aside after too many failures, empty (texts without a direction, which need none), coverage from 0 to 1. Of memories; embedding_backlog counts topics and providers too.';

create or replace view remem.recall_latency with (security_invoker = true) as
select w.workspace, l.tier, count(*) as recalls, count(*) filter (where l.returned = 0) as empty,
  count(*) filter (where l.degraded <> '{}') as degraded, round(percentile_cont(0.5) within group (order by l.ms)::numeric, 2) as p50_ms,
  round(percentile_cont(0.95) within group (order by l.ms)::numeric, 2) as p95_ms, round(max(l.ms)::numeric, 2) as max_ms, max(l.at) as last_at
from remem.workspace w
cross join lateral (
  select r.tier, r.returned, r.degraded, r.at, round(least(greatest((r.timings ->> 'total')::numeric, 0), 1e9), 3)::float8 as ms
  from remem.recall_log r where r.workspace = w.workspace and r.at > now() - interval '1 day'
) l
group by w.workspace, l.tier;
comment on view remem.recall_latency is
  'The logged recalls of the last 24 hours by workspace and tier (hot, warm, cold): how many, without a hit, degraded, and their time in milliseconds. Former days: remem.recall_day.';

create or replace view remem.index_health with (security_invoker = true) as
select t.relname as "table", c.relname as index, a.amname as method, s.name as space,
  case when i.indisvalid and i.indisready then 'valid' when p.pid is not null then 'building' else 'invalid' end as state,
  coalesce(u.idx_scan, 0) as scans, greatest(c.reltuples, 0)::bigint as entries, pg_relation_size(c.oid) as bytes,
  pg_table_size(t.oid) as table_bytes, case when p.tuples_total > 0 then round(100.0 * p.tuples_done / p.tuples_total, 1) end as building_percent
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_class t on t.oid = i.indrelid
join pg_catalog.pg_namespace n on n.oid = t.relnamespace and n.nspname = 'remem'
join pg_catalog.pg_am a on a.oid = c.relam
left join remem.embedding_space s on t.relname = 'embedding_' || s.space_no
left join pg_catalog.pg_stat_all_indexes u on u.indexrelid = i.indexrelid
left join pg_catalog.pg_stat_progress_create_index p on p.index_relid = i.indexrelid;
comment on view remem.index_health is
  'Every index of the schema: valid, invalid (a build that failed) or building (with how far it is), how often this server has used it since its statistics were reset, entries, sizes in bytes; space for the tables of vectors.';

create or replace view remem.status with (security_invoker = true) as
select (select s.value from remem.setting s where s.name = 'version') as version,
  current_setting('server_version') as postgres,
  (select e.extversion from pg_catalog.pg_extension e where e.extname = 'vector') as pgvector,
  pg_is_in_recovery() as standby,
  (select s.value from remem.setting s where s.name = 'tenant_mode') as tenant_mode,
  (select s.name from remem.setting d join remem.embedding_space s on s.space_no = d.value::int where d.name = 'default_space') as default_space,
  (select count(*) from remem.workspace) as workspaces,
  (select coalesce(sum(t.rows_delta), 0)::bigint from remem.tally t where t.space_no = 0) as memories,
  (select coalesce(sum(p.pending), 0)::bigint from remem.embedding_progress p where p.space_no <> 1 or not p.current) as pending,
  (select count(*) from remem.embedding_claim c where c.state = 'set_aside') as set_aside,
  (select count(*) from remem.workspace w where exists (
    select from remem.job_run r where r.workspace = w.workspace and r.state = 'started' and (r.lease_until is null or r.lease_until > now()))) as jobs_running,
  (select max(m.started_at) from remem.maintenance_run m) as maintained_at,
  (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_catalog.pg_class c
    where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r') as bytes,
  (select coalesce(sum(pg_relation_size(c.oid)), 0)::bigint from pg_catalog.pg_class c
    where c.relnamespace = 'remem'::regnamespace and c.relkind = 'i' and c.relname ~ '^embedding_[0-9]+_hnsw_idx$') as vector_index_bytes;
comment on view remem.status is
  'The database in one row: versions, mode, how many workspaces and memories, how many memories wait for their vector or were set aside, workspaces with a job at work, the last remem.maintain, sizes in bytes.';
