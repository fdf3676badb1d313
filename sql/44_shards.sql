-- Shards: a workspace taken apart by kind, so that many turns of talk do not crowd out its few decisions. Without the
-- option there is one shard, the whole.

-- The kinds that are searched apart and what each holds: those that were asked for, or all, as far as they have rows.
-- Null where that is one or none.
create or replace function remem._shards(workspace text, options jsonb, out kinds text[], out filters jsonpath[])
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_kinds constant jsonb := '["semantic", "episodic", "decision", "preference", "procedure", "task", "other"]';
  v_kind text;
  v_filter jsonpath;
begin
  for v_kind in select distinct k from jsonb_array_elements_text(
    case when coalesce(options -> 'kinds', 'null') in ('null', '[]') then c_kinds else options -> 'kinds' end) k order by k
  loop
    v_filter := remem._row_filter(workspace, options || jsonb_build_object('kinds', jsonb_build_array(v_kind)));
    if remem._resolve_filter(workspace, v_filter, 1) is distinct from '{}' then
      kinds := kinds || v_kind; filters := filters || v_filter;
    end if;
  end loop;
  if cardinality(kinds) < 2 then
    kinds := null; filters := null;
  end if;
end
$$;
comment on function remem._shards(text, jsonb) is 'The kinds that a recall searches apart.';

-- One arm over every shard. The rows it may bring and the postings it may read are divided among them.
create or replace function remem._run_shards(
  arm text, query remem._query, n int, budget int, out memory_nos bigint[], out scores float8[], out matched float8[]
)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_parts int := cardinality(query.shards);
  v_allowed bigint[] := query.allowed;
  v_filter jsonpath;
  v_found record;
begin
  foreach v_filter in array query.shard_filters loop
    query.row_filter := v_filter;
    query.allowed := case when v_allowed is null then remem._resolve_filter(query.workspace, v_filter) else array(
      select m.memory_no from remem.memory m
      where m.workspace = query.workspace and m.memory_no = any (v_allowed) and m.attrs @@ v_filter) end;
    v_found := remem._run_arm(arm, query, ceil(n::float8 / v_parts)::int, budget / v_parts);
    memory_nos := memory_nos || v_found.memory_nos; scores := scores || v_found.scores; matched := matched || v_found.matched;
  end loop;
  -- Best first again; the words that matched are known of the lexical arm only.
  select array_agg(f.memory_no), array_agg(f.score), array_agg(f.matched) into memory_nos, scores, matched
  from (select * from unnest(memory_nos, scores, matched) f (memory_no, score, matched) order by f.score desc, f.memory_no limit n) f;
  memory_nos := coalesce(memory_nos, '{}');
  scores := coalesce(scores, '{}');
  matched := case when arm = 'lexical' then coalesce(matched, '{}') else '{}' end;
end
$$;
comment on function remem._run_shards(text, remem._query, int, int) is 'Runs one arm over every shard, with divided limits.';
