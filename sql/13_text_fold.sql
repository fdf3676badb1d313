-- Folding: one spelling for texts that differ only in case, accents, width or composition.
-- Unicode promises that text of assigned characters normalises alike in every later version, so
-- code points that 14.0 (the oldest version in use: Postgres 15, Python 3.11) lacks are blanked
-- first. Case comes from shipped tables because lower() depends on the locale.

-- Blanks what Unicode 14.0 does not assign. Called by _fold and _hash_tokens with non-ASCII text.
create or replace function remem._assigned(text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
  select regexp_replace($1 collate "C", '[' || remem._chars_excluded() || ']', ' ', 'g')
$body$;
comment on function remem._assigned(text) is
  'The text with every code point that Unicode 14.0 does not assign (and U+11A7) replaced by a space.';

-- Simple lower case per code point. Called by _fold and _hash_tokens. translate() costs (length of
-- text) x (length of list), so the list is cut down to the capitals that the text really holds.
create or replace function remem._lower(text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  v_text text := lower($1 collate "C");
  v_capitals text;
begin
  if v_text collate "C" !~ ('[' || remem._chars_upper() || ']') then
    return v_text;
  end if;
  v_capitals := regexp_replace(v_text collate "C", '[^' || remem._chars_upper() || ']+', '', 'g');
  if length(v_capitals) > 24 then
    v_capitals := (
      select string_agg(distinct c collate "C", '') from string_to_table(v_capitals, null) as c
    );
  end if;
  return translate(
    v_text, v_capitals, translate(v_capitals, remem._chars_upper(), remem._chars_lower())
  );
end
$body$;
comment on function remem._lower(text) is
  'Simple lower case of every code point by the shipped Unicode 14.0 table, in every locale.';

-- Lower case without accents. Called by _lexemes and by exact phrase and name matching.
-- Decomposing first lets one normalisation serve compatibility, accents and case; the result is
-- NFKC again, and folding it twice changes nothing.
create or replace function remem._fold(text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  if octet_length($1) = length($1) then
    return lower($1 collate "C");
  end if;
  return normalize(
    remem._lower(
      regexp_replace(
        normalize(remem._assigned($1), nfkd) collate "C", '[\u0300-\u036F]+', '', 'g'
      )
    ),
    nfc
  );
end
$body$;
comment on function remem._fold(text) is
  'NFKC, simple lower case, accents U+0300 to U+036F removed; equal in every locale and version.';

-- Letters and digits of a folded text, single spaces around each word: what names, keywords and topics are found in.
create or replace function remem._words(folded text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  return ' ' || btrim(regexp_replace(folded collate "C", case when octet_length(folded) = length(folded) then '[^a-z0-9]+'
    else '[^' || remem._chars_word() || ']+' end, ' ', 'g')) || ' ';
end
$body$;
comment on function remem._words(text) is 'The words of a folded text, a space around each.';
