"""docs/schema.sql: what all migrations and functions come to, as pg_dump sees it.

A reviewer reads here what a change does to tables, types and indexes, whatever the migrations on
the way were. Of functions it has the head alone: their bodies are in ``sql/`` as they are written,
their comments in docs/sql-api.md. ``--check`` fails when it is not fresh.
"""

from __future__ import annotations

import re
import subprocess
import sys

from evals.database import temporary_server
from remem_pg.server.programs import find_binaries
from scripts.generated import ROOT, settle

_HEADER = re.compile(r"--\n-- Name: (?P<name>.*); Type: (?P<type>[A-Z ]+); Schema: .*\n--\n\n")
# Where the head of a function ends: a quoted body, or one of the standard's form.
_BODY = re.compile(r"\n    (AS \$|BEGIN ATOMIC\n|RETURN )")
_SESSION = re.compile(r"^(SET|SELECT pg_catalog\.set_config|\\(un)?restrict)\b.*\n", re.MULTILINE)

_PREAMBLE = """\
-- Written by `./run docs` from a dump of a fresh installation; not to be run.
-- Tables, types, indexes and rights in full; functions by their heads, their bodies are in sql/.
"""


def dump() -> str:
    """pg_dump of the schema of a fresh installation on the embedded server."""
    with temporary_server() as server:
        done = subprocess.run(
            [
                str(find_binaries() / "pg_dump"),
                "--schema=remem",
                "--schema-only",
                "--no-owner",
                server.admin_dsn,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    return done.stdout


def normalise(text: str) -> str:
    """The dump without what differs from run to run, and without the bodies of functions."""
    parts = _HEADER.split(text)[1:]
    kept = [_PREAMBLE]
    for name, kind, statement in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if kind == "FUNCTION":
            head = _BODY.split(statement)[0].strip()
            kept.append(" ".join(head.split()) + ";\n")
            continue
        if kind in ("COMMENT", "ACL") and name.startswith("FUNCTION "):
            continue
        clean = _SESSION.sub("", statement.split("\n--\n-- PostgreSQL database dump")[0]).strip()
        kept.append(clean + "\n")
    return "\n".join(kept)


def main() -> int:
    return settle(ROOT / "docs" / "schema.sql", normalise(dump()), "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
