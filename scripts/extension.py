"""Write the Postgres extension: the same migrations and functions, packed for CREATE EXTENSION.

``python -m scripts.extension [DIRECTORY]`` writes ``remem.control``, the installation and an
upgrade from every landed version (``migrations/LANDED``) into ``dist/extension``, with a Makefile
that copies them to where a server looks. Nothing of them is kept in the repository: whatever is
built from one checkout comes from one source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from remem_pg.installing.scripts import (
    VECTOR_SCHEMA,
    VERSION,
    Script,
    functions,
    migrations,
    version_row,
)
from scripts.generated import ROOT

# Postgres before 16 does not know @extschema:vector@, and from 16 on would replace it: the
# scripts carry a name of their own and replace it themselves.
PLACEHOLDER = "@remem.vector@"
QUOTE = "$remem_file$"

CONTROL = f"""\
# Built from migrations/ and sql/ of remem-pg {VERSION}.
comment = 'long-term memory for software agents'
default_version = '{VERSION}'
requires = 'vector'
schema = 'remem'
relocatable = false
# Whoever may create a schema in the database installs it, and owns it: no superuser needed.
superuser = false
"""

MAKEFILE = """\
# make install PG_CONFIG=/usr/lib/postgresql/17/bin/pg_config
PG_CONFIG ?= pg_config
DIRECTORY = $(DESTDIR)$(shell $(PG_CONFIG) --sharedir)/extension

.PHONY: install uninstall
install:
	install -d '$(DIRECTORY)'
	install -m 644 remem.control remem--*.sql '$(DIRECTORY)'
uninstall:
	rm -f '$(DIRECTORY)'/remem.control '$(DIRECTORY)'/remem--*.sql
"""

_HEAD = """\
-- remem {version}, built from migrations/ and sql/.
\\echo Use "{command}" to load this file. \\quit

do $remem$
declare
  v_vector text := (select quote_ident(n.nspname) from pg_catalog.pg_extension e
    join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  -- Given back by CREATE and ALTER EXTENSION when the script has ended.
  perform pg_catalog.set_config('search_path', 'pg_catalog, remem, pg_temp', true);
  if current_setting('standard_conforming_strings') <> 'on' then
    raise exception using errcode = 'RM001', message = 'invalid argument',
      detail = '{{"argument": "standard_conforming_strings", "value": "off"}}',
      hint = 'set standard_conforming_strings = on, then again';
  end if;
  -- Loads pgvector, so that its settings exist.
  execute format('select ''[1]''::%s.vector', v_vector);
end
$remem$;
"""

_STANDALONE = """
do $remem$
begin
  if to_regclass('remem.schema_migration') is not null then
    raise exception using errcode = 'RM102', message = 'conflict',
      detail = '{"schema": "remem", "problem": "installed without the extension"}',
      hint = 'It is kept up to date by: remem migrate';
  end if;
end
$remem$;
"""

_COMMENT = """
do $remem$
begin
  -- CREATE EXTENSION has made the schema, where an installation without it does so in the guard.
  if obj_description('remem'::regnamespace, 'pg_namespace') is null then
    comment on schema remem is 'Long-term memory for software agents. Functions are the only door.';
  end if;
end
$remem$;
"""

_STEP = """
-- {title}
do $remem$
declare
  v_vector text := (select quote_ident(n.nspname) from pg_extension e
    join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  execute replace({quote}
{text}
{quote}, '{placeholder}', v_vector);
end
$remem$;
"""

_MIGRATION = """
-- {title}
do $remem$
declare
  v_vector text := (select quote_ident(n.nspname) from pg_extension e
    join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
  v_ran boolean := false;
begin
  if to_regclass('remem.schema_migration') is not null then
    execute 'select exists (select from remem.schema_migration where version = {version})'
      into v_ran;
  end if;
  if not v_ran then
    execute replace({quote}
{text}
{quote}, '{placeholder}', v_vector);
  end if;
end
$remem$;
"""

# What pg_dump is told, again at every upgrade, for a migration may have added a table. The ledger
# and the version are the extension's own and come with it; a kept answer is none after a restore.
_REGISTER = """
-- what a dump takes along
do $remem$
declare
  v_table record;
begin
  for v_table in
    select c.oid::regclass as name, c.relname from pg_class c
    join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
    join pg_extension e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
      and e.extname = 'remem'
    where c.relkind in ('r', 'S') order by c.relname
  loop
    perform pg_extension_config_dump(v_table.name, case
      when v_table.relname in ('schema_migration', 'query_cache') then 'where false'
      when v_table.relname = 'setting' then 'where name not in (''version'', ''compatibility'')'
      else '' end);
  end loop;
end
$remem$;
"""

# A dump creates the extension and then copies every row of these tables, the ones of the
# installation too, which an administrator may have changed. pg_dump and pg_restore run with
# row_security = off, and nobody else has a reason to: the rows of the installation then make room.
_MAKE_ROOM = """
-- while a dump is restored
do $remem$
declare
  v_table record;
begin
  if current_setting('row_security') = 'off' then
    for v_table in
      select c.oid::regclass as name from pg_class c
      where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r'
        and c.relname not in ('schema_migration', 'setting')
    loop
      execute format('delete from %s', v_table.name);
    end loop;
    delete from remem.setting where name not in ('version', 'compatibility');
  end if;
end
$remem$;
"""


def _quoted(text: str) -> str:
    assert QUOTE not in text, "a file of sql/ or migrations/ uses the quote of the extension"
    assert PLACEHOLDER not in text
    return text.replace(VECTOR_SCHEMA, PLACEHOLDER)


def _step(title: str, text: str) -> str:
    return _STEP.format(title=title, text=_quoted(text), quote=QUOTE, placeholder=PLACEHOLDER)


def _migration(script: Script) -> str:
    return _MIGRATION.format(
        title=script.name,
        version=script.version,
        text=_quoted(script.text + "\n" + script.ledger_row),
        quote=QUOTE,
        placeholder=PLACEHOLDER,
    )


def _steps() -> Iterator[str]:
    """What an installation and an upgrade have in common: all of it, but for what ran before."""
    guard, *rest = functions()
    yield _step(*guard)
    yield _COMMENT
    for script in migrations():
        yield _migration(script)
    for name, text in rest:
        yield _step(name, text)
    yield _step("version", version_row())
    yield _REGISTER


def install_script() -> str:
    """``remem--VERSION.sql``."""
    head = _HEAD.format(version=VERSION, command="create extension remem")
    return "".join([head, _STANDALONE, *_steps(), _MAKE_ROOM])


def upgrade_script() -> str:
    """``remem--OLD--VERSION.sql``: the same for every OLD, because the ledger knows what ran."""
    head = _HEAD.format(version=VERSION, command="alter extension remem update")
    return "".join([head, *_steps()])


def landed() -> list[str]:
    """The versions that databases may have, oldest first."""
    return (ROOT / "migrations" / "LANDED").read_text().split()


def build(directory: Path) -> list[Path]:
    """Writes the extension's files; what an earlier build left there is removed."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("remem--*.sql"):
        old.unlink()
    files = {
        "remem.control": CONTROL,
        "Makefile": MAKEFILE,
        f"remem--{VERSION}.sql": install_script(),
        **{f"remem--{old}--{VERSION}.sql": upgrade_script() for old in landed() if old != VERSION},
    }
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in files]


def main() -> int:
    parser = argparse.ArgumentParser(description="write the files of the Postgres extension")
    parser.add_argument(
        "directory", nargs="?", type=Path, default=ROOT / "dist" / "extension", help="where to"
    )
    for path in build(parser.parse_args().directory):
        print(f"{path}: {path.stat().st_size // 1024 or 1} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
