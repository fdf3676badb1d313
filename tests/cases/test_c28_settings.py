"""C28: every session setting is the same before, during and after each public function."""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg
import pytest

from tests.access.doors import doors, furnish
from tests.support.memories import Connection, remember

CALLS = [
    "select remem.remember('w', 'The queue retries.', ref => 'r', session_ref => 's')",
    """select remem.remember_many('w', '[{"body": "x", "occurred_at": "2026-01-01"}]')""",
    "select * from remem.get('w', ref => 'r')",
    "select * from remem.list('w', '$.kind == \"semantic\"')",
    "select remem.count('w')",
    "select * from remem.recall('w', 'queue')",
    """select * from remem.recall('w', 'queue', options => '{"filter": "$.kind == \\"task\\""}')""",
    "select remem.recall_explain('w', 'queue')",
    "select remem.create_workspace('v')",
    "select remem.hash_embed('queue')",
    "select remem.current_space('w')",
    "select remem.version()",
    "select remem.register_space("
    """'{"name": "t", "backend": "t", "asset": "t", "dimensions": 3}')""",
    "select remem.activate_space('hash')",
    "select remem.configure('tenant_mode', 'shared')",
]
FAILING = [
    "select remem.remember('w', '')",
    """select remem.remember_many('w', '[{"body": 1, "x": 1}]')""",
    "select * from remem.recall('w', 'queue', k => 0)",
    "select * from remem.recall('w', 'queue', array[1, 2]::real[])",
]
SETTINGS = "select name, setting from pg_settings order by name"


@pytest.mark.parametrize("call", CALLS)
def test_a_public_function_leaves_every_setting_alone(db: Connection, call: str) -> None:
    db.execute("set timezone = 'Asia/Tokyo'")
    db.execute("set datestyle = 'SQL, DMY'")
    db.execute("set search_path = ''")
    db.execute("set extra_float_digits = 0")
    db.execute("select '[1]'::public.vector")  # libraries bring their settings when first used
    db.execute("do 'begin end'")
    before = db.execute(SETTINGS).fetchall()
    with db.transaction():
        db.execute(call)
        assert db.execute(SETTINGS).fetchall() == before
    assert db.execute(SETTINGS).fetchall() == before


@pytest.mark.parametrize("call", FAILING)
def test_a_refused_call_leaves_every_setting_alone(db: Connection, call: str) -> None:
    remember(db, "w", "The queue retries.")
    before = db.execute(SETTINGS).fetchall()
    with db.transaction():
        with pytest.raises(psycopg.Error), db.transaction():
            db.execute(call)
        assert db.execute(SETTINGS).fetchall() == before


READING = [call for call in CALLS if any(f".{name}(" in call for name in (
    "get", "list", "count", "recall", "recall_explain", "hash_embed", "current_space", "version",
))]  # fmt: skip


@pytest.mark.parametrize("call", READING)
def test_what_only_reads_works_in_a_read_only_transaction(db: Connection, call: str) -> None:
    remember(db, "w", "The queue retries.", ref="r")
    expected: list[Any] = db.execute("select count(*) from (" + call + ") s").fetchall()
    with db.transaction():
        db.execute("set transaction read only")
        assert db.execute("select count(*) from (" + call + ") s").fetchall() == expected


@pytest.mark.parametrize("given", ["working", "refused"])
def test_every_public_function_leaves_every_setting_of_a_pooled_session_alone(
    db: Connection, given: str
) -> None:
    """One session serves one tenant after the other; whatever a call set would meet the next."""
    furnish(db)
    db.execute("select '[1]'::public.vector")
    with db.transaction():
        db.execute("select set_config('remem.workspace', 'acme', true)")
        before = db.execute(SETTINGS).fetchall()
        tenant = "select current_setting('remem.workspace', true), current_setting('role')"
        as_set = db.execute(tenant).fetchone()
        for door in doors(db):
            with contextlib.suppress(psycopg.Error), db.transaction(force_rollback=True):
                door.call(db, door.working() if given == "working" else door.nulls())
            assert db.execute(SETTINGS).fetchall() == before, door.name
            assert db.execute(tenant).fetchone() == as_set, door.name
    assert db.execute(tenant).fetchone() in [("", "none"), (None, "none")]
