-- The statistic of frequent words: what a query's document frequencies are read from instead of being counted.

-- Whether the statistic is worth making, and worth using: a small workspace is counted in no time, and after a quarter
-- of it has changed the numbers are old.
create or replace function remem._words_are_counted(documents bigint, counted bigint) returns boolean
language sql immutable parallel safe
return counted is not null and documents between counted * 0.8::float8 and counted * 1.25::float8;
comment on function remem._words_are_counted(bigint, bigint) is 'Whether a statistic of words is still about this many memories.';

-- Counts the words of a workspace anew, unless that was done about as many memories ago or they are few; null then, and
-- where somebody else holds the workspace. Reads all its postings, about half a second for a million.
create or replace function remem._count_words(workspace text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_few constant int := 5000;       -- memories below which nothing is kept
  c_frequent constant int := 200;   -- memories above which a word is kept
  v_key bigint := remem._workspace_key(workspace);
  v_documents bigint;
  v_counted bigint;
  v_kept bigint := 0;
begin
  v_documents := (select sum(t.rows_delta) from remem.tally t where t.workspace = _count_words.workspace and t.space_no = 0);
  v_counted := (select w.words_counted from remem.workspace w where w.workspace = _count_words.workspace);
  if remem._words_are_counted(v_documents, v_counted) or coalesce(v_documents, 0) < c_few and v_counted is null then
    return null;
  end if;
  perform from remem.workspace w where w.workspace = _count_words.workspace for no key update skip locked;
  if not found then
    return null;
  end if;
  delete from remem.frequent_word f where f.workspace_key = v_key;
  if v_documents >= c_few then
    insert into remem.frequent_word (workspace_key, word, memories)
    select v_key, p.word, count(*) from remem.posting p where p.workspace_key = v_key group by p.word having count(*) > c_frequent;
    get diagnostics v_kept = row_count;
  end if;
  update remem.workspace w set words_counted = case when v_documents >= c_few then v_documents end
  where w.workspace = _count_words.workspace;
  return v_kept;
end
$$;
comment on function remem._count_words(text) is 'Renews the statistic of one workspace.';

create or replace function remem.count_words(workspace text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'worker');
  return remem._count_words(workspace);
end
$$;
comment on function remem.count_words(text) is
  'Counts anew which words many memories of a large workspace hold, so that recall reads their frequency instead of counting; maintain does it for every workspace. Says how many words it keeps; null where nothing had to be done.';
