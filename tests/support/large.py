"""200,000 memories of many workspaces, and callers whose plans are seen."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from tests.support.databases import indexes_last
from tests.support.memories import Connection, open_space
from tests.support.plans import nodes, shape, touching

TOTAL, BIG, TENTH, SMALL = 200_000, 100_000, 20_000, 900

TABLES = ("memory", "posting", "memory_entity", "embedding_2", "session")
ARMS = ("vector", "phrase", "attribute", "pointer", "lexical")
# Nodes of a bitmap say an index and no table.
OF = {
    "memory_pkey": "memory",
    "memory_attrs_idx": "memory",
    "memory_session_idx": "memory",
    "memory_entity_pkey": "memory_entity",
    "posting_pkey": "posting",
    "embedding_2_pkey": "embedding_2",
    "session_pkey": "session",
}
WORKSPACES = ("big", "tenth", "small 3")

# Written in the order of their indexes, the memory numbers as if all workspaces grew side by side.
FILL = f"""
create temp table made as
select w.workspace, n, row_number() over (order by n::float8 / w.size, w.workspace) as memory_no,
  w.first_session + n / 20 as session_no, n % 20 as turn_no
from (
  select s.*, sum(s.size / 20 + 1) over (order by s.workspace) - s.size / 20 as first_session
  from (
    select 'big' as workspace, {BIG} as size union all select 'tenth', {TENTH}
    union all
    select 'small ' || n, rest / {SMALL} + case when n < rest % {SMALL} then 1 else 0 end
    from generate_series(0, {SMALL} - 1) n, (select {TOTAL} - {BIG} - {TENTH} as rest) r) s
) w cross join lateral generate_series(1, w.size) n;

insert into remem.session (workspace, session_no, session_ref, turns, last_turn, doc_len)
select workspace, session_no, 's' || session_no, count(*), max(turn_no), 3 * count(*)
from made group by workspace, session_no order by workspace, session_no;

insert into remem.memory (workspace, memory_no, kind, scope, body, source_class, subject,
  attribute, session_no, turn_no, attrs, fingerprint, content_hash, doc_len, lexemes, analyser_no)
select workspace, memory_no, k.kind, 'global', 'common w' || n % 97 || ' v' || n, 'unspecified',
  case when n % 50 = 0 then 'Person' || n % 1000 end, case when n % 50 = 0 then 'city' end,
  session_no, turn_no, jsonb_build_object('workspace', workspace, 'kind', k.kind, 'n', n,
    'metadata', jsonb_build_object('part', n % 1000)),
  sha256(n::text::bytea), '', 3, array['common', 'w' || n % 97, 'v' || n], 1
from made cross join lateral (select case when n % 3 = 0 then 'task' else 'semantic' end) k (kind)
order by workspace, memory_no;

insert into remem.posting (workspace_key, word, memory_no, session_no, doc_len, tf)
select w.workspace_key, remem._word(l.lexeme), m.memory_no, m.session_no, 3, 1
from made m join remem.workspace w using (workspace)
cross join lateral (values ('common'), ('w' || n % 97), ('v' || n)) l (lexeme)
order by 1, 2, 3;

insert into remem.memory_entity (workspace, name, memory_no, given)
select m.workspace, e.name, m.memory_no, true
from made m cross join lateral (
  values ('name' || n % 500), (case when n % 50 = 0 then 'person' || n % 1000 end),
    (case when n % 50 = 0 then '=city' end)) e (name)
where e.name is not null
order by m.workspace, e.name collate "C", m.memory_no;

insert into remem.relation (workspace, src_no, dst_no, kind, weight, provenance)
select a.workspace, a.memory_no, b.memory_no, 'related', 1, 'verified'
from made a join made b on b.workspace = a.workspace and b.n = a.n + 7
where a.n % 2 = 1;

insert into remem.embedding_2
select workspace, memory_no, array(
  select (random() - 0.5 + 0 * memory_no)::real from generate_series(1, 8))
from made order by workspace, memory_no;

insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
select workspace, s, count(*), case s when 0 then 3 * count(*) else 0 end
from made cross join (values (0), (2)) x (s) group by workspace, s;
"""


def fill(db: Connection) -> None:
    """Everything that the arms look at, set by set; the indexes beside the keys come last."""
    db.execute("set work_mem = '128MB'")
    db.execute("select setseed(0.5)")
    open_space(db, "plan", 8)
    names = ["big", "tenth", *(f"small {n}" for n in range(SMALL))]
    db.execute("select remem.create_workspace(w) from unnest(%s::text[]) w", [names])
    with indexes_last(db, *TABLES, "relation"):
        db.execute(FILL)
    db.execute("drop table made")
    tables = ", ".join(f"remem.{table}" for table in (*TABLES, "relation", "tally", "workspace"))
    db.execute(f"vacuum analyze {tables}")


VECTOR = [0.5, -0.25, 0.125, 0.3, -0.4, 0.2, 0.1, -0.1]
CALL = (
    "select memory_id, score, relevance, arms, signals, expanded_from"
    " from remem.recall(%s, %s, %s::real[], 10, %s)"
)


class Caller(NamedTuple):
    """A connection of one role, and the plans of what it runs."""

    conn: Connection
    seen: list[dict[str, Any]]

    def run(self, query: str, *params: Any, prepare: bool | None = None) -> list[Any]:
        """The rows; `seen` holds the plans of this call alone."""
        self.seen.clear()
        return self.conn.execute(query, params, prepare=prepare).fetchall()

    def recall(
        self, workspace: str, query: str, prepare: bool | None = None, **options: Any
    ) -> list[Any]:
        return self.run(CALL, workspace, query, VECTOR, Jsonb(options), prepare=prepare)

    def scans(self, table: str) -> list[tuple[str, str | None]]:
        """Every node of the last call that read the table or one of its indexes."""
        found = [
            (node["Node Type"], node.get("Index Name"))
            for entry in self.seen
            for node in nodes(entry["Plan"])
            if node.get("Relation Name", OF.get(node.get("Index Name", ""))) == table
        ]
        return sorted(found, key=str)

    def shapes(self) -> set[Any]:
        return {shape(plan) for table in TABLES for plan in touching(self.seen, table)}
