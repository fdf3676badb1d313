-- Candidates: what the arms found, merged by memory, with both main scores for each, capped before anything
-- expensive; then the turns around the best join in.

-- Arrays run in parallel; cosines are null where there is no vector. The lexical arm has scored the rows of the
-- other arms too, so its list is the union. Rows that hold an excluded word are out. At most `cap`, best first;
-- then the neighbours (two turns to either side) of the ten best join.
create or replace function remem._candidates(
  query remem._query, vector_weight float8, vector_nos bigint[], vector_cosines float8[], lexical_nos bigint[],
  lexical_scores float8[], lexical_matched float8[], keep bigint[], cap int,
  out memory_nos bigint[], out cosines float8[], out scores float8[], out matched float8[], out excluded int, out capped int
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_out bigint[];
  v_joined bigint[];
  v_cosines float8[];
  v_scores float8[];
  v_matched float8[];
begin
  memory_nos := lexical_nos; scores := lexical_scores; matched := lexical_matched;
  excluded := 0;
  if query.vector is not null then
    v_joined := array(select l from unnest(lexical_nos) l where l <> all (vector_nos));
    v_cosines := remem._cosines(query.workspace, query.space_no, query.vector, v_joined);
    cosines := array(
      select coalesce(v.cosine, j.cosine) from unnest(lexical_nos) with ordinality l (memory_no, ordinality)
      left join unnest(vector_nos, vector_cosines) v (memory_no, cosine) on v.memory_no = l.memory_no
      left join unnest(v_joined, v_cosines) j (memory_no, cosine) on j.memory_no = l.memory_no
      order by l.ordinality);
  else
    cosines := array_fill(null::float8, array[cardinality(lexical_nos)]);
  end if;
  v_out := remem._excluded(query, memory_nos);

  with candidate as (
    select c.*, remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
    where c.memory_no <> all (v_out)
  ), best as (
    -- What a phrase, a name or an attribute pointed at is not capped away.
    select c.* from candidate c order by c.memory_no = any (keep) desc, c.base desc, c.memory_no limit cap
  ), top as materialized (
    select m.session_no, m.turn_no
    from (select b.memory_no from best b order by b.base desc, b.memory_no limit 10) t
    join remem.memory m on m.workspace = query.workspace and m.memory_no = t.memory_no
    where m.session_no is not null
  ), joined as (
    -- offset 0 keeps it a lookup per turn by memory_session_idx, also in tables that were never analysed.
    select distinct n.memory_no from top t
    cross join lateral (
      select m.memory_no from remem.memory m
      where m.workspace = query.workspace and m.session_no = t.session_no
        and m.turn_no between t.turn_no - 2 and t.turn_no + 2 and m.superseded_at is null and m.forgotten_at is null
      offset 0) n
    where not exists (select from best b where b.memory_no = n.memory_no)
  )
  select b.*, j.nos, (select count(*) from candidate) - cardinality(b.nos)
  into memory_nos, cosines, scores, matched, v_joined, capped
  from (select coalesce(array_agg(b.memory_no), '{}') as nos, array_agg(b.cosine), array_agg(b.score), array_agg(b.matched) from best b) b
  cross join (select array_agg(j.memory_no) as nos from joined j) j;
  excluded := cardinality(v_out);

  v_joined := array(select j from unnest(v_joined) j where j <> all (remem._excluded(query, v_joined)));
  if cardinality(v_joined) > 0 then
    if query.vector is not null then
      v_cosines := remem._cosines(query.workspace, query.space_no, query.vector, v_joined);
    else
      v_cosines := array_fill(null::float8, array[cardinality(v_joined)]);
    end if;
    select s.scores, s.matched into v_scores, v_matched
    from remem._bm25s(query.workspace, query.lexemes, query.idfs, query.mean_len, v_joined) s;
    memory_nos := memory_nos || v_joined; cosines := cosines || v_cosines; scores := scores || v_scores; matched := matched || v_matched;
  end if;
end
$$;
comment on function remem._candidates(remem._query, float8, bigint[], float8[], bigint[], float8[], float8[], bigint[], int) is
  'Candidates of all arms with both main scores, and the turns around the best of them.';

-- Those of the rows that hold a word the query excludes.
create or replace function remem._excluded(query remem._query, memory_nos bigint[]) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if coalesce(cardinality(query.excluded), 0) = 0 then
    return '{}';
  end if;
  return array(
    select distinct p.memory_no from unnest(query.excluded) x (lexeme)
    join remem.posting p on p.workspace = query.workspace and p.lexeme = x.lexeme and p.memory_no = any (memory_nos));
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
