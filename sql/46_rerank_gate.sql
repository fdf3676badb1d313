-- The gate before a reranker, which runs in the client.

-- Whether a reranker is worth its time: not when the best scores lie close together and nothing contradicts.
create or replace function remem._rerank_gate(workspace text, scored remem._scored[]) returns jsonb
language plpgsql stable
set search_path = pg_catalog, remem, pg_temp
as $$
declare
  c_cluster constant float8 := 0.1;
  v_spread float8;
  v_contradictions int;
  v_top bigint[] := array(select s.memory_no from unnest(scored) s limit 10);
begin
  v_spread := (select max(s.score) - min(s.score) from (select t.score from unnest(scored) t limit 5) s);
  begin
    v_contradictions := (
      select count(*) from remem.relation r
      where r.workspace = _rerank_gate.workspace and r.src_no = any (v_top) and r.dst_no = any (v_top)
        and r.kind in ('contradicts', 'conflicts_with')) + (
      select count(*) from remem.memory a join remem.memory b
        on b.workspace = a.workspace and b.memory_no = any (v_top) and b.memory_no > a.memory_no
        and b.subject = a.subject and b.attribute = a.attribute and b.fingerprint <> a.fingerprint
      where a.workspace = _rerank_gate.workspace and a.memory_no = any (v_top));
  exception when others then
    v_contradictions := 0;  -- links that cannot be read contradict nothing
  end;
  return jsonb_build_object('rerank', coalesce(v_spread > c_cluster or v_contradictions > 0, false),
    'spread', round(v_spread::numeric, 4), 'contradictions', v_contradictions,
    'reason', case when v_spread is null then 'nothing to rerank' when v_contradictions > 0 then 'results contradict each other'
      when v_spread > c_cluster then 'the best scores are spread' else 'the best scores cluster and nothing contradicts' end);
end
$$;
comment on function remem._rerank_gate(text, remem._scored[]) is 'Decides whether reranking is worth it, with the reason.';
