"""The catalog of an installed database, walked: every object obeys the rules of the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.access.doors import DESCRIPTOR, doors
from tests.server import Server

Connection = psycopg.Connection[Any]

# Private functions that the planner is to inline, which a setting of their own would prevent. Each
# is arithmetic or a constant: its body names nothing that a search_path could turn into another.
INLINED = {
    "_base_score(double precision,double precision,double precision,double precision,"
    "double precision)",
}
# Tables are on nobody's door; these are the privileges that could be granted on one.
TABLE_PRIVILEGES = "select, insert, update, delete, truncate, references, trigger"


@pytest.fixture(scope="module")
def installed(server: Server) -> Iterator[Connection]:
    """The owner's connection to a database that has a space registered after the installation."""
    name = server.new_database()
    with psycopg.connect(server.owner_dsn(name), autocommit=True) as conn:
        conn.execute("select remem.register_space(%s)", (Jsonb(DESCRIPTOR),))
        yield conn
    server.drop_database(name)


def functions(conn: Connection, condition: str) -> list[str]:
    """Signatures of the schema's functions for which a condition on pg_proc `p` holds."""
    return [
        row[0].removeprefix("remem.")
        for row in conn.execute(
            f"""
            select p.oid::regprocedure::text from pg_proc p join pg_language l on l.oid = p.prolang
            where p.pronamespace = 'remem'::regnamespace and ({condition}) order by 1
            """
        )
    ]


PUBLIC = "p.proname not like '\\_%'"


def test_there_are_public_and_private_functions_to_walk(installed: Connection) -> None:
    assert len(functions(installed, PUBLIC)) >= 15
    assert len(functions(installed, f"not ({PUBLIC})")) >= 40


def test_every_routine_is_a_plain_function(installed: Connection) -> None:
    assert functions(installed, "p.prokind <> 'f'") == []


def test_every_function_has_a_comment(installed: Connection) -> None:
    missing = "coalesce(length(obj_description(p.oid, 'pg_proc')), 0) < 15"
    assert functions(installed, missing) == []


def test_every_function_pins_its_search_path_with_pg_temp_last(installed: Connection) -> None:
    pinned = "'search_path=pg_catalog, remem, pg_temp' = any (p.proconfig)"
    bound = f"(p.prosqlbody is not null and not ({PUBLIC}))"  # bound when created, to be inlined
    unpinned = functions(installed, f"({pinned} or {bound}) is not true")
    assert set(unpinned) <= INLINED, "pin the path, or say above why it need not be"


def test_an_unpinned_function_names_nothing_that_a_search_path_could_turn(
    installed: Connection,
) -> None:
    rows = installed.execute(
        "select p.oid::regprocedure::text, l.lanname, p.provolatile, p.prosrc from pg_proc p "
        "join pg_language l on l.oid = p.prolang where p.oid = any (%s::regprocedure[])",
        (["remem." + name for name in INLINED],),
    ).fetchall()
    assert len(rows) == len(INLINED)
    allowed = {"select", "case", "when", "then", "else", "end", "coalesce", "greatest", "least"}
    for signature, language, volatility, body in rows:
        assert (language, volatility) == ("sql", "i"), signature
        called = set(re.findall(r"(\w+)\s*\(", body)) - allowed
        assert called == set(), f"{signature} calls {called}"


def test_volatility_says_whether_a_function_writes(installed: Connection) -> None:
    rows = installed.execute(
        "select p.proname, p.provolatile, p.prosrc from pg_proc p "
        "where p.pronamespace = 'remem'::regnamespace"
    ).fetchall()
    sources = {
        name: re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", body).lower() for name, _, body in rows
    }
    dynamic = {name: re.sub(r"--[^\n]*", " ", body).lower() for name, _, body in rows}
    statement = re.compile(
        r"\b(insert\s+into|delete\s+from|update\s+remem|lock\s+table|for\s+update|nextval"
        r"|for\s+no\s+key\s+update|for\s+(?:key\s+)?share|create\s+table"
        r"|execute\s+format\('(?:create|drop)\s+(?:index|table)|execute\s+'create\s+or\s+replace"
        r"|revoke\s+all|pg_advisory_xact_lock)"
    )
    writers = {name for name, text in dynamic.items() if statement.search(text)}
    while True:
        more = {
            name
            for name, text in sources.items()
            if name not in writers and any(f"remem.{w}(" in text for w in writers)
        }
        if not more:
            break
        writers |= more
    assert {"remember", "_retire", "register_space", "grant_access"} <= writers
    labelled_volatile = {name for name, volatility, _ in rows if volatility == "v"}
    assert labelled_volatile == writers


def test_what_reads_is_stable_and_never_volatile(installed: Connection) -> None:
    readers = {"get", "list", "count", "recall", "recall_explain", "current_space", "version"}
    readers |= {"recall_arm", "recall_from", "recall_from_explain"}
    found = installed.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'remem'::regnamespace "
        "and p.provolatile = 's' and p.proname = any (%s)",
        (list(readers),),
    ).fetchall()
    assert {name for (name,) in found} == readers


def test_an_immutable_function_reads_no_table_and_no_setting(installed: Connection) -> None:
    rows = installed.execute(
        "select p.proname, p.prosrc from pg_proc p "
        "where p.pronamespace = 'remem'::regnamespace and p.provolatile = 'i'"
    ).fetchall()
    assert len(rows) > 5
    tables = [
        row[0]
        for row in installed.execute(
            "select relname from pg_class where relnamespace = 'remem'::regnamespace "
            "and relkind = 'r'"
        )
    ]
    reads = re.compile(
        r"current_setting|now\(\)|clock_timestamp|to_tsvector\(|"
        + "|".join(rf"\bremem\.{table}\b" for table in tables)
    )
    assert [name for name, body in rows if reads.search(body)] == []


def test_an_immutable_function_calls_no_stable_one(installed: Connection) -> None:
    rows = installed.execute(
        "select p.proname, p.provolatile, p.prosrc from pg_proc p "
        "where p.pronamespace = 'remem'::regnamespace"
    ).fetchall()
    changing = {name for name, volatility, _ in rows if volatility != "i"}
    wrong = [
        (name, called)
        for name, volatility, body in rows
        if volatility == "i"
        for called in re.findall(r"\bremem\.(\w+)\(", body)
        if called in changing
    ]
    assert wrong == []


def test_public_functions_run_as_the_owner_and_private_ones_as_the_caller(
    installed: Connection,
) -> None:
    assert functions(installed, f"p.prosecdef <> ({PUBLIC})") == []


def test_all_functions_belong_to_the_owner_of_the_schema(installed: Connection) -> None:
    owner = "(select n.nspowner from pg_namespace n where n.oid = p.pronamespace)"
    assert functions(installed, f"p.proowner <> {owner}") == []


def test_public_functions_are_executable_by_everybody_and_private_ones_by_nobody(
    installed: Connection,
) -> None:
    rows = installed.execute(
        f"""
        select p.oid::regprocedure::text, {PUBLIC}, a.grantee, a.privilege_type
        from pg_proc p
        left join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          on a.grantee <> p.proowner
        where p.pronamespace = 'remem'::regnamespace
        """
    ).fetchall()
    wrong = [
        row for row in rows if (row[2:] != (0, "EXECUTE") if row[1] else row[2:] != (None, None))
    ]
    assert wrong == []


def test_every_public_function_authorises_in_its_first_statement(installed: Connection) -> None:
    check = r"perform remem\._authorize\w*\("
    # One branch per kind of demand is a first statement too, if each branch starts with its check.
    branched = (
        rf"if workspace is null then\s+{check}[^;]*;"
        rf"(?:\s+else\s+{check}|.*?return [^;]*;\s+end if;\s+{check})"
    )
    first = re.compile(rf"\bbegin\s+(?:{check}|{branched})", re.DOTALL)
    rows = installed.execute(
        "select p.proname, l.lanname, p.prosrc from pg_proc p join pg_language l "
        f"on l.oid = p.prolang where p.pronamespace = 'remem'::regnamespace and {PUBLIC}"
    ).fetchall()
    wrong = []
    for name, language, body in rows:
        code = re.sub(r"--[^\n]*", "", body)
        declared = code[: code.find("begin")]
        # A default in the declarations runs before the first statement: constants only.
        if language != "plpgsql" or not first.search(code) or "remem._" in declared:
            wrong.append(name)
    assert wrong == []


def test_every_argument_of_a_public_function_has_a_name(installed: Connection) -> None:
    unnamed = [
        door.signature
        for door in doors(installed)
        if any(name is None or not re.fullmatch(r"[a-z_]+", name) for name, _ in door.arguments)
    ]
    assert unnamed == []


def test_a_function_about_memories_takes_the_workspace_first(installed: Connection) -> None:
    found = {
        door.name: [name for name, _ in door.arguments]
        for door in doors(installed)
        if "workspace" in dict(door.arguments)
    }
    # Administration names what it administers first.
    administration = {"grant_access", "revoke_access", "activate_space", "put_route"}
    administration |= {"drop_space", "list_grants"}
    assert {n for n, a in found.items() if a[0] != "workspace"} == administration
    assert {"remember", "recall", "get", "list", "count"} <= set(found)


def test_no_function_has_an_overload(installed: Connection) -> None:
    twice = installed.execute(
        "select proname from pg_proc where pronamespace = 'remem'::regnamespace "
        "group by proname having count(*) > 1"
    ).fetchall()
    assert twice == []


def test_a_public_function_returns_no_anonymous_record(installed: Connection) -> None:
    assert functions(installed, f"{PUBLIC} and p.prorettype = 'record'::regtype") == []


def test_only_functions_without_side_effects_are_parallel_safe(installed: Connection) -> None:
    assert functions(installed, "p.provolatile = 'v' and p.proparallel <> 'u'") == []
    # Settings of hnsw may have to be defined first, which a parallel worker cannot do.
    assert functions(installed, "p.proconfig::text like '%hnsw%' and p.proparallel <> 'u'") == []


def test_there_are_no_triggers_rules_or_policies(installed: Connection) -> None:
    found = installed.execute(
        """
        select 'trigger', t.tgname::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'remem'::regnamespace
        union all
        select 'policy', p.polname from pg_policy p join pg_class c on c.oid = p.polrelid
        where c.relnamespace = 'remem'::regnamespace
        union all
        select 'rule', r.rulename from pg_rewrite r join pg_class c on c.oid = r.ev_class
        where c.relnamespace = 'remem'::regnamespace and c.relkind = 'r'
        union all
        select 'event trigger', e.evtname from pg_event_trigger e
        """
    ).fetchall()
    assert found == []


def test_row_level_security_is_on_and_not_forced_for_every_table(installed: Connection) -> None:
    rows = installed.execute(
        "select relname, relrowsecurity, relforcerowsecurity from pg_class "
        "where relnamespace = 'remem'::regnamespace and relkind in ('r', 'p')"
    ).fetchall()
    names = {name for name, _, _ in rows}
    assert {"memory", "posting_past", "embedding_1", "embedding_2", "embedding_2_past"} <= names
    # Forced, it would make the owner's own pg_dump fail.
    assert [row for row in rows if row[1:] != (True, False)] == []


def test_nobody_but_the_owner_has_a_privilege_on_a_relation_or_a_column(
    installed: Connection,
) -> None:
    found = installed.execute(
        """
        select c.relname, a.grantee::regrole::text, a.privilege_type
        from pg_class c cross join lateral aclexplode(c.relacl) a
        where c.relnamespace = 'remem'::regnamespace and a.grantee <> c.relowner
        union all
        select c.relname || '.' || t.attname, a.grantee::regrole::text, a.privilege_type
        from pg_class c join pg_attribute t on t.attrelid = c.oid
        cross join lateral aclexplode(t.attacl) a
        where c.relnamespace = 'remem'::regnamespace and a.grantee <> c.relowner
        """
    ).fetchall()
    assert found == []


def test_everybody_may_use_the_schema_and_nobody_but_the_owner_may_create_in_it(
    installed: Connection,
) -> None:
    found = installed.execute(
        "select a.grantee, a.privilege_type from pg_namespace n "
        "cross join lateral aclexplode(n.nspacl) a "
        "where n.nspname = 'remem' and a.grantee <> n.nspowner"
    ).fetchall()
    assert found == [(0, "USAGE")]


def test_everything_in_the_schema_belongs_to_one_owner(installed: Connection) -> None:
    owners = installed.execute(
        """
        select distinct o.owner::regrole::text from (
          select nspowner from pg_namespace where nspname = 'remem'
          union all select relowner from pg_class where relnamespace = 'remem'::regnamespace
          union all select proowner from pg_proc where pronamespace = 'remem'::regnamespace
          union all select typowner from pg_type where typnamespace = 'remem'::regnamespace
        ) o (owner)
        """
    ).fetchall()
    assert owners == [("remem_owner",)]


def test_every_table_view_and_type_has_a_comment(installed: Connection) -> None:
    found = installed.execute(
        """
        select c.relname from pg_class c
        where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
          and coalesce(obj_description(c.oid, 'pg_class'), '') = ''
        union all
        select t.typname from pg_type t left join pg_class c on c.oid = t.typrelid
        where t.typnamespace = 'remem'::regnamespace and t.typcategory <> 'A'
          and (c.oid is null or c.relkind = 'c')
          and coalesce(obj_description(t.oid, 'pg_type'), '') = ''
        union all
        select n.nspname from pg_namespace n
        where n.nspname = 'remem' and obj_description(n.oid, 'pg_namespace') is null
        """
    ).fetchall()
    assert found == []


def test_views_read_with_the_rights_of_who_asks(installed: Connection) -> None:
    found = installed.execute(
        """
        select relname from pg_class
        where relnamespace = 'remem'::regnamespace and relkind in ('v', 'm')
          and (reloptions is null or not 'security_invoker=true' = any (reloptions))
        """
    ).fetchall()
    assert found == []


def test_the_workspace_leads_every_key_of_tenant_data(installed: Connection) -> None:
    rows = installed.execute(
        """
        select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid, 1, true), m.amname
        from pg_index i join pg_class c on c.oid = i.indrelid
        join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
        where c.relnamespace = 'remem'::regnamespace
          and exists (select from pg_attribute a where a.attrelid = c.oid
            and a.attname in ('workspace', 'workspace_key') and not a.attisdropped)
        """
    ).fetchall()
    assert len(rows) > 10
    # hnsw and gin take no leading text column; the filter is part of what they are asked.
    leading = {row[1] for row in rows if row[2] == "btree"}
    assert leading == {"workspace", "workspace_key"}


def test_text_that_is_compared_needs_no_locale(installed: Connection) -> None:
    rows = installed.execute(
        """
        select c.relname, a.attname
        from pg_index i join pg_class c on c.oid = i.indrelid
        join pg_attribute a on a.attrelid = i.indexrelid
        where c.relnamespace = 'remem'::regnamespace
          and a.attcollation not in (0, '"C"'::regcollation)
        """
    ).fetchall()
    assert rows == []
