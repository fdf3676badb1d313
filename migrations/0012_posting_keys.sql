-- 0012: postings are found by whole numbers. A look-up compares three keys some twenty times; as text that took a sixth of
-- a recall, and the index a third more room. `workspace_key` is the workspace, as a number (remem._workspace_key), and leads
-- every key as `workspace` does elsewhere; `word` is the lexeme (remem._word). What the words are stands in memory.lexemes.
-- Rewrites the postings: about 2 seconds for a million of them, during which nobody writes or reads.

alter table remem.workspace add column workspace_key bigint;
update remem.workspace set workspace_key = ('x' || encode(substr(sha256(convert_to(workspace, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
alter table remem.workspace alter column workspace_key set not null, add constraint workspace_key_unique unique (workspace_key);
comment on column remem.workspace.workspace_key is 'The workspace as a number, which leads the keys of its postings: _workspace_key of its name.';

alter table remem.posting rename to posting_text;
alter table remem.posting_text rename constraint posting_pkey to posting_text_pkey;
alter table remem.posting_past rename to posting_past_text;
alter table remem.posting_past_text rename constraint posting_past_pkey to posting_past_text_pkey;

create table remem.posting (
  workspace_key bigint not null,
  word bigint not null,
  memory_no bigint not null,
  session_no int,
  doc_len smallint not null,
  tf smallint not null
);
comment on table remem.posting is 'Inverted index of live memories: one row per memory and distinct lexeme.';
create table remem.posting_past (like remem.posting);
comment on table remem.posting_past is 'Postings of superseded and forgotten memories; read only by as_of.';

do $$
declare
  v_table text;
  v_options text;
begin
  foreach v_table in array array['posting', 'posting_past'] loop
    execute format(
      'insert into remem.%1$I (workspace_key, word, memory_no, session_no, doc_len, tf)
       select k.workspace_key, hashtextextended(p.lexeme, 0) as word, p.memory_no, p.session_no, p.doc_len, p.tf
       from remem.%2$I p
       join (select w.workspace, (''x'' || encode(substr(sha256(convert_to(w.workspace, ''UTF8'')), 1, 8), ''hex''))::bit(64)::bigint as workspace_key
         from (select distinct x.workspace from remem.%2$I x) w) k on k.workspace = p.workspace
       order by p.memory_no, word', v_table, v_table || '_text');
    -- What an operator has set for vacuum stays.
    select array_to_string(c.reloptions, ', ') into v_options from pg_class c where c.oid = format('remem.%I', v_table || '_text')::regclass;
    if v_options is not null then
      execute format('alter table remem.%I set (%s)', v_table, v_options);
    end if;
    execute format('drop table remem.%I', v_table || '_text');
    execute format('alter table remem.%I enable row level security', v_table);
  end loop;
end
$$;
alter table remem.posting add constraint posting_pkey primary key (workspace_key, word, memory_no) include (session_no, doc_len, tf);
alter table remem.posting_past add constraint posting_past_pkey primary key (workspace_key, word, memory_no);

-- A statistic: count_words makes it anew.
drop table remem.frequent_word;
create table remem.frequent_word (
  workspace_key bigint not null,
  word bigint not null,
  memories bigint not null,
  primary key (workspace_key, word)
);
alter table remem.frequent_word enable row level security;
comment on table remem.frequent_word is 'Words that many live memories of a workspace hold, and how many; a statistic, renewed by count_words.';
update remem.workspace set words_counted = null where words_counted is not null;

-- A posting does not say any more which turn its memory is.
drop function if exists remem._add_postings(text, remem._prepared_item[], bigint[], int[], int[]);
-- It says of each table by which condition the rows of a workspace are found.
drop function if exists remem._workspace_tables();
