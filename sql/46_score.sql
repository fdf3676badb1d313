-- Scoring: one number that orders, one that gates, and every signal behind them.

-- Sessions as documents, scored by the rare words of the query, which tell them apart: BM25 with the usual k1 = 1.5,
-- b = 0.75, within about c_postings postings, the mean length from at most c_sample sessions, which stand for 200. A memory outside of any
-- session is one of its own, numbered -memory_no, so that it is not behind for standing alone. `units` are the sessions
-- that are asked for; those that hold none of the words are left out.
create or replace function remem._session_scores(query remem._query, units bigint[], out sessions bigint[], out scores float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
set enable_nestloop = off  -- see _arm_lexical
set enable_bitmapscan = off  -- a bitmap of all sessions comes before the first of a sample
as $$
declare
  c_sample constant int := 64;
  c_postings constant int := 200;  -- LoCoMo R@10 at k = 50: .782 with 400, 200 and 150
  v_workspace text := query.workspace;
  v_key bigint := remem._workspace_key(query.workspace);
  v_lexemes text[] := query.lexemes;
  v_mean_len float8 := query.mean_len;
  v_scope jsonpath := query.scope_filter;  -- what a session's other owners said in it is no part of it here
  v_terms int := 0;
  v_postings bigint := 0;
begin
  while v_terms < cardinality(v_lexemes) and (v_postings = 0 or v_postings + query.frequencies[v_terms + 1] <= c_postings) loop
    v_terms := v_terms + 1;
    v_postings := v_postings + query.frequencies[v_terms];
  end loop;
  with extent as materialized (
    select case when count(*) < c_sample then count(*) else 200 end as sessions, coalesce(greatest(avg(s.doc_len), 1), v_mean_len)::float8 as mean_len
    from (select x.doc_len from remem.session x where x.workspace = v_workspace order by x.session_no limit c_sample) s
  )
  select array_agg(u.unit), array_agg(u.score) into sessions, scores
  from (
    select t.unit, sum(ln(1 + (greatest(e.sessions, t.n) - t.n + 0.5::float8) / (t.n + 0.5::float8)) * t.tf * 2.5::float8
      / (t.tf + 1.5::float8 * (0.25::float8 + 0.75::float8 * coalesce(s.doc_len, t.doc_len) / e.mean_len))) as score
    from (
      select coalesce(p.session_no, -p.memory_no) as unit, sum(p.tf) as tf, max(p.doc_len) as doc_len, count(*) over (partition by w.no) as n
      from unnest(v_lexemes[:v_terms]) with ordinality w (lexeme, no)
      cross join lateral (select p.memory_no, p.session_no, p.tf, p.doc_len from remem.posting p
        where p.workspace_key = v_key and p.word = remem._word(w.lexeme) limit c_postings) p
      where v_scope is null or coalesce(p.session_no, -p.memory_no) <> all (units)  -- these only count as holding the word
        or (select m.attrs @@ v_scope from remem.memory m where m.workspace = v_workspace and m.memory_no = p.memory_no)
      group by w.no, 1
    ) t
    cross join extent e
    left join lateral (
      select case when v_scope is null then x.doc_len else (
        select sum(y.doc_len) from (
          select m.doc_len from remem.memory m
          where m.workspace = v_workspace and m.session_no = t.unit and m.superseded_at is null and m.forgotten_at is null
            and m.attrs @@ v_scope order by m.workspace, m.session_no, m.turn_no limit 200) y) end as doc_len
      from remem.session x where x.workspace = v_workspace and x.session_no = t.unit offset 0) s on true
    where t.unit = any (units)
    group by t.unit
  ) u;
end
$$;
comment on function remem._session_scores(remem._query, bigint[]) is 'BM25 of whole sessions by the rare words of a query.';

-- A signal to four places. By way of whole numbers: float8 to numeric goes through text, for each of a hundred signals.
create or replace function remem._rounded(signal float8) returns numeric
language sql immutable parallel safe
return case when signal between -1e12::float8 and 1e12::float8 then (signal * 10000)::bigint * 0.0001 else round(signal::numeric, 4) end;
comment on function remem._rounded(float8) is 'A signal to four decimal places.';

-- The best k candidates with score and signals: gated by relevance, equal texts once, the wanted kind if any has it.
-- weighted: both main scores relative to the query's best, plus what conversation, names, phrases and time add;
--   then two bounded factors, trust and worth, that reorder relevant rows and rescue none.
-- rrf: reciprocal rank fusion, k = 60 (Cormack et al. 2009); max: the better of the two main scores.
-- aux: what the other arms found, one row per arm and memory, scores relative to that arm's best.
create or replace function remem._score(
  query remem._query, space remem.embedding_space, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  vector_ranks int[], lexical_ranks int[], aux_arms text[], aux_nos bigint[], aux_shares float8[], vector_weight float8,
  weights jsonb, fusion text, with_context boolean, k int, min_relevance float8, kind text
) returns remem._scored[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_nestloop = off  -- no estimate sees how many candidates there are; what is meant as probes is lateral
as $$
#variable_conflict use_column
declare
  -- Out of the records once: a field of one would be taken out again for every row (10 ms for 125 rows).
  v_workspace text := query.workspace;
  v_row_filter jsonpath := query.row_filter;
  v_as_of timestamptz := query.as_of;
  v_check boolean := query.row_filter is not null or query.check_validity or query.as_of is not null;
  v_session_nos int[] := query.session_nos;
  v_time_from timestamptz := query.time_from;
  v_time_to timestamptz := query.time_to;
  v_words text := query.words;
  v_idf_mass float8 := query.idf_mass;
  v_floor float8 := space.cosine_floor;
  v_span float8 := space.cosine_full - space.cosine_floor;
  v_neighbour float8 := case when with_context then (weights ->> 'neighbour')::float8 else 0 end;
  v_neighbour2 float8 := case when with_context then (weights ->> 'neighbour2')::float8 else 0 end;
  v_session float8 := case when with_context then (weights ->> 'session')::float8 else 0 end;
  v_speaker float8 := case when with_context then (weights ->> 'speaker')::float8 else 0 end;
  v_length float8 := case when with_context then (weights ->> 'length')::float8 else 0 end;
  v_topic float8 := case when with_context then (weights ->> 'topic')::float8 else 0 end;
  v_time float8 := case when with_context then (weights ->> 'time')::float8 else 0 end;
  v_trust float8 := case when with_context then (weights ->> 'trust')::float8 else 0 end;
  v_rank float8 := case when with_context then (weights ->> 'rank')::float8 else 0 end;
  v_aux jsonb := case when with_context and aux_arms is not null then weights end;
  v_now timestamptz := coalesce(query.as_of, now());
  v_words_known boolean := cardinality(query.lexemes) > 0;
begin
  return array(
  with main as materialized (
    select max(c.cosine) as best_cosine, max(c.score) as best_score from unnest(cosines, scores) c (cosine, score)
  ), candidate as materialized (
    select c.memory_no, c.cosine, c.score, c.vector_rank, c.lexical_rank, m.session_no, m.turn_no, m.speaker, m.subject, m.fingerprint, m.kind,
      coalesce(m.session_no, -c.memory_no) as unit, least(ln((1 + m.doc_len)::float8) / ln(33::float8), 1) as length_share,
      remem._base_score(c.cosine, b.best_cosine, c.score, b.best_score, vector_weight) as base,
      m.topic_key is not null and v_topic > 0 and position(remem._words(remem._fold(m.topic_key)) in v_words) > 0 as topic_named,
      coalesce(m.occurred_at >= v_time_from and m.occurred_at < v_time_to, false) as in_time,
      remem._trust(s.trust, case when not s.pinned then date_part('epoch', s.half_life) / 86400 end, m.age) as trust,
      remem._worth(m.importance, m.confidence, m.pinned, m.scope, m.freshness, m.age) as worth,
      -- least and greatest pass over a null
      case when c.cosine is null then 0 else greatest(least((c.cosine - v_floor) / v_span, 1), 0) end as vector_relevance,
      case when v_idf_mass > 0 then least(c.matched / v_idf_mass, 1) else 0 end as lexical_relevance
    from main b
    cross join unnest(memory_nos, cosines, scores, matched, vector_ranks, lexical_ranks) c (memory_no, cosine, score, matched, vector_rank, lexical_rank)
    cross join lateral (
      select m.session_no, m.turn_no, m.speaker, m.subject, m.fingerprint, m.kind, m.topic_key, m.occurred_at, m.source_class, m.importance,
        m.confidence, m.pinned, m.scope, m.freshness, m.doc_len,
        floor((date_part('epoch', v_now) - date_part('epoch', coalesce(m.occurred_at, m.created_at))) / 86400) as age  -- infinite ones too
      from remem.memory m where m.workspace = v_workspace and m.memory_no = c.memory_no
        -- The arms have checked their own finds; a turn that joined beside them has to pass too.
        and (m.superseded_at is null or m.superseded_at > v_as_of) and m.forgotten_at is null and (v_as_of is null or m.created_at <= v_as_of)
        and (not v_check or (v_row_filter is null or m.attrs @@ v_row_filter)
          and (m.valid_from is null or m.valid_from <= v_now) and (m.valid_to is null or m.valid_to > v_now))
      offset 0) m
    left join remem.source_class s on s.name = m.source_class
  ), named as materialized (
    -- The one speaker that the query names; two names name nobody. All speakers are folded in one call, apart by a
    -- character that folding keeps.
    select case when count(*) = 1 then min(s.speaker) end as speaker
    from (
      select unnest(d.speakers) as speaker, unnest(string_to_array(remem._fold(array_to_string(d.speakers, E'\u0001')), E'\u0001')) as folded
      from (select array(select distinct c.speaker from candidate c where c.speaker <> '') as speakers offset 0) d
    ) s
    where position(' ' || s.folded || ' ' in v_words) > 0
  ), unit as materialized (
    select u.unit, u.score from remem._session_scores(query, array(select distinct c.unit from candidate c)) s
    cross join lateral unnest(s.sessions, s.scores) u (unit, score)
    where v_words_known
  ), aux as (
    select a.memory_no, sum((v_aux ->> a.arm)::float8 * a.share) as bonus
    from unnest(aux_arms, aux_nos, aux_shares) a (arm, memory_no, share)
    where v_aux is not null group by a.memory_no
  ), context as (
    select c.*, u.score as unit_score, x.bonus,
      -- A memory that stands alone is taken to be surrounded by half as much as it holds itself.
      case when c.session_no is null then c.base else coalesce(sum(c.base) over near, 0) end as near,
      case when c.session_no is null then c.base else coalesce(sum(c.base) over wide, 0) end as around
    from candidate c
    left join unit u on u.unit = c.unit
    left join aux x on x.memory_no = c.memory_no
    -- By unit, not by session: what stands alone would be one partition, each row's frame all others of it.
    window near as (partition by c.unit order by c.turn_no range between 1 preceding and 1 following exclude current row),
      wide as (partition by c.unit order by c.turn_no range between 2 preceding and 2 following exclude current row)
  ), about as (
    -- A turn is about who speaks; what stands alone, about whom it names.
    select c.memory_no, c.fingerprint, c.kind, c.cosine, c.score, c.vector_rank, c.lexical_rank, c.lexical_relevance, c.base, c.near, c.bonus,
      case when c.session_no is null then c.near else c.around - c.near end as wide, c.length_share, c.topic_named, c.in_time, c.trust, c.worth,
      1 - (1 - c.vector_relevance) * (1 - c.lexical_relevance) as relevance,
      case when c.session_no = any (v_session_nos) then 1
        else coalesce(c.unit_score / nullif((select max(u.score) from unit u), 0), 0) end as session_share,
      n.speaker is not null and case when c.session_no is not null then c.speaker = n.speaker
        else n.speaker in (c.speaker, c.subject) or (
          select position(remem._fold(n.speaker) in remem._fold(left(m.body, 1000))) > 0
          from remem.memory m where m.workspace = v_workspace and m.memory_no = c.memory_no) end as speaker_named
    from context c cross join named n
    offset 0  -- what is used twice below is made once
  ), fused as materialized (
    select a.*,
      (case fusion
        when 'rrf' then coalesce(1.0::float8 / (60 + a.vector_rank), 0) + coalesce(1.0::float8 / (60 + a.lexical_rank), 0)
        when 'max' then greatest(a.cosine / nullif(greatest((select best_cosine from main), 0), 0), a.score / nullif((select best_score from main), 0), 0)
        else a.base + v_neighbour * a.near + v_neighbour2 * a.wide + v_session * a.session_share + v_length * a.length_share
          + case when a.speaker_named then v_speaker else 0 end + case when a.topic_named then v_topic else 0 end
          + case when a.in_time then v_time else 0 end
      end + coalesce(a.bonus, 0))
      * (1 - v_trust * (1 - coalesce(a.trust, 1))) * (1 + v_rank * (a.worth - 1)) as total
    from about a
  ), best as (
    -- Equal texts are one hit, that of the best of them; retrieval alone keeps them apart.
    select array_agg(f.memory_no order by f.total desc, f.memory_no) as memory_nos, max(f.total) as total
    from fused f
    where f.relevance >= min_relevance
      and (_score.kind is null or f.kind = _score.kind or not exists (select from fused x where x.kind = _score.kind and x.relevance >= min_relevance))
    group by f.fingerprint, case when not with_context then f.memory_no end
    order by max(f.total) desc, 1 limit k
  )
  select (b.memory_no, coalesce(b.total / nullif((select max(f.total) from fused f), 0), 0), b.relevance,
    jsonb_strip_nulls(jsonb_build_object(
      'cosine', remem._rounded(b.cosine), 'distance_score', remem._rounded(1 / (2 - b.cosine)),
      'bm25', remem._rounded(b.score), 'matched', remem._rounded(b.lexical_relevance), 'base', remem._rounded(b.base),
      'neighbour', remem._rounded(nullif(b.near, 0)), 'neighbour2', remem._rounded(nullif(b.wide, 0)),
      'session', remem._rounded(nullif(b.session_share, 0)), 'length', remem._rounded(b.length_share),
      'speaker', case when b.speaker_named then 1 end, 'topic', case when b.topic_named then 1 end,
      'time', case when b.in_time then 1 end, 'trust', remem._rounded(b.trust), 'worth', remem._rounded(b.worth)))
      || coalesce((select jsonb_object_agg(a.arm, remem._rounded(a.share))
        from unnest(aux_arms, aux_nos, aux_shares) a (arm, memory_no, share) where a.memory_no = b.memory_no), '{}'),
    null::text[],
    nullif(t.memory_nos[2:], '{}'),
    null::bigint)::remem._scored
  from best t join fused b on b.memory_no = t.memory_nos[1]
  order by b.total desc, b.memory_no);
end
$$;
comment on function remem._score(remem._query, remem.embedding_space, bigint[], float8[], float8[], float8[], int[], int[], text[], bigint[], float8[],
  float8, jsonb, text, boolean, int, float8, text) is 'The best candidates with score, absolute relevance and signals.';

-- The call of _score out of a run's results: the finds of phrase, attribute and pointer are what it knows as aux, their
-- scores relative to the best of their arm. Ranks are only made for the fusion that wants them.
create or replace function remem._score_candidates(
  query remem._query, space remem.embedding_space, memory_nos bigint[], cosines float8[], scores float8[], matched float8[],
  results remem._arm_result[], vector_share float8, weights jsonb, options jsonb, k int
) returns remem._scored[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_result remem._arm_result;
  v_arms text[];
  v_nos bigint[];
  v_shares float8[];
  v_vector_ranks int[];
  v_lexical_ranks int[];
begin
  foreach v_result in array results loop
    if v_result.arm in ('phrase', 'attribute', 'pointer') and cardinality(v_result.memory_nos) > 0 then
      v_arms := v_arms || array_fill(v_result.arm, array[cardinality(v_result.memory_nos)]);
      v_nos := v_nos || v_result.memory_nos;
      v_shares := v_shares || array(select s / nullif(v_result.scores[1], 0) from unnest(v_result.scores) s);
    end if;
  end loop;
  if options ->> 'fusion' = 'rrf' then
    select array_agg(case when r.cosine is not null then r.vector_rank end order by r.n),
      array_agg(case when r.score > 0 then r.lexical_rank end order by r.n) into v_vector_ranks, v_lexical_ranks
    from (
      select c.*, rank() over (order by c.cosine desc nulls last)::int as vector_rank, rank() over (order by c.score desc)::int as lexical_rank
      from unnest(cosines, scores) with ordinality c (cosine, score, n)) r;
  end if;
  return remem._score(query, space, memory_nos, cosines, scores, matched, v_vector_ranks, v_lexical_ranks, v_arms, v_nos, v_shares,
    vector_share, weights, options ->> 'fusion', options ->> 'mode' <> 'retrieval_only', k, (options ->> 'min_relevance')::float8,
    options ->> 'kind');
end
$$;
comment on function remem._score_candidates(remem._query, remem.embedding_space, bigint[], float8[], float8[], float8[],
  remem._arm_result[], float8, jsonb, jsonb, int) is 'Scores the candidates of a run.';
