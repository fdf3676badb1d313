-- render: hits as a text of bounded size. Short texts stay whole, long ones are shortened to the same
-- length, and when not even that fits the last ranks go.

-- At most `most` bytes of UTF-8, cut between code points, with three dots where something is missing.
create or replace function remem._shorten(text text, most int) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_bytes bytea;
  v_end int := most - 3;
begin
  if octet_length(text) <= most then
    return text;
  end if;
  if v_end < 0 then
    return '';
  end if;
  v_bytes := convert_to(text, 'UTF8');
  -- Byte v_end (counted from 0) is the first that is left out: it must begin a code point.
  while v_end > 0 and get_byte(v_bytes, v_end) & 192 = 128 loop
    v_end := v_end - 1;
  end loop;
  return convert_from(substring(v_bytes from 1 for v_end), 'UTF8') || '...';
end
$$;
comment on function remem._shorten(text, int) is 'A text cut to a number of bytes.';

-- Everything on one line: breaks and other control characters become spaces.
create or replace function remem._one_line(text text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select btrim(regexp_replace(text, '[\s\u0001-\u001f\u007f-\u009f\u2028\u2029]+', ' ', 'g'))
$$;
comment on function remem._one_line(text) is 'A text without line breaks.';

-- Which texts fit into `budget` bytes beside what belongs to each of them (`fixed`, in bytes). `counted`: the
-- first so many; `most`: the length in bytes that none of them exceeds, the largest with which all fit.
-- The last text of few may be shorter than `c_least`. `reserve`: for the note of what is left out.
create or replace function remem._fit(lengths int[], fixed int[], budget int, reserve int, out counted int, out most int)
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_least constant int := 80;
  v_all int := coalesce(cardinality(lengths), 0);
  v_used bigint := 0;
  v_left bigint;
  v_place int := 0;
  v_length int;
begin
  counted := 0;
  for i in 1 .. v_all loop
    v_used := v_used + fixed[i] + least(lengths[i], c_least);
    exit when v_used + case when i < v_all then reserve else 0 end > budget
      and not (i = 1 and fixed[1] + least(lengths[1], 8) + case when v_all > 1 then reserve else 0 end <= budget);
    counted := i;
  end loop;
  v_left := budget - case when counted < v_all then reserve else 0 end
    - (select coalesce(sum(f), 0) from unnest(fixed[1:counted]) f);
  most := greatest(v_left, 0);
  -- The water level: what short texts do not need is shared by the longer ones.
  for v_length in select l from unnest(lengths[1:counted]) l order by l loop
    most := v_left / (counted - v_place);
    exit when v_length > most;
    v_left := v_left - v_length;
    v_place := v_place + 1;
    most := greatest(most, v_length);
  end loop;
end
$$;
comment on function remem._fit(int[], int[], int, int) is 'How many texts fit, and how long each may be.';

-- Grouped by kind in the order of the best hit of each; one line a hit: [rank] title: body.
create or replace function remem._render_compact(hits remem.recall_hit[], budget int) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_more constant text := '(+%s more)';
  v_count int := cardinality(hits);
  v_kinds text[];
  v_heads text[];
  v_texts text[];
  v_first boolean[];
  v_fit record;
  v_text text;
begin
  select array_agg(h.kind order by h.place), array_agg(format('[%s] ', h.place) order by h.place),
    array_agg(h.text order by h.place), array_agg(h.nth = 1 order by h.place)
  into v_kinds, v_heads, v_texts, v_first
  from (
    select x.ordinality as place, coalesce(remem._one_line(x.kind), 'other') as kind,
      remem._one_line(case when x.title is null or x.title = x.body then coalesce(x.body, '')
        else x.title || ': ' || coalesce(x.body, '') end) as text,
      row_number() over (partition by coalesce(remem._one_line(x.kind), 'other') order by x.ordinality) as nth
    from unnest(hits) with ordinality x
  ) h;
  -- A line break belongs to every line; the last one is not printed and pays for nothing.
  select f.* into v_fit from remem._fit(
    array(select octet_length(t) from unnest(v_texts) with ordinality x (t, n) order by n),
    array(select octet_length(v_heads[n]) + 1 + case when v_first[n] then octet_length(v_kinds[n]) + 2 else 0 end
      from generate_series(1, v_count) n order by n),
    budget, octet_length(format(v_more, v_count))) f;
  select string_agg(case when l.nth = 1 then l.kind || E':\n' else '' end || l.line, E'\n' order by l.best, l.n) into v_text
  from (
    select n, v_kinds[n] as kind, v_heads[n] || remem._shorten(v_texts[n], v_fit.most) as line,
      min(n) over (partition by v_kinds[n]) as best, row_number() over (partition by v_kinds[n] order by n) as nth
    from generate_series(1, v_fit.counted) n
  ) l;
  if v_fit.counted < v_count then
    v_text := concat_ws(E'\n', v_text, format(v_more, v_count - v_fit.counted));
  end if;
  return coalesce(v_text, '');
end
$$;
comment on function remem._render_compact(remem.recall_hit[], int) is 'One line a hit, by kind.';

-- A block a hit: the numbers, where it comes from, then the text.
create or replace function remem._render_verbose(hits remem.recall_hit[], budget int) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_more constant text := '(+%s more)';
  v_count int := cardinality(hits);
  v_heads text[];
  v_texts text[];
  v_fit record;
  v_text text;
begin
  select array_agg(h.head || E'\n' order by h.place), array_agg(h.text order by h.place) into v_heads, v_texts
  from (
    -- Whatever a reader may take for a new line is one, and indented: no text looks like the head of a hit.
    select x.ordinality as place,
      '  ' || regexp_replace(coalesce(x.body, ''), '\r\n?|[\u000a-\u000c\u001c-\u001e\u0085\u2028\u2029]', E'\n  ', 'g') as text,
      concat_ws(E'\n',
        concat_ws(' ', format('[%s]', x.ordinality), remem._one_line(x.kind), remem._one_line(x.title)),
        concat_ws(', ', '  score ' || round(x.score::numeric, 3), 'relevance ' || round(x.relevance::numeric, 3),
          'found by ' || nullif(array_to_string(x.arms, ' + '), '')),
        '  signals ' || (select string_agg(s.key || ' ' || s.value, ', ' order by s.key)
          from jsonb_each_text(case when jsonb_typeof(x.signals) = 'object' then x.signals else '{}' end) s),
        '  source ' || remem._one_line(concat_ws(' ', x.source_class, x.source_ref, 'session ' || x.session_ref)),
        '  ' || nullif(concat_ws(', ', 'occurred ' || to_char(x.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'),
          case when x.freshness <> 'current' then x.freshness end), ''),
        '  linked from ' || x.expanded_from,
        '  same text in ' || nullif(case when jsonb_typeof(x.duplicates) = 'array' then jsonb_array_length(x.duplicates) else 0 end, 0)
          || ' more: ' || (select remem._one_line(string_agg(
              coalesce(d ->> 'source_ref', d ->> 'ref', d ->> 'session_ref', d ->> 'memory_id'), ', '))
            from jsonb_array_elements(case when jsonb_typeof(x.duplicates) = 'array' then x.duplicates else '[]' end) d),
        '  degraded ' || nullif(array_to_string(x.degraded, ', '), '')) as head
    from unnest(hits) with ordinality x
  ) h;
  select f.* into v_fit from remem._fit(
    array(select octet_length(t) from unnest(v_texts) with ordinality x (t, n) order by n),
    array(select octet_length(t) + 1 from unnest(v_heads) with ordinality x (t, n) order by n),
    budget, octet_length(format(v_more, v_count))) f;
  select string_agg(v_heads[n] || remem._shorten(v_texts[n], v_fit.most), E'\n' order by n) into v_text
  from generate_series(1, v_fit.counted) n;
  if v_fit.counted < v_count then
    v_text := concat_ws(E'\n', v_text, format(v_more, v_count - v_fit.counted));
  end if;
  return coalesce(v_text, '');
end
$$;
comment on function remem._render_verbose(remem.recall_hit[], int) is 'A block a hit with its numbers.';

-- Always valid JSON: whole hits go from the end.
create or replace function remem._render_json(hits remem.recall_hit[], budget int) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_count int := cardinality(hits);
  v_parts text[] := array(
    select jsonb_strip_nulls(to_jsonb(h))::text from unnest(hits) with ordinality h order by h.ordinality);
  v_used int := octet_length(format('{"hits": [], "omitted": %s}', v_count));
  v_kept int := 0;
begin
  for n in 1 .. v_count loop
    v_used := v_used + octet_length(v_parts[n]) + case when n > 1 then 2 else 0 end;
    exit when v_used > budget;
    v_kept := n;
  end loop;
  return format('{"hits": [%s], "omitted": %s}', array_to_string(v_parts[1:v_kept], ', '), v_count - v_kept);
end
$$;
comment on function remem._render_json(remem.recall_hit[], int) is 'Hits as JSON, whole ones only.';

create or replace function remem.render(
  workspace text, hits remem.recall_hit[], format text default 'compact', budget_bytes int default 4000
) returns text
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_hits remem.recall_hit[] := coalesce(hits, '{}');
begin
  perform remem._authorize(workspace, 'read');
  perform remem._check_member('format', format, '{compact,verbose,json}', null);
  if cardinality(v_hits) > 10000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'hits', 'got', cardinality(v_hits), 'limit', 10000), 'At most 10000 hits');
  end if;
  if budget_bytes is null or budget_bytes not between 40 and 100000000 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'budget_bytes', 'value', budget_bytes, 'limit', 100000000),
      'A number of bytes from 40');
  end if;
  return case format
    when 'compact' then remem._render_compact(v_hits, budget_bytes)
    when 'verbose' then remem._render_verbose(v_hits, budget_bytes)
    else remem._render_json(v_hits, budget_bytes) end;
end
$$;
comment on function remem.render(text, remem.recall_hit[], text, int) is
  'Hits as a text of at most budget_bytes bytes of UTF-8: select remem.render(workspace, array(select h from remem.recall(workspace, query) h)). format: compact (by kind, one line a hit), verbose (scores, signals, sources, dates, duplicates) or json ({"hits": [...], "omitted": n}, always valid). Long texts are shortened between code points and end in "...", the last ranks left out are counted as "(+n more)" or in omitted.';
