-- as_of: what was known at a moment, over live and past rows. The two main arms and the scores read both; what is not
-- kept of the past (names, links, pools) is not asked. Slower than a recall of now: past vectors have no index.

-- Whether a row was known at a moment, was not superseded by then, and held then. What is forgotten never was.
create or replace function remem._known_at(memory remem.memory, at timestamptz) returns boolean
language sql immutable parallel safe
return memory.created_at <= at and (memory.superseded_at is null or memory.superseded_at > at) and memory.forgotten_at is null
  and (memory.valid_from is null or memory.valid_from <= at) and (memory.valid_to is null or memory.valid_to > at);
comment on function remem._known_at(remem.memory, timestamptz) is 'Whether a row belongs to what was known at a moment.';

-- Nearest by cosine: the live rows by the index where there are many, the past ones exactly, each looked up until n were
-- known at that moment.
create or replace function remem._arm_vector_at(query remem._query, n int, out memory_nos bigint[], out scores float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set hnsw.iterative_scan = 'strict_order'
set hnsw.ef_search = 80
as $$
declare
  c_exact constant int := 20000;
  v_exact boolean := query.vectors <= c_exact;
  v_part constant text := '(select e.memory_no, e.embedding operator(@extschema:vector@.<=>) $2 as distance from remem.%I e'
    ' where e.workspace = $1 and (select remem._known_at(m, $3) and ($4 is null or m.attrs @@ $4)'
    ' from remem.memory m where m.workspace = $1 and m.memory_no = e.memory_no) order by %s limit %s)';
  -- The inner offset 0 keeps the order from the HNSW index, which passes over everybody's rows.
  v_sorted constant text := '(select s.memory_no, s.distance from (select d.* from ('
    'select e.memory_no, e.embedding operator(@extschema:vector@.<=>) $2 as distance from remem.%I e where e.workspace = $1 offset 0) d'
    ' order by d.distance, d.memory_no offset 0) s where (select remem._known_at(m, $3) and ($4 is null or m.attrs @@ $4)'
    ' from remem.memory m where m.workspace = $1 and m.memory_no = s.memory_no) limit %s)';
  v_live text := format('embedding_%s', query.space_no);
begin
  loop
    execute 'select array_agg(x.memory_no), array_agg(1 - x.distance) from (select u.* from ('
      || case when v_exact then format(v_sorted, v_live, n)
        else format(v_part, v_live, 'e.embedding operator(@extschema:vector@.<=>) $2', n) end
      || ' union all ' || format(v_sorted, v_live || '_past', n) || ') u order by u.distance, u.memory_no limit ' || n || ') x'
    into memory_nos, scores
    using query.workspace, query.vector::@extschema:vector@.halfvec, query.as_of, query.row_filter;
    exit when v_exact or cardinality(memory_nos) = n;
    v_exact := true;  -- the index gave up before it had enough
  end loop;
  memory_nos := coalesce(memory_nos, '{}');
  scores := coalesce(scores, '{}');
end
$$;
comment on function remem._arm_vector_at(remem._query, int) is 'The vector arm over what was known at a moment.';

-- BM25 over the postings of live and past rows, an equal share of the budget for each word, the newest of that time first.
create or replace function remem._arm_lexical_at(
  query remem._query, n int, budget int, out memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
set enable_nestloop = off  -- see _arm_lexical
as $$
declare
  v_workspace text := query.workspace;
  v_key bigint := remem._workspace_key(query.workspace);
  v_at timestamptz := query.as_of;
  v_filter jsonpath := query.row_filter;
  v_last bigint := remem._last_at(query.workspace, query.as_of);
  v_each int := greatest(2 * budget / greatest(cardinality(query.lexemes), 1), 4 * n);
  v_found bigint[];
  v_rest record;
begin
  v_found := array(
    select h.memory_no from (
      select p.memory_no, sum(p.weight) as weight
      from (
        select x.memory_no, t.idf * 2.2 * x.tf / (x.tf + 0.84 + 0.36 * x.doc_len / query.mean_len) as weight
        from (select remem._word(u.lexeme) as word, u.idf from unnest(query.lexemes, query.idfs) u (lexeme, idf)) t
        cross join lateral (
          (select p.memory_no, p.tf, p.doc_len from remem.posting p
           where p.workspace_key = v_key and p.word = t.word and p.memory_no <= v_last order by p.memory_no desc limit v_each)
          union all
          (select p.memory_no, p.tf, p.doc_len from remem.posting_past p
           where p.workspace_key = v_key and p.word = t.word and p.memory_no <= v_last order by p.memory_no desc limit v_each)
        ) x
      ) p
      group by p.memory_no order by 2 desc, 1 desc offset 0
    ) h
    where (select remem._known_at(m, v_at) and (v_filter is null or m.attrs @@ v_filter)
      from remem.memory m where m.workspace = v_workspace and m.memory_no = h.memory_no)
    limit 2 * n);
  if v_filter is not null and cardinality(v_found) < n then
    -- The newest rows of the words hardly pass: whatever passes is scored instead.
    v_found := remem._resolve_filter_at(v_workspace, v_filter, v_at);
  end if;
  v_rest := remem._word_scores(query, v_found);
  select array_agg(r.memory_no), array_agg(r.score), array_agg(r.matched) into memory_nos, scores, matched
  from (select * from unnest(v_found, v_rest.scores, v_rest.matched) f (memory_no, score, matched)
    where f.score > 0 order by f.score desc, f.memory_no limit n) r;
end
$$;
comment on function remem._arm_lexical_at(remem._query, int, int) is 'The lexical arm over what was known at a moment.';

-- The rows that pass a filter and were known at a moment, at most 200,000 of them. EXECUTE as in _resolve_filter.
create or replace function remem._resolve_filter_at(workspace text, row_filter jsonpath, at timestamptz) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_found bigint[];
begin
  execute format('select array_agg(s.memory_no) from (select m.memory_no from remem.memory m where m.workspace = $1 and m.attrs @@ %L'
    ' and remem._known_at(m, $2) limit 200000) s', row_filter) into v_found using workspace, at;
  return coalesce(v_found, '{}');
end
$$;
comment on function remem._resolve_filter_at(text, jsonpath, timestamptz) is 'Resolves a filter to the rows of a moment.';

-- About the last number that was given before a moment and an hour, by halving: numbers rise with time, but for
-- transactions that took long.
create or replace function remem._last_at(workspace text, at timestamptz) returns bigint
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_low bigint := 0;
  v_high bigint := (select max(m.memory_no) from remem.memory m where m.workspace = _last_at.workspace);
  v_row record;
begin
  while v_low < v_high loop
    select m.memory_no, m.created_at into v_row from remem.memory m
    where m.workspace = _last_at.workspace and m.memory_no > (v_low + v_high) / 2 order by m.memory_no limit 1;
    if v_row.created_at <= at + interval '1 hour' then
      v_low := v_row.memory_no;
    else
      v_high := (v_low + v_high) / 2;
    end if;
  end loop;
  return coalesce(v_high, 0);
end
$$;
comment on function remem._last_at(text, timestamptz) is 'The highest number of what was written by a moment.';

create or replace function remem._cosines_at(query remem._query, memory_nos bigint[]) returns float8[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_cosines float8[];
begin
  execute format('select array_agg(1 - (coalesce(e.embedding, p.embedding) operator(@extschema:vector@.<=>) $2) order by w.ordinality)'
    ' from unnest($3) with ordinality w (memory_no, ordinality)'
    ' left join remem.embedding_%1$s e on e.workspace = $1 and e.memory_no = w.memory_no'
    ' left join remem.embedding_%1$s_past p on p.workspace = $1 and p.memory_no = w.memory_no', query.space_no)
  into v_cosines using query.workspace, query.vector::@extschema:vector@.halfvec, memory_nos;
  return v_cosines;
end
$$;
comment on function remem._cosines_at(remem._query, bigint[]) is 'The cosine of every given row, live or past, to the query.';

create or replace function remem._word_scores_at(query remem._query, memory_nos bigint[], out scores float8[], out matched float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
set enable_nestloop = off  -- see _arm_lexical
as $$
declare
  v_key bigint := remem._workspace_key(query.workspace);
begin
  select array_agg(coalesce(s.score, 0) order by w.n), array_agg(coalesce(s.matched, 0) order by w.n) into scores, matched
  from unnest(memory_nos) with ordinality w (memory_no, n)
  left join (
    select p.memory_no, sum(t.idf * 2.2 * p.tf / (p.tf + 0.84 + 0.36 * p.doc_len / query.mean_len)) as score, sum(t.idf) as matched
    from (select remem._word(u.lexeme) as word, u.idf from unnest(query.lexemes, query.idfs) u (lexeme, idf)) t
    cross join lateral (
      (select p.memory_no, p.tf, p.doc_len from remem.posting p
       where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (memory_nos) offset 0)
      union all
      (select p.memory_no, p.tf, p.doc_len from remem.posting_past p
       where p.workspace_key = v_key and p.word = t.word and p.memory_no = any (memory_nos) offset 0)) p
    group by p.memory_no
  ) s on s.memory_no = w.memory_no;
end
$$;
comment on function remem._word_scores_at(remem._query, bigint[]) is 'The BM25 score of every given row, live or past.';

-- The option as_of: a time with its zone, for a time without one would mean another moment on another server.
create or replace function remem._check_as_of(value jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  if jsonb_typeof(value) = 'string' and value #>> '{}' ~ '^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)? ?(Z|[+-]\d{2}(:?\d{2})?)$' then
    perform (value #>> '{}')::timestamptz;
    return;
  end if;
  perform remem._raise('RM001', jsonb_build_object('argument', 'as_of', 'value', value),
    'A time with its zone, such as "2026-03-01T09:30:00Z"');
exception when data_exception then
  perform remem._raise('RM001', jsonb_build_object('argument', 'as_of', 'value', value),
    'A time with its zone, such as "2026-03-01T09:30:00Z"');
end
$$;
comment on function remem._check_as_of(jsonb) is 'Refuses what is no moment.';
