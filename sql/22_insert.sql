-- One wave of items: no two with the same ref, no two with the same text. Set-based: one statement per table.

create or replace function remem._insert_wave(
  workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos int[]
) returns setof remem.memory_ref
language plpgsql volatile
set search_path = pg_catalog, remem, pg_temp
as $$
#variable_conflict use_column
declare
  v_items remem._prepared_item[] := items;
  v_new remem._prepared_item[];
  v_nos bigint[];
  v_sessions int[];
  v_turns int[];
  v_old bigint[];
  v_row record;
  v_attempt int := 0;
begin
  loop
    -- Locks the rows that the items name, so that two writers of a ref take turns.
    perform from remem.memory m
    where m.workspace = workspace.workspace and m.superseded_at is null and m.forgotten_at is null
      and m.ref = any (select (p.item).ref from unnest(v_items) p)
    order by m.ref for update;
    v_new := '{}'; v_nos := '{}'; v_old := '{}';
    for v_row in
      select t.*, v_items[t.pos] as prepared from remem._match_items(workspace.workspace, v_items) t order by t.pos
    loop
      if v_row.outcome = 'new_version' and ((v_row.prepared).item).on_conflict = 'error' then
        perform remem._raise('RM102', jsonb_build_object('item', (v_row.prepared).item_no, 'argument', 'ref', 'value', v_row.ref),
          'The ref exists with other content; leave on_conflict out to store a new version');
      elsif v_row.outcome in ('created', 'new_version') then
        v_new := v_new || (v_row.prepared)::remem._prepared_item;
        if v_row.outcome = 'new_version' then
          v_old := v_old || v_row.memory_no;
        end if;
      else
        perform remem._meet_again(workspace, v_row.memory_no, v_row.prepared, v_row.outcome);
        return next (v_row.memory_id, v_row.ref, v_row.outcome, (v_row.prepared).item_no, null)::remem.memory_ref;
      end if;
    end loop;
    exit when cardinality(v_new) = 0;

    -- Numbers, ids and turns of the new rows.
    select array_agg(nextval('remem.memory_memory_no_seq') order by p.ordinality),
           array_agg(session_nos[array_position(session_refs, (p.item).session_ref)] order by p.ordinality)
    into v_nos, v_sessions
    from unnest(v_new) with ordinality p;
    select array_agg(coalesce((p.item).turn_no, s.last_turn + t.rank) order by p.ordinality) into v_turns
    from unnest(v_new) with ordinality p
    left join remem.session s on s.workspace = workspace.workspace and s.session_no = v_sessions[p.ordinality]
    left join (
      select u.ordinality, row_number() over (partition by (u.item).session_ref order by u.ordinality)::int as rank
      from unnest(v_new) with ordinality u where (u.item).turn_no is null
    ) t on t.ordinality = p.ordinality;

    -- Former versions leave the unique index first, in this statement's snapshot still pointing nowhere.
    update remem.memory m set superseded_at = now(), updated_at = now(), changed_xid = pg_current_xact_id()
    where m.workspace = workspace.workspace and m.memory_no = any (v_old);
    perform remem._retire(workspace.workspace, v_old);

    -- A ref that a concurrent transaction committed meanwhile is left out here and met again in the next round.
    v_items := '{}';
    for v_row in
      with written as (
        insert into remem.memory (workspace, memory_no, ref, kind, scope, scope_ref, title, body, summary, aliases, tags,
          entities, topic_key, subject, attribute, source_class, source_ref, importance, confidence, pinned, unresolved,
          session_no, turn_no, speaker, occurred_at, valid_from, valid_to, attrs, fingerprint, content_hash, doc_len,
          lexemes, analyser_no)
        select workspace.workspace, v_nos[p.ordinality], i.ref, i.kind, i.scope, i.scope_ref, i.title, i.body, i.summary,
          i.aliases, i.tags, i.entities, i.topic_key, i.subject, i.attribute, i.source_class, i.source_ref, i.importance,
          i.confidence, i.pinned, i.unresolved, v_sessions[p.ordinality], v_turns[p.ordinality], i.speaker, i.occurred_at,
          i.valid_from, i.valid_to,
          case when v_turns[p.ordinality] is null then p.attrs
            else p.attrs || jsonb_build_object('turn_no', v_turns[p.ordinality]) end,
          p.fingerprint, p.content_hash, p.doc_len, p.lexemes, workspace.analyser_no
        from unnest(v_new) with ordinality p cross join lateral (select (p.item).*) i
        on conflict (workspace, ref) where ref is not null and superseded_at is null and forgotten_at is null do nothing
        returning memory.memory_no, memory.memory_id, memory.ref
      )
      select p.ordinality as pos, w.memory_no, w.memory_id, w.ref,
        (select m.memory_no from remem.memory m where m.workspace = workspace.workspace and m.memory_no = any (v_old) and m.ref = w.ref) as old_no
      from unnest(v_new) with ordinality p left join written w on w.memory_no = v_nos[p.ordinality]
      order by p.ordinality
    loop
      if v_row.memory_no is null then
        v_items := v_items || v_new[v_row.pos];
        v_nos[v_row.pos] := null;
        continue;
      end if;
      if v_row.old_no is not null then
        update remem.memory m set superseded_by = v_row.memory_id
        where m.workspace = workspace.workspace and m.memory_no = v_row.old_no;
      end if;
      return next (v_row.memory_id, v_row.ref, case when v_row.old_no is null then 'created' else 'new_version' end,
        v_new[v_row.pos].item_no, null)::remem.memory_ref;
    end loop;
    perform remem._add_live(workspace, v_new, v_nos, v_sessions, v_turns);
    exit when cardinality(v_items) = 0;
    v_attempt := v_attempt + 1;
    if v_attempt > 20 then
      perform remem._raise('RM102', jsonb_build_object('item', v_items[1].item_no, 'argument', 'ref', 'value', (v_items[1].item).ref),
        'Other writers keep changing this ref: try again');
    end if;
  end loop;
end
$$;
comment on function remem._insert_wave(remem.workspace, remem._prepared_item[], text[], int[]) is
  'Stores items with distinct refs and texts; the outcomes come in no particular order.';

-- Everything beside the memory rows themselves. memory_nos holds null where a row was not written.
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
  if array_position(memory_nos, null) is not null then
    select array_agg(p.item order by p.ordinality), array_agg(p.memory_no order by p.ordinality),
      array_agg(p.session_no order by p.ordinality), array_agg(p.turn_no order by p.ordinality)
    into items, memory_nos, session_nos, turn_nos
    from (
      select items[m.ordinality] as item, m.* from unnest(memory_nos, session_nos, turn_nos)
        with ordinality m (memory_no, session_no, turn_no, ordinality)
      where m.memory_no is not null
    ) p;
    if memory_nos is null then
      return;
    end if;
  end if;
  perform remem._add_postings(workspace.workspace, items, memory_nos, session_nos, turn_nos);
  perform remem._add_vectors(workspace.workspace, workspace.space_no, memory_nos, items);
  select count(*), coalesce(sum(p.doc_len), 0) into v_rows, v_doc_len from unnest(items) p;
  perform remem._add_tally(workspace.workspace, 0, v_rows, v_doc_len);
  update remem.session s
  set turns = s.turns + d.turns, doc_len = s.doc_len + d.doc_len, last_turn = greatest(s.last_turn, d.last_turn),
      first_at = least(s.first_at, d.first_at), last_at = greatest(s.last_at, d.last_at)
  from (
    select m.session_no, count(*) as turns, sum(p.doc_len) as doc_len, max(m.turn_no) as last_turn,
      min((p.item).occurred_at) as first_at, max((p.item).occurred_at) as last_at
    from unnest(session_nos, turn_nos) with ordinality m (session_no, turn_no, ordinality)
    join unnest(items) with ordinality p on p.ordinality = m.ordinality
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
