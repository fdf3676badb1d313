"""remem.embed and remem.embed_many: the client's vectors, made inside the database."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

Connection = psycopg.Connection[Any]
Embed = Callable[[Sequence[str]], NDArray[np.float32]]

TEXTS = [
    "how often do we retry?",
    "Änderungen 改变 изменения 🙂",
    "",
    "word " * 2000,
    "We retry three times, then page.\nAnd \\ 'quotes' \"too\".",
]


def vectors(conn: Connection, query: str, *values: Any) -> NDArray[np.float32]:
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None
    return np.asarray(row[0], dtype=np.float32)


@pytest.mark.covers("RE3")
def test_the_servers_vectors_are_the_clients(db: Connection, minilm: Embed) -> None:
    mine = minilm(TEXTS)
    one_by_one = np.stack([vectors(db, "select remem.embed(%s)", text) for text in TEXTS])
    together = vectors(db, "select remem.embed_many(%s)", TEXTS)
    assert one_by_one.shape == together.shape == mine.shape
    assert (1 - (one_by_one * mine).sum(axis=1)).max() < 1e-3
    assert (1 - (together * mine).sum(axis=1)).max() < 1e-3


def test_many_texts_come_back_in_their_order(db: Connection, minilm: Embed) -> None:
    texts = [f"Memory number {n} is about topic {n % 7}." for n in range(40)]
    found = vectors(db, "select remem.embed_many(%s)", texts)
    cosines = minilm(texts) @ found.T
    # Alike as they are: each is most like the vector in its own place, but for rounding.
    assert (cosines.max(axis=1) - cosines.diagonal() < 1e-3).all()
    assert (1 - cosines.diagonal()).max() < 1e-3


def test_nothing_gives_nothing(db: Connection) -> None:
    row = db.execute(
        "select remem.embed(null), remem.embed_many('{}'), remem.embed_many(null)"
    ).fetchone()
    assert row == (None, [], None)


def test_bad_arguments_are_named(db: Connection) -> None:
    for query in (
        "select remem.embed('x', 'title')",
        "select remem.embed_many(array['x', null])",
        "select remem.embed_many(array[array['x']])",
        "select remem.embed_many(array_fill('x'::text, array[1001]))",
    ):
        with pytest.raises(psycopg.Error) as refused:
            db.execute(query.encode())
        assert refused.value.sqlstate == "RM001", query


def status(task: Path) -> dict[str, str]:
    lines = (task / "status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def test_a_session_loads_the_model_once_and_keeps_its_size(db: Connection) -> None:
    process = Path(f"/proc/{db.info.backend_pid}")

    def resident() -> int:
        return int(status(process)["VmRSS"].split()[0])  # kB

    db.execute("select remem.embed('first')")
    loaded = resident()
    for n in range(3):
        db.execute("select remem.embed_many(%s)", ([f"text {n} {i} " * 60 for i in range(16)],))
    assert resident() - loaded < 150_000


def test_no_thread_but_the_backends_own_takes_signals(db: Connection) -> None:
    db.execute("select remem.embed_many('{first,second}')")
    pid = db.info.backend_pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        blocked = int(status(task)["SigBlk"], 16)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            assert bool(blocked >> (number - 1) & 1) == (task.name != str(pid)), (task, number)


def test_a_question_embeds_in_a_read_only_transaction(db: Connection) -> None:
    with db.transaction():
        db.execute("set transaction read only")
        assert vectors(db, "select remem.embed('x')").shape == (384,)


def test_a_reader_may_embed_and_a_stranger_may_not(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    reader, stranger = make_role("reader"), make_role("stranger")
    db.execute("select remem.grant_access(%s, 'acme', 'read')", (reader,))
    assert vectors(connect(reader), "select remem.embed('x')").shape == (384,)
    with pytest.raises(psycopg.Error) as refused:
        connect(stranger).execute("select remem.embed('x')")
    assert refused.value.sqlstate == "RM301"


def test_only_the_owner_of_remem_may_call_the_superusers_part(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    admin = make_role("admin")
    db.execute("select remem.grant_access(%s, null, 'admin')", (admin,))
    for query in ("embed(array['x'])", "describe()"):
        db.execute(f"select remem_plpython.{query}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connect(admin).execute(f"select remem_plpython.{query}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(
            "create or replace function remem_plpython.describe() returns jsonb "
            "language sql as 'select null::jsonb'"
        )


def test_paths_stand_in_the_function_and_no_setting_changes_them(
    db: Connection, su: Connection
) -> None:
    row = su.execute(
        "select p.prosrc, o.rolsuper, p.proconfig from pg_proc p join pg_roles o on o.oid = "
        "p.proowner where p.oid = 'remem_plpython.embed(text[])'::regprocedure"
    ).fetchone()
    assert row is not None
    source, superuser, config = row
    assert superuser and config == ["search_path=pg_catalog, pg_temp"]
    assert "/site-packages" in source and "model.onnx" in source
    assert "current_setting" not in source and "environ" not in source and "plpy." not in source
    db.execute("set remem.model_path = '/tmp/elsewhere'")
    db.execute("set search_path = pg_temp")
    assert vectors(db, "select remem.embed('x')").shape == (384,)


def test_a_long_batch_can_be_cancelled(db: Connection) -> None:
    db.execute("select remem.embed('loads the model')")
    db.execute("set statement_timeout = '100ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        db.execute(
            "select remem.embed_many(array(select repeat('long text ' || n, 60) "
            "from generate_series(1, 1000) n))"
        )
    assert vectors(db, "select remem.embed('x')").shape == (384,)
