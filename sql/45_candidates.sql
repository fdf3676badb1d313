-- Candidates: what the arms found, merged by memory, with both main scores for each, capped before anything
-- expensive; then the turns around the best join in.

-- Arrays run in parallel; a cosine is null where there is no vector. `pool` are rows of a relevance pool. The neighbours
-- (two turns to either side) of the best join; best by what the arms know: a row that only words found is taken to be
-- as near as the last that the vectors found. Then both scores are completed for all rows at once. Rows that hold an
-- excluded word are out. At most `cap` stay, best first, but what a phrase, a name or an attribute pointed at is not
-- capped away.
create or replace function remem._candidates(
  query remem._query, vector_weight float8, results remem._arm_result[], pool bigint[], cap int,
  out memory_nos bigint[], out cosines float8[], out scores float8[], out matched float8[], out excluded int, out capped int
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_near constant float8 := 0.7;    -- of the best one's score, that theirs has to reach
  v_workspace text := query.workspace;
  v_result remem._arm_result;
  v_vector remem._arm_result;
  v_lexical remem._arm_result;
  v_keep bigint[] := '{}';
  v_words int;
  v_scored int;
  v_near int;
  v_best int;                       -- rows whose neighbours join: a quarter of what an arm is asked for
  v_more record;
  v_cosines float8[];
  v_out bigint[];
begin
  foreach v_result in array results loop
    if v_result.arm = 'vector' then v_vector := v_result;
    elsif v_result.arm = 'lexical' then v_lexical := v_result;
    else v_keep := v_keep || v_result.memory_nos;
    end if;
  end loop;
  v_best := greatest(4, cardinality(v_vector.memory_nos) / 4, cardinality(v_lexical.memory_nos) / 4);
  -- In this order: found by words alone, by both, by vectors alone, by neither. So what is not known yet lies at the
  -- ends: the cosines of the first and the last part, the words' scores of the last two.
  with found as materialized (
    select memory_no, v.cosine, l.score, l.matched
    from unnest(v_lexical.memory_nos, v_lexical.scores, v_lexical.matched) l (memory_no, score, matched)
    full join unnest(v_vector.memory_nos, v_vector.scores) v (memory_no, cosine) using (memory_no)
  ), joined as (
    select n.memory_no
    from (
      select g.memory_no, g.base, max(g.base) over () as best
      from (
        select f.memory_no, remem._base_score(coalesce(f.cosine, v_vector.scores[cardinality(v_vector.scores)]), v_vector.scores[1],
          coalesce(f.score, 0), v_lexical.scores[1], vector_weight) as base
        from found f order by 2 desc, f.memory_no limit v_best) g) b
    join remem.memory t on t.workspace = v_workspace and t.memory_no = b.memory_no and b.base >= c_near * b.best
    -- The order keeps it a lookup per turn by memory_session_idx, also in a table that was never analysed or is one session.
    cross join lateral (
      select m.memory_no from remem.memory m
      where m.workspace = v_workspace and m.session_no = t.session_no
        and m.turn_no between t.turn_no - 2 and t.turn_no + 2 and m.superseded_at is null and m.forgotten_at is null
      order by m.workspace, m.session_no, m.turn_no limit 100) n
    union
    select x.memory_no from unnest(v_keep || pool) x (memory_no)
  )
  select array_agg(c.memory_no), array_agg(c.cosine), array_agg(c.score), array_agg(c.matched),
    count(*) filter (where c.part = 1), count(*) filter (where c.part <= 2), count(*) filter (where c.part <= 3)
  into memory_nos, cosines, scores, matched, v_words, v_scored, v_near
  from (
    select memory_no, f.cosine, f.score, f.matched,
      case when f.cosine is null then case when f.score is null then 4 else 1 end when f.score is null then 3 else 2 end as part
    from found f full join joined j using (memory_no)
    order by part
  ) c;
  excluded := 0; capped := 0;
  if memory_nos is not null and v_scored < cardinality(memory_nos) then
    v_more := remem._word_scores(query, memory_nos[v_scored + 1:]);
    scores := scores[:v_scored] || v_more.scores; matched := matched[:v_scored] || v_more.matched;
  end if;
  if query.vector is not null and (v_words > 0 or v_near < cardinality(memory_nos)) then
    v_cosines := case when query.as_of is null then remem._cosines(v_workspace, query.space_no, query.vector, memory_nos[:v_words] || memory_nos[v_near + 1:])
      else remem._cosines_at(query, memory_nos[:v_words] || memory_nos[v_near + 1:]) end;
    cosines := v_cosines[:v_words] || cosines[v_words + 1:v_near] || v_cosines[v_words + 1:];
  end if;
  v_out := remem._excluded(query, memory_nos);
  excluded := cardinality(v_out);
  if excluded > 0 or cardinality(memory_nos) > cap then
    capped := greatest(cardinality(memory_nos) - excluded - cap, 0);
    select array_agg(b.memory_no), array_agg(b.cosine), array_agg(b.score), array_agg(b.matched) into memory_nos, cosines, scores, matched
    from (
      select c.* from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched),
        (select max(m.cosine) as cosine, max(m.score) as score from unnest(cosines, scores) m (cosine, score)) m
      where c.memory_no <> all (v_out)
      order by c.memory_no = any (v_keep) desc, remem._base_score(c.cosine, m.cosine, c.score, m.score, vector_weight) desc, c.memory_no
      limit cap) b;
  end if;
  memory_nos := coalesce(memory_nos, '{}');
end
$$;
comment on function remem._candidates(remem._query, float8, remem._arm_result[], bigint[], int) is
  'Candidates of all arms with both main scores, and the turns around the best of them.';

-- Those of the rows that hold a word the query excludes.
create or replace function remem._excluded(query remem._query, memory_nos bigint[]) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set enable_seqscan = off  -- see _query_terms
as $$
declare
  v_key bigint := remem._workspace_key(query.workspace);
begin
  if coalesce(cardinality(query.excluded), 0) = 0 then
    return '{}';
  end if;
  return array(
    select p.memory_no from unnest(query.excluded) x (lexeme)
    cross join lateral (select p.memory_no from remem.posting p
      where p.workspace_key = v_key and p.word = remem._word(x.lexeme) and p.memory_no = any (memory_nos) offset 0) p
    union
    select p.memory_no from unnest(query.excluded) x (lexeme)
    cross join lateral (select p.memory_no from remem.posting_past p
      where p.workspace_key = v_key and p.word = remem._word(x.lexeme) and p.memory_no = any (memory_nos) offset 0) p
    where query.as_of is not null);
end
$$;
comment on function remem._excluded(remem._query, bigint[]) is 'The candidates that an excluded word rules out.';

-- Both main scores relative to the query's best of each, weighted. A missing cosine counts as nothing. Where
-- no cosine is positive, their distance from the opposite direction still orders them.
-- The body is bound when it is created and inlined where it is used: it needs no search_path.
create or replace function remem._base_score(cosine float8, best_cosine float8, score float8, best_score float8, vector_weight float8)
returns float8
language sql immutable parallel safe
return case
    when best_cosine > 0 then vector_weight * greatest(coalesce(cosine, 0), 0) / best_cosine
    when best_cosine > -1 then vector_weight * (1 + coalesce(cosine, -1)) / (1 + best_cosine)
    else 0 end
  + case when best_score > 0 then (1 - vector_weight) * score / best_score else 0 end;
comment on function remem._base_score(float8, float8, float8, float8, float8) is 'Weighted sum of the two main scores, each relative to the best.';
