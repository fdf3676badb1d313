"""C37: two processes supersede the same memory at once: one wins, the other learns it."""

from __future__ import annotations

import subprocess
import sys

from tests.support.consistency import problems
from tests.support.memories import Connection, get, remember, value

PROGRAM = """
import sys, psycopg
dsn, old, new = sys.argv[1:]
with psycopg.connect(dsn, autocommit=True) as conn:
    print("ready", flush=True)
    sys.stdin.readline()
    row = conn.execute(
        "select outcome, error #>> '{detail,replaced_by}' from remem.supersede('w', %s, %s)",
        (old, new)).fetchone()
    print(*row, flush=True)
"""


def test_two_processes_supersede_one_memory(db: Connection, db_dsn: str) -> None:
    for round_no in range(3):
        old, *new = (remember(db, "w", f"{round_no} {n}").memory_id for n in range(3))
        children = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, db_dsn, str(old), str(n)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in new
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate(timeout=60)[0].split() for child in children]
        winner = get(db, "w", memory_id=old).superseded_by
        assert sorted(said) == sorted([["superseded", "None"], ["conflict", str(winner)]])
        assert winner == new[[words[0] for words in said].index("superseded")]
    assert value(db, "select count(*) from remem.lineage") == 3
    assert problems(db) == []
