"""The statements of docs/security.md, run as the roles they name, and what they promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from scripts.generated import ROOT
from tests.access.doors import doors

Connection = psycopg.Connection[Any]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
ROLES = ("app_role", "job_role")


class Said(NamedTuple):
    """A statement of the page: who runs it, and what the comment behind it promises."""

    who: str
    sql: str
    note: str


def statements(page: str) -> list[Said]:
    found = []
    for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL):
        head, *lines = block.strip().splitlines()
        who = re.fullmatch(r"-- as (?:the )?(\w+)", head)
        assert who, f"a block has to say who runs it: {head}"
        for line in lines:
            sql, _, note = line.partition(";")
            found.append(Said(who[1], sql.strip(), note.strip().removeprefix("--").strip()))
    return found


@pytest.fixture
def people(
    db: Connection, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> Iterator[tuple[dict[str, Connection], dict[str, str]]]:
    names = {name: make_role(name) for name in ROLES}
    yield {"owner": db} | {name: connect(role) for name, role in names.items()}, names


def test_every_statement_does_what_the_page_says(
    people: tuple[dict[str, Connection], dict[str, str]],
) -> None:
    connections, names = people
    kept = dict.fromkeys(("refused", "gives"), 0)
    for said in statements(PAGE):
        conn = connections[said.who]
        sql = said.sql
        for name, role in names.items():
            sql = sql.replace(f"'{name}'", f"'{role}'")
        refused = re.match(r"refused: (\w{5})", said.note)
        if refused:
            kept["refused"] += 1
            with pytest.raises(psycopg.Error) as error:
                conn.execute(sql.encode())
            assert error.value.sqlstate == refused[1], sql
            continue
        cursor = conn.execute(sql.encode())
        rows = cursor.fetchall() if cursor.description else []
        if said.note.startswith("gives nothing"):
            assert rows == [], sql
        elif said.note.startswith("gives: "):
            kept["gives"] += 1
            assert [str(value) for (value,) in rows] == [said.note.removeprefix("gives: ")], sql
    assert kept == {"refused": 4, "gives": 3}


def test_the_page_speaks_of_what_there_is(db: Connection) -> None:
    there = {door.name for door in doors(db)}
    named = set(re.findall(r"remem\.(\w+)\(", PAGE))
    assert named <= there
    levels = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert levels == {"read", "write", "worker", "admin"}


def test_the_readme_leads_to_it() -> None:
    assert "docs/security.md" in (ROOT / "README.md").read_text("utf-8")


def test_the_page_stays_a_page() -> None:
    assert len(PAGE.split()) < 1400
