"""The plans of recall among 200,000 memories, as the owner and as a role that was granted them.

Half of the memories are one workspace's, a tenth another's, the rest those of 900 small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.server import OWNER, Server
from tests.support.databases import filled, indexes_last, owner
from tests.support.memories import Connection, open_space, value
from tests.support.plans import explained, nodes, shape, touching

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

insert into remem.posting (workspace, lexeme, memory_no, session_no, turn_no, doc_len, tf)
select m.workspace, l.lexeme, m.memory_no, m.session_no, m.turn_no, 3, 1
from made m cross join lateral (values ('common'), ('w' || n % 97), ('v' || n)) l (lexeme)
order by m.workspace, l.lexeme collate "C", m.memory_no;

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


@pytest.fixture(scope="module")
def large(server: Server) -> Iterator[str]:
    """The database of this file: its tests only read."""
    with filled(server, fill) as name:
        yield name


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


VECTOR = [0.5, -0.25, 0.125, 0.3, -0.4, 0.2, 0.1, -0.1]
CALL = (
    "select memory_id, score, relevance, arms, signals, expanded_from"
    " from remem.recall(%s, %s, %s::real[], 10, %s)"
)
# Something for every arm: words rare and common, a phrase, a name, a subject and its attribute.
QUERY = '"common w5" v77, the city of Person50 by Name7'


@pytest.fixture(scope="module")
def callers(server: Server, large: str) -> Iterator[dict[str, Caller]]:
    """The owner and a role that may read three workspaces, each by a connection of its own."""
    role = server.new_role("reader")
    with ExitStack() as stack:
        stack.callback(server.drop_role, role)
        db = stack.enter_context(owner(server, large))
        for workspace in WORKSPACES:
            db.execute("select remem.grant_access(%s, %s, 'read')", [role, workspace])
        su = stack.enter_context(psycopg.connect(server.superuser_dsn(large), autocommit=True))
        yield {
            who: Caller(*stack.enter_context(explained(su, name, server.dsn(name, large))))
            for who, name in (("owner", OWNER), ("granted role", role))
        }


@pytest.fixture(params=["owner", "granted role"])
def caller(request: pytest.FixtureRequest, callers: dict[str, Caller]) -> Caller:
    return callers[request.param]


@pytest.fixture
def su(server: Server, large: str) -> Iterator[Connection]:
    with psycopg.connect(server.superuser_dsn(large), autocommit=True) as conn:
        yield conn


def test_the_corpus_is_what_this_file_says(su: Connection) -> None:
    for table, rows in (("memory", TOTAL), ("embedding_2", TOTAL), ("posting", 3 * TOTAL)):
        assert value(su, f"select count(*) from remem.{table}") == rows
        counted = value(
            su, "select reltuples from pg_class where oid = %s::regclass", [f"remem.{table}"]
        )
        assert counted == pytest.approx(rows, rel=0.01)
    sizes = dict(su.execute("select workspace, count(*) from remem.memory group by 1"))
    assert (sizes["big"], sizes["tenth"]) == (BIG, TENTH)
    assert {size for name, size in sizes.items() if name.startswith("small")} == {88, 89}
    assert value(su, "select count(*) from pg_stats where schemaname = 'remem'") > 0
    missing = value(su, "select count(*) from pg_index where not indisvalid")
    assert missing == 0


def test_the_calls_run_as_the_roles_that_they_are_said_to(callers: dict[str, Caller]) -> None:
    for who, caller in callers.items():
        ((user, superuser),) = caller.run(
            "select current_user::text, rolsuper from pg_roles where rolname = current_user"
        )
        assert (user == OWNER) is (who == "owner")
        assert superuser is False
        assert len(caller.seen) == 1
    reader = callers["granted role"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.run("select from remem.memory")
    with pytest.raises(psycopg.Error) as refusal:
        reader.recall("small 4", "common")
    assert refusal.value.sqlstate == "RM301"


# -- arm by arm


def test_the_vector_arm_walks_the_hnsw_index_of_a_large_workspace(caller: Caller) -> None:
    for workspace in ("big", "tenth"):
        assert len(caller.recall(workspace, "?", arms=["vector"], graph="never")) == 10
        (walk,) = (
            entry["Plan"]
            for entry in caller.seen
            if any(
                node.get("Index Name") == "embedding_2_hnsw_idx" for node in nodes(entry["Plan"])
            )
        )
        used = [node for node in nodes(walk) if "Scan" in node["Node Type"]]
        assert [node.get("Index Name") for node in used if "embedding_2" in str(node)] == [
            "embedding_2_hnsw_idx"
        ]
        kinds = {node["Node Type"] for node in nodes(walk)}
        assert not {"Sort", "Incremental Sort", "WindowAgg", "Hash Join"} & kinds
        assert "Limit" in kinds


def test_the_vector_arm_compares_all_of_a_small_workspace(caller: Caller) -> None:
    assert len(caller.recall("small 3", "?", arms=["vector"], graph="never")) == 10
    assert set(caller.scans("embedding_2")) <= {
        ("Index Scan", "embedding_2_pkey"),
        ("Bitmap Index Scan", "embedding_2_pkey"),
        ("Bitmap Heap Scan", None),
    }
    assert caller.scans("embedding_2")


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("query", ["v77", "common", "common w5 v77", "w5 w6 w7 w8 common nothing"])
def test_words_are_read_from_their_index_alone(caller: Caller, workspace: str, query: str) -> None:
    assert caller.recall(workspace, query, mode="lexical", graph="never")
    assert set(caller.scans("posting")) == {("Index Only Scan", "posting_pkey")}


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_the_pointer_arm_looks_names_up(caller: Caller, workspace: str) -> None:
    hits = caller.recall(workspace, "what of Name7?", arms=["pointer"], graph="never")
    assert hits
    assert {arm for hit in hits for arm in hit[3]} == {"pointer"}
    assert set(caller.scans("memory_entity")) <= {
        ("Index Only Scan", "memory_entity_pkey"),
        ("Index Scan", "memory_entity_memory_idx"),  # whether a find has a common name too
    }


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_the_attribute_arm_looks_attributes_up(caller: Caller, workspace: str) -> None:
    hits = caller.recall(workspace, "the city of Person50", arms=["attribute"], graph="never")
    assert any("attribute" in hit[3] for hit in hits)
    assert set(caller.scans("memory_entity")) == {("Index Only Scan", "memory_entity_pkey")}
    assert {index for _, index in caller.scans("memory")} <= {
        "memory_pkey",
        "memory_session_idx",
        "memory_validity_idx",
    }


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_the_phrase_arm_intersects_postings(caller: Caller, workspace: str) -> None:
    hits = caller.recall(workspace, '"common w5"', arms=["phrase"], graph="never")
    assert any("phrase" in hit[3] for hit in hits)
    assert set(caller.scans("posting")) == {("Index Only Scan", "posting_pkey")}
    assert {index for _, index in caller.scans("memory")} <= {
        "memory_pkey",
        "memory_session_idx",
        "memory_validity_idx",
    }


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_the_turns_around_a_find_are_looked_up_by_session_and_turn(
    caller: Caller, workspace: str
) -> None:
    caller.recall(workspace, QUERY)
    (plan,) = (
        entry["Plan"]
        for entry in caller.seen
        if "t.turn_no - 2 and t.turn_no + 2" in query_of(entry)
    )
    (lookup,) = (node for node in nodes(plan) if node.get("Alias") == "m")
    assert (lookup["Node Type"], lookup["Index Name"]) == ("Index Scan", "memory_session_idx")
    condition = lookup["Index Cond"]
    assert "workspace" in condition and "session_no" in condition and "turn_no" in condition


def query_of(entry: dict[str, Any]) -> str:
    text = entry["Query Text"]
    assert isinstance(text, str)
    return text


# -- the whole call


OPTIONS: dict[str, dict[str, Any]] = {
    "by default": {},
    "every arm": {"arms": list(ARMS), "graph": "always"},
    "the kind asked for": {"kind": "task"},
    "a selective filter": {"filter": "$.n == 77 || $.n == 5", "arms": list(ARMS)},
    "one in a thousand": {"filter": "$.metadata.part == 7", "arms": list(ARMS)},
    "a broad filter": {"kinds": ["task"], "arms": list(ARMS)},
}
FILTERED = ("a selective filter", "one in a thousand", "a broad filter")


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("options", OPTIONS)
def test_no_statement_of_a_recall_reads_a_table_from_end_to_end(
    caller: Caller, workspace: str, options: str
) -> None:
    assert caller.recall(workspace, QUERY, **OPTIONS[options])
    whole = [
        (node["Relation Name"], query_of(entry))
        for entry in caller.seen
        for node in nodes(entry["Plan"])
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in (*TABLES, "relation")
    ]
    assert whole == []
    asked = set(TABLES) if "arms" in OPTIONS[options] else set(TABLES) - {"memory_entity"}
    assert {table for table in TABLES if caller.scans(table)} >= asked


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_every_arm_finds_rows_and_the_graph_adds_some(caller: Caller, workspace: str) -> None:
    """What the plans above are the plans of."""
    ((trace,),) = caller.run(
        "select remem.recall_explain(%s, %s, %s::real[], 10, %s)",
        workspace,
        QUERY,
        VECTOR,
        Jsonb(OPTIONS["every arm"]),
    )
    assert set(trace["arms"]) == set(ARMS)
    assert {arm["state"] for arm in trace["arms"].values()} == {"completed"}
    assert all(arm["found"] > 0 for arm in trace["arms"].values())
    assert trace["graph"]["ran"] is True
    assert trace["graph"]["added"] > 0
    assert trace["degraded"] == []


@pytest.mark.parametrize("workspace", ["big", "tenth"])
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "retrieval_only"])
@pytest.mark.parametrize("prepare", [False, True], ids=["unprepared", "prepared"])
def test_one_row_in_a_thousand_is_looked_up_and_compared_exactly(
    caller: Caller, workspace: str, mode: str, prepare: bool
) -> None:
    """The GIN index gives the rows, and no other vector is looked at: k hits, at the tenth call
    as at the first."""
    least = {"big": 10, "tenth": 10}[workspace]
    options = {"filter": "$.metadata.part == 7", "mode": mode, "graph": "never"}
    for _ in range(10):
        assert len(caller.recall(workspace, "common", prepare, **options)) == least
        assert ("Bitmap Index Scan", "memory_attrs_idx") in caller.scans("memory")
        indexes = {index for _, index in caller.scans("embedding_2")}
        assert indexes == (set() if mode == "lexical" else {"embedding_2_pkey"})
        if mode not in ("lexical", "vector"):
            assert {index for _, index in caller.scans("posting")} == {"posting_pkey"}


@pytest.mark.parametrize("workspace", ["big", "tenth"])
def test_old_rows_of_a_broad_filter_are_found_by_a_word_that_all_rows_hold(
    caller: Caller, workspace: str
) -> None:
    """The newest rows of the word do not pass; more do than are resolved beforehand."""
    half = {"big": BIG, "tenth": TENTH}[workspace] // 2
    ((trace,),) = caller.run(
        "select remem.recall_explain(%s, 'common', null, 10, %s)",
        workspace,
        Jsonb({"filter": f"$.n <= {half}", "mode": "lexical"}),
    )
    assert trace["filtered_to"] is None
    assert len(trace["hits"]) == 10
    assert {arm for hit in trace["hits"] for arm in hit["arms"]} == {"lexical"}


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("options", ["by default", "every arm", *FILTERED])
@pytest.mark.parametrize("prepare", [False, True], ids=["unprepared", "prepared"])
def test_ten_calls_are_planned_and_answered_alike(
    caller: Caller, workspace: str, options: str, prepare: bool
) -> None:
    answers, shapes = [], []
    for _ in range(10):
        answers.append(caller.recall(workspace, QUERY, prepare, **OPTIONS[options]))
        shapes.append(caller.shapes())
    assert len(answers[0]) == 10 or options in FILTERED[:2]
    assert answers[0]
    assert answers == [answers[0]] * 10
    assert shapes[0]
    assert shapes == [shapes[0]] * 10


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("options", OPTIONS)
def test_a_granted_role_has_the_plans_and_the_answers_of_the_owner(
    callers: dict[str, Caller], workspace: str, options: str
) -> None:
    answers = {
        who: caller.recall(workspace, QUERY, **OPTIONS[options]) for who, caller in callers.items()
    }
    assert answers["owner"]
    assert answers["granted role"] == answers["owner"]
    assert callers["granted role"].shapes() == callers["owner"].shapes()


def test_a_session_that_served_one_workspace_serves_the_next_as_a_fresh_one_does(
    callers: dict[str, Caller],
) -> None:
    caller = callers["granted role"]
    for workspace in ("small 3", "big", "tenth", "big"):
        caller.recall(workspace, QUERY, True)
        warm = caller.shapes()
        caller.conn.execute("discard all")
        caller.recall(workspace, QUERY, True)
        assert caller.shapes() == warm
