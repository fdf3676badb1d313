-- Graph expansion of the best hits: when fewer than three are high-confidence, or when the caller asks for it.
-- What is reached scores its parent's score times the decay of the edge, so it never stands before its parent;
-- relevance is its own. The note says what was done and why.
create or replace function remem._expand_hits(
  query remem._query, space remem.embedding_space, scored remem._scored[], graph text, depth int, confident float8, k int,
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
begin
  result := scored;
  v_reason := case when graph = 'never' then 'switched off' when depth = 0 then 'the route does not follow the graph'
    when graph = 'always' then 'asked for' when v_confident < 3 then format('%s high-confidence hits', v_confident) end;
  note := jsonb_build_object('ran', false, 'reason', coalesce(v_reason, format('%s high-confidence hits', v_confident)), 'added', 0);
  if v_reason is null or graph = 'never' or depth = 0 or coalesce(cardinality(scored), 0) = 0 then
    return;
  end if;
  select array_agg(e.memory_no), array_agg(e.from_no), array_agg(e.score) into v_nos, v_from, v_scores
  from remem._expand(query.workspace, array(select s.memory_no from unnest(scored) s limit 5),
    array(select s.score from unnest(scored) s limit 5), 2 * k) e
  where e.memory_no <> all (array(select s.memory_no from unnest(scored) s))
    and (query.allowed is null or e.memory_no = any (query.allowed))
    and (query.row_filter is null or exists (select from remem.memory m
      where m.workspace = query.workspace and m.memory_no = e.memory_no and m.attrs @@ query.row_filter));
  note := note || jsonb_build_object('ran', true, 'added', coalesce(cardinality(v_nos), 0));
  if v_nos is null then
    return;
  end if;
  if query.vector is not null then
    v_cosines := remem._cosines(query.workspace, query.space_no, query.vector, v_nos);
  end if;
  v_matched := (remem._bm25s(query.workspace, query.lexemes, query.idfs, query.mean_len, v_nos)).matched;
  result := array(
    select (f.memory_no, f.score, f.relevance, f.signals, f.arms, f.copies, f.from_no)::remem._scored
    from (
      select s.*, 0 as added from unnest(scored) s
      union all
      select e.memory_no, e.score,
        1 - (1 - coalesce(greatest(least((e.cosine - space.cosine_floor) / (space.cosine_full - space.cosine_floor), 1), 0), 0))
          * (1 - coalesce(least(e.matched / nullif(query.idf_mass, 0), 1), 0)),
        jsonb_strip_nulls(jsonb_build_object('graph', round(e.score::numeric, 4), 'cosine', round(e.cosine::numeric, 4))),
        null, null, e.from_no, 1
      from unnest(v_nos, v_from, v_scores, v_cosines, v_matched) e (memory_no, from_no, score, cosine, matched)
    ) f
    order by f.score desc, f.added, f.memory_no limit k);
end
$$;
comment on function remem._expand_hits(remem._query, remem.embedding_space, remem._scored[], text, int, float8, int) is
  'Adds what the best hits are related to, when that is worth it.';
