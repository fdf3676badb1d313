"""Dumps of an installation: the programs, what is put into one, and everything that is in it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from remem_pg.errors import EmbeddedUnavailable
from remem_pg.server.programs import find_binaries
from tests.server import Server

Connection = psycopg.Connection[Any]

QUESTIONS = [
    "how often do we retry?",
    "what did Ana say about the deployment?",
    "who is called Turing",
    "納期はいつですか",
    "ERR_4071",
]


class Programs:
    """pg_dump, pg_restore and psql of one release, not older than the server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._directory / program), *args],
            env={**os.environ, "PGOPTIONS": ""},
            check=False,
            capture_output=True,
            text=True,
        )


def fitting_programs(server: Server) -> Programs:
    """Those of the oldest release that can dump the run's server."""
    with psycopg.connect(server.superuser_dsn()) as conn:
        needed = conn.info.server_version // 10000
    places = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/pg_dump")]
    with contextlib.suppress(EmbeddedUnavailable):
        places.append(find_binaries())
    if found := shutil.which("pg_dump"):
        places.append(Path(found).parent)
    fitting = {}
    for place in places:
        said = subprocess.run([str(place / "pg_dump"), "--version"], capture_output=True, text=True)
        major = int(re.findall(r"\d+", said.stdout)[0])
        if major >= needed:
            fitting.setdefault(major, place)
    assert fitting, f"no pg_dump of release {needed} or later"
    return Programs(fitting[min(fitting)])


def fill(conn: Connection) -> None:
    """Two workspaces with a conversation, versions, vectors and postings of the past."""
    for name in ("acme", "記憶"):
        items = [
            ("We retry three times, then page.", "retries", None, None),
            ("The office cat is called Turing.", None, None, None),
            ("The deployment is on Tuesday.", None, "standup", "Ana"),
            ("Then I will be away.", None, "standup", "Ben"),
            ("納期は金曜日です。", None, None, None),
            ("The log says ERR_4071.", None, None, None),
        ]
        for body, ref, session, speaker in items:
            conn.execute(
                "select remem.remember(%s, %s, ref => %s, session_ref => %s, speaker => %s, "
                "tags => '{a,b}', metadata => '{\"n\": 1}')",
                (name, body, ref, session, speaker),
            )
        conn.execute("select remem.remember(%s, 'We retry five times.', ref => 'retries')", (name,))
    conn.execute(
        'select remem.register_space(\'{"name": "n", "backend": "b", "asset": "a", '
        '"dimensions": 2}\')'
    )
    conn.execute("select remem.configure('tenant_mode', 'shared')")


def rows(conn: Connection) -> dict[str, list[Any]]:
    """Everything in every table."""
    names = [
        name
        for (name,) in conn.execute(
            "select c.oid::regclass::text from pg_class c "
            "where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r'"
        ).fetchall()
    ]
    # A migration renews when these were said; what they say is compared.
    dated = "- 'updated_at'" if "remem.setting" in names else ""
    return {
        name: conn.execute(
            f"select to_jsonb(t) {dated} as r from {name} t order by 1".encode()
        ).fetchall()
        for name in names
    }


def answers(conn: Connection) -> list[Any]:
    return [
        conn.execute(
            "select to_jsonb(r) from remem.recall(%s, %s) r", (workspace, question)
        ).fetchall()
        for workspace in ("acme", "記憶")
        for question in QUESTIONS
    ]
