"""Every block of SQL in docs/operations.md, pasted into psql as the owner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from scripts.generated import ROOT
from tests.conftest import Psql
from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.jobs import register, start
from tests.support.memories import Connection, remember

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# What only a role that may create roles can do.
ROLES = [block for block in BLOCKS if re.search(r"^(create|drop) role", block, re.MULTILINE)]


def fill(conn: Connection) -> None:
    remember(conn, "acme", "We retry three times, then page.", kind="decision", ref="retries")
    conn.execute("select remem.recall_cached('acme', 'how often do we retry?')")
    register(conn)
    start(conn, "acme")
    conn.execute("select * from remem.claim_embeddings('acme')")
    conn.execute(
        "insert into remem.recall_log (workspace, at, tier, caller, k, returned, query_hash)"
        " values ('acme', now() - interval '3 days', 'cold', 'x', 8, 1, '')"
    )
    conn.execute("select remem.maintain()")


@pytest.fixture(scope="module")
def name(server: Server) -> Iterator[str]:
    with filled(server, fill) as made:
        yield made


def test_there_are_recipes() -> None:
    assert len(BLOCKS) >= 25
    assert len(ROLES) == 2


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in ROLES])
def test_a_recipe_can_be_pasted(server: Server, name: str, psql: Psql, block: str) -> None:
    done = psql(server.owner_dsn(name), stdin=block)
    assert "ERROR" not in done.stderr


def test_the_recipes_about_roles_can_be_pasted(
    server: Server, name: str, psql: Psql, make_role: Callable[..., str]
) -> None:
    role = make_role("creator", "login createrole")
    with psycopg.connect(server.superuser_dsn(name), autocommit=True) as su:
        su.execute(f'grant remem_owner to "{role}"'.encode())
    application = f"{role}_app"
    for block in ROLES:
        psql(server.dsn(role, name), stdin=block.replace("acme_app", application))


# Recipes that show what `fill` made, by their first words.
SHOWN = (
    *("select * from remem.status", "select c.relname", "select workspace, space, memories"),
    *("select workspace, sum(recalls)", "select caller", "select day", "select workspace, tier"),
    *("select workspace, at", "select jsonb_pretty", "select workspace, kind"),
    *("select workspace, state, count", "select name, backend", "select index, state"),
)


@pytest.mark.parametrize("start", SHOWN)
def test_a_recipe_shows_something(server: Server, name: str, start: str) -> None:
    (block,) = [block for block in BLOCKS if block.startswith(start)]
    with owner(server, name) as conn:
        rows: list[tuple[Any, ...]] = conn.execute(block.encode()).fetchall()
    assert rows


def test_every_check_of_doctor_is_described(server: Server, name: str) -> None:
    table = PAGE[PAGE.index("| check | looks at |") : PAGE.index("## What is in it?")]
    described = set(re.findall(r"`([a-z_]+)(?::NAME)?`", table))
    with owner(server, name) as conn:
        rows = conn.execute("select split_part(check_name, ':', 1) from remem.doctor()")
        assert {row[0] for row in rows} == described


def test_the_exit_codes_are_those_of_the_command() -> None:
    from remem_pg.cli import settings

    codes = {int(code) for code in re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)}
    assert codes == {settings.OK, settings.PARTIAL, settings.REFUSED, settings.UNREACHABLE}
