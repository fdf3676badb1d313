-- The lexical arm: BM25 over the posting table, any term may match (an AND query finds nothing for questions).

-- Reads whole posting lists, rarest term first, until `budget` postings are spent; of the longer lists only the
-- newest part, enough for n rows, and their scores are looked up for the best candidates, so that every score
-- is complete all the same. With `allowed` every term is looked up for those rows and nothing is left out. Every
-- read is an index-only scan. `also` are rows that another arm found: scored too, and marked as not `own`.
-- units: BM25 of whole sessions, for the sessions of the candidates; a memory outside of any session is a
-- session of its own, numbered -memory_no, so that it is not behind for standing alone.
-- k1 = 1.2 and b = 0.3: memories are short, and a short one is not more to the point for being short; whole
-- sessions take the usual k1 = 1.5, b = 0.75 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).
create or replace function remem._arm_lexical(
  workspace text, lexemes text[], frequencies bigint[], idfs float8[], n int, budget int, mean_len float8, also bigint[],
  allowed bigint[], row_filter jsonpath, check_validity boolean,
  out memory_nos bigint[], out scores float8[], out matched float8[], out own boolean[],
  out units bigint[], out unit_scores float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off  -- a bitmap of all sessions comes before the first of a sample
as $$
declare
  c_units constant int := 2000;  -- postings that sessions are scored by
  -- As float8: a literal times a smallint would be reckoned in numeric, at three times the cost of the whole read.
  v_base float8 := 1.2 * 0.7;
  v_slope float8 := 1.2 * 0.3 / mean_len;
  v_check boolean := allowed is null and (row_filter is not null or check_validity);
  v_unit_terms int := (select coalesce(max(t.no) filter (where t.total <= c_units), min(t.no))
    from (select f.no, f.n, sum(f.n) over (order by f.no) as total from unnest(frequencies) with ordinality f (n, no) where f.n > 0) t);
  v_certain boolean := false;
  v_budget int;
begin
  -- Where the budget does not reach for all words, first a tenth of it. That is enough when the tenth best already scores more than all words together
  -- that were not read to the end (a word gives hardly more than 1.5 times its idf; the bound is 2.2).
  for v_budget in
    select b from unnest(array[budget / 10, budget]) b
    where b = budget or not v_check and allowed is null and (select sum(f) from unnest(frequencies) f) > budget order by b
  loop
    exit when v_certain;
    -- Slim rows on purpose: this passes thousands of them, twice.
    with term as materialized (
      select t.no::int, t.lexeme, t.idf, allowed is not null or t.total <= v_budget as whole,
        case when allowed is not null or t.total <= v_budget then null
          when t.total - t.frequency <= v_budget and (t.no = 1 or row_filter is not null or check_validity) then greatest(v_budget, 3 * n)
          else 3 * n end as part
      from (
        select t.*, sum(t.frequency) over (order by t.no) as total
        from unnest(lexemes, frequencies, idfs) with ordinality t (lexeme, frequency, idf, no)
        where t.frequency > 0
      ) t
    ), found as materialized (
      select t.no, p.memory_no, p.session_no, p.tf, p.doc_len,
        t.idf * 2.2 * p.tf / (p.tf + v_base + v_slope * p.doc_len) as score,
        case when t.whole then t.idf end as matched
      from term t
      cross join lateral (
        select p.memory_no, p.session_no, p.tf, p.doc_len from remem.posting p
        where p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme
        order by p.memory_no desc limit t.part
      ) p
      where allowed is null
      union all
      select t.no, p.memory_no, p.session_no, p.tf, p.doc_len,
        t.idf * 2.2 * p.tf / (p.tf + v_base + v_slope * p.doc_len), t.idf
      from unnest(allowed) a (memory_no)
      cross join term t
      join remem.posting p on p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme and p.memory_no = a.memory_no
      where allowed is not null
    ), partial as materialized (
      select f.memory_no, min(f.session_no) as session_no, sum(f.score) as score,
        coalesce(sum(f.score) filter (where f.matched is not null), 0) as whole_score, coalesce(sum(f.matched), 0) as matched
      from found f group by f.memory_no
    ), bound as materialized (
      -- What the words that were not read to the end can still add; and how many rows could make the best ten by it.
      select b.more, least(greatest(n, case when b.more > 0 then
          (select count(*) from partial p where p.score + b.more >= coalesce((select t.score from partial t order by t.score desc offset 9 limit 1), 0))
        end), 20 * n) as most
      from (select coalesce(1.5 * sum(t.idf) filter (where not t.whole), 0) as more from term t) b
    ), ranked as materialized (
      -- Two limits: without rows to check the inner one is a bounded sort, with them all are in line.
      select r.* from (select s.* from partial s order by s.score desc, s.memory_no limit case when not v_check then (select b.most from bound b) end) r
      where not v_check or (
        select (row_filter is null or m.attrs @@ row_filter)
          and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
        from remem.memory m where m.workspace = _arm_lexical.workspace and m.memory_no = r.memory_no)
      limit (select b.most from bound b)
    ), candidate as materialized (
      select r.memory_no, r.session_no, true as known, r.whole_score as score, r.matched, true as own from ranked r
      union all
      select a.memory_no, p.session_no, p.memory_no is not null, coalesce(p.whole_score, 0), coalesce(p.matched, 0), false
      from unnest(also) a (memory_no)
      left join partial p on p.memory_no = a.memory_no
      where a.memory_no not in (select r.memory_no from ranked r)
    ), rest as (
      select c.memory_no, sum(t.idf * 2.2 * p.tf / (p.tf + v_base + v_slope * p.doc_len)) as score, sum(t.idf) as matched
      from candidate c
      cross join term t
      cross join lateral (  -- offset 0 keeps it one probe a row and word; a join may read the lists it is to avoid
        select p.tf, p.doc_len from remem.posting p
        where p.workspace = _arm_lexical.workspace and p.lexeme = t.lexeme and p.memory_no = c.memory_no offset 0) p
      where not t.whole
      group by c.memory_no
    ), complete as (
      select c.memory_no, c.session_no, c.known, c.score + coalesce(r.score, 0) as score, c.matched + coalesce(r.matched, 0) as matched, c.own,
        row_number() over (partition by c.own order by c.score + coalesce(r.score, 0) desc, c.memory_no) as rank
      from candidate c left join rest r on r.memory_no = c.memory_no
    ), kept as materialized (
      select k.*, coalesce(k.session_no, case when k.known then -k.memory_no end) as unit from complete k where k.rank <= n or not k.own
    ), around as materialized (
      -- A sample is enough for a mean; a workspace without sessions is measured by its memories.
      select count(*) as sessions, greatest(coalesce(avg(s.doc_len), mean_len), 1) as mean_len
      from (select s.doc_len from remem.session s where s.workspace = _arm_lexical.workspace order by s.session_no limit 500) s
    ), unit_term as materialized (
      -- Sessions are told apart by the rare words; the frequent ones occur in nearly all of them.
      select f.no, coalesce(f.session_no, -f.memory_no) as unit, sum(f.tf) as tf, max(f.doc_len) as doc_len
      from found f
      where f.no <= v_unit_terms group by 1, 2
    ), unit_frequency as materialized (
      select t.no, count(*) as n from unit_term t group by t.no
    ), unit_score as (
      select t.unit,
        sum(ln(1 + (greatest(a.sessions, f.n) - f.n + 0.5) / (f.n + 0.5)) * t.tf * 2.5
          / (t.tf + 1.5 * (0.25 + 0.75 * coalesce(s.doc_len, t.doc_len) / a.mean_len))) as score
      from unit_term t
      join unit_frequency f on f.no = t.no
      left join remem.session s on s.workspace = _arm_lexical.workspace and s.session_no = t.unit
      cross join around a
      where (t.unit in (select k.unit from kept k)) is true  -- hashed; as a join it might sort all units
      group by t.unit
    )
    select k.memory_nos, k.scores, k.matched, k.own, u.units, u.scores, coalesce(k.tenth, 0) >= (select b.more from bound b)
    into memory_nos, scores, matched, own, units, unit_scores, v_certain
    from (
      select array_agg(k.memory_no) as memory_nos, array_agg(k.score) as scores, array_agg(k.matched) as matched, array_agg(k.own) as own,
        (array_agg(k.score) filter (where k.own))[10] as tenth
      from (select k.* from kept k order by k.score desc, k.memory_no) k
    ) k
    cross join (select array_agg(u.unit) as units, array_agg(u.score) as scores from unit_score u) u;
  end loop;
end
$$;
comment on function remem._arm_lexical(text, text[], bigint[], float8[], int, int, float8, bigint[], bigint[], jsonpath, boolean) is
  'Best memories by BM25 within a bounded number of postings, with the BM25 of their sessions.';

-- BM25 of given rows, in the order of the list, and the idf mass of the terms each holds.
create or replace function remem._bm25s(
  workspace text, lexemes text[], idfs float8[], mean_len float8, memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_base float8 := 1.2 * 0.7;
  v_slope float8 := 1.2 * 0.3 / mean_len;
begin
  select array_agg(s.score order by s.ordinality), array_agg(s.matched order by s.ordinality) into scores, matched
  from (
    select w.ordinality,
      coalesce(sum(t.idf * 2.2 * p.tf / (p.tf + v_base + v_slope * p.doc_len)), 0) as score,
      coalesce(sum(t.idf) filter (where p.memory_no is not null), 0) as matched
    from unnest(memory_nos) with ordinality w (memory_no, ordinality)
    left join (
      unnest(lexemes, idfs) t (lexeme, idf)
      join remem.posting p on p.workspace = _bm25s.workspace and p.lexeme = t.lexeme and p.memory_no = any (memory_nos)
    ) on p.memory_no = w.memory_no
    group by w.ordinality
  ) s;
end
$$;
comment on function remem._bm25s(text, text[], float8[], float8, bigint[]) is 'The BM25 score of every given row.';
