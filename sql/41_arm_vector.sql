-- The vector arm: nearest neighbours by cosine in the workspace's current space.
--
-- Three ways to look, chosen by the caller and not left to the planner's estimates:
--   by index   HNSW with an iterative scan, which goes on until enough rows of this workspace are found;
--   of all     exactly over the whole workspace, when it is small;
--   passing    either way among the rows that pass a filter, or exactly over the list that a selective filter left.

create or replace function remem._arm_vector(
  workspace text, space_no int, query real[], n int, exact boolean, allowed bigint[], row_filter jsonpath,
  check_validity boolean, out memory_nos bigint[], out cosines float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_query @extschema:vector@.halfvec := query;
  v_found record;
begin
  if allowed is not null or row_filter is not null or check_validity then
    v_found := remem._nearest_passing(workspace, space_no, v_query, n, exact, allowed, row_filter, check_validity);
  elsif exact then
    v_found := remem._nearest_of_all(workspace, space_no, v_query, n);
  else
    v_found := remem._nearest_by_index(workspace, space_no, v_query, n);
  end if;
  memory_nos := coalesce(v_found.memory_nos, '{}');
  cosines := coalesce(v_found.cosines, '{}');
end
$$;
comment on function remem._arm_vector(text, int, real[], int, boolean, bigint[], jsonpath, boolean) is
  'Nearest memories by cosine: exact for small workspaces and selective filters, HNSW otherwise.';

-- EXECUTE: the table's name, and conditions that only some calls have. Sorting is priced out, so that the index scan is
-- taken; the settings end with the function. The row check is a scalar subquery on purpose: as a semi-join it could lose the
-- order of the index.
create or replace function remem._nearest_passing(
  workspace text, space_no int, query @extschema:vector@.halfvec, n int, exact boolean, allowed bigint[], row_filter jsonpath,
  check_validity boolean, out memory_nos bigint[], out cosines float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set hnsw.iterative_scan = 'strict_order'
set hnsw.ef_search = 40
set enable_sort = off
as $$
declare
  v_rows text := format('remem.embedding_%s e where e.workspace = $1', space_no);
  v_distance constant text := 'e.embedding operator(@extschema:vector@.<=>) $2';
  v_passes constant text := '(select ($5 is null or m.attrs @@ $5) and (m.valid_from is null or m.valid_from <= now())'
    ' and (m.valid_to is null or m.valid_to > now()) from remem.memory m where m.workspace = $1 and m.memory_no = %s.memory_no)';
  v_checked boolean := allowed is null and (row_filter is not null or check_validity);
begin
  if allowed is not null then
    v_rows := v_rows || ' and e.memory_no = any ($4)';
  end if;
  if exact or allowed is not null then
    -- Nearest first, then looked at, until there are enough: most rows need not be.
    execute format('with near as materialized (select e.memory_no, %s as distance from %s)'
      ' select array_agg(s.memory_no), array_agg(1 - s.distance)'
      ' from (select n.* from (select * from near order by distance, memory_no offset 0) n where %s limit $3) s',
      v_distance, v_rows, case when v_checked then format(v_passes, 'n') else 'true' end)
    into memory_nos, cosines using workspace, query, n, allowed, row_filter;
  else
    execute format('select array_agg(s.memory_no), array_agg(1 - s.distance)'
      ' from (select e.memory_no, %1$s as distance from %2$s order by %1$s limit %3$s) s', v_distance,
      v_rows || case when v_checked then ' and ' || format(v_passes, 'e') else '' end, n)
    into memory_nos, cosines using workspace, query, n, allowed, row_filter;
  end if;
end
$$;
comment on function remem._nearest_passing(text, int, @extschema:vector@.halfvec, int, boolean, bigint[], jsonpath, boolean) is
  'The nearest memories of a workspace among those that pass a filter, best first.';

-- The statements that every call needs, in functions with a branch for the table of each space: so a session plans them once
-- (.2 ms of the 2 that a recall takes in a small workspace). Written here, at every install, and when a space is registered.
-- A space that has no branch, as one that was restored beside the extension, is asked by the same statement planned anew.
-- The caller holds the lock of register_space, as every install does (00_guard): two writers at once would fail.
create or replace function remem._write_space_functions() returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_head constant text := E' language plpgsql stable set search_path = pg_catalog, remem, pg_temp set plan_cache_mode = force_generic_plan';
  c_nearest constant text := E'\n    when %s then select array_agg(s.memory_no), array_agg(1 - s.distance) into memory_nos, cosines from (%s limit n) s;';
  c_distances constant text := 'select e.memory_no, e.embedding operator(@extschema:vector@.<=>) query as distance from remem.embedding_%s e'
    ' where e.workspace = $1';
  c_cosines constant text := 'select array_agg(1 - (e.embedding operator(@extschema:vector@.<=>) $3) order by w.ordinality)%2$s'
    ' from unnest($4) with ordinality w (memory_no, ordinality)'
    ' left join remem.embedding_%1$s e on e.workspace = $1 and e.memory_no = w.memory_no';
  v_spaces int[];
begin
  perform '[1]'::@extschema:vector@.vector;  -- loads the library, which brings the settings below
  v_spaces := array(select s.space_no from remem.embedding_space s order by 1);
  execute 'create or replace function remem._nearest_by_index(workspace text, space_no int, query @extschema:vector@.halfvec, n int,'
    ' out memory_nos bigint[], out cosines float8[])' || c_head
    -- 40 finds 89 to 96 % of the nearest 16 at 200,000 rows, 80 finds 94 to 98 %; hits in the answer are as many (.558, .565 of 400)
    || E' set hnsw.iterative_scan = ''strict_order'' set hnsw.ef_search = 40 set enable_sort = off as $f$\nbegin\n  case space_no'
    || (select string_agg(format(c_nearest, s, format(c_distances, s) || ' order by 2'), '' order by s) from unnest(v_spaces) s)
    || E'\n    else select x.* into memory_nos, cosines from remem._nearest_passing($1, space_no, query, n, false, null, null, false) x;'
    || E'\n  end case;\nend\n$f$';
  execute 'create or replace function remem._nearest_of_all(workspace text, space_no int, query @extschema:vector@.halfvec, n int,'
    ' out memory_nos bigint[], out cosines float8[])' || c_head
    -- a plan that is kept does not see that a workspace is small; offset 0 keeps the order from the HNSW index
    || E' set enable_seqscan = off as $f$\nbegin\n  case space_no'
    || (select string_agg(format(c_nearest, s, 'select * from (' || format(c_distances, s) || ' offset 0) e order by 2, 1'), '' order by s)
      from unnest(v_spaces) s)
    || E'\n    else select x.* into memory_nos, cosines from remem._nearest_passing($1, space_no, query, n, true, null, null, false) x;'
    || E'\n  end case;\nend\n$f$';
  execute 'create or replace function remem._cosines(workspace text, space_no int, query real[], memory_nos bigint[]) returns float8[]' || c_head
    || E' as $f$\ndeclare\n  v_query @extschema:vector@.halfvec := query;\n  v_cosines float8[];\nbegin\n  case space_no'
    || (select string_agg(format(E'\n    when %s then %s;', s, format(replace(c_cosines, '$3', 'v_query'), s, ' into v_cosines')), '' order by s) from unnest(v_spaces) s)
    || format(E'\n    else execute format(%L, space_no, '''') into v_cosines using $1, space_no, v_query, $4;', c_cosines)
    || E'\n  end case;\n  return v_cosines;\nend\n$f$';
  comment on function remem._nearest_by_index(text, int, @extschema:vector@.halfvec, int) is 'The nearest memories of a workspace by HNSW, best first.';
  comment on function remem._nearest_of_all(text, int, @extschema:vector@.halfvec, int) is 'The nearest memories of a workspace, all compared, best first.';
  comment on function remem._cosines(text, int, real[], bigint[]) is 'The cosine of every given row to the query, in the order of the list; null without a vector.';
end
$$;
comment on function remem._write_space_functions() is 'Writes the functions that hold a statement for each embedding space.';

do $$
begin
  perform remem._write_space_functions();
end
$$;
