"""The plans of recall among 200,000 memories, as the owner and as a role that was granted them.

Half of the memories are one workspace's, a tenth another's, the rest those of 900 small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.server import OWNER, Server
from tests.support.databases import filled, owner
from tests.support.large import ARMS, BIG, TABLES, TENTH, TOTAL, VECTOR, WORKSPACES, Caller, fill
from tests.support.memories import Connection, value
from tests.support.plans import explained, nodes


@pytest.fixture(scope="module")
def large(server: Server) -> Iterator[str]:
    """The database of this file: its tests only read."""
    with filled(server, fill) as name:
        yield name


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
