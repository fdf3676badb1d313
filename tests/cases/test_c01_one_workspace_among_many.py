"""C1: k hits in one of 500 small workspaces, and in one of ten that hold a tenth of the table each,
as the owner and as a role that was granted it, on an analysed table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.server import Server
from tests.support.databases import filled, indexes_last, owner
from tests.support.memories import Connection, open_space

SMALL, TENTHS = 500, 10
ROWS = {"small": 100, "tenth": 5_000}
VECTOR = [0.5, -0.25, 0.125, 0.3, -0.4, 0.2, 0.1, -0.1]

FILL = """
create temp table made as
select w.workspace, n, row_number() over (order by n::float8 / w.size, w.workspace) as memory_no
from (
  select 'small ' || i as workspace, %(small)s as size from generate_series(1, %(smalls)s) i
  union all select 'tenth ' || i, %(tenth)s from generate_series(1, %(tenths)s) i
) w cross join lateral generate_series(1, w.size) n
"""
TABLES = (
    """
    insert into remem.memory (workspace, memory_no, kind, scope, body, source_class, attrs,
      fingerprint, content_hash, doc_len, lexemes, analyser_no)
    select workspace, memory_no, 'semantic', 'global', 'common v' || n, 'unspecified',
      jsonb_build_object('workspace', workspace, 'kind', 'semantic', 'half', n % 2),
      sha256(n::text::bytea), '', 2, array['common', 'v' || n], 1
    from made order by workspace, memory_no
    """,
    """
    insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)
    select remem._workspace_key(m.workspace), remem._word(l.lexeme), m.memory_no, 2, 1
    from made m cross join lateral (values ('common'), ('v' || n)) l (lexeme)
    order by 1, 2, 3
    """,
    """
    insert into remem.embedding_2
    select workspace, memory_no, array(
      select (random() - 0.5 + 0 * memory_no)::real from generate_series(1, 8))
    from made order by workspace, memory_no
    """,
    """
    insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)
    select workspace, s, count(*), case s when 0 then 2 * count(*) else 0 end
    from made cross join (values (0), (2)) x (s) group by workspace, s
    """,
)


def fill(db: Connection) -> None:
    open_space(db, "c1", 8)
    sizes = {"small": ROWS["small"], "smalls": SMALL, "tenth": ROWS["tenth"], "tenths": TENTHS}
    db.execute("select setseed(0.1)")
    db.execute(FILL, sizes)
    db.execute(
        "select count(remem.create_workspace(w)) from (select distinct workspace from made) m (w)"
    )
    with indexes_last(db, "memory", "posting", "embedding_2"):
        for statement in TABLES:
            db.execute(statement)
    db.execute("vacuum analyze")


@pytest.fixture(scope="module")
def many(server: Server) -> Iterator[str]:
    with filled(server, fill) as name:
        yield name


@pytest.fixture(scope="module")
def callers(server: Server, many: str) -> Iterator[dict[str, Connection]]:
    role = server.new_role("reader")
    with ExitStack() as stack:
        stack.callback(server.drop_role, role)
        db = stack.enter_context(owner(server, many))
        for workspace in ("small 250", "small 1", "tenth 5"):
            db.execute("select remem.grant_access(%s, %s, 'read')", [role, workspace])
        reader = stack.enter_context(psycopg.connect(server.dsn(role, many), autocommit=True))
        yield {"owner": db, "granted role": reader}


@pytest.mark.parametrize("who", ["owner", "granted role"])
@pytest.mark.parametrize("workspace", ["small 250", "small 1", "tenth 5"])
@pytest.mark.parametrize("k", [1, 10, 20, 50])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "vector"},
        {"mode": "lexical"},
        {"mode": "retrieval_only"},
        {"arms": ["vector"], "filter": "$.half == 1"},
        {"filter": "$.half == 1"},
    ],
    ids=str,
)
def test_as_many_rows_come_back_as_were_asked_for(
    callers: dict[str, Connection], who: str, workspace: str, k: int, options: dict[str, Any]
) -> None:
    rows = (
        callers[who]
        .execute(
            "select memory_id, body from remem.recall(%s, 'common', %s::real[], %s, %s)",
            [workspace, VECTOR, k, Jsonb({**options, "graph": "never"})],
        )
        .fetchall()
    )
    assert len({row[0] for row in rows}) == k
    if "filter" in options:
        assert {int(body.split("v")[1]) % 2 for _, body in rows} == {1}
