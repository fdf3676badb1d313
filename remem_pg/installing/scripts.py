"""The SQL that an installation consists of, as text: migrations, functions, one script of all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from remem_pg.version import COMPATIBILITY, __version__

VERSION = __version__
#: Key of the advisory lock that lets one installer through at a time.
INSTALL_LOCK = 0x72656D656D
#: What is pinned while the scripts run: nobody else's object stands in for a built-in one while
#: ours are created, and a backslash in a literal is a backslash.
INSTALL_SETTINGS = {
    "search_path": "pg_catalog, remem, pg_temp",
    "standard_conforming_strings": "on",
}
#: Stands in the scripts for the schema where pgvector lives.
VECTOR_SCHEMA = "@extschema:vector@"


@dataclass(frozen=True, slots=True)
class Script:
    """One SQL file: its number and name from `0001_core.sql`, its text, its checksum."""

    version: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def ledger_row(self) -> str:
        """The statement that records that this migration ran."""
        values = f"{self.version}, {quote_literal(self.name)}, {quote_literal(self.sha256)}"
        return f"insert into remem.schema_migration (version, name, sha256) values ({values});"


def _folder(name: str) -> Traversable:
    """The packaged `_sql` or `_migrations`, or the repository's own in a checkout."""
    packaged = files("remem_pg") / f"_{name}"
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parents[2] / name


def _read(folder: str) -> list[tuple[str, str]]:
    found = [f for f in _folder(folder).iterdir() if f.name.endswith(".sql")]
    return [(f.name, f.read_text("utf-8")) for f in sorted(found, key=lambda f: f.name)]


@lru_cache(maxsize=1)
def migrations() -> tuple[Script, ...]:
    """The run-once scripts in order."""
    return tuple(
        Script(int(name.split("_", 1)[0]), name.removesuffix(".sql"), text)
        for name, text in _read("migrations")
    )


@lru_cache(maxsize=1)
def functions() -> tuple[tuple[str, str], ...]:
    """(file name, text) of `sql/` in load order; the guard comes first."""
    return tuple(_read("sql"))


def quote_literal(text: str) -> str:
    """The text as a literal of SQL, under standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def quote_identifier(name: str) -> str:
    """The name in SQL. Quoted even where it looks plain, for it may be a reserved word."""
    return name if name == "public" else '"' + name.replace('"', '""') + '"'


def statements(vector_schema: str, applied: frozenset[int]) -> Iterator[tuple[str, str]]:
    """(title, SQL) of every step inside the transaction, in order."""
    quoted = quote_identifier(vector_schema)
    guard, *rest = functions()
    yield guard[0], guard[1].replace(VECTOR_SCHEMA, quoted)
    for script in migrations():
        if script.version not in applied:
            text = script.text.replace(VECTOR_SCHEMA, quoted)
            yield script.name, f"{text}\n{script.ledger_row}"
    for name, text in rest:
        yield name, text.replace(VECTOR_SCHEMA, quoted)
    yield "version", version_row()


def version_row() -> str:
    """The statement that records the version and the compatibility number."""
    settings = ", ".join(
        f"({quote_literal(n)}, {quote_literal(v)})"
        for n, v in (("version", VERSION), ("compatibility", str(COMPATIBILITY)))
    )
    return (
        f"insert into remem.setting (name, value) values {settings} "
        "on conflict (name) do update set value = excluded.value, updated_at = now();"
    )


def render_sql(vector_schema: str = "public", applied: frozenset[int] = frozenset()) -> str:
    """The whole installation as one script for psql, to be read before it is run.

    `vector_schema` is where pgvector lives; migrations in `applied` are left out.
    """
    steps = "\n".join(f"-- {title}\n{text}" for title, text in statements(vector_schema, applied))
    pinned = "".join(f"set local {name} = {v};\n" for name, v in INSTALL_SETTINGS.items())
    head = (
        f"-- remem {VERSION}: run with psql --set ON_ERROR_STOP=1\n"
        "-- as the role that shall own the schema\n"
        "begin isolation level read committed read write;\n"
        f"select pg_advisory_xact_lock({INSTALL_LOCK});\n"
        f"{pinned}"
        "-- loads pgvector, so that its settings exist\n"
        f"select '[1]'::{quote_identifier(vector_schema)}.vector;\n"
    )
    return f"{head}{steps}\ncommit;\n"
