-- Query preparation: from the caller's words to what the arms look for.

-- Inverse document frequency of BM25 in the form that is never negative (Robertson and Zaragoza 2009; Lucene).
create or replace function remem._idf(documents bigint, frequency bigint) returns float8
language sql immutable parallel safe
return ln(1 + (greatest(documents, frequency) - frequency + 0.5) / (frequency + 0.5));
comment on function remem._idf(bigint, bigint) is 'BM25 inverse document frequency, never negative.';

-- Distinct lexemes of a query with their document frequencies, rare ones first. That of a frequent word stands in the
-- statistic, as far as the workspace has one (`counted`, see 24_frequent_words). Otherwise it is counted exactly up to `cap`
-- by the index alone. Beyond, it is estimated from what eight windows hold that cover a fifth of the workspace, one
-- in every eighth of it and none at the same place there, so that a word that came up only lately or in bursts is taken
-- for what it is. Of a long query the 64 rarest lexemes that occur are asked, told apart by a short count.
create or replace function remem._query_terms(
  workspace text, query text, dictionaries regdictionary[], documents bigint, counted bigint, cap int,
  out lexemes text[], out frequencies bigint[], out idfs float8[], out idf_mass float8
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- where few words are all there are, a word that is not among them is thought to be met soon
as $$
declare
  c_sample constant int := 40;
  v_key bigint := remem._workspace_key(workspace);
  v_growth float8 := case when remem._words_are_counted(documents, counted) then documents / counted::float8 end;
begin
  lexemes := array(select x.lexeme from remem._lexemes(left(query, 20000), dictionaries) x);
  begin
    if cardinality(lexemes) > 64 then
      lexemes := array(
        select l.lexeme from unnest(lexemes) l (lexeme)
        cross join lateral (select count(*) as n from (select from remem.posting p
          where p.workspace_key = v_key and p.word = remem._word(l.lexeme) limit 200) s) c
        order by c.n = 0, c.n, l.lexeme limit 64);
    end if;
    select coalesce(array_agg(t.lexeme), '{}'), coalesce(array_agg(t.n), '{}'), array_agg(remem._idf(documents, t.n)), sum(remem._idf(documents, t.n))
    into lexemes, frequencies, idfs, idf_mass
    from (
      select l.lexeme, coalesce((select (f.memories * v_growth)::bigint from remem.frequent_word f
          where v_growth is not null and f.workspace_key = v_key and f.word = remem._word(l.lexeme)),
        (select count(*) from (select from remem.posting p
          where p.workspace_key = v_key and p.word = remem._word(l.lexeme) limit cap + 1) s)) as n
      from unnest(lexemes) l (lexeme)
      order by 2, 1) t;
    -- What was counted stops at cap + 1.
    if cap + 1 = any (frequencies) then
      with room as materialized (
        select b.low, greatest((b.high - b.low + 1) / 40, 1) as width
        from (select (select min(m.memory_no) from remem.memory m where m.workspace = _query_terms.workspace) as low,
          (select max(m.memory_no) from remem.memory m where m.workspace = _query_terms.workspace) as high) b
      )
      select array_agg(t.lexeme), array_agg(t.n), array_agg(remem._idf(documents, t.n)), sum(remem._idf(documents, t.n))
      into lexemes, frequencies, idfs, idf_mass
      from (
        select f.lexeme, case when f.n <> cap + 1 then f.n else least(greatest(documents, f.n), greatest(f.n, (
            select 5 * sum(x.n * case when x.n = c_sample then r.width / (x.last - p.start + 1)::float8 else 1 end)
            from room r
            cross join lateral (select r.low + ((5 * i + 4 * (i * 0.618 % 1)) * r.width)::bigint as start from generate_series(0, 7) i) p
            cross join lateral (select count(*) as n, max(s.memory_no) as last from (
              select o.memory_no from remem.posting o where o.workspace_key = v_key and o.word = remem._word(f.lexeme)
                and o.memory_no >= p.start and o.memory_no < p.start + r.width order by o.memory_no limit c_sample) s) x)::bigint)) end as n
        from unnest(lexemes, frequencies) f (lexeme, n)
        order by 2, 1) t;
    end if;
  exception when others then
    frequencies := array_fill(0::bigint, array[cardinality(lexemes)]);  -- the arm meets the broken table, and says so
    idfs := array_fill(remem._idf(documents, 0), array[cardinality(lexemes)]);
  end;
  idfs := coalesce(idfs, '{}');
end
$$;
comment on function remem._query_terms(text, text, regdictionary[], bigint, bigint, int) is 'The lexemes a query asks for, rarest first.';

-- A question in the form its answer has: "when did Ann visit Rome?" asks for "Ann visit Rome". English only;
-- null where it changes nothing. Deterministic, so that the same question always expands alike.
create or replace function remem._statement(query text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select nullif(btrim(regexp_replace(regexp_replace(query collate "C",
    '^\s*((when|where|why|how|what|which|who|whom|whose)\y(\s+(many|much|often|long|kind of|type of|time))?\s*)?'
    '((did|does|do|is|are|was|were|has|have|had|can|could|will|would|should)\y\s*)?', '', 'i'), '[?\s]+$', '')), btrim(query))
$$;
comment on function remem._statement(text) is 'The words of a question without its interrogative frame.';

-- Days that a query names, as a half-open interval: 2023-05-08, May 2023, 8 May 2023, May 8, 2023, yesterday,
-- last week, last month, last year (in UTC, seen from `at`).
create or replace function remem._time_hint(folded text, at timestamptz, out time_from timestamptz, out time_to timestamptz)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set timezone = 'UTC'
as $$
declare
  c_months constant text := 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec';
  v_match text[];
  v_day date;
begin
  v_match := regexp_match(folded collate "C", '\y(\d{4})-(\d{2})-(\d{2})\y');
  if v_match is null then
    v_match := (select array[m[3], lpad(((position(m[2] in c_months) + 3) / 4)::text, 2, '0'), m[1]]
      from regexp_match(folded collate "C", '\y(\d{1,2})(?:st|nd|rd|th)? (?:of )?(' || c_months || ')[a-z]*,? (\d{4})\y') m where m is not null);
  end if;
  if v_match is null then
    v_match := (select array[m[3], lpad(((position(m[1] in c_months) + 3) / 4)::text, 2, '0'), m[2]]
      from regexp_match(folded collate "C", '\y(' || c_months || ')[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\y') m where m is not null);
  end if;
  if v_match is not null then
    begin
      v_day := make_date(v_match[1]::int, v_match[2]::int, v_match[3]::int);
      time_from := v_day; time_to := v_day + 1;
    exception when datetime_field_overflow then
      null;  -- 31 February names no day
    end;
    return;
  end if;
  v_match := regexp_match(folded collate "C", '\y(' || c_months || ')[a-z]*,? (\d{4})\y');
  if v_match is not null and v_match[2]::int between 1 and 9998 then
    time_from := make_date(v_match[2]::int, (position(v_match[1] in c_months) + 3) / 4, 1);
    time_to := time_from + interval '1 month';
  elsif folded ~ '\yyesterday\y' then
    time_from := date_trunc('day', at) - interval '1 day'; time_to := date_trunc('day', at);
  elsif folded ~ '\ytoday\y' then
    time_from := date_trunc('day', at); time_to := time_from + interval '1 day';
  elsif folded ~ '\ylast (week|month|year)\y' then
    v_match := regexp_match(folded collate "C", '\ylast (week|month|year)\y');
    time_to := date_trunc(v_match[1], at); time_from := time_to - ('1 ' || v_match[1])::interval;
  end if;
end
$$;
comment on function remem._time_hint(text, timestamptz) is 'The time a query names, in UTC.';

-- The prepared query and what it lacks. The caller has found the workspace and checked the options.
create or replace function remem._prepare_query(
  workspace remem.workspace, space remem.embedding_space, query text, query_embedding real[], options jsonb, arms text[],
  kind_hint text, out prepared remem._query, out embedding_ms float8, out degraded text[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_cap constant int := 1000;        -- up to which document frequencies are counted
  c_few constant int := 250;         -- memories that are looked at sooner than sampled
  c_resolved constant int := 5000;   -- rows that a filter is resolved to
  v_workspace text := workspace.workspace;
  v_space_no int := space.space_no;
  v_dictionaries regdictionary[] := remem._language_dictionaries(workspace.language);
  v_asked text := left(query, 20000);
  v_expanded text;
  v_counts record;
  v_terms record;
  v_vector record;
  v_time record;
  v_shards record;
  v_share float8;                    -- of the memories, that passes
  v_started timestamptz;
begin
  embedding_ms := 0;
  degraded := '{}';
  prepared.workspace := v_workspace;
  prepared.space_no := v_space_no;
  prepared.text := query;
  prepared.folded := remem._fold(v_asked);
  prepared.words := remem._words(prepared.folded);
  prepared.kind_hint := kind_hint;
  select coalesce(sum(t.rows_delta) filter (where t.space_no = 0), 0) as documents,
    coalesce(sum(t.doc_len_delta) filter (where t.space_no = 0), 0) as doc_len,
    coalesce(sum(t.rows_delta) filter (where t.space_no = v_space_no), 0) as vectors,
    exists (select from remem.memory m where m.workspace = v_workspace and (m.valid_from is not null or m.valid_to is not null)
      and m.superseded_at is null and m.forgotten_at is null and (m.valid_to <= now() or m.valid_from > now())) as check_validity
  into v_counts
  from remem.tally t where t.workspace = v_workspace and t.space_no in (0, v_space_no);
  prepared.documents := v_counts.documents;
  prepared.mean_len := greatest(v_counts.doc_len::float8 / greatest(v_counts.documents, 1), 1);
  prepared.vectors := v_counts.vectors;
  prepared.check_validity := v_counts.check_validity;
  prepared.as_of := (options ->> 'as_of')::timestamptz;

  -- Web-search syntax: "quoted phrases" and -excluded words (a hyphen before a letter).
  if v_asked ~ '["\u201c\u201e\u00ab]' then
    prepared.phrases := array(select btrim(regexp_replace(m[1], '\s+', ' ', 'g')) from regexp_matches(prepared.folded collate "C",
      '["\u201c\u201e\u00ab]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,250})["\u201c\u201d\u00bb]', 'g') m where btrim(m[1]) <> '' limit 8);
  end if;
  if strpos(v_asked, '-') > 0 and v_asked ~ '(^|\s)-[^\s0-9"-]' then
    prepared.excluded := array(select distinct l.lexeme
      from regexp_matches(v_asked collate "C", '(?:^|\s)-([^\s0-9"-][^\s"]*)', 'g') m cross join lateral remem._lexemes(m[1], v_dictionaries) l limit 16);
    v_asked := regexp_replace(v_asked collate "C", '(^|\s)-[^\s0-9"-][^\s"]*', ' ', 'g');
  end if;

  -- Terms of the query and, apart, those an expansion adds: both are kept, so that the trace can tell.
  v_terms := remem._query_terms(v_workspace, v_asked, v_dictionaries, prepared.documents, workspace.words_counted, c_cap);
  prepared.original_lexemes := v_terms.lexemes;
  prepared.idf_mass := v_terms.idf_mass;
  v_expanded := case jsonb_typeof(options -> 'expanded')
    when 'array' then (select string_agg(left(e, 2000), E'\n') from jsonb_array_elements_text(remem._list_of(options -> 'expanded')) e)
    when 'string' then remem._statement(left(query, 2000)) end;
  if v_expanded is not null then
    v_terms := remem._query_terms(v_workspace, concat_ws(E'\n', v_asked, v_expanded), v_dictionaries, prepared.documents, workspace.words_counted, c_cap);
    prepared.expanded_lexemes := array(select l from unnest(v_terms.lexemes) l where l <> all (prepared.original_lexemes));
    -- An added term is a guess: it counts for less than half of what was asked.
    v_terms.idfs := array(select case when l.lexeme = any (prepared.original_lexemes) then l.idf else 0.4 * l.idf end
      from unnest(v_terms.lexemes, v_terms.idfs) with ordinality l (lexeme, idf, n) order by l.n);
  end if;
  prepared.lexemes := v_terms.lexemes;
  prepared.frequencies := v_terms.frequencies;
  prepared.idfs := v_terms.idfs;

  if arms && '{vector,fusion}' then
    v_started := clock_timestamp();
    v_vector := remem._query_vector(space, query, query_embedding, options);
    embedding_ms := remem._ms(v_started);
    prepared.vector := v_vector.vector; prepared.more_vectors := v_vector.more; degraded := v_vector.degraded;
    -- Rows that wait for their vector, here or in the space that is to follow. The built-in space lacks only texts
    -- without features, and another model's empty texts are known.
    if workspace.next_space_no is not null or v_space_no <> 1 and prepared.vectors < prepared.documents
       and prepared.vectors + remem._empty_texts(v_workspace, v_space_no) < prepared.documents then
      degraded := array_append(degraded, 'stale_rows');
    end if;
  end if;
  if remem._text_index(workspace) <> 'current' then
    degraded := array_append(degraded, 'analyser_mix');
  end if;
  if cardinality(prepared.lexemes) = 0 and 'lexical' = any (arms) then
    degraded := array_append(degraded, 'no_lexemes');
  end if;

  -- A selective filter is resolved first and searched exactly; otherwise the arms check rows as they go.
  if workspace.scoped or coalesce(options -> 'filter', 'null') <> 'null' or coalesce(options -> 'kinds', 'null') <> 'null'
     or coalesce(options -> 'scopes', 'null') <> 'null' then
    prepared.row_filter := remem._row_filter(v_workspace, options);
    if workspace.scoped then
      prepared.scope_filter := remem._scope_path(v_workspace, options -> 'scopes')::jsonpath;
    end if;
  end if;
  if prepared.as_of is null and (prepared.row_filter is not null or prepared.check_validity) then  -- of the past, arms check as they go
    v_share := case when prepared.documents <= c_few then 0 else remem._passing_share(v_workspace, prepared.row_filter) end;
    prepared.selective := v_share < 0.25;
    if prepared.row_filter is not null and prepared.selective and v_share * prepared.documents <= 2 * c_resolved then
      prepared.allowed := remem._resolve_filter(v_workspace, prepared.row_filter, c_resolved);
    end if;
  end if;

  if options ->> 'shard_by' is not null and prepared.as_of is null then
    v_shards := remem._shards(v_workspace, options);
    prepared.shards := v_shards.kinds; prepared.shard_filters := v_shards.filters;
  end if;

  -- What the query points at: names (topic keys and subjects are among them) and sessions by their refs.
  if 'pointer' = any (arms) and prepared.as_of is null then
    begin
      prepared.entities := remem._query_entities(v_workspace, prepared.folded);
    exception when others then  -- a broken index of names costs the names
      degraded := array_append(degraded, 'arm_failed:pointer');
    end;
  end if;
  -- One probe a word: as a condition over the sessions the split would run for each of them.
  prepared.session_nos := array(
    select distinct s.session_no
    from unnest((string_to_array(btrim(regexp_replace(v_asked, '[\s,;?!"]+', ' ', 'g')), ' '))[1:100]) w (word)
    cross join lateral (select x.session_no from remem.session x
      where x.workspace = v_workspace and x.session_ref = w.word offset 0) s);
  if prepared.folded collate "C" ~ '[0-9]|yesterday|today|last' then
    v_time := remem._time_hint(prepared.folded, coalesce(prepared.as_of, now()));
    prepared.time_from := v_time.time_from; prepared.time_to := v_time.time_to;
  end if;
end
$$;
comment on function remem._prepare_query(remem.workspace, remem.embedding_space, text, real[], jsonb, text[], text) is
  'Query preparation: terms, phrases, names, time and kind hints, vector, filter.';

-- The query's vector: the caller's, if it is of this space; ours where the space is the built-in one or has its model
-- in the database. Scaled to
-- length one: half precision neither overflows nor vanishes.
create or replace function remem._query_vector(
  space remem.embedding_space, query text, query_embedding real[], options jsonb, out vector real[], out more jsonb, out degraded text[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_extra jsonb;
  v_vector real[];
  v_own record;
begin
  degraded := '{}';
  vector := query_embedding;
  if vector is not null and options ->> 'space' not in (space.name, space.fingerprint) then
    degraded := array_append(degraded, 'space_mismatch');
    vector := null;
  elsif vector is not null then
    perform remem._check_vector(vector, space, 0);
    vector := @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::real[];
    if jsonb_typeof(options -> 'expanded_embeddings') = 'array' then
      for v_extra in select e from jsonb_array_elements(options -> 'expanded_embeddings') e loop
        v_vector := array(select n::real from jsonb_array_elements_text(v_extra) n);
        perform remem._check_vector(v_vector, space, 0);
        if not 0 = all (v_vector) then  -- a zero vector has no direction
          more := coalesce(more, '[]') || jsonb_build_array(v_extra);
        end if;
      end loop;
    end if;
  end if;
  if vector is null and space.space_no = 1 then
    vector := remem._hash_embed(query);
    v_vector := case when options -> 'expanded' = '"statement"' then remem._hash_embed(remem._statement(left(query, 2000))) end;
    if not 0 = all (v_vector) then
      more := jsonb_build_array(v_vector);
    end if;
  elsif vector is null then
    v_own := remem._embed_query(space, query, options);
    vector := v_own.vector; more := v_own.more;
    if v_own.problem is not null then
      degraded := array_append(degraded, v_own.problem);
    end if;
  end if;
  if vector is null then
    degraded := array_append(degraded, 'no_embedding');
  elsif 0 = all (vector) then
    degraded := array_append(degraded, 'zero_vector');
    vector := null;
  end if;
end
$$;
comment on function remem._query_vector(remem.embedding_space, text, real[], jsonb) is 'The vectors a query is searched with.';

-- The share of the memories that passes a filter and is valid, by up to eight each of the eight parts into which their
-- numbers fall. What most memories pass (those of everybody, in a workspace where some have an owner) is not worth
-- resolving: reading thousands of rows costs more than looking at the few that the arms find.
create or replace function remem._passing_share(workspace text, row_filter jsonpath) returns float8
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_workspace text := workspace;
  v_low bigint := (select min(m.memory_no) from remem.memory m where m.workspace = v_workspace);
  v_width bigint := ((select max(m.memory_no) from remem.memory m where m.workspace = v_workspace) - v_low) / 8;
begin
  return (
    select avg(((row_filter is null or r.attrs @@ row_filter)
      and (r.valid_from is null or r.valid_from <= now()) and (r.valid_to is null or r.valid_to > now()))::int::float8)
    from generate_series(0, 7) w (no)
    cross join lateral (
      select m.attrs, m.valid_from, m.valid_to from remem.memory m
      where m.workspace = v_workspace and m.memory_no >= v_low + w.no * v_width
        and (w.no = 7 or m.memory_no < v_low + (w.no + 1) * v_width) order by m.memory_no limit 8) r);
exception when feature_not_supported then
  perform remem._refuse_filter(sqlerrm);
end
$$;
comment on function remem._passing_share(text, jsonpath) is 'The share of a workspace that passes a filter, by a sample of 64.';

-- The rows that pass a filter, when there are at most `most`; null when there are more.
create or replace function remem._resolve_filter(workspace text, row_filter jsonpath, most int default 5000) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_allowed bigint[];
  v_problem text;
begin
  -- EXECUTE: the plan depends on the filter's value, a cached one would forget the GIN index.
  execute format('select array_agg(s.memory_no) from (select m.memory_no from remem.memory m where m.workspace = $1 and m.attrs @@ %L'
    ' and m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())'
    ' and (m.valid_to is null or m.valid_to > now()) limit %s) s', row_filter, most + 1)
  into v_allowed using workspace;
  v_allowed := coalesce(v_allowed, '{}');
  return case when cardinality(v_allowed) <= most then v_allowed end;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem._resolve_filter(text, jsonpath, int) is 'Resolves a selective filter to its rows.';
