-- The words a plan goes by, as rows per language: continuity phrases, and generic words that say nothing about a topic.

-- A phrase or word in the form it is compared in; RM001 when nothing is left of it, RM003 when it is too long.
create or replace function remem._planner_word(argument text, value text, language text) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_word text;
begin
  perform remem._check_length(argument, value, 300, null);
  v_word := btrim(remem._phrase_words(remem._fold(value)));
  if coalesce(v_word, '') = '' then
    perform remem._raise('RM001', jsonb_build_object('argument', argument, 'value', value), format('A %s has a letter or a digit', argument));
  end if;
  if coalesce(octet_length(language), 0) not between 1 and 100 then
    perform remem._raise('RM001', '{"argument": "language", "limit": 100}', 'Name the language, for example english');
  end if;
  return v_word;
end
$$;
comment on function remem._planner_word(text, text, text) is 'Normalises a continuity phrase or generic word.';

create or replace function remem.put_continuity_phrase(workspace text, language text, phrase text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin_of(workspace);
  phrase := remem._planner_word('phrase', phrase, language);
  insert into remem.continuity_phrase (workspace, language, phrase)
  values (coalesce(put_continuity_phrase.workspace, ''), put_continuity_phrase.language, put_continuity_phrase.phrase)
  on conflict on constraint continuity_phrase_pkey do nothing;
end
$$;
comment on function remem.put_continuity_phrase(text, text, text) is
  'Adds a phrase by which prompts refer to earlier work ("where we left off"), for one workspace or, with null, for all. Case and accents do not matter; it is found at word boundaries. There are phrases in English, German, French, Spanish, Chinese and Japanese to begin with.';

create or replace function remem.drop_continuity_phrase(workspace text, language text, phrase text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin_of(workspace);
  phrase := remem._planner_word('phrase', phrase, language);
  delete from remem.continuity_phrase p
  where p.workspace = coalesce(drop_continuity_phrase.workspace, '') and p.phrase = drop_continuity_phrase.phrase
    and p.language = drop_continuity_phrase.language;
  return found;
end
$$;
comment on function remem.drop_continuity_phrase(text, text, text) is
  'Takes a continuity phrase away, of one workspace or, with null, of all; says whether there was one.';

create or replace function remem.list_continuity_phrases(workspace text) returns setof remem.planner_word
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  return query
    select nullif(p.workspace, ''), p.language, p.phrase from remem.continuity_phrase p
    where p.workspace in ('', list_continuity_phrases.workspace) order by p.language, p.phrase, p.workspace;
end
$$;
comment on function remem.list_continuity_phrases(text) is 'The continuity phrases that hold in a workspace.';

create or replace function remem.put_generic_word(workspace text, language text, word text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize_admin_of(workspace);
  word := remem._generic_word(word, language);
  insert into remem.generic_word (workspace, language, word)
  values (coalesce(put_generic_word.workspace, ''), put_generic_word.language, put_generic_word.word)
  on conflict on constraint generic_word_pkey do nothing;
  if found then
    perform remem._reindex_word(workspace, word);
  end if;
end
$$;
comment on function remem.put_generic_word(text, text, text) is
  'Declares a word generic ("project", "service"): it never qualifies a topic, in one workspace or, with null, in all. The topics that have it are indexed anew, so that for all workspaces it takes as long as there are such topics.';

create or replace function remem.drop_generic_word(workspace text, language text, word text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_found boolean;
begin
  perform remem._authorize_admin_of(workspace);
  word := remem._generic_word(word, language);
  delete from remem.generic_word g
  where g.workspace = coalesce(drop_generic_word.workspace, '') and g.word = drop_generic_word.word and g.language = drop_generic_word.language;
  v_found := found;
  if v_found then
    perform remem._reindex_word(workspace, word);
  end if;
  return v_found;
end
$$;
comment on function remem.drop_generic_word(text, text, text) is
  'Lets a word count again, in one workspace or, with null, in all; says whether it was generic there.';

-- One word: a token as topics and prompts share them.
create or replace function remem._generic_word(word text, language text) returns text
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_tokens text[] := remem._phrase_tokens(' ' || remem._planner_word('word', word, language) || ' ');
begin
  if cardinality(v_tokens) <> 1 then
    perform remem._raise('RM001', jsonb_build_object('argument', 'word', 'value', word),
      'One word; in a script without spaces one or two characters');
  end if;
  return v_tokens[1];
end
$$;
comment on function remem._generic_word(text, text) is 'The one token that a generic word is.';

-- The topics with a word, whose words are to be counted anew. A topic is found by its texts, for a word that was generic
-- is in no index.
create or replace function remem._reindex_word(workspace text, word text) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_row record;
begin
  for v_row in
    select t.workspace, array_agg(t.topic_no) as topic_nos
    from remem.topic t
    where (_reindex_word.workspace is null or t.workspace = _reindex_word.workspace)
      and strpos(replace(remem._phrase_words(remem._fold(concat_ws(' ', t.key, array_to_string(t.alias_keys, ' '),
        array_to_string(t.tags, ' '), t.summary))), ' ', case when octet_length(word) = length(word) then ' ' else '' end), word) > 0
    group by t.workspace order by t.workspace
  loop
    perform remem._index_topics(v_row.workspace, v_row.topic_nos);
  end loop;
end
$$;
comment on function remem._reindex_word(text, text) is 'Indexes the topics anew that have a word.';

create or replace function remem.list_generic_words(workspace text) returns setof remem.planner_word
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  return query
    select nullif(g.workspace, ''), g.language, g.word from remem.generic_word g
    where g.workspace in ('', list_generic_words.workspace) order by g.language, g.word, g.workspace;
end
$$;
comment on function remem.list_generic_words(text) is 'The generic words that hold in a workspace.';
