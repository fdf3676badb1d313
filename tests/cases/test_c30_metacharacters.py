"""C30: what means something to SQL or to jsonpath is only text: in names, keys, values, options."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from remem_pg import InvalidArgument, Remem, UnknownOption
from tests.support.memories import Connection, value

NASTY = [
    "'", '"', "\\", "''", '""', "\\'", '\\"', "$", "$$", "$.x", "@", "*", "%", "_", "?", "||", "&&",
    "--", "/* */", ";", "') or true --", '") || (1 == 1', "'; drop schema remem cascade; --",
    "{}", "[]", "null", "true", "\\u0022", "\\x27", "%s", "%(workspace)s", "{0}", "\n", "\t", "é",
    "e\u0301", "\u2028", "\ufeff", "😀", "x' union select 1 --", "like_regex \"(\\1)\"",
]  # fmt: skip


@pytest.fixture(scope="module")
def client(file_dsn: str) -> Iterator[Remem]:
    with Remem(file_dsn, workspace="w", embedding=None) as made:
        yield made


@pytest.fixture
def mem(client: Remem, own_name: str) -> Remem:
    """A client of a workspace of the test's own."""
    return client.workspace(own_name)


STORED = "select count(*) from remem.memory where workspace = %s"


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("nasty", NASTY)
def test_a_value_and_a_key_are_found_by_themselves_and_by_nothing_else(
    mem: Remem, nasty: str
) -> None:
    mem.remember("heron one", ref=nasty, tags=[nasty, "plain"], metadata={nasty: nasty, "v": nasty})
    mem.remember("heron two", ref="two", tags=["plain"], metadata={"v": nasty + "x"})
    name = '"' + nasty.replace('"', '""') + '"'
    for where in (
        f"ref = {sql_text(nasty)}",
        f"ref in ({sql_text(nasty)}, 'nothing')",
        f"{sql_text(nasty)} = any(tags)",
        f"tags @> array[{sql_text(nasty)}, 'plain']",
        f"metadata.v = {sql_text(nasty)}",
        f"metadata.{name} = {sql_text(nasty)}",
        f"metadata.{name} is not null",
        f"metadata.v <> {sql_text(nasty + 'x')}",
    ):
        assert [hit.body for hit in mem.recall("heron", where=where)] == ["heron one"], where
        assert [memory.body for memory in mem.list(where=where)] == ["heron one"], where
        assert mem.count(where=where) == 1
    assert mem.get(ref=nasty) is not None
    assert len(mem.recall("heron", where="metadata.v is not null")) == 2


@pytest.mark.parametrize("nasty", NASTY)
def test_a_jsonpath_with_the_value_in_quotes_finds_it(mem: Remem, nasty: str) -> None:
    mem.remember("heron", metadata={"v": nasty})
    stored = mem.list()[0].metadata
    assert stored is not None
    filter = f"$.metadata.v == {json.dumps(stored['v'])}"
    assert len(mem.recall("heron", filter=filter)) == 1


@pytest.mark.parametrize("nasty", [name for name in NASTY if name.isprintable()])
def test_a_workspace_and_an_owner_of_that_name_are_their_own(client: Remem, nasty: str) -> None:
    mem = client.workspace(nasty)
    mem.remember("heron of this one", scope="user", scope_ref=nasty)
    mem.remember("heron of another", scope="user", scope_ref=nasty + "x")
    mem.workspace("other").remember("heron elsewhere")
    assert mem.recall("heron").degraded == ()
    hits = mem.recall("heron", scope={"user": nasty})
    assert [hit.body for hit in hits] == ["heron of this one"]
    assert mem.count(where=f"scope_ref = {sql_text(nasty)}") == 1


@pytest.mark.parametrize("nasty", NASTY)
def test_an_option_and_a_scope_of_that_name_are_refused_by_it(
    mem: Remem, file_db: Connection, own_name: str, nasty: str
) -> None:
    mem.remember("heron")
    with pytest.raises(UnknownOption) as caught:
        mem.recall("heron", **{nasty: 1})
    assert caught.value.detail["option"] == nasty
    with pytest.raises((UnknownOption, InvalidArgument)):
        mem.recall("heron", scope={nasty: "x"})
    with pytest.raises(psycopg.Error) as refused:
        file_db.execute(
            "select * from remem.recall(%s, 'heron', null, 8, %s)",
            [own_name, json.dumps({"scopes": {nasty: "x"}})],
        )
    assert refused.value.sqlstate == "RM002"
    assert value(file_db, STORED, [own_name]) == 1


@pytest.mark.parametrize("nasty", NASTY)
def test_a_condition_that_breaks_off_is_refused_and_never_runs(
    mem: Remem, file_db: Connection, own_name: str, nasty: str
) -> None:
    """The text put into a condition without quotes: an error, or a condition that it says."""
    mem.remember("heron", ref="r")
    for where in (f"kind = '{nasty}", f"ref = 'x'{nasty}", f"{nasty} = 'x'", f"ref = {nasty}"):
        try:
            hits = mem.recall("heron", where=where)
        except InvalidArgument as error:
            assert error.detail["argument"] == "where"
        else:
            assert list(hits) == []
    assert value(file_db, STORED, [own_name]) == 1
