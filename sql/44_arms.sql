-- The arms beside vector, lexical and pointer, and the one door to all of them by name.

-- Memories that hold a quoted phrase word for word: postings intersected, then the folded text checked.
create or replace function remem._arm_phrase(query remem._query, n int) returns table (memory_no bigint, score float8)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  with phrase as (
    select p.phrase, p.ordinality as no from unnest(query.phrases) with ordinality p (phrase, ordinality)
  ), lexeme as (
    select p.no, l.lexeme from phrase p
    cross join lateral remem._lexemes(p.phrase, remem._language_dictionaries(
      (select w.language from remem.workspace w where w.workspace = query.workspace))) l
    where not l.extra
  ), found as (
    select l.no, h.memory_no from lexeme l
    cross join lateral (select p.memory_no from remem.posting p
      where p.workspace = query.workspace and p.lexeme = l.lexeme limit 20000) h
    group by l.no, h.memory_no
    having count(*) = (select count(*) from lexeme x where x.no = l.no)
  )
  select m.memory_no, count(*)::float8 as score
  from found f join phrase p on p.no = f.no
  join remem.memory m on m.workspace = query.workspace and m.memory_no = f.memory_no
  where position(p.phrase in remem._fold(left(remem._document_text(m.title, m.summary, m.body, m.speaker, m.aliases, m.tags), 100000))) > 0
    and (query.allowed is null or m.memory_no = any (query.allowed))
    and (query.row_filter is null or m.attrs @@ query.row_filter)
    and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
  group by m.memory_no
  order by 2 desc, m.memory_no limit n;
end
$$;
comment on function remem._arm_phrase(remem._query, int) is 'Memories that hold the quoted phrases of a query.';

-- Memories whose subject and attribute the query both names ("what is Mei's time zone?").
create or replace function remem._arm_attribute(query remem._query, n int) returns table (memory_no bigint, score float8)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_words text := ' ' || btrim(regexp_replace(query.folded collate "C", '[^' || remem._chars_word() || ']+', ' ', 'g')) || ' ';
begin
  return query
  select m.memory_no, 1::float8
  from unnest(query.entities) e (name)
  cross join lateral (select l.memory_no from remem.memory_entity l
    where l.workspace = query.workspace and l.name = e.name limit 5000) l
  join remem.memory m on m.workspace = query.workspace and m.memory_no = l.memory_no
  where m.subject is not null and m.attribute is not null
    and position(' ' || btrim(regexp_replace(remem._fold(m.attribute) collate "C", '[^' || remem._chars_word() || ']+', ' ', 'g')) || ' ' in v_words) > 0
    and position(' ' || btrim(regexp_replace(remem._fold(m.subject) collate "C", '[^' || remem._chars_word() || ']+', ' ', 'g')) || ' ' in v_words) > 0
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
  v_exact boolean := query.vectors::float8 * query.vectors <= c_exact * greatest(query.vectors,
    (select c.reltuples from pg_class c where c.oid = format('remem.embedding_%s', query.space_no)::regclass));
  v_extra jsonb;
  v_more record;
begin
  select a.memory_nos, a.cosines into memory_nos, cosines from remem._arm_vector(query.workspace, query.space_no, query.vector, n,
    v_exact, query.allowed, query.row_filter, query.check_validity) a;
  if cardinality(memory_nos) < least(n, query.vectors) and query.allowed is null and not v_exact then
    -- The index scan gave up before it had enough rows of this workspace.
    select a.memory_nos, a.cosines into memory_nos, cosines from remem._arm_vector(query.workspace, query.space_no, query.vector, n,
      true, query.allowed, query.row_filter, query.check_validity) a;
  end if;
  for v_extra in select e from jsonb_array_elements(query.more_vectors) e loop
    select a.* into v_more from remem._arm_vector(query.workspace, query.space_no,
      array(select x::real from jsonb_array_elements_text(v_extra) x), n, v_exact, query.allowed, query.row_filter,
      query.check_validity) a;
    select array_agg(b.memory_no order by b.cosine desc, b.memory_no), array_agg(b.cosine order by b.cosine desc, b.memory_no)
    into memory_nos, cosines
    from (
      select u.memory_no, max(u.cosine) as cosine
      from (select * from unnest(memory_nos, cosines) f (memory_no, cosine)
        union all select * from unnest(v_more.memory_nos, v_more.cosines) g (memory_no, cosine)) u
      group by u.memory_no order by 2 desc, 1 limit n
    ) b;
  end loop;
end
$$;
comment on function remem._arm_vectors(remem._query, int) is 'The vector arm over all vectors of a query.';

-- One arm by name, as memory numbers with scores. The lexical arm has a door of its own (it scores for others too).
create or replace function remem._run_arm(arm text, query remem._query, n int, out memory_nos bigint[], out scores float8[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  case arm
    when 'vector' then
      select a.memory_nos, a.cosines into memory_nos, scores from remem._arm_vectors(query, n) a;
    when 'pointer' then
      select array_agg(a.memory_no order by a.score desc, a.memory_no), array_agg(a.score order by a.score desc, a.memory_no)
      into memory_nos, scores from remem._arm_pointer(query, n) a;
    when 'phrase' then
      select array_agg(a.memory_no order by a.score desc, a.memory_no), array_agg(a.score order by a.score desc, a.memory_no)
      into memory_nos, scores from remem._arm_phrase(query, n) a;
    when 'attribute' then
      select array_agg(a.memory_no order by a.score desc, a.memory_no), array_agg(a.score order by a.score desc, a.memory_no)
      into memory_nos, scores from remem._arm_attribute(query, n) a;
  end case;
  memory_nos := coalesce(memory_nos, '{}');
  scores := coalesce(scores, '{}');
end
$$;
comment on function remem._run_arm(text, remem._query, int) is 'Runs one arm by its name.';

-- Which of the wanted arms this query can submit: a vector, phrases, entities are not in every query.
create or replace function remem._submittable(arms text[], query remem._query) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select coalesce(array_agg(o.arm order by o.n), '{}')
  from unnest('{vector,lexical,phrase,attribute,pointer,fusion}'::text[]) with ordinality o (arm, n)
  where o.arm = any (arms) and case o.arm
    when 'vector' then query.vector is not null
    when 'lexical' then cardinality(query.lexemes) > 0
    when 'phrase' then cardinality(query.phrases) > 0
    when 'attribute' then cardinality(query.entities) > 0
    when 'pointer' then cardinality(query.entities) > 0
    when 'fusion' then query.vector is not null and cardinality(query.lexemes) > 0
  end
$$;
comment on function remem._submittable(text[], remem._query) is 'The arms that are really submitted, in the order they run.';
