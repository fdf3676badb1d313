-- Fusion: from what the arms found to one order. Both main scores are known for every candidate, and a
-- conversation counts: a turn gains from its neighbours, its session and its speaker.

-- Union of the arms' finds with both scores, best first, at most `cap` rows; then the neighbours (two turns
-- to either side) of the ten best join in. Arrays run in parallel; cosines are null where there is no vector.
create or replace function remem._candidates(
  workspace text, space_no int, query real[], lexemes text[], idfs float8[], mean_len float8, vector_weight float8,
  vector_nos bigint[], vector_cosines float8[], lexical_nos bigint[], lexical_scores float8[], lexical_matched float8[], cap int,
  out memory_nos bigint[], out cosines float8[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_joined bigint[];
  v_cosines float8[];
  v_scores float8[];
  v_matched float8[];
begin
  -- The lexical arm has scored the vector arm's rows too, so its list is the union.
  memory_nos := lexical_nos; scores := lexical_scores; matched := lexical_matched;
  if query is not null then
    v_joined := array(select l from unnest(lexical_nos) l where l <> all (vector_nos));
    v_cosines := remem._cosines(workspace, space_no, query, v_joined);
    cosines := array(
      select coalesce(v.cosine, j.cosine) from unnest(lexical_nos) with ordinality l (memory_no, ordinality)
      left join unnest(vector_nos, vector_cosines) v (memory_no, cosine) on v.memory_no = l.memory_no
      left join unnest(v_joined, v_cosines) j (memory_no, cosine) on j.memory_no = l.memory_no
      order by l.ordinality);
  else
    cosines := array_fill(null::float8, array[cardinality(lexical_nos)]);
  end if;

  with candidate as (
    select c.*, remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
  ), best as (
    select c.* from candidate c order by c.base desc, c.memory_no limit cap
  ), top as materialized (
    select m.session_no, m.turn_no
    from (select b.memory_no from best b order by b.base desc, b.memory_no limit 10) t
    join remem.memory m on m.workspace = _candidates.workspace and m.memory_no = t.memory_no
    where m.session_no is not null
  ), joined as (
    -- offset 0 keeps it a lookup per turn by memory_session_idx, also in tables that were never analysed.
    select distinct n.memory_no from top t
    cross join lateral (
      select m.memory_no from remem.memory m
      where m.workspace = _candidates.workspace and m.session_no = t.session_no
        and m.turn_no between t.turn_no - 2 and t.turn_no + 2 and m.superseded_at is null and m.forgotten_at is null
      offset 0) n
    where not exists (select from best b where b.memory_no = n.memory_no)
  )
  select b.*, j.nos into memory_nos, cosines, scores, matched, v_joined
  from (select array_agg(b.memory_no), array_agg(b.cosine), array_agg(b.score), array_agg(b.matched) from best b) b
  cross join (select array_agg(j.memory_no) as nos from joined j) j;

  if v_joined is not null then
    if query is not null then
      v_cosines := remem._cosines(workspace, space_no, query, v_joined);
    else
      v_cosines := array_fill(null::float8, array[cardinality(v_joined)]);
    end if;
    select s.scores, s.matched into v_scores, v_matched from remem._bm25s(workspace, lexemes, idfs, mean_len, v_joined) s;
    memory_nos := memory_nos || v_joined; cosines := cosines || v_cosines; scores := scores || v_scores; matched := matched || v_matched;
  end if;
end
$$;
comment on function remem._candidates(text, int, real[], text[], float8[], float8, float8, bigint[], float8[], bigint[], float8[], float8[], int) is
  'Candidates of all arms with both main scores, and the turns around the best of them.';

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

-- The final score of every candidate with its signals. fusion: weighted (with conversation context), rrf
-- (reciprocal rank fusion, k = 60, Cormack et al. 2009) or max; the last two use the two main scores only.
create or replace function remem._score(
  workspace text, query text, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], idf_mass float8, vector_weight float8, weights jsonb, fusion text,
  with_context boolean, cosine_floor float8, cosine_full float8
) returns table (memory_no bigint, score float8, relevance float8, signals jsonb, fingerprint bytea)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_neighbour float8 := (weights ->> 'neighbour')::float8;
  v_neighbour2 float8 := (weights ->> 'neighbour2')::float8;
  v_session float8 := (weights ->> 'session')::float8;
  v_speaker float8 := (weights ->> 'speaker')::float8;
  v_length float8 := (weights ->> 'length')::float8;
  v_query text := ' ' || regexp_replace(remem._fold(query), '[\u0001-\u002f\u003a-\u0060\u007b-\u007f\u2018\u2019]+', ' ', 'g') || ' ';
begin
  return query
  with candidate as (
    select c.*, m.session_no, m.turn_no, m.speaker, m.subject, m.fingerprint,
      least(ln(1 + m.doc_len) / ln(33), 1) as length_share,
      remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base,
      rank() over (order by c.cosine desc nulls last) as vector_rank, rank() over (order by c.score desc) as lexical_rank,
      c.cosine / nullif(greatest(max(c.cosine) over (), 0), 0) as cosine_share, c.score / nullif(max(c.score) over (), 0) as score_share
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
    join remem.memory m on m.workspace = _score.workspace and m.memory_no = c.memory_no
  ), named as (
    -- The one speaker that the query names; two names name nobody.
    select case when count(*) = 1 then min(s.speaker) end as speaker
    from (select distinct c.speaker from candidate c where c.speaker is not null offset 0) s
    where position(' ' || remem._fold(s.speaker) || ' ' in v_query) > 0
  ), context as (
    select c.*,
      -- A memory that stands alone is taken to be surrounded by half as much as it holds itself.
      case when c.session_no is null then c.base else coalesce(sum(c.base) over near, 0) end as near,
      case when c.session_no is null then c.base
        else coalesce(sum(c.base) over wide, 0) - coalesce(sum(c.base) over near, 0) end as wide,
      coalesce(u.score / nullif(max(u.score) over (), 0), 0) as session_share
    from candidate c
    left join unnest(units, unit_scores) u (unit, score) on u.unit = coalesce(c.session_no, -c.memory_no)
    window near as (partition by c.session_no order by c.turn_no range between 1 preceding and 1 following exclude current row),
      wide as (partition by c.session_no order by c.turn_no range between 2 preceding and 2 following exclude current row)
  ), about as (
    -- A turn is about who speaks; what stands alone, about whom it names.
    select c.*, n.speaker is not null and case when c.session_no is not null then c.speaker = n.speaker
      else n.speaker in (c.speaker, c.subject) or (
        select position(remem._fold(n.speaker) in remem._fold(left(m.body, 1000))) > 0
        from remem.memory m where m.workspace = _score.workspace and m.memory_no = c.memory_no) end as speaker_named
    from context c cross join named n
  ), fused as (
    select w.*,
      case fusion
        when 'rrf' then case when w.cosine is null then 0 else 1.0 / (60 + w.vector_rank) end
          + case when w.score > 0 then 1.0 / (60 + w.lexical_rank) else 0 end
        when 'max' then greatest(w.cosine_share, w.score_share, 0)
        else w.base + case when not with_context then 0 else
          v_neighbour * w.near + v_neighbour2 * w.wide + v_session * w.session_share
          + case when w.speaker_named then v_speaker else 0 end + v_length * w.length_share end
      end as total,
      case when w.cosine is null then 0  -- least and greatest pass over a null
        else greatest(least((w.cosine - cosine_floor) / (cosine_full - cosine_floor), 1), 0) end as vector_relevance,
      case when idf_mass > 0 then least(w.matched / idf_mass, 1) else 0 end as lexical_relevance
    from about w
  )
  select f.memory_no, coalesce(f.total / nullif(max(f.total) over (), 0), 0),
    1 - (1 - f.vector_relevance) * (1 - f.lexical_relevance),
    jsonb_strip_nulls(jsonb_build_object(
      'cosine', round(f.cosine::numeric, 4), 'bm25', round(f.score::numeric, 4), 'matched', round(f.lexical_relevance::numeric, 4),
      'base', round(f.base::numeric, 4),
      'neighbour', round(nullif(f.near, 0)::numeric, 4), 'neighbour2', round(nullif(f.wide, 0)::numeric, 4),
      'session', round(nullif(f.session_share, 0)::numeric, 4), 'length', round(f.length_share::numeric, 4),
      'speaker', case when f.speaker_named then 1 end)),
    f.fingerprint
  from fused f
  order by f.total desc nulls last, f.memory_no;
end
$$;
comment on function remem._score(text, text, bigint[], float8[], float8[], float8[], bigint[], float8[], float8, float8, jsonb, text, boolean, float8, float8) is
  'Fused score, absolute relevance and signals of every candidate, best first.';
