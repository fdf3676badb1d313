-- The lexical arm: BM25 over the posting table, any term may match (an AND query finds nothing for questions).

-- Whole posting lists are read, rarest term first, within `budget`. The other terms are looked up for the rows that were
-- found, so every score is complete: words that more than a twentieth of the memories hold (c_common) only for the rows
-- that they may still bring among the best n. First only a few lists: as soon as the tenth best row scores more than a row is
-- likely to that holds none of their words, they are enough; otherwise as many more as that takes: of one or two, only the rows
-- that hold another word too, where one word alone does not suffice. Where the lists leave
-- less than n rows, or the first is longer than the budget, the newest rows of the next ones fill up. With query.allowed
-- every term is looked up for those rows and nothing is left out. Every read is an index-only scan.
-- k1 = 1.2 and b = 0.3: memories are short, and a short one is not more to the point for being short
-- (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; leaving lists out by their bounds: Turtle and
-- Flood, Query Evaluation: Strategies and Optimizations, 1995).
create or replace function remem._arm_lexical(
  query remem._query, n int, budget int, out memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
set enable_nestloop = off  -- no estimate sees how many rows there are; what is meant as probes is lateral
as $$
declare
  c_first constant int := 900;         -- postings of the first look
  c_common constant float8 := 0.05;    -- share of the memories above which a word is common
  c_likely constant float8 := 0.85;    -- share of their idfs that such words are taken to add at most
  c_alone constant float8 := 1.15;     -- what one occurrence in a very short memory adds, in idfs
  c_resolved constant int := 200000;   -- rows of a filter that the newest postings did not meet
  -- Out of the record once, and as float8: a literal times a smallint would be reckoned in numeric.
  v_workspace text := query.workspace;
  v_key bigint := remem._workspace_key(query.workspace);
  v_filter jsonpath := query.row_filter;
  v_check boolean := query.row_filter is not null or query.check_validity;
  v_selective boolean := v_check and coalesce(query.selective, true);
  v_base float8 := 1.2 * 0.7;
  v_slope float8 := 1.2 * 0.3 / query.mean_len;
  v_lexemes text[] := query.lexemes;
  v_terms int := cardinality(query.lexemes);
  v_needed int := v_terms;             -- lists without which the best ten are not certain
  v_whole int;                         -- lists that are read to the end
  v_total bigint;                      -- their postings
  v_fill boolean := v_selective;       -- whether the newest rows of the other lists fill up
  v_unread float8;                     -- idfs of the words that are still to be looked up
  v_budget int;
  v_rare int;                          -- words that are looked up for every row that was found
  v_common float8;                     -- what the others are likely to add at most
  v_least float8;                      -- a score that is good enough for the best ten
  v_more bigint[];
  v_rest record;
begin
  if query.allowed is not null then
    v_rest := remem._word_scores(query, query.allowed);
    select array_agg(r.memory_no), array_agg(r.score), array_agg(r.matched) into memory_nos, scores, matched
    from (select * from unnest(query.allowed, v_rest.scores, v_rest.matched) a (memory_no, score, matched)
      where a.score > 0 order by a.score desc, a.memory_no limit n) r;
    return;
  end if;
  foreach v_budget in array array[least(c_first, budget), budget, budget] loop
    v_whole := 0; v_total := 0;
    while v_whole < v_needed and v_total + query.frequencies[v_whole + 1] <= v_budget loop
      v_whole := v_whole + 1;
      v_total := v_total + query.frequencies[v_whole];
    end loop;
    continue when v_budget < budget and v_whole < v_terms and (v_total = 0 or v_selective);
    v_fill := v_fill or v_total = 0;
    v_rare := v_terms; v_common := 0;
    while not v_check and not v_fill and v_rare > v_whole and query.frequencies[v_rare] > c_common * query.documents loop
      v_common := v_common + c_likely * query.idfs[v_rare];
      v_rare := v_rare - 1;
    end loop;
    select array_agg(r.memory_no), array_agg(r.score), array_agg(r.matched) into memory_nos, scores, matched
    from (
      with term as materialized (
        select remem._word(u.lexeme) as word, u.idf, 2.2::float8 * u.idf as weight, u.no
        from unnest(v_lexemes, query.idfs) with ordinality u (lexeme, idf, no)
      ), known as materialized (  -- the same lists are read again below: that is cheaper than to keep their rows
        select array_agg(memory_no order by memory_no) as nos from (
          select p.memory_no from term t cross join lateral (select p.memory_no from remem.posting p
            where p.workspace_key = v_key and p.word = t.word offset 0) p
          where t.no <= v_whole
          union all
          select p.memory_no from term t cross join lateral (select p.memory_no from remem.posting p
            where p.workspace_key = v_key and p.word = t.word order by p.memory_no desc
            limit greatest(case when t.no = v_whole + 1 then v_budget - v_total else 0 end, 3 * n)) p
          where v_fill and t.no > v_whole) k
      ), found as materialized (
        select p.memory_no, sum(p.score) as score, sum(p.idf) as matched
        from (
          select p.memory_no, t.weight * p.tf / (p.tf + v_base + v_slope * p.doc_len) as score, t.idf
          from term t cross join lateral (select p.memory_no, p.tf, p.doc_len from remem.posting p
            where p.workspace_key = v_key and p.word = t.word offset 0) p
          where t.no <= v_whole
          union all
          select p.memory_no, t.weight * p.tf / (p.tf + v_base + v_slope * p.doc_len), t.idf
          from term t cross join lateral (select p.memory_no, p.tf, p.doc_len from remem.posting p
            where p.workspace_key = v_key and p.word = t.word and p.memory_no = any ((select k.nos from known k)::bigint[]) offset 0) p
          where t.no > v_whole and t.no <= v_rare
        ) p
        group by p.memory_no
        order by 2 desc, 1 limit case when v_rare = v_terms and not v_check then n end
      ), close as materialized (
        select f.* from found f
        where v_rare = v_terms or f.score >= (select min(b.score) from (select x.score from found x order by x.score desc limit n) b) - v_common
      )
      select r.* from (
        select f.memory_no, f.score + coalesce(c.score, 0) as score, f.matched + coalesce(c.matched, 0) as matched
        from close f left join (
          select p.memory_no, sum(t.weight * p.tf / (p.tf + v_base + v_slope * p.doc_len)) as score, sum(t.idf) as matched
          from term t cross join lateral (select p.memory_no, p.tf, p.doc_len from remem.posting p
            where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (array(select c.memory_no from close c)) offset 0) p
          where t.no > v_rare
          group by p.memory_no
        ) c on c.memory_no = f.memory_no
        order by 2 desc, 1 limit case when not v_check then n end
      ) r
      where not v_check or (
        select (v_filter is null or m.attrs @@ v_filter)
          and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
        from remem.memory m where m.workspace = v_workspace and m.memory_no = r.memory_no)
      limit n
    ) r;
    exit when v_whole = v_terms or v_fill;
    if coalesce(cardinality(memory_nos), 0) < n then
      v_fill := v_budget = budget;  -- the lists are short of rows: the last round takes the newest of the others
      continue;
    end if;
    exit when v_budget = budget;
    v_least := scores[least(n, 10)];
    v_unread := 0; v_needed := v_terms;
    while v_needed > v_whole loop
      v_unread := v_unread + query.idfs[v_needed];
      exit when v_unread > v_least;
      v_needed := v_needed - 1;
    end loop;
    exit when v_needed = v_whole;
    if v_whole < v_rare and least(v_needed, v_rare) <= v_whole + 2 and c_alone * query.idfs[v_whole + 1] + v_common <= v_least then
      v_more := remem._two_word_rows(query, v_whole, least(v_needed, v_rare), v_rare, budget - v_total, v_least - v_common);
      if cardinality(v_more) > 0 then
        v_rest := remem._word_scores(query, v_more);
        select array_agg(r.memory_no), array_agg(r.score), array_agg(r.matched) into memory_nos, scores, matched
        from (
          select * from unnest(memory_nos, scores, matched) f (memory_no, score, matched)
          union all
          select * from unnest(v_more, v_rest.scores, v_rest.matched) m (memory_no, score, matched) where m.memory_no <> all (memory_nos)
          order by 2 desc, 1 limit n
        ) r;
      end if;
      exit;
    end if;
  end loop;
  if v_check and v_whole < v_terms and coalesce(cardinality(memory_nos), 0) < n then
    -- The newest rows of a common word hardly pass: whatever passes is scored instead, however old it is.
    query.allowed := remem._resolve_filter(v_workspace, format('$.workspace == %s%s', to_jsonb(v_workspace),
      ' && (' || v_filter::text || ')')::jsonpath, c_resolved);
    if query.allowed is not null then
      v_rest := remem._arm_lexical(query, n, budget);
      memory_nos := v_rest.memory_nos; scores := v_rest.scores; matched := v_rest.matched;
    end if;
  end if;
end
$$;
comment on function remem._arm_lexical(remem._query, int, int) is 'Best memories by BM25 within a bounded number of postings.';

-- Rows whose words beyond the first `read` lists may add more than `needed`: two of them at least. The next lists up to the
-- one numbered `last` are read, within `budget`, and of their rows the later words up to the one numbered `rare` looked up.
create or replace function remem._two_word_rows(query remem._query, read int, last int, rare int, budget bigint, needed float8) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
as $$
declare
  c_short constant float8 := 1.4;  -- what two occurrences in a very short memory add, in idfs
  v_workspace text := query.workspace;
  v_key bigint := remem._workspace_key(query.workspace);
  v_filter jsonpath := query.row_filter;
  v_check boolean := query.row_filter is not null or query.check_validity;
  v_whole int := read;
  v_total bigint := 0;
begin
  while v_whole < last and v_total + query.frequencies[v_whole + 1] <= budget loop
    v_whole := v_whole + 1;
    v_total := v_total + query.frequencies[v_whole];
  end loop;
  return array(
    with term as materialized (
      select u.no, u.idf, remem._word(u.lexeme) as word
      from unnest(query.lexemes[:rare], query.idfs[:rare]) with ordinality u (lexeme, idf, no) where u.no > read
    ), listed as materialized (
      select t.no, t.idf, array(select p.memory_no from remem.posting p where p.workspace_key = v_key and p.word = t.word) as nos
      from term t where t.no <= v_whole
    )
    select r.memory_no
    from (
      select distinct p.memory_no
      from listed l cross join term t
      cross join lateral (select p.memory_no from remem.posting p
        where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (l.nos) offset 0) p
      where t.no > l.no
      group by p.memory_no, l.no, l.idf having c_short * (l.idf + sum(t.idf)) > needed
    ) r
    where not v_check or (
      select (v_filter is null or m.attrs @@ v_filter)
        and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
      from remem.memory m where m.workspace = v_workspace and m.memory_no = r.memory_no));
end
$$;
comment on function remem._two_word_rows(remem._query, int, int, int, bigint, float8) is 'Rows that hold two of the words whose lists were not read.';

-- BM25 of given rows by all terms of the query, in the order of the list, and the idf mass each row holds.
create or replace function remem._word_scores(
  query remem._query, memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
set enable_nestloop = off  -- see _arm_lexical
as $$
declare
  v_key bigint := remem._workspace_key(query.workspace);
  v_base float8 := 1.2 * 0.7;
  v_slope float8 := 1.2 * 0.3 / query.mean_len;
begin
  if coalesce(cardinality(query.lexemes), 0) = 0 then
    scores := array_fill(0::float8, array[coalesce(cardinality(memory_nos), 0)]); matched := scores;
    return;
  elsif query.as_of is not null then
    select s.scores, s.matched into scores, matched from remem._word_scores_at(query, memory_nos) s;
    return;
  end if;
  select array_agg(coalesce(s.score, 0) order by w.n), array_agg(coalesce(s.matched, 0) order by w.n) into scores, matched
  from unnest(memory_nos) with ordinality w (memory_no, n)
  left join (
    select p.memory_no, sum(t.idf * 2.2 * p.tf / (p.tf + v_base + v_slope * p.doc_len)) as score, sum(t.idf) as matched
    from (select remem._word(u.lexeme) as word, u.idf from unnest(query.lexemes, query.idfs) u (lexeme, idf)) t
    cross join lateral (select p.memory_no, p.tf, p.doc_len from remem.posting p
      where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (memory_nos) offset 0) p
    group by p.memory_no
  ) s on s.memory_no = w.memory_no;
end
$$;
comment on function remem._word_scores(remem._query, bigint[]) is 'The BM25 score of every given row.';
