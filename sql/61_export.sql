-- export: a whole workspace as JSON, one object a line; what import_staged (62, 63) takes. Derived things are not in it:
-- postings, names, counts and derived topics are made anew by whoever imports.

-- The records of an export and the keys that each may have. A key that is not here belongs to a later version.
create or replace function remem._export_keys() returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$
  select '{
    "header": ["format", "migration", "workspace", "language", "space", "vectors", "forgotten", "exported_at"],
    "source_class": ["name", "trust", "half_life", "pinned", "description"],
    "session": ["session_ref", "last_turn", "first_at", "last_at"],
    "memory": ["memory_id", "ref", "kind", "scope", "scope_ref", "title", "body", "summary", "aliases", "tags", "entities",
      "topic_key", "subject", "attribute", "source_class", "source_ref", "provenance", "importance", "confidence", "pinned",
      "unresolved", "session_ref", "turn_no", "speaker", "occurred_at", "valid_from", "valid_to", "created_at", "updated_at",
      "superseded_at", "superseded_by", "forgotten_at", "freshness", "metadata", "content_hash", "forgotten_by", "forgotten_why",
      "embedding"],
    "tombstone": ["memory_id", "ref", "replaced_by", "created_at", "purged_at", "purged_by", "blocks"],
    "version": ["old", "new", "how", "reason", "ref", "fingerprint", "replaced_at", "replaced_by"],
    "relation": ["src", "dst", "kind", "weight", "provenance", "created_at"],
    "topic": ["topic_id", "scope", "scope_ref", "title", "parts", "created_at", "updated_at", "embedding"],
    "provider": ["provider_id", "name", "aliases", "summary", "categories", "enabled", "result_limit", "created_at", "updated_at", "embedding"],
    "route": ["kind", "arms", "pool", "fallback_pools", "graph_depth", "signals", "keywords"],
    "plan_setting": ["name", "value", "space"],
    "continuity_phrase": ["language", "phrase"],
    "generic_word": ["language", "word"],
    "end": ["counts"]}'::jsonb
$$;
comment on function remem._export_keys() is 'The record types of an export with their keys.';

-- What identifies a model and how its similarities are read: enough to register it elsewhere.
create or replace function remem._space_descriptor(space_no int) returns jsonb
language sql stable
set search_path = pg_catalog, remem, pg_temp
as $$
  select to_jsonb(s) - '{space_no,state,created_at}'::text[] from remem.embedding_space s where s.space_no = _space_descriptor.space_no
$$;
comment on function remem._space_descriptor(int) is 'A space as a document without what is local to this database.';

-- One query a record type, in the order of the file; $1 is the workspace, $2 the current space, $3 with vectors, $4 with
-- what is forgotten. Vectors are the bytes that pgvector sends (two of size, two unused, then 16-bit floats), in base64.
create or replace function remem._export_queries(space_no int) returns table (type text, query text)
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  v_packed constant text := 'translate(encode(@extschema:vector@.halfvec_send(%s), ''base64''), E''\n'', '''')';
begin
  return query values
    ('source_class', 'select to_jsonb(c) from remem.source_class c
      where exists (select from remem.memory m where m.workspace = $1 and m.source_class = c.name) order by c.name'),
    ('session', 'select jsonb_build_object(''session_ref'', s.session_ref, ''last_turn'', s.last_turn, ''first_at'', s.first_at,
        ''last_at'', s.last_at)
      from remem.session s where s.workspace = $1 and ($4 or exists (select from remem.memory m where m.workspace = $1
        and m.session_no = s.session_no and m.forgotten_at is null)) order by s.session_no'),
    ('memory', format('select to_jsonb(m) - ''{workspace,memory_no,session_no,attrs,fingerprint,content_hash,doc_len,lexemes,analyser_no,changed_xid}''::text[]
        || jsonb_build_object(''content_hash'', encode(m.content_hash, ''hex''), ''session_ref'', s.session_ref,
          ''forgotten_by'', f.forgotten_by, ''forgotten_why'', f.reason, ''embedding'', %1$s)
        || case when m.attrs ? ''metadata'' then jsonb_build_object(''metadata'', m.attrs -> ''metadata'') else ''{}'' end
      from remem.memory m
      left join remem.session s on s.workspace = m.workspace and s.session_no = m.session_no
      left join remem.forgotten f on f.workspace = m.workspace and f.memory_no = m.memory_no
      left join remem.embedding_%2$s e on $3 and e.workspace = m.workspace and e.memory_no = m.memory_no
      left join remem.embedding_%2$s_past p on $3 and p.workspace = m.workspace and p.memory_no = m.memory_no
      where m.workspace = $1 and ($4 or m.forgotten_at is null) order by m.memory_no',
      format(v_packed, 'coalesce(e.embedding, p.embedding)'), space_no)),
    ('tombstone', 'select to_jsonb(t) - ''{workspace,memory_no}''::text[] from remem.tombstone t where t.workspace = $1 order by t.memory_no'),
    ('version', 'select to_jsonb(l) - ''{workspace,old_no,new_no,fingerprint}''::text[] || jsonb_build_object(''old'', o.memory_id,
        ''new'', n.memory_id)
      from remem.lineage l
      join remem.memory o on o.workspace = $1 and o.memory_no = l.old_no
      join remem.memory n on n.workspace = $1 and n.memory_no = l.new_no
      where l.workspace = $1 and ($4 or o.forgotten_at is null and n.forgotten_at is null) order by l.old_no'),
    ('relation', 'select to_jsonb(r) - ''{workspace,src_no,dst_no}''::text[] || jsonb_build_object(''src'', a.memory_id, ''dst'', b.memory_id)
      from remem.relation r
      join remem.memory a on a.workspace = $1 and a.memory_no = r.src_no
      join remem.memory b on b.workspace = $1 and b.memory_no = r.dst_no
      where r.workspace = $1 and ($4 or a.forgotten_at is null and b.forgotten_at is null) order by r.src_no, r.kind, r.dst_no'),
    ('topic', format('select jsonb_build_object(''topic_id'', t.topic_id, ''scope'', t.scope, ''scope_ref'', t.scope_ref, ''title'', t.title,
        ''parts'', t.parts - ''memory'', ''created_at'', t.created_at, ''updated_at'', t.updated_at, ''embedding'', %s)
      from remem.topic t
      left join remem.topic_embedding e on $3 and e.workspace = $1 and e.space_no = $2 and e.topic_no = t.topic_no
      where t.workspace = $1 and remem._topic_is_live(t) order by t.topic_no', format(v_packed, 'e.embedding'))),
    ('provider', format('select to_jsonb(p) - ''workspace'' || jsonb_build_object(''embedding'', %s)
      from remem.provider p
      left join remem.provider_embedding e on $3 and e.workspace = $1 and e.space_no = $2 and e.provider_id = p.provider_id
      where p.workspace = $1 order by p.provider_id', format(v_packed, 'e.embedding'))),
    ('route', 'select to_jsonb(r) - ''workspace'' from remem.route r where r.workspace = $1 order by r.kind'),
    ('plan_setting', 'select jsonb_build_object(''name'', p.name, ''value'', p.value, ''space'', s.fingerprint)
      from remem.plan_setting p left join remem.embedding_space s on s.space_no = p.space_no
      where p.workspace = $1 order by p.space_no, p.name'),
    ('continuity_phrase', 'select to_jsonb(p) - ''workspace'' from remem.continuity_phrase p where p.workspace = $1 order by p.phrase, p.language'),
    ('generic_word', 'select to_jsonb(w) - ''workspace'' from remem.generic_word w where w.workspace = $1 order by w.word, w.language');
end
$$;
comment on function remem._export_queries(int) is 'The query of each record type.';

create or replace function remem.export(workspace text, vectors boolean default false, forgotten boolean default null) returns setof jsonb
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set extra_float_digits = 1
as $$
declare
  v_workspace remem.workspace;
  v_query record;
  v_count bigint;
  v_counts jsonb := '{}';
begin
  perform remem._authorize(workspace, 'read');
  if forgotten then
    perform remem._authorize(workspace, 'write');
  end if;
  forgotten := coalesce(forgotten, remem._is_granted(workspace, 'write'));
  select w.* into v_workspace from remem.workspace w where w.workspace = export.workspace;
  if not found then
    perform remem._raise('RM101', jsonb_build_object('argument', 'workspace', 'value', workspace), 'Nothing was ever stored in it');
  end if;
  return next jsonb_build_object('type', 'header', 'format', 1, 'migration', (select max(s.version) from remem.schema_migration s), 'workspace', workspace,
    'language', v_workspace.language, 'space', remem._space_descriptor(v_workspace.space_no), 'vectors', coalesce(vectors, false),
    'forgotten', forgotten, 'exported_at', now());
  for v_query in select q.type, q.query from remem._export_queries(v_workspace.space_no) q loop
    -- Nulls say nothing, but for those inside of what callers gave.
    return query execute 'select jsonb_build_object(''type'', $5::text) || (select jsonb_object_agg(k, v) from jsonb_each(q.r) x (k, v)
        where v <> ''null'' or k in (''metadata'', ''value'')) from (' || v_query.query || ') q (r)'
      using workspace, v_workspace.space_no, coalesce(vectors, false), forgotten, v_query.type;
    get diagnostics v_count = row_count;
    v_counts := v_counts || jsonb_build_object(v_query.type, v_count);
  end loop;
  return next jsonb_build_object('type', 'end', 'counts', v_counts);
end
$$;
comment on function remem.export(text, boolean, boolean) is
  'A workspace as JSON objects, one a row, all of one moment: a header, sessions, memories with every version, what was purged, links, topics, providers, routes and settings of the workspace, and an end with counts; with vectors, those of the current space. In psql: \copy (select * from remem.export(''acme'')) to acme.jsonl. What is forgotten is left out for those who may only read. Telemetry, caches, jobs and access grants are no part of it.';
