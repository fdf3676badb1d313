-- Query preparation: from the caller's words to what the arms look for.

-- Inverse document frequency of BM25 in the form that is never negative (Robertson and Zaragoza 2009; Lucene).
create or replace function remem._idf(documents bigint, frequency bigint) returns float8
language sql immutable parallel safe
return ln(1 + (greatest(documents, frequency) - frequency + 0.5) / (frequency + 0.5));
comment on function remem._idf(bigint, bigint) is 'BM25 inverse document frequency, never negative.';

-- Distinct lexemes of a query with their document frequencies, rare ones first. A frequency is counted
-- exactly up to `cap` by the index alone; beyond, the middle between cap and all is assumed. Of a long query
-- the 64 rarest lexemes that occur are asked, told apart by a short count.
create or replace function remem._query_terms(
  workspace text, query text, dictionaries regdictionary[], documents bigint, cap int,
  out lexemes text[], out frequencies bigint[], out idfs float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  select coalesce(array_agg(t.lexeme order by t.frequency, t.lexeme), '{}'),
    coalesce(array_agg(t.frequency order by t.frequency, t.lexeme), '{}'),
    coalesce(array_agg(remem._idf(documents, t.frequency) order by t.frequency, t.lexeme), '{}')
  into lexemes, frequencies, idfs
  from (
    select l.lexeme,
      case when c.n > cap then greatest(cap, sqrt(cap::float8 * documents)::bigint) else c.n end as frequency
    from (
      select a.lexeme,
        row_number() over (order by case when a.asked > 64 then (
          select count(*) + case when count(*) = 0 then 1000 else 0 end from (
            select from remem.posting p
            where p.workspace = _query_terms.workspace and p.lexeme = a.lexeme limit 200) s) end, a.lexeme) as place
      from (
        select x.lexeme, count(*) over () as asked
        from remem._lexemes(left(query, 20000), dictionaries) x
      ) a
    ) l
    cross join lateral (
      select count(*) as n from (
        select from remem.posting p
        where p.workspace = _query_terms.workspace and p.lexeme = l.lexeme limit cap + 1) s
    ) c
    where l.place <= 64
  ) t;
end
$$;
comment on function remem._query_terms(text, text, regdictionary[], bigint, int) is 'The lexemes a query asks for, rarest first.';

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
  out prepared remem._query, out degraded text[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_budget constant int := 20000;
  c_selective constant int := 5000;
  v_dictionaries regdictionary[] := remem._language_dictionaries(workspace.language);
  v_asked text;
  v_expanded text;
  v_terms record;
begin
  degraded := '{}';
  prepared.workspace := workspace.workspace;
  prepared.space_no := space.space_no;
  prepared.text := query;
  prepared.folded := remem._fold(left(query, 20000));
  select t.n, greatest(t.doc_len::float8 / greatest(t.n, 1), 1) into prepared.documents, prepared.mean_len
  from remem._count_tally(workspace.workspace, 0) t;
  prepared.vectors := (remem._count_tally(workspace.workspace, space.space_no)).n;

  -- Web-search syntax: "quoted phrases" and -excluded words (a hyphen before a letter).
  v_asked := left(query, 20000);
  if v_asked ~ '["\u201c\u201e\u00ab]' then
    prepared.phrases := array(select btrim(m[1]) from regexp_matches(prepared.folded collate "C",
      '["\u201c\u201e\u00ab]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,250})["\u201c\u201d\u00bb]', 'g') m where btrim(m[1]) <> '' limit 8);
  end if;
  if v_asked ~ '(^|\s)-[^\s0-9"-]' then
    prepared.excluded := array(select distinct l.lexeme
      from regexp_matches(v_asked collate "C", '(?:^|\s)-([^\s0-9"-][^\s"]*)', 'g') m cross join lateral remem._lexemes(m[1], v_dictionaries) l limit 16);
    v_asked := regexp_replace(v_asked collate "C", '(^|\s)-[^\s0-9"-][^\s"]*', ' ', 'g');
  end if;

  -- Terms of the query and, apart, those an expansion adds: both are kept, so that the trace can tell.
  v_expanded := (select string_agg(left(e, 2000), E'\n') from jsonb_array_elements_text(
    case when jsonb_typeof(options -> 'expanded') = 'array' then options -> 'expanded' else '[]' end) e);
  select t.* into v_terms from remem._query_terms(workspace.workspace, v_asked, v_dictionaries, prepared.documents, c_budget) t;
  prepared.original_lexemes := v_terms.lexemes;
  prepared.idf_mass := (select sum(i) from unnest(v_terms.idfs) i);
  if v_expanded is not null then
    select t.* into v_terms
    from remem._query_terms(workspace.workspace, concat_ws(E'\n', v_asked, v_expanded), v_dictionaries, prepared.documents, c_budget) t;
    prepared.expanded_lexemes := array(select l from unnest(v_terms.lexemes) l where l <> all (prepared.original_lexemes));
    -- An added term is a guess: it counts for less than half of what was asked.
    v_terms.idfs := array(select case when l.lexeme = any (prepared.original_lexemes) then l.idf else 0.4 * l.idf end
      from unnest(v_terms.lexemes, v_terms.idfs) with ordinality l (lexeme, idf, n) order by l.n);
  end if;
  prepared.lexemes := v_terms.lexemes;
  prepared.frequencies := v_terms.frequencies;
  prepared.idfs := v_terms.idfs;

  if arms && '{vector,fusion}' then
    select v.vector, v.more, _prepare_query.degraded || v.degraded into prepared.vector, prepared.more_vectors, degraded
    from remem._query_vector(space, query, query_embedding, options) v;
    if prepared.vectors < prepared.documents and space.space_no <> 1 then  -- the built-in space lacks only texts without features
      degraded := array_append(degraded, 'stale_rows');
    end if;
  end if;
  if workspace.analyser <> remem._analyser_name(workspace.language) then
    degraded := array_append(degraded, 'analyser_mix');
  end if;
  if cardinality(prepared.lexemes) = 0 and 'lexical' = any (arms) then
    degraded := array_append(degraded, 'no_lexemes');
  end if;

  -- A selective filter is resolved first and searched exactly; otherwise the arms check rows as they go.
  prepared.check_validity := exists (select from remem.memory m
    where m.workspace = (_prepare_query.workspace).workspace and (m.valid_from is not null or m.valid_to is not null)
      and m.superseded_at is null and m.forgotten_at is null and (m.valid_to <= now() or m.valid_from > now()));
  prepared.row_filter := remem._row_filter(workspace.workspace, options);
  if prepared.row_filter is not null then
    prepared.allowed := remem._resolve_filter(workspace.workspace, prepared.row_filter, c_selective);
  end if;

  -- What the query points at: names (topic keys and subjects are among them) and sessions by their refs.
  if arms && '{pointer,attribute}' then
    prepared.entities := remem._query_entities(workspace.workspace, prepared.folded);
  end if;
  -- One probe a word: as a condition over the sessions the split would run for each of them.
  prepared.session_nos := array(
    select distinct s.session_no
    from unnest((string_to_array(btrim(regexp_replace(v_asked, '[\s,;?!"]+', ' ', 'g')), ' '))[1:100]) w (word)
    cross join lateral (select x.session_no from remem.session x
      where x.workspace = (_prepare_query.workspace).workspace and x.session_ref = w.word offset 0) s);
  select h.time_from, h.time_to into prepared.time_from, prepared.time_to from remem._time_hint(prepared.folded, now()) h;
  prepared.kind_hint := coalesce(options ->> 'kind', remem._kind_hint(workspace.workspace, prepared.folded));
end
$$;
comment on function remem._prepare_query(remem.workspace, remem.embedding_space, text, real[], jsonb, text[]) is
  'Query preparation: terms, phrases, names, time and kind hints, vector, filter.';

-- The query's vector: the caller's, if it is of this space; ours where the space is the built-in one. Scaled to
-- length one: half precision neither overflows nor vanishes.
create or replace function remem._query_vector(
  space remem.embedding_space, query text, query_embedding real[], options jsonb, out vector real[], out more jsonb, out degraded text[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_extra jsonb;
begin
  degraded := '{}';
  vector := query_embedding;
  if vector is not null and options ->> 'space' not in (space.name, space.fingerprint) then
    degraded := array_append(degraded, 'space_mismatch');
    vector := null;
  elsif vector is not null then
    perform remem._check_vector(vector, space, 0);
    vector := @extschema:vector@.l2_normalize(vector::@extschema:vector@.vector)::real[];
    for v_extra in select e from jsonb_array_elements(case when jsonb_typeof(options -> 'expanded_embeddings') = 'array'
        then options -> 'expanded_embeddings' else '[]' end) e loop
      perform remem._check_vector(array(select n::real from jsonb_array_elements_text(v_extra) n), space, 0);
      more := coalesce(more, '[]') || jsonb_build_array(v_extra);
    end loop;
  end if;
  if vector is null and space.space_no = 1 then
    vector := remem._hash_embed(query);
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

-- The rows that pass a filter, when there are at most `most`; null when there are more.
create or replace function remem._resolve_filter(workspace text, row_filter jsonpath, most int) returns bigint[]
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
