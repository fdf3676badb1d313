-- Scoring: one number that orders, one that gates, and every signal behind them.

-- The best k candidates with score and signals: gated by relevance, equal texts once, the wanted kind if any has it.
-- weighted: both main scores relative to the query's best, plus what conversation, names, phrases and time add;
--   then two bounded factors, trust and worth, that reorder relevant rows and rescue none.
-- rrf: reciprocal rank fusion, k = 60 (Cormack et al. 2009); max: the better of the two main scores.
-- aux: what the other arms found, one row per arm and memory, scores relative to that arm's best.
create or replace function remem._score(
  query remem._query, space remem.embedding_space, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], aux_arms text[], aux_nos bigint[], aux_scores float8[], vector_weight float8,
  weights jsonb, fusion text, with_context boolean, k int, min_relevance float8, kind text
) returns setof remem._scored
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  -- Out of the record once: a field of it would be taken out again for every row (10 ms for 125 rows).
  v_workspace text := query.workspace;
  v_row_filter jsonpath := query.row_filter;
  v_check_validity boolean := query.check_validity;
  v_session_nos int[] := query.session_nos;
  v_time_from timestamptz := query.time_from;
  v_time_to timestamptz := query.time_to;
  v_idf_mass float8 := query.idf_mass;
  v_floor float8 := space.cosine_floor;
  v_span float8 := space.cosine_full - space.cosine_floor;
  v_neighbour float8 := (weights ->> 'neighbour')::float8;
  v_neighbour2 float8 := (weights ->> 'neighbour2')::float8;
  v_session float8 := (weights ->> 'session')::float8;
  v_speaker float8 := (weights ->> 'speaker')::float8;
  v_length float8 := (weights ->> 'length')::float8;
  v_topic float8 := (weights ->> 'topic')::float8;
  v_time float8 := (weights ->> 'time')::float8;
  v_trust float8 := (weights ->> 'trust')::float8;
  v_rank float8 := (weights ->> 'rank')::float8;
  v_words text := ' ' || btrim(regexp_replace(query.folded collate "C", '[^' || remem._chars_word() || ']+', ' ', 'g')) || ' ';
begin
  return query
  with candidate as (
    select c.*, m.session_no, m.turn_no, m.speaker, m.subject, m.fingerprint, m.kind, m.topic_key, m.occurred_at, m.source_class,
      m.importance, m.pinned, m.scope, m.freshness, coalesce(m.occurred_at, m.created_at) as said_at,
      least(ln(1 + m.doc_len) / ln(33), 1) as length_share,
      remem._base_score(c.cosine, max(c.cosine) over (), c.score, max(c.score) over (), vector_weight) as base,
      rank() over (order by c.cosine desc nulls last) as vector_rank, rank() over (order by c.score desc) as lexical_rank,
      c.cosine / nullif(greatest(max(c.cosine) over (), 0), 0) as cosine_share, c.score / nullif(max(c.score) over (), 0) as score_share
    from unnest(memory_nos, cosines, scores, matched) c (memory_no, cosine, score, matched)
    join remem.memory m on m.workspace = v_workspace and m.memory_no = c.memory_no
    -- The arms have checked their own finds; a turn that joined beside them has to pass too.
    where (v_row_filter is null or m.attrs @@ v_row_filter)
      and (not v_check_validity or (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now()))
  ), named as materialized (
    -- The one speaker that the query names; two names name nobody. Inlined it would be found once a candidate.
    -- All speakers are folded in one call, apart by a character that folding keeps.
    select case when count(*) = 1 then min(s.speaker) end as speaker
    from (
      select unnest(d.speakers) as speaker, unnest(string_to_array(remem._fold(array_to_string(d.speakers, E'\u0001')), E'\u0001')) as folded
      from (select array(select distinct c.speaker from candidate c where c.speaker <> '') as speakers offset 0) d
    ) s
    where position(' ' || s.folded || ' ' in v_words) > 0
  ), aux as (
    select a.memory_no, sum((weights ->> a.arm)::float8 * a.share) as bonus, jsonb_object_agg(a.arm, round(a.share::numeric, 4)) as shares
    from (
      select x.arm, x.memory_no, x.score / nullif(max(x.score) over (partition by x.arm), 0) as share
      from unnest(aux_arms, aux_nos, aux_scores) x (arm, memory_no, score)
    ) a
    group by a.memory_no
  ), context as (
    select c.*,
      -- A memory that stands alone is taken to be surrounded by half as much as it holds itself.
      case when c.session_no is null then c.base else coalesce(sum(c.base) over near, 0) end as near,
      case when c.session_no is null then c.base
        else coalesce(sum(c.base) over wide, 0) - coalesce(sum(c.base) over near, 0) end as wide,
      case when c.session_no = any (v_session_nos) then 1
        else coalesce(u.score / nullif(max(u.score) over (), 0), 0) end as session_share
    from candidate c
    left join unnest(units, unit_scores) u (unit, score) on u.unit = coalesce(c.session_no, -c.memory_no)
    window near as (partition by c.session_no order by c.turn_no range between 1 preceding and 1 following exclude current row),
      wide as (partition by c.session_no order by c.turn_no range between 2 preceding and 2 following exclude current row)
  ), about as (
    -- A turn is about who speaks; what stands alone, about whom it names.
    select c.*, x.bonus, x.shares,
      n.speaker is not null and case when c.session_no is not null then c.speaker = n.speaker
        else n.speaker in (c.speaker, c.subject) or (
          select position(remem._fold(n.speaker) in remem._fold(left(m.body, 1000))) > 0
          from remem.memory m where m.workspace = v_workspace and m.memory_no = c.memory_no) end as speaker_named,
      c.topic_key is not null and v_topic > 0 and position(' ' || btrim(regexp_replace(remem._fold(c.topic_key) collate "C",
        '[^' || remem._chars_word() || ']+', ' ', 'g')) || ' ' in v_words) > 0 as topic_named,
      coalesce(c.occurred_at >= v_time_from and c.occurred_at < v_time_to, false) as in_time,
      remem._trust(s.trust, s.half_life, s.pinned, date_trunc('day', now() - c.said_at)) as trust,
      remem._worth(c.importance, c.pinned, c.scope, c.freshness, date_trunc('day', now() - c.said_at)) as worth
    from context c cross join named n
    left join aux x on x.memory_no = c.memory_no
    left join remem.source_class s on s.name = c.source_class
  ), fused as (
    select w.*,
      case fusion
        when 'rrf' then case when w.cosine is null then 0 else 1.0 / (60 + w.vector_rank) end
          + case when w.score > 0 then 1.0 / (60 + w.lexical_rank) else 0 end
        when 'max' then greatest(w.cosine_share, w.score_share, 0)
        else w.base + case when not with_context then 0 else
          v_neighbour * w.near + v_neighbour2 * w.wide + v_session * w.session_share + v_length * w.length_share
          + case when w.speaker_named then v_speaker else 0 end + case when w.topic_named then v_topic else 0 end
          + case when w.in_time then v_time else 0 end end
      end + case when with_context then coalesce(w.bonus, 0) else 0 end as total,
      case when with_context then (1 - v_trust * (1 - w.trust)) * (1 + v_rank * (w.worth - 1)) else 1 end as factor,
      case when w.cosine is null then 0  -- least and greatest pass over a null
        else greatest(least((w.cosine - v_floor) / v_span, 1), 0) end as vector_relevance,
      case when v_idf_mass > 0 then least(w.matched / v_idf_mass, 1) else 0 end as lexical_relevance
    from about w
  ), final as (
    select f.*, coalesce(f.total * f.factor / nullif(max(f.total * f.factor) over (), 0), 0) as final_score,
      1 - (1 - f.vector_relevance) * (1 - f.lexical_relevance) as relevance
    from fused f
  ), placed as (
    select f.*, row_number() over (order by f.final_score desc, f.memory_no) as place from final f where f.relevance >= min_relevance
  ), unique_text as (
    select p.*, row_number() over (partition by p.fingerprint order by p.place) as copy from placed p
    where _score.kind is null or p.kind = _score.kind or not exists (select from placed x where x.kind = _score.kind)
  ), best as (
    select u.* from unique_text u where u.copy = 1 or not with_context order by u.place limit k
  )
  select b.memory_no, b.final_score, b.relevance,
    jsonb_strip_nulls(jsonb_build_object(
      'cosine', round(b.cosine::numeric, 4), 'distance_score', round((1 / (2 - b.cosine))::numeric, 4),
      'bm25', round(b.score::numeric, 4), 'matched', round(b.lexical_relevance::numeric, 4), 'base', round(b.base::numeric, 4),
      'neighbour', round(nullif(b.near, 0)::numeric, 4), 'neighbour2', round(nullif(b.wide, 0)::numeric, 4),
      'session', round(nullif(b.session_share, 0)::numeric, 4), 'length', round(b.length_share::numeric, 4),
      'speaker', case when b.speaker_named then 1 end, 'topic', case when b.topic_named then 1 end,
      'time', case when b.in_time then 1 end, 'trust', round(b.trust::numeric, 4), 'worth', round(b.worth::numeric, 4)))
      || coalesce(b.shares, '{}'),
    null::text[],
    case when with_context then (select array_agg(u.memory_no order by u.place) from unique_text u
      where u.fingerprint = b.fingerprint and u.memory_no <> b.memory_no) end,
    null::bigint
  from best b
  order by b.place;
end
$$;
comment on function remem._score(remem._query, remem.embedding_space, bigint[], float8[], float8[], float8[], bigint[], float8[], text[], bigint[], float8[],
  float8, jsonb, text, boolean, int, float8, text) is 'The best candidates with score, absolute relevance and signals.';

-- The call of _score out of a run's results: the finds of phrase, attribute and pointer are what it knows as aux.
create or replace function remem._score_candidates(
  query remem._query, space remem.embedding_space, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  units bigint[], unit_scores float8[], results remem._arm_result[], vector_share float8, weights jsonb, options jsonb, k int
) returns remem._scored[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_arms text[];
  v_nos bigint[];
  v_scores float8[];
begin
  select array_agg(r.arm), array_agg(f.memory_no), array_agg(f.score) into v_arms, v_nos, v_scores
  from unnest(results) r cross join lateral unnest(r.memory_nos, r.scores) f (memory_no, score)
  where r.arm in ('phrase', 'attribute', 'pointer');
  return array(
    select (s.memory_no, s.score, s.relevance, s.signals, s.arms, s.copies, s.from_no)::remem._scored
    from remem._score(query, space, memory_nos, cosines, scores, matched, units, unit_scores, v_arms, v_nos, v_scores, vector_share,
      weights, options ->> 'fusion', options ->> 'mode' <> 'retrieval_only', k, (options ->> 'min_relevance')::float8, options ->> 'kind') s);
end
$$;
comment on function remem._score_candidates(remem._query, remem.embedding_space, bigint[], float8[], float8[], float8[], bigint[], float8[],
  remem._arm_result[], float8, jsonb, jsonb, int) is 'Scores the candidates of a run.';
