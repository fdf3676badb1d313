"""remember_stream, export and import_records of both clients, and what they make of bad files."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from remem_pg import (
    AsyncRemem,
    InvalidArgument,
    NoAccess,
    NotFound,
    Remem,
    TextRefused,
    UnknownOption,
)
from tests.server import Server
from tests.support.consistency import problems
from tests.support.databases import fresh, owner
from tests.support.memories import Connection
from tests.support.tables import contents


class Two:
    """A model of two dimensions: how many letters, how many spaces."""

    id = "two"
    dimensions = 2

    def embed(self, texts: Any) -> Any:
        return np.array([[len(t) - t.count(" ") + 0.5, t.count(" ") + 0.1] for t in texts], "f4")


def notes(count: int) -> list[dict[str, Any]]:
    return [{"body": f"Note {n} about the harbour.", "ref": f"r{n}"} for n in range(count)]


@pytest.fixture
def lines(mem: Remem) -> list[str]:
    """An export of three memories, one superseded."""
    mem.remember("Blue.", ref="c")
    mem.remember("Green.", ref="c")
    mem.remember("The heron is a bird.", session_ref="s", speaker="Ana")
    found: list[str] = []
    mem.export(found.append)
    return found


# -- many ------------------------------------------------------------------------------------------


def test_a_stream_is_read_batch_by_batch_and_reported_as_it_goes(mem: Remem) -> None:
    read = 0

    def items() -> Iterator[Any]:
        nonlocal read
        for item in notes(450):
            read += 1
            yield item

    seen: list[tuple[int, int]] = []
    report = mem.remember_stream(
        items(), batch_size=100, on_batch=lambda r: seen.append((r.items, read))
    )
    assert report.outcomes == {"created": 450}
    assert [done for done, _ in seen] == [100, 200, 300, 400, 450]
    assert all(ahead - done <= 200 for done, ahead in seen)
    assert mem.remember_stream(notes(450)).outcomes == {"unchanged": 450}


def test_a_stream_that_fails_leaves_nothing(mem: Remem) -> None:
    with pytest.raises(InvalidArgument) as caught:
        mem.remember_stream([*notes(300), {"body": "x", "kind": "poem"}], batch_size=100)
    assert caught.value.item_no == 301
    assert mem.count() == 0


def test_a_stream_in_report_mode_stores_the_rest(mem: Remem) -> None:
    items = notes(150)
    items[120] = {"body": ""}
    report = mem.remember_stream(items, on_error="report", batch_size=60)
    assert (report.items, report.outcomes, report.refused_count) == (150, {"created": 149}, 1)
    assert [ref.item_no for ref in report.refused] == [121]


def test_large_batches_are_copied_and_small_ones_are_not(
    mem: Remem, db: Connection, su: Connection
) -> None:
    su.execute("alter function remem.remember_many rename to _elsewhere")
    assert {ref.outcome for ref in mem.remember_many(notes(80))} == {"created"}
    su.execute("alter function remem._elsewhere rename to remember_many")
    su.execute("alter function remem.remember_staged rename to _elsewhere")
    assert {ref.outcome for ref in mem.remember_many(notes(20))} == {"unchanged"}


def test_where_no_temporary_table_may_be_made_the_items_go_another_way(
    db_dsn: str, su: Connection
) -> None:
    name = su.info.dbname
    su.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
    owner_ = psycopg.conninfo.conninfo_to_dict(db_dsn)["user"]
    su.execute(
        sql.SQL("alter database {} owner to {}").format(
            sql.Identifier(name), sql.Identifier(su.info.user)
        )
    )
    try:
        with Remem(db_dsn, workspace="acme", embedding=None) as mem:
            assert len(mem.remember_many(notes(80))) == 80
            assert mem.remember_stream(notes(300), batch_size=100).outcomes == {
                "created": 220,
                "unchanged": 80,
            }
    finally:
        su.execute(
            sql.SQL("alter database {} owner to {}").format(
                sql.Identifier(name), sql.Identifier(str(owner_))
            )
        )


def test_an_older_database_without_staging_tables_is_written_all_the_same(
    mem: Remem, su: Connection
) -> None:
    su.execute("drop function remem.stage, remem.remember_staged")
    assert {ref.outcome for ref in mem.remember_many(notes(120), batch_size=60)} == {"created"}
    assert mem.count() == 120


def test_a_copy_works_whatever_the_encoding_of_the_connection(db_dsn: str, db: Connection) -> None:
    db.execute("select remem.create_workspace('acme')")
    items = [{"body": f"Größe {n}"} for n in range(80)]
    with psycopg.connect(db_dsn, autocommit=True, client_encoding="latin1") as conn:
        assert len(Remem(conn, workspace="acme", embedding=None).remember_many(items)) == 80
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        assert {memory.body for memory in mem.list(limit=100)} == {i["body"] for i in items}


@pytest.mark.parametrize("tenant", [True, None])
def test_in_strict_mode_everything_works_with_the_tenant(
    db: Connection, db_dsn: str, tenant: bool | None
) -> None:
    db.execute("select remem.configure('tenant_mode', 'strict')")
    with Remem(db_dsn, workspace="acme", embedding=None, tenant=tenant) as mem:
        mem.remember_many(notes(120), batch_size=60)
        found: list[str] = []
        mem.export(found.append)
        assert mem.workspace("copy").import_records(found).records["memory"] == {"created": 120}


# -- there and back --------------------------------------------------------------------------------


def test_vectors_come_back_bit_for_bit_and_bring_their_model(
    db_dsn: str, db: Connection, server: Server
) -> None:
    found: list[str] = []
    with Remem(db_dsn, workspace="acme", embedding=Two()) as mem:
        mem.remember_many(notes(30))
        mem.remember("Another text.", ref="r1")
        report = mem.export(found.append, vectors=True)
        asked = [(hit.memory_id, hit.score) for hit in mem.recall("note 7 about", k=20)]
    assert report.vectors
    assert report.counts["memory"] == 31
    assert json.loads(found[0])["space"]["name"] == "two"
    with fresh(server) as name, owner(server, name) as conn:
        with Remem(server.owner_dsn(name), workspace="acme", embedding=Two()) as there:
            taken = there.import_records(found)
            assert (taken.vectors, taken.vectors_dropped) == (31, 0)
            back = [(hit.memory_id, hit.score) for hit in there.recall("note 7 about", k=20)]
        assert back == asked
        # the same numbers of spaces: two models in each database
        assert contents(conn, "acme", without=("created_at",)) == contents(
            db, "acme", without=("created_at",)
        )
        assert problems(conn) == []


def test_vectors_of_another_model_are_left_out_and_counted(db_dsn: str, mem: Remem) -> None:
    found: list[str] = []
    with Remem(db_dsn, workspace="two", embedding=Two()) as other:
        other.remember_many(notes(3))
        other.export(found.append, vectors=True)
    mem.remember("Something is here already.")
    report = mem.import_records(found)
    assert (report.vectors, report.vectors_dropped) == (0, 3)
    assert report.records["memory"] == {"created": 3}
    assert mem.recall("harbour", mode="vector")  # made by the server, as for any memory


def test_the_asynchronous_client_does_the_same(db_dsn: str, lines: list[str]) -> None:
    async def run() -> None:
        async with AsyncRemem(db_dsn, workspace="copy", embedding=None) as mem:
            report = await mem.import_records(lines)
            assert report.records["memory"] == {"created": 3}
            again: list[str] = []
            written = await mem.export(again.append)
            assert written.counts["memory"] == 3
            assert again[1:] == lines[1:]
            streamed = await mem.remember_stream(iter(notes(120)), batch_size=60)
            assert streamed.outcomes == {"created": 120}

    asyncio.run(run())


def test_an_export_of_nothing_is_an_error(mem: Remem) -> None:
    with pytest.raises(NotFound):
        mem.export(print)


def test_a_role_that_may_not_write_imports_nothing(
    db: Connection,
    server: Server,
    database: str,
    make_role: Callable[..., str],
    lines: list[str],
) -> None:
    role = make_role("reader")
    db.execute("select remem.grant_access(%s, 'copy', 'read')", [role])
    with (
        Remem(server.dsn(role, database), workspace="copy", embedding=None) as mem,
        pytest.raises(NoAccess),
    ):
        mem.import_records(lines)


# -- files that are not whole ----------------------------------------------------------------------


def test_a_file_that_was_cut_off_stores_nothing(mem: Remem, lines: list[str]) -> None:
    copy = mem.workspace("copy")
    for cut in (
        lines[:-1],
        lines[:2],
        [*lines[:2], *lines[3:]],
        [*lines[:-1], lines[3], lines[-1]],
    ):
        with pytest.raises(InvalidArgument, match="not whole"):
            copy.import_records(cut)
        assert copy.count() == 0


@pytest.mark.parametrize("counts", [5, None, [], "x", {"memory": "3"}, {"memory": None}])
def test_an_end_without_counts_is_named(mem: Remem, lines: list[str], counts: Any) -> None:
    other = mem.workspace("other")
    bad = [*lines[:-1], json.dumps({"type": "end", "counts": counts})]
    for end in (bad, [*lines[:-1], '{"type": "end"}']):
        with pytest.raises(InvalidArgument, match=f"line {len(lines)}: .* counts"):
            other.import_records(end)
    assert other.count() == 0
    report = other.import_records(bad, on_error="report")
    assert report.refused_count == 1


@pytest.mark.parametrize("first", ["", "{}", "[]", '{"body": "x"}', '{"type": "memory"}', "x"])
def test_a_file_without_a_header_is_no_export(mem: Remem, first: str) -> None:
    with pytest.raises(InvalidArgument, match="line 1"):
        mem.import_records([first])


def test_a_file_of_a_later_format_says_what_to_do(mem: Remem, lines: list[str]) -> None:
    later = json.dumps({**json.loads(lines[0]), "format": 2})
    with pytest.raises(InvalidArgument) as caught:
        mem.import_records([later, *lines[1:]])
    assert "upgrade" in (caught.value.hint or "")


def test_a_key_of_a_later_version_is_refused_with_its_line(mem: Remem, lines: list[str]) -> None:
    at = next(n for n, line in enumerate(lines) if '"memory"' in line)
    changed = [*lines]
    changed[at] = json.dumps({**json.loads(lines[at]), "mood": "good"})
    copy = mem.workspace("copy")
    with pytest.raises(UnknownOption, match=f"line {at + 1}") as caught:
        copy.import_records(changed)
    assert "upgrade" in (caught.value.hint or "")
    assert copy.count() == 0
    report = copy.import_records(changed, on_error="report")
    assert [one["line"] for one in report.refused] == [at + 1]
    assert report.records["memory"] == {"created": 2, "refused": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON"),
        (b'{"type": "memory", "body": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"type": "memory", "body": "x", "importance": NaN}', "NaN is not a JSON number"),
        (b'{"type": "memory", "body": "x", "embedding": "AAAA"}', "embedding"),
        (b'{"type": "memory", "body": "x", "embedding": 7}', "embedding"),
    ],
)
def test_a_line_that_is_no_record_is_named(
    mem: Remem, lines: list[str], line: bytes, problem: str
) -> None:
    whole = [*(each.encode() for each in lines[:2]), line, *(each.encode() for each in lines[2:])]
    copy = mem.workspace("copy")
    with pytest.raises((InvalidArgument, TextRefused), match=re.escape("line 3")) as caught:
        copy.import_records(whole)
    assert problem in caught.value.sentence()
    assert copy.count() == 0
    assert [one["line"] for one in copy.import_records(whole, on_error="report").refused] == [3]
