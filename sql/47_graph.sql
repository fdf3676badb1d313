-- Graph expansion: from hits to what is linked with them, one hop.

-- Whether a step between two rows stays within a scope: both have the same, or one is global.
create or replace function remem._same_scope(scope text, scope_ref text, other text, other_ref text) returns boolean
language sql immutable parallel safe
return scope = 'global' or other = 'global' or (scope = other and scope_ref = other_ref);
comment on function remem._same_scope(text, text, text, text) is 'Whether a link may join two scopes.';

-- What is left of a score after a step: at most 0.7 and what the link's origin deserves, times what its kind
-- deserves.
create or replace function remem._edge_decay(kind text, provenance text) returns float8
language sql immutable parallel safe
return least(0.7, case provenance when 'verified' then 1.0 when 'llm' then 1.0 when 'heuristic' then 0.5
    when 'pending' then 0.4 else 0.25 end)
  * case kind when 'part_of' then 1.0 when 'member_of' then 1.0 when 'contains' then 0.95 when 'contained_by' then 0.95
    when 'supersedes' then 0.90 when 'derived_from' then 0.85 when 'scoped' then 0.80 when 'related' then 0.60 else 0.70 end;
comment on function remem._edge_decay(text, text) is 'The share of a score that a link passes on.';

-- Neighbours of memories, best first: one hop over links of the kinds that expand, in both directions. Each
-- parent brings its ten best. Of a hub only the heaviest links are read, c_budget over all parents and not less
-- than 50 each, so the work is bounded however many links there are. A neighbour is live, within its time,
-- matches row_filter, is none of the parents, and stays in scope: a row of a session, project or user comes only
-- from a parent of the same one. by_entity adds rows that share a name which few have; kind is then `entity`.
create or replace function remem._expand(
  workspace text, memory_nos bigint[], scores float8[], most int, row_filter jsonpath default null,
  by_entity boolean default false
) returns table (memory_no bigint, from_no bigint, score float8, kind text)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_each constant int := 10;         -- neighbours per parent
  c_budget constant int := 1000;     -- links read in each direction
  c_rare constant int := 20;         -- memories of a name that joins its memories
  v_links int := greatest(50, c_budget / greatest(cardinality(memory_nos), 1));
begin
  return query
  with parent as materialized (
    select p.memory_no, p.score, m.scope, m.scope_ref
    from unnest(memory_nos, scores) as p (memory_no, score)
    join remem.memory m on m.workspace = _expand.workspace and m.memory_no = p.memory_no
  ), edge as (
    select p.memory_no as from_no, r.other, r.kind, p.score * r.weight * remem._edge_decay(r.kind, r.provenance) as score
    from parent as p
    cross join lateral (
      (select x.dst_no as other, x.kind, x.weight, x.provenance from remem.relation x
      where x.workspace = _expand.workspace and x.src_no = p.memory_no and x.kind in (
        'derived_from', 'supersedes', 'part_of', 'member_of', 'contains', 'contained_by', 'scoped', 'related')
      order by x.weight desc limit v_links)
      union all
      (select x.src_no, x.kind, x.weight, x.provenance from remem.relation x
      where x.workspace = _expand.workspace and x.dst_no = p.memory_no and x.kind in (
        'derived_from', 'supersedes', 'part_of', 'member_of', 'contains', 'contained_by', 'scoped', 'related')
      order by x.weight desc limit v_links)
    ) as r
    union all
    select p.memory_no, s.other, 'entity', p.score * remem._edge_decay('related', 'heuristic') / sqrt(count(*) over (
      partition by p.memory_no, e.name))
    from parent as p
    cross join lateral (
      select x.name from remem.memory_entity x
      where by_entity and x.workspace = _expand.workspace and x.memory_no = p.memory_no
    ) as e
    cross join lateral (
      select x.memory_no as other from remem.memory_entity x
      where x.workspace = _expand.workspace and x.name = e.name
        and (select count(*) from (select from remem.memory_entity y
          where y.workspace = _expand.workspace and y.name = e.name limit c_rare + 1) as c) <= c_rare
    ) as s
  ), best as (
    -- The best link of each pair.
    select distinct on (e.from_no, e.other) e.* from edge as e
    where e.other <> all (memory_nos)
    order by e.from_no, e.other, e.score desc, e.kind
  ), seen as (
    select b.*, row_number() over (partition by b.from_no order by b.score desc, b.other) as place
    from best as b
    join parent as p on p.memory_no = b.from_no
    join remem.memory m on m.workspace = _expand.workspace and m.memory_no = b.other
    where m.superseded_at is null and m.forgotten_at is null
      and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      and (m.scope = 'global' or (m.scope = p.scope and m.scope_ref = p.scope_ref))
      and (row_filter is null or m.attrs @@ row_filter)
  ), neighbour as (
    select distinct on (s.other) s.other, s.from_no, s.score, s.kind from seen as s
    where s.place <= c_each
    order by s.other, s.score desc, s.from_no
  )
  select x.other, x.from_no, x.score, x.kind from neighbour as x
  order by x.score desc, x.other limit most;
end
$$;
comment on function remem._expand(text, bigint[], float8[], int, jsonpath, boolean) is
  'Neighbours of memories, one hop, within scope, bounded.';
