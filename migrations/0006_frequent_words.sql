-- 0006: how many memories hold a word that many hold, so that recall need not count them for every query.

create table remem.frequent_word (
  workspace text collate "C" not null,
  lexeme text collate "C" not null,
  memories bigint not null,
  primary key (workspace, lexeme)
);
alter table remem.frequent_word enable row level security;
comment on table remem.frequent_word is 'Words that many live memories of a workspace hold, and how many; a statistic, renewed by count_words.';

-- How many live memories the workspace had when its words were counted; null = never, or not any more.
alter table remem.workspace add column words_counted bigint;

drop function if exists remem._query_terms(text, text, regdictionary[], bigint, int);
