-- 0012: postings are found by whole numbers. A look-up compares three keys some twenty times; as text that took a tenth to a
-- sixth of a recall, and the index a third more room. `workspace_key` is the workspace, as a number (remem._workspace_key),
-- and leads every key as `workspace` does elsewhere; `word` is the lexeme (remem._word). What the words are stands in
-- memory.lexemes. Writes all postings anew, about 2 seconds for a million: writers wait, readers for the end of it only.

select pg_advisory_xact_lock(7284, 2);  -- writers hold it shared before they look at a table: none holds one that is changed below
lock table remem.posting, remem.posting_past in share row exclusive mode;

create table remem.posting_new (
  workspace_key bigint not null,
  word bigint not null,
  memory_no bigint not null,
  session_no int,
  doc_len smallint not null,
  tf smallint not null
);
comment on table remem.posting_new is 'Inverted index of live memories: one row per memory and distinct lexeme.';
create table remem.posting_past_new (like remem.posting_new);
comment on table remem.posting_past_new is 'Postings of superseded and forgotten memories; read only by as_of.';

do $$
declare
  v_table text;
  v_options text;
begin
  foreach v_table in array array['posting', 'posting_past'] loop
    execute format(
      'insert into remem.%2$I (workspace_key, word, memory_no, session_no, doc_len, tf)
       select k.workspace_key, hashtextextended(p.lexeme, 0) as word, p.memory_no, p.session_no, p.doc_len, p.tf
       from remem.%1$I p
       join (select w.workspace, (''x'' || encode(substr(sha256(convert_to(w.workspace, ''UTF8'')), 1, 8), ''hex''))::bit(64)::bigint as workspace_key
         from (select distinct x.workspace from remem.%1$I x) w) k on k.workspace = p.workspace
       order by p.memory_no, word', v_table, v_table || '_new');
    -- What an operator has set for vacuum stays.
    select array_to_string(c.reloptions, ', ') into v_options from pg_class c where c.oid = format('remem.%I', v_table)::regclass;
    if v_options is not null then
      execute format('alter table remem.%I set (%s)', v_table || '_new', v_options);
    end if;
  end loop;
end
$$;
alter table remem.posting_new add constraint posting_new_pkey primary key (workspace_key, word, memory_no) include (session_no, doc_len, tf);
alter table remem.posting_past_new add constraint posting_past_new_pkey primary key (workspace_key, word, memory_no);
alter table remem.posting_new enable row level security;
alter table remem.posting_past_new enable row level security;

alter table remem.workspace add column workspace_key bigint;
update remem.workspace set workspace_key = ('x' || encode(substr(sha256(convert_to(workspace, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
alter table remem.workspace alter column workspace_key set not null, add constraint workspace_key_unique unique (workspace_key);
comment on column remem.workspace.workspace_key is 'The workspace as a number, which leads the keys of its postings: _workspace_key of its name.';

drop table remem.posting, remem.posting_past;
alter table remem.posting_new rename to posting;
alter table remem.posting_past_new rename to posting_past;

create table remem.frequent_word_new (
  workspace_key bigint not null,
  word bigint not null,
  memories bigint not null,
  primary key (workspace_key, word)
);
insert into remem.frequent_word_new
select w.workspace_key, hashtextextended(f.lexeme, 0), sum(f.memories) from remem.frequent_word f join remem.workspace w using (workspace) group by 1, 2;
drop table remem.frequent_word;
alter table remem.frequent_word_new rename to frequent_word;
alter table remem.frequent_word enable row level security;
comment on table remem.frequent_word is 'Words that many live memories of a workspace hold, and how many; a statistic, renewed by count_words.';

do $$
declare
  v_constraint record;
begin
  for v_constraint in  -- from Postgres 18 on that a column is not null has a name too
    select c.conrelid::regclass as relation, c.conname as name from pg_constraint c
    where c.conrelid in ('remem.posting'::regclass, 'remem.posting_past'::regclass, 'remem.frequent_word'::regclass) and strpos(c.conname, '_new_') > 0
  loop
    execute format('alter table %s rename constraint %I to %I', v_constraint.relation, v_constraint.name,
      replace(v_constraint.name, '_new_', '_'));
  end loop;
  if exists (select from remem.posting) then  -- a new table has no statistics
    analyze remem.posting, remem.posting_past, remem.frequent_word;
  end if;
end
$$;

-- A posting does not say any more which turn its memory is.
drop function if exists remem._add_postings(text, remem._prepared_item[], bigint[], int[], int[]);
-- It says of each table by which condition the rows of a workspace are found.
drop function if exists remem._workspace_tables();
