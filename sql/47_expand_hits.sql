-- Graph expansion of the best hits: when fewer than three are high-confidence, or when the caller asks for it.
-- What is reached scores its parent's score times the decay of the edge, so it never stands before its parent;
-- relevance is its own. The note says what was done and why.
create or replace function remem._expand_hits(
  query remem._query, space remem.embedding_space, scored remem._scored[], graph text, depth int, confident float8, min_relevance float8, k int,
  out result remem._scored[], out note jsonb
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_confident int := (select count(*) from unnest(scored) s where s.relevance >= confident);
  v_reason text;
  v_nos bigint[];
  v_from bigint[];
  v_scores float8[];
  v_cosines float8[];
  v_matched float8[];
  v_out bigint[];
  v_added remem._scored[];
begin
  result := scored;
  v_reason := case when graph = 'never' then 'switched off' when graph = 'always' then 'asked for'
    when depth = 0 then 'the route does not follow the graph' when v_confident < 3 then format('%s high-confidence hits', v_confident) end;
  note := jsonb_build_object('ran', false, 'reason', coalesce(v_reason, format('%s high-confidence hits', v_confident)), 'added', 0);
  if v_reason is null or graph = 'never' or depth = 0 and graph <> 'always' or coalesce(cardinality(scored), 0) = 0 then
    return;
  end if;
  if not exists (select from remem.relation r where r.workspace = query.workspace) then
    note := note || jsonb_build_object('ran', true, 'added', 0);
    return;
  end if;
  -- A neighbour with the text of a hit, or of a better neighbour, is none.
  select array_agg(e.memory_no), array_agg(e.from_no), array_agg(e.score) into v_nos, v_from, v_scores
  from (
    select distinct on (m.fingerprint) x.*
    from unnest(coalesce(query.shard_filters, array[query.row_filter])) f (row_filter)
    cross join lateral remem._expand(query.workspace, array(select s.memory_no from unnest(scored) s limit 5),
      array(select s.score from unnest(scored) s limit 5), ceil(2.0 * k / coalesce(cardinality(query.shards), 1))::int, f.row_filter) x
    join remem.memory m on m.workspace = query.workspace and m.memory_no = x.memory_no
    where (query.allowed is null or x.memory_no = any (query.allowed))
      and m.fingerprint not in (select h.fingerprint from unnest(scored) s
        join remem.memory h on h.workspace = query.workspace and h.memory_no = s.memory_no)
    order by m.fingerprint, x.score desc, x.memory_no) e;
  v_out := remem._excluded(query, v_nos);
  if query.vector is not null and v_nos is not null then
    v_cosines := remem._cosines(query.workspace, query.space_no, query.vector, v_nos);
  end if;
  v_matched := (remem._word_scores(query, v_nos)).matched;
  v_added := array(
    select (e.memory_no, e.score, e.relevance, jsonb_strip_nulls(jsonb_build_object('graph', round(e.score::numeric, 4),
      'cosine', round(e.cosine::numeric, 4))), null, null, e.from_no)::remem._scored
    from (
      select n.*, 1 - (1 - case when n.cosine is null then 0  -- least and greatest pass over a null
          else greatest(least((n.cosine - space.cosine_floor) / (space.cosine_full - space.cosine_floor), 1), 0) end)
        * (1 - case when query.idf_mass > 0 then least(n.matched / query.idf_mass, 1) else 0 end) as relevance
      from unnest(v_nos, v_from, v_scores, v_cosines, v_matched) n (memory_no, from_no, score, cosine, matched)
      where n.memory_no <> all (v_out)) e
    where e.relevance >= min_relevance);
  note := note || jsonb_build_object('ran', true, 'added', cardinality(v_added));
  if cardinality(v_added) > 0 then
    result := array(
      select (x.memory_no, x.score, x.relevance, x.signals, x.arms, x.copies, x.from_no)::remem._scored
      from (select s.*, 0 as added from unnest(scored) s union all select a.*, 1 from unnest(v_added) a) x
      order by x.score desc, x.added, x.memory_no limit k);
  end if;
end
$$;
comment on function remem._expand_hits(remem._query, remem.embedding_space, remem._scored[], text, int, float8, float8, int) is
  'Adds what the best hits are related to, when that is worth it.';
