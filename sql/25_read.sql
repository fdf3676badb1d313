-- Reading memories without searching: by id, by ref, by filter.

create or replace function remem._memory_record(memory remem.memory) returns remem.memory_record
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select (memory.memory_id, memory.workspace, memory.ref, memory.kind, memory.scope, memory.scope_ref, memory.title,
    memory.body, memory.summary, memory.aliases, memory.tags, memory.topic_key, memory.subject, memory.attribute,
    memory.source_class, memory.source_ref, memory.provenance, memory.importance, memory.confidence, memory.pinned,
    memory.unresolved,
    (select s.session_ref from remem.session s where s.workspace = memory.workspace and s.session_no = memory.session_no),
    memory.turn_no, memory.speaker, memory.occurred_at, memory.valid_from, memory.valid_to, memory.created_at,
    memory.updated_at, memory.superseded_at, memory.superseded_by, memory.forgotten_at, memory.freshness,
    memory.attrs -> 'metadata')::remem.memory_record
$$;
comment on function remem._memory_record(remem.memory) is 'A memory row as the caller sees it.';

-- A filter as a jsonpath predicate, which is what `@@` and the GIN index take; null stays null. A path
-- such as `$ ? (@.kind == "task")` asks whether it exists. What would fail only on some rows is refused here, and
-- what lets one row take for ever: a back reference in a regular expression is matched by trying.
create or replace function remem._filter(filter text) returns jsonpath
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_most constant int := 262144;
  v_filter jsonpath;
  v_problem text;
begin
  if octet_length(filter) > c_most then
    perform remem._raise('RM001', jsonb_build_object('argument', 'filter', 'got', octet_length(filter), 'limit', c_most),
      format('At most %s bytes', c_most));
  end if;
  v_filter := normalize(filter, nfc)::jsonpath;  -- as all text that is stored
  if v_filter is null then
    return null;
  end if;
  if v_filter::text like 'strict %' then
    v_problem := 'strict mode';
  elsif regexp_replace(v_filter::text, '"(\\.|[^"\\])*"', '""', 'g') ~ '\$"' then
    v_problem := 'a variable, which nothing gives a value';  -- printed as $"name"
  elsif exists (
      select from regexp_matches(v_filter::text, 'like_regex ("(?:\\.|[^"\\])*")(?! flag "[a-z]*q)', 'g') m
      where replace(m[1]::jsonb #>> '{}', E'\\\\', '') ~ '\\[1-9]') then
    v_problem := 'a regular expression with a back reference';
  else
    begin
      return format('(%s) && (1 == 1)', v_filter)::jsonpath;
    exception when syntax_error then
      return format('exists(%s)', v_filter)::jsonpath;
    end;
  end if;
  perform remem._refuse_filter(v_problem);
exception when syntax_error or data_exception or statement_too_complex then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem._filter(text) is 'Reads a jsonpath filter with a typed error.';

-- Also for what only shows when a filter meets a row, such as a date compared with a time of day.
create or replace function remem._refuse_filter(problem text) returns void
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._raise('RM001', jsonb_build_object('argument', 'filter', 'problem', problem),
    'A filter is a jsonpath predicate over the memory, e.g. $.kind == "decision" && $.metadata.team == "core"');
end
$$;
comment on function remem._refuse_filter(text) is 'Raises the error of an unusable filter.';

create or replace function remem.get(workspace text, memory_id uuid default null, ref text default null)
returns setof remem.memory_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_no bigint;
begin
  perform remem._authorize(workspace, 'read');
  v_no := remem._find_memory(workspace, memory_id, ref, false);
  return query
    select r.* from remem.memory m cross join lateral remem._memory_record(m) r
    where m.workspace = get.workspace and m.memory_no = v_no and (m.forgotten_at is null or remem._is_granted(get.workspace, 'write'));
end
$$;
comment on function remem.get(text, uuid, text) is
  'One memory by its id (any version) or by the caller''s ref (the current version); no row when there is none, or when it is forgotten and the caller may not write.';

create or replace function remem.list(
  workspace text, filter text default null, after uuid default null, "limit" int default 50, state text default 'current'
) returns setof remem.memory_record
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_after bigint;
  v_problem text;
begin
  perform remem._authorize(workspace, case when state in ('forgotten', 'all') then 'write' else 'read' end);
  perform remem._check_member('state', state, '{current,superseded,forgotten,all}', null);
  v_filter := remem._row_filter(workspace, jsonb_build_object('filter', filter));  -- with the workspace: the GIN index holds all tenants
  if "limit" is null or "limit" not between 1 and 1000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'limit', 'value', "limit", 'limit', 1000), 'Between 1 and 1000');
  end if;
  if after is not null then
    v_after := (select m.memory_no from remem.memory m where m.workspace = list.workspace and m.memory_id = list.after);
    if v_after is null then
      perform remem._raise('RM101', jsonb_build_object('argument', 'after', 'value', after), 'Pass the memory_id of the last row you have');
    end if;
  end if;
  if state <> 'current' then
    return query
      select r.*
      from (
        select m, m.memory_no from remem.memory m
        where m.workspace = list.workspace and (list.state = 'all' or remem._state(m) = list.state)
          and (v_after is null or m.memory_no < v_after) and (v_filter is null or m.attrs @@ v_filter)
        order by m.memory_no desc limit "limit"
      ) s cross join lateral remem._memory_record(s.m) r
      order by s.memory_no desc;
    return;
  end if;
  return query
    select r.*
    from (
      select m, m.memory_no from remem.memory m
      where m.workspace = list.workspace and m.superseded_at is null and m.forgotten_at is null
        and (v_after is null or m.memory_no < v_after) and (v_filter is null or m.attrs @@ v_filter)
      order by m.memory_no desc limit "limit"
    ) s cross join lateral remem._memory_record(s.m) r
    order by s.memory_no desc;
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem.list(text, text, uuid, int, text) is
  'Current memories, newest first, a page at a time: after is the memory_id of the last row of the page before. Of all scopes. filter is a jsonpath predicate over kind, scope, scope_ref, tags, session_ref, speaker, occurred_at, created_at, importance, freshness, metadata, ... state: current, superseded, forgotten (forgotten_at says when) or all; the last two for those who may write.';

create or replace function remem.count(workspace text, filter text default null) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_filter jsonpath;
  v_problem text;
begin
  perform remem._authorize(workspace, 'read');
  v_filter := remem._row_filter(workspace, jsonb_build_object('filter', filter));  -- with the workspace: the GIN index holds all tenants
  if v_filter is null then
    return (remem._count_tally(workspace, 0)).n;
  end if;
  return (select count(*) from remem.memory m
    where m.workspace = count.workspace and m.superseded_at is null and m.forgotten_at is null
      and m.attrs @@ v_filter);
exception when feature_not_supported then
  get stacked diagnostics v_problem = message_text;
  perform remem._refuse_filter(v_problem);
end
$$;
comment on function remem.count(text, text) is 'How many current memories a workspace has, or how many pass a filter.';
