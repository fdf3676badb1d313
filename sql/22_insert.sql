-- One wave of items: no two with the same ref, no two with the same text. Set-based: one statement per table.
-- The caller holds the locks of every ref, text and session that the wave touches.

create or replace function remem._insert_wave(
  workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos int[]
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_items remem._prepared_item[] := items;  -- a variable of its own is taken apart once, not for each element
  v_row record;
  v_item remem._prepared_item;
  v_new remem._prepared_item[] := '{}';   -- the rows to write; the arrays below run in parallel
  v_old bigint[] := '{}';                 -- the version that each supersedes, or null
  v_sessions int[] := '{}';
  v_turns int[] := '{}';
  v_last_turns int[] := array(
    select s.last_turn from unnest(session_nos) with ordinality n (session_no, ordinality)
    join remem.session s on s.workspace = workspace.workspace and s.session_no = n.session_no
    order by n.ordinality);
  v_at int;
  v_turn int;
begin
  for v_row in
    select t.*, m.session_no, m.turn_no
    from remem._match_items(workspace.workspace, items) t
    -- offset 0 keeps it a lookup: the plan that a session keeps would hash the whole workspace.
    left join lateral (select x.session_no, x.turn_no from remem.memory x
      where x.workspace = workspace.workspace and x.memory_no = t.memory_no offset 0) m on true
    order by t.pos
  loop
    v_item := v_items[v_row.pos];
    if v_row.outcome = 'new_version' and (v_item.item).on_conflict = 'error' then
      perform remem._raise('RM102', jsonb_build_object('item', v_item.item_no, 'argument', 'ref', 'value', v_row.ref),
        'The ref exists with other content; leave on_conflict out to store a new version');
    elsif v_row.outcome in ('created', 'new_version') then
      v_at := array_position(session_refs, (v_item.item).session_ref);
      v_turn := (v_item.item).turn_no;
      if v_at is not null then
        -- A new version of a turn stays in its place; any other comes after the last.
        if v_turn is null and v_row.session_no = session_nos[v_at] then
          v_turn := v_row.turn_no;
        end if;
        v_turn := coalesce(v_turn, v_last_turns[v_at] + 1);
        v_last_turns[v_at] := greatest(v_last_turns[v_at], v_turn);
      end if;
      v_new := v_new || v_item;
      v_old := array_append(v_old, v_row.memory_no);
      v_sessions := array_append(v_sessions, session_nos[v_at]);
      v_turns := array_append(v_turns, v_turn);
    else
      if v_row.outcome in ('unchanged', 'merged') then
        perform remem._meet_again(workspace, v_row.memory_no, v_item, v_row.outcome);
      end if;
      return next (v_row.memory_id, v_row.ref, v_row.outcome, v_item.item_no, null)::remem.memory_ref;
    end if;
  end loop;
  if cardinality(v_new) > 0 then
    return query select r.* from remem._insert_rows(workspace, v_new, v_old, v_sessions, v_turns, 'new_version', null) r;
  end if;
end
$$;
comment on function remem._insert_wave(remem.workspace, remem._prepared_item[], text[], int[]) is
  'Stores items with distinct refs and texts; the outcomes come in no particular order.';

-- The rows of new memories, each perhaps the next version of another. The arrays run in parallel; old_nos may hold nulls.
create or replace function remem._insert_rows(
  workspace remem.workspace, items remem._prepared_item[], old_nos bigint[], session_nos int[], turn_nos int[], how text, reason text
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_nos bigint[];
  v_ids uuid[];
  v_former bigint[];
  v_count bigint;
begin
  select array_agg(nextval('remem.memory_memory_no_seq') order by n), array_agg(gen_random_uuid() order by n)
  into v_nos, v_ids from generate_series(1, cardinality(items)) n;

  v_former := array_remove(old_nos, null);
  if cardinality(v_former) > 0 then
    -- Former versions leave the unique index first.
    update remem.memory m
    set superseded_at = now(), superseded_by = o.memory_id, updated_at = now(), changed_xid = pg_current_xact_id()
    from unnest(old_nos, v_ids) o (memory_no, memory_id)
    where m.workspace = workspace.workspace and m.memory_no = o.memory_no;
    perform remem._retire(workspace.workspace, v_former);
    insert into remem.lineage (workspace, old_no, new_no, how, reason, ref, fingerprint, replaced_by)
    select workspace.workspace, m.memory_no, o.new_no, _insert_rows.how, _insert_rows.reason, m.ref, m.fingerprint, remem._caller()
    from unnest(old_nos, v_nos) o (memory_no, new_no)
    join remem.memory m on m.workspace = workspace.workspace and m.memory_no = o.memory_no;
  end if;
  update remem.tombstone t set blocks = false
  where t.workspace = workspace.workspace and t.blocks and t.ref = any (array(select (p.item).ref from unnest(items) p));

  insert into remem.memory (workspace, memory_no, memory_id, ref, kind, scope, scope_ref, title, body, summary, aliases,
    tags, entities, topic_key, subject, attribute, source_class, source_ref, importance, confidence, pinned, unresolved,
    session_no, turn_no, speaker, occurred_at, valid_from, valid_to, attrs, fingerprint, content_hash, doc_len,
    lexemes, analyser_no)
  select workspace.workspace, v_nos[p.ordinality], v_ids[p.ordinality], i.ref, i.kind, i.scope, i.scope_ref, i.title, i.body,
    i.summary, i.aliases, i.tags, i.entities, i.topic_key, i.subject, i.attribute, i.source_class, i.source_ref,
    i.importance, i.confidence, i.pinned, i.unresolved, session_nos[p.ordinality], turn_nos[p.ordinality], i.speaker,
    i.occurred_at, i.valid_from, i.valid_to,
    case when turn_nos[p.ordinality] is not distinct from i.turn_no then p.attrs
      else p.attrs || jsonb_build_object('turn_no', turn_nos[p.ordinality]) end,
    p.fingerprint, p.content_hash, p.doc_len, p.lexemes, workspace.analyser_no
  from unnest(items) with ordinality p cross join lateral (select (p.item).*) i
  -- Under the locks nothing conflicts; above READ COMMITTED this makes a stale snapshot a serialization failure.
  on conflict (workspace, ref) where ref is not null and superseded_at is null and forgotten_at is null do nothing;
  get diagnostics v_count = row_count;
  if v_count < cardinality(items) then
    perform remem._raise('RM102', '{"argument": "ref"}', 'Another writer changed a ref: try again');
  end if;
  if not workspace.scoped and exists (select from unnest(items) p where (p.item).scope <> 'global') then
    update remem.workspace w set scoped = true where w.workspace = workspace.workspace and not w.scoped;
  end if;
  perform remem._add_live(workspace, items, v_nos, session_nos, turn_nos);
  if cardinality(v_former) > 0 then
    perform remem._carry_relations(workspace.workspace, old_nos, v_nos);
  end if;
  return query
    select v_ids[p.ordinality], (p.item).ref, case when old_nos[p.ordinality] is null then 'created' else 'new_version' end,
      p.item_no, null::jsonb
    from unnest(items) with ordinality p;
end
$$;
comment on function remem._insert_rows(remem.workspace, remem._prepared_item[], bigint[], int[], int[], text, text) is
  'Writes rows and everything beside them; former versions leave for the past.';

-- Everything beside the memory rows themselves.
create or replace function remem._add_live(
  workspace remem.workspace, items remem._prepared_item[], memory_nos bigint[], session_nos int[], turn_nos int[]
) returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_rows bigint;
  v_doc_len bigint;
begin
  perform remem._add_postings(workspace.workspace_key, items, memory_nos, session_nos);
  perform remem._add_item_entities(workspace.workspace, items, memory_nos);
  -- Nothing else makes a topic; most memories name none.
  if exists (select from unnest(items) p where (p.item).topic_key is not null or (p.item).title is not null) then
    perform remem._add_topics(workspace, memory_nos);
  end if;
  perform remem._add_vectors(workspace.workspace, workspace.space_no, memory_nos, items);
  select count(*), coalesce(sum(p.doc_len), 0) into v_rows, v_doc_len from unnest(items) p;
  perform remem._add_tally(workspace.workspace, 0, v_rows, v_doc_len);
  update remem.session s
  set turns = s.turns + d.turns, doc_len = s.doc_len + d.doc_len, last_turn = greatest(s.last_turn, d.last_turn),
      first_at = least(s.first_at, d.first_at), last_at = greatest(s.last_at, d.last_at)
  from (
    select m.session_no, count(*) as turns, sum(m.doc_len) as doc_len, max(m.turn_no) as last_turn,
      min((m.item).occurred_at) as first_at, max((m.item).occurred_at) as last_at
    from unnest(items, session_nos, turn_nos)
      m (item_no, item, attrs, fingerprint, content_hash, lexemes, tfs, doc_len, session_no, turn_no)
    where m.session_no is not null
    group by m.session_no
  ) d
  where s.workspace = workspace.workspace and s.session_no = d.session_no;
end
$$;
comment on function remem._add_live(remem.workspace, remem._prepared_item[], bigint[], int[], int[]) is
  'Postings, vectors, counts and sessions of rows just written.';

-- A known row is said again: it gets the vector it lacked, and another source is not forgotten.
create or replace function remem._meet_again(workspace remem.workspace, memory_no bigint, prepared remem._prepared_item, outcome text)
returns void
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_item remem.memory_item := prepared.item;
begin
  perform remem._add_vectors(workspace.workspace, workspace.space_no, array[memory_no], array[prepared]);
  if outcome = 'merged' and v_item.source_ref is not null then
    update remem.memory m
    set provenance = coalesce(m.provenance, '{}') || jsonb_build_object('also',
          coalesce(m.provenance -> 'also', '[]') || jsonb_build_object('source_ref', v_item.source_ref,
            'source_class', v_item.source_class, 'at', now())),
        updated_at = now(), changed_xid = pg_current_xact_id()
    where m.workspace = workspace.workspace and m.memory_no = _meet_again.memory_no
      and m.source_ref is distinct from v_item.source_ref
      and not coalesce(m.provenance -> 'also' @> jsonb_build_array(jsonb_build_object('source_ref', v_item.source_ref)), false);
  end if;
end
$$;
comment on function remem._meet_again(remem.workspace, bigint, remem._prepared_item, text) is
  'What an unchanged or merged item adds to the row that is there.';
