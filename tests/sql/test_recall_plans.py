"""How recall searches a large workspace and small ones beside it, on analysed tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, open_space, recall, value
from tests.support.plans import nodes, plans, shape, touching

BIG, SMALL, TENANTS = 6000, 60, 60


@pytest.fixture(scope="module")
def crowded(server: Server) -> Iterator[str]:
    """The database of this file: its tests only read."""
    with filled(server, fill) as name:
        yield name


@pytest.fixture
def crowd(server: Server, crowded: str) -> Iterator[Connection]:
    with owner(server, crowded) as conn:
        yield conn


@pytest.fixture
def su(server: Server, crowded: str) -> Iterator[Connection]:
    with psycopg.connect(server.superuser_dsn(crowded), autocommit=True) as conn:
        yield conn


def fill(db: Connection) -> None:
    """A workspace of 6,000 memories, one of a tenth of that, and sixty of sixty; dimension 8.

    Written into the tables at once; every memory has two words of its own and one in common.
    """
    open_space(db, "plan", 8)
    index = value(db, "select pg_get_indexdef('remem.embedding_2_hnsw_idx'::regclass)")
    db.execute("drop index remem.embedding_2_hnsw_idx")
    sizes = {"big": BIG, "tenth": BIG // 10, **{f"small {n}": SMALL for n in range(TENANTS)}}
    db.execute("select setseed(0.5)")
    for workspace, size in sizes.items():
        db.execute("select remem.create_workspace(%s)", [workspace])
        db.execute(
            """
            with made as (
              insert into remem.memory (workspace, kind, scope, body, source_class, attrs,
                fingerprint, content_hash, doc_len, lexemes, analyser_no)
              select %(workspace)s, case when n %% 3 = 0 then 'task' else 'semantic' end, 'global',
                'common w' || n %% 97 || ' v' || n, 'unspecified',
                jsonb_build_object('workspace', %(workspace)s::text, 'n', n, 'kind',
                  case when n %% 3 = 0 then 'task' else 'semantic' end),
                sha256(n::text::bytea), '', 3, array['common', 'w' || n %% 97, 'v' || n], 1
              from generate_series(1, %(size)s) n
              returning workspace, memory_no, lexemes
            ), indexed as (
              insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)
              select remem._workspace_key(m.workspace), remem._word(l), m.memory_no, 3, 1
              from made m cross join unnest(m.lexemes) l
            ), embedded as (
              insert into remem.embedding_2
              select m.workspace, m.memory_no, array(
                select (random() - 0.5 + 0 * m.memory_no)::real from generate_series(1, 8))
              from made m
            )
            insert into remem.tally values
              (%(workspace)s, 0, %(size)s, 3 * %(size)s), (%(workspace)s, 2, %(size)s, 0)
            """,
            {"workspace": workspace, "size": size},
        )
    db.execute(index)
    db.execute("vacuum analyze remem.memory, remem.posting, remem.embedding_2, remem.tally")


QUERY = [0.5, -0.25, 0.125, 0.3, -0.4, 0.2, 0.1, -0.1]


def exact(db: Connection, workspace: str, n: int) -> list[int]:
    return [
        number
        for (number,) in db.execute(
            "select memory_no from remem.embedding_2 where workspace = %s"
            " order by 0 + (embedding operator(public.<=>) %s::real[]::public.halfvec) limit %s",
            [workspace, QUERY, n],
        )
    ]


def arm(
    conn: Connection, workspace: str, n: int, *, exact: bool = False, filter: str | None = None
) -> list[int]:
    found: list[int] = value(
        conn,
        "select memory_nos from remem._arm_vector(%s, 2, %s::real[], %s, %s, null,"
        " %s::jsonpath, false)",
        [workspace, QUERY, n, exact, filter],
    )
    return found


def test_the_vector_arm_of_a_large_workspace_walks_the_hnsw_index(
    crowd: Connection, su: Connection
) -> None:
    with plans(su) as seen:
        found = arm(su, "big", 50)
    assert len(found) == 50
    (plan,) = touching(seen, "embedding_2")
    assert [n.get("Index Name") for n in nodes(plan) if "Scan" in n["Node Type"]].count(
        "embedding_2_hnsw_idx"
    ) == 1
    assert not {"Sort", "WindowAgg", "Incremental Sort"} & {n["Node Type"] for n in nodes(plan)}


def test_the_vector_arm_with_a_broad_filter_walks_the_hnsw_index(
    crowd: Connection, su: Connection
) -> None:
    with plans(su) as seen:
        found = arm(su, "big", 50, filter='$.workspace == "big" && $.kind == "task"')
    assert len(found) == 50
    (plan,) = touching(seen, "embedding_2")
    assert "embedding_2_hnsw_idx" in {node.get("Index Name") for node in nodes(plan)}


def test_recall_in_a_large_workspace_walks_the_hnsw_index_once(
    crowd: Connection, su: Connection
) -> None:
    with plans(su) as seen:
        hits = recall(su, "big", "w5", embedding=QUERY)
    assert len(hits) == 8
    used = [
        node.get("Index Name") for plan in touching(seen, "embedding_2") for node in nodes(plan)
    ]
    assert used.count("embedding_2_hnsw_idx") == 1


def test_an_exact_search_of_the_past_compares_all_vectors(
    crowd: Connection, su: Connection
) -> None:
    now = value(su, "select now()").isoformat()
    with plans(su) as seen:
        assert len(recall(su, "big", "w5", embedding=QUERY, as_of=now)) == 8
    used = {n.get("Index Name") for plan in touching(seen, "embedding_2") for n in nodes(plan)}
    assert used
    assert "embedding_2_hnsw_idx" not in used


def test_memories_that_stand_alone_are_no_neighbours_of_each_other(
    crowd: Connection, su: Connection
) -> None:
    with plans(su) as seen:
        recall(su, "big", "w5", embedding=QUERY)
    windows = [n for entry in seen for n in nodes(entry["Plan"]) if n["Node Type"] == "WindowAgg"]
    # With a partition of a session, what is in none would be one: each row's frame all others.
    keys = {key for n in windows for below in nodes(n) for key in below.get("Sort Key", [])}
    assert any(key.endswith(".unit") for key in keys)
    assert not any(key.endswith(".session_no") for key in keys)


def test_the_index_finds_nearly_what_an_exact_search_finds(crowd: Connection) -> None:
    found = arm(crowd, "big", 50)
    assert len(set(found) & set(exact(crowd, "big", 50))) >= 48


@pytest.mark.parametrize("workspace", ["small 7", "tenth"])
@pytest.mark.parametrize("n", [10, 20, 50])
def test_a_tenant_beside_a_large_one_gets_its_rows_from_the_index_too(
    crowd: Connection, workspace: str, n: int
) -> None:
    found = arm(crowd, workspace, n)
    assert len(found) == n
    assert len(set(found) & set(exact(crowd, workspace, n))) >= 0.9 * n


@pytest.mark.parametrize("workspace", ["small 0", "small 59", "tenth", "big"])
@pytest.mark.parametrize("mode", ["auto", "vector", "lexical"])
def test_every_workspace_gets_k_hits(crowd: Connection, workspace: str, mode: str) -> None:
    for k in (10, 20, 50):
        hits = recall(crowd, workspace, "common", embedding=QUERY, k=k, mode=mode)
        assert len(hits) == k


def test_a_granted_role_gets_what_the_owner_gets(
    crowd: Connection, crowded: str, server: Server, make_role: Any
) -> None:
    role = make_role()
    crowd.execute("select remem.grant_access(%s, 'small 3', 'read')", [role])
    crowd.execute("select remem.grant_access(%s, 'big', 'read')", [role])
    with psycopg.connect(server.dsn(role, crowded), autocommit=True) as user:
        for workspace in ("small 3", "big"):
            for k in (10, 20):
                theirs = recall(user, workspace, "common", embedding=QUERY, k=k)
                assert theirs == recall(crowd, workspace, "common", embedding=QUERY, k=k)
                assert len(theirs) == k


@pytest.mark.parametrize("mode", ["auto", "vector", "lexical"])
def test_a_selective_filter_in_a_large_workspace_returns_all_its_rows(
    crowd: Connection, mode: str
) -> None:
    hits = recall(
        crowd, "big", "common", embedding=QUERY, mode=mode, filter="$.n == 3000 || $.n > 5995"
    )
    assert len(hits) == 6


def test_an_index_that_gives_up_early_is_followed_by_an_exact_search(crowd: Connection) -> None:
    """As in a table where so many other tenants are nearer that the scan stops at its bound."""
    crowd.execute("set hnsw.max_scan_tuples = 1")
    hits = recall(crowd, "big", "common", embedding=QUERY, k=300, mode="vector")
    assert len(hits) == 300
    near = crowd.execute(
        "select memory_id from remem.memory where memory_no = any(%s)",
        [exact(crowd, "big", 300)],
    ).fetchall()
    assert {hit.memory_id for hit in hits} == {memory_id for (memory_id,) in near}


def test_the_lexical_arm_reads_postings_by_index_alone(crowd: Connection, su: Connection) -> None:
    with plans(su) as seen:
        assert len(recall(su, "big", "common w5", mode="lexical")) == 8
    scans = [
        node
        for plan in touching(seen, "posting")
        for node in nodes(plan)
        if node.get("Relation Name") == "posting"
    ]
    assert scans
    assert {node["Node Type"] for node in scans} == {"Index Only Scan"}


CALL = "select memory_id, score, relevance from remem.recall(%s, %s, %s::real[], 10)"


def shapes_of_ten_calls(su: Connection, workspace: str, prepare: bool) -> list[set[Any]]:
    """For each of ten calls: the shapes of all plans that read a table of remem's."""
    calls = []
    answers = []
    for _ in range(10):
        with plans(su) as seen:
            answers.append(
                su.execute(CALL, [workspace, "common w5 v77", QUERY], prepare=prepare).fetchall()
            )
        calls.append(
            {
                shape(plan)
                for table in ("memory", "posting", "embedding_2", "session", "tally")
                for plan in touching(seen, table)
            }
        )
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 10
    return calls


@pytest.mark.parametrize("prepare", [False, True], ids=["unprepared", "prepared"])
@pytest.mark.parametrize("workspace", ["big", "tenth", "small 3"])
def test_ten_calls_in_a_session_are_answered_alike_and_by_the_same_plans(
    crowd: Connection, su: Connection, workspace: str, prepare: bool
) -> None:
    calls = shapes_of_ten_calls(su, workspace, prepare)
    assert calls[0]
    assert calls == [calls[0]] * 10


def test_the_plans_of_one_workspace_do_not_stick_to_the_next(
    crowd: Connection, su: Connection
) -> None:
    """A session that recalled in a small workspace searches a large one as a fresh session does."""
    shapes_of_ten_calls(su, "small 3", prepare=True)
    after = shapes_of_ten_calls(su, "big", prepare=True)
    su.execute("discard all")
    assert after[0] == shapes_of_ten_calls(su, "big", prepare=True)[0]


def posting_scans(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        node
        for plan in touching(seen, "posting")
        for node in nodes(plan)
        if node.get("Index Name") == "posting_pkey"
        or (node.get("Relation Name") == "posting" and "Scan" in node["Node Type"])
    ]


@pytest.mark.parametrize("rows", [3, 1500])
@pytest.mark.parametrize("workspace", ["big", "small 3"])
def test_the_words_of_given_rows_are_looked_up_by_word_and_row(
    crowd: Connection, su: Connection, workspace: str, rows: int
) -> None:
    """Not by reading everything about the rows, as a planner may find cheaper in a small table."""
    with plans(su) as seen:
        (found,) = su.execute(
            "select cardinality(s.scores) from remem.workspace w cross join lateral"
            " remem._prepare_query(w, remem._space(w.space_no), 'common w5 v7', null,"
            "   remem._check_options('{}'), '{lexical}', null) p"
            " cross join lateral remem._word_scores(p.prepared, (select array_agg(x.memory_no) from"
            "   (select memory_no from remem.memory where workspace = %(w)s limit %(n)s) x)) s"
            " where w.workspace = %(w)s",
            {"w": workspace, "n": rows},
        ).fetchone() or (0,)
    assert found == min(rows, SMALL if workspace != "big" else rows)
    (scan,) = [n for n in posting_scans(seen) if "= ANY" in n.get("Index Cond", "")]
    assert scan["Node Type"] == "Index Only Scan"
    assert "word =" in scan["Index Cond"]


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_postings_that_go_are_found_by_their_key(
    crowd: Connection, su: Connection, mode: str
) -> None:
    """Also by the plan that a session keeps: by the word alone it would read whole lists."""
    with su.transaction(force_rollback=True), plans(su) as seen:
        su.execute(f"set local plan_cache_mode = {mode}")
        su.execute(
            "select remem._drop_postings('big', array(select memory_no from remem.memory"
            " where workspace = 'big' order by memory_no limit 500), true)"
        )
        gone = su.execute("select count(*) from remem.posting_past")
        assert gone.fetchone() == (1500,)
    (scan,) = [n for n in posting_scans(seen) if "word =" in n.get("Index Cond", "")]
    assert scan["Node Type"].startswith("Index") and "memory_no =" in scan["Index Cond"]
    assert "Seq Scan" not in {n["Node Type"] for n in posting_scans(seen)}
