"""recall_cached: which tier answers, and everything that makes an answer unusable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.access.doors import WORKING, doors, furnish
from tests.support.memories import (
    Connection,
    Vector,
    explain,
    floats,
    refused,
    remember,
    remember_many,
    value,
    warnings,
)

QUESTION = "how often do we retry?"


def cached(
    conn: Connection,
    query: str | None = QUESTION,
    *,
    workspace: str = "w",
    embedding: Vector | None = None,
    k: int = 8,
    **options: Any,
) -> dict[str, Any]:
    row = conn.execute(
        "select remem.recall_cached(%s, %s, %s::real[], %s, %s)",
        [workspace, query, floats(embedding), k, Jsonb(options)],
    ).fetchone()
    assert row is not None
    return dict(row[0])


def tier(conn: Connection, query: str | None = QUESTION, **given: Any) -> str:
    return str(cached(conn, query, **given)["tier"])


def hits(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """What two answers must have in common; scores fade with time and differ in a late digit."""
    return [(h["memory_id"], h["body"]) for h in answer["hits"]]


@pytest.fixture
def filled(db: Connection) -> Connection:
    remember(db, "w", "We retry three times, then page.", ref="retries", kind="decision")
    remember(db, "w", "Deployments happen on Tuesdays.", ref="deploys", title="Deploys")
    remember(db, "w", "Ana prefers oat milk.", ref="coffee", kind="preference")
    return db


@pytest.fixture
def other(connect: Callable[[str], Connection], filled: Connection) -> Connection:
    return connect(filled.info.user)


# -- the tiers


@pytest.mark.covers("MN1")
def test_the_same_question_is_hot_and_has_the_same_answer(filled: Connection) -> None:
    cold, hot = cached(filled), cached(filled)
    assert (cold["tier"], hot["tier"]) == ("cold", "hot")
    assert (cold["cache"]["state"], hot["cache"]["state"]) == ("stored", "used")
    assert cold["hits"] == hot["hits"]
    assert hits(hot) == hits(explain(filled, "w", QUESTION))
    assert cold["hits"][0]["ref"] == "retries"
    assert (cold["degraded"], hot["degraded"]) == ([], [])
    assert hot["timings"].keys() == {"cache", "total"}


@pytest.mark.covers("MN1")
def test_an_entry_holds_no_text_of_a_memory_and_none_of_the_question(filled: Connection) -> None:
    cached(filled)
    entry = value(filled, "select to_jsonb(q)::text from remem.query_cache q")
    for text in ("retry", "often", "times", "Tuesdays"):
        assert text not in entry


@pytest.mark.covers("MN1")
def test_a_question_that_means_the_same_is_warm(filled: Connection) -> None:
    first = [1.0] * 384
    near = [1.0] * 383 + [-1.0]  # cosine 0.995
    far = [1.0] * 300 + [-1.0] * 84
    cold = cached(filled, "how often do we retry?", embedding=first)
    warm = cached(filled, "how many times do we retry?", embedding=near)
    assert (cold["tier"], warm["tier"]) == ("cold", "warm")
    assert warm["cache"]["similarity"] == pytest.approx(382 / 384, abs=1e-3)
    assert warm["hits"] == cold["hits"]
    assert warm["token"] is None
    assert tier(filled, "how many times do we try?", embedding=far) == "cold"


def test_similar_questions_of_the_built_in_space_are_warm_without_a_vector(
    filled: Connection,
) -> None:
    assert tier(filled, "deployments happen on tuesdays") == "cold"
    assert tier(filled, "Deployments happen on Tuesdays?") == "warm"
    assert tier(filled, "deployments HAPPEN on tuesdays", cache="exact") == "cold"


@pytest.mark.parametrize(
    "query",
    ["what is in build 42?", 'what is in "build"', "what is in -build", "what is in @build"],
)
def test_numbers_names_and_quotes_make_another_question(filled: Connection, query: str) -> None:
    vector = [1.0] * 384
    assert tier(filled, "what is in build", embedding=vector) == "cold"
    assert tier(filled, query, embedding=vector) == "cold"
    assert tier(filled, query.replace("what is", "what was"), embedding=vector) == "warm"


@pytest.mark.parametrize(
    "given",
    [
        {"k": 3},
        {"kinds": ["decision"]},
        {"filter": '$.kind == "decision"'},
        {"fusion": "rrf"},
        {"mode": "retrieval_only"},
        {"min_relevance": 0.1},
        {"weights": {"session": 0.1}},
        {"workspace": "other"},
    ],
    ids=lambda given: next(iter(given)),
)
@pytest.mark.covers("MN1")
def test_another_k_option_filter_or_workspace_is_another_question(
    filled: Connection, given: dict[str, Any]
) -> None:
    remember(filled, "other", "We retry once.")
    cached(filled)
    assert tier(filled, **given) == "cold"
    assert tier(filled, **given) == "hot"


@pytest.mark.covers("MN1")
def test_lexical_mode_has_no_warm_tier(filled: Connection) -> None:
    for given in ({"mode": "lexical"}, {"arms": ["lexical"]}):
        assert tier(filled, "retry three times", **given) == "cold"
        assert tier(filled, "retry, three times", **given) == "cold"
        assert tier(filled, "retry three times", **given) == "hot"


def test_the_cache_can_be_left_out(filled: Connection) -> None:
    assert tier(filled, cache="off") == tier(filled, cache="off") == "cold"
    assert value(filled, "select count(*) from remem.query_cache") == 0


# -- what ends an answer


def write_new(conn: Connection) -> None:
    remember(conn, "w", "We retry five times.")


def write_version(conn: Connection) -> None:
    remember(conn, "w", "We never retry.", ref="retries", kind="decision")


def write_merge(conn: Connection) -> None:
    remember(conn, "w", "A wall clock.", source_ref="a")
    cached(conn, cache="exact")
    remember(conn, "w", "A wall clock.", source_ref="b")


def write_in_a_subtransaction(conn: Connection) -> None:
    with conn.transaction(), conn.transaction():
        write_new(conn)


def write_vector(conn: Connection) -> None:
    conn.execute("delete from remem.embedding_1 where workspace = 'w' and memory_no = 1")
    conn.execute("insert into remem.query_cache select * from remem.query_cache")
    remember(conn, "w", "We retry three times, then page.", ref="retries", kind="decision")


def mark(conn: Connection) -> None:
    conn.execute("select remem._touch('w')")


def change_space(conn: Connection) -> None:
    conn.execute("update remem.embedding_space set vector_weight = 0.9 where space_no = 1")


def change_language(conn: Connection) -> None:
    conn.execute("update remem.workspace set language = 'german' where workspace = 'w'")


def change_source_class(conn: Connection) -> None:
    conn.execute("update remem.source_class set trust = 0.1 where name = 'unspecified'")


def change_route(conn: Connection) -> None:
    conn.execute("update remem.route set keywords = '{often}' where kind = 'task'")


def change_own_route(conn: Connection) -> None:
    conn.execute("insert into remem.route (workspace, kind, arms) values ('w', 'task', '{vector}')")


def change_setting(conn: Connection) -> None:
    conn.execute("insert into remem.setting (name, value) values ('any', 'value')")


CHANGES = [
    write_new, write_version, write_merge, write_in_a_subtransaction, write_vector, mark,
    change_space, change_language, change_source_class, change_route, change_own_route,
    change_setting,
]  # fmt: skip


@pytest.mark.covers("MN1")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_ends_every_answer(
    filled: Connection, other: Connection, change: Callable[[Connection], None]
) -> None:
    first = cached(filled)
    assert tier(filled) == "hot"
    change(other)
    after = cached(filled, token=first["token"])
    assert after["tier"] == "cold"
    assert hits(after) == hits(explain(filled, "w", QUESTION))


def test_a_change_elsewhere_ends_nothing(filled: Connection) -> None:
    cached(filled)
    remember(filled, "elsewhere", "We retry five times.")
    filled.execute("insert into remem.route (workspace, kind, arms) values ('x', 'task', '{}')")
    assert tier(filled) == "hot"


def test_a_write_that_is_rolled_back_ends_nothing(filled: Connection, other: Connection) -> None:
    cached(filled)
    with other.transaction(force_rollback=True):
        write_new(other)
    assert tier(filled) == "hot"


def merge(conn: Connection) -> None:
    """Changes a row of memory and no count."""
    remember(conn, "w", "Ana prefers oat milk.", kind="preference", source_ref="another")


@pytest.mark.parametrize(
    "change", [write_new, write_version, merge, mark], ids=lambda change: change.__name__
)
@pytest.mark.parametrize("later_first", [False, True])
def test_a_write_that_was_running_when_the_answer_was_made_ends_it_once_it_commits(
    filled: Connection,
    other: Connection,
    connect: Callable[[str], Connection],
    change: Callable[[Connection], None],
    later_first: bool,
) -> None:
    with other.transaction():
        change(other)
        if later_first:  # so that the number of the running one is not the newest
            remember(connect(filled.info.user), "w", "Unrelated and later.")
        cold = cached(filled)
        assert (cold["tier"], tier(filled)) == ("cold", "hot")
        assert cached(filled, token=cold["token"])["unchanged"]
    after = cached(filled, token=cold["token"])
    assert after["tier"] == "cold"
    assert hits(after) == hits(explain(filled, "w", QUESTION))


def test_an_answer_ends_when_a_memory_starts_or_ends(filled: Connection) -> None:
    now = datetime.now(UTC)
    remember(filled, "w", "Until soon.", valid_to=now + timedelta(minutes=2))
    remember(filled, "w", "From sooner.", valid_from=now + timedelta(minutes=1))
    cached(filled)
    expires = value(filled, "select expires_at from remem.query_cache")
    assert expires == now + timedelta(minutes=1)
    filled.execute("update remem.query_cache set expires_at = now()")
    assert tier(filled) == "cold"


@pytest.mark.covers("MN1")
def test_an_answer_lives_five_minutes_at_most(filled: Connection) -> None:
    cached(filled)
    lives = value(filled, "select expires_at - made_at from remem.query_cache")
    assert timedelta(0) < lives <= timedelta(minutes=5)


def test_an_answer_of_a_later_moment_is_not_for_a_transaction_that_began_before(
    filled: Connection, other: Connection
) -> None:
    with filled.transaction():
        filled.execute("select now()")
        cached(other)
        assert tier(filled, log=False) == "cold"
    assert tier(filled) == "hot"


def test_an_entry_of_another_server_is_not_used(filled: Connection) -> None:
    cached(filled)
    filled.execute(
        "update remem.query_cache set snapshot = '900000000000:900000000000:'::pg_snapshot"
    )
    assert tier(filled) == "cold"


def test_numbers_from_a_dump_of_another_server_do_not_keep_the_cache_from_working(
    filled: Connection,
) -> None:
    filled.execute("update remem.memory set changed_xid = '900000000000'")
    cached(filled)
    assert tier(filled) == "hot"


def test_every_function_that_changes_what_recall_reads_ends_an_answer(db: Connection) -> None:
    """Also those of later: a function that forgets to mark the workspace is found here."""
    furnish(db)
    read_by_recall = [
        name
        for (name,) in db.execute(
            "select relname from pg_class where relnamespace = 'remem'::regnamespace "
            "and relkind = 'r' and relname not in ('recall_log', 'query_cache', 'access_grant', "
            "'schema_migration', 'job_run', 'embedding_claim', 'tombstone') order by 1"
        ).fetchall()
    ]

    def contents() -> dict[str, str | None]:
        return {
            name: value(db, f"select md5(string_agg(t::text, ',')) from remem.{name} t")
            for name in read_by_recall
        }

    seen = 0
    for door in doors(db):
        with db.transaction(force_rollback=True):
            snapshot = value(db, "select pg_current_snapshot()::text")
            before, config = contents(), value(db, "select remem._cache_config('acme')")
            db.execute("select")
            door.call(db, WORKING[door.name])
            changed = sorted(k for k, v in contents().items() if v != before[k])
            here = [
                name
                for name in changed
                if not _only_elsewhere(db, name, before, WORKING[door.name])
            ]
            # the own transaction is in no snapshot of before: its rows count as changed
            xid = value(db, "select pg_current_xact_id_if_assigned()::text")
            if not here:
                continue
            seen += 1
            still = value(
                db,
                """select not exists (select from remem.memory where workspace = 'acme'
                     and changed_xid = %(xid)s::xid8)
                   and not exists (select from remem.tally where workspace = 'acme'
                     and changed_xid = %(xid)s::xid8)""",
                {"xid": xid},
            )
            same = config == value(db, "select remem._cache_config('acme')")
            assert snapshot
            assert not (still and same), (door.name, here)
    assert seen >= 3


def _only_elsewhere(
    conn: Connection, table: str, before: dict[str, str | None], arguments: dict[str, Any]
) -> bool:
    """Whether a change is about another workspace or a space that no workspace uses."""
    if arguments.get("workspace", "acme") != "acme":
        return True
    return table == "embedding_space" or (
        before.get(table) is None and table.startswith("embedding")
    )


# -- where the cache stands aside


@pytest.mark.covers("MN17")
def test_a_read_only_transaction_gets_an_answer_and_writes_nothing(filled: Connection) -> None:
    cached(filled)
    with filled.transaction():
        filled.execute("set transaction read only")
        answer = cached(filled)
    assert (answer["tier"], answer["cache"]) == (
        "cold",
        {"state": "skipped", "reason": "read_only"},
    )
    assert answer["hits"]
    assert value(filled, "select count(*) from remem.recall_log") == 1


def test_a_transaction_that_has_written_neither_uses_nor_fills_the_cache(
    filled: Connection, other: Connection
) -> None:
    cached(filled)
    with filled.transaction(force_rollback=True):
        write_new(filled)
        answer = cached(filled)
        assert answer["cache"] == {"state": "skipped", "reason": "transaction_has_written"}
        assert "We retry five times." in [h["body"] for h in answer["hits"]]
    assert "We retry five times." not in [h["body"] for h in cached(other)["hits"]]
    assert value(filled, "select count(*) from remem.query_cache") == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_above_read_committed_every_answer_is_cold(filled: Connection, level: str) -> None:
    cached(filled)
    with filled.transaction():
        filled.execute(f"set transaction isolation level {level}".encode())
        assert cached(filled)["cache"] == {"state": "skipped", "reason": "isolation"}


def test_an_unknown_workspace_leaves_nothing_behind(db: Connection) -> None:
    assert cached(db, workspace="nowhere")["degraded"] == ["unknown_workspace"]
    assert tier(db, workspace="nowhere") == "cold"
    assert value(db, "select count(*) from remem.query_cache") == 0


@pytest.mark.parametrize("damage", ["drop table remem.query_cache",
    "alter table remem.query_cache add constraint broken check (false) not valid"])  # fmt: skip
def test_a_broken_cache_is_named_and_costs_no_answer(filled: Connection, damage: str) -> None:
    filled.execute(damage.encode())
    answer = cached(filled)
    assert (answer["tier"], answer["degraded"]) == ("cold", ["cache_failed"])
    assert hits(answer) == hits(explain(filled, "w", QUESTION))


def test_a_broken_log_is_named_and_costs_no_answer(filled: Connection) -> None:
    filled.execute("drop table remem.recall_log")
    assert cached(filled)["degraded"] == ["log_failed"]
    assert tier(filled) == "hot"


def test_a_wrong_question_is_refused_as_by_recall(filled: Connection) -> None:
    with refused("RM002"):
        cached(filled, frobnicate=1)
    with refused("RM001", argument="k"):
        cached(filled, k=0)
    with refused("RM001", argument="query"):
        cached(filled, None)
    with refused("RM201", got=2, expected=384):
        cached(filled, embedding=[1.0, 2.0], space="hash")
    with refused("RM001", argument="cache"):
        cached(filled, cache="always")
    with refused("RM001", argument="log"):
        cached(filled, log="yes")
    with refused("RM001", argument="token"):
        cached(filled, token=1)


def test_an_open_transaction_that_stored_an_answer_keeps_nobody_waiting(
    filled: Connection, other: Connection
) -> None:
    filled.execute("set lock_timeout = '2s'")
    other.execute("set lock_timeout = '2s'")
    with other.transaction():
        assert cached(other)["cache"]["state"] == "stored"
        assert cached(filled)["cache"]["state"] == "stored"
        assert tier(filled) == "hot"


@pytest.mark.covers("MN1")
def test_a_workspace_keeps_a_thousand_answers(filled: Connection) -> None:
    cached(filled)
    filled.execute(
        "insert into remem.query_cache select workspace, sha256(n::text::bytea), scope_key, "
        "query_embedding, answer, snapshot, made_at - n * interval '1 ms', expires_at "
        "from remem.query_cache, generate_series(1, 1150) n"
    )
    cached(filled, "another question")
    assert value(filled, "select count(*) from remem.query_cache") == 1000
    assert tier(filled) == "hot"
    filled.execute("update remem.query_cache set made_at = now() - interval '6 min'")
    for n in range(6):
        cached(filled, f"question {n}")
    assert value(filled, "select count(*) from remem.query_cache") == 6


# -- the token


@pytest.mark.covers("MN1")
def test_a_token_asks_whether_a_kept_answer_still_holds(
    filled: Connection, other: Connection
) -> None:
    first = cached(filled)
    again = cached(filled, token=first["token"])
    assert (again["unchanged"], again["tier"], "hits" in again) == (True, "hot", False)
    assert again["token"] == first["token"]
    other_question = cached(filled, "who likes milk?", token=first["token"])
    assert "unchanged" not in other_question
    write_new(other)
    assert cached(filled, token=first["token"])["tier"] == "cold"


@pytest.mark.parametrize("token", ["", "x", "a/b/c/d/e", "0" * 64 + "/1/1/1/1:1:", "é" * 500])
def test_a_token_of_nothing_is_no_answer(filled: Connection, token: str) -> None:
    answer = cached(filled, token=token)
    assert (answer["tier"], answer["degraded"]) == ("cold", [])


def test_a_forged_token_harms_its_owner_only(filled: Connection) -> None:
    token = cached(filled)["token"]
    forged = token[: token.rindex("/")] + "/7:3:9"  # no snapshot
    answer = cached(filled, token=forged)
    assert answer["hits"]
    assert answer["degraded"] in ([], ["cache_failed"])


# -- work


def test_a_cached_recall_raises_no_warning(filled: Connection) -> None:
    with warnings(filled) as seen:
        assert cached(filled, "of the", mode="lexical")["degraded"] == ["no_lexemes"]
        assert cached(filled, "of the", mode="lexical")["tier"] == "hot"
    assert seen == []


@contextmanager
def plans(conn: Connection) -> Iterator[list[str]]:
    """The plans of every statement in the block, also of those inside functions."""
    seen: list[str] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        seen.append(diag.message_primary or "")

    conn.execute("load 'auto_explain'")
    for name, setting in (
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_nested_statements", "on"),
        ("auto_explain.log_analyze", "on"),
        ("client_min_messages", "log"),
    ):
        conn.execute("select set_config(%s, %s, false)", [name, setting])
    conn.add_notice_handler(note)
    try:
        yield seen
    finally:
        conn.remove_notice_handler(note)


@pytest.mark.parametrize("analysed", [False, True])
def test_validity_is_read_from_the_index_whatever_the_statistics_say(
    filled: Connection, su: Connection, analysed: bool
) -> None:
    remember_many(filled, "w", [{"body": f"Fact number {n}."} for n in range(2000)])
    if analysed:
        su.execute("analyze remem.memory")
    with plans(su) as seen:
        snapshot = value(filled, "select pg_current_snapshot()::text")
        value(su, "select remem._unchanged_since('w', %s::pg_snapshot)", [snapshot])
        lower, upper, _ = snapshot.split(":")
        running = f"{lower}:{int(upper) + 0}:" if lower == upper else snapshot
        value(su, "select remem._unchanged_since('w', %s::pg_snapshot)", [running])
    about_memory = [p for p in seen if "memory" in p and "Scan" in p]
    assert about_memory
    for plan in about_memory:
        assert "memory_changed_xid_idx" in plan, plan
        assert "Seq Scan on memory" not in plan


def test_the_degraded_state_is_part_of_a_kept_answer(filled: Connection) -> None:
    filled.execute(
        "select remem.register_space(%s)",
        [json.dumps({"name": "tiny", "backend": "x", "asset": "y", "dimensions": 3})],
    )
    filled.execute("select remem.activate_space('tiny', 'new')")
    filled.execute("select remem.remember('new', 'A fact.', embedding => '{1,2,3}'::real[])")
    for expected in ("cold", "hot"):
        answer = cached(filled, "a fact", workspace="new")
        assert (answer["tier"], answer["degraded"]) == (expected, ["no_embedding"])
    assert tier(filled, "the fact", workspace="new") == "cold"
