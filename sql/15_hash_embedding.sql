-- The hash embedding remem-local-hash-v1: signed feature hashing into 384 dimensions. Equal to
-- remem_pg.embedding.hash bit for bit. Lengths, windows and hashes count UTF-16 code units.
-- Changing anything here makes another embedding space: a new id and fingerprint, not an edit.

-- NFKC, lower case, everything but letters and numbers to spaces; then the distinct tokens of two
-- code units or more without the thirty stop words, in order of first appearance. By _hash_embed.
create or replace function remem._hash_tokens(text) returns text[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  v_text text;
begin
  if octet_length($1) = length($1) then
    v_text := regexp_replace(lower($1 collate "C") collate "C", '[^a-z0-9]+', ' ', 'g');
  else
    v_text := regexp_replace(
      remem._lower(normalize(remem._assigned($1), nfkc)) collate "C",
      '[^' || remem._chars_alnum() || ']+', ' ', 'g'
    );
  end if;
  return array(
    select t.token
    from string_to_table(v_text, ' ') with ordinality as t (token, n)
    where (length(t.token) > 1 or octet_length(t.token) = 4)
      and t.token collate "C" not in (
        'a', 'an', 'and', 'are', 'as', 'at', 'be', 'by', 'can', 'do', 'for', 'from', 'how', 'i',
        'in', 'is', 'it', 'let', 'of', 'on', 'or', 'our', 'that', 'the', 'this', 'to', 'we',
        'what', 'with', 'you'
      )
    group by t.token
    order by min(t.n)
  );
end
$body$;
comment on function remem._hash_tokens(text) is
  'The distinct tokens of a text in order, as the hash embedding counts them.';

-- UTF-16 code units of a text. Called by _hash_embed. ascii() is the code point in a UTF8 database.
create or replace function remem._utf16(text) returns int[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  if $1 collate "C" !~ '[\U00010000-\U0010FFFF]' then
    return array(select ascii(c) from string_to_table($1, null) as c);
  end if;
  return array(
    select u.unit
    from string_to_table($1, null) with ordinality as s (c, n)
      cross join lateral (values
        (1, case when ascii(c) < 65536 then ascii(c) else 55296 + ((ascii(c) - 65536) >> 10) end),
        (2, case when ascii(c) > 65535 then 56320 + ((ascii(c) - 65536) & 1023) end)
      ) as u (half, unit)
    where u.unit is not null
    order by s.n, u.half
  );
end
$body$;
comment on function remem._utf16(text) is 'The UTF-16 code units of a text.';

-- FNV-1a with 32 bits over code units; bucket = hash mod 384, from seed 2166136261. Only the parity of
-- the sign hash (seed 709607) matters, and it is the parity of the bucket: both seeds and the
-- multiplier are odd, so the lowest bit of either hash flips with each odd code unit, and 384 is
-- even. So an even bucket only ever gets +1 and an odd one -1, and one hash is enough.
-- The word, the pair it starts and the pair it ends are hashed in one pass; hashes of the constant
-- beginnings are literals. Called by hash_embed, remember, recall. Cost grows with the token lengths.
create or replace function remem._hash_embed(text) returns real[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog, remem, pg_temp
as $body$
declare
  c_seed constant bigint := 2166136261;
  c_tri constant bigint := 2794752236;    -- hash of 'tri:'
  c_pair constant bigint := 714770641;    -- hash of 'pair:'
  c_concepts constant int[] := '{97,206,315,40,45,154,263}';  -- buckets of 'concept:0' and so on
  v_tokens text[] := remem._hash_tokens($1);
  v_units int[];
  v_sums int[] := array_fill(0, array[384], array[0]);
  v_word bigint := c_seed;
  v_left bigint := c_pair;      -- 'pair:' and the token so far
  v_right bigint;               -- 'pair:', the token before, ':' and the token so far
  v_bucket int;
  v_unit int;
  v_at int := 0;
  v_first int := 2;
begin
  if v_tokens = '{}' then
    return array_fill(0::real, array[384]);
  end if;

  -- eight times its concept for every token of a group
  for v_bucket in
    select c_concepts[c.number]
    from unnest(v_tokens) as t (token)
      cross join lateral (select case
        when t.token collate "C" in (
          'auth', 'authentication', 'credential', 'credentials', 'identity', 'iam', 'login',
          'oauth', 'token'
        ) then 1
        when t.token collate "C" in ('amazon', 'aws', 'bedrock') then 2
        when t.token collate "C" in ('database', 'db', 'postgres', 'postgresql', 'sql') then 3
        when t.token collate "C" in (
          'failure', 'incident', 'issue', 'problem', 'troubleshooting'
        ) then 4
        when t.token collate "C" in ('decision', 'decided', 'choice', 'chosen') then 5
        when t.token collate "C" in ('deploy', 'deployment', 'release', 'shipping') then 6
        when t.token collate "C" in ('queue', 'kafka', 'messaging', 'stream') then 7
      end as number) as c
    where c.number is not null
  loop
    v_sums[v_bucket] := v_sums[v_bucket] + 8 - 16 * (v_bucket & 1);
  end loop;

  -- every token between the marks of the windows: ^ is 94, $ is 36
  v_units := remem._utf16('^' || array_to_string(v_tokens, '$^') || '$');
  foreach v_unit in array v_units loop
    v_at := v_at + 1;
    if v_unit = 36 then
      -- the end of a token: twice the word itself
      v_bucket := v_word % 384;
      v_sums[v_bucket] := v_sums[v_bucket] + 2 - 4 * (v_bucket & 1);
      -- the pair with the token before
      if v_right is not null then
        v_bucket := v_right % 384;
        v_sums[v_bucket] := v_sums[v_bucket] + 1 - 2 * (v_bucket & 1);
      end if;
      -- the windows of three, of tokens of five or more
      if v_at - v_first > 4 then
        for v_middle in v_first .. v_at - 1 loop
          v_bucket := (((((((c_tri # v_units[v_middle - 1]) * 16777619 & 4294967295)
            # v_units[v_middle]) * 16777619 & 4294967295)
            # v_units[v_middle + 1]) * 16777619) & 4294967295) % 384;
          v_sums[v_bucket] := v_sums[v_bucket] + 1 - 2 * (v_bucket & 1);
        end loop;
      end if;
      v_first := v_at + 2;
      v_right := ((v_left # 58) * 16777619) & 4294967295;
      v_word := c_seed;
      v_left := c_pair;
    elsif v_unit <> 94 then
      v_word := ((v_word # v_unit) * 16777619) & 4294967295;
      v_left := ((v_left # v_unit) * 16777619) & 4294967295;
      v_right := ((v_right # v_unit) * 16777619) & 4294967295;
    end if;
  end loop;

  -- Sums and squares are whole numbers, the division is one of doubles: every bit is as in Python.
  return @extschema:vector@.l2_normalize(v_sums::@extschema:vector@.vector)::real[];
end
$body$;
comment on function remem._hash_embed(text) is
  'Hash embedding of a text: 384 values of length one, or all zero without features.';

create or replace function remem.hash_embed(text text) returns real[]
language plpgsql stable security definer set search_path = pg_catalog, remem, pg_temp
as $body$
begin
  perform remem._authorize_any();
  perform remem._check_length('text', hash_embed.text, remem._text_limit(), null);
  return remem._hash_embed(hash_embed.text);
end
$body$;
comment on function remem.hash_embed(text) is
  'Embeds a text with the built-in hash model remem-local-hash-v1: 384 values, unit length; a text without features has zeros alone. At most 10 MiB, as the body of a memory: RM003.';
