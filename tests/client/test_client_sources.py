"""Where connections come from: a DSN, a pool, a connection of the caller's, a server that dies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row, tuple_row
from psycopg_pool import ConnectionPool

from remem_pg import (
    CallAborted,
    InvalidArgument,
    NoAccess,
    Remem,
    RememError,
    ServerUnavailable,
    TenantNotSet,
    TransactionAborted,
)
from remem_pg.database import wire
from tests.support.waiting import until


def backends(su: psycopg.Connection[Any], database: str) -> list[int]:
    rows = su.execute(
        "select pid from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
        (database,),
    )
    return [row[0] for row in rows]


def kill(su: psycopg.Connection[Any], database: str) -> None:
    """Ends every other connection to the database and waits until they are gone."""
    for pid in backends(su, database):
        su.execute("select pg_terminate_backend(%s, 5000)", (pid,))
    wait_until_gone(su, database)


def wait_until_gone(su: psycopg.Connection[Any], database: str) -> None:
    until(lambda: not backends(su, database))


# nothing before the first call


def test_the_constructor_does_no_io(monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.perf_counter()
    client = Remem("host=/nowhere dbname=nothing", workspace="acme", embedding="/no/model")
    client.workspace("beta")
    client.close()
    monkeypatch.delenv("REMEM_DSN", raising=False)
    Remem(workspace="acme")
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "dsn", ["host=/nowhere dbname=x", "postgresql://127.0.0.1:9/x", "host=no.such.host.invalid"]
)
def test_an_unreachable_server_is_a_typed_error_at_once(dsn: str) -> None:
    started = time.perf_counter()
    with Remem(dsn, workspace="acme", embedding=None) as client:
        for call in (lambda: client.recall("x"), lambda: client.remember("x"), client.migrate):
            with pytest.raises(ServerUnavailable, match="Hint"):
                call()
    assert time.perf_counter() - started < 8


def test_a_database_that_does_not_exist_is_named(db_dsn: str) -> None:
    dsn = psycopg.conninfo.make_conninfo(db_dsn, dbname="no_such_database")
    client = Remem(dsn, workspace="acme", embedding=None)
    with pytest.raises(ServerUnavailable, match="no_such_database"):
        client.count()


@pytest.mark.parametrize("source", ["not a dsn", "postgresql://u:secret@h/d?nope=1", 5, object()])
def test_what_is_no_source_is_refused_without_showing_it(source: Any) -> None:
    with pytest.raises(InvalidArgument, match="source") as caught:
        Remem(source, workspace="acme")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["nul\0", "\ud800", None, 5])
def test_a_workspace_name_that_cannot_be_sent_is_refused(name: Any) -> None:
    with pytest.raises(RememError, match="workspace"):
        Remem("dbname=x", workspace=name)


def test_the_environment_names_the_server(db_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMEM_DSN", db_dsn)
    with Remem(workspace="acme", embedding=None) as client:
        assert client.remember("x").outcome == "created"


# the caller's connection


def test_inside_the_callers_transaction_nothing_is_committed(db_dsn: str, mem: Remem) -> None:
    with psycopg.connect(db_dsn) as conn:
        inside = Remem(conn, workspace="acme", embedding=None)
        inside.remember("not yet")
        inside.remember_many([{"body": f"nor {n}"} for n in range(5)], batch_size=2)
        assert inside.count() == 6
        assert mem.count() == 0
        conn.rollback()
        assert mem.count() == 0
        inside.remember("now")
        conn.commit()
        assert mem.count() == 1
        inside.close()
        assert not conn.closed


def test_a_batch_over_several_statements_does_not_commit_for_the_caller(
    db_dsn: str, mem: Remem
) -> None:
    with psycopg.connect(db_dsn) as conn:
        inside = Remem(conn, workspace="acme", embedding=None)
        inside.version()
        conn.rollback()
        inside.remember_many([{"body": f"n {n}"} for n in range(5)], batch_size=2)
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        conn.rollback()
    assert mem.count() == 0


def test_a_batch_refused_in_the_middle_leaves_the_callers_transaction_usable_and_empty(
    db_dsn: str,
) -> None:
    with psycopg.connect(db_dsn) as conn:
        inside = Remem(conn, workspace="acme", embedding=None)
        inside.remember("before")
        bad: list[Any] = [{"body": "a"}, {"body": "b"}, {"body": "c", "kind": "nonsense"}]
        with pytest.raises(InvalidArgument, match="item 3"):
            inside.remember_many(bad, batch_size=2)
        assert inside.count() == 1


def test_a_failed_call_fails_the_callers_transaction_as_any_statement_does(db_dsn: str) -> None:
    with psycopg.connect(db_dsn) as conn:
        inside = Remem(conn, workspace="acme", embedding=None)
        inside.count()
        with pytest.raises(InvalidArgument):
            inside.recall("x", k=-1)
        with pytest.raises(TransactionAborted) as caught:
            inside.count()
        assert isinstance(caught.value.__cause__, psycopg.errors.InFailedSqlTransaction)
        with pytest.raises(TransactionAborted):
            inside.remember_many([{"body": f"n {n}"} for n in range(60)])
        conn.rollback()
        assert inside.count() == 0


def settings_of(conn: psycopg.Connection[Any]) -> dict[str, str]:
    with conn.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute("select name, setting from pg_settings").fetchall())


def test_the_callers_connection_keeps_its_settings_and_handlers(db_dsn: str) -> None:
    seen: list[str] = []
    with psycopg.connect(db_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.add_notice_handler(lambda diag: seen.append(diag.sqlstate or ""))
        conn.adapters.register_loader("uuid", psycopg.types.string.TextLoader)
        handlers = list(conn._notice_handlers)
        before = settings_of(conn)
        client = Remem(conn, workspace="acme", embedding=None)
        assert isinstance(client.remember("We retry three times.").memory_id, UUID)
        assert client.recall("the of and").degraded
        assert conn.execute("select 1 as one").fetchone() == {"one": 1}
        # more may have come: libraries that were loaded bring settings of their own
        assert before.items() <= settings_of(conn).items()
        assert conn._notice_handlers == handlers
    assert seen == ["RM501"]


def test_a_client_side_cursor_factory_does_not_matter(db_dsn: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        vector = [0.0] * 383 + [1.0]
        client.remember("x", embedding=vector)
        assert len(client.recall("x", query_embedding=vector)) == 1


def test_another_client_encoding_is_a_typed_error_where_it_lacks_a_character(db_dsn: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True, client_encoding="LATIN1") as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        assert client.remember("café").outcome == "created"
        with pytest.raises(RememError, match="client_encoding"):
            client.remember("日本")


def test_two_threads_may_share_the_callers_connection(db_dsn: str) -> None:
    with psycopg.connect(db_dsn, autocommit=True) as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        client.remember("We retry three times.")
        questions = ["retry", "the of and"] * 20
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(client.recall, questions))
    for question, result in zip(questions, results, strict=True):
        assert ("no_lexemes" in result.degraded) == (question != "retry")


def test_recall_works_in_a_read_only_transaction(db_dsn: str, mem: Remem) -> None:
    mem.remember("We retry three times.")
    with psycopg.connect(db_dsn) as conn:
        conn.read_only = True
        inside = Remem(conn, workspace="acme")
        assert inside.recall("how often do we retry?")[0].body == "We retry three times."


# pools


def test_a_pool_of_the_callers_is_used_and_left_open(db_dsn: str) -> None:
    with ConnectionPool(db_dsn, min_size=1, max_size=2, open=True) as pool:
        with Remem(pool, workspace="acme", embedding=None) as client:
            client.remember("x")
        assert not pool.closed
        with pool.connection() as conn:
            row = conn.execute("select remem.count('acme')").fetchone()
        assert row == (1,)


def test_a_closed_pool_is_a_typed_error(db_dsn: str) -> None:
    pool = ConnectionPool(db_dsn, open=False)
    client = Remem(pool, workspace="acme", embedding=None)
    with pytest.raises(ServerUnavailable):
        client.count()


def test_nothing_is_prepared_and_nothing_is_left_in_the_session(
    db_dsn: str,
) -> None:
    # what a pooler in transaction mode needs: every call stands alone
    kwargs = {"autocommit": True, "prepare_threshold": None}
    with ConnectionPool(db_dsn, min_size=1, max_size=1, kwargs=kwargs, open=True) as pool:
        client = Remem(pool, workspace="acme", embedding=None, tenant=True)
        for n in range(10):
            client.remember(f"note {n}")
            client.recall("note")
        client.remember_many([{"body": f"n {n}"} for n in range(4)], batch_size=2)
        with pool.connection() as conn:
            prepared = conn.execute("select count(*) from pg_prepared_statements").fetchone()
            tenant = conn.execute("select current_setting('remem.workspace', true)").fetchone()
    assert prepared == (0,)
    assert tenant is not None
    assert not tenant[0]


def test_the_own_pool_prepares_nothing(mem: Remem) -> None:
    for _ in range(10):
        mem.count()
    with mem._source.connection() as conn:
        row = conn.execute("select count(*) from pg_prepared_statements").fetchone()
    assert row == (0,)


def test_more_threads_than_connections_wait_for_their_turn(mem: Remem) -> None:
    def work(n: int) -> int:
        mem.remember(f"note {n}")
        return len(mem.recall("note", k=1))

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(work, range(48))) == {1}
    assert mem.count() == 48


def test_first_calls_of_many_threads_open_one_pool(db_dsn: str, su: Any, database: str) -> None:
    with Remem(db_dsn, workspace="acme", embedding=None) as client:
        barrier = threading.Barrier(8)

        def work(_: int) -> int:
            barrier.wait()
            return client.count()

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(work, range(8))) == {0}
        in_pool = {conn.info.backend_pid for conn in client._source._pool._pool}
        assert 1 <= len(in_pool) <= wire.POOL_SETTINGS["max_size"]
        assert in_pool <= set(backends(su, database))
    wait_until_gone(su, database)


def test_a_program_that_forgets_to_close_ends_quietly(db_dsn: str) -> None:
    script = (
        "import sys, remem_pg; m = remem_pg.Remem(sys.argv[1], workspace='a', embedding=None);"
        "m.remember('x'); print(m.count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, db_dsn], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


# a server that goes away


@pytest.mark.parametrize("given", [False, True], ids=["own pool", "given pool"])
def test_after_a_restart_idle_connections_are_replaced_unnoticed(
    db_dsn: str, su: psycopg.Connection[Any], database: str, given: bool
) -> None:
    pool = ConnectionPool(db_dsn, min_size=3, max_size=4, open=given)
    with Remem(pool if given else db_dsn, workspace="acme", embedding=None) as client:
        client.remember("one")
        client.recall("one")
        kill(su, database)
        assert client.remember("two").outcome == "created"
        kill(su, database)
        assert client.count() == 2
    if given:
        pool.close()


def test_a_read_whose_connection_dies_under_it_is_sent_once_more_and_a_write_is_not(
    db_dsn: str,
    su: psycopg.Connection[Any],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kwargs = {"autocommit": True}
    with ConnectionPool(db_dsn, min_size=1, max_size=1, kwargs=kwargs, open=True) as pool:
        client = Remem(pool, workspace="acme", embedding=None)
        client.remember("one")
        # the look at the socket is taken away: the death is only seen by the statement
        monkeypatch.setattr(wire, "is_alive", lambda pgconn: True)
        kill(su, database)
        assert client.count() == 1
        kill(su, database)
        with pytest.raises(ServerUnavailable):
            client.remember("two")
        assert client.count() == 1


def test_a_connection_of_the_callers_that_died_is_a_typed_error(
    db_dsn: str, su: psycopg.Connection[Any], database: str
) -> None:
    conn = psycopg.connect(db_dsn, autocommit=True)
    client = Remem(conn, workspace="acme", embedding=None)
    client.count()
    kill(su, database)
    with pytest.raises(ServerUnavailable):
        client.count()


def test_a_statement_that_took_too_long_is_a_typed_error(db_dsn: str, mem: Remem) -> None:
    mem.remember("one")
    with psycopg.connect(db_dsn, autocommit=True, options="-c statement_timeout=1ms") as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        with pytest.raises(CallAborted, match="nothing of this call was stored") as caught:
            client.remember_many([{"body": f"note {n} " * 50} for n in range(300)])
        assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled)
    assert mem.count() == 1


def test_a_lock_that_is_not_to_be_had_is_a_typed_error(
    db_dsn: str, su: psycopg.Connection[Any], mem: Remem
) -> None:
    mem.remember("one", ref="r")
    dsn = psycopg.conninfo.make_conninfo(db_dsn, options="-c lock_timeout=50ms")
    with Remem(dsn, workspace="acme", embedding=None) as client:
        client.count()
        with su.transaction():
            su.execute("lock table remem.memory")
            with pytest.raises(CallAborted, match="lock timeout"):
                client.recall("one")
            with pytest.raises(CallAborted, match="lock timeout"):
                client.remember("two")
        assert client.count() == 1


def test_a_callers_transaction_that_was_idle_too_long_is_a_lost_connection(db_dsn: str) -> None:
    options = "-c idle_in_transaction_session_timeout=50ms"
    with psycopg.connect(db_dsn, options=options) as conn:
        client = Remem(conn, workspace="acme", embedding=None)
        client.count()
        until(lambda: not wire.is_alive(conn.pgconn))
        with pytest.raises(ServerUnavailable):
            client.count()


# the tenant setting


def test_strict_mode_wants_the_setting_and_a_tenant_client_makes_it(
    db_dsn: str, mem: Remem
) -> None:
    mem.remember("We retry three times.")
    mem.configure("tenant_mode", "strict")
    never = Remem(db_dsn, workspace="acme", embedding=None, tenant=False)
    with never, pytest.raises(TenantNotSet, match="set_config"):
        never.count()
    with Remem(db_dsn, workspace="acme", embedding=None, tenant=True) as strict:
        assert strict.count() == 1
        assert strict.recall("retry")[0].rank == 1
        assert strict.recall_explain("retry")["hits"]
        assert strict.remember("x").outcome == "created"
        assert len(strict.remember_many([{"body": f"n {n}"} for n in range(5)], batch_size=2)) == 5
        assert strict.current_space().name == "hash"
        assert strict.workspace("beta").count() == 0
        assert strict.version().details["tenant_mode"] == "strict"


def test_the_setting_of_the_callers_own_transaction_is_given_back(db_dsn: str, mem: Remem) -> None:
    with psycopg.connect(db_dsn) as conn:
        conn.execute("select set_config('remem.workspace', 'mine', true)")
        Remem(conn, workspace="acme", embedding=None, tenant=True).remember("x")
        row = conn.execute("select current_setting('remem.workspace')").fetchone()
        assert row == ("mine",)
        plain = Remem(conn, workspace="acme", embedding=None)
        with pytest.raises(NoAccess):
            plain.count()
