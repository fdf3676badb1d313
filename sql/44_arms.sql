-- The arms beside vector, lexical and pointer, and the one door to all of them by name.

-- Memories that hold a quoted phrase word for word: the newest postings of its rarest word, the others looked up for those
-- rows, then the folded text, newest first, until there are enough.
create or replace function remem._arm_phrase(query remem._query, n int) returns table (memory_no bigint, score float8)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off  -- see _query_terms
as $$
#variable_conflict use_column
declare
  c_read constant int := 20000;    -- postings of the rarest word
  c_checked constant int := 5000;  -- rows whose text is looked at, 20 us each
  v_workspace text := query.workspace;
  v_key bigint := remem._workspace_key(query.workspace);
  v_dictionaries regdictionary[] := remem._language_dictionaries((select w.language from remem.workspace w where w.workspace = query.workspace));
begin
  return query
  with lexeme as materialized (
    select p.no, p.phrase, remem._word(l.lexeme) as word, count(*) over (partition by p.no) as words,
      row_number() over (partition by p.no order by f.frequency, l.lexeme) as place
    from unnest(query.phrases) with ordinality p (phrase, no)
    cross join lateral remem._lexemes(p.phrase, v_dictionaries) l
    left join unnest(query.lexemes, query.frequencies) f (lexeme, frequency) on f.lexeme = l.lexeme
    where not l.extra
  ), listed as materialized (
    select l.no, l.phrase, l.words, array(select p.memory_no from remem.posting p
      where p.workspace_key = v_key and p.word = l.word order by p.memory_no desc limit c_read) as nos
    from lexeme l where l.place = 1
  ), found as (
    select h.phrase, h.memory_no
    from (
      select d.no, d.phrase, d.words, u.memory_no from listed d cross join lateral unnest(d.nos) u (memory_no)
      union all
      select d.no, d.phrase, d.words, p.memory_no from listed d
      join lexeme l on l.no = d.no and l.place > 1
      cross join lateral (select p.memory_no from remem.posting p
        where p.workspace_key = v_key and p.word = l.word and p.memory_no = any (d.nos) offset 0) p
    ) h
    group by h.no, h.phrase, h.words, h.memory_no having count(*) = h.words
  )
  select f.memory_no, x.score::float8
  from (
    select f.memory_no, array_agg(f.phrase) as phrases from found f group by f.memory_no
    order by count(*) desc, f.memory_no desc limit c_checked) f
  -- offset 0 keeps it a lookup per row by the key, also in tables that were never analysed.
  cross join lateral (
    select translate(remem._fold(left(remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags), 100000)),
      E'\n\t\r', '  ') as text  -- a line may end within a phrase
    from remem.memory m
    where m.workspace = v_workspace and m.memory_no = f.memory_no
      and (query.allowed is null or m.memory_no = any (query.allowed))
      and (query.row_filter is null or m.attrs @@ query.row_filter)
      and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now()) offset 0) m
  cross join lateral (select count(*) as score from unnest(f.phrases) p (phrase) where position(p.phrase in m.text) > 0) x
  where x.score > 0 limit n;
end
$$;
comment on function remem._arm_phrase(remem._query, int) is 'Memories that hold the quoted phrases of a query.';

-- Memories whose subject and attribute the query both names ("what is Mei's time zone?"). Attributes stand in the
-- pointer index as =name.
create or replace function remem._arm_attribute(query remem._query, n int) returns table (memory_no bigint, score float8)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_workspace text := query.workspace;
  v_words text[] := (string_to_array(btrim(query.words), ' '))[1:100];
begin
  return query
  select m.memory_no, 1::float8
  from (
    select distinct '=' || array_to_string(v_words[w.i:w.i + l.n - 1], ' ') as name
    from generate_series(1, cardinality(v_words)) w (i) cross join generate_series(1, 4) l (n)
    where w.i + l.n - 1 <= cardinality(v_words)
  ) a
  cross join lateral (
    select e.memory_no from remem.memory_entity e
    where e.workspace = v_workspace and e.name = a.name order by e.memory_no desc limit 5000) f
  join remem.memory m on m.workspace = v_workspace and m.memory_no = f.memory_no
  where position(remem._words(remem._fold(m.subject)) in query.words) > 0
    and (query.allowed is null or m.memory_no = any (query.allowed))
    and (query.row_filter is null or m.attrs @@ query.row_filter)
    and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
  group by m.memory_no
  order by m.memory_no desc limit n;
end
$$;
comment on function remem._arm_attribute(remem._query, int) is 'Memories by subject and attribute.';

-- The vector arm over the query's vector and those of its expansions: a row counts by its best cosine.
create or replace function remem._arm_vectors(query remem._query, n int, out memory_nos bigint[], out cosines float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  -- Comparing all n vectors of a workspace costs 1.8 us each; the index passes over those of others, which costs
  -- about 1.6 ms times the table's vectors over n. Fitted on workspaces of half and a tenth of 200,000 rows.
  c_exact constant float8 := 900;
  v_exact boolean := query.vectors <= c_exact;
  v_found record;
  v_extra jsonb;
begin
  if not v_exact then
    v_exact := query.vectors::float8 * query.vectors <= c_exact * (
      select c.reltuples from pg_class c where c.oid = format('remem.embedding_%s', query.space_no)::regclass);
  end if;
  v_found := remem._arm_vector(query.workspace, query.space_no, query.vector, n, v_exact, query.allowed, query.row_filter, query.check_validity);
  if cardinality(v_found.memory_nos) < least(n, query.vectors) and query.allowed is null and not v_exact then
    -- The index scan gave up before it had enough rows of this workspace.
    if not query.selective and query.row_filter is not null then  -- the sample was wrong: few pass
      query.allowed := remem._resolve_filter(query.workspace, query.row_filter);
    end if;
    v_found := remem._arm_vector(query.workspace, query.space_no, query.vector, n, true, query.allowed, query.row_filter, query.check_validity);
  end if;
  memory_nos := v_found.memory_nos; cosines := v_found.cosines;
  if query.more_vectors is null then
    return;
  end if;
  for v_extra in select e from jsonb_array_elements(query.more_vectors) e loop
    v_found := remem._arm_vector(query.workspace, query.space_no, array(select x::real from jsonb_array_elements_text(v_extra) x), n,
      v_exact, query.allowed, query.row_filter, query.check_validity);
    select array_agg(b.memory_no order by b.cosine desc, b.memory_no), array_agg(b.cosine order by b.cosine desc, b.memory_no)
    into memory_nos, cosines
    from (
      select u.memory_no, max(u.cosine) as cosine
      from (select * from unnest(memory_nos, cosines) f (memory_no, cosine)
        union all select * from unnest(v_found.memory_nos, v_found.cosines) g (memory_no, cosine)) u
      group by u.memory_no order by 2 desc, 1 limit n
    ) b;
  end loop;
end
$$;
comment on function remem._arm_vectors(remem._query, int) is 'The vector arm over all vectors of a query.';

-- One arm by name, as memory numbers with scores, best first; matched is known of the lexical arm only.
create or replace function remem._run_arm(
  arm text, query remem._query, n int, budget int, out memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_found record;
begin
  case arm
    when 'vector' then
      if query.as_of is not null then
        select a.memory_nos, a.scores into memory_nos, scores from remem._arm_vector_at(query, n) a;
        matched := '{}';
        return;
      end if;
      v_found := remem._arm_vectors(query, n);
      memory_nos := v_found.memory_nos; scores := v_found.cosines;
    when 'lexical' then
      if query.as_of is not null then
        v_found := remem._arm_lexical_at(query, n, budget);
      else
        v_found := remem._arm_lexical(query, n, budget);
      end if;
      memory_nos := v_found.memory_nos; scores := v_found.scores; matched := v_found.matched;
    when 'pointer' then
      select array_agg(a.memory_no), array_agg(a.score) into memory_nos, scores
      from (select p.* from remem._arm_pointer(query, n) p order by p.score desc, p.memory_no) a;
    when 'phrase' then
      select array_agg(a.memory_no), array_agg(a.score) into memory_nos, scores
      from (select p.* from remem._arm_phrase(query, n) p order by p.score desc, p.memory_no) a;
    when 'attribute' then
      select array_agg(a.memory_no), array_agg(a.score) into memory_nos, scores
      from (select p.* from remem._arm_attribute(query, n) p order by p.score desc, p.memory_no) a;
  end case;
  memory_nos := coalesce(memory_nos, '{}');
  scores := coalesce(scores, '{}');
  matched := coalesce(matched, '{}');
end
$$;
comment on function remem._run_arm(text, remem._query, int, int) is 'Runs one arm by its name.';

-- Whether any live memory says an attribute of a subject.
create or replace function remem._has_attributes(workspace text) returns boolean
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return exists (select from remem.memory_entity e where e.workspace = _has_attributes.workspace and e.name >= '=' and e.name < '>');
exception when others then  -- the arm meets the broken index, and says so
  return true;
end
$$;
comment on function remem._has_attributes(text) is 'Whether the attribute arm has anything to look at.';

-- Which of the wanted arms this query can submit, in the order they run: a vector, phrases, names are not in every
-- query, attributes not in every workspace. fusion is the two main arms together, and needs both.
create or replace function remem._submittable(arms text[], query remem._query) returns text[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_vector boolean := query.vector is not null;
  v_lexical boolean := cardinality(query.lexemes) > 0;
  v_fusion boolean := 'fusion' = any (arms) and v_vector and v_lexical;
  v_named boolean := cardinality(query.entities) > 0;
begin
  return array_remove(array[
    case when v_vector and 'vector' = any (arms) or v_fusion then 'vector' end,
    case when cardinality(query.phrases) > 0 and 'phrase' = any (arms) and query.as_of is null then 'phrase' end,
    case when 'attribute' = any (arms) and query.as_of is null and remem._has_attributes(query.workspace) then 'attribute' end,
    case when (v_named or cardinality(query.session_nos) > 0) and query.as_of is null and 'pointer' = any (arms) then 'pointer' end,
    case when v_lexical and 'lexical' = any (arms) or v_fusion then 'lexical' end], null);
end
$$;
comment on function remem._submittable(text[], remem._query) is 'The arms that are really submitted, in the order they run.';
