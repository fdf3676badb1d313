-- links_between: which memories of a set contradict each other, for a reader who shows both.

create or replace function remem.links_between(workspace text, memory_ids uuid[]) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  if memory_ids is null or cardinality(memory_ids) > 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'memory_ids', 'got', cardinality(memory_ids), 'limit', 1000),
      'Name up to 1000 memories');
  end if;
  return (
    with named as materialized (
      select m.memory_no, m.memory_id from remem.memory m
      where m.workspace = links_between.workspace and m.memory_id = any (links_between.memory_ids)
        and m.superseded_at is null and m.forgotten_at is null
    )
    select coalesce(jsonb_agg(jsonb_build_object('src', s.memory_id, 'dst', d.memory_id, 'kind', r.kind)
      order by s.memory_id, d.memory_id, r.kind), '[]')
    from named s
    join remem.relation r on r.workspace = links_between.workspace and r.src_no = s.memory_no
      and r.kind in ('contradicts', 'conflicts_with', 'not_conflict', 'compatible')
    join named d on d.memory_no = r.dst_no
  );
end
$$;
comment on function remem.links_between(text, uuid[]) is
  'The links among some current memories that say whether they contradict (contradicts, conflicts_with) or agree (not_conflict, compatible): a list of objects with src, dst, kind. At most 1000 ids; what is unknown is passed over.';
