-- The rows of a relevance pool are looked up by statements that a session plans once: no text of a source any more.
drop function if exists remem._pool_rows(remem._query, text, int);
