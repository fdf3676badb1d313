"""Programs that use the embedded server, and what a test asks of a server and its processes."""

from __future__ import annotations

import subprocess

import psutil
import psycopg

HOLDER = """
import sys
from remem_pg.embedded import ensure_running
print(ensure_running(sys.argv[1]), flush=True)
sys.stdin.readline()
"""
SERVER = """
import sys
from remem_pg.embedded import serve
print("stopped", serve(sys.argv[1], lambda dsn: print(dsn, flush=True)), flush=True)
"""


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def leave(child: subprocess.Popen[str]) -> None:
    """Let a holder end by itself."""
    child.communicate("\n")
    assert child.returncode == 0


def answer(dsn: str, query: str = "select 1") -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def runs(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
