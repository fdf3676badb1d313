-- The pointer arm: from the names in a query to the memories that name them.

-- The names of a query that the workspace knows, found by runs of one to four words (an identifier is one word)
-- and, where a script has no spaces, of two to four characters. At most 64 runs are looked up, each by one probe
-- of the names and one of the aliases; those that begin like a sentence come last.
create or replace function remem._query_entities(workspace text, folded text) returns text[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_runs constant int := 64;
  v_workspace text := workspace;
  v_words text[] := (string_to_array(remem._entity_names(replace(folded, E'\n', ' ')), ' '))[1:100];
  v_text text := array_to_string(v_words, ' ');
  v_runs text[];
begin
  v_runs := array(
    select r.run
    from generate_series(1, cardinality(v_words)) w (i)
    cross join generate_series(1, least(4, cardinality(v_words))) l (n)
    cross join lateral (select array_to_string(v_words[w.i:w.i + l.n - 1], ' ') as run) r
    where w.i + l.n - 1 <= cardinality(v_words) and octet_length(r.run) between 2 and 128
    order by case when cardinality(v_words) > c_runs / 4 then (r.run || ' ') collate "C" ~ remem._entity_openers() end, l.n, w.i limit c_runs);
  if octet_length(v_text) > length(v_text) and v_text collate "C" ~ ('[' || remem._chars_unspaced() || ']{3}') then
    v_runs := array(
      select substr(r.run[1], s.i, l.n)
      from regexp_matches(v_text collate "C", '[' || remem._chars_unspaced() || ']{3,}', 'g') as r (run)
      cross join generate_series(2, 4) as l (n)
      cross join lateral generate_series(1, length(r.run[1]) - l.n + 1) as s (i)
      order by l.n, s.i limit c_runs) || v_runs;
  end if;
  v_runs := v_runs[:c_runs] || array(
    select a.other from unnest(v_runs[:c_runs]) r (run)
    cross join lateral (select e.other from remem.entity_alias e where e.workspace = v_workspace and e.name = r.run limit 8) a
    where exists (select from remem.entity_alias e where e.workspace = v_workspace));
  return array(
    select distinct r.run from unnest(v_runs) r (run)
    where exists (select from remem.memory_entity e where e.workspace = v_workspace and e.name = r.run offset 0)
    order by 1);
end
$$;
comment on function remem._query_entities(text, text) is 'The known names in a query.';

-- Memories by the names they share with the query: the sum of the names' rarity (BM25's idf), a little more where
-- the caller attached the name. A hub, a name in a tenth of the memories (at least 50, at most 1,000), points at
-- nothing: it finds no rows but those of a selective filter, and counts a quarter where a rarer name found one (on
-- conversations, reading the latest 50 of a speaker cost a point of R@20). All names together read c_budget rows,
-- rarest first. Sessions that the query names by their ref bring their turns.
create or replace function remem._arm_pointer(query remem._query, n int) returns table (memory_no bigint, score float8)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  c_budget constant int := 4000;
  v_hub int := greatest(50, least(1000, query.documents / 10));
begin
  return query
  with entity as materialized (
    select e.name, remem._idf(query.documents, f.n) * case when f.n > v_hub then 0.25 else 1 end as weight,
      f.n > v_hub as hub, sum(case when f.n > v_hub then 0 else f.n end) over (order by f.n, e.name) as rows
    from unnest(query.entities) as e (name)
    cross join lateral (
      select count(*) as n from (
        select from remem.memory_entity m
        where m.workspace = query.workspace and m.name = e.name limit v_hub + 1) as s
    ) as f
    where f.n > 0
  ), found as (
    select h.memory_no, e.weight * case when h.given then 1.2 else 1 end as weight
    from entity as e
    cross join lateral (
      (select m.memory_no, m.given from remem.memory_entity m
      where m.workspace = query.workspace and m.name = e.name
        and not e.hub)
      union all
      select m.memory_no, m.given
      from unnest(case when e.hub then query.allowed end) as a (memory_no)
      join remem.memory_entity m on m.workspace = query.workspace and m.name = e.name and m.memory_no = a.memory_no
    ) as h
    where e.rows <= c_budget
    union all
    select s.memory_no, remem._idf(query.documents, v_hub)
    from unnest(query.session_nos) as q (session_no)
    cross join lateral (
      select m.memory_no from remem.memory m
      where m.workspace = query.workspace and m.session_no = q.session_no
        and m.superseded_at is null and m.forgotten_at is null
      order by m.turn_no desc limit v_hub
    ) as s
  ), summed as (
    select f.memory_no, sum(f.weight) as score from found as f
    where query.allowed is null or f.memory_no in (select unnest(query.allowed))
    group by f.memory_no
  ), ranked as (
    select s.memory_no, s.score + coalesce((
      select sum(e.weight) from entity as e
      where e.hub and query.allowed is null and exists (select from remem.memory_entity m
        where m.workspace = query.workspace and m.name = e.name and m.memory_no = s.memory_no)), 0) as score
    from summed as s
  )
  select r.memory_no, r.score
  from (select s.* from ranked as s order by s.score desc, s.memory_no desc offset 0) as r
  where query.allowed is not null or not (query.row_filter is not null or query.check_validity) or (
    select (query.row_filter is null or m.attrs @@ query.row_filter)
      and (m.valid_from is null or m.valid_from <= now()) and (m.valid_to is null or m.valid_to > now())
    from remem.memory m where m.workspace = query.workspace and m.memory_no = r.memory_no)
  limit n;
end
$$;
comment on function remem._arm_pointer(remem._query, int) is 'Memories that share names with the query, rare names first.';
