-- The deterministic stage of a plan: what the words of a prompt say about the topics of the catalog.

-- The words of a query that may qualify a topic: all but the generic ones. '' for a query of nothing else. words: the
-- query's, where they are known.
create or replace function remem._distinctive(query text, generic text[], words text) returns text
language plpgsql immutable
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  return coalesce((
    select string_agg(w.word, ' ' order by w.n)
    from string_to_table(btrim(coalesce(words, remem._words(remem._fold(query)))), ' ') with ordinality w (word, n)
    where not exists (select from unnest(generic) g (word) where g.word = w.word)), '');
end
$$;
comment on function remem._distinctive(text, text[], text) is 'A prompt without its generic words.';

-- Everything a plan goes by, read once. The caller has authorised and checked the options.
create or replace function remem._open_plan(workspace text, prompt text, options jsonb) returns remem._plan_context
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_analysed constant int := 20000;  -- characters of a prompt that are looked at: half from its start, half from its end
  c_joined constant int := 64;       -- words of a prompt that are tried as one with the next
  v_context remem._plan_context;
  v_row record;
  v_prompt text := btrim(prompt, E' \t\r\n');
  v_rest text;
  v_phrase text;
  v_tokens text[];
  v_joined text[];
begin
  v_context.workspace := workspace;
  v_context.degraded := '{}';
  v_context.continuity := '{}';
  select w.workspace is null as unknown, s as space, (
    select jsonb_object_agg(p.name, p.value order by p.workspace, p.space_no) from remem.plan_setting p
    where p.workspace in ('', _open_plan.workspace) and p.space_no in (0, s.space_no)) as settings
  into v_row
  from (values (1)) x left join remem.workspace w on w.workspace = _open_plan.workspace
  join remem.embedding_space s on s.space_no = coalesce(w.space_no, (select d.value::int from remem.setting d where d.name = 'default_space'));
  v_context.space := v_row.space;
  if v_row.unknown then
    v_context.degraded := '{unknown_workspace}';
  end if;
  v_context.options := remem._plan_defaults() || coalesce(v_row.settings, '{}') || options;
  v_context.owners := case when options ? 'context' then remem._context_owners(options -> 'context') else '{""}' end;
  if options ? 'providers' then
    v_context.given := array(select distinct e from jsonb_array_elements_text(options -> 'providers') e order by e);
  end if;

  v_context.query := left(v_prompt, (v_context.options ->> 'query_chars')::int);
  if length(v_prompt) > c_analysed then
    v_context.degraded := array_append(v_context.degraded, 'prompt_truncated');
    v_prompt := left(v_prompt, c_analysed / 2) || E'\n' || right(v_prompt, c_analysed / 2);
  end if;
  v_context.words := remem._phrase_words(remem._fold(v_prompt));
  if (v_context.options ->> 'continuity')::boolean then
    v_context.continuity := array(
      select distinct p.phrase from remem.continuity_phrase p
      where p.workspace in ('', _open_plan.workspace) and strpos(v_context.words, ' ' || p.phrase || ' ') > 0 order by p.phrase);
  end if;
  -- The words of such a phrase are no evidence for a topic: "last time" says nothing about time tracking.
  v_rest := v_context.words;
  foreach v_phrase in array v_context.continuity loop
    v_rest := replace(replace(v_rest, ' ' || v_phrase || ' ', '  '), ' ' || v_phrase || ' ', ' ');
  end loop;
  v_tokens := remem._phrase_tokens(v_context.words);
  -- A small model is one of English: texts of another language are alike to it for being in that language. A space whose
  -- model knows languages says so ("multilingual").
  select coalesce(array_agg(w.word), '{}'), not (v_context.options ->> 'multilingual')::boolean
    and count(*) > 0 and count(*) filter (where not w.english) >= count(*) filter (where w.english)
  into v_context.generic, v_context.is_foreign
  from (
    select g.word, bool_or(g.language = 'english') as english
    from unnest(v_tokens) t (token) join remem.generic_word g on g.workspace in (_open_plan.workspace, '') and g.word = t.token
    group by g.word) w;
  -- Two words that a topic writes as one: "set up" and setup.
  v_joined := array(
    select j.word from (
      select w.word || lead(w.word) over (order by w.n) as word, length(w.word) as size, w.n
      from string_to_table(btrim(v_rest), ' ') with ordinality w (word, n) order by w.n limit c_joined) j
    where length(j.word) >= 5 and j.size > 1 and length(j.word) > j.size + 1 and exists (
      select from remem.topic_token k where k.workspace = _open_plan.workspace and k.token = remem._topic_stem(j.word)));
  v_tokens := v_tokens || v_joined;
  select coalesce(array_agg(s.stem order by s.stem), '{}'), coalesce(array_agg(s.counts order by s.stem), '{}')
  into v_context.tokens, v_context.counts
  from (
    select remem._topic_stem(t.token) as stem, bool_or(r.token is not null) as counts
    from unnest(v_tokens) t (token)
    left join unnest(case when v_context.continuity = '{}' then v_tokens else remem._phrase_tokens(v_rest) || v_joined end) r (token) on r.token = t.token
    where not exists (select from unnest(v_context.generic) g (word) where g.word = t.token)
    group by 1) s;
  v_context.distinctive := remem._distinctive(v_context.query, v_context.generic,
    case when v_context.query = v_prompt and octet_length(v_context.words) = length(v_context.words) then v_context.words end);

  select array_agg(p.provider_id order by p.provider_id <> 'postgres', p.provider_id) filter (where p.enabled),
    array_agg(p.name order by p.provider_id <> 'postgres', p.provider_id) filter (where p.enabled),
    array_agg(p.summary order by p.provider_id <> 'postgres', p.provider_id) filter (where p.enabled),
    array_agg(p.result_limit order by p.provider_id <> 'postgres', p.provider_id) filter (where p.enabled),
    array_agg(p.provider_id) filter (where not p.enabled)
  into v_context.provider_ids, v_context.provider_names, v_context.provider_texts, v_context.provider_limits, v_context.disabled
  from (
    select p.provider_id, p.name, p.summary, p.result_limit, p.enabled from remem.provider p where p.workspace = _open_plan.workspace
    union all
    select b.provider_id, b.name, b.summary, b.result_limit, b.enabled from remem._providers('') b
    where not exists (select from remem.provider p where p.workspace = _open_plan.workspace and p.provider_id = b.provider_id)
  ) p
  where v_context.given is null or p.provider_id = any (v_context.given);
  v_context.disabled := coalesce(v_context.disabled, '{}');
  -- A caller's provider needs no descriptor.
  for v_phrase in select g from unnest(v_context.given) g
    where g <> all (coalesce(v_context.provider_ids, '{}')) and g <> all (v_context.disabled) loop
    v_context.provider_ids := array_append(v_context.provider_ids, v_phrase);
    v_context.provider_names := array_append(v_context.provider_names, v_phrase);
    v_context.provider_texts := array_append(v_context.provider_texts, null);
    v_context.provider_limits := array_append(v_context.provider_limits, null);
  end loop;
  v_context.provider_ids := coalesce(v_context.provider_ids, '{}');

  v_context.topics := (select count(*) from remem.topic t
    where t.workspace = _open_plan.workspace and t.owner = any (v_context.owners));
  if v_context.topics > (v_context.options ->> 'catalog_limit')::int then
    v_context.degraded := array_append(v_context.degraded, 'catalog_limited');
    select t.weight, t.topic_no into v_context.cutoff_weight, v_context.cutoff_no
    from remem.topic t where t.workspace = _open_plan.workspace and t.owner = any (v_context.owners)
    order by t.weight desc, t.topic_no offset (v_context.options ->> 'catalog_limit')::int - 1 limit 1;
  end if;
  return v_context;
end
$$;
comment on function remem._open_plan(text, text, jsonb) is 'Space, settings, words, providers and size of the catalog for a plan.';

-- The topics that the prompt's words point at, best first, at most 16. A title or an alias is looked for as a phrase only
-- where all its distinctive words are there; generic words are in no index, so they qualify nothing.
create or replace function remem._plan_words(context remem._plan_context) returns remem._topic_match[]
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_title_phrase float8 := (context.options ->> 'title_phrase')::float8;
  v_alias_phrase float8 := (context.options ->> 'alias_phrase')::float8;
  v_title float8 := (context.options ->> 'title_overlap')::float8;
  v_alias float8 := (context.options ->> 'alias_overlap')::float8;
  v_tag float8 := (context.options ->> 'tag_overlap')::float8;
  v_summary float8 := (context.options ->> 'summary_base')::float8;
  v_summary_token float8 := (context.options ->> 'summary_token')::float8;
  v_summary_most float8 := (context.options ->> 'summary_most')::float8;
  v_continuity boolean := cardinality(context.continuity) > 0;
  v_boost float8 := (context.options ->> 'continuity_boost')::float8;
  v_unresolved float8 := (context.options ->> 'unresolved_boost')::float8;
begin
  return coalesce((
    with shared as (
      select k.topic_no, k.place, k.size, count(*) as n, count(*) filter (where t.counts) as m
      from unnest(context.tokens, context.counts) t (token, counts)
      join remem.topic_token k on k.workspace = context.workspace and k.token = t.token
      where k.owner = any (context.owners)
      group by k.topic_no, k.place, k.size
    ), overlap as (
      select s.topic_no, s.title, s.alias, s.tag, s.summary, s.title_full, s.alias_full
      from (
        select s.topic_no,
          max(v_title * s.m / s.size) filter (where s.place = 0) as title,
          max(v_alias * s.m / s.size) filter (where s.place > 0) as alias,
          max(v_tag * s.m / s.size) filter (where s.place = -1) as tag,
          max(v_summary + least(v_summary_most, v_summary_token * s.m)) filter (where s.place = -2 and s.m > 0) as summary,
          bool_or(s.place = 0 and s.n = s.size) as title_full,
          array_agg(s.place) filter (where s.place > 0 and s.n = s.size) as alias_full
        from shared s group by s.topic_no
      ) s
      order by greatest(s.title, s.alias, s.tag, s.summary, case when s.title_full then v_title_phrase end,
        case when s.alias_full is not null then v_alias_phrase end, 0) desc, s.topic_no
      limit 64
    ), scored as (
      select s.*, least(1, s.base + case when not v_continuity then 0 when s.unresolved then v_unresolved else v_boost end) as score
      from (
        select t.topic_no, t.topic_id, t.title as name, t.unresolved, t.scope, t.scope_ref, t.providers, t.weight,
          o.title, o.alias, o.tag, f.title as title_score, f.alias as alias_score, greatest(f.title, f.alias, o.tag, o.summary) as base
        from overlap o
        join remem.topic t on t.workspace = context.workspace and t.topic_no = o.topic_no
        cross join lateral (
          select case when o.title_full and strpos(context.words, ' ' || t.key || ' ') > 0 then greatest(o.title, v_title_phrase) else o.title end as title,
            case when o.alias_full is not null and exists (select from unnest(o.alias_full) a
              where strpos(context.words, ' ' || t.alias_keys[a] || ' ') > 0) then greatest(o.alias, v_alias_phrase) else o.alias end as alias
          offset 0
        ) f
        where (context.cutoff_no is null or t.weight > context.cutoff_weight
            or t.weight = context.cutoff_weight and t.topic_no <= context.cutoff_no)
          and (not t.derived or (select m.superseded_at is null and m.forgotten_at is null and (m.valid_from is null or m.valid_from <= now())
            and (m.valid_to is null or m.valid_to > now()) from remem.memory m where m.workspace = t.workspace and m.memory_no = t.memory_no))
      ) s
      where s.base > 0
    )
    select array_agg((r.topic_no, r.topic_id, r.name, r.score,
        case when r.base = r.title_score then case when r.title_score is distinct from r.title then 'exact title phrase' else 'title token overlap' end
          when r.base = r.alias_score then case when r.alias_score is distinct from r.alias then 'exact alias phrase' else 'alias token overlap' end
          when r.base = r.tag then 'tag token overlap' else 'summary token overlap' end,
        r.unresolved, r.scope, r.scope_ref, r.providers)::remem._topic_match order by r.score desc, r.weight desc, r.topic_no)
    from (
      select s.* from scored s order by s.score desc, s.weight desc, s.topic_no
      limit greatest(16, (context.options ->> 'max_topics')::int)
    ) r), '{}');
end
$$;
comment on function remem._plan_words(remem._plan_context) is 'The deterministic stage: topics by phrases, tokens, tags, summary and continuity.';
