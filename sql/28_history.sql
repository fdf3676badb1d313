-- history: the versions of a memory in order, what replaced what and why. conflicts: what may contradict.

create or replace function remem.history(workspace text, memory_id uuid default null, ref text default null)
returns setof remem.memory_version
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_writes boolean;
  v_no bigint;
begin
  perform remem._authorize(workspace, 'read');
  v_writes := remem._is_granted(workspace, 'write');
  v_no := remem._find_memory(history.workspace, history.memory_id, history.ref, true);
  return query
  with recursive later (memory_no) as (
    select v_no where v_no is not null
    union
    select l.new_no from later x
    cross join lateral (select n.new_no from remem.lineage n  -- a look-up a version, as below: not all of them every time
      where n.workspace = history.workspace and n.old_no = x.memory_no offset 0) l
  ), chain (memory_no, depth) as (
    -- From the last of them back: a version stands before the one that replaced it.
    select x.memory_no, 0 from later x
    where not (select exists (select from remem.lineage l where l.workspace = history.workspace and l.old_no = x.memory_no))
    union
    select l.old_no, c.depth + 1 from chain c
    cross join lateral (select o.old_no from remem.lineage o where o.workspace = history.workspace and o.new_no = c.memory_no offset 0) l
  ), gone (memory_id, memory_no, ref, replaced_by, created_at, purged_at, purged_by) as (
    select t.memory_id, t.memory_no, t.ref, t.replaced_by, t.created_at, t.purged_at, t.purged_by from remem.tombstone t
    where t.workspace = history.workspace and (t.memory_id = history.memory_id or t.ref = normalize(history.ref, nfc)
      or t.replaced_by in (select m.memory_id from chain c cross join lateral (
        select x.memory_id from remem.memory x where x.workspace = history.workspace and x.memory_no = c.memory_no offset 0) m))
    union
    select t.memory_id, t.memory_no, t.ref, t.replaced_by, t.created_at, t.purged_at, t.purged_by
    from gone g join remem.tombstone t on t.workspace = history.workspace and t.replaced_by = g.memory_id
  )
  select (row_number() over (order by v.purged desc, v.depth desc, v.memory_no))::int, v.memory_id, v.ref, v.state, v.kind, v.title, v.body,
    v.created_at, v.ended_at, v.how, v.reason, v.ended_by, v.replaced_by
  from (
    select true as purged, 0 as depth, g.memory_no, g.memory_id, g.ref, 'purged' as state, null::text as kind, null::text as title,
      null::text as body, g.created_at, g.purged_at as ended_at, 'purged' as how, null::text as reason, g.purged_by::text as ended_by, g.replaced_by
    from gone g
    union all
    select false, c.depth, m.memory_no, m.memory_id, m.ref, s.state, m.kind, case when s.shown then m.title end, case when s.shown then m.body end,
      m.created_at, coalesce(m.forgotten_at, m.superseded_at),
      case when m.forgotten_at is not null then 'forgotten' else coalesce(l.how, case when m.superseded_at is not null then 'new_version' end) end,
      case when m.forgotten_at is null then l.reason when s.shown then coalesce(f.reason, l.reason) end,
      case when m.forgotten_at is null then l.replaced_by else f.forgotten_by end::text, m.superseded_by
    from (select x.memory_no, max(x.depth) as depth from chain x group by x.memory_no) c
    cross join lateral (select x.* from remem.memory x where x.workspace = history.workspace and x.memory_no = c.memory_no offset 0) m
    cross join lateral (select remem._state(m::remem.memory) as state, m.forgotten_at is null or v_writes as shown) s
    left join lateral (select x.* from remem.lineage x where x.workspace = history.workspace and x.old_no = m.memory_no offset 0) l on true
    left join lateral (select x.* from remem.forgotten x where x.workspace = history.workspace and x.memory_no = m.memory_no offset 0) f on true
  ) v
  order by 1;
end
$$;
comment on function remem.history(text, uuid, text) is
  'Every version of a memory (named by the id of any of them, or by a ref), the first one first: what it said, its state (current, superseded, forgotten, purged), when it ended, how (new_version, corrected, superseded, forgotten, purged), why, by whom, and which version replaced it. The text of a forgotten version is for those who may write; a purged one has none.';

create or replace function remem.conflicts(workspace text, "limit" int default 50) returns setof remem.conflict_candidate
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set enable_nestloop = off  -- no estimate sees how much is said of one attribute; what is meant as probes is lateral
set jit = off  -- which takes that for dear
as $$
declare
  c_newest constant int := 200;  -- of what is said of one attribute: pairs grow with the square
begin
  perform remem._authorize(workspace, 'read');
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  return query
    -- Each subject is folded once; pairs are made within what is said of one attribute of one subject only.
    with said as materialized (
      select m.memory_no, e.name, remem._fold(m.subject) as subject, m.scope, coalesce(m.scope_ref, '') as scope_ref, m.fingerprint,
        tstzrange(m.valid_from, m.valid_to) as holds
      from remem.memory_entity e
      cross join lateral (select x.* from remem.memory x where x.workspace = e.workspace and x.memory_no = e.memory_no offset 0) m
      where e.workspace = conflicts.workspace and e.name >= '=' and e.name < '>' and (m.valid_to is null or m.valid_to > now())
    ), ranked as materialized (
      select r.* from (
        select s.*, row_number() over (partition by s.name, s.subject, s.scope, s.scope_ref order by s.memory_no desc) as place from said s) r
      where r.place <= c_newest
    ), pairs as materialized (
      select p.a_no, p.b_no
      from (
        select a.memory_no as a_no, b.memory_no as b_no
        from ranked a
        join ranked b on b.name = a.name and b.subject = a.subject and b.scope = a.scope and b.scope_ref = a.scope_ref
        where b.memory_no < a.memory_no and b.fingerprint <> a.fingerprint and b.holds && a.holds
        order by a.memory_no desc, b.memory_no desc offset 0
      ) p  -- newest first, each looked up, until there are enough
      where not (select exists (select from remem.relation r
          where r.workspace = conflicts.workspace and r.src_no = p.a_no and r.dst_no = p.b_no and r.kind in ('not_conflict', 'compatible'))
        or exists (select from remem.relation r
          where r.workspace = conflicts.workspace and r.src_no = p.b_no and r.dst_no = p.a_no and r.kind in ('not_conflict', 'compatible')))
      limit "limit"
    )
    select a.subject, a.attribute, a.memory_id, a.ref, a.body, b.memory_id, b.ref, b.body,
      (select min(r.kind) from remem.relation r
        where r.workspace = conflicts.workspace and r.src_no in (p.a_no, p.b_no) and r.dst_no in (p.a_no, p.b_no)
          and r.kind in ('contradicts', 'conflicts_with'))
    from pairs p
    cross join lateral (select x.* from remem.memory x where x.workspace = conflicts.workspace and x.memory_no = p.a_no offset 0) a
    cross join lateral (select x.* from remem.memory x where x.workspace = conflicts.workspace and x.memory_no = p.b_no offset 0) b
    order by p.a_no desc, p.b_no desc;
end
$$;
comment on function remem.conflicts(text, int) is
  'Pairs of current memories of one scope that say different things of the same attribute of the same subject, the newest first and among the newest 200 that speak of it, for somebody to decide: supersede or correct one of them, or relate them as not_conflict. linked: contradicts or conflicts_with where somebody said so. Nothing is decided here.';
