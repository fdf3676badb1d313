-- 0008: bulk loading, export and import.

-- A vector comes beside the JSON from now on.
drop function if exists remem._prepare_item(remem.workspace, remem.embedding_space, regdictionary[], text[], jsonb, int, text);

create type remem.import_result as (item_no int, type text, outcome text, memory_id uuid, ref text, error jsonb);
comment on type remem.import_result is 'What became of one record of an export.';

-- A memory of an export on its way in: the item as remember would take it, and what only an export says.
create type remem._import_memory as (item_no int, prepared remem._prepared_item, stored remem.memory, forgotten_by name, forgotten_why text);
comment on type remem._import_memory is 'A memory of an export between reading and writing.';
