-- Lexical analysis for the posting table and for queries: words, bigrams of scripts that write
-- without spaces, and identifiers kept whole. No tsvector (1 MB limit) and no default parser
-- (locale dependent, splits identifiers). All in terms of folded text and shipped ranges.

-- Stored with every analysed memory. Raise it whenever the output of _fold, _language_dictionaries or
-- _lexemes changes for any text, or _lexeme_limit does: stored postings then no longer match queries
-- until reindexed.
create or replace function remem._analyser_version() returns int
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select 1
$body$;
comment on function remem._analyser_version() is
  'Version of the lexical analysis; postings of another version have to be rebuilt.';

-- A text of 2 MB holds some 350,000 words; its first ones are enough to find it.
create or replace function remem._lexeme_limit() returns int
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select 100000
$body$;
comment on function remem._lexeme_limit() is
  'How many words, how many bigrams and how many identifiers of one text are analysed.';

-- A lexeme as a number, as postings hold it. The body is bound when it is created and inlined where it is used. The number
-- is the same on every server of one byte order; a dump that moves to the other needs rebuild_postings.
create or replace function remem._word(lexeme text) returns bigint
language sql immutable parallel safe
return hashtextextended(lexeme collate "C", 0);
comment on function remem._word(text) is 'The number of a lexeme in postings.';

-- Letters, numbers and marks of Han, kana, bopomofo, Hangul, Thai, Lao, Khmer and Myanmar.
create or replace function remem._chars_unspaced() returns text
language sql immutable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select E'\u0E01-\u0E3A\u0E40-\u0E4E\u0E50-\u0E59\u0E81-\u0EDF\u1000-\u1049\u1050-\u109D'
    '\u1100-\u11FF\u1780-\u17D3\u17D7\u17DC-\u17E9\u3005-\u3007\u3021-\u302F\u3038-\u303C'
    '\u3041-\u309A\u309D-\u309F\u30A1-\u30FA\u30FC-\u312F\u31A0-\u31BF\u31F0-\u31FF'
    '\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97C\uA9E0-\uA9FE\uAA60-\uAA76\uAA7A-\uAA7F'
    '\uAC00-\uD7FB\uF900-\uFAFF\U0001AFF0-\U0001B167\U00020000-\U0003FFFF'
$body$;
comment on function remem._chars_unspaced() is
  'Inside of a regex bracket: characters of scripts that are analysed as bigrams.';

-- The dictionaries a text search configuration gives to plain words, in order. Called by whoever
-- analyses, once a statement. The name may carry its schema; without one pg_catalog comes first, so
-- that nobody can shadow a built-in configuration, and the caller's search_path does not matter.
create or replace function remem._language_dictionaries(language text) returns regdictionary[]
language plpgsql stable parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  c_default constant oid := 3722;  -- the built-in parser
  c_word constant int := 2;        -- its token type of words
  v_dictionaries regdictionary[];
begin
  -- Those that come with the server, by one look-up.
  select array(
    select m.mapdict::regdictionary from pg_ts_config_map as m
    where m.mapcfg = c.oid and m.maptokentype = c_word order by m.mapseqno
  ) into v_dictionaries
  from pg_ts_config as c
  where c.cfgname = language::name and c.cfgname::text = language and c.cfgnamespace = 'pg_catalog'::regnamespace and c.cfgparser = c_default;
  if found then
    return v_dictionaries;
  end if;
  select array(
    select m.mapdict::regdictionary
    from pg_ts_config_map as m
    where m.mapcfg = c.oid and m.maptokentype = case
      when c.cfgparser = c_default then c_word
      else (select t.tokid from ts_token_type(c.cfgparser) as t where t.alias = 'word') end
    order by m.mapseqno
  ) into v_dictionaries
  from pg_ts_config as c join pg_namespace as n on n.oid = c.cfgnamespace
  where c.cfgname in (language::name, split_part(language, '.', 2)::name)
    and language in (c.cfgname::text, n.nspname || '.' || c.cfgname)
  order by n.nspname <> 'pg_catalog', c.oid
  limit 1;
  if not found then
    perform remem._raise(
      'RM001', jsonb_build_object('argument', 'language', 'value', _language_dictionaries.language),
      'Use one of: select cfgname from pg_ts_config'
    );
  end if;
  return v_dictionaries;
end
$body$;
comment on function remem._language_dictionaries(text) is
  'Dictionaries of a text search configuration for words, in order; RM001 for an unknown one.';

-- A folded text without its unspaced scripts, and the bigrams of those. Called only for texts beyond ASCII.
create or replace function remem._spaced(folded text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  return regexp_replace(folded collate "C", '[' || remem._chars_unspaced() || ']+', ' ', 'g');
end
$body$;
comment on function remem._spaced(text) is 'A folded text in which each run of an unspaced script is a space.';

create or replace function remem._bigrams(folded text) returns text[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  if folded collate "C" !~ ('[' || remem._chars_unspaced() || ']') then
    return null;
  end if;
  return array(
    select b.bigram[1]
    from regexp_matches(folded collate "C", '[' || remem._chars_unspaced() || ']+', 'g') as r (run)
      cross join lateral (
        select regexp_matches(r.run[1] collate "C", '..', 'g')
        union all
        select regexp_matches(substr(r.run[1], 2) collate "C", '..', 'g')
        union all
        select r.run where length(r.run[1]) = 1
      ) as b (bigram)
    limit remem._lexeme_limit()
  );
end
$body$;
comment on function remem._bigrams(text) is 'The bigrams of the unspaced scripts in a folded text.';

-- The identifiers of a spaced text that are kept whole. Called only where a joint stands between characters that may be
-- those of words; chars is the inside of a bracket, what words are made of.
create or replace function remem._wholes(spaced text, chars text) returns text[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, remem, pg_temp set plan_cache_mode = force_generic_plan
as $body$
declare
  v_word text := '[' || chars || ']+';
  v_joint constant text := '[-._/@#:+~\\]+';
  v_wholes text[];
begin
  if spaced collate "C" !~ ('[' || chars || ']' || v_joint || '[' || chars || ']') then
    return null;
  end if;
  v_wholes := array(
    select p.part
    from regexp_matches(
        spaced collate "C", v_word || '(?:' || v_joint || v_word || ')+', 'g'
      ) as c (whole)
      cross join lateral (
        select c.whole[1]
        union
        select btrim(s.piece, '-._/@#+~\')
        from unnest(array['[:#]+', '[/@#:\\]+']) as e (edge)
          cross join lateral regexp_split_to_table(c.whole[1] collate "C", e.edge) as s (piece)
        where c.whole[1] collate "C" ~ '[/@#:\\]'
          and btrim(s.piece, '-._/@#+~\') collate "C" ~ '[-._/@+~\\]'
      ) as p (part)
    limit remem._lexeme_limit()
  );
  if strpos(spaced, '://') > 0 then
    v_wholes := v_wholes || array(
      select u.url
      from regexp_matches(
          spaced collate "C", '[a-z][a-z0-9+.-]*://[^\u0001-\u0020<>"''`]+', 'g'
        ) as m (url)
        cross join lateral rtrim(m.url[1], '.,;:!?)]}-_/@#+~\') as u (url)
      where u.url collate "C" ~ '[][?=&%,;!$()*{}|^]'
      limit remem._lexeme_limit()
    );
  end if;
  return v_wholes;
end
$body$;
comment on function remem._wholes(text, text) is 'The identifiers of a folded text that are kept whole beside their words.';

-- The lexemes of a text with their frequency. extra = an identifier kept whole, beside its words:
-- the length of a document is the sum of tf of the others.
-- Words go through the dictionaries (first that knows it; a stop word yields nothing; unknown to all
-- stays as it is). A run of unspaced script yields its bigrams. Words joined by . _ / @ # : - + ~ \
-- yield the whole too (err_4071, a.b@c.org), and what lies between its : # and between all its
-- / \ : @ # if that is again joined (src/net/tls.rs and tls.rs of src/net/tls.rs:12); a URL with
-- other characters yields itself. Each lexeme comes once; one of more than 256 bytes as a hash.
-- Called for every memory and query. One SELECT with a bound body: it becomes part of the statement
-- that calls it, so that a batch of texts is analysed in one (some 25 microseconds for 20 words).
create or replace function remem._lexemes(source text, dictionaries regdictionary[])
returns table (lexeme text, tf int, extra boolean)
language sql stable parallel safe rows 30
begin atomic
  select
    (case
      when octet_length(a.lexeme) <= 256 then a.lexeme
      else 'h:' || encode(sha256(convert_to(a.lexeme, 'UTF8')), 'hex')
    end) collate "default",
    count(*)::int,
    bool_and(a.extra)
  from (
    select g.folded, g.chars, case when g.chars is null then g.folded else remem._spaced(g.folded) end as spaced
    from (
      select f.folded, case when octet_length(f.folded) > length(f.folded) then remem._chars_word() end as chars
      from (select remem._fold($1) as folded offset 0) as f
      offset 0
    ) as g
    offset 0
  ) as t
  cross join lateral (
    select unnest(coalesce(
      ts_lexize(dictionaries[1], w.word),
      ts_lexize(dictionaries[2], w.word),
      case when dictionaries[3] is not null then (
        select ts_lexize(d.dictionary, w.word)
        from unnest(dictionaries[3:]) with ordinality as d (dictionary, n)
        where ts_lexize(d.dictionary, w.word) is not null
        order by d.n
        limit 1
      ) end,
      array[w.word]
    )), false
    from (
      select s.word
      -- The regex costs as much for each match as replace() for a text: it is left what is rare.
      from string_to_table(regexp_replace(
          replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(t.spaced,
            '.', ' '), ',', ' '), E'\n', ' '), '''', ' '), '-', ' '), ':', ' '), '"', ' '), '?', ' '), '(', ' '), ')', ' ')
            collate "C",
          case when t.chars is null then '[^a-z0-9 ]+' else '[^ ' || remem._chars_word() || ']+' end, ' ', 'g'
        ), ' ') as s (word)
      where s.word <> ''
      limit remem._lexeme_limit()
    ) as w
    union all
    select unnest(remem._bigrams(t.folded)), false where t.chars is not null
    union all
    select unnest(remem._wholes(t.spaced, coalesce(t.chars, 'a-z0-9'))), true
    where t.spaced collate "C" ~ '[^\s.][-._/@#:+~\\]+[^\s.]'
  ) as a (lexeme, extra)
  group by 1;
end;
comment on function remem._lexemes(text, regdictionary[]) is
  'Lexemes of a text with frequencies; extra marks identifiers kept whole beside their words.';

-- What is embedded and analysed of a memory. Equal to remem_pg.text.document_text. Called at write
-- and at re-embedding. Stable because concat_ws is; a bound body, to be inlined.
create or replace function remem._document_text(
  title text, summary text, body text, speaker text, aliases text[], tags text[]
) returns text
language sql stable parallel safe
return concat_ws(
  E'\n',
  nullif(title, ''),
  nullif(summary, ''),
  coalesce(nullif(speaker, '') || ': ' || nullif(body, ''), nullif(body, '')),
  nullif(array_to_string(aliases, ' '), ''),
  nullif(array_to_string(tags, ' '), '')
);
comment on function remem._document_text(text, text, text, text, text[], text[]) is
  'The text of a memory that is embedded and lexically analysed.';
