-- Names without a language model: who and what a text speaks of. Rules over the shipped character tables, so
-- that they are the same in every locale. remem.rebuild_entities is due after a change of what is found.

-- Spaces and apostrophes of Unicode as their plain forms. replace() is far cheaper than translate(). Not strict, or it
-- would not be inlined.
create or replace function remem._plain_spaces(text) returns text
language sql immutable parallel safe
return case when octet_length($1) = length($1) then replace(replace($1, E'\t', ' '), E'\r', ' ')
  else replace(replace(replace(replace(replace($1, E'\t', ' '), E'\r', ' '), E'\u00a0', ' '), E'\u3000', ' '), E'\u2019', '''') end;
comment on function remem._plain_spaces(text) is 'Tabs, no-break and ideographic spaces as spaces, curly apostrophes as straight ones.';

-- Words in the one spelling in which names are stored and looked up: folded, without quotes, brackets and
-- punctuation at their edges, without @, # and a possessive; single spaces between them. A line break stays, as a
-- word of its own, so that many names are spelled in one call. No regex: called for every memory and query.
create or replace function remem._entity_names(text) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  c_strange constant text := E'],;:!?"`(){}[<>|*=&%$\u201c\u201d\u201e\u2018\u00ab\u00bb\u2039\u203a\u300a\u300b\u300c\u300d\u300e\u300f\u3010\u3011\u3001\u3002\u2026';
  c_left constant text := c_strange || E'''@#\u00bf\u00a1';
  c_right constant text := c_strange || '''.';
  v_text text := remem._fold($1);
begin
  v_text := remem._plain_spaces(v_text);
  -- Most names have nothing at the edges of their words: one look says so and starts no query.
  if v_text collate "C" !~ ('[' || c_left || E'.]|[ \n][ \n]|^[ \n]|[ \n]$|^$') then
    return replace(v_text, E'\n', E' \n ');
  end if;
  return (
    select string_agg(case when t.word like '%''s' then left(t.word, -2) else t.word end, ' ')
    from (
      select rtrim(ltrim(w.word, c_left), c_right) as word
      from string_to_table(replace(v_text, E'\n', E' \n '), ' ') as w (word)
      offset 0
    ) as t
    where t.word <> ''
  );
end
$$;
comment on function remem._entity_names(text) is 'The words of names and queries in the spelling in which names are stored.';

-- Words with a capital that are no names: openers of sentences, fillers, weekdays and months. A regex of whole
-- words at the start of a run, with what an apostrophe may add to them.
create or replace function remem._entity_openers() returns text
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '^(?:(?:a|about|after|again|ah|all|also|although|always|am|an|and|another|any|anybody|anyone|anything|are|aren|as|at|aw|awesome|because'
    '|been|before|being|both|but|by|bye|can|congrats|cool|could|couldn|did|didn|do|does|doesn|doing|don|each|either|even|every|everybody'
    '|everyone|everything|exactly|few|finally|first|for|from|glad|good|got|great|had|has|hasn|have|haven|having|he|hello'
    '|her|here|hey|hi|his|hmm|hope|how|however|i|if|in|indeed|instead|is|isn|it|its|just|last|later|let|like|lol|look'
    '|many|maybe|me|more|most|much|my|never|next|nice|no|nobody|none|nope|not|note|nothing|now|of|oh|ok|okay|on|once|one|only'
    '|or|other|our|out|over|perhaps|please|really|right|same|see|she|should|shouldn|since|so|some|somebody|someone|something'
    '|sometimes|soon|sorry|still|such|sure|thank|thanks|that|the|their|them|then|there|these|they|this|those|though'
    '|through|to|today|todo|together|tomorrow|too|two|under|until|up|upon|us|use|very|was|wasn|we|well|were|weren|what'
    '|whatever|when|whenever|where|whether|which|while|who|whose|why|will|with|without|won|would|wouldn|wow|yay|yeah'
    '|yep|yes|yesterday|yet|you|your'
    '|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august'
    '|september|october|november|december)s?(?:''[a-z]*)?(?:[ ]|$))+'
$$;
comment on function remem._entity_openers() is 'A regex of capitalised words that are no names.';

-- What may be the names of one memory, as written: first those of `names`, which the caller passed as entities, then
-- `also` (speaker, subject, tags, aliases, topic key), quoted names, mentions, tags, identifiers (ERR_4071, CamelCase,
-- snake_case, ABC-123, k8s, v1.2), paths and files, URLs with their hosts, e-mail addresses, and runs of up to four
-- capitalised words. A single capitalised word that opens a sentence is none, unless something speaks for it: it is
-- seen again, is an acronym, owns something ("Luna's") or does something ("Alice prefers"). Only the first 20,000
-- characters are looked at. Unspaced scripts have no capitals: of those only names that are passed or quoted. Each
-- kind is searched only where one regex finds what it cannot do without: most texts have little of it.
create or replace function remem._entity_candidates(text, also text[], names text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_text text := left($1, 20000);
  v_names text[] := coalesce(array_remove($3, null), '{}') || coalesce(array_remove($2, null), '{}');
  v_upper text := 'A-Z';
  v_word text := 'A-Za-z0-9_';
  v_cap text;
begin
  v_text := E'\n' || remem._plain_spaces(v_text);
  if octet_length(v_text) > length(v_text) then
    v_upper := 'A-Z' || remem._chars_upper();
    v_word := remem._chars_word() || '_';
  end if;

  -- Many a text has nothing of all that.
  if v_text collate "C" !~ E'["@#_/\\\\0-9A-Z\u0080-\U0010FFFF]|[a-z-][.][a-z]' then
    return v_names;
  end if;

  if v_text collate "C" ~ E'["\u201c\u201e\u300c\u300e\u00ab]' then
    v_names := v_names || array(
      select q.quoted[1]
      from regexp_matches(v_text collate "C",
        E'["\u201c\u201e\u300c\u300e\u00ab]([^a-z"\u201c\u201d\u300c-\u300f\u00bb\n][^"\u201c\u201d\u300c-\u300f\u00bb\n]{0,63})["\u201d\u201c\u300d\u300f\u00bb]', 'g')
        as q (quoted)
      where q.quoted[1] collate "C" !~ E'[.,;:!?\u3002\u3001\uff01\uff1f]$|( [^ ]*){4}'
      limit 32
    );
  end if;

  if v_text collate "C" ~ '[@#_/\\0-9]|[a-z][A-Z]|[A-Za-z-][.][a-z]' then
    v_names := v_names || array(
      select p.part
      from (
        select rtrim(ltrim(w.token, '"''`([{<*,;'), '"''`()[]{}>*.,;:!?') as token
        from string_to_table(replace(v_text, E'\n', ' '), ' ') as w (token)
        where w.token collate "C" ~ '[@#_/\\0-9]|[a-z][A-Z.:]'
        offset 0
      ) as t
      cross join lateral (
        select case when strpos(t.token, ':') > 0 then regexp_replace(t.token collate "C", '(:[0-9]+)+$', '') else t.token end
        union all
        select substring(t.token collate "C" from '://(?:[^/@]*@)?([^/?#:]+)') where strpos(t.token, '://') > 0
        union all
        select substring(t.token collate "C" from '[/\\]([^/\\:]+[.][A-Za-z0-9]+)(?::[0-9]+)*$')
        where strpos(t.token, '://') = 0 and (strpos(t.token, '/') > 0 or strpos(t.token, '\') > 0)
      ) as p (part)
      where p.part is not null and t.token collate "C" ~ ('^[@#][^-0-9@#/][^@/]+$|[A-Za-z0-9]_[A-Za-z0-9]|[a-z][A-Z]'
        '|^[A-Z][A-Z0-9]+-[0-9]+$|^[A-Za-z]+[0-9]|^v?[0-9]+([.][0-9]+){2,}|[A-Za-z]://|[^/]@[^@]+[.][A-Za-z]'
        '|^[~.]{0,2}/[^/]|[^/]/[^/]*[A-Za-z][^/]*/[^/]|[/\\][^/\\]*[.][A-Za-z0-9]+(:[0-9]+)*$|\\[^\\]+\\'
        '|^[A-Za-z0-9_-]{2,}([.][A-Za-z0-9_-]{2,})*[.][a-z][a-z0-9]{0,5}(:[0-9]+)?$')
      limit 64
    );
  end if;

  -- A run comes with what stands before it, which tells where a sentence opens, and with the word behind it.
  if v_text collate "C" ~ ('[' || v_upper || ']') then
    v_cap := '[' || v_upper || '][' || v_word || ''']*(?:[&-][' || v_word || ']+)*';
    v_names := v_names || array(
      select r.run
      from (
        select s.n, s.run = s.m[2] and s.m[1] collate "C" ~ E'[.!?:\n\u2026]' and strpos(s.run, ' ') = 0 and s.run not like '%''s'
            and s.run collate "C" !~ '^[A-Z]{2}' and coalesce(s.m[3] collate "C" !~ '[^s]s$| (?:and|said|told|had|will|can)$', true)
            as opens,
          -- Of a long run what lies between its small words.
          unnest(case when s.run not like '% % % % %' then array[s.run]
            when s.run collate "C" ~ ' [a-z]+ [a-z]+ ' then regexp_split_to_array(s.run collate "C", ' [a-z]+ [a-z]+ ')
            else regexp_split_to_array(s.run collate "C", ' [a-z]+ ') end) as run
        from (
          select p.m, p.n, regexp_replace(p.m[2] collate "C", remem._entity_openers(), '', 'i') as run
          from (
            select regexp_match(f.m[1] collate "C", '^([^' || v_word || ']+)(.*?)( [a-z]+)?$') as m, f.n
            from regexp_matches(v_text collate "C", '[^' || v_word || ']+' || v_cap
              || '(?: (?:(?:of|the|de|van|von|der|del|la|di) ){0,2}' || v_cap || ')*(?: [a-z]+)?', 'g') with ordinality as f (m, n)
            offset 0
          ) as p
          offset 0
        ) as s
        where s.run <> ''
      ) as r
      where r.run not like '% % % % %'
      group by r.run
      having not bool_and(r.opens) or count(*) > 1
      order by min(r.n)
      limit 64
    );
  end if;

  return v_names;
end
$$;
comment on function remem._entity_candidates(text, text[], text[]) is 'What may be the names of a memory, as written, by rules.';

-- The names of one memory, at most 32 of 2 to 128 bytes, in one spelling (_entity_names); given are those of `names`.
-- One SELECT with a bound body, which becomes part of the statement that calls it: a batch is spelled in one.
create or replace function remem._extract_entities(source text, also text[], names text[])
returns table (name text, given boolean)
language sql stable parallel safe rows 8
begin atomic
  select n.name, bool_or(n.n <= coalesce(cardinality(array_remove($3, null)), 0))
  from (
    select btrim(l.name) as name, l.n
    from string_to_table(remem._entity_names(replace(replace(
      array_to_string(remem._entity_candidates($1, $2, $3), E'\u0001'), E'\n', ' '), E'\u0001', E'\n')), E'\n')
      with ordinality as l (name, n)
  ) as n
  where octet_length(n.name) between 2 and 128
  group by n.name
  order by min(n.n)
  limit 32;
end;
comment on function remem._extract_entities(text, text[], text[]) is
  'The names that a memory is about, by rules; at most 32, in the spelling in which they are looked up.';
